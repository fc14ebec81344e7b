package faults

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"tare/kernel/cgroup"
)

// group makes a control group below a hierarchy's root that is gone with the test.
func group(t testing.TB, h cgroup.Hierarchy, names ...string) string {
	t.Helper()
	dir := h.Mount
	for _, name := range append([]string{"tare-faults-" + strconv.Itoa(os.Getpid())}, names...) {
		dir = filepath.Join(dir, name)
		err := os.Mkdir(dir, 0o755)
		if os.IsExist(err) {
			continue
		}
		if err != nil {
			t.Skipf("no control group can be made: %v", err)
		}
		made := dir
		t.Cleanup(func() {
			if err := os.Remove(made); err != nil {
				t.Error(err)
			}
		})
	}
	return dir
}

func hierarchiesOf(t testing.TB) map[string]cgroup.Hierarchy {
	t.Helper()
	l, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	found := map[string]cgroup.Hierarchy{}
	if h, ok := l.Unified(); ok {
		found["version 2"] = h
	}
	for _, controller := range []string{"pids", "memory"} {
		if h, ok := l.For(controller); ok && h.Version == 1 {
			found["version 1, "+controller] = h
		}
	}
	return found
}

// within lets a command begin in a control group.
func within(t testing.TB, dir string) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		// The shell moves itself, and becomes the maker.
		sh, err := exec.LookPath("sh")
		if err != nil {
			t.Skip("no sh")
		}
		cmd.Args = append([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(dir, "cgroup.procs"), cmd.Path}, cmd.Args[1:]...)
		cmd.Path = sh
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
}

func TestControlGroups(t *testing.T) {
	const n = 50
	for name, h := range hierarchiesOf(t) {
		t.Run(name, func(t *testing.T) {
			outer := group(t, h, "outer")
			inner := group(t, h, "outer", "inner")
			deep := group(t, h, "outer", "inner", "deep")
			beside := group(t, h, "beside")
			makers := map[string]*maker{}
			for _, dir := range []string{outer, deep, beside} {
				makers[dir] = begin(t, within(t, dir), "anonymous write", strconv.Itoa(n))
			}
			r := start(t, []Target{{Name: "outer", Cgroup: outer}, {Name: "inner", Cgroup: inner}}, Options{})
			for _, m := range makers {
				m.act()
				m.end()
			}
			rec := stop(t, r)
			var made [2]int
			for f := range rec.All() {
				switch int(f.PID) {
				case makers[outer].pid:
					made[0]++
					if f.Target != 0 {
						t.Errorf("a fault in %s is of target %d", outer, f.Target)
					}
				case makers[deep].pid:
					made[1]++
					if f.Target != 1 {
						t.Errorf("a fault in %s is of target %d, want the nearest above it", deep, f.Target)
					}
				default:
					t.Errorf("a fault of process %d, which is not watched", f.PID)
				}
			}
			for i := range made {
				if c := rec.Counts[i]; c.Total() != uint64(made[i]) || c.User[Anonymous] < n {
					t.Errorf("%s: %d recorded, counted %+v", rec.Targets[i].Name, made[i], c)
				}
			}
		})
	}
}

func TestGroupsThatAppear(t *testing.T) {
	const n = 50
	for name, h := range hierarchiesOf(t) {
		t.Run(name, func(t *testing.T) {
			below := group(t, h)
			r := start(t, nil, Options{Below: below})
			want := map[string]int{}
			for _, name := range []string{"first", "second"} {
				group(t, h, name)
				dir := group(t, h, name, "in it")
				m := begin(t, within(t, dir), "anonymous write", strconv.Itoa(n))
				want[name] = m.pid
				m.act()
				m.end()
			}
			targets, counts, err := r.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			if len(targets) != 2 || counts[0].User[Anonymous] < n || counts[1].User[Anonymous] < n {
				t.Errorf("meanwhile %+v have %+v", targets, counts)
			}
			rec := stop(t, r)
			if len(rec.Targets) != len(want) {
				t.Fatalf("targets %+v, want those of %v", rec.Targets, want)
			}
			for f := range rec.All() {
				target := rec.Targets[f.Target]
				if want[target.Name] != int(f.PID) || target.Cgroup != filepath.Join(below, target.Name) {
					t.Fatalf("a fault of process %d is of %+v", f.PID, target)
				}
			}
			// Before, it was a shell that moved itself.
			ofPrograms, before := rec.Programs(), 0
			for f := range rec.All() {
				if !ofPrograms(&f) {
					before++
				}
				if path := rec.Path(File{f.Code.Device, f.Code.Inode}); path != "" && ofPrograms(&f) != (filepath.Base(path) == "maker") {
					t.Errorf("a fault of %s is reported as the program's: %t", path, ofPrograms(&f))
				}
			}
			if before == 0 {
				t.Error("nothing was before the programs")
			}
			for i, target := range rec.Targets {
				executed := false
				for _, e := range rec.Executed {
					executed = executed || int(e.Target) == i && int(e.PID) == want[target.Name] && e.Command == "maker"
				}
				if !executed {
					t.Errorf("that %s executed the maker is not reported: %+v", target.Name, rec.Executed)
				}
			}
		})
	}
}

// Where more appear than there is room for, those that came first are watched, and
// the others are reported.
func TestMoreGroupsThanRoom(t *testing.T) {
	for name, h := range hierarchiesOf(t) {
		t.Run(name, func(t *testing.T) {
			below := group(t, h)
			r := start(t, nil, Options{Below: below, Appearing: 1})
			for _, name := range []string{"first", "second"} {
				m := begin(t, within(t, group(t, h, name)), "anonymous write", "10")
				m.act()
				m.end()
			}
			rec := stop(t, r)
			if len(rec.Targets) != 1 || rec.Targets[0].Name != "first" || rec.Unplaced == 0 {
				t.Errorf("watched %+v, and %d more appeared", rec.Targets, rec.Unplaced)
			}
		})
	}
}

func TestRoomForGroups(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want int
	}{
		{Options{}, 0},
		{Options{Appearing: 7}, 0}, // where nothing can appear
		{Options{Below: "/there"}, 256},
		{Options{Below: "/there", Appearing: 1000}, 1000},
	} {
		if got := c.o.appearing(); got != c.want {
			t.Errorf("%+v has room for %d, want %d", c.o, got, c.want)
		}
	}
	if r, err := Start(nil, Options{Below: "/there", Appearing: maxTargets + 1}); err == nil {
		r.Stop()
		t.Error("there is room for more targets than a record can name")
	}
}

func TestEventsKept(t *testing.T) {
	h := happened{most: 2}
	for tid := range int32(5) {
		h.note(event{tid: tid})
	}
	if len(h.events) != 2 || h.events[0].tid != 0 || h.events[1].tid != 1 || h.beyond != 3 {
		t.Errorf("kept %+v, %d beyond", h.events, h.beyond)
	}
}
