// Package profile records what the whole machine does while containers start:
// each CPU's call chain, kernel and user, so many times a second, with the
// process as it was at that moment and the functions' names.
//
// It samples the CPUs' clocks (kernel/perfevent), so time that nobody spent on
// a CPU is not in it: blocked time is probe/sched's. User chains follow frame
// pointers, which Go keeps and most distributions' C code does not: there the
// innermost function is right and its callers may be missing. (A function that
// calls none sets up no frame, and its caller alone is skipped.) Processes of
// containers end within milliseconds and have file systems of their own, so
// nothing is asked of /proc about them: what they mapped, executed and were
// called is recorded by the kernel with the samples, and names are found in the
// files afterwards.
package profile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"tare/kernel/clock"
	"tare/kernel/kallsyms"
	"tare/kernel/perfevent"
	"tare/probe"
)

// DefaultHertz is the frequency where none is set, about 1 kHz: S1's question
// needs shares to a percent, and a run has thousands of milliseconds on a CPU.
// It is a prime, so that samples do not keep step with what happens at round
// frequencies, the kernel's tick and a load's starts among them.
const DefaultHertz = 997

// defaultBytes bounds what a recording holds: some 20 minutes of two busy CPUs
// at 1000 Hz.
const defaultBytes = 512 << 20

// Options say what is recorded.
type Options struct {
	Hertz int // samples a second and CPU; 0 is DefaultHertz
	// Roots are directories below which files that processes in containers
	// mapped are looked for: the images' root file systems.
	Roots []string
	// Processes gives what is known of a process from elsewhere (an exec tracer
	// knows arguments and ancestry), as of a moment of CLOCK_MONOTONIC. It is
	// asked at Stop, once a process and program. May be nil.
	Processes func(pid int, at time.Duration) (probe.Process, bool)
	// Contained reports by a cgroup's path whether it is a container's; nil takes
	// the names that engines, runtimes and tare itself give.
	Contained func(cgroup string) bool
	// MostBytes bounds the raw records held; 0 is 512 MiB. What comes later is
	// not recorded, which the Recording's Cautions say.
	MostBytes int
}

// Recorder records. It is to be stopped.
type Recorder struct {
	options Options
	sampler *perfevent.Sampler
	kernel  *kallsyms.Table // nil where the kernel hides it
	noNames error           // why
	before  snapshot
	begin   time.Duration
	end     time.Duration // where the bound was reached; else 0

	done chan struct{} // closed when the reader has ended
	stop func() bool   // forgets the context

	// The reader's, until done.
	raw  [][]byte
	held int
	err  error
}

// Start records from now on, until Stop. When ctx is done before, the recording
// is void and Stop says so; the Recorder is to be stopped either way. The error is a
// *[probe.Missing] where the host does not let us.
func Start(ctx context.Context, o Options) (*Recorder, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Hertz == 0 {
		o.Hertz = DefaultHertz
	}
	if o.MostBytes <= 0 {
		o.MostBytes = defaultBytes
	}
	if o.Contained == nil {
		o.Contained = contained
	}
	r := &Recorder{options: o, done: make(chan struct{})}
	r.kernel, r.noNames = kallsyms.Load()
	var err error
	if r.sampler, err = perfevent.Open(perfevent.Sampling{Hertz: o.Hertz}); err != nil {
		if refused := new(perfevent.Refused); errors.As(err, &refused) {
			return nil, &probe.Missing{Probe: "profile", What: refused.What, Mend: refused.Mend}
		}
		return nil, fmt.Errorf("profile: %w", err)
	}
	if err := r.sampler.Start(); err != nil {
		r.sampler.Close()
		return nil, fmt.Errorf("profile: %w", err)
	}
	// Sampling first: what changes while the snapshot is being taken is then in
	// the records, which are replayed on top of it.
	r.begin = clock.Monotonic()
	r.before = takeSnapshot()
	r.stop = context.AfterFunc(ctx, r.sampler.Wake)
	go r.read(ctx)
	return r, nil
}

// read copies records until it is woken.
func (r *Recorder) read(ctx context.Context) {
	defer close(r.done)
	for {
		woken, err := r.sampler.Wait(-1)
		if err != nil {
			r.err = err
			return
		}
		r.take()
		if ctx.Err() != nil {
			r.err = errors.Join(context.Cause(ctx), r.sampler.Stop())
			return
		}
		if woken {
			return
		}
		if r.held > r.options.MostBytes {
			r.end = clock.Monotonic()
			r.err = r.sampler.Stop()
			return
		}
	}
}

func (r *Recorder) take() {
	var room []byte
	if n := len(r.raw); n > 0 {
		room = make([]byte, 0, len(r.raw[n-1])*5/4)
	}
	if b := r.sampler.Drain(room); len(b) > 0 {
		r.raw = append(r.raw, b)
		r.held += len(b)
	}
}

// Stop ends the recording and finds the names of what was recorded, which takes
// about a second for a minute's recording. It is called once.
func (r *Recorder) Stop() (*Recording, error) {
	defer r.sampler.Close()
	end := clock.Monotonic()
	stopped := r.sampler.Stop()
	r.stop()
	r.sampler.Wake()
	<-r.done
	if err := errors.Join(stopped, r.err); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	r.take()
	if r.end != 0 {
		end = r.end
	}
	return r.recording(end)
}

// Discard ends the recording and throws it away.
func (r *Recorder) Discard() {
	r.sampler.Stop()
	r.stop()
	r.sampler.Wake()
	<-r.done
	r.sampler.Close()
}

// self is whom the samples take for the client.
var self = os.Getpid()
