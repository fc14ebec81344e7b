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
	"sync"
	"time"

	"tare/annex"
	"tare/annex/bound"
	"tare/annex/config"
	"tare/annex/control"
	"tare/annex/data"
	"tare/annex/guard"
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

// guarded makes the directories in which the daemon writes. It refuses one that another user could write
// or replace: a link there would have root write elsewhere, and a socket there could pass for the daemon's.
func guarded(c config.Config) error {
	for key, dir := range map[string]string{
		"state.directory": c.State.Directory, "state.journal": filepath.Dir(c.State.Journal), "control.socket": filepath.Dir(c.Control.Socket),
	} {
		if err := file.MakeDirectory(dir, 0o700, file.Guarded); err != nil {
			return &Unusable{key, err}
		}
	}
	if c.Log.File == "" {
		return nil
	}
	if err := file.MakeDirectory(filepath.Dir(c.Log.File), 0o750, file.Administered); err != nil {
		return &Unusable{"log.file", err}
	}
	return nil
}

// Open makes a daemon of this host by a configuration. It puts back what another one left
// that was killed, takes the lock, and refuses where the extension cannot run or must not:
// the errors are a [*Lacking], [*Conflict]s, a [*guard.InUse], a [*control.Busy], or the
// parts' own. ctx is to last as long as the daemon. What was put back is reported at once,
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
	if err := guarded(c); err != nil {
		return nil, err
	}
	lock, err := file.Lock(filepath.Join(c.State.Directory, lockName))
	if locked := new(file.Locked); errors.As(err, &locked) {
		return nil, &Conflict{"another annexd", "runs on this host", "systemctl stop annexd, or end its process; annex status tells what it does"}
	}
	if err != nil {
		return nil, err
	}
	h.closing(lock.Close)
	back, warnings, err := Recover(ctx, c)
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
	if _, err := check(ctx, c, found); err != nil { // each look tells of what is no reason not to start
		return nil, err
	}
	if _, err := Doubts(c, found); err != nil {
		return nil, err
	}
	lacks, err := h.open(ctx, c, &parts)
	if err != nil {
		return nil, err
	}
	finder.ignore(h.claimed.of.IsOwn)
	parts.Warnings = append(warnings, lacks...)
	parts.Read = func(managing bool) (Settings, []string, error) { return h.read(ctx, path, managing) }
	h.found = func(ctx context.Context) ([]container.Container, error) {
		all, _, err := finder.Find(ctx)
		return all, err
	}
	settings := h.settings(path, c)
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

// finder makes what finds containers.
func (h *Host) finder(parts *Parts) (*noticing, error) {
	containers, err := FindContainers(h.inForce)
	if err != nil {
		return nil, err
	}
	n := notice(containers)
	h.closing(n.close)
	conflicts := func(ctx context.Context, all []container.Container) []string { return warn(ctx, h.inForce(), all) }
	parts.Finder, parts.Changes = &wary{Finder: n, conflicts: conflicts, now: time.Now}, n.changes
	of := groups{containers.layout}
	parts.Frozen, parts.CPU = of.frozen, of.cpu
	return n, nil
}

// open opens what sees and what moves.
func (h *Host) open(ctx context.Context, c config.Config, parts *Parts) (lacks []string, err error) {
	h.closing(h.claimed.close) // when everything is put back
	knobs := newKnobs(ctx, guard.Options{Journal: c.State.Journal})
	h.closing(knobs.close)
	parts.Unguarded = knobs.unguarded
	group := c.Memory.Defend
	if group == config.Host {
		group = ""
	}
	b, err := bound.New(
		bound.Options{
			Group:       group,
			SwapReserve: c.Memory.SwapReserve,
			PoolInside:  group != "",
			Knobs:       knobs,
			Unit:        unitOf,
		},
	)
	if err != nil {
		return nil, err
	}
	h.claimed.of = b
	if c.Mode == config.Manage {
		if err := h.claimed.take(); err != nil {
			return nil, err
		}
	}
	reclaiming := &reclaims{Bound: b, wanted: func() bool { return h.inForce().Protect.Reclaim }}
	parts.Bound, parts.Vain = reclaiming, reclaiming.vain
	parts.Size = func(c container.Container) (resident, extended int64, err error) {
		has, err := b.Container(c)
		return has.Anonymous + has.Unmapped, has.Swapped, err
	}
	inUse := &areas{}
	if log, err := (swap.Host{}).Failures(); err != nil {
		lacks = append(lacks, fmt.Sprintf("a swap device that fails goes unnoticed: %v", err))
	} else {
		h.closing(log.Close)
		inUse.failing = newFailing(log)
		parts.Failing = inUse.failing.look
	}
	m, err := monitor.Open(monitor.Options{Dormancy: c.Activity.Dormancy})
	if err != nil {
		return nil, err
	}
	h.closing(func() error { return soon(m.Close) })
	for _, lack := range m.Lacks() {
		lacks = append(lacks, lack.Error())
	}
	parts.Monitor = m
	watch := b.Watch(
		ctx,
		pressure.Threshold{Stall: time.Duration(c.Pressure.Critical * float64(alarmWindow)), Window: alarmWindow},
	)
	parts.Alarm = watch
	if parts.Mover, err = h.mover(c, inUse, parts); err != nil {
		return nil, err
	}
	if c.Log.File != "" {
		if parts.Log, err = OpenLog(c.Log.File, c.Log.Size, c.Log.Keep); err != nil {
			return nil, &Unusable{"log.file", err}
		}
		h.closing(parts.Log.Close)
	}
	return lacks, nil
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

// FirstDecision is after how long a daemon that has begun to manage has decided for the
// first time: when the containers that it found are no longer new to it, and a look at
// memory later.
const FirstDecision = 5*time.Second + 2*latestLook
