package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode"
)

// Routine decisions are held to the rate, and what was left out is counted; errors and
// changes of state are always there.
func TestLogRate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	l, err := OpenLog(path, 1<<20, 1)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	l.now = func() time.Time { return now }
	write := func(n int, d Decision) {
		for range n {
			if err := l.Write(d); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(logBurst+30, Decision{What: "evict"})
	write(1, Decision{What: "state"})
	now = now.Add(time.Second)
	write(logRate+5, Decision{What: "fetch"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	lines := read(t, path)
	if want := logBurst + 1 + logRate; len(lines) != want {
		t.Fatalf("%d lines, want %d", len(lines), want)
	}
	var state Decision
	if err := json.Unmarshal([]byte(lines[logBurst]), &state); err != nil || state.What != "state" || state.Dropped != 30 {
		t.Errorf("%s, %v: want a state, and 30 dropped before it", lines[logBurst], err)
	}
}

// A line is all that a terminal shows of a decision, whatever the container's name is.
func TestLogEscapesNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	l, err := OpenLog(path, 1<<20, 1)
	if err != nil {
		t.Fatal(err)
	}
	const name = "web\n{\"what\":\"forged\"}\x1b[2J\u009b\u202e\x7f"
	if err := errors.Join(l.Write(Decision{What: "hold", Container: name}), l.Close()); err != nil {
		t.Fatal(err)
	}
	lines := read(t, path)
	if len(lines) != 1 || strings.ContainsFunc(lines[0], func(r rune) bool { return !unicode.IsGraphic(r) }) {
		t.Errorf("the log holds %q", lines)
	}
	var d Decision
	if err := json.Unmarshal([]byte(lines[0]), &d); err != nil || d.Container != name {
		t.Errorf("%q is read back as %q, %v", lines, d.Container, err)
	}
}

// A full log is put aside, and the oldest of those goes; what is there is gone on with.
func TestLogRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	for range 2 {
		l, err := OpenLog(path, 1000, 2)
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			if err := l.Write(Decision{What: "state", Why: strings.Repeat("x", 50)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) != 3 {
		t.Fatalf("%q, %v: want the log and two put aside", files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Size() > 1000 || info.Size() == 0 {
			t.Errorf("%s: %v, %v", f, info.Size(), err)
		}
		for _, line := range read(t, f) {
			var d Decision
			if err := json.Unmarshal([]byte(line), &d); err != nil {
				t.Errorf("%s: %q: %v", f, line, err)
			}
		}
	}
}

func read(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// A disk that takes nothing holds nobody up: lines wait, and then are left out and counted.
func TestLogWaitsForNoDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	l, err := OpenLog(path, 1<<20, 1)
	if err != nil {
		t.Fatal(err)
	}
	disk := &slow{begun: make(chan struct{}), goOn: make(chan struct{}), to: l.out}
	l.out = disk
	state := Decision{What: "state"}
	if err := l.Write(state); err != nil {
		t.Fatal(err)
	}
	<-disk.begun // it hangs
	for range logWaiting + 7 {
		if err := l.Write(state); err != nil {
			t.Fatal(err)
		}
	}
	close(disk.goOn)
	for len(l.lines) > 0 {
		time.Sleep(time.Millisecond)
	}
	if err := l.Write(state); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	lines := read(t, path)
	if want := 1 + logWaiting + 1; len(lines) != want {
		t.Fatalf("%d lines, want %d", len(lines), want)
	}
	var d Decision
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &d); err != nil || d.Dropped != 7 {
		t.Errorf("%s, %v: want 7 dropped before it", lines[len(lines)-1], err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// A line that a full disk takes a part of is left alone: the next begins a line of its own, and counts it. So
// does the first of a daemon that finds such a part.
func TestLogGoesOnAfterAPartOfALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	for range 2 {
		l, err := OpenLog(path, 1<<20, 1)
		if err != nil {
			t.Fatal(err)
		}
		disk := &full{to: l.out}
		l.out = disk
		state := Decision{What: "state"}
		for _, c := range []struct{ room, dropped int64 }{{1 << 20, 0}, {20, 1}, {0, 2}, {1 << 20, 0}, {20, 1}} {
			disk.room.Store(c.room)
			before := disk.writes.Load()
			_ = l.Write(state) // its error is that of the line before
			awaits(t, 10*time.Second, fmt.Sprintf("%d lines left out", c.dropped), func() bool {
				return disk.writes.Load() > before && l.left() == c.dropped
			})
		}
		if err := l.Close(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("the last line: %v", err)
		}
	}
	var whole, parts int
	var dropped int64
	for _, line := range read(t, path) {
		var d Decision
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			parts++
			continue
		}
		whole++
		dropped += d.Dropped
	}
	if whole != 4 || parts != 4 || dropped != 5 { // the last part is not followed by a line
		t.Errorf("%d lines, %d parts, and %d counted as left out: want 4, 4 and 5", whole, parts, dropped)
	}
}

// left is how many lines were left out since one was written.
func (l *Log) left() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

// full is a disk that has so much room for each line.
type full struct {
	room, writes atomic.Int64
	to           io.WriteCloser
}

func (f *full) Write(b []byte) (n int, err error) {
	defer f.writes.Add(1)
	room := f.room.Load()
	if int64(len(b)) > room {
		b, err = b[:room], syscall.ENOSPC
	}
	n, writing := f.to.Write(b)
	return n, errors.Join(err, writing)
}

func (f *full) Close() error { return f.to.Close() }

// slow is a disk that takes its first line only when it is let.
type slow struct {
	begun, goOn chan struct{}
	to          io.WriteCloser
	once        sync.Once
}

func (s *slow) Write(b []byte) (int, error) {
	s.once.Do(func() { close(s.begun); <-s.goOn })
	return s.to.Write(b)
}

func (s *slow) Close() error { return s.to.Close() }
