package guard

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tare/kernel/host"
	"tare/kernel/knob"
)

// beginWith makes a group below that of a file, as the kernel does: it begins with what that
// holds.
func beginWith(t *testing.T, file, name string) (made string) {
	t.Helper()
	made = filepath.Join(filepath.Dir(file), name, filepath.Base(file))
	text, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(made)), filepath.Base(file)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Dir(made), 0o755); err != nil {
		t.Fatal(err)
	}
	set(t, made, string(text))
	return made
}

// A group that is made below a changed one begins with what was written: whoever puts that
// back puts the group's back too, though nobody has written down that it is there.
func TestKilledWithGroupsMadeBelow(t *testing.T) {
	for _, kind := range []Kind{Lasting, Momentary} {
		for _, both := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/both=%t", kind, both), func(t *testing.T) {
				o, limit := group(t, limitV1, noLimit)
				file := filepath.Join(filepath.Dir(limit), swappiness)
				set(t, file, "60")
				text, orders := "0", victimOrders{Options: o, File: file, Text: "0", Kind: Lasting, StopAt: "kept"}
				if kind == Momentary {
					text, orders = "200", victimOrders{Options: o, File: limit, Text: "200", While: file, StopAt: "written"}
				}
				same := beginWith(t, file, "same")
				set(t, same, text) // its own, from before
				other := beginWith(t, file, "other")
				d := start(t, orders)
				made := beginWith(t, file, "made")
				deeper := beginWith(t, file, "made/deeper")
				chosen := beginWith(t, file, "chosen")
				set(t, chosen, "10") // by somebody else
				sames := beginWith(t, file, "same/made")
				holds(t, deeper, text)
				if both {
					if err := d.guard.Signal(int(syscall.SIGKILL)); err != nil {
						t.Fatal(err)
					}
				}
				d.kill(t)
				d.awaitGuard(t)
				if all, err := Recover(t.Context(), o); err != nil || !both && len(all) != 0 {
					t.Errorf("%v, %v", all, err)
				}
				for file, want := range map[string]string{file: "60", made: "60", deeper: "60", other: "60", chosen: "10", same: text, sames: text} {
					holds(t, file, want)
				}
			})
		}
	}
}

// So it is where the daemon does it itself, and for as long as one could not be put back that
// is told, and tried again.
func TestGroupsMadeBelowMeanwhile(t *testing.T) {
	o, file := group(t, swappiness, "60")
	g := started(t, o)
	var made string
	if outcome, err := g.While(t.Context(), file, "200", func() error { made = beginWith(t, file, "made"); return nil }); err != nil || outcome.Ending != Restored {
		t.Fatalf("%v, %v", outcome, err)
	}
	holds(t, made, "60")
	// One that is kept besides goes back to its own.
	set(t, made, "30")
	if err := errors.Join(g.Keep(t.Context(), file, "0"), g.Keep(t.Context(), made, "0")); err != nil {
		t.Fatal(err)
	}
	deeper, link := beginWith(t, file, "made/deeper"), beginWith(t, file, "link")
	aside := link + ".aside"
	if err := errors.Join(os.Rename(link, aside), os.Symlink(aside, link)); err != nil { // which is no knob
		t.Fatal(err)
	}
	all, err := g.Restore()
	if err == nil || !strings.Contains(err.Error(), "echo 60 > "+link) || strings.Contains(err.Error(), "\n") {
		t.Errorf("one could not be put back: %v, %v", all, err)
	}
	for file, want := range map[string]string{file: "60", made: "30", deeper: "30", aside: "0"} {
		holds(t, file, want)
	}
	if err := os.Rename(aside, link); err != nil {
		t.Fatal(err)
	}
	if all, err := g.Restore(); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	holds(t, link, "60")
	if len(g.Open()) != 0 {
		t.Errorf("%+v is open", g.Open())
	}
}

// A program that did not write down what was below has a journal that is read all the same: of
// groups that may have held what was written before, none is touched.
func TestRecoverByAJournalOfBefore(t *testing.T) {
	o, file := group(t, swappiness, "0")
	below := beginWith(t, file, "below")
	k, err := knob.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	boot, err := host.BootID()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(o.Journal), 0o700); err != nil {
		t.Fatal(err)
	}
	e := Entry{Number: 1, Kind: Lasting, File: file, Identity: k.Identity(), Found: "60", Written: "0"}
	set(t, o.Journal, string(slices.Concat(text(t, line{Version: version, Boot: boot}), text(t, opening(e)))))
	if all, err := Recover(t.Context(), o); err != nil || len(all) != 1 || all[0].Ending != Restored {
		t.Errorf("%v, %v", all, err)
	}
	holds(t, file, "60")
	holds(t, below, "0")
}

// With the kernel's own groups.
func TestKilledWithARealGroupMadeBelow(t *testing.T) {
	o, limit := realGroup(t)
	file := filepath.Join(filepath.Dir(limit), swappiness)
	found, err := os.ReadFile(file)
	if err != nil {
		t.Skip(err)
	}
	d := start(t, victimOrders{Options: o, File: file, Text: "0", Kind: Lasting, StopAt: "kept"})
	dir := filepath.Join(filepath.Dir(file), "made")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	holds(t, filepath.Join(dir, swappiness), "0")
	d.kill(t)
	d.awaitGuard(t)
	holds(t, file, strings.TrimSpace(string(found)))
	holds(t, filepath.Join(dir, swappiness), strings.TrimSpace(string(found)))
}
