package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"tare/terminal"
)

// Decision is a line of the decision log: why, what, and how much.
type Decision struct {
	Time time.Time `json:"time"`
	// What is an operation (evict, fetch, map), or hold, drop, state, stop, go, start, end,
	// error, reload, drain, off, restore.
	What      string `json:"what"`
	Container string `json:"container,omitempty"`
	Why       string `json:"why,omitempty"`
	Pages     int    `json:"pages,omitempty"`   // asked for
	Moved     int    `json:"moved,omitempty"`   // pages
	Skipped   int    `json:"skipped,omitempty"` // pages
	Stopped   bool   `json:"stopped,omitempty"` // before all was done
	Took      int64  `json:"took_us,omitempty"`
	Error     string `json:"error,omitempty"`
	// Observed tells that nothing moved: it is what managing would have done.
	Observed bool `json:"observed,omitempty"`
	// Dropped is how many lines were left out before this one, to hold the log to its rate, or were
	// not written whole.
	Dropped int64 `json:"dropped,omitempty"`
}

// Log writes decisions, a JSON object a line, no faster than a rate and no longer than a
// size: a full file is put aside, and of those put aside the oldest goes. It may be used by
// several goroutines, none of which waits for the disk: a goroutine of the log's own writes.
type Log struct {
	mu      sync.Mutex
	spare   float64 // lines that may be written now
	at      time.Time
	dropped int64
	now     func() time.Time
	lines   chan logLine // to be written; nil when it is closed
	err     error        // of the last that was written

	ended chan struct{} // when the last has been

	// What follows is the writing goroutine's.

	path string
	most int64 // bytes a file
	keep int   // files beside the one that is written
	out  io.WriteCloser
	size int64
	torn bool // the file ends in a part of a line, as after a full disk
}

// logLine is one to be written, and how many it says were left out before it.
type logLine struct {
	text    []byte
	dropped int64
}

// The rate of the log: lines a second in the long run, and at once.
const (
	logRate  = 50
	logBurst = 500
)

// logWaiting is how many lines wait for a disk at most: others are left out.
const logWaiting = 2 * logBurst

// logWithin is how long Close waits for the last of them.
const logWithin = 3 * time.Second

// OpenLog opens a log, to be gone on with. A file is put aside as path.1 at most bytes.
func OpenLog(path string, most int64, keep int) (*Log, error) {
	l := &Log{
		path: path, most: most, keep: keep, spare: logBurst, now: time.Now,
		lines: make(chan logLine, logWaiting), ended: make(chan struct{}),
	}
	if err := l.open(); err != nil {
		return nil, err
	}
	if l.torn {
		l.dropped = 1
	}
	go l.run(l.lines)
	return l, nil
}

func (l *Log) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o640)
	if err != nil {
		return fmt.Errorf("decision log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	last := []byte{'\n'}
	if info.Mode().IsRegular() && info.Size() > 0 {
		if _, err := f.ReadAt(last, info.Size()-1); err != nil {
			return errors.Join(fmt.Errorf("decision log: %w", err), f.Close())
		}
	}
	l.out, l.size, l.torn = f, info.Size(), last[0] != '\n'
	return nil
}

// Write has one written. Errors and changes of state are always written, what became of
// requests, failed ones too, at the rate: a budget that is spent fails every one of them. Where
// a disk does not keep up all are left out, and counted. The error is that of a line before.
func (l *Log) Write(d Decision) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if !l.at.IsZero() {
		l.spare = min(l.spare+now.Sub(l.at).Seconds()*logRate, logBurst)
	}
	l.at = now
	routine := d.What == "evict" || d.What == "fetch" || d.What == "map"
	if routine && l.spare < 1 {
		l.dropped++
		return l.err
	}
	d.Time, d.Dropped = now.UTC(), l.dropped
	line, err := json.Marshal(d)
	if err != nil {
		return err
	}
	select {
	case l.lines <- logLine{[]byte(terminal.Escape(string(line)) + "\n"), d.Dropped}: // people read it too
		l.spare, l.dropped = max(l.spare-1, 0), 0
	default: // nobody takes it, or it is closed
		l.dropped++
	}
	return l.err
}

// run writes what comes.
func (l *Log) run(lines <-chan logLine) {
	defer close(l.ended)
	for line := range lines {
		err := l.put(line.text)
		l.mu.Lock()
		if l.err = err; err != nil {
			l.dropped += line.dropped + 1
		}
		l.mu.Unlock()
	}
	if l.out != nil {
		err := l.out.Close()
		l.mu.Lock()
		l.err = errors.Join(l.err, err)
		l.mu.Unlock()
	}
}

func (l *Log) put(line []byte) error {
	if l.out == nil {
		if err := l.open(); err != nil {
			return err
		}
	}
	if l.size > 0 && l.size+int64(len(line)) > l.most {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	if l.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := l.out.Write(line)
	l.size += int64(n)
	if n > 0 {
		l.torn = err != nil
	}
	return err
}

// rotate puts the file aside and begins another.
func (l *Log) rotate() error {
	err := l.out.Close()
	l.out = nil
	for n := l.keep; n > 0; n-- {
		from := l.path
		if n > 1 {
			from = fmt.Sprintf("%s.%d", l.path, n-1)
		}
		if moving := os.Rename(from, fmt.Sprintf("%s.%d", l.path, n)); moving != nil && !errors.Is(moving, os.ErrNotExist) {
			err = errors.Join(err, moving)
		}
	}
	if l.keep == 0 {
		err = errors.Join(err, os.Truncate(l.path, 0))
	}
	return errors.Join(err, l.open())
}

// Close ends it when what waits is written, which it waits for as long as logWithin. It may
// be called of none, and again.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	lines := l.lines
	l.lines = nil
	l.mu.Unlock()
	if lines == nil {
		return nil
	}
	close(lines)
	timer := time.NewTimer(logWithin)
	defer timer.Stop()
	select {
	case <-l.ended:
	case <-timer.C:
		return fmt.Errorf("decision log: its disk has not taken the last lines for %v", logWithin)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// log writes a decision. A log that cannot be written ends nothing: the error is in the
// status.
func (d *Daemon) log(one Decision) {
	if d.parts.Log == nil {
		return
	}
	d.logErr = d.parts.Log.Write(one)
}
