// Package io puts together the studies of input and output, S5's (Measuring the IO
// Overhead of Container Technology): memory bandwidth (package bandwidth),
// checkpoints on storage (package checkpoint), and Redis over storage and network
// (package keyvalue).
package io

import (
	"tare/record"
	"tare/study/io/bandwidth"
	"tare/study/io/checkpoint"
	"tare/study/io/keyvalue"
	"tare/study/io/place"
	"tare/study/kit"
)

// Name is the studies', in the store.
const Name = place.Study

// Studies are the three.
var Studies = kit.Family{
	Of: place.Of, Title: "tare io", Next: "tare claims S5",
	Facts: func(run record.Run) []string {
		if run.Host.FS == "" {
			return nil
		}
		return []string{"file system: " + run.Host.FS}
	},
	Members: []kit.Member{
		{
			Name: place.Stream, Title: "tare io stream", Judge: bandwidth.Judge, Answer: bandwidth.Answer, Parts: bandwidth.Parts, Advice: bandwidth.Advice, Next: "tare io haccio",
			Note: "S5 had six cores, and measured the places one after the other; ratios are judged, not rates.",
		},
		{
			Name: place.Haccio, Title: "tare io haccio", Judge: checkpoint.Judge, Answer: checkpoint.Answer, Parts: checkpoint.Parts, Advice: checkpoint.Advice, Next: "tare io redis",
			Note: "S5 had an NVMe disk of 3.5 and 3.3 GB/s, and read from the page cache; ratios are judged, not rates.",
		},
		{
			Name: place.Redis, Title: "tare io redis", Judge: keyvalue.Judge, Answer: keyvalue.Answer, Parts: keyvalue.Parts, Advice: keyvalue.Advice, Next: "tare claims S5",
			Note: "S5 had six cores, Redis 6, 512 clients by several threads and one run a cell.",
		},
	},
}
