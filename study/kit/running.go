package kit

import (
	"context"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/kernel/process"
	"tare/lab"
	"tare/platform"
	"tare/workload"
)

// Running is a launched program as its workload sees it, for studies that record for
// themselves: what the workload would record goes nowhere.
type Running struct {
	Bench      lab.Bench
	Parameters workload.Params // that it has
	Instance   platform.Instance
	Out, Err   process.Tail
}

var _ workload.Trial = (*Running)(nil)

// Params are those of the workload.
func (r *Running) Params() workload.Params { return r.Parameters }

// Address is that of a port.
func (r *Running) Address(port int) string { return r.Instance.Address(port) }

// Wait waits for the program's end. Its CPU time is -1 where it is not known.
func (r *Running) Wait(ctx context.Context) (workload.Exit, error) {
	exit, err := r.Instance.Wait(ctx)
	if err != nil {
		return workload.Exit{}, err
	}
	usage, err := r.Instance.Usage()
	if err != nil || usage.CPU == 0 {
		usage.CPU = -1 // an engine may be faster than the reading
	}
	return workload.Exit{Code: exit.Code, OOMKilled: exit.OOMKilled, Elapsed: exit.Elapsed, CPU: usage.CPU}, nil
}

// Output is the end of what the program printed.
func (r *Running) Output() (stdout, stderr []byte) { return r.Out.Bytes(), r.Err.Bytes() }

// Generate runs a load program of the image.
func (r *Running) Generate(ctx context.Context, args []string) ([]byte, error) {
	return r.Bench.Generate(ctx, args)
}

// Record records nothing.
func (r *Running) Record(string, float64) {}

// RecordHistogram records nothing.
func (r *Running) RecordHistogram(string, *hdrhistogram.Histogram) {}
