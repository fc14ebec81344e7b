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

func (f function) Params() []Param {
	there := strconv.Itoa(image.FunctionInput)
	return []Param{
		{"data", there, "MiB of input, 1 to " + strconv.Itoa(mostFunctionData) + "; what is above " + there + " is made in /data first, in a time of its own"},
		{"access", "dense", "dense: all of the input; sparse: the first fifth of each page of 4 KiB"},
	}
}

func (f function) plan(p Params) (mebibytes int64, sparse bool, err error) {
	if mebibytes, err = p.whole("data", 1, mostFunctionData); err != nil {
		return 0, false, err
	}
	access, err := p.oneOf("access", "dense", "sparse")
	return mebibytes, access == "sparse", err
}

func (f function) Program(p Params) (Program, error) {
	mebibytes, sparse, err := f.plan(p)
	if err != nil {
		return Program{}, err
	}
	touched := float64(mebibytes << 20)
	if sparse {
		touched /= 5
	}
	return Program{
		Args: []string{"/usr/bin/" + f.name, "--data", p["data"], "--access", p["access"], "--scratch", "/data/input", "/input"},
		Data: []string{"/data"},
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
	if mebibytes, _, err := f.plan(p); err == nil && mebibytes > image.FunctionInput {
		metrics = append(metrics, Metric{Name: "making", Unit: "s", Better: Lower, Doc: "of an input larger than the image's, before the work"})
	}
	return metrics
}

func (f function) Drive(ctx context.Context, t Trial) error {
	mebibytes, sparse, err := f.plan(t.Params())
	if err != nil {
		return err
	}
	exit, err := finish(ctx, t)
	if err != nil {
		return err
	}
	stdout, _ := t.Output()
	o, err := parseFunction(stdout)
	if err != nil {
		return fmt.Errorf("output of %s: %w", f.name, err)
	}
	// Worked out after the program's end, so that it disturbs nothing.
	want := f.finds(int(mebibytes<<20/functionPage), sparse)
	if got := (found{o.Records, o.Results, o.Checksum}); got != want {
		return fmt.Errorf("%s found %v where %v is right: not valid", f.name, got, want)
	}
	t.Record("elapsed", o.Seconds)
	t.Record("rate", float64(o.Touched)/o.Seconds)
	t.Record("wall", exit.Elapsed.Seconds())
	if exit.CPU >= 0 {
		t.Record("cpu", exit.CPU.Seconds())
	}
	if mebibytes > image.FunctionInput {
		t.Record("making", o.Generated)
	}
	return nil
}

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
