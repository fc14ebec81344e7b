package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"tare/annex"
	"tare/annex/bound"
	"tare/annex/config"
	"tare/annex/control"
	"tare/annex/data"
	"tare/annex/guard"
	"tare/annex/media"
	"tare/annex/monitor"
	"tare/container"
	"tare/kernel/clock"
	"tare/kernel/file"
	"tare/kernel/pressure"
	"tare/kernel/swap"
)

// Names of what is kept in the state directory.
const (
	lockName    = "annexd.lock"
	journalName = "journal"
	writtenName = "written"
)

// alarmWindow is that over which the kernel tells of critical pressure: the shortest that it
// takes from everyone.
const alarmWindow = 2 * time.Second

// Host is a daemon of this host with all that it holds open.
type Host struct {
	*Daemon
	config  config.Config // that was started with
	sockets []func(context.Context) error
	closers []func() error // the last one first

	rebound func(config.Config) // has other bounds of writing in force; nil where nothing is written

	claimed claimed // what is defended, from when it first manages until the end

	found func(context.Context) ([]container.Container, error) // the containers that run

	mu      sync.Mutex
	current config.Config
}

// Open makes a daemon of this host by a configuration. It puts back what another one left
// that was killed, takes the lock, and refuses where the extension cannot run or must not:
// the errors are a [*Lacking], [*Conflict]s, a [*guard.InUse], a [*control.Busy], or the
// parts' own. ctx is to last as long as the daemon. What was put back is told at once,
// since an operator is to know of it also where nothing starts.
func Open(ctx context.Context, path string, c config.Config, version string, tell func(string)) (_ *Host, err error) {
	if os.Geteuid() != 0 {
		return nil, &Lacking{"annexd reads page tables and moves the pages of others", "run it as root"}
	}
	h := &Host{config: c, current: c}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	for key, dir := range map[string]string{"state.directory": c.State.Directory, "state.journal": filepath.Dir(c.State.Journal)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, &Unusable{key, err}
		}
	}
	lock, err := file.Lock(filepath.Join(c.State.Directory, lockName))
	if locked := new(file.Locked); errors.As(err, &locked) {
		return nil, &Conflict{"another annexd", "runs on this host", "systemctl stop annexd, or end its process; annex status tells what it does"}
	}
	if err != nil {
		return nil, err
	}
	h.closing(lock.Close)
	back, warnings, err := h.recover(ctx)
	for _, line := range slices.Concat(back, warnings) {
		tell(line)
	}
	if err != nil {
		return nil, err
	}
	parts := Parts{Now: func() annex.Moment { return annex.Moment(clock.Monotonic()) }, Version: version}
	finder, err := h.finder(&parts)
	if err != nil {
		return nil, err
	}
	found, _, err := finder.Find(ctx)
	if err != nil {
		return nil, err
	}
	notes, err := check(ctx, c, found)
	if err != nil {
		return nil, err
	}
	if _, err := Doubts(c, found); err != nil {
		return nil, err
	}
	lacks, err := h.open(ctx, c, &parts)
	if err != nil {
		return nil, err
	}
	parts.Warnings = append(warnings, lacks...)
	parts.Read = func(managing bool) (Settings, []string, error) { return h.read(ctx, path, managing) }
	h.found = func(ctx context.Context) ([]container.Container, error) {
		all, _, err := finder.Find(ctx)
		return all, err
	}
	settings := h.settings(path, c)
	settings.Warnings = notes
	parts.Data = data.New(settings.complete().Policy)
	h.Daemon = New(parts, settings)
	for _, line := range back {
		h.log(Decision{What: "restore", Why: line})
	}
	return h, h.listen(c)
}

// soon closes something that may wait for scans left behind: what is closed after it, the
// guard among it, does not wait with it.
func soon(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	timer := time.NewTimer(scanWithin)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errUnclosed
	}
}

var errUnclosed = fmt.Errorf("a look at page tables has not come back for %v, and the monitor is left as it is: a process is stuck in the kernel (look for state D)", scanWithin)

// closing notes what is to be closed.
func (h *Host) closing(f func() error) { h.closers = append(h.closers, f) }

// Close ends what is held open. It may be called again.
func (h *Host) Close() error {
	var all error
	for len(h.closers) > 0 {
		last := len(h.closers) - 1
		f := h.closers[last]
		h.closers = h.closers[:last]
		all = errors.Join(all, f())
	}
	return all
}

// recover puts back what a daemon left that was killed together with its guard.
func (h *Host) recover(ctx context.Context) (back, warnings []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var outcomes []guard.Outcome
	// Daemons before this one kept it in the state directory.
	for _, journal := range []string{filepath.Join(h.config.State.Directory, journalName), h.journal()} {
		if _, err := os.Lstat(journal); journal != h.journal() && err != nil {
			continue
		}
		of, recovering := guard.Recover(ctx, guard.Options{Journal: journal})
		outcomes, err = append(outcomes, of...), errors.Join(err, recovering)
	}
	warnings = unrestored(outcomes)
	damaged, err := apart(err)
	for _, one := range damaged {
		warnings = append(warnings, one.Error())
	}
	return restored(outcomes), warnings, err
}

// apart tells damages of a journal from what else went wrong: they are no reason not to start.
func apart(err error) (damaged []error, other error) {
	joined, is := err.(interface{ Unwrap() []error })
	if !is {
		if d := new(guard.Damaged); errors.As(err, &d) {
			return []error{err}, nil
		}
		return nil, err
	}
	var others []error
	for _, one := range joined.Unwrap() {
		d, o := apart(one)
		damaged, others = append(damaged, d...), append(others, o)
	}
	return damaged, errors.Join(others...)
}

func (h *Host) journal() string { return h.config.State.Journal }

// finder makes what finds containers.
func (h *Host) finder(parts *Parts) (*noticing, error) {
	containers, err := FindContainers(h.inForce)
	if err != nil {
		return nil, err
	}
	n, err := notice(containers)
	if err != nil {
		return nil, err
	}
	h.closing(n.watcher.Close)
	parts.Finder, parts.Changes = n, n.changes
	return n, nil
}

// open opens what sees and what moves.
func (h *Host) open(ctx context.Context, c config.Config, parts *Parts) (lacks []string, err error) {
	h.closing(h.claimed.close) // when everything is put back
	knobs := newKnobs(ctx, guard.Options{Journal: h.journal()})
	h.closing(knobs.close)
	parts.Unguarded = knobs.unguarded
	group := c.Memory.Defend
	if group == config.Host {
		group = ""
	}
	b, err := bound.New(bound.Options{Group: group, SwapReserve: c.Memory.SwapReserve, PoolInside: group != "", Knobs: knobs})
	if err != nil {
		return nil, err
	}
	h.claimed.of = b
	if c.Mode == config.Manage {
		if err := h.claimed.take(); err != nil {
			return nil, err
		}
	}
	parts.Bound = reclaims{b, func() bool { return h.inForce().Protect.Reclaim }}
	parts.Size = func(c container.Container) (resident, extended int64, err error) {
		has, err := b.Container(c)
		return has.Anonymous + has.Unmapped, has.Swapped, err
	}
	inUse := &areas{}
	m, err := monitor.Open(monitor.Options{Dormancy: c.Activity.Dormancy})
	if err != nil {
		return nil, err
	}
	h.closing(func() error { return soon(m.Close) })
	for _, lack := range m.Lacks() {
		lacks = append(lacks, lack.Error())
	}
	parts.Monitor = m
	watch := b.Watch(ctx, pressure.Threshold{Stall: time.Duration(c.Pressure.Critical * float64(alarmWindow)), Window: alarmWindow})
	parts.Alarm = watch
	if parts.Mover, err = h.mover(c, inUse, parts); err != nil {
		return nil, err
	}
	if c.Log.File != "" {
		if err := os.MkdirAll(filepath.Dir(c.Log.File), 0o750); err != nil {
			return nil, &Unusable{"log.file", err}
		}
		if parts.Log, err = OpenLog(c.Log.File, c.Log.Size, c.Log.Keep); err != nil {
			return nil, &Unusable{"log.file", err}
		}
		h.closing(parts.Log.Close)
	}
	return lacks, nil
}

// room knows of swap, and what of containers is there: [bound.Bound].
type room interface {
	Holds(bytes int64) error
	Container(c container.Container) (bound.Container, error)
}

// holds refuses, with a [*bound.Full], where swap cannot hold what would leave. What elastic
// containers have there already it holds: a daemon that has filled it may be started again.
func holds(b room, c config.Config, found []container.Container) error {
	leaves := c.Memory.High
	for _, one := range found {
		if c.Class(one) != annex.Elastic {
			continue
		}
		if has, err := b.Container(one); err == nil { // one that has just ended has nothing there
			leaves -= has.Swapped
		}
	}
	return b.Holds(max(leaves, 0))
}

// mover makes media of the swap that is in use.
func (h *Host) mover(c config.Config, inUse *areas, parts *Parts) (Mover, error) {
	if len(inUse.inUse()) == 0 {
		return nowhere{}, nil
	}
	// Of the configuration in force: a tier bounds an area from when that is put to use.
	tiers := newTiers(swap.Host{}, inUse, c.State.Directory, h.inForce)
	if err := tiers.open(); err != nil {
		return nil, err
	}
	h.closing(tiers.close)
	k, err := media.NewKernel(media.Options{Medium: inUse, Brake: h.brake, GiveWay: parts.giveWay, Budgets: tiers.of, Chunk: c.Prefetch.Chunk})
	if err != nil {
		return nil, err
	}
	h.closing(k.Close)
	h.rebound = tiers.set
	parts.Tiers = tiers.told
	return k, nil
}

// brake is what media ask between two chunks.
func (h *Host) brake(r annex.Request) media.Verdict {
	if r.Op == annex.Evict && h.Daemon.Stopping() {
		return media.Stop
	}
	if r.Why == annex.Drained && h.Daemon.Stopping() {
		return media.Wait // nobody waits for it, and critical containers do
	}
	return media.Proceed
}

// nowhere is where there is no swap: an observing daemon moves nothing anyway.
type nowhere struct{}

func (nowhere) Forget(annex.Space) {}

func (nowhere) Do(_ context.Context, r annex.Request) annex.Result {
	return annex.Result{Number: r.Number, ID: r.ID, Op: r.Op, Asked: annex.Count(r.Runs), Err: media.ErrNoMedium}
}

// listen makes the socket, and the metrics' where they are wanted.
func (h *Host) listen(c config.Config) error {
	l, err := control.Listen(c.Control.Socket)
	if path := new(fs.PathError); errors.As(err, &path) {
		return &Unusable{"control.socket", err}
	}
	if err != nil {
		return err
	}
	h.serving(l, control.Serve)
	if c.Control.Metrics == "" {
		return nil
	}
	if l, err = control.ListenMetrics(c.Control.Metrics); err != nil {
		return err
	}
	h.serving(l, control.ServeMetrics)
	return nil
}

func (h *Host) serving(l net.Listener, serve func(context.Context, net.Listener, control.Daemon) error) {
	h.closing(func() error { _ = l.Close(); return nil }) // serving closes it too
	h.sockets = append(h.sockets, func(ctx context.Context) error { return serve(ctx, l, h.Daemon) })
}

// Run runs until ctx ends, answers meanwhile, and closes what is held open.
func (h *Host) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	errs := make(chan error, len(h.sockets))
	for _, serve := range h.sockets {
		all.Go(func() { errs <- serve(ctx) })
	}
	err := h.Daemon.Run(ctx)
	cancel()
	all.Wait()
	close(errs)
	for serving := range errs {
		err = errors.Join(err, serving)
	}
	return errors.Join(err, h.Close())
}

// inForce is the configuration in force.
func (h *Host) inForce() config.Config {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current
}

// read reads the configuration anew, for a daemon that manages at present, or does not.
func (h *Host) read(ctx context.Context, path string, managing bool) (Settings, []string, error) {
	told, err := config.Load(path)
	if err != nil {
		return Settings{}, nil, err
	}
	restart := config.Restarts(h.config, told)
	c := config.InForce(h.config, told)
	begins := c.Mode == config.Manage && !managing
	if begins && h.rebound == nil {
		return Settings{}, nil, &Lacking{"there was no swap when this daemon was started", "put some to use, and start it again"}
	}
	all, err := h.found(ctx)
	if err != nil {
		return Settings{}, nil, err
	}
	notes, conflicts := check(ctx, c, all)
	_, doubtful := Doubts(told, all)
	if refused := errors.Join(conflicts, doubtful); refused != nil && begins {
		return Settings{}, nil, refused
	}
	// One that manages goes on though swap has filled, which each look tells, or another manager
	// has come.
	if full, none := new(bound.Full), new(Lacking); doubtful != nil && !errors.As(doubtful, &full) && !errors.As(doubtful, &none) {
		return Settings{}, nil, doubtful
	}
	notes = append(notes, eachLine(conflicts)...)
	if c.Mode == config.Manage {
		if err := h.claimed.take(); err != nil {
			return Settings{}, nil, err
		}
	}
	h.mu.Lock()
	h.current = c
	h.mu.Unlock()
	if h.rebound != nil {
		h.rebound(c)
	}
	s := h.settings(path, c)
	s.Warnings = append(unstarted(restart), notes...)
	return s, restart, nil
}

// eachLine gives each of several errors a line of its own.
func eachLine(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

// settings are what a configuration comes to.
func (h *Host) settings(path string, c config.Config) Settings {
	return Settings{
		Mode: c.Mode, Classes: c.Class, Policy: policy(c), Protect: c.Protect.Critical,
		Doubts: func(all []container.Container) []string {
			doubted, err := Doubts(c, all)
			return append(doubted, eachLine(err)...)
		},
		Scan:          monitor.Pace{Least: c.Scan.Least, Most: c.Scan.Most},
		CriticalLimit: c.Pressure.Critical, StopWithin: c.Pressure.StopWithin, File: path, Loaded: time.Now(), Defended: c.Memory.Defend,
	}
}

// claims is where claims on what is defended lie: of tests, elsewhere.
var claims = bound.ClaimDirectory

// claimed is what a daemon that manages has to itself: two of them, with whatever state
// directories, would undo what each other does. One that observes is in nobody's way.
type claimed struct {
	of *bound.Bound

	mu   sync.Mutex
	held *bound.Claim // nil is none yet
}

// take takes it, where it is not taken. The error is a [*Conflict] where another daemon has
// it.
func (c *claimed) take() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held != nil {
		return nil
	}
	held, err := c.of.Claim(claims)
	if other := new(bound.Claimed); errors.As(err, &other) {
		what := "the host's memory"
		if other.Group != "" {
			what = "the memory of " + other.Group
		}
		return &Conflict{"another annexd", "defends " + what + " and holds the lock of " + other.Lock, "end that one first"}
	}
	if err != nil {
		return fmt.Errorf("claim of what is defended: %w", err)
	}
	c.held = held
	return nil
}

func (c *claimed) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.held
	c.held = nil
	return held.Close()
}

// reclaims is a bound that reclaims only where the configuration wants it.
type reclaims struct {
	*bound.Bound
	wanted func() bool
}

func (r reclaims) Reclaim(ctx context.Context, c container.Container, bytes int64) (freed int64, err error) {
	if !r.wanted() {
		return r.Bound.Freed(c, bytes)
	}
	freed, err = r.Bound.Reclaim(ctx, c, bytes)
	if near := new(bound.Near); errors.As(err, &near) {
		return freed, nil // what left goes when the container reaches its limit
	}
	return freed, err
}

// knobs is a guard that is started when something is to be changed: an observing daemon
// needs none.
type knobs struct {
	ctx     context.Context
	options guard.Options
	within  time.Duration // a guard has started, or does not

	starting chan struct{} // held by who starts one, or ends it

	mu    sync.Mutex // never while something is waited for: the status asks
	guard *guard.Guard
	lack  error // why there is no guard process
}

// guardWithin is how long a guard may take to start: another one's that ends has let go of
// the journal by then.
const guardWithin = 10 * time.Second

func newKnobs(ctx context.Context, o guard.Options) *knobs {
	return &knobs{ctx: ctx, options: o, within: guardWithin, starting: make(chan struct{}, 1)}
}

// hold keeps others from starting a guard, or ending it.
func (k *knobs) hold(ctx context.Context) error {
	select {
	case k.starting <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *knobs) letGo() { <-k.starting }

// current is the guard; nil where none was started.
func (k *knobs) current() *guard.Guard {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.guard
}

func (k *knobs) set(g *guard.Guard) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.guard = g
}

// attend has another guard process started as soon as one has ended: what is changed would be put
// back by nobody if the daemon were killed then, too.
func (k *knobs) attend(g *guard.Guard) {
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-g.Died():
		}
		if !k.revive(g) {
			return
		}
		if k.lacks() == nil {
			continue
		}
		select {
		case <-k.ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

// revive starts another guard process, and notes what came of it; false where the guard is not in
// use any more.
func (k *knobs) revive(g *guard.Guard) bool {
	if k.hold(k.ctx) != nil {
		return false
	}
	defer k.letGo()
	if k.current() != g {
		return false
	}
	ctx, cancel := context.WithTimeout(k.ctx, k.within)
	defer cancel()
	k.note(g.Revive(ctx))
	return true
}

// note notes why there is no guard process, or that there is one.
func (k *knobs) note(lack error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lack = lack
}

// lacks says why there is no guard process.
func (k *knobs) lacks() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lack
}

// unguarded says what that is to an operator; empty where there is one.
func (k *knobs) unguarded() string {
	lack := k.lacks()
	if lack == nil {
		return ""
	}
	return fmt.Sprintf("the guard process has ended and another does not start, so that settings stay changed should annexd be killed now: %v", lack)
}

// started is the guard, with its process.
func (k *knobs) started(ctx context.Context) (*guard.Guard, error) {
	if g := k.current(); g != nil && g.Alive() == nil {
		return g, nil
	}
	if err := k.hold(ctx); err != nil {
		return nil, fmt.Errorf("waiting for the guard process to start: %w", err)
	}
	defer k.letGo()
	limited, cancel := context.WithTimeout(k.ctx, k.within)
	defer cancel()
	g := k.current()
	if g == nil {
		g, err := guard.Start(limited, k.options)
		if err != nil {
			return nil, err
		}
		k.set(g)
		go k.attend(g)
		return g, nil
	}
	// One that somebody has ended, or that was stopped and hears nothing, is no guard: without
	// one nothing may be changed.
	err := g.Revive(limited)
	k.note(err)
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (k *knobs) Momentarily(ctx context.Context, file, text string) (guard.Outcome, error) {
	g, err := k.started(ctx)
	if err != nil {
		return guard.Outcome{}, err
	}
	return g.Momentarily(ctx, file, text)
}

func (k *knobs) While(ctx context.Context, file, text string, do func() error) (guard.Outcome, error) {
	g, err := k.started(ctx)
	if err != nil {
		return guard.Outcome{}, err
	}
	return g.While(ctx, file, text, do)
}

func (k *knobs) Keep(ctx context.Context, file, text string) error {
	g, err := k.started(ctx)
	if err != nil {
		return err
	}
	return g.Keep(ctx, file, text)
}

func (k *knobs) Restore(files ...string) ([]guard.Outcome, error) {
	g := k.current()
	if g == nil {
		return nil, nil
	}
	return g.Restore(files...)
}

// close puts everything back.
func (k *knobs) close() error {
	k.starting <- struct{}{}
	defer k.letGo()
	g := k.current()
	if g == nil {
		return nil
	}
	_, err := g.Close()
	k.set(nil)
	return err
}

// FirstDecision is after how long a daemon that has begun to manage has decided for the
// first time: when the containers that it found are no longer new to it, and a look at
// memory later.
const FirstDecision = 5*time.Second + 2*latestLook
