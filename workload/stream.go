package workload

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
)

// stream is memory bandwidth, by the published definition of the copy, scale,
// add and triad kernels: bytes that a kernel names over its best time, the
// first repetition left out. The program is ours (programs/stream).
type stream struct{}

func (stream) Name() string { return "stream" }
func (stream) Summary() string {
	return "memory bandwidth: copy, scale, add and triad over large arrays"
}
func (stream) Source() Source { return Source{Recipe: "stream"} }

func (stream) Params() []Param {
	return []Param{
		{"elements", auto, "of each of three arrays, 8 bytes each: auto (four times the largest cache, 10 million at least), or 1 to 10^12"},
		{"repetitions", "20", "2 to 250; the first does not count"},
		{"threads", auto, "auto (a thread for each CPU allowed), or 1 to 4096"},
		{"stores", "auto", "auto, plain or streaming (past the caches; x86-64)"},
	}
}

// leastElements is what the program takes at least where elements is auto.
const leastElements = 10_000_000

func (stream) Program(p Params) (Program, error) {
	elements, err := p.wholeOrAuto("elements", 1, 1e12)
	if err != nil {
		return Program{}, err
	}
	repetitions, err := p.whole("repetitions", 2, 250)
	if err != nil {
		return Program{}, err
	}
	threads, err := p.wholeOrAuto("threads", 1, 4096)
	if err != nil {
		return Program{}, err
	}
	stores, err := p.oneOf("stores", "auto", "plain", "streaming")
	if err != nil {
		return Program{}, err
	}
	args := []string{"/usr/bin/stream", "--repetitions", strconv.FormatInt(repetitions, 10), "--stores", stores}
	if elements > 0 {
		args = append(args, "--elements", strconv.FormatInt(elements, 10))
	}
	if threads > 0 {
		args = append(args, "--threads", strconv.FormatInt(threads, 10))
	}
	need := elements
	if need == 0 {
		need = leastElements
	}
	// Three arrays of 8 bytes an element, and a little for the program itself.
	return Program{Args: args, MemoryNeed: 3*8*need + 8<<20}, nil
}

func (stream) Metrics(Params) []Metric {
	metric := func(name, doc string, primary bool) Metric {
		return Metric{Name: name, Unit: "B/s", Better: Higher, Doc: doc + "; best repetition", Primary: primary}
	}
	return []Metric{
		metric("triad", "a = b + q c", true),
		metric("copy", "c = a", true),
		metric("scale", "b = q c", false),
		metric("add", "c = a + b", false),
		{Name: "cache-resident", Unit: "runs", Better: Lower, Count: true,
			Doc: "1 where an array is smaller than four times the largest cache, so that caches and not memory were measured"},
	}
}

func (w stream) Drive(ctx context.Context, t Trial) error {
	if _, err := finish(ctx, t); err != nil {
		return err
	}
	stdout, _ := t.Output()
	kernels, err := parseStream(stdout)
	if err != nil {
		return err
	}
	resident := 0.0
	for _, k := range kernels {
		t.Record(k.Kernel, k.Best)
		if k.CacheResident != nil && *k.CacheResident {
			resident = 1
		}
	}
	t.Record("cache-resident", resident)
	return nil
}

// streamKernel is one line of the program's output.
type streamKernel struct {
	Kernel        string  `json:"kernel"`
	Best          float64 `json:"best_bytes_per_second"`
	CacheResident *bool   `json:"cache_resident"` // nil where the cache's size is unknown
	Valid         *bool   `json:"valid"`
}

// parseStream reads the program's output: each kernel exactly once, validated.
func parseStream(output []byte) ([]streamKernel, error) {
	wanted := map[string]bool{"copy": true, "scale": true, "add": true, "triad": true}
	var kernels []streamKernel
	lines := bufio.NewScanner(bytes.NewReader(output))
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var k streamKernel
		if err := json.Unmarshal(lines.Bytes(), &k); err != nil {
			return nil, fmt.Errorf("output of stream, line %d: %w", n, err)
		}
		switch {
		case !wanted[k.Kernel]:
			return nil, fmt.Errorf("output of stream, line %d: kernel %q unknown, or a second time", n, k.Kernel)
		case k.Valid == nil || !*k.Valid:
			return nil, fmt.Errorf("stream computed wrong results in kernel %s: not valid", k.Kernel)
		case !(k.Best > 0):
			return nil, fmt.Errorf("output of stream, line %d: rate %v, want above 0", n, k.Best)
		}
		delete(wanted, k.Kernel)
		kernels = append(kernels, k)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("output of stream: %w", err)
	}
	for _, name := range []string{"copy", "scale", "add", "triad"} {
		if wanted[name] {
			return nil, fmt.Errorf("output of stream lacks kernel %s", name)
		}
	}
	return kernels, nil
}
