package pressure

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const memory = `some avg10=1.50 avg60=0.20 avg300=0.00 total=13469458
full avg10=0.00 avg60=100.00 avg300=0.01 total=4164017
`

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRead(t *testing.T) {
	root := t.TempDir()
	group := filepath.Join(root, "sys/fs/cgroup/box")
	want := Stall{
		Some: Line{Avg10: 1.5, Avg60: 0.2, Total: 13469458 * time.Microsecond},
		Full: Line{Avg60: 100, Avg300: 0.01, Total: 4164017 * time.Microsecond},
	}
	for _, s := range []Source{{root, "", Memory}, {root, group, Memory}} {
		write(t, s.File(), memory)
		got, err := s.Read()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", s.File(), err, diff)
		}
	}
	write(t, filepath.Join(root, "proc/pressure/cpu"), "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n")
	if got, err := (Source{root, "", CPU}).Read(); err != nil || got.Some.Total != 7*time.Microsecond || got.Full != (Line{}) {
		t.Errorf("a CPU's, of an older kernel: %+v, %v", got, err)
	}
}

// Each reason why there is nothing to read has its own answer.
func TestWhyThereIsNone(t *testing.T) {
	on, off := t.TempDir(), t.TempDir()
	write(t, filepath.Join(on, "proc/pressure/memory"), memory)
	const group = "sys/fs/cgroup/box"
	write(t, filepath.Join(on, group, "cgroup.procs"), "")
	write(t, filepath.Join(on, "quiet", "cgroup.pressure"), "0\n")
	write(t, filepath.Join(off, group, "cgroup.procs"), "")
	for name, c := range map[string]struct {
		source  Source
		off     string // part of an *Off
		noGroup bool
	}{
		"the host, off":        {Source{off, "", Memory}, "psi=1", false},
		"a group, off":         {Source{off, filepath.Join(off, group), Memory}, "psi=1", false},
		"a group switched off": {Source{on, filepath.Join(on, "quiet"), Memory}, "switched off for this group", false},
		"not of version 2":     {Source{on, filepath.Join(on, group), Memory}, "no group of cgroup version 2", false},
		"no group":             {Source{on, filepath.Join(on, "absent"), Memory}, "", true},
		"no group, off":        {Source{off, filepath.Join(off, "absent"), Memory}, "", true},
	} {
		_, err := c.source.Read()
		_, watching := c.source.Trigger(t.Context(), Threshold{Stall: time.Millisecond, Window: time.Second})
		for _, err := range []error{err, watching} {
			var isOff *Off
			var none *NoGroup
			if errors.As(err, &isOff) != (c.off != "") || errors.As(err, &none) != c.noGroup || c.off != "" && !strings.Contains(err.Error(), c.off) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	// As kernels before Linux 5.3 have it, whose files are there while it is off.
	var isOff *Off
	err := Source{on, "", Memory}.absent(&os.PathError{Op: "read", Path: "x", Err: syscall.EOPNOTSUPP})
	if !errors.As(err, &isOff) {
		t.Errorf("not supported: %v", err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"", "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n", "some\n",
		"some avg10=0.00 avg60=0.00 avg300=0.00\n", "some avg10=0.00 avg300=0.00 total=7\n",
		"some avg10=101 avg60=0.00 avg300=0.00 total=7\n", "some avg10=NaN avg60=0.00 avg300=0.00 total=7\n",
		"some avg10=0.00 avg60=0.00 avg300=0.00 total=-7\n", "some avg10=0.00 avg60=0.00 avg300=0.00 total=9223372036854775807\n",
	} {
		if s, err := Parse(strings.NewReader(text)); err == nil {
			t.Errorf("%q is %+v", text, s)
		}
	}
	// A later kernel may report more.
	if _, err := Parse(strings.NewReader(strings.ReplaceAll(memory, "total", "avg900=0.00 total") + "irq avg10=x\n")); err != nil {
		t.Errorf("with more in it: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(memory)
	f.Add("some avg10=1e309 avg60=0 avg300=0 total=0\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(strings.NewReader(text))
		if err != nil && s != (Stall{}) {
			t.Errorf("%+v, %v", s, err)
		}
		for _, l := range []Line{s.Some, s.Full} {
			if l.Total < 0 || !(l.Avg10 >= 0 && l.Avg10 <= 100) || !(l.Avg300 >= 0 && l.Avg300 <= 100) {
				t.Errorf("%+v", l)
			}
		}
	})
}
