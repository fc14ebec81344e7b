package service

import (
	"context"
	"io"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/kernel/process"
	"tare/lab"
	"tare/platform"
	"tare/study/kit"
	"tare/workload"
)

// stopLimit bounds the removal of a trial's service, which goes on when the run
// is interrupted.
const stopLimit = time.Minute

// Running is a launched service as its workload sees it.
type Running struct {
	kit.Running
	client Client

	remembering sync.Mutex
	remembered  any
}

// NewRunning makes what a workload sees of a service that is about to be launched. The
// program's output goes to [Running.Outputs]. [Running.Launched] sets the instance.
func NewRunning(b lab.Bench, params workload.Params, client Client) *Running {
	return &Running{client: client, Running: kit.Running{
		Bench: b, Parameters: params, Out: process.Tail{Most: outputKept}, Err: process.Tail{Most: outputKept},
	}}
}

// Outputs are where the program's standard output and error go.
func (r *Running) Outputs() (stdout, stderr io.Writer) { return &r.Out, &r.Err }

// Batches is how many spans of time a load is reported in.
func (r *Running) Batches() int { return r.client.Batches }

// Launched sets the instance.
func (r *Running) Launched(inst platform.Instance) { r.Instance = inst }

// With is the same service, loaded with other parameters: those of them that the
// workload has.
func (r *Running) With(pairs ...string) workload.Trial {
	params := maps.Clone(r.Parameters)
	for i := 0; i < len(pairs); i += 2 {
		if _, has := params[pairs[i]]; has {
			params[pairs[i]] = pairs[i+1]
		}
	}
	other := loaded{Running: r, params: params}
	if r.client.Dial == nil {
		return other
	}
	return dialling{other}
}

// AwaitReady waits until the service answers; one that ends meanwhile never will.
func (r *Running) AwaitReady(ctx context.Context, w workload.Readier) error {
	serving, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if exit, err := r.Instance.Wait(serving); err == nil {
			cancel(
				&workload.Ended{
					Exit:    workload.Exit{Code: exit.Code, OOMKilled: exit.OOMKilled, Elapsed: exit.Elapsed, CPU: -1},
					Service: true,
				},
			)
		}
	}()
	err := w.Ready(serving, r)
	ended := context.Cause(serving)
	cancel(nil)
	<-watched
	if err != nil && ctx.Err() == nil && ended != nil {
		return ended
	}
	return err
}

// Remembered keeps what the workload knows of this service through all its loads.
func (r *Running) Remembered(make func() any) any {
	r.remembering.Lock()
	defer r.remembering.Unlock()
	if r.remembered == nil {
		r.remembered = make()
	}
	return r.remembered
}

func (r *Running) Address(port int) string {
	if r.client.Address != nil {
		return r.client.Address(r.Instance, port)
	}
	return r.Instance.Address(port)
}

func (r *Running) Generate(ctx context.Context, args []string) ([]byte, error) {
	return r.Bench.GenerateIn(ctx, r.client.NetNS, args)
}

// loaded is a running service under parameters of one load.
type loaded struct {
	*Running
	params workload.Params
}

func (l loaded) Params() workload.Params { return l.params }

// dialling is one whose client stands elsewhere.
type dialling struct{ loaded }

func (d dialling) Dial(ctx context.Context, address string) (net.Conn, error) {
	return d.client.Dial(ctx, address)
}

var (
	_ workload.Dialing     = dialling{}
	_ workload.Batching    = loaded{}
	_ workload.Remembering = loaded{}
	_ workload.Remembering = dialling{}
)

// above counts the requests that took longer.
func above(h *hdrhistogram.Histogram, limit time.Duration) int64 {
	var n int64
	for _, bar := range h.Distribution() {
		if bar.From > limit.Microseconds() {
			n += bar.Count
		}
	}
	return n
}

// outputKept is how much of a program's output is kept: there may be many programs.
const outputKept = 64 << 10
