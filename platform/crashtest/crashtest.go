// Package crashtest gives tests of platforms a victim: the test's binary, started again, which
// makes things and is killed with SIGKILL at an entry in its ledger, just before the thing is made,
// or later. What its ledger lists is then removed by another, and nothing may be left.
package crashtest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"tare/platform"
)

// variable holds a victim's orders.
const variable = "TARE_TEST_VICTIM"

// Main runs the victim where Run started this binary, and reports that as ours. TestMain calls it
// before the tests, and exits with code.
func Main[Orders any](victim func(Orders) error) (code int, ours bool) {
	text, ours := os.LookupEnv(variable)
	if !ours {
		return 0, false
	}
	var o Orders
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = victim(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2, true
	}
	return 0, true
}

// Run starts a victim with its orders, and waits for its end. The test fails unless the victim dies
// of SIGKILL, where dies is true, or exits with 0, where it is false.
func Run(t testing.TB, orders any, dies bool) {
	t.Helper()
	text, err := json.Marshal(orders)
	if err != nil {
		t.Fatal(err)
	}
	// A file: what the victim started may outlive it, and a pipe's end would be waited for.
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	victim := exec.Command("/proc/self/exe")
	victim.Env = append(os.Environ(), variable+"="+string(text))
	victim.Stdout, victim.Stderr = said, said
	err = victim.Run()
	exit := new(exec.ExitError)
	killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	if killed != dies || err != nil && !killed {
		text, _ := os.ReadFile(said.Name())
		t.Fatalf("the victim ended with %v: %s", err, text)
	}
}

// Die kills this program, and never returns.
func Die() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // it takes a moment
}

// Moment is when a victim is killed by its ledger. The zero value is never.
type Moment struct {
	At    int           // at this entry, from 1
	Last  int           // or from this entry
	After time.Duration // so long
}

// Never reports whether the ledger lets it live.
func (m Moment) Never() bool { return m.At+m.Last == 0 }

// Ledger is a file with a line for each entry ("+") and each crossing out ("-").
type Ledger struct {
	moment Moment
	mu     sync.Mutex
	file   *os.File
	n      int
}

// Open opens a ledger, or begins one.
func Open(path string, m Moment) (*Ledger, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &Ledger{moment: m, file: file}, err
}

func (l *Ledger) write(sign string, e platform.Entry) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(l.file, "%s%s\n", sign, b)
	return err
}

// Add writes an entry, and dies where that was its moment.
func (l *Ledger) Add(e platform.Entry) (func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.write("+", e); err != nil {
		return nil, err
	}
	switch l.n++; l.n {
	case l.moment.At:
		Die()
	case l.moment.Last:
		time.AfterFunc(l.moment.After, Die)
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		_ = l.write("-", e)
	}, nil
}

// Entries reads those of a ledger that are not crossed out, in order, and how many there were.
func Entries(path string) (open []platform.Entry, entered int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e platform.Entry
		if err := json.Unmarshal(lines.Bytes()[1:], &e); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", path, err)
		}
		if lines.Bytes()[0] == '+' {
			entered++
			open = append(open, e)
			continue
		}
		open = slices.DeleteFunc(open, func(x platform.Entry) bool { return x.Kind == e.Kind && x.ID == e.ID })
	}
	return open, entered, lines.Err()
}

// Remove has a platform remove what a ledger lists, the newest first, and gives that.
func Remove(t testing.TB, p platform.Platform, path string) (open []platform.Entry, entered int) {
	t.Helper()
	open, entered, err := Entries(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range slices.Backward(open) {
		if err := p.Remove(t.Context(), e); err != nil {
			t.Errorf("remove the %s %s: %v", e.Kind, e.ID, err)
		}
	}
	return open, entered
}
