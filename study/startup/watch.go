package startup

import (
	"context"
	"time"

	"tare/kernel/clock"
	"tare/probe/sched"
)

// Watch sets up what looks on: the first instructions always, the rest where a
// profile is asked for. The notes say what this host lacks; the result is
// without it. The caller ends it with stop, after the run.
func Watch(profile bool) (w Watching, stop func()) {
	tracer, err := sched.Start()
	if err != nil {
		w.Notes = append(w.Notes, "first instructions are not timed: "+err.Error())
		if profile {
			w.Notes = append(w.Notes, "no time line and no profile: they need the same tracer")
		}
		return w, func() {}
	}
	w.First = &firstInstructions{tracer: tracer}
	if profile {
		w.observe(tracer)
	}
	return w, func() { _ = tracer.Stop() } // the run's results are taken; nothing is lost with it
}

// Planned is what Watch would give on a host that lacks nothing, for a design
// that is only shown.
func Planned(profile bool) Watching {
	var w Watching
	if profile {
		w.Sample, w.Blocks, w.Watch, w.Trace = &sampling{}, &blocking{}, another{}, func() tracer { return &tracing{} }
	}
	return w
}

// firstInstructions observes when applications are executed, from the kernel's
// own events.
type firstInstructions struct {
	tracer       *sched.Tracer
	reportedLost uint64 // events lost, as of the last settle
}

// unseenAfter is how long after the answer the first instruction is waited for:
// platforms answer a start when the program is executed or about to be.
const unseenAfter = 5 * time.Second

func (f *firstInstructions) expect(
	id string,
	args []string,
) (await func(ctx context.Context, pid int) (time.Time, error), forget func()) {
	since := clock.Monotonic()
	byID := f.tracer.Follow(id, args)
	await = func(ctx context.Context, pid int) (time.Time, error) {
		ctx, cancel := context.WithTimeout(ctx, unseenAfter)
		defer cancel()
		select {
		case <-byID.Done():
		default:
			// Bare metal's program has no ancestor that names it.
			if pid > 0 {
				byPID := f.tracer.ByPID(pid, since, args)
				defer byPID.Close()
				select {
				case <-byPID.Done():
					return moment(byPID.Application(ctx))
				case <-byID.Done():
				case <-ctx.Done():
				}
			}
		}
		return moment(byID.Application(ctx))
	}
	return await, byID.Close
}

func (f *firstInstructions) settle() uint64 {
	f.tracer.Processes().Forget(clock.Monotonic())
	lost, err := f.tracer.Lost()
	if err != nil {
		return 0 // the tracer has ended, and first instructions are missing
	}
	since := lost - f.reportedLost
	f.reportedLost = lost
	return since
}

// moment puts a mark on Go's clock, which counts as the kernel's does.
func moment(marks sched.Marks, err error) (time.Time, error) {
	if err != nil {
		return time.Time{}, err
	}
	return time.Now().Add(marks.Application - clock.Monotonic()), nil
}
