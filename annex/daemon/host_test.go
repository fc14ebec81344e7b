package daemon

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/control"
	"tare/annex/data"
	"tare/annex/media"
	"tare/annex/monitor"
	"tare/container"
	"tare/kernel/file"
)

const mebibyte = 1 << 20

// host is a host as far as a daemon sees it: containers with pages that are in memory or in
// swap, free memory that follows from them, and a clock that is the test's.
type host struct {
	began time.Time
	alarm *alarm // nil is none

	identify func(container.Container) annex.ID // nil is by name
	doubts   func([]container.Container) []string
	events   chan monitor.Batch
	changes  chan struct{}
	fixed    map[string]string // why a container cannot be extended, by its name
	each     time.Duration     // that moving a page takes
	gave     atomic.Int64      // how often critical containers were let go first

	mu         sync.Mutex
	limit      int64
	containers map[string]*box
	stopping   func() bool

	protected, released, reclaimed int             // containers that are, and how often
	knobs                          map[string]bool // what protects containers now, by their control groups
	moved                          map[annex.Op]int
	lastEvicted                    annex.Moment
	memoryErr, moveErr, findErr    error
	looks, memoryLooks             int
	inspected                      int                    // looks at what one container may have
	vain                           bool                   // what leaves stays in memory, as swap cache
	lateClass                      map[string]annex.Class // classes that media do not hold against a daemon
	leaving                        map[string]bool        // containers whose pages are being evicted
	stuck                          chan struct{}          // nil, or scans wait for it:
	sticks                         string                 // those of this container; empty is of each
	scans                          map[string]int         // begun, by container
	scanErr                        error                  // of each scan
	reclaim                        func(context.Context) (int64, error)
	early                          int // protections of such
	forgot                         []annex.Space
	frozen                         map[string]bool // containers that are
	frozenErr                      error           // why that is not known
	cpu                            map[string]time.Duration
	hangs                          map[string]chan struct{} // calls for these do not come back until it is closed
	tried                          map[string][]annex.Moment
	late                           func(annex.Request)
	endTook                        time.Duration // from being told to end
}

func (h *host) looked() int { h.mu.Lock(); defer h.mu.Unlock(); return h.looks }
func (h *host) scansOf(name string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.scans[name]
}
func (h *host) protectedNow() int { h.mu.Lock(); defer h.mu.Unlock(); return h.protected }

type box struct {
	container.Container
	class   annex.Class
	states  []annex.State
	some    time.Duration // of its pressure
	watched bool
	first   bool
	limit   int64 // of its own; 0 is none
	// unmapped is what of it is in memory beside its pages, and mapped by nobody.
	unmapped int64
	crowded  string // a limit of its swap of which half is used
}

func newHost(limit int64) *host {
	return &host{
		began: time.Now(), events: make(chan monitor.Batch), changes: make(chan struct{}), each: 5 * time.Microsecond,
		limit: limit, containers: map[string]*box{}, knobs: map[string]bool{}, moved: map[annex.Op]int{}, scans: map[string]int{}, tried: map[string][]annex.Moment{},
		cpu: map[string]time.Duration{}, frozen: map[string]bool{},
	}
}

// run adds a container with some of its pages in memory and the rest in swap.
func (h *host) run(name string, class annex.Class, resident, swapped int) *box {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := &box{Container: container.Container{Engine: container.Cgroup, ID: "id-of-" + name, Name: name, Cgroup: "/" + name}, class: class}
	for range resident {
		b.states = append(b.states, annex.Present)
	}
	for range swapped {
		b.states = append(b.states, annex.Swapped)
	}
	h.containers[name] = b
	return b
}

func (h *host) end(name string) { h.mu.Lock(); defer h.mu.Unlock(); delete(h.containers, name) }

func (h *host) now() annex.Moment { return annex.Moment(time.Since(h.began) + time.Hour) }

func (h *host) class(c container.Container) annex.Class {
	h.mu.Lock()
	defer h.mu.Unlock()
	if class, is := h.lateClass[c.Name]; is {
		return class
	}
	if b := h.containers[c.Name]; b != nil {
		return b.class
	}
	return annex.Ignored
}

func (h *host) Find(context.Context) (all []container.Container, notes []string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looks++
	for _, name := range slices.Sorted(maps.Keys(h.containers)) {
		all = append(all, h.containers[name].Container)
	}
	return all, nil, h.findErr
}

func (h *host) at(id annex.ID) *box {
	name, _, _ := strings.Cut(string(id), "@")
	return h.containers[name]
}

func (h *host) Watch(id annex.ID, _ string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.at(id)
	if b == nil || b.watched {
		return errors.New("gone, or watched already")
	}
	b.watched = true
	return nil
}

func (h *host) Unwatch(id annex.ID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b := h.at(id); b != nil {
		b.watched, b.first = false, false
	}
	return nil
}

func (h *host) Precede(id annex.ID, _ string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.at(id)
	if b == nil || b.watched || b.first {
		return errors.New("gone, or watched already")
	}
	b.first = true
	return nil
}

// GiveWay notes that the caller let critical containers go first, for nobody sleeps here.
func (h *host) GiveWay(time.Duration) time.Duration {
	h.gave.Add(1)
	return 0
}

// Given is a millisecond for each time.
func (h *host) Given() time.Duration { return time.Duration(h.gave.Load()) * time.Millisecond }

func (h *host) Events() <-chan monitor.Batch { return h.events }

var theSpace = annex.Space{PID: 7, Started: 7}

func (h *host) Scan(_ context.Context, id annex.ID) ([]annex.Scan, error) {
	began := h.now()
	h.mu.Lock()
	h.scans[string(id)]++
	h.mu.Unlock()
	if h.stuck != nil && (h.sticks == "" || h.sticks == string(id)) {
		<-h.stuck
	}
	time.Sleep(100 * time.Microsecond)
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.at(id)
	if b == nil {
		return nil, errors.New("gone")
	}
	if h.scanErr != nil {
		return nil, h.scanErr
	}
	return []annex.Scan{{
		ID: id, Space: theSpace, Began: began, Ended: h.now(), KnowsAccess: true,
		Stretches: []annex.Stretch{{First: 0, States: slices.Clone(b.states)}},
	}}, nil
}

func (h *host) resident() (pages int) {
	for _, b := range h.containers {
		pages += int(b.unmapped / annex.PageSize)
		for _, s := range b.states {
			if s.Has(annex.Present) || h.vain {
				pages++
			}
		}
	}
	return pages
}

func (h *host) swapped(name string) (pages int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.containers[name].states {
		if !s.Has(annex.Present) {
			pages++
		}
	}
	return pages
}

func (h *host) Memory() (annex.Memory, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.memoryLooks++
	free := h.limit - int64(h.resident())*annex.PageSize
	return annex.Memory{At: h.now(), Limit: h.limit, Free: max(free, 0), SwapSize: 1 << 30, SwapFree: 1 << 30}, h.memoryErr
}

func (h *host) Pressure(c container.Container) (annex.Pressure, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.containers[c.Name]
	if b == nil {
		return annex.Pressure{}, errors.New("gone")
	}
	return annex.Pressure{At: h.now(), Some: b.some}, nil
}

func (h *host) Unmapped(c container.Container) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b := h.containers[c.Name]; b != nil {
		return b.unmapped, nil
	}
	return 0, errors.New("gone")
}

func (h *host) Inspect(c container.Container) (int64, string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inspected++
	return 0, h.fixed[c.Name]
}
func (h *host) Crowded(c container.Container) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b := h.containers[c.Name]; b != nil {
		return b.crowded, nil
	}
	return "", errors.New("gone")
}
func (h *host) Room(c container.Container) (int64, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.containers[c.Name]
	if b == nil || b.limit == 0 {
		return 0, false
	}
	room := b.limit
	for _, s := range b.states {
		if s.Has(annex.Present) {
			room -= annex.PageSize
		}
	}
	return room, true
}
func (h *host) Protect(c container.Container) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.knobs[c.Cgroup] = true
	h.protected = len(h.knobs)
	if h.leaving[c.Name] {
		h.early++
	}
	return nil
}
func (h *host) Unprotect(c container.Container) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.knobs, c.Cgroup)
	h.protected = len(h.knobs)
	return nil
}
func (h *host) Release() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released++
	clear(h.knobs)
	h.protected = 0
	return nil
}

func (h *host) Reclaim(ctx context.Context, c container.Container, bytes int64) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reclaimed++
	if reclaim := h.reclaim; reclaim != nil {
		h.mu.Unlock()
		defer h.mu.Lock()
		return reclaim(ctx)
	}
	if h.vain {
		return 0, nil
	}
	if b := h.containers[c.Name]; b != nil {
		b.unmapped -= min(b.unmapped, bytes)
	}
	return bytes, nil
}

// leaves notes that pages of a container are being evicted.
func (h *host) leaves(id annex.ID) (ended func()) {
	set := func(to bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.leaving == nil {
			h.leaving = map[string]bool{}
		}
		h.leaving[string(id)] = to
	}
	set(true)
	return func() { set(false) }
}

// Do moves pages in chunks, as media do.
func (h *host) Forget(s annex.Space) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgot = append(h.forgot, s)
}

func (h *host) Do(ctx context.Context, r annex.Request) annex.Result {
	result := annex.Result{Number: r.Number, ID: r.ID, Op: r.Op, Began: h.now(), Asked: annex.Count(r.Runs)}
	if err := h.hang(r); err != nil {
		result.Stopped, result.Err, result.Ended = true, err, h.now()
		return result
	}
	const chunk = 64
	n := 0
	if r.Op == annex.Evict {
		defer h.leaves(r.ID)()
	}
	for _, run := range r.Runs {
		for page := run.First; page < run.End(); page++ {
			if n++; n%chunk == 1 {
				if ctx.Err() != nil || r.Op == annex.Evict && h.stopping() {
					result.Stopped, result.Ended = true, h.now()
					return result
				}
				time.Sleep(chunk * h.each)
			}
			h.move(r, page, &result)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	result.Err, result.Ended = h.moveErr, h.now()
	return result
}

// hang does what media do of a container of which calls hang.
func (h *host) hang(r annex.Request) error {
	h.mu.Lock()
	hang := h.hangs[string(r.ID)]
	h.tried[string(r.ID)] = append(h.tried[string(r.ID)], h.now())
	h.mu.Unlock()
	select {
	case <-hang:
		return nil
	default:
	}
	if hang == nil {
		return nil
	}
	time.Sleep(media.DefaultSlow)
	h.late(r)
	select {
	case <-hang:
		return nil
	case <-time.After(media.DefaultTimeout - media.DefaultSlow):
		return &media.Hung{Space: theSpace, After: media.DefaultTimeout}
	}
}

func (h *host) move(r annex.Request, page annex.Page, result *annex.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.at(r.ID)
	if b == nil || h.moveErr != nil {
		return
	}
	if b.class != annex.Elastic {
		panic("a page of " + b.Name + " was moved")
	}
	want := annex.Present
	if r.Op == annex.Evict {
		want, h.lastEvicted = annex.Swapped, h.now()
	}
	if b.states[page].Has(want) {
		result.Skipped++
		return
	}
	b.states[page] = want
	result.Moved++
	h.moved[r.Op]++
}

func (h *host) pages(op annex.Op) int { h.mu.Lock(); defer h.mu.Unlock(); return h.moved[op] }

// press has a critical container wait for memory for a part of the time.
func (h *host) press(ctx context.Context, name string, share float64) {
	for ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
		h.mu.Lock()
		h.containers[name].some += time.Duration(share * float64(10*time.Millisecond))
		h.mu.Unlock()
	}
}

// tell has the monitor tell something.
func (h *host) tell(b monitor.Batch) { h.events <- b }

func (h *host) settings(mode config.Mode) Settings {
	return Settings{
		Mode: mode, Classes: h.class, Doubts: h.doubts, Protect: true, CriticalLimit: 0.01, Defended: "host",
		Policy: data.Policy{Headroom: data.Headroom{Low: 16 * mebibyte, High: 24 * mebibyte}, Ages: data.Ages{WarmUp: time.Nanosecond}},
	}
}

// manage runs a daemon over the host in a bubble of fake time, and a test beside it. When
// that returns the daemon is ended, and must have answered everything and put all back.
func manage(t *testing.T, limit int64, mode config.Mode, prepare func(*host), test func(*testing.T, *host, *Daemon)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(limit)
		prepare(h)
		parts := Parts{
			Finder: h, Changes: h.changes, Monitor: h, Mover: h, Bound: h, Now: h.now,
			Frozen: func(c container.Container) (bool, error) {
				h.mu.Lock()
				defer h.mu.Unlock()
				return h.frozen[c.Name], h.frozenErr
			},
			CPU: func(c container.Container) (time.Duration, error) {
				h.mu.Lock()
				defer h.mu.Unlock()
				return h.cpu[c.Name], nil
			},
			Identify: func(c container.Container) (annex.ID, error) {
				h.mu.Lock()
				defer h.mu.Unlock()
				if h.identify != nil {
					return h.identify(c), nil
				}
				return annex.ID(c.Name), nil
			},
		}
		if h.alarm != nil {
			parts.Alarm = h.alarm
		}
		s := h.settings(mode)
		parts.Data = data.New(s.complete().Policy)
		parts.Read = func(bool) (Settings, []string, error) { return h.settings(mode), nil, nil }
		d := New(parts, s)
		h.stopping, h.late = d.Stopping, d.Late
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		test(t, h, d)
		cancel()
		began := time.Now()
		if err := <-ended; err != nil {
			t.Errorf("the run ended with: %v", err)
		}
		h.endTook = time.Since(began)
		if h.stuck != nil {
			close(h.stuck) // that the run ended before is the point
			time.Sleep(time.Second)
		}
		if len(h.hangs) > 0 {
			time.Sleep(2 * media.DefaultTimeout) // likewise
		}
		if !d.movers.idle() || len(d.asked) > 0 {
			t.Errorf("%d requests have no result", len(d.movers.under))
		}
		if h.released == 0 {
			t.Error("nothing was put back")
		}
		for _, b := range h.containers {
			if b.watched {
				t.Errorf("%s is still watched", b.Name)
			}
		}
	})
}

// awaits waits, in fake time, until something holds, for at most so long.
func awaits(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(began) > within {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

func state(d *Daemon, s control.State) func() bool {
	return func() bool { return d.Status().State == s }
}

func find(t *testing.T, d *Daemon, name string) control.Context {
	t.Helper()
	for _, c := range d.Status().Contexts {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no context %s", name)
	return control.Context{}
}

// Where annexd writes, no other user may decide what lies there.
func TestDirectoriesOfOthersAreRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving a directory away takes root")
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name, "x") }
	for name, to := range map[string]struct {
		mode     os.FileMode
		uid, gid int
	}{"users": {0o700, 65534, 0}, "anybodys": {0o777, 0, 0}, "logs": {0o775, 0, 4}} {
		made := filepath.Join(dir, name)
		if err := errors.Join(os.Mkdir(made, 0o700), os.Chown(made, to.uid, to.gid), os.Chmod(made, to.mode)); err != nil {
			t.Fatal(err)
		}
	}
	fitting := func() (c config.Config) {
		c.State.Directory, c.State.Journal, c.Control.Socket, c.Log.File = filepath.Join(dir, "state"), at("state"), at("socket"), at("logs")
		return c
	}
	if err := guarded(fitting()); err != nil {
		t.Errorf("a log where a group may write: %v", err)
	}
	for _, name := range []string{"users", "anybodys"} {
		for key, set := range map[string]func(*config.Config){
			"state.directory": func(c *config.Config) { c.State.Directory = filepath.Join(dir, name) },
			"state.journal":   func(c *config.Config) { c.State.Journal = at(name) },
			"control.socket":  func(c *config.Config) { c.Control.Socket = at(name) },
			"log.file":        func(c *config.Config) { c.Log.File = at(name) },
		} {
			c := fitting()
			set(&c)
			unusable, exposed := new(Unusable), new(file.Exposed)
			if err := guarded(c); !errors.As(err, &unusable) || unusable.Key != key || !errors.As(err, &exposed) {
				t.Errorf("%s in %s: %v", key, name, err)
			}
		}
	}
}
