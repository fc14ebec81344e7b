package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"tare/kernel/cgroup"
	"tare/kernel/process"
	"tare/kernel/procfs"
	"tare/platform"
)

// instance is one container, from its making to its end. It implements
// [platform.Instance] from when it has been taken hold of.
type instance struct {
	p       *Platform
	spec    platform.Spec
	program platform.Process
	info    *system.Info
	name    string // of the container: "tare-" and the instance's own
	mark    string // labelLedger

	// Set by the steps from Create to Instance, one after the other.
	id          string
	began       time.Time       // when the engine was asked to create; later by the rest between that and the start
	rested      time.Time       // since when it lay at rest
	pid         int             // 0 where the program had ended before the engine could tell
	process     *process.Handle // nil where it had ended
	group       cgroup.Group
	namespace   string // of its processes, where it has no group (see groupless)
	addresses   map[int]string
	output      *output // nil where nobody wants it
	exited      <-chan ending
	stopWaiting context.CancelFunc

	over    chan struct{} // closed when exit and exitErr stand
	exit    platform.Exit
	exitErr error
	stopped chan struct{} // closed when Stop has begun

	releasing sync.Mutex
	mu        sync.Mutex
	stopping  bool
	owned     []owned
	last      *platform.Usage // read when the first process ended, its cgroup still being there
	oomKilled bool            // likewise
	marks     []string        // words that name the instance in the engine's command lines

	attending  sync.Mutex
	attendants *process.Meter // nil until somebody asks
}

func newInstance(p *Platform, spec platform.Spec, program platform.Process, info *system.Info) *instance {
	return &instance{
		p: p, spec: spec, program: program, info: info,
		name: "tare-" + spec.Name, mark: newMark(),
		over: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// hold takes hold of the first process, so that its end is known from the
// kernel and its counters can be read at that moment: the engine removes the
// cgroup some milliseconds later. A program that has ended already is no error.
func (i *instance) hold() error {
	if i.pid <= 0 {
		return nil
	}
	identity, err := process.Identify(i.pid)
	if procfs.Gone(err) {
		return nil
	}
	var handle *process.Handle
	if err == nil {
		handle, err = identity.Open()
	}
	if errors.Is(err, process.ErrGone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("follow %s in container %s: %w", i.spec.Args[0], i.name, err)
	}
	if groupless(i.info) {
		return i.holdGroupless(handle)
	}
	group, err := platform.OwnGroup(i.pid)
	if err == nil && i.names(group) {
		// An ending process leaves one hierarchy after the other for its root,
		// whose account is the whole host's.
		group.Places = slices.DeleteFunc(group.Places, func(p cgroup.Place) bool { return !strings.Contains(p.Path, i.id) })
		i.process, i.group = handle, group
		return nil
	}
	handle.Close()
	if errors.Is(err, platform.ErrGone) || !alive(identity) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("process %d, which the engine named, is not in its cgroup; the engine runs on another machine, or in a container", i.pid)
	}
	return err
}

// alive reports whether the process runs: a zombie does not, and one that
// took its id since is another.
func alive(id process.Identity) bool {
	stat, err := procfs.Host.Process(id.PID).Stat()
	return err == nil && !stat.Zombie() && stat.StartTicks == id.StartTicks
}

// names reports whether the cgroup is the container's: the id may have gone to
// another process, or belong to another machine's.
func (i *instance) names(group cgroup.Group) bool {
	for _, place := range group.Places {
		if strings.Contains(place.Path, i.id) {
			return true
		}
	}
	return false
}

// Address implements [platform.Instance]. It is empty where nothing on the
// host reaches the port.
func (i *instance) Address(port int) string { return i.addresses[port] }

// Processes implements [platform.Instance].
func (i *instance) Processes() ([]int, error) {
	if i.process == nil || !alive(i.process.Identity) {
		return nil, i.ended()
	}
	if groupless(i.info) {
		return i.firstFirst(companions(i.namespace)), nil
	}
	pids, err := i.group.Processes()
	if err != nil {
		return nil, fmt.Errorf("list the processes of container %s: %w", i.name, err)
	}
	return i.firstFirst(pids), nil
}

func (i *instance) firstFirst(pids []int) []int {
	first := []int{i.pid}
	for _, pid := range pids {
		if pid != i.pid {
			first = append(first, pid)
		}
	}
	return first
}

func (i *instance) ended() error {
	return fmt.Errorf("%s in container %s has ended: %w", i.spec.Args[0], i.name, platform.ErrGone)
}

// InForce implements [platform.Instance]. Of a program that has ended the
// error wraps [platform.ErrGone].
func (i *instance) InForce() (platform.InForce, error) {
	if i.process == nil {
		return platform.InForce{}, i.ended()
	}
	i.awaitProgram()
	force, err := platform.ReadInForce(i.pid, i.spec.Data)
	// The id named our process all along only if that lives still.
	if !alive(i.process.Identity) {
		return platform.InForce{}, i.ended()
	}
	return force, err
}

// awaitProgram waits until the runtime's init has become the program: the
// engine answers a start some microseconds before that, and what the kernel
// tells until then is the runtime's. There is no event to wait for.
func (i *instance) awaitProgram() {
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
		if !i.beforeProgram(i.pid) {
			return
		}
	}
}

// beforeProgram reports whether the process is the runtime's init, which will
// become the program; one that has ended is not.
func (i *instance) beforeProgram(pid int) bool {
	runtime := i.spec.Setting.Runtime
	if runtime == "" {
		runtime = i.info.DefaultRuntime
	}
	if r, ok := i.info.Runtimes[runtime]; ok && r.Path != "" {
		runtime = r.Path
	}
	process := procfs.Host.Process(pid)
	stat, err := process.Stat()
	if err != nil || stat.Zombie() {
		return false
	}
	args, err := process.Args()
	if err != nil {
		return false
	}
	// runc's init renames itself "runc:[2:INIT]"; crun's is a plain fork of crun.
	return strings.HasPrefix(stat.Comm, "runc:[") || len(args) == 0 || filepath.Base(args[0]) == filepath.Base(runtime)
}

// Usage implements [platform.Instance]. After the program's end it is what had
// been used then.
func (i *instance) Usage() (platform.Usage, error) {
	i.mu.Lock()
	last := i.last
	i.mu.Unlock()
	if last != nil {
		return *last, nil
	}
	if i.process == nil {
		return platform.Usage{}, i.ended()
	}
	usage, err := i.used()
	if err != nil {
		// It may have ended meanwhile; then the watcher has the last word.
		select {
		case <-i.over:
			i.mu.Lock()
			defer i.mu.Unlock()
			if i.last != nil {
				return *i.last, nil
			}
		default:
		}
	}
	return usage, err
}

// used reads what has been used up to now.
func (i *instance) used() (platform.Usage, error) {
	if groupless(i.info) {
		return i.grouplessUsage()
	}
	return platform.ReadUsage(i.group)
}

// Wait implements [platform.Instance]. All output has been handed on when it
// returns.
func (i *instance) Wait(ctx context.Context) (platform.Exit, error) {
	select {
	case <-i.over:
		return i.exit, i.exitErr
	default:
	}
	select {
	case <-i.over:
		return i.exit, i.exitErr
	case <-ctx.Done():
		return platform.Exit{}, fmt.Errorf("wait for container %s: %w", i.name, context.Cause(ctx))
	}
}

// Signal implements [platform.Instance].
func (i *instance) Signal(sig int) error {
	err := i.p.call(context.Background(), "signal container "+i.name, func(ctx context.Context) error {
		_, err := i.p.client.ContainerKill(ctx, i.id, client.ContainerKillOptions{Signal: strconv.Itoa(sig)})
		return err
	})
	// Engines say "is not running" in classes of their own.
	if err != nil && (errdefs.IsConflict(err) || gone(err) || i.process == nil || !alive(i.process.Identity)) {
		return i.ended()
	}
	return err
}

// Stop implements [platform.Instance]. With the engine gone it kills the
// program itself; what the engine keeps of the container stays in the ledger,
// and the error says so.
func (i *instance) Stop(ctx context.Context) error {
	i.mu.Lock()
	if !i.stopping {
		i.stopping = true
		close(i.stopped)
	}
	i.mu.Unlock()
	err := i.remove(ctx)
	select {
	case <-i.over:
	case <-ctx.Done():
		return errors.Join(err, fmt.Errorf("stop container %s: %w", i.name, context.Cause(ctx)))
	}
	i.hangUp()
	if err != nil {
		return i.leftovers(err)
	}
	i.p.leave(i)
	return nil
}

func (i *instance) leftovers(err error) error {
	return fmt.Errorf("stop container %s (tare clean removes what is left of it): %w", i.name, err)
}

// remove releases everything, and ends the program where the engine does not;
// before it is asked, where it did not answer before.
func (i *instance) remove(ctx context.Context) error {
	if i.p.lost.Load() {
		_ = i.endProgram(ctx) // tried again where it counts
	}
	err := i.release(ctx)
	if err != nil {
		err = errors.Join(err, i.endProgram(ctx))
	}
	return err
}

// endProgram ends the program without the engine: whatever that says, or does
// not say any more, the program does not go on. Nor does it where the caller's
// time is over: what has been killed is gone in a moment.
func (i *instance) endProgram(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), i.p.brief)
	defer cancel()
	if i.process != nil {
		err := i.process.Signal(int(syscall.SIGKILL))
		if errors.Is(err, process.ErrGone) || errors.Is(err, os.ErrClosed) {
			return nil
		}
		return errors.Join(err, i.group.Thaw(ctx))
	}
	if i.id == "" {
		return nil
	}
	// Nobody has told which process it is, but its shim names the id.
	if has(i.info, "rootless") {
		var errs []error
		for _, pid := range kept(i.id) {
			if identity, err := process.Identify(pid); err == nil {
				errs = append(errs, identity.Kill(ctx))
			}
		}
		return errors.Join(errs...)
	}
	// Or its cgroup does.
	group, found, err := i.findGroup()
	if err != nil || !found {
		return err // none where nothing was started
	}
	return group.Kill(ctx)
}

// findGroup finds the container's cgroup by the id in its name.
func (i *instance) findGroup() (group cgroup.Group, found bool, err error) {
	layout, err := cgroup.Host()
	if err != nil {
		return group, false, err
	}
	parent := layout.At(i.p.parent(i.info))
	for _, place := range parent.Places {
		groups, _ := os.ReadDir(place.Dir())
		for _, g := range groups {
			if g.IsDir() && strings.Contains(g.Name(), i.id) {
				return parent.Child(g.Name()), true, nil
			}
		}
	}
	return group, false, nil
}

// hangUp ends the connections to the engine that last as long as the container.
func (i *instance) hangUp() {
	if i.stopWaiting != nil {
		i.stopWaiting()
	}
	if i.output != nil {
		i.output.close()
	}
	if i.process != nil {
		i.process.Close()
	}
	i.attending.Lock()
	defer i.attending.Unlock()
	if i.attendants != nil {
		i.attendants.Close()
	}
}

// watch stands from the start to the end of the program.
func (i *instance) watch() {
	defer close(i.over)
	ended := make(chan struct{})
	go i.lastWords(ended)
	answer, end, err := i.awaitAnswer(ended)
	if errors.Is(err, platform.ErrGone) {
		i.p.lost.Store(true)
	}
	i.exit.Elapsed = end.Sub(i.began)
	if err == nil && answer.Error != nil {
		err = &EngineError{Doing: "wait for container " + i.name, Message: answer.Error.Message}
	}
	if err == nil {
		i.exit.Code = int(answer.StatusCode)
		<-ended // the counters stand
		i.exit.OOMKilled = i.killedForMemory()
		err = i.awaitOutput()
	}
	i.exitErr = err
}

// lastWords reads the counters when the first process has ended. By then the
// kernel has killed all others of its pid namespace, so they are final.
func (i *instance) lastWords(ended chan<- struct{}) {
	defer close(ended)
	if i.process == nil {
		return
	}
	if err := i.process.Await(context.Background()); err != nil {
		return
	}
	if groupless(i.info) {
		if usage, err := i.lastSpent(); err == nil {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.last = &usage
		}
		return
	}
	usage, err := platform.ReadUsage(i.group)
	if err != nil {
		return // the engine was faster
	}
	oom, err := platform.OOMKilled(i.group)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.last, i.oomKilled = &usage, err == nil && oom
}

// awaitAnswer waits for the engine to tell the exit, and says when it was. An
// engine that dies is noticed by its connection, one that hangs by its silence
// after the program's end. One that answers, but not to the wait (podman's
// service has lost next exits), is asked again, and the end is then the
// kernel's: the delay is ours, not the platform's.
func (i *instance) awaitAnswer(ended <-chan struct{}) (container.WaitResponse, time.Time, error) {
	silent := func() error {
		return fmt.Errorf("container %s has ended, and the engine has not said so for %s: %w", i.name, i.answerIn(), platform.ErrGone)
	}
	stopped := i.stopped
	var overdue, askAgain <-chan time.Time
	var end time.Time
	for {
		select {
		case e := <-i.exited:
			return e.answer, e.at, i.p.explain("wait for container "+i.name, e.err)
		case <-ended:
			end, ended = time.Now(), nil
			overdue, askAgain = time.After(i.answerIn()), time.After(i.p.patience/30)
		case <-stopped:
			if overdue == nil || i.p.lost.Load() {
				overdue = time.After(i.answerIn())
			}
			stopped = nil
		case <-askAgain:
			if code, known := i.recordedExit(); known {
				return container.WaitResponse{StatusCode: int64(code)}, end, nil
			}
			askAgain = time.After(i.p.patience / 30)
		case <-overdue:
			return container.WaitResponse{}, time.Now(), silent()
		}
	}
}

// answerIn is how long the engine may take to tell of the program's end.
func (i *instance) answerIn() time.Duration {
	select {
	case <-i.stopped:
		return i.p.removalPatience()
	default:
		return i.p.patience
	}
}

// recordedExit asks the engine for the exit status that it has on record.
func (i *instance) recordedExit() (code int, known bool) {
	err := i.p.look(context.Background(), "inspect container "+i.name, func(ctx context.Context) error {
		answer, err := i.p.client.ContainerInspect(ctx, i.id, client.ContainerInspectOptions{})
		if state := answer.Container.State; err == nil && state != nil && state.Status == container.StateExited {
			code, known = state.ExitCode, true
		}
		return err
	})
	return code, known && err == nil
}

// killedForMemory asks the kernel's count and the engine's note. The engine
// learns of it apart from the exit, at times later; the cgroup's count, read
// at the end, is the surer of the two.
func (i *instance) killedForMemory() bool {
	i.mu.Lock()
	killed := i.oomKilled
	i.mu.Unlock()
	if killed || i.spec.Setting.Memory == 0 {
		return killed
	}
	err := i.p.call(context.Background(), "inspect container "+i.name, func(ctx context.Context) error {
		answer, err := i.p.client.ContainerInspect(ctx, i.id, client.ContainerInspectOptions{})
		if err == nil && answer.Container.State != nil {
			killed = answer.Container.State.OOMKilled
		}
		return err
	})
	return err == nil && killed
}

// awaitOutput waits until the streams have been handed on to their end. A
// process that was left behind outside the pid namespace could hold them open.
func (i *instance) awaitOutput() error {
	if i.output == nil {
		return nil
	}
	late := time.NewTimer(i.p.patience)
	defer late.Stop()
	select {
	case <-i.output.done:
		return i.output.err
	case <-late.C:
		return fmt.Errorf("the output of container %s has not ended %s after the program: %w", i.name, i.p.patience, platform.ErrGone)
	}
}
