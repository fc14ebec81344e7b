package workload

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestStreamPeerDrive(t *testing.T) {
	w := streamPeer{}
	good := string(recorded(t, "likwid-bench.txt"))
	tr := &trial{params: resolve(t, w), stdout: good}
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, tr)
	for name, c := range map[string]struct{ output, want string }{
		"nothing":      {"", "lacks the rate of copy"},
		"one kernel":   {good[:len(good)/2], "lacks the rate of triad"},
		"one twice":    {good + good, "second time"},
		"another test": {strings.ReplaceAll(good, "copy_mem", "daxpy"), "unknown"},
		"no number":    {strings.Replace(good, "MByte/s:", "MByte/s: x", 1), "want a number"},
		"no rate":      {"Test: copy_mem\nMByte/s: 0\n", "above 0"},
	} {
		tr := &trial{params: tr.params, stdout: c.output}
		if err := w.Drive(t.Context(), tr); err == nil || !strings.Contains(err.Error(), c.want) || len(tr.records) > 0 {
			t.Errorf("%s: %v, want one about %q", name, err, c.want)
		}
	}
}

func TestStreamPeerProgram(t *testing.T) {
	program, err := streamPeer{}.Program(resolve(t, streamPeer{}, "elements", "50000000", "processes", "2"))
	if err != nil {
		t.Fatal(err)
	}
	// Of two and of three arrays of 400 MB.
	if got := program.Args[len(program.Args)-4:]; !slices.Equal(got, []string{"800000kB", "1200000kB", "2", "19"}) {
		t.Errorf("its arguments end in %q", got)
	}
	for name, value := range map[string]string{"elements": "auto", "processes": "0", "repetitions": "251"} {
		_, err := Resolve(streamPeer{}, map[string]string{name: value})
		refusedAs[*WrongValue](t, err, name+"="+value)
	}
}

func FuzzParseLikwid(f *testing.F) {
	f.Add(recorded(f, "likwid-bench.txt"))
	f.Add([]byte("Test: copy_mem_avx\nMByte/s:\t1e300\nTest: stream\nMByte/s: NaN\n"))
	f.Fuzz(func(t *testing.T, output []byte) {
		rates, err := parseLikwid(output)
		if err == nil && (len(rates) != 2 || !(rates["copy"] > 0) || !(rates["triad"] > 0) || math.IsInf(rates["copy"]+rates["triad"], 0)) {
			t.Errorf("accepted %v", rates)
		}
	})
}
