// Package keyvalue measures what a container costs Redis: S5's experiment (Measuring the
// IO Overhead of Container Technology, section 3, III), and two questions that the paper
// left open. Does storage or the network account for the loss? What is the cost of a
// request in microseconds? Redis without persistence touches no storage, and the paper
// does not name its network.
//
// A cell is a payload and a pipeline (and a number of threads of the load and of
// io-threads of the server), measured on bare metal and in containers. Storage and
// network are crossed within a cell, and with that within a block: layer, volume and
// bind mount, each on the host's network and on the engine's bridge; the engine's
// other ways to a container, its userland proxy and the host's address translation,
// with the layer. What each takes is the difference in microseconds a request, the
// main effects of that square ([separation]); what it is in percent depends on the
// rate (package model/request).
//
// Without persistence volume and bind mount are the same to Redis, and check the
// procedure. With an append-only file storage matters: such cells have tmpfs too, and
// beside every place a disk floor, fio's writes of what Redis writes at a time, each
// brought to the disk.
//
// It is a closed loop: redis-benchmark with so many clients. The rate that it finds is
// the server's own where the load has more CPU time than it needs; the server and the
// load have CPUs of their own where the host has two.
package keyvalue

import (
	"slices"
	"strings"

	"tare/record"
	"tare/study/io/place"
	"tare/workload"
)

// Factors of the conditions, besides those of all studies of input and output.
const (
	factorPayload    = "payload" // bytes of a value
	factorPipeline   = "pipeline"
	factorClients    = "clients"
	factorThreads    = "threads" // of the load program; 0 is none
	factorIOThreads  = "io-threads"
	factorAppendOnly = "appendonly"
)

// How the append-only file is brought to the disk.
const (
	appendNo       = "no"
	appendEverySec = "everysec"
	appendAlways   = "always"
)

// written is the command that cells with persistence have: of one key, as S5's SET.
const written = "set"

// floor is the program that shows what the disk gives, and its metric.
const (
	floor      = "fio"
	floorSyncs = "syncs"
)

// Commands are S5's.
var Commands = []string{"get", "set", "mset", "hset", "lrange_100"}

// valuesOf is how many values a request has: the rest have one.
var valuesOf = map[string]int64{
	"ping_inline": 0, "ping_mbulk": 0, "incr": 0, "mset": 10,
	"lrange_100": 100, "lrange_300": 300, "lrange_500": 500, "lrange_600": 600,
}

// values is the number of values that a command's request or answer carries.
func values(command string) int64 {
	if n, ok := valuesOf[command]; ok {
		return n
	}
	return 1
}

// commandOf is the command of a metric. What was measured elsewhere may be named as
// redis-benchmark names its sections: "MSET (10 keys)".
func commandOf(metric string) string {
	name, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(metric)), " ")
	return name
}

// throughputs are the metrics of a condition that are rates of requests.
func throughputs(c record.Condition) []string {
	var names []string
	for _, m := range c.Metrics {
		if m.Quantile == 0 && m.Better == workload.Higher && c.Factors[place.FactorFloor] == "" {
			names = append(names, m.Name)
		}
	}
	return names
}

// persists is whether a condition writes an append-only file.
func persists(c record.Condition) bool {
	return !slices.Contains([]string{"", appendNo}, c.Factors[factorAppendOnly])
}
