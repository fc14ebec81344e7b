package workload

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// stream is memory bandwidth, by the published definition of the copy, scale,
// add and triad kernels: bytes that a kernel names over its best time, the
// first repetition left out. The program is ours (programs/stream).
type stream struct {
	workloadOf[streamPlan]
	readierOf[streamPlan]
	slicedOf[streamPlan]
}

func (stream) Name() string { return "stream" }
func (stream) Summary() string {
	return "memory bandwidth: copy, scale, add and triad over large arrays"
}
func (stream) Source() Source { return Source{Recipe: "stream"} }

// streamWork is what both forms of the program are asked for.
type streamWork struct {
	elements    int64 // of each array; 0: the program's choice
	repetitions int64
	stores      string
}

func (from *parameters) streamElements(over string) int64 {
	return from.wholeOr("elements", auto, 0, 1, 1e12, "of each of three arrays"+over+
		", 8 bytes each: auto (four times the caches reached, 10 million at least), or 1 to 10^12")
}

func (from *parameters) streamRepetitions() int64 {
	return from.whole("repetitions", 20, 2, 250, "RANGE; the first does not count")
}

func (from *parameters) streamStores() string {
	return from.word("stores", auto, "auto, plain or streaming (past the caches; x86-64)", auto, "plain", "streaming")
}

// arguments are the program's, of what is not the number of passes.
func (w streamWork) arguments() []string {
	args := []string{"--stores", w.stores}
	if w.elements > 0 {
		args = append(args, "--elements", strconv.FormatInt(w.elements, 10))
	}
	return args
}

// memory is what the arrays take, at least.
func (w streamWork) memory() int64 { return streamArrays(cmp.Or(w.elements, leastElements)) }

func (w streamWork) passes() []string {
	return []string{"--repetitions", strconv.FormatInt(w.repetitions, 10)}
}

// leastElements is what the program takes at least where elements is auto.
const leastElements = 10_000_000

// streamArrays is what three arrays of 8 bytes an element take.
func streamArrays(elements int64) int64 { return 3 * 8 * elements }

// Placed has the program serve passes at a port. Without one it listens nowhere.
func (stream) Placed(p Params, at Place) (Params, error) {
	if at.Port == 0 {
		return p, nil
	}
	return p.at(at), nil
}

type streamPlan struct {
	listening // for passes on demand; port 0: it does its passes at once, and ends
	streamWork
	threads int64 // 0: one for each CPU allowed
}

func (plan streamPlan) parse(from *parameters) streamPlan {
	plan.listening = from.listening(0)
	plan.elements = from.streamElements("")
	plan.repetitions = from.streamRepetitions()
	plan.threads = from.wholeOr("threads", auto, 0, 1, 4096, "auto (a thread for each CPU allowed), or RANGE")
	plan.stores = from.streamStores()
	return plan
}

func (plan streamPlan) program() Program {
	// The arrays, and a little for the program itself.
	program := Program{MemoryNeed: plan.memory() + 8<<20}
	how := plan.passes()
	if plan.port > 0 {
		program.Ports, program.Service = []int{plan.port}, true
		how = []string{"--serve", plan.where()}
	}
	program.Args = slices.Concat([]string{"/usr/bin/stream"}, how, plan.arguments())
	if plan.threads > 0 {
		program.Args = append(program.Args, "--threads", strconv.FormatInt(plan.threads, 10))
	}
	return program
}

// streamKernels names the kernels in the order of their lines.
var streamKernels = []string{"copy", "scale", "add", "triad"}

// Endings of metrics: every iteration's rate, and that of all of them together.
const (
	streamIterations = "-iterations"
	streamAverage    = "-average"
)

func (streamPlan) metrics() []Metric { return streamMetrics("repetition") }

// streamMetrics are those of both forms; what one pass is called differs.
func streamMetrics(pass string) []Metric {
	metric := func(name, doc string, primary bool) Metric {
		return Metric{Name: name, Unit: "B/s", Better: Higher, Doc: doc, Primary: primary}
	}
	best := "; best " + pass
	all := []Metric{
		metric("triad", "a = b + q c"+best, true),
		metric("copy", "c = a"+best, true),
		metric("scale", "b = q c"+best, false),
		metric("add", "c = a + b"+best, false),
	}
	for _, name := range streamKernels {
		all = append(all, metric(name+streamIterations, name+"; every "+pass+" but the first", false),
			metric(name+streamAverage, name+"; bytes over the average time of these", false))
	}
	return append(all, Metric{Name: "cache-resident", Unit: "runs", Better: Lower, Count: true,
		Doc: "1 where an array is smaller than four times the caches reached, so that caches and not memory were measured"})
}

func (plan streamPlan) drive(ctx context.Context, t Trial) error {
	if plan.port > 0 {
		return errors.New("stream serves passes on demand: it does not end by itself, and is not measured as a whole")
	}
	return driveStream(ctx, t)
}

// driveStream waits for either form to end and records what it printed.
func driveStream(ctx context.Context, t Trial) error {
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
		for _, rate := range k.Rates[1:] {
			t.Record(k.Kernel+streamIterations, rate)
		}
		t.Record(k.Kernel+streamAverage, k.average())
		if k.CacheResident != nil && *k.CacheResident {
			resident = 1
		}
	}
	t.Record("cache-resident", resident)
	return nil
}

// streamKernel is one line of the program's output.
type streamKernel struct {
	Kernel        string    `json:"kernel"`
	Rates         []float64 `json:"bytes_per_second"` // of each iteration
	Best          float64   `json:"best_bytes_per_second"`
	CacheResident *bool     `json:"cache_resident"` // nil where the cache's size is unknown
	Valid         *bool     `json:"valid"`
}

// average is what all iterations but the first moved over the time that they took.
func (k streamKernel) average() float64 {
	time := 0.0 // of a byte, summed
	for _, rate := range k.Rates[1:] {
		time += 1 / rate
	}
	return float64(len(k.Rates)-1) / time
}

// fault says what cannot be of a kernel's figures; empty where nothing is wrong.
func (k streamKernel) fault() string {
	if len(k.Rates) < 2 {
		return fmt.Sprintf("%d iterations, want 2 at least", len(k.Rates))
	}
	best := 0.0
	for i, rate := range k.Rates {
		if !(rate > 0) || math.IsInf(rate, 0) {
			return fmt.Sprintf("rate %v, want above 0", rate)
		}
		if i > 0 {
			best = max(best, rate)
		}
	}
	// Both are printed with nine digits.
	if math.Abs(k.Best-best) > 1e-6*best {
		return fmt.Sprintf("best rate %v, and that of its iterations is %v", k.Best, best)
	}
	return ""
}

// parseStream reads the program's output: each kernel exactly once, validated.
func parseStream(output []byte) ([]streamKernel, error) {
	wanted := map[string]bool{}
	for _, name := range streamKernels {
		wanted[name] = true
	}
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
		}
		if why := k.fault(); why != "" {
			return nil, fmt.Errorf("output of stream, line %d: %s", n, why)
		}
		delete(wanted, k.Kernel)
		kernels = append(kernels, k)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("output of stream: %w", err)
	}
	for _, name := range streamKernels {
		if wanted[name] {
			return nil, fmt.Errorf("output of stream lacks kernel %s", name)
		}
	}
	return kernels, nil
}
