package workload

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"tare/image"
)

// streamPeer is another program's memory bandwidth, against which stream's own is
// weighed on the same host: likwid-bench's copy and triad in assembler, with stores
// past the caches. Of what a Debian host can have it is the one that moves the same
// arrays by the same kernels, each at will: hpcc runs its whole suite for one figure
// of STREAM, stress-ng gives one figure for all four kernels, and sysbench moves
// blocks that stay in a cache. It has no scale and no add of their own, which move
// what copy and triad move.
type streamPeer struct{ workloadOf[streamPeerPlan] }

func (streamPeer) Name() string { return "stream-peer" }
func (streamPeer) Summary() string {
	return "memory bandwidth by another program: likwid-bench's copy and triad"
}
func (streamPeer) Source() Source { return Source{Recipe: "stream-peer"} }

type streamPeerPlan struct{ elements, processes, repetitions int64 }

func (plan streamPeerPlan) parse(from *parameters) streamPeerPlan {
	plan.elements = from.whole("elements", 50_000_000, 1e5, 1e12, "of each array over all threads, 8 bytes each, 10^5 to 10^12")
	plan.processes = from.whole("processes", 1, 1, mostRanks, "threads, each on a CPU of its own, RANGE")
	plan.repetitions = from.whole("repetitions", 20, 2, 250, "RANGE; one less is timed, as stream leaves out the first")
	return plan
}

// likwidScript runs both kernels by the widest vectors that the CPU has. The program
// looks for another of its package on the path, and uses it for counters only.
const likwidScript = `set -e
isa=sse
flags=" $(busybox grep -m1 ^flags /proc/cpuinfo) "
case "$flags" in *" avx512f "*) isa=avx512 ;; *" avx "*) isa=avx ;; esac
likwid-bench -t copy_mem_$isa -W "N:$1:$3" -i "$4"
likwid-bench -t stream_mem_$isa -W "N:$2:$3" -i "$4"
`

func (plan streamPeerPlan) program() Program {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	// Sizes are of all arrays of a kernel together; a kB has 1000 bytes.
	size := func(arrays int64) string { return number(arrays*8*plan.elements/1000) + "kB" }
	return Program{
		Args: []string{"/bin/busybox", "sh", "-c", likwidScript, "stream-peer",
			size(2), size(3), number(plan.processes), number(plan.repetitions - 1)},
		Env:        []string{"PATH=/usr/sbin:/usr/bin:/bin"},
		MemoryNeed: streamArrays(plan.elements) + 32<<20,
		Needs:      []string{"/bin/busybox", image.LikwidBench},
	}
}

// peerKernels gives the kernel that a test of likwid-bench is, by its first word.
var peerKernels = map[string]string{"copy": "copy", "stream": "triad"}

func (streamPeerPlan) metrics() []Metric {
	return []Metric{
		{Name: "triad" + streamAverage, Unit: "B/s", Better: Higher, Primary: true, Doc: "a = b + q c; bytes over the time of all iterations"},
		{Name: "copy" + streamAverage, Unit: "B/s", Better: Higher, Primary: true, Doc: "c = a; bytes over the time of all iterations"},
	}
}

func (streamPeerPlan) drive(ctx context.Context, t Trial) error {
	if _, err := finish(ctx, t); err != nil {
		return err
	}
	stdout, stderr := t.Output()
	rates, err := parseLikwid(stdout)
	if err != nil {
		return fmt.Errorf("%w; its last words: %s", err, ending(stderr))
	}
	for _, kernel := range []string{"copy", "triad"} {
		t.Record(kernel+streamAverage, rates[kernel])
	}
	return nil
}

// parseLikwid reads the rates that likwid-bench gives, in bytes a second: one of
// each kernel. It writes "Test: NAME" and then "MByte/s: RATE", of 10^6 bytes.
func parseLikwid(output []byte) (map[string]float64, error) {
	rates := map[string]float64{}
	test := ""
	lines := bufio.NewScanner(bytes.NewReader(output))
	for n := 1; lines.Scan(); n++ {
		name, value, ok := strings.Cut(lines.Text(), ":")
		value = strings.TrimSpace(value)
		switch {
		case !ok:
		case name == "Test":
			test = value
		case name == "MByte/s":
			word, _, _ := strings.Cut(test, "_")
			kernel, known := peerKernels[word]
			if !known || rates[kernel] > 0 {
				return nil, fmt.Errorf("output of likwid-bench, line %d: a rate of the test %q, unknown or a second time", n, test)
			}
			rate, err := strconv.ParseFloat(value, 64)
			if err != nil || !(rate > 0) || math.IsInf(rate*1e6, 0) {
				return nil, fmt.Errorf("output of likwid-bench, line %d: rate %q, want a number above 0", n, value)
			}
			rates[kernel] = rate * 1e6
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("output of likwid-bench: %w", err)
	}
	for _, kernel := range []string{"copy", "triad"} {
		if rates[kernel] == 0 {
			return nil, fmt.Errorf("output of likwid-bench lacks the rate of %s", kernel)
		}
	}
	return rates, nil
}
