// Package guard changes knobs of the kernel's in such a way that none outlives the
// daemon that wanted it: a limit that was lowered for a moment so that the kernel reclaims,
// a protection that is to hold while the daemon runs.
//
// Each change is written to a journal, with what was found, before it is made. A process
// of the guard's own, started from the same program, watches the daemon by a pipe: when
// that closes, since the daemon was killed, it puts everything back that the journal has
// open, at once. It does so too for a momentary change that the daemon has not taken back
// in time, because it was stopped. Where both were killed [Recover] does it, at the next
// start.
//
// Nothing is put back over what somebody else has set since: a knob is written only while
// it holds what was written here. While the kernel works at a momentary change, writes of
// others are heard of, and it is left off: unless the kernel gets done in the moment between
// another's write and the look at what that set, which is then written over, and lost. Between
// a look and the write that follows lie some microseconds in which another's change is not seen,
// either; the kernel has nothing that compares and sets.
//
// The kernel closes a killed program's pipes when its last thread has ended, and so after
// the last of its system calls has: no write to a knob is still under way when the guard
// begins.
//
// It decides on nothing, and knows no containers.
package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tare/kernel/host"
	"tare/kernel/knob"
)

// Guard changes knobs, and has them put back. Its methods may be called at the same
// time.
type Guard struct {
	options Options
	lock    *os.File

	reviving sync.Mutex // before mu: one guard process is started at a time

	mu    sync.Mutex
	store *store
	watch *watcher        // whose fields but died and why are under mu
	busy  map[string]bool // files with an entry that is open
	// failed are momentary changes that could not be put back when they were to be.
	failed map[string]Entry
	ended  bool

	underWay sync.WaitGroup // changes being made

	// at is told where a change is, in tests, which kill this program there.
	at func(moment string)
}

// Unguarded says that the guard process has ended: nothing is changed until there is
// another.
type Unguarded struct{ Why string }

func (u *Unguarded) Error() string {
	return fmt.Sprintf("the guard process has ended (%s), and without it nothing is changed: restart annexd", u.Why)
}

// Unrecovered says that a journal has entries that nobody has put back.
type Unrecovered struct {
	Journal string
	Open    int
}

func (u *Unrecovered) Error() string {
	return fmt.Sprintf("the journal %s has %d knobs that were not put back: recover it first (annex off)", u.Journal, u.Open)
}

// Busy says that a knob is being changed already.
type Busy struct{ File string }

func (b *Busy) Error() string { return fmt.Sprintf("%s is being changed already", b.File) }

// Changed says that somebody else set a knob while it was about to be changed.
type Changed struct{ File, Found, Have string }

func (c *Changed) Error() string {
	return fmt.Sprintf("%s held %q and now holds %q: somebody else is changing it, and it was left alone", c.File, c.Found, c.Have)
}

// Start begins a journal and starts the guard process. The error is an [*InUse] where
// another daemon has the journal, and an [*Unrecovered] where [Recover] is to be called
// first. The program's main function must call [Main] before anything else.
func Start(ctx context.Context, o Options) (*Guard, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	lock, err := awaitLock(ctx, o.Journal)
	if err != nil {
		return nil, err
	}
	g := &Guard{options: o, lock: lock, busy: map[string]bool{}, failed: map[string]Entry{}, at: func(string) {}}
	if err := g.begin(ctx); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return g, nil
}

func (g *Guard) begin(ctx context.Context) error {
	j, err := read(g.options.Journal)
	if err != nil {
		return err
	}
	boot, err := host.BootID()
	if err != nil {
		return err
	}
	if len(j.Open) > 0 && (j.Boot == "" || j.Boot == boot) {
		return &Unrecovered{g.options.Journal, len(j.Open)}
	}
	if g.store, err = create(g.options.Journal, boot, 0, nil); err != nil {
		return err
	}
	if g.watch, err = watch(ctx, g.options, g.lock); err != nil {
		return errors.Join(err, g.store.close())
	}
	return nil
}

// Revive starts another guard process where the first has ended. Nothing else waits for
// that. The new one counts the time of momentary changes that are open from now on.
func (g *Guard) Revive(ctx context.Context) error {
	g.reviving.Lock()
	defer g.reviving.Unlock()
	if !g.lacking() {
		return nil
	}
	next, err := watch(ctx, g.options, g.lock)
	if err != nil {
		return err
	}
	before := g.replace(next)
	before.release()
	return nil
}

// lacking tells whether another guard process is wanted.
func (g *Guard) lacking() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.ended && g.watch.alive() != nil
}

// replace has another guard process be told of changes, those first that are open; it is the
// one before that is returned.
func (g *Guard) replace(next *watcher) (before *watcher) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before, g.watch = g.watch, next
	for _, e := range g.store.open {
		if e.Kind != Momentary {
			continue
		}
		if text, err := (line{Number: e.Number, Open: &e}).text(); err == nil {
			next.tell(text)
		}
	}
	return before
}

// Alive tells that the guard process is there; the error is an [*Unguarded].
func (g *Guard) Alive() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.watch.alive()
}

// Died is closed when the guard process has ended.
func (g *Guard) Died() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.watch.died
}

// PID is the guard process' id.
func (g *Guard) PID() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.watch.command.Process.Pid
}

// Note says what of the guard process is not as it should be; empty where all is.
func (g *Guard) Note() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.watch.note
}

// Open lists what is changed now.
func (g *Guard) Open() []Entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.store.open)
}

// Momentarily writes a text to a knob, which may have the kernel work for as long as ctx
// lasts, and puts back at once what was there. The outcome tells what became of the
// latter, and the error why the former was not done: the kernel's own (EBUSY where a
// limit cannot be reached), that of ctx, a [*Changed], a [*Busy], a [*Refused], an
// [*Unguarded] or a [*knob.Gone]. An outcome that is [Failed] is an error too.
func (g *Guard) Momentarily(ctx context.Context, file, text string) (Outcome, error) {
	k, e, err := g.enterMomentary(ctx, file, text)
	if err != nil {
		return Outcome{Entry: e, Ending: Already}, err
	}
	defer g.underWay.Done()
	defer k.Close()
	theirs, writing := g.writeWatching(ctx, k, e)
	back := e
	if theirs != "" {
		back.Found = theirs
	}
	outcome := back.restoreIn(k)
	outcome.Entry = e
	if theirs != "" && outcome.Ending == Already {
		outcome.Ending = Foreign
	}
	g.at("restored")
	g.cross(outcome)
	return outcome, errors.Join(writing, failures([]Outcome{outcome}))
}

// While writes a text to a knob, does something, and puts back at once what was there,
// whatever came of that. It may make other momentary changes meanwhile, and is to be done
// within the lease: the guard process takes this change back then, and it goes on without.
// What somebody else sets meanwhile stays. The outcome is as of [Guard.Momentarily]; the
// error is that of do, or says why it was not begun.
func (g *Guard) While(ctx context.Context, file, text string, do func() error) (Outcome, error) {
	k, e, err := g.enterMomentary(ctx, file, text)
	if err != nil {
		return Outcome{Entry: e, Ending: Already}, err
	}
	defer g.underWay.Done()
	defer k.Close()
	if err = g.write(ctx, k, e); err == nil {
		err = do()
	}
	outcome := e.restoreIn(k).andBelow(g.options.Roots, g.Open())
	g.at("restored")
	g.cross(outcome)
	return outcome, errors.Join(err, failures([]Outcome{outcome}))
}

// writeWatching makes a change that may take the kernel a while, and leaves off where
// somebody else sets the knob meanwhile: theirs is then what they set, which is what is
// to be there in the end.
func (g *Guard) writeWatching(ctx context.Context, k *knob.Knob, e Entry) (theirs string, err error) {
	watched, err := knob.Open(e.File)
	if err != nil {
		return "", err
	}
	ctx, leaveOff := context.WithCancel(ctx)
	var set atomic.Pointer[string]
	stop, err := watched.Watch(func() {
		have, err := watched.Read()
		if err == nil && have != "" && !equal(e.File, have, e.Found) && !equal(e.File, have, e.Written) {
			set.Store(&have)
			leaveOff()
		}
	})
	if err != nil {
		leaveOff()
		return "", errors.Join(err, watched.Close())
	}
	err = g.write(ctx, k, e)
	if text := set.Load(); text != nil {
		theirs = *text
		if errors.Is(err, context.Canceled) {
			err = &Changed{e.File, e.Found, theirs}
		}
	}
	// The kernel takes some 10 ms to end a watch, for which no limit is to stay low.
	g.underWay.Add(1)
	go func() {
		defer g.underWay.Done()
		defer leaveOff()
		stop()
		_ = watched.Close()
	}()
	return theirs, err
}

// Keep writes a text to a knob, to be there until [Guard.Restore], [Guard.Close] or the
// daemon's end. Nothing is done where it is there already, by whomever. What is kept may
// be kept as something else later: what is put back is what was found first.
func (g *Guard) Keep(ctx context.Context, file, text string) error {
	if before, ok := g.kept(filepath.Clean(file)); ok {
		return g.keepAs(ctx, before, text)
	}
	return g.keepNew(ctx, file, text)
}

// keepNew keeps what is not kept yet.
func (g *Guard) keepNew(ctx context.Context, file, text string) error {
	k, e, err := g.enter(Lasting, file, text)
	if err != nil || k == nil {
		return err
	}
	defer g.underWay.Done()
	defer k.Close()
	if err := g.write(ctx, k, e); err != nil {
		outcome := e.restoreIn(k)
		g.cross(outcome)
		return errors.Join(err, failures([]Outcome{outcome}))
	}
	return g.stillOpen(k, e)
}

// stillOpen sees to it that what was written is put back though a Restore beside it, which found it
// unwritten still, has taken the entry for done.
func (g *Guard) stillOpen(k *knob.Knob, e Entry) error {
	open := g.Open()
	if slices.ContainsFunc(open, func(o Entry) bool { return o.Number == e.Number }) {
		return nil
	}
	outcome := e.restoreIn(k).andBelow(g.options.Roots, open)
	return errors.Join(fmt.Errorf("%s was put back while it was set", e.File), failures([]Outcome{outcome}))
}

// kept finds what is kept of a knob.
func (g *Guard) kept(file string) (Entry, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.store.open, func(e Entry) bool { return e.Kind == Lasting && e.File == file })
	if i < 0 || g.ended {
		return Entry{}, false
	}
	return g.store.open[i], true
}

// keepAs changes what is kept. Both entries are open while the knob is written: whichever
// of the two texts it then holds, it goes back to what was found first. Where the group was
// removed and made again under its name, what was kept is gone with the first one.
func (g *Guard) keepAs(ctx context.Context, before Entry, text string) error {
	k, identity, err := hold(before.File, g.options.Roots)
	if err != nil {
		return err
	}
	defer k.Close()
	if identity != before.Identity {
		g.cross(Outcome{Entry: before, Ending: Gone})
		return g.keepNew(ctx, before.File, text)
	}
	have, err := k.Read()
	if err != nil {
		return err
	}
	if !equal(before.File, have, before.Written) {
		return &Changed{before.File, before.Written, have}
	}
	if before.Written == text {
		return nil
	}
	next := before
	next.Written = text
	if next, err = g.journal(next); err != nil {
		return err
	}
	defer g.underWay.Done()
	g.at("journalled")
	if err := k.Write(ctx, text); err != nil {
		g.crossOut(next, Already)
		return err
	}
	g.at("written")
	if err := g.stillOpen(k, next); err != nil {
		return err
	}
	g.crossOut(before, Already)
	return nil
}

// enterMomentary writes a momentary change down, unless ctx has ended: a write that the kernel
// does at once would not notice.
func (g *Guard) enterMomentary(ctx context.Context, file, text string) (*knob.Knob, Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, Entry{}, err
	}
	return g.enter(Momentary, file, text)
}

// enter writes a change down, if it may be made.
func (g *Guard) enter(kind Kind, file, text string) (_ *knob.Knob, e Entry, err error) {
	e = Entry{Kind: kind, File: filepath.Clean(file), Written: text}
	if err := g.mend(e.File); err != nil {
		return nil, e, err
	}
	if err := g.claim(e.File); err != nil {
		return nil, e, err
	}
	entered := false
	defer func() {
		if !entered {
			g.free(e.File)
		}
	}()
	k, identity, err := hold(e.File, g.options.Roots)
	if err != nil {
		return nil, e, err
	}
	e.Identity = identity
	if e.Found, err = k.Read(); err != nil {
		return nil, e, errors.Join(err, k.Close())
	}
	if kind == Lasting && equal(e.File, e.Found, text) {
		return nil, e, k.Close()
	}
	if e.Below, err = below(e.File, text, g.options.Roots); err != nil {
		return nil, e, errors.Join(err, k.Close())
	}
	if e, err = g.journal(e); err != nil {
		return nil, e, errors.Join(err, k.Close())
	}
	entered = true
	return k, e, nil
}

// journal writes an entry down and tells the guard process, and counts a change that is
// being made.
func (g *Guard) journal(e Entry) (Entry, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return e, &Unguarded{"it was closed"}
	}
	if err := g.watch.alive(); err != nil {
		return e, err
	}
	e, line, err := g.store.enter(e)
	if err != nil {
		return e, err
	}
	g.underWay.Add(1)
	g.watch.tell(line)
	return e, nil
}

// write makes a change, if what was written down is still so.
func (g *Guard) write(ctx context.Context, k *knob.Knob, e Entry) error {
	g.at("journalled")
	have, err := k.Read()
	if err != nil {
		return err
	}
	if have != e.Found {
		return &Changed{e.File, e.Found, have}
	}
	err = k.Write(ctx, e.Written)
	g.at("written")
	return err
}

func (g *Guard) claim(file string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.ended:
		return &Unguarded{"it was closed"}
	case g.busy[file]:
		return &Busy{file}
	}
	if err := g.watch.alive(); err != nil {
		return err
	}
	g.busy[file] = true
	return nil
}

// mend puts back what could not be put back when it was to be, and may by now have been, by
// the guard process: until then the knob is not changed again.
func (g *Guard) mend(file string) error {
	g.mu.Lock()
	e, has := g.failed[file]
	delete(g.failed, file) // one tries at a time
	g.mu.Unlock()
	if !has {
		return nil
	}
	o := e.restore(g.options.Roots, g.Open())
	g.cross(o)
	return failures([]Outcome{o})
}

func (g *Guard) free(file string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.busy, file)
}

// cross crosses out what was put back. What could not be crossed out is found to hold
// what it did before, and nothing comes of it.
func (g *Guard) cross(o Outcome) {
	g.crossOut(o.Entry, o.Ending)
	if o.Ending != Failed {
		g.free(o.File)
		return
	}
	if o.Kind == Momentary {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.failed[o.File] = o.Entry
	}
}

func (g *Guard) crossOut(e Entry, how Ending) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if line, err := g.store.cross(e.Number, how); err == nil {
		g.watch.tell(line)
	}
}

// Restore puts back what [Guard.Keep] has set: of these files, or all of it.
func (g *Guard) Restore(files ...string) ([]Outcome, error) {
	var all []Outcome
	open := g.Open()
	for _, e := range slices.Backward(open) {
		if e.Kind != Lasting || len(files) > 0 && !slices.Contains(files, e.File) {
			continue
		}
		o := e.restore(g.options.Roots, open)
		g.cross(o)
		if o.Ending == Already || o.Ending == Foreign {
			// It may have been written since: before it was crossed out, as after that who writes
			// it finds so.
			if again := e.restore(g.options.Roots, open); again.Ending == Restored || again.Ending == Failed {
				o = again
			}
		}
		all = append(all, o)
	}
	return all, failures(all)
}

// Unended says that the kernel still works at changes of some files. The guard process stays
// until the last system call of this program has ended, and then puts back what they have left.
// With no files it is the guard process that does not end.
type Unended struct {
	Journal string
	Files   []string
}

func (u *Unended) Error() string {
	if len(u.Files) == 0 {
		return fmt.Sprintf("the guard process has not ended for %v: look for it (pgrep -f %s), and end it", closeWithin, argument)
	}
	return fmt.Sprintf("a change of %s has not come back for %v, since the kernel waits for a device: the guard process puts it back when annexd and that have ended; where it is ended before, %s has it, and the next start puts it back",
		strings.Join(u.Files, ", "), closeWithin, u.Journal)
}

// closeWithin is how long Close waits for changes under way, whose contexts have ended, and
// for the guard process' end.
const closeWithin = 3 * time.Second

// within tells whether something came to its end in that time.
func within(do func()) bool {
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	timer := time.NewTimer(closeWithin)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// Close puts everything back, ends the guard process and removes the journal. Changes
// under way are waited for, some seconds at most: their contexts are to have ended. The error
// is an [*Unended] where one has not come back by then: guard and journal then stay, or what
// the kernel makes of it later would be nobody's to put back.
func (g *Guard) Close() ([]Outcome, error) {
	g.reviving.Lock()
	defer g.reviving.Unlock()
	g.mu.Lock()
	if g.ended {
		g.mu.Unlock()
		return nil, nil
	}
	g.ended = true
	g.mu.Unlock()
	before, _ := g.Restore() // ahead of waiting for what is under way
	before = slices.DeleteFunc(before, func(o Outcome) bool { return o.Ending == Failed })
	ended := within(g.underWay.Wait)
	after, err := g.Restore() // what failed then, too
	all := append(before, after...)
	g.mu.Lock()
	defer g.mu.Unlock()
	var left []string
	for _, e := range g.store.open {
		if !slices.Contains(left, e.File) {
			left = append(left, e.File)
		}
	}
	err = errors.Join(err, g.store.close())
	stuck := !ended && len(left) > 0
	if stuck || !within(g.watch.release) { // what is open it tries once more
		err = errors.Join(err, &Unended{g.options.Journal, left})
	}
	if j, reading := read(g.options.Journal); reading == nil && len(j.Open) == 0 {
		err = errors.Join(err, os.Remove(g.options.Journal))
	}
	return all, errors.Join(err, g.lock.Close())
}
