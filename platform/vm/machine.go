package vm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare/image"
	"tare/kernel/cgroup"
	"tare/kernel/file"
	"tare/kernel/filesystem"
	"tare/kernel/netns"
	"tare/kernel/process"
	"tare/platform"
	"tare/platform/agent"
	"tare/platform/held"
	"tare/platform/vm/guest"
)

// Boot is what is known of a machine: what it took until its agent answered, and how its
// clock stands against the host's.
type Boot struct {
	Machine string // "vm:tcg+cpus=2+memory=1g"
	Engine  string // "QEMU 7.2.22 tcg"
	Kernel  string // release
	CPUs    int
	Memory  int64 // bytes
	Started time.Time
	// Phases are what the boot took, in order: the engine's start, and what the guest
	// tells of its own.
	Phases []agent.Phase
	// Ready is from before the engine's start to the agent's first answer.
	Ready time.Duration
	// Clock is the guest's against the host's, when it last began to run.
	Clock agent.Clock
	// Notes say what is not as one would think, a line each.
	Notes []string
}

// machine is one that has booted.
type machine struct {
	pool    *Pool
	shape   shape
	things  *held.Things
	engine  *qemuRunning // nil until it has started
	console *console
	client  *agent.Client
	address netip.Addr // of the guest, where the host reaches it; zero where it does not
	boot    Boot       // Clock and Notes are guarded by turn

	// Guarded by the pool.
	users int
	used  time.Time
	pin   []int  // that its users want
	box   string // that has it for itself; empty where it is everybody's

	turn     chan struct{} // taken by who pauses, resumes or prepares
	paused   bool
	placed   bool            // by hold, at least once
	pinned   []int           // as it is in force
	prepared map[string]bool // inner platform and image

	gone   chan struct{} // closed when it has ended and nothing of it is left
	ending error         // to be read after gone
}

// removeBound is how long the removal of a machine may take.
const removeBound = time.Minute

// parentGroup is where machines' groups are.
func parentGroup() (cgroup.Group, error) {
	layout, err := cgroup.Host()
	if err != nil {
		return cgroup.Group{}, err
	}
	return layout.At(platform.CgroupParent), nil
}

// bootMachine makes a machine and waits for its agent.
func (p *Pool) bootMachine(ctx context.Context, s shape) (_ *machine, err error) {
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, p.bound(s.engine), fmt.Errorf("its agent did not answer within %v", p.bound(s.engine)))
	defer cancel()
	files, err := p.bootFiles(ctx)
	if err != nil {
		return nil, err
	}
	m := &machine{
		pool: p, shape: s, things: held.New(p.options.Ledger), console: newConsole(),
		turn: make(chan struct{}, 1), prepared: map[string]bool{}, gone: make(chan struct{}), used: time.Now(),
	}
	o := startOrder{shape: s, console: m.console, boot: files}
	defer func() {
		if err == nil {
			return
		}
		if ended := context.Cause(ctx); ended != nil && !errors.Is(err, ended) {
			err = errors.Join(ended, err)
		}
		words := m.console.tail()
		dropping, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeBound)
		defer cancel()
		err = errors.Join(&BootError{Machine: s.String(), Err: err, Console: words}, m.drop(dropping))
	}()
	steps := []func(context.Context, *startOrder) error{m.makeDirectory, m.makeGroup, m.makeTap}
	for _, step := range steps {
		if err := step(ctx, &o); err != nil {
			return nil, err
		}
	}
	order := guest.Order{
		Channel: "virtio:" + channelPort, Hostname: platform.Surroundings.Hostname, Version: p.options.Version,
		Scratch: guest.Device(guest.ScratchSerial),
	}
	if o.tap != nil {
		defer o.tap.Close()
		order.Address, order.Gateway, order.MAC = o.guestAddress, o.hostAddress, o.mac
		m.address = o.guestAddress.Addr()
	}
	if o.word, err = order.Argument(); err != nil {
		return nil, err
	}
	laid := time.Now()
	if m.engine, err = s.engine.start(ctx, o); err != nil {
		return nil, err
	}
	if o.tap != nil {
		_ = o.tap.Close() // the engine has its own: the tap ends with it
	}
	answered := time.Now()
	if err := m.greet(ctx); err != nil {
		return nil, err
	}
	hello := m.client.Hello()
	m.boot = Boot{
		Machine: s.String(),
		Engine:  s.engine.version(ctx),
		Kernel:  hello.Kernel,
		CPUs:    hello.CPUs,
		Memory:  hello.Memory,
		Started: laid,
		Phases: append(
			[]agent.Phase{{Name: "disks and devices", Took: laid.Sub(began)}, {Name: "engine", Took: answered.Sub(laid)}},
			hello.Phases...),
		Ready: time.Since(laid),
		Notes: slices.Concat(m.boot.Notes, files.Warnings, m.warnings(hello)),
	}
	go m.watch()
	return m, nil
}

// BootError says why a machine has not booted, with its last words.
type BootError struct {
	Machine string
	Err     error
	Console string // the end of what its console showed, in one line
}

func (b *BootError) Error() string {
	text := fmt.Sprintf("%s did not boot: %v", b.Machine, b.Err)
	if b.Console != "" {
		text += "; its console's end: " + b.Console
	}
	return text
}

func (b *BootError) Unwrap() error { return b.Err }

var errEngineEnded = errors.New("its engine ended")

// greet waits for the agent's first answer, or for the engine's end.
func (m *machine) greet(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-m.engine.child.ended:
			cancel(errEngineEnded)
		case <-over:
		}
	}()
	client, err := agent.Connect(ctx, m.engine.conn, m.pool.options.Version)
	if err != nil {
		// The stream's end comes with the engine's, and may be seen first.
		select {
		case <-m.engine.child.ended:
			return errEngineEnded
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(endGrace):
			return err
		}
	}
	client.Machine = "vm:" + string(m.shape.engine)
	m.client = client
	return nil
}

// warnings are what the guest says that is not as it was asked.
func (m *machine) warnings(h agent.Hello) []string {
	var notes []string
	if h.CPUs != m.shape.cpus {
		notes = append(notes, fmt.Sprintf("the guest has %d CPUs on line of %d", h.CPUs, m.shape.cpus))
	}
	if own, err := process.Affinity(); err == nil && m.shape.cpus > len(own) {
		notes = append(notes, fmt.Sprintf("the machine has %d CPUs, and this host lets tare run on %d: they take turns", m.shape.cpus, len(own)))
	}
	return notes
}

// makeDirectory makes the machine's directory and, in it, its scratch disk.
func (m *machine) makeDirectory(ctx context.Context, o *startOrder) error {
	parent, err := m.pool.machines()
	if err != nil {
		return err
	}
	o.name = platform.Unique("vm")
	o.dir = filepath.Join(parent, o.name)
	return m.take(ctx, held.Directory, o.dir, nil, func() error {
		if err := os.Mkdir(o.dir, 0o700); err != nil {
			return err
		}
		o.scratch = filepath.Join(o.dir, "scratch")
		size, err := scratchSize(o.dir)
		if err != nil {
			return err
		}
		return guest.ScratchDisk(ctx, o.scratch, size)
	}, func(context.Context) error { return removeDirectory(parent, o.dir) })
}

// Bounds of the disk that programs write to, which takes space only as they do.
const (
	scratchLeast = 1 << 30
	scratchMost  = 32 << 30
)

func scratchSize(dir string) (int64, error) {
	at, err := filesystem.At(dir)
	if err != nil {
		return 0, err
	}
	if at.Free < scratchLeast {
		return 0, fmt.Errorf("%s has %s left, and a virtual machine wants %s for what programs write: free some, or choose another directory by --out or --state-dir", dir, size(at.Free&^(1<<20-1)), size(scratchLeast))
	}
	return min(scratchMost, at.Free/4*3) &^ (1<<20 - 1), nil
}

// makeGroup makes the control group of the engine's processes. It has no limits: the
// machine's size is the limit.
func (m *machine) makeGroup(ctx context.Context, o *startOrder) error {
	parent, err := parentGroup()
	if err != nil {
		return err
	}
	o.group = parent.Child(o.name)
	return m.take(ctx, held.Cgroup, o.group.String(), nil, func() error {
		return o.group.Create("cpu", "cpuset", "memory", "pids", "io")
	}, func(ctx context.Context) error { return m.endGroup(ctx, o.group) })
}

// endGroup ends the engine, with whatever else is in the group.
func (m *machine) endGroup(ctx context.Context, g cgroup.Group) error {
	first := 0
	if m.engine != nil {
		first = m.engine.child.PID
		if err := m.engine.child.kill(ctx); err != nil {
			return err
		}
	}
	if err := held.EndProcesses(ctx, g, first); err != nil {
		return err
	}
	return g.Remove(ctx)
}

// tapLock is the host's: two programs of tare's look for a free subnet one after another.
const tapLock = "/run/tare-vm.lock"

// tapPrefix begins the names of taps, among those of package linked's devices.
const tapPrefix = "tare-v"

// makeTap joins host and guest by a network of their own. Where this host makes no taps
// the machine has none, and is reached through the agent: that is noted.
func (m *machine) makeTap(ctx context.Context, o *startOrder) error {
	var made error
	err := file.Hold(ctx, tapLock, func(*os.File) error {
		link, host, other, err := freeTap()
		if err != nil {
			return err
		}
		return m.take(ctx, held.Link, link.Name, map[string]string{held.MAC: link.MAC}, func() error {
			if o.tap, made = m.pool.makeTap(link, host); made != nil {
				o.tap = nil
				return nil // gone without, below
			}
			o.hostAddress, o.guestAddress = host.Addr(), other
			o.mac = netns.NewLink("").MAC
			return nil
		}, func(context.Context) error { return link.Delete() })
	})
	if made != nil {
		m.boot.Notes = append(m.boot.Notes, fmt.Sprintf("no network of the machine's own (%v): its ports are reached through its agent, which takes longer", made))
	}
	return err
}

// freeTap finds a name and a subnet that nobody uses.
func freeTap() (link netns.Link, host, other netip.Prefix, err error) {
	used, err := netns.UsedSubnets()
	if err != nil {
		return link, host, other, err
	}
	if host, other, err = netns.FreePair(used); err != nil {
		return link, host, other, err
	}
	for n := 0; ; n++ {
		name := fmt.Sprintf("%s%d", tapPrefix, n)
		there, err := netns.Exists(name)
		if err != nil {
			return link, host, other, err
		}
		if !there {
			return netns.NewLink(name), host, other, nil
		}
	}
}

// take enters a thing for whichever platform of machines removes it.
func (m *machine) take(
	ctx context.Context,
	kind, id string,
	attrs map[string]string,
	acquire func() error,
	release func(context.Context) error,
) error {
	return m.things.Take(ctx, platform.Entry{Platform: Entered, Kind: kind, ID: id, Attrs: attrs}, acquire, release)
}

// watch clears the machine away when it ends, by whosever hand.
func (m *machine) watch() {
	<-m.engine.child.ended
	m.pool.forget(m)
	ctx, cancel := context.WithTimeout(context.Background(), removeBound)
	defer cancel()
	m.ending = m.drop(ctx)
	close(m.gone)
}

// drop ends the machine, if it runs, and removes all that was made for it.
func (m *machine) drop(ctx context.Context) error {
	err := m.things.Drop(ctx)
	if m.client != nil {
		_ = m.client.Close()
	}
	if m.engine != nil {
		err = errors.Join(err, m.engine.close())
	}
	return err
}

// end ends the machine and waits until nothing is left of it.
func (m *machine) end(ctx context.Context) error {
	if err := m.engine.child.kill(ctx); err != nil {
		return err
	}
	select {
	case <-m.gone:
		return m.ending
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter takes the machine's turn.
func (m *machine) enter(ctx context.Context) error {
	select {
	case m.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-m.engine.child.ended:
		return m.ended(platform.ErrGone)
	}
}

func (m *machine) leave() { <-m.turn }

// wake lets the machine's time go on, and holds its CPUs to the host's.
func (m *machine) wake(ctx context.Context, pin []int) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.leave()
	if m.paused {
		if err := m.engine.resume(ctx); err != nil {
			return m.ended(err)
		}
		m.paused = false
		m.client.Wake()
	}
	if err := m.hold(ctx, pin); err != nil {
		return m.ended(err)
	}
	clock, err := m.client.Clock(ctx)
	if err != nil {
		return m.ended(err)
	}
	m.boot.Clock = clock
	return nil
}

// rest stops the machine's time, if nobody uses it.
func (m *machine) rest(ctx context.Context) {
	if m.enter(ctx) != nil {
		return // it is gone
	}
	defer m.leave()
	if m.paused || m.pool.inUse(m) {
		return
	}
	m.client.Sleep()
	if err := m.engine.pause(ctx); err != nil {
		m.client.Wake()
		return // it goes on, and costs the others what an idle guest does
	}
	m.paused = true
}

// hold keeps each CPU of the machine on its own of the host's, and all else that the
// engine does on any of those; of a list that is longer than the machine has CPUs, all of
// it may be on any; without a list everything may be anywhere again.
func (m *machine) hold(ctx context.Context, pin []int) error {
	// The engine began with what tare itself was kept to at that moment.
	if m.placed && slices.Equal(pin, m.pinned) {
		return nil
	}
	everywhere := pin
	if len(pin) == 0 {
		all, err := process.Affinity()
		if err != nil {
			return err
		}
		everywhere = all
	}
	all, err := process.Threads(m.engine.child.PID)
	if err != nil {
		return err
	}
	for _, tid := range all {
		if err := process.SetAffinityOf(tid, everywhere); err != nil && !errors.Is(err, process.ErrGone) {
			return err
		}
	}
	threads, err := m.engine.threads(ctx)
	if err != nil {
		return err
	}
	for i, tid := range threads {
		on := everywhere
		if len(pin) > 0 && len(pin) <= m.shape.cpus {
			on = pin[min(i, len(pin)-1) : min(i, len(pin)-1)+1]
		}
		if err := process.SetAffinityOf(tid, on); err != nil {
			return err
		}
	}
	m.placed, m.pinned = true, slices.Clone(pin)
	return nil
}

// mayRun lists, as the kernel has it, the CPUs that the machine's CPUs may be on.
func (m *machine) mayRun(ctx context.Context) ([]int, error) {
	threads, err := m.engine.threads(ctx)
	if err != nil {
		return nil, m.ended(err)
	}
	var all []int
	for _, tid := range threads {
		cpus, err := process.AffinityOf(tid)
		if err != nil {
			return nil, m.ended(err)
		}
		all = append(all, cpus...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// prepare has the image be there, and the inner platform have it.
func (m *machine) prepare(ctx context.Context, inside platform.Platform, img image.Image) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.leave()
	key := inside.Name() + " " + img.Digest
	if m.prepared[key] {
		return nil
	}
	has, err := m.client.Has(ctx, img.Digest)
	if err != nil {
		return m.ended(err)
	}
	if !has {
		disk, err := m.pool.disk(ctx, img)
		if err != nil {
			return err
		}
		serial := guest.SerialOf(img.Digest)
		if err := m.engine.attach(ctx, disk, serial); err != nil {
			return m.ended(fmt.Errorf("giving the machine the disk of image %s: %w", img.Name, err))
		}
		if err := m.client.Attach(ctx, img.Digest, guest.Device(serial)); err != nil {
			return m.ended(err)
		}
	}
	if err := inside.Prepare(ctx, img); err != nil {
		return m.ended(err)
	}
	m.prepared[key] = true
	return nil
}

// endGrace is how long after a stream's end its engine's end may come.
const endGrace = 2 * time.Second

// ended tells, of an error in a machine that has ended, that it has.
func (m *machine) ended(err error) error {
	if err == nil {
		return nil
	}
	over := m.engine.child.over()
	if !over && errors.Is(err, platform.ErrGone) {
		// An instance may be gone of a machine that goes on; only the stream's end
		// is a sign of the machine's.
		select {
		case <-m.client.Done():
			select {
			case <-m.engine.child.ended:
				over = true
			case <-time.After(endGrace):
			}
		default:
		}
	}
	if !over {
		return err
	}
	text := m.shape.String() + " ended while it was in use"
	if words := m.console.tail(); words != "" {
		text += " (its console's end: " + words + ")"
	}
	return fmt.Errorf("%s: %w", text, platform.ErrGone)
}

// removeDirectory removes a machine's directory, if it is one.
func removeDirectory(parent, dir string) error {
	if filepath.Dir(dir) != filepath.Clean(parent) || !strings.HasPrefix(filepath.Base(dir), "vm-") {
		return fmt.Errorf("%s is not a machine's directory in %s: it is left alone", dir, parent)
	}
	info, err := os.Lstat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no directory: it is left alone", dir)
	}
	return os.RemoveAll(dir)
}
