package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/container"
)

func put(t *testing.T, root, file, text string) {
	t.Helper()
	path := filepath.Join(root, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if target, isLink := strings.CutPrefix(text, "->"); isLink {
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// processFiles are the files of a process in /proc.
func processFiles(pid, command, program, uid, namespace string) map[string]string {
	dir := "proc/" + pid
	return map[string]string{
		dir + "/stat":      pid + " (" + command + ") S 1" + strings.Repeat(" 0", 48) + "\n",
		dir + "/status":    "Uid:\t0\t" + uid + "\t0\t0\nCpus_allowed_list:\t0\n",
		dir + "/exe":       "->" + program,
		dir + "/ns/pid":    "->" + namespace,
		"proc/self/ns/pid": "->pid:[1]",
	}
}

// Each other manager is named, with what to do.
func TestConflicts(t *testing.T) {
	managed := []container.Container{{Name: "web", Cgroup: "/sys/fs/cgroup/batch.slice/docker-1.scope"}}
	nothing := func(context.Context, []string) (string, error) { return "", nil }
	kills := func(_ context.Context, units []string) (string, error) {
		if strings.Join(units, " ") != "-.slice batch.slice docker-1.scope" {
			t.Errorf("asked of %q", units)
		}
		return "Id=docker-1.scope\nManagedOOMSwap=auto\n\nId=batch.slice\nManagedOOMSwap=auto\nManagedOOMMemoryPressure=kill\n", nil
	}
	killsAnyone := func(context.Context, []string) (string, error) {
		return "Id=-.slice\nManagedOOMSwap=kill\nManagedOOMMemoryPressure=auto\n\nId=batch.slice\nManagedOOMSwap=auto\n", nil
	}
	oomd := processFiles("7", "systemd-oomd", "/usr/lib/systemd/systemd-oomd", "0", "pid:[1]")
	fails := func(context.Context, []string) (string, error) { return "", errors.New("no systemctl") }
	for name, c := range map[string]struct {
		files map[string]string
		ask   func(context.Context, []string) (string, error)
		says  string // of the conflict; empty is none
		notes int
	}{
		"nobody":           {nil, nothing, "", 0},
		"damon off":        {map[string]string{"sys/module/damon_reclaim/parameters/enabled": "N\n"}, nothing, "", 0},
		"damon":            {map[string]string{"sys/module/damon_reclaim/parameters/enabled": "Y\n"}, nothing, "write N", 0},
		"damon's sorting":  {map[string]string{"sys/module/damon_lru_sort/parameters/enabled": "Y\n"}, nothing, "damon_lru_sort", 0},
		"damon's schemes":  {map[string]string{"sys/kernel/mm/damon/admin/kdamonds/0/state": "on\n", "sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/1/action": "pageout\n"}, nothing, "", 1},
		"damon off again":  {map[string]string{"sys/kernel/mm/damon/admin/kdamonds/0/state": "off\n", "sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/1/action": "pageout\n"}, nothing, "", 0},
		"damon that looks": {map[string]string{"sys/kernel/mm/damon/admin/kdamonds/0/state": "on\n", "sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/1/action": "stat\n"}, nothing, "", 0},
		"oomd":             {oomd, kills, "set-property -- batch.slice", 0},
		"oomd of all":      {oomd, killsAnyone, "set-property -- -.slice", 0},
		"oomd of others":   {oomd, nothing, "", 0},
		"oomd, not known":  {oomd, fails, "", 1},
		"another program":  {processFiles("7", "oomd", "/usr/bin/oomd", "0", "pid:[1]"), kills, "", 0},
		"its name alone":   {processFiles("7", "systemd-oomd", "/usr/bin/dash", "0", "pid:[1]"), kills, "", 0},
		"a user's file":    {processFiles("7", "systemd-oomd", "/srv/systemd-oomd", "4711", "pid:[1]"), kills, "", 0},
		"in a container":   {processFiles("7", "systemd-oomd", "/usr/lib/systemd/systemd-oomd", "0", "pid:[2]"), kills, "", 0},
	} {
		root := t.TempDir()
		for file, text := range c.files {
			put(t, root, file, text)
		}
		all, notes := Conflicts(t.Context(), root, managed, c.ask)
		switch {
		case len(notes) != c.notes:
			t.Errorf("%s: notes %q", name, notes)
		case c.says == "" && len(all) > 0, c.says != "" && (len(all) != 1 || !strings.Contains(all[0].Error(), c.says)):
			t.Errorf("%s: %v, want %q", name, all, c.says)
		}
	}
}

// Another manager that is started later is told of within a minute, and no more when it has ended.
func TestConflictsAreLookedForAllTheTime(t *testing.T) {
	now, there := time.Now(), []string(nil)
	w := &wary{
		Finder: finding{}, now: func() time.Time { return now },
		conflicts: func(context.Context, []container.Container) []string { return there },
	}
	for _, c := range []struct {
		after time.Duration
		there []string
		want  []string
	}{
		{0, nil, []string{"note"}}, {time.Second, []string{"oomd"}, []string{"note"}},
		{conflictsEvery, []string{"oomd"}, []string{"note", "oomd"}}, {conflictsEvery, nil, []string{"note"}},
	} {
		now, there = now.Add(c.after), c.there
		if _, notes, err := w.Find(t.Context()); err != nil || !slices.Equal(notes, c.want) {
			t.Errorf("%q, %v, want %q", notes, err, c.want)
		}
	}
}

// finding finds nothing, and has a note.
type finding struct{}

func (finding) Find(context.Context) ([]container.Container, []string, error) {
	return nil, []string{"note"}, nil
}

// A rule for all services is none for annexd's own.
func TestExclude(t *testing.T) {
	all := []string{"/c/system.slice", "/c/system.slice/annexd.service", "/c/system.slice/web.service"}
	if got := exclude(slices.Clone(all), []string{"/c/system.slice/annexd.service"}); !slices.Equal(got, all[2:]) {
		t.Errorf("%v", got)
	}
	if got := exclude(slices.Clone(all), nil); !slices.Equal(got, all) {
		t.Errorf("in no group: %v", got)
	}
}

// FuzzParseUnit: what systemd prints of a unit has one value a line.
func FuzzParseUnit(f *testing.F) {
	f.Add("ControlGroup=/system.slice/web.service\nMemoryLow=1048576\n")
	f.Add("MemoryLow\n=\nControlGroup==\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		if u := parseUnit(text); strings.ContainsAny(u.Group+u.MemoryLow, "\n") {
			t.Errorf("%q is read as %+v", text, u)
		}
	})
}
