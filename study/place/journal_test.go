package place

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tare/kernel/cgroup"
)

func TestJournal(t *testing.T) {
	dir := t.TempDir()
	j := OpenJournal(dir)
	first := Entry{Container: "web", Changes: cgroup.Changes{{File: "/a/cpuset.cpus", Old: "0", New: "1"}}}
	second := Entry{Container: "batch", Changes: cgroup.Changes{{File: "/b/cpu.shares", Old: "1024", New: "2"}}}
	if open, err := j.Open(); err != nil || len(open) > 0 {
		t.Errorf("a new journal holds %+v (%v)", open, err)
	}
	if err := j.begin([]Entry{first}); err != nil {
		t.Fatal(err)
	}
	if err := j.end(1, true); err != nil {
		t.Fatal(err)
	}
	if err := j.begin([]Entry{second}); err != nil {
		t.Fatal(err)
	}
	kept := first
	kept.Kept = true
	open, err := OpenJournal(dir).Open() // as another tare finds it
	if diff := cmp.Diff([]Entry{kept, second}, open); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if err := j.end(1, false); err != nil {
		t.Fatal(err)
	}
	if open, err := j.Open(); err != nil || len(open) != 1 || !open[0].Kept {
		t.Errorf("after one was crossed out %+v (%v)", open, err)
	}
	// A torn or foreign file is an error, and not overwritten.
	path := filepath.Join(dir, journalFile)
	for _, text := range []string{`{"schema":"tare-place-journal/1","entr`, `{"schema":"tare-place-journal/9"}`} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := j.begin([]Entry{second}); err == nil {
			t.Errorf("went on over %s", text)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != text {
			t.Errorf("%s was overwritten by %s (%v)", text, now, err)
		}
	}
	// What was set before the host was started anew is gone.
	if err := os.WriteFile(path, []byte(`{"schema":"tare-place-journal/1","boot":"another","entries":[{"container":"web"}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if open, err := j.Open(); err != nil || len(open) > 0 {
		t.Errorf("of another boot %+v (%v)", open, err)
	}
}

// A journal that somebody has written into has nothing written elsewhere.
func TestUndoRefusesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	elsewhere := filepath.Join(dir, "cpuset.cpus")
	if err := os.WriteFile(elsewhere, []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	j := OpenJournal(dir)
	if err := j.begin([]Entry{{Container: "web", Changes: cgroup.Changes{{File: elsewhere, Old: "0", New: "1"}}}}); err != nil {
		t.Fatal(err)
	}
	layout := cgroup.Layout{Hierarchies: []cgroup.Hierarchy{{Version: 2, Mount: "/sys/fs/cgroup", Root: "/"}}}
	if done, err := Undo(j, layout, All, false); err == nil || !strings.Contains(err.Error(), elsewhere) {
		t.Errorf("undone %+v (%v)", done, err)
	}
	if text, err := os.ReadFile(elsewhere); err != nil || string(text) != "1" {
		t.Errorf("the file holds %q (%v)", text, err)
	}
}

// Of a container that has ended nothing is given back, which is reported, and crossed out.
func TestUndoOfWhatIsGone(t *testing.T) {
	layout := fakeTree(t, map[string]string{"web/cpuset.cpus": "1"})
	mount := layout.Hierarchies[0].Mount
	j := OpenJournal(t.TempDir())
	here := cgroup.Change{File: filepath.Join(mount, "web/cpuset.cpus"), Old: "0", New: "1"}
	ended := cgroup.Change{File: filepath.Join(mount, "batch/cpuset.cpus"), Old: "0-1", New: "0"}
	if err := j.begin([]Entry{{Container: "web", Changes: cgroup.Changes{here}}, {Container: "batch", Changes: cgroup.Changes{ended}}}); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		done, err := Undo(j, layout, All, dry)
		var gone *cgroup.Gone
		if err != nil || len(done) != 2 || done[0].Container != "batch" || !errors.As(done[0].Err, &gone) || done[1].Err != nil {
			t.Errorf("dry %t: undone %+v (%v)", dry, done, err)
		}
	}
	if text, err := os.ReadFile(here.File); err != nil || !strings.HasPrefix(string(text), "0") {
		t.Errorf("what is there holds %q (%v)", text, err)
	}
	if open, err := j.Open(); err != nil || len(open) > 0 {
		t.Errorf("the journal still holds %+v (%v)", open, err)
	}
}

func FuzzParseJournal(f *testing.F) {
	f.Add([]byte(`{"schema":"tare-place-journal/1","boot":"b","entries":[{"container":"web","changes":[{"file":"/x","old":"0","new":"1"}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		w, err := parseJournal(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		back, err := parseJournal(again)
		if err != nil {
			t.Fatalf("what was written is not read: %v", err)
		}
		if third, err := json.Marshal(back); err != nil || !bytes.Equal(again, third) {
			t.Errorf("%s came back as %s (%v)", again, third, err)
		}
	})
}
