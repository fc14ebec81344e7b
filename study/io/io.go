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
			Name: place.Stream, Title: "tare io stream", Next: "tare io haccio",
			Judge: bandwidth.Judge, Answer: bandwidth.Answer, Parts: bandwidth.Parts, Advice: bandwidth.Advice,
			Note: place.Paper + " had six cores and measured the places one after the other. Ratios are judged, not rates.",
		},
		{
			Name: place.Haccio, Title: "tare io haccio", Next: "tare io redis",
			Judge: checkpoint.Judge, Answer: checkpoint.Answer, Parts: checkpoint.Parts, Advice: checkpoint.Advice,
			Note: place.Paper + " read from the page cache, above an NVMe disk of 3.5 GB/s (writes 3.3). Ratios are judged, not rates.",
		},
		{
			Name: place.Redis, Title: "tare io redis", Next: "tare claims S5",
			Judge: keyvalue.Judge, Answer: keyvalue.Answer, Parts: keyvalue.Parts, Advice: keyvalue.Advice,
			Note: place.Paper + " had six cores, Redis 6, 512 clients in several threads and one run per cell.",
		},
	},
}
