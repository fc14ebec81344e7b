package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"tare/image"
)

// function is one of S1's functions (programs/functions): it is started for one
// input, and ends. What it finds is compared with a reference of our own.
type function struct {
	name, summary string
	// perByte bounds the memory of what is found in a byte of input.
	perByte float64
	finds   func(pages int, sparse bool) found
}

// The functions. A token takes 8 bytes of memory and, with what parts it from the
// next, 7.8 of the input; an index takes 4, and its key 25.
var (
	uriParser = function{"uri-parser", "function that splits URIs into tokens", 1.1, tokensOf}
	hashing   = function{"hashing", "function that hashes keys to indexes by sdbm's function", 0.2, indexesOf}
)

// mostFunctionData is what the program takes at most, in MiB.
const mostFunctionData = 4095

func (f function) Name() string    { return f.name }
func (f function) Summary() string { return f.summary }
func (f function) Source() Source  { return Source{Recipe: f.name} }
func (function) dataInImage()      {}

func (f function) Params() []Param { return declared(f.parse) }

type functionPlan struct {
	mebibytes    int64
	sparse, held bool
}

func (f function) parse(from *parameters) (plan functionPlan) {
	const there = image.FunctionInput
	plan.mebibytes = from.whole("data", there, 1, mostFunctionData, fmt.Sprintf("MiB of input, RANGE; "+
		"%d, as S1 had, is in an image of its own; what else is above %d is made in /data first, in a time of its own",
		image.LargeData, there))
	plan.sparse = from.word("access", "dense", "dense: all of the input; sparse: the first fifth of each page of 4 KiB",
		"dense", "sparse") == "sparse"
	plan.held = from.until(untilExit,
		"exit: it ends with its work; signal: it then holds what it has mapped until it is stopped, to be watched")
	return plan
}

func (f function) Program(p Params) (Program, error) {
	plan, err := parsed(p, f.parse)
	if err != nil {
		return Program{}, err
	}
	touched, access := float64(plan.mebibytes<<20), "dense"
	if plan.sparse {
		touched, access = touched/5, "sparse"
	}
	args := []string{"/usr/bin/" + f.name, "--data", strconv.FormatInt(plan.mebibytes, 10), "--access", access,
		"--scratch", "/data/input"}
	if plan.held {
		args = append(args, "--hold")
	}
	return Program{
		Args:    append(args, "/input"),
		Data:    []string{"/data"},
		Service: plan.held,
		// The input itself is page cache, which the kernel can take back.
		MemoryNeed: 4<<20 + int64(touched*f.perByte),
	}, nil
}

func (f function) Metrics(p Params) []Metric {
	metrics := []Metric{
		{Name: "elapsed", Unit: "s", Better: Lower, Primary: true, Doc: "the function's work, by its own clock: from the opening of its input"},
		{Name: "rate", Unit: "B/s", Better: Higher, Doc: "bytes looked at over that"},
		{Name: "wall", Unit: "s", Better: Lower, Doc: "from the request to launch to the end, what the platform took included"},
		{Name: "cpu", Unit: "s", Better: Lower, Doc: "user and system time of the function"},
	}
	if plan, err := parsed(p, f.parse); err == nil && made(plan.mebibytes, image.FunctionInput) {
		metrics = append(metrics, Metric{Name: "making", Unit: "s", Better: Lower, Doc: "of an input larger than the image's, before the work"})
	}
	return metrics
}

func (f function) Drive(ctx context.Context, t Trial) error {
	plan, err := parsed(t.Params(), f.parse)
	if err != nil {
		return err
	}
	if plan.held {
		return unweighable(f.name)
	}
	exit, err := finish(ctx, t)
	if err != nil {
		return err
	}
	stdout, _ := t.Output()
	// Worked out after the program's end, so that it disturbs nothing.
	o, err := f.check(stdout, plan)
	if err != nil {
		return err
	}
	t.Record("elapsed", o.Seconds)
	t.Record("rate", float64(o.Touched)/o.Seconds)
	t.Record("wall", exit.Elapsed.Seconds())
	if exit.CPU >= 0 {
		t.Record("cpu", exit.CPU.Seconds())
	}
	if made(plan.mebibytes, image.FunctionInput) {
		t.Record("making", o.Generated)
	}
	return nil
}

// check reads what a function printed, and holds it to the reference.
func (f function) check(output []byte, plan functionPlan) (functionOutcome, error) {
	o, err := parseFunction(output)
	if err != nil {
		return o, fmt.Errorf("output of %s: %w", f.name, err)
	}
	want := rightFinds.get(findsKey{f.name, plan.mebibytes, plan.sparse}, func() found {
		return f.finds(int(plan.mebibytes<<20/functionPage), plan.sparse)
	})
	if got := (found{o.Records, o.Results, o.Checksum}); got != want {
		return o, fmt.Errorf("%s found %v where %v is right: not valid", f.name, got, want)
	}
	return o, nil
}

var _ Sustainer = function{}

// Sustained has the function hold what it has mapped: it has one input and no
// steady state.
func (f function) Sustained() (p Params, steady bool) { return Params{"until": untilSignal}, false }

// Listens tells that the function's line is what is waited for.
func (f function) Listens() bool { return true }

// Ready waits until the work is done and its result right. From then on the
// function only holds what it has.
func (f function) Ready(ctx context.Context, t Trial) error {
	plan, err := parsed(t.Params(), f.parse)
	if err != nil {
		return err
	}
	return awaitLine(ctx, t, f.name+" prints what it found", func(line []byte) error {
		_, err := f.check(line, plan)
		return err
	})
}

// Sustain waits: there is one input, whatever the seed.
func (f function) Sustain(ctx context.Context, t Trial, _ uint64) error { return untilDone(ctx, t) }

// findsKey is what a function's right results depend on.
type findsKey struct {
	function  string
	mebibytes int64
	sparse    bool
}

var rightFinds worked[findsKey, found]

// found is what a function finds in an input.
type found struct {
	records, results int64
	checksum         checksum
}

func (f found) String() string {
	return fmt.Sprintf("%d results in %d records (%016x)", f.results, f.records, uint64(f.checksum))
}

// functionOutcome is the line that a function prints.
type functionOutcome struct {
	Touched, Records, Results int64
	Checksum                  checksum
	Seconds                   float64
	Generated                 float64 `json:"generated_seconds"`
}

func parseFunction(output []byte) (functionOutcome, error) {
	var o functionOutcome
	if err := json.Unmarshal(output, &o); err != nil {
		return o, fmt.Errorf("%w; its end: %s", err, ending(output))
	}
	if !(o.Seconds > 0) || o.Touched <= 0 || o.Generated < 0 {
		return o, fmt.Errorf("%d bytes in %v s after %v s of making cannot be; its end: %s", o.Touched, o.Seconds, o.Generated, ending(output))
	}
	return o, nil
}

// checksum is printed as sixteen hexadecimal digits.
type checksum uint64

// UnmarshalText reads them.
func (c *checksum) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	*c = checksum(n)
	return err
}
