package guard

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
	"testing"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/host"
	"tare/kernel/knob"
)

func started(t testing.TB, o Options) *Guard {
	t.Helper()
	g, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = g.Close() })
	return g
}

func TestMomentarily(t *testing.T) {
	o, file := group(t, limitV1, noLimit)
	g := started(t, o)
	saw := ""
	g.at = func(moment string) {
		if moment == "written" {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Error(err)
			}
			saw = string(b)
			busy := new(Busy)
			if _, err := g.Momentarily(t.Context(), file, "8192"); !errors.As(err, &busy) {
				t.Errorf("a second change of the same knob: %v", err)
			}
			if open := g.Open(); len(open) != 1 || open[0].Found != noLimit || open[0].Written != "4096" {
				t.Errorf("open: %+v", open)
			}
		}
	}
	for range 2 {
		outcome, err := g.Momentarily(t.Context(), file, "4096")
		if err != nil || outcome.Ending != Restored || saw != "4096" {
			t.Fatalf("%v, %v; in between it held %q", outcome, err, saw)
		}
		holds(t, file, noLimit)
	}
	if len(g.Open()) != 0 {
		t.Errorf("%+v is open", g.Open())
	}
	refused, gone := new(Refused), new(knob.Gone)
	if _, err := g.Momentarily(t.Context(), filepath.Join(filepath.Dir(file), "cgroup.procs"), "1"); !errors.As(err, &refused) {
		t.Errorf("what is no limit: %v", err)
	}
	if _, err := g.Momentarily(t.Context(), filepath.Join(filepath.Dir(file), "memory.low"), "1"); !errors.As(err, &gone) {
		t.Errorf("what is not there: %v", err)
	}
}

// Nothing is written for who has given up already.
func TestMomentarilyWithoutTime(t *testing.T) {
	o, file := group(t, limitV1, noLimit)
	g := started(t, o)
	g.at = func(moment string) { t.Errorf("it is %s", moment) }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Momentarily(ctx, file, "4096"); !errors.Is(err, context.Canceled) {
		t.Errorf("momentarily: %v", err)
	}
	do := func() error { t.Error("it is done"); return nil }
	if _, err := g.While(ctx, file, "4096", do); !errors.Is(err, context.Canceled) {
		t.Errorf("while: %v", err)
	}
	holds(t, file, noLimit)
}

// What somebody else sets before or after the write stays.
func TestMomentarilyLeavesWhatOthersSet(t *testing.T) {
	for moment, want := range map[string]Ending{"journalled": Foreign, "written": Foreign} {
		o, file := group(t, limitV1, noLimit)
		g := started(t, o)
		g.at = func(now string) {
			if now == moment {
				set(t, file, "123456512")
			}
		}
		outcome, err := g.Momentarily(t.Context(), file, "4096")
		changed := new(Changed)
		if outcome.Ending != want || errors.As(err, &changed) != (moment == "journalled") {
			t.Errorf("set after %s: %v, %v", moment, outcome, err)
		}
		holds(t, file, "123456512")
	}
}

// What is set while something is done is momentary, and so is what that sets; both are as
// they were afterwards, whatever came of it.
func TestWhile(t *testing.T) {
	o, file := group(t, "memory.swappiness", "60")
	limit := filepath.Join(filepath.Dir(file), limitV1)
	set(t, limit, noLimit)
	g := started(t, o)
	failed := errors.New("it was not to be")
	for _, want := range []error{nil, failed} {
		outcome, err := g.While(t.Context(), file, "200", func() error {
			holds(t, file, "200")
			g.at = func(moment string) {
				if moment != "written" {
					return
				}
				holds(t, limit, "4096")
				if open := g.Open(); len(open) != 2 || open[0].Kind != Momentary || open[0].Found != "60" || open[1].Kind != Momentary {
					t.Errorf("open: %+v", open)
				}
			}
			defer func() { g.at = func(string) {} }()
			busy := new(Busy)
			if err := g.Keep(t.Context(), file, "0"); !errors.As(err, &busy) {
				t.Errorf("kept as something else meanwhile: %v", err)
			}
			_, err := g.Momentarily(t.Context(), limit, "4096")
			return errors.Join(err, want)
		})
		if !errors.Is(err, want) || want == nil && err != nil || outcome.Ending != Restored || len(g.Open()) != 0 {
			t.Errorf("%v, %v, want %v; %+v is open", outcome, err, want, g.Open())
		}
		holds(t, file, "60")
		holds(t, limit, noLimit)
	}
	// What somebody else sets meanwhile is his.
	outcome, err := g.While(t.Context(), file, "200", func() error { set(t, file, "10"); return nil })
	if err != nil || outcome.Ending != Foreign {
		t.Errorf("%v, %v", outcome, err)
	}
	holds(t, file, "10")
	// What cannot be set is not begun.
	never := func() error { t.Error("it was done all the same"); return nil }
	refused, changed := new(Refused), new(Changed)
	if _, err := g.While(t.Context(), filepath.Join(filepath.Dir(file), "cgroup.procs"), "1", never); !errors.As(err, &refused) {
		t.Errorf("what is no knob: %v", err)
	}
	g.at = func(moment string) {
		if moment == "journalled" {
			set(t, file, "20")
		}
	}
	if _, err := g.While(t.Context(), file, "200", never); !errors.As(err, &changed) {
		t.Errorf("what somebody else is setting: %v", err)
	}
	holds(t, file, "20")
}

func TestKeepAndRestore(t *testing.T) {
	o, first := group(t, "memory.swappiness", "60")
	second := filepath.Join(o.Roots[0], "another", "memory.swappiness")
	if err := os.Mkdir(filepath.Dir(second), 0o755); err != nil {
		t.Fatal(err)
	}
	set(t, second, "30")
	g := started(t, o)
	for _, file := range []string{first, second} {
		if err := g.Keep(t.Context(), file, "0"); err != nil {
			t.Fatal(err)
		}
		holds(t, file, "0")
	}
	if err := g.Keep(t.Context(), first, "1"); err != nil {
		t.Errorf("kept as something else: %v", err)
	}
	holds(t, first, "1")
	if all, err := g.Restore(first); err != nil || len(all) != 1 || all[0].Ending != Restored {
		t.Errorf("%v, %v", all, err)
	}
	holds(t, first, "60")
	holds(t, second, "0")
	set(t, second, "10")
	all, err := g.Close()
	if err != nil || len(all) != 1 || all[0].Ending != Foreign || !strings.Contains(all[0].String(), `"10"`) {
		t.Errorf("%v, %v", all, err)
	}
	holds(t, second, "10")
	if _, err := os.Stat(o.Journal); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the journal is still there: %v", err)
	}
	unguarded := new(Unguarded)
	if err := g.Keep(t.Context(), first, "0"); !errors.As(err, &unguarded) {
		t.Errorf("after its end: %v", err)
	}
}

// What is kept as something else goes back to what was first found, and what somebody
// has set meanwhile is not taken from him.
func TestKeepAsSomethingElse(t *testing.T) {
	o, file := group(t, "memory.low", "0")
	g := started(t, o)
	for _, text := range []string{"4096", "8192", "8192"} {
		if err := g.Keep(t.Context(), file, text); err != nil {
			t.Fatal(err)
		}
		holds(t, file, text)
		if open := g.Open(); len(open) != 1 || open[0].Found != "0" || open[0].Written != text {
			t.Fatalf("open: %+v", open)
		}
	}
	set(t, file, "12288")
	changed := new(Changed)
	if err := g.Keep(t.Context(), file, "4096"); !errors.As(err, &changed) {
		t.Errorf("after somebody else has set it: %v", err)
	}
	holds(t, file, "12288")
	if all, err := g.Restore(); err != nil || len(all) != 1 || all[0].Ending != Foreign {
		t.Errorf("%v, %v", all, err)
	}
}

// What holds already what is wanted is nobody's to put back.
func TestKeepWhatIsSo(t *testing.T) {
	o, file := group(t, "memory.swappiness", "0")
	g := started(t, o)
	if err := g.Keep(t.Context(), file, "0"); err != nil || len(g.Open()) != 0 {
		t.Errorf("%v, %+v", err, g.Open())
	}
}

// What could not be put back is put back before it is changed the next time.
func TestWhatCouldNotBePutBackIsTriedAgain(t *testing.T) {
	o, file := group(t, "memory.swappiness", "60")
	o.Lease = time.Minute // the guard process would do it then
	g := started(t, o)
	aside := filepath.Dir(file) + ".aside"
	if _, err := g.While(t.Context(), file, "200", func() error {
		return errors.Join(os.Rename(file, aside), os.Symlink(aside, file)) // a link is no knob
	}); err == nil || len(g.Open()) != 1 {
		t.Fatalf("%v, open: %+v", err, g.Open())
	}
	began := false
	for range 2 {
		if _, err := g.While(t.Context(), file, "100", func() error { began = true; return nil }); err == nil || began {
			t.Fatalf("changed anew (%t) though it is not put back: %v", began, err)
		}
	}
	holds(t, aside, "200")
	if err := os.Rename(aside, file); err != nil {
		t.Fatal(err)
	}
	if _, err := g.While(t.Context(), file, "100", func() error { holds(t, file, "100"); began = true; return nil }); err != nil || !began {
		t.Errorf("once it can be: %v", err)
	}
	holds(t, file, "60")
	if open := g.Open(); len(open) != 0 {
		t.Errorf("open: %+v", open)
	}
}

// Without its guard process nothing is changed, until there is another one, which knows
// what the first did.
func TestTheGuardDies(t *testing.T) {
	o, file := group(t, "memory.swappiness", "60")
	limit := filepath.Join(filepath.Dir(file), limitV1)
	set(t, limit, noLimit)
	g := started(t, o)
	holds(t, fmt.Sprintf("/proc/%d/comm", g.PID()), processName)
	if err := g.Keep(t.Context(), file, "0"); err != nil {
		t.Fatal(err)
	}
	end, err := os.FindProcess(g.PID())
	if err != nil {
		t.Fatal(err)
	}
	if err := end.Kill(); err != nil {
		t.Fatal(err)
	}
	<-g.Died()
	unguarded := new(Unguarded)
	if _, err := g.Momentarily(t.Context(), limit, "4096"); !errors.As(err, &unguarded) || !strings.Contains(err.Error(), "killed") {
		t.Errorf("%v", err)
	}
	holds(t, limit, noLimit)
	if err := g.Revive(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Momentarily(t.Context(), limit, "4096"); err != nil {
		t.Error(err)
	}
	if all, err := g.Close(); err != nil || len(all) != 1 || all[0].Ending != Restored {
		t.Errorf("%v, %v", all, err)
	}
	holds(t, file, "60")
}

// One that comes in another's place takes back what was open before it came.
func TestAnotherGuardTakesBackWhatIsOpen(t *testing.T) {
	o, file := group(t, "memory.swappiness", "60")
	o.Lease = 200 * time.Millisecond
	g := started(t, o)
	outcome, err := g.While(t.Context(), file, "200", func() error {
		end, err := os.FindProcess(g.PID())
		if err != nil {
			return err
		}
		if err := end.Kill(); err != nil {
			return err
		}
		<-g.Died()
		if err := g.Revive(t.Context()); err != nil {
			return err
		}
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			switch text, err := os.ReadFile(file); {
			case err != nil:
				return err
			case strings.TrimSpace(string(text)) == "60":
				return nil
			case time.Now().After(end):
				return errors.New("nobody has taken it back")
			}
		}
	})
	if err != nil || outcome.Ending != Already {
		t.Errorf("%v, %v", outcome, err)
	}
}

// A guard process that hears nothing is none, and does not hold the daemon up.
func TestTheGuardIsStopped(t *testing.T) {
	o, file := group(t, limitV1, noLimit)
	g := started(t, o)
	process, err := os.FindProcess(g.PID())
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	unguarded := new(Unguarded)
	for n := 0; !errors.As(err, &unguarded); n++ {
		if _, err = g.Momentarily(t.Context(), file, "4096"); n > 10000 {
			t.Fatal("it goes on to change knobs")
		}
	}
	if err := g.Revive(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Momentarily(t.Context(), file, "4096"); err != nil {
		t.Error(err)
	}
}

// A file of somebody's that is named as the journal stays as it is.
func TestRecoverNoJournal(t *testing.T) {
	o, _ := group(t, "memory.swappiness", "60")
	const theirs = "# a readme\n"
	if err := os.MkdirAll(filepath.Dir(o.Journal), 0o700); err != nil {
		t.Fatal(err)
	}
	set(t, o.Journal, theirs)
	none := new(NoJournal)
	if _, err := Recover(t.Context(), o); !errors.As(err, &none) || none.File != o.Journal {
		t.Errorf("%v", err)
	}
	if _, err := Start(t.Context(), o); !errors.As(err, &none) {
		t.Errorf("%v", err)
	}
	holds(t, o.Journal, strings.TrimSpace(theirs))
	if files, err := os.ReadDir(filepath.Dir(o.Journal)); err != nil || slices.ContainsFunc(files, func(f os.DirEntry) bool { return strings.Contains(f.Name(), damagedSuffix) }) {
		t.Errorf("%v, %v", files, err)
	}
}

// A damaged journal is kept, and what its other lines tell is put back.
func TestRecoverFromADamagedJournal(t *testing.T) {
	o, file := group(t, "memory.swappiness", "0")
	k, err := knob.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := os.MkdirAll(filepath.Dir(o.Journal), 0o700); err != nil {
		t.Fatal(err)
	}
	kept := Entry{Number: 9, Kind: Lasting, File: file, Identity: k.Identity(), Found: "60", Written: "0"}
	other := kept
	other.Number, other.File = 10, "/etc/memory.swappiness"
	boot, err := host.BootID()
	if err != nil {
		t.Fatal(err)
	}
	journal := slices.Concat(text(t, line{Version: version, Boot: boot}), []byte("garbage\n"), text(t, opening(kept)), []byte("torn"))
	set(t, o.Journal, string(journal))
	all, err := Recover(t.Context(), o)
	damaged := new(Damaged)
	if !errors.As(err, &damaged) || len(all) != 1 || all[0].Ending != Restored {
		t.Errorf("%v, %v", all, err)
	}
	holds(t, file, "60")
	if aside, err := os.ReadFile(o.Journal + damagedSuffix); err != nil || string(aside) != string(journal) {
		t.Errorf("%q, %v", aside, err)
	}
	// Nor is anything touched that the journal was made to name.
	set(t, o.Journal, string(slices.Concat(text(t, line{Version: version, Boot: boot}), text(t, opening(other)))))
	if all, err := Recover(t.Context(), o); err != nil || len(all) != 1 || all[0].Ending != Barred || !strings.Contains(all[0].String(), other.File) {
		t.Errorf("%v, %v", all, err)
	}
	// It is told once, and keeps no daemon from starting.
	if all, err := Recover(t.Context(), o); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	// What an earlier start of the kernel left is void.
	set(t, file, "0")
	set(t, o.Journal, string(slices.Concat(text(t, line{Version: version, Boot: "an earlier one"}), text(t, opening(kept)))))
	if all, err := Recover(t.Context(), o); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	holds(t, file, "0")
}

// realGroup makes a control group of version 1.
func realGroup(t *testing.T) (o Options, limit string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making control groups needs root")
	}
	layout, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	g := layout.At(fmt.Sprintf("/tare-guard-test-%d-%d", os.Getpid(), time.Now().UnixNano()))
	place, ok := g.For("memory")
	if !ok || place.Version != 1 {
		t.Skip("the memory controller is not version 1's")
	}
	g = cgroup.Group{Places: []cgroup.Place{place}}
	if err := g.Create(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return Options{Journal: filepath.Join(t.TempDir(), "journal")}, place.File(limitV1)
}

// In a group of the kernel's: no limit stays none, and a limit that is there the same.
func TestKilledWithARealLimit(t *testing.T) {
	for _, found := range []string{"-1", strconv.Itoa(256 << 20), strconv.Itoa(100<<20 + 1)} {
		for _, kind := range []Kind{Momentary, Lasting} {
			o, limit := realGroup(t)
			set(t, limit, found)
			before, err := os.ReadFile(limit)
			if err != nil {
				t.Fatal(err)
			}
			at := map[Kind]string{Momentary: "written", Lasting: "kept"}[kind]
			d := start(t, victimOrders{Options: o, File: limit, Text: strconv.Itoa(64<<20 + 5), Kind: kind, StopAt: at})
			holds(t, limit, strconv.Itoa(64<<20))
			d.kill(t)
			d.awaitGuard(t)
			holds(t, limit, strings.TrimSpace(string(before)))
		}
	}
}

// Where somebody has lowered the limit of memory and swap together meanwhile, the
// kernel refuses what was found: the group has as much of it back as that allows.
func TestRestoreBelowALoweredLimitOfBoth(t *testing.T) {
	o, limit := realGroup(t)
	together := filepath.Join(filepath.Dir(limit), memsw)
	if _, err := os.Stat(together); err != nil {
		t.Skip("swap is not accounted for")
	}
	g := started(t, o)
	g.at = func(moment string) {
		if moment == "written" {
			set(t, together, strconv.Itoa(128<<20))
		}
	}
	outcome, err := g.Momentarily(t.Context(), limit, strconv.Itoa(64<<20))
	if err != nil || outcome.Ending != Restored {
		t.Errorf("%v, %v", outcome, err)
	}
	holds(t, limit, strconv.Itoa(128<<20))
}

// A group that the kernel removes, and one made again under its name.
func TestARealGroupIsMadeAgain(t *testing.T) {
	o, limit := realGroup(t)
	d := start(t, victimOrders{Options: o, File: limit, Text: strconv.Itoa(64 << 20), Kind: Lasting, StopAt: "kept"})
	dir := filepath.Dir(limit)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	set(t, limit, strconv.Itoa(64<<20))
	d.kill(t)
	d.awaitGuard(t)
	holds(t, limit, strconv.Itoa(64<<20))
}

// What is kept of a group that is removed and made again is kept of the new one, with what
// that one had.
func TestKeepInAGroupThatIsMadeAgain(t *testing.T) {
	o, limit := realGroup(t)
	g := started(t, o)
	text := strconv.Itoa(64 << 20)
	if err := g.Keep(t.Context(), limit, text); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(limit)
	if err := errors.Join(os.Remove(dir), os.Mkdir(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	found := strconv.Itoa(128 << 20)
	set(t, limit, found)
	if err := g.Keep(t.Context(), limit, text); err != nil {
		t.Fatal(err)
	}
	holds(t, limit, text)
	if open := g.Open(); len(open) != 1 || open[0].Found != found {
		t.Errorf("%+v is open", open)
	}
	if _, err := g.Restore(); err != nil {
		t.Fatal(err)
	}
	holds(t, limit, found)
	// What somebody else has set is told, though the same is asked for.
	if err := g.Keep(t.Context(), limit, text); err != nil {
		t.Fatal(err)
	}
	set(t, limit, found)
	if changed := new(Changed); !errors.As(g.Keep(t.Context(), limit, text), &changed) {
		t.Error("it says that what somebody else has changed is kept")
	}
}

// What cannot be written down is not done.
func TestAFullDisk(t *testing.T) {
	o, file := group(t, limitV1, noLimit)
	g := started(t, o)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	g.at = func(moment string) { t.Errorf("it got as far as %q", moment) }
	whole := g.store.file
	g.store.file = full
	for _, change := range []func() error{
		func() error { _, err := g.Momentarily(t.Context(), file, "4096"); return err },
		func() error { return g.Keep(t.Context(), file, "4096") },
	} {
		if err := change(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("got %v, want ENOSPC", err)
		}
		holds(t, file, noLimit)
	}
	g.store.file, g.at = whole, func(string) {}
	if _, err := g.Momentarily(t.Context(), file, "4096"); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// Many containers' limits are lowered at once, and each is as it was afterwards.
func TestManyAtOnce(t *testing.T) {
	o, _ := group(t, limitV1, noLimit)
	g := started(t, o)
	var all sync.WaitGroup
	for n := range 16 {
		file := filepath.Join(o.Roots[0], strconv.Itoa(n), limitV1)
		if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		set(t, file, strconv.Itoa(n<<20))
		all.Go(func() {
			for range 10 {
				if o, err := g.Momentarily(t.Context(), file, "4096"); err != nil || o.Ending != Restored {
					t.Errorf("%v, %v", o, err)
				}
			}
		})
	}
	all.Wait()
	for n := range 16 {
		holds(t, filepath.Join(o.Roots[0], strconv.Itoa(n), limitV1), strconv.Itoa(n<<20))
	}
	if j, err := read(o.Journal); err != nil || len(j.Open) != 0 || j.Last != 160 {
		t.Errorf("%+v, %v", j, err)
	}
}

// Where the kernel does not come back from a change, the guard process stays for what comes of
// it, and the journal tells.
func TestCloseWhileAChangeIsStuck(t *testing.T) {
	o, file := group(t, limitV1, noLimit)
	g := started(t, o)
	there, answers := make(chan struct{}), make(chan struct{})
	g.at = func(moment string) {
		if moment == "journalled" {
			close(there)
			<-answers
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = g.Momentarily(t.Context(), file, "4096")
	}()
	<-there
	defer func() { close(answers); <-ended }()
	unended := new(Unended)
	if _, err := g.Close(); !errors.As(err, &unended) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("%v", err)
	}
	if j, err := read(o.Journal); err != nil || len(j.Open) != 1 || g.watch.alive() != nil {
		t.Fatalf("%+v, %v: the journal and the guard (%v) are to stay", j, err, g.watch.alive())
	}
	set(t, file, "4096") // the kernel has done it after all
	g.watch.release()    // as the end of this program does
	holds(t, file, noLimit)
}

// What is put back between the journal's entry and the write, when it is nothing to put back yet, is
// put back after the write all the same.
func TestRestoredBeforeTheWrite(t *testing.T) {
	o, file := group(t, "memory.swappiness", "60")
	g := started(t, o)
	g.at = func(moment string) {
		if moment != "journalled" {
			return
		}
		if all, err := g.Restore(); err != nil || len(all) != 1 || all[0].Ending != Already {
			t.Errorf("%v, %v", all, err)
		}
	}
	if err := g.Keep(t.Context(), file, "0"); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v, want that %s was put back meanwhile", err, file)
	}
	holds(t, file, "60")
	if open := g.Open(); len(open) != 0 {
		t.Errorf("open: %+v", open)
	}
	g.at = func(string) {}
	if err := g.Keep(t.Context(), file, "0"); err != nil {
		t.Errorf("it is not kept after that: %v", err)
	}
	holds(t, file, "0")
}

// The same where what is kept already is to hold something else: it is put back as it was found first.
func TestRestoredBeforeTheNextWrite(t *testing.T) {
	o, file := group(t, "memory.low", "0")
	g := started(t, o)
	if err := g.Keep(t.Context(), file, "4096"); err != nil {
		t.Fatal(err)
	}
	g.at = func(moment string) {
		if moment != "journalled" {
			return
		}
		if _, err := g.Restore(); err != nil {
			t.Error(err)
		}
		holds(t, file, "0")
	}
	if err := g.Keep(t.Context(), file, "8192"); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v, want that %s was put back meanwhile", err, file)
	}
	holds(t, file, "0")
	if open := g.Open(); len(open) != 0 {
		t.Errorf("open: %+v", open)
	}
}
