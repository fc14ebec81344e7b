package lab

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"tare/kernel/file"
	"tare/platform"
)

// ledgerSuffix marks ledger files among others in their directory.
const ledgerSuffix = ".ledger"

// line is one line of a ledger file: a thing entered, or its crossing-out.
type line struct {
	N     int             `json:"n"`
	Entry *platform.Entry `json:"entry,omitempty"`
	Done  bool            `json:"done,omitempty"`
}

// Ledger is the list of things on the host that one run has made and not yet
// removed. It is a file of JSON lines: a thing is written before it is made
// and crossed out after it is gone, so whatever a crash leaves is in it. The
// file is locked while its run lives; an unlocked one is a dead run's.
type Ledger struct {
	path string
	file *os.File // and its lock

	mu   sync.Mutex
	next int
	open map[int]platform.Entry
	torn bool // the last write failed, and may have left a part of a line
}

// OpenLedger makes a new ledger for a run. Its name is its own for ever: what a dead
// run's ledger still names would be crossed out by one that was named for the same process.
func OpenLedger(dir, run string) (*Ledger, error) {
	if err := file.Private(dir); err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	path := filepath.Join(dir, platform.Unique(run)+ledgerSuffix)
	held, err := file.Lock(path)
	if locked := new(file.Locked); errors.As(err, &locked) { // by a Clean that has just seen it
		return OpenLedger(dir, run)
	}
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	return &Ledger{path: path, file: held, open: map[int]platform.Entry{}}, nil
}

// outlives says which kinds of things survive a restart of the host, and whose
// entries must therefore survive it too. The rest die with the kernel, and a
// synchronous write for each would slow every launch.
func outlives(kind string) bool {
	switch kind {
	case "container", "image", "volume", "network", "swap file":
		return true
	}
	return false
}

// Add enters a thing.
func (l *Ledger) Add(e platform.Entry) (func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	n := l.next
	if err := l.write(line{N: n, Entry: &e}); err != nil {
		return nil, fmt.Errorf("enter %s %s in the ledger %s: %w", e.Kind, e.ID, l.path, err)
	}
	if outlives(e.Kind) {
		if err := l.file.Sync(); err != nil {
			return nil, fmt.Errorf("enter %s %s in the ledger %s: %w", e.Kind, e.ID, l.path, err)
		}
	}
	l.open[n] = e
	var once sync.Once
	return func() { once.Do(func() { l.done(n) }) }, nil
}

// done crosses out. A failed write leaves the entry standing, which costs a
// harmless Remove of what is gone.
func (l *Ledger) done(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, n)
	_ = l.write(line{N: n, Done: true})
}

func (l *Ledger) write(ln line) error {
	text, err := json.Marshal(ln)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if l.torn {
		text = append([]byte{'\n'}, text...)
	}
	// One write a line: a crash leaves whole lines and at most one torn one,
	// which a full disk leaves too and the next line must not be glued to.
	_, err = l.file.Write(text)
	l.torn = err != nil
	return err
}

// Open lists what is entered and not crossed out.
func (l *Ledger) Open() []platform.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	var entries []platform.Entry
	for n := 1; n <= l.next; n++ {
		if e, ok := l.open[n]; ok {
			entries = append(entries, e)
		}
	}
	return entries
}

// Close gives the ledger up. Its file goes when nothing stands in it.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) == 0 {
		return file.Unlock(l.file)
	}
	return l.file.Close()
}

// remaining is an entry of a dead run's ledger.
type remaining struct {
	n     int
	entry platform.Entry
}

// parseLedger reads a ledger's lines and gives what is not crossed out, newest
// first: the order in which it must be removed. A line that is none is of a
// thing that was not made: what makes things waits until its entry is written
// whole. Such lines are counted and passed over.
func parseLedger(lines *bufio.Scanner) (left []remaining, torn int, err error) {
	lines.Buffer(nil, 1<<20)
	open := map[int]platform.Entry{}
	for lines.Scan() {
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		var ln line
		switch err := json.Unmarshal([]byte(text), &ln); {
		case err != nil || ln.N <= 0 || ln.N > 1<<30:
			torn++
		case ln.Done:
			delete(open, ln.N)
		case ln.Entry != nil:
			open[ln.N] = *ln.Entry
		}
	}
	if err := lines.Err(); err != nil {
		return nil, torn, err
	}
	for n, e := range open {
		left = append(left, remaining{n, e})
	}
	sortNewestFirst(left)
	return left, torn, nil
}

func (e remaining) String() string {
	return e.entry.Kind + " " + e.entry.ID + " (" + e.entry.Platform + ", entry " + strconv.Itoa(e.n) + ")"
}
