package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/process"
	"tare/platform"
)

// Program is a program that an engine has started in a container. It has what
// of a [platform.Instance] is the same for every engine. The engine's platform
// sets the fields that it knows, then calls Watch in a goroutine, once.
type Program struct {
	Requests  *Requests
	Spec      platform.Spec
	Container string          // its name
	PID       int             // 0 where the program had ended before the engine could say
	Process   *process.Handle // nil where it had ended
	Account   Account         // nil where nothing of it could be found any more
	Output    *Output         // nil where nobody wants it

	Began       time.Time // when the engine was asked to create; later by the rest between that and the start
	Exited      <-chan Ending
	StopWaiting context.CancelFunc // ends the wait for Exited

	// AwaitProgram returns when the runtime's process has become the program; nil
	// where it is the program by the time that it is followed.
	AwaitProgram func()
	// RecordedExit asks the engine for the exit status that it has on record; nil
	// for an engine that, as long as it answers, says when a program has ended.
	RecordedExit func() (code int, known bool)
	// NotedOOM asks the engine whether memory ended the program; nil where the
	// kernel's count can always be read after the end.
	NotedOOM func() bool

	over     chan struct{} // closed when exit and exitErr stand
	exit     platform.Exit
	exitErr  error
	stopping chan struct{} // closed when a stop has begun
	stop     sync.Once

	mu        sync.Mutex
	last      *platform.Usage // read when the first process ended, its account still being there
	oomKilled bool            // likewise

	attending  sync.Mutex
	attendants *process.Meter // nil until somebody asks
}

// Ending is an engine's answer to the wait for a program's exit.
type Ending struct {
	Code int
	At   time.Time
	Err  error // in one line; it wraps [platform.ErrGone] where the engine is gone
}

// Account is where a container's processes and their counters are read.
type Account interface {
	Processes() ([]int, error)
	// Usage is what has been used up to now.
	Usage() (platform.Usage, error)
	// LastUsage is read when the first process has ended. By then the kernel has
	// killed all others of its process namespace, so it is final.
	LastUsage() (used platform.Usage, oomKilled bool, err error)
}

// GroupAccount is a control group's account.
type GroupAccount struct{ cgroup.Group }

// Usage implements [Account].
func (g GroupAccount) Usage() (platform.Usage, error) { return platform.ReadUsage(g.Group) }

// LastUsage implements [Account]. It fails where the group was removed faster.
func (g GroupAccount) LastUsage() (platform.Usage, bool, error) {
	usage, err := platform.ReadUsage(g.Group)
	if err != nil {
		return usage, false, err
	}
	killed, err := platform.OOMKilled(g.Group)
	return usage, err == nil && killed, nil
}

// NewProgram makes one that has not been started.
func NewProgram(r *Requests, spec platform.Spec, container string) *Program {
	return &Program{
		Requests: r, Spec: spec, Container: container,
		over: make(chan struct{}), stopping: make(chan struct{}),
	}
}

// Ended is the error of what needs a program that runs. It wraps [platform.ErrGone].
func (p *Program) Ended() error {
	return fmt.Errorf("%s in container %s has ended: %w", p.Spec.Args[0], p.Container, platform.ErrGone)
}

// Runs reports whether the first process runs.
func (p *Program) Runs() bool { return p.Process != nil && p.Process.Alive() }

// Processes implements [platform.Instance].
func (p *Program) Processes() ([]int, error) {
	if !p.Runs() {
		return nil, p.Ended()
	}
	pids, err := p.Account.Processes()
	if err != nil {
		return nil, fmt.Errorf("list the processes of container %s: %w", p.Container, err)
	}
	return platform.FirstFirst(pids, p.PID), nil
}

// InForce implements [platform.Instance]. Of a program that has ended the
// error wraps [platform.ErrGone].
func (p *Program) InForce() (platform.InForce, error) {
	if p.Process == nil {
		return platform.InForce{}, p.Ended()
	}
	if p.AwaitProgram != nil {
		p.AwaitProgram()
	}
	force, err := platform.ReadInForce(p.PID, p.Spec.Data)
	// The id named our process all along only if that lives still.
	if !p.Runs() {
		return platform.InForce{}, p.Ended()
	}
	return force, err
}

// Usage implements [platform.Instance]. After the program's end it is what had
// been used then.
func (p *Program) Usage() (platform.Usage, error) {
	if last := p.lastUsage(); last != nil {
		return *last, nil
	}
	if p.Account == nil {
		return platform.Usage{}, p.Ended()
	}
	usage, err := p.Account.Usage()
	if err != nil {
		// It may have ended meanwhile; then Watch has the last word.
		select {
		case <-p.over:
			if last := p.lastUsage(); last != nil {
				return *last, nil
			}
		default:
		}
	}
	return usage, err
}

func (p *Program) lastUsage() *platform.Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// Wait implements [platform.Instance]. All output has been handed on when it
// returns.
func (p *Program) Wait(ctx context.Context) (platform.Exit, error) {
	if err := p.AwaitEnd(ctx); err != nil {
		return platform.Exit{}, fmt.Errorf("wait for container %s: %w", p.Container, err)
	}
	return p.exit, p.exitErr
}

// AwaitEnd blocks until Watch has returned. Its error is the context's cause.
func (p *Program) AwaitEnd(ctx context.Context) error {
	select {
	case <-p.over:
		return nil
	default:
	}
	select {
	case <-p.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stopping says that a stop has begun: an engine that is lost is not waited for.
func (p *Program) Stopping() { p.stop.Do(func() { close(p.stopping) }) }

// Freeze freezes a program that runs. The engine is not asked (docker pause
// takes some hundredths of a second) and does not know of it.
func (p *Program) Freeze(ctx context.Context, group cgroup.Group) error {
	if !p.Runs() {
		return p.Ended()
	}
	if err := platform.FreezeGroup(ctx, group); err != nil {
		return fmt.Errorf("freeze container %s: %w", p.Container, err)
	}
	return nil
}

// Thaw thaws a program that runs.
func (p *Program) Thaw(ctx context.Context, group cgroup.Group) error {
	if !p.Runs() {
		return p.Ended()
	}
	return group.Thaw(ctx)
}

// Attend reads the CPU time of the processes that serve the container. They are
// looked for once.
func (p *Program) Attend(find func() ([]int, error)) (time.Duration, error) {
	p.attending.Lock()
	defer p.attending.Unlock()
	if p.attendants == nil {
		pids, err := find()
		if err != nil {
			return 0, err
		}
		if p.attendants, err = process.NewMeter(pids); err != nil {
			return 0, fmt.Errorf("find the processes that serve container %s: %w", p.Container, err)
		}
	}
	return p.attendants.Read()
}

// HangUp releases what was held of the program and the engine. It may be called again.
func (p *Program) HangUp() {
	if p.StopWaiting != nil {
		p.StopWaiting()
	}
	if p.Output != nil {
		p.Output.Close()
	}
	if p.Process != nil {
		_ = p.Process.Close()
	}
	p.attending.Lock()
	defer p.attending.Unlock()
	if p.attendants != nil {
		p.attendants.Close()
	}
}

// Watch stands from the start to the end of the program.
func (p *Program) Watch() {
	defer close(p.over)
	ended := make(chan struct{})
	go p.readLast(ended)
	ending := p.awaitEnding(ended)
	if errors.Is(ending.Err, platform.ErrGone) {
		p.Requests.Lost.Store(true)
	}
	p.exit.Elapsed = ending.At.Sub(p.Began)
	if ending.Err == nil {
		<-ended // the counters stand
		p.exit.Code = ending.Code
		p.exit.OOMKilled = p.killedForMemory()
		ending.Err = p.awaitOutput()
	}
	p.exitErr = ending.Err
}

// readLast reads the counters when the first process has ended.
func (p *Program) readLast(ended chan<- struct{}) {
	defer close(ended)
	if p.Process != nil {
		if err := p.Process.Await(context.Background()); err != nil {
			return
		}
	}
	if p.Account == nil {
		return
	}
	usage, oomKilled, err := p.Account.LastUsage()
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.oomKilled = &usage, oomKilled
}

// awaitEnding waits for the engine to report the exit. An engine that dies is
// noticed by its connection, one that hangs by its silence after the program's
// end. One that answers, but not to the wait (podman's service has lost next
// exits), is asked again, and the end is then the kernel's: the delay is ours,
// not the platform's.
func (p *Program) awaitEnding(ended <-chan struct{}) Ending {
	stopping, again := p.stopping, p.Requests.Patience/30
	var overdue, askAgain <-chan time.Time
	var end time.Time
	for {
		select {
		case ending := <-p.Exited:
			return ending
		case <-ended:
			end, ended, overdue = time.Now(), nil, time.After(p.answerIn())
			if p.RecordedExit != nil {
				askAgain = time.After(again)
			}
		case <-stopping:
			if overdue == nil || p.Requests.Lost.Load() {
				overdue = time.After(p.answerIn())
			}
			stopping = nil
		case <-askAgain:
			if code, known := p.RecordedExit(); known {
				return Ending{Code: code, At: end}
			}
			askAgain = time.After(again)
		case <-overdue:
			return Ending{At: time.Now(), Err: fmt.Errorf("container %s has ended, and %s has not said so for %s: %w",
				p.Container, p.Requests.Engine(), p.answerIn(), platform.ErrGone)}
		}
	}
}

// answerIn is how long the engine may take to report the program's end.
func (p *Program) answerIn() time.Duration {
	select {
	case <-p.stopping:
		return p.Requests.forRemoval()
	default:
		return p.Requests.Patience
	}
}

// killedForMemory asks the kernel's count and the engine's note. The engine
// learns of it apart from the exit, at times later; the cgroup's count, read
// at the end, is the surer of the two.
func (p *Program) killedForMemory() bool {
	p.mu.Lock()
	killed := p.oomKilled
	p.mu.Unlock()
	return killed || p.NotedOOM != nil && p.Spec.Setting.Memory != 0 && p.NotedOOM()
}

// awaitOutput waits until the streams have been handed on to their end. A
// process that was left behind outside the pid namespace could hold them open.
func (p *Program) awaitOutput() error {
	if p.Output == nil {
		return nil
	}
	late := time.NewTimer(p.Requests.Patience)
	defer late.Stop()
	select {
	case <-p.Output.Done():
		return p.Output.err
	case <-late.C:
		return fmt.Errorf("the output of container %s has not ended %s after the program: %w", p.Container, p.Requests.Patience, platform.ErrGone)
	}
}
