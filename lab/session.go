package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tare/kernel/file"
	"tare/kernel/procfs"
	"tare/platform"
)

// Session is the right to measure on this host: its lock, and the ledger of
// what will be made. One measuring tare a host at a time, whatever its state
// directory.
type Session struct {
	lock      *os.File
	Ledger    *Ledger
	Platforms func(name string) (platform.Platform, error)
}

// Busy says that another tare is measuring on this host.
type Busy struct{ Holder string }

func (b *Busy) Error() string {
	return "another tare is measuring on this host (" + b.Holder + "): two would measure one another; wait for it"
}

// Measuring says whether a tare is measuring on this host now, as far as the caller may
// know. It takes no lock: what looks must not keep out what measures. /proc/locks does not show
// holders in other PID namespaces: who may open the lock asks for it instead.
func Measuring(lockPath string) bool {
	if held, err := file.WriteLocked(lockPath, file.Range{}); err == nil && held {
		return true
	}
	held, err := procfs.Host.FileLocks(lockPath)
	return err == nil && len(held) > 0
}

// LockPath is the host's lock. Only root can open it, and so hold it.
const LockPath = "/run/tare.lock"

// LedgerDir is where ledgers lie below a state directory.
func LedgerDir(stateDir string) string { return filepath.Join(stateDir, "ledger") }

// OpenSession takes the host's lock, removes what dead runs left (so that it
// does not disturb this one) and opens a ledger named for this process.
func OpenSession(ctx context.Context, lockPath, stateDir, name string) (*Session, Cleaned, error) {
	lock, err := takeHost(lockPath)
	if err != nil {
		return nil, Cleaned{}, err
	}
	dir := LedgerDir(stateDir)
	cleaned, err := Clean(ctx, dir, Platforms(stateDir, discard{}), false)
	if err != nil {
		return nil, cleaned, errors.Join(err, lock.Close())
	}
	ledger, err := OpenLedger(dir, name)
	if err != nil {
		return nil, cleaned, errors.Join(err, lock.Close())
	}
	return &Session{lock: lock, Ledger: ledger, Platforms: Platforms(stateDir, ledger)}, cleaned, nil
}

// takeHost takes the host's lock; the error is a *[Busy] where another has it.
func takeHost(path string) (*os.File, error) {
	lock, err := file.Lock(path)
	if locked := new(file.Locked); errors.As(err, &locked) {
		text, _ := os.ReadFile(path)
		holder, namespace, _ := strings.Cut(strings.TrimSpace(string(text)), "\t")
		switch {
		case holder == "":
			holder = "another process"
		case namespace != "" && namespace != pidNamespace():
			holder += " of another PID namespace" // as in a container
		}
		return nil, &Busy{holder}
	}
	if err != nil {
		return nil, fmt.Errorf("take the host's lock: %w", err)
	}
	// Whom the lock keeps out learns who has it, and Measuring sees it; that this fails is no
	// reason not to measure.
	_ = file.LockRange(lock, file.Range{}, true)
	_ = lock.Truncate(0)
	_, _ = lock.WriteAt(fmt.Appendf(nil, "process %d\t%s\n", os.Getpid(), pidNamespace()), 0)
	return lock, nil
}

// pidNamespace names the PID namespace of this process; empty where it is not known.
func pidNamespace() string {
	own, err := procfs.Host.Process(os.Getpid()).Namespaces()
	if err != nil {
		return ""
	}
	return own["pid"]
}

// CleanHost is [Clean] of a state directory's ledgers while it holds the host's lock: what
// dead runs had changed on the host may be a live one's by now. The error is a *[Busy]
// while another tare measures. Where dry it only looks, and needs no lock.
func CleanHost(ctx context.Context, lockPath, stateDir string, dry bool) (_ Cleaned, err error) {
	if !dry {
		lock, err := takeHost(lockPath)
		if err != nil {
			return Cleaned{}, err
		}
		defer lock.Close()
	}
	return Clean(ctx, LedgerDir(stateDir), Remover(stateDir), dry)
}

// Close gives everything back. What still stands in the ledger is reported, and
// stays there for `tare clean`.
func (s *Session) Close() error {
	left := s.Ledger.Open()
	err := errors.Join(s.Ledger.Close(), s.lock.Close())
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%d things are left on the host, the first a %s (%s): `tare clean` removes them", len(left), left[0].Kind, left[0].ID)
	}
	return err
}

// discard is the ledger of platforms that only remove.
type discard struct{}

func (discard) Add(platform.Entry) (func(), error) { return func() {}, nil }

// Remover gives platforms that are used to remove what ledgers name, and to
// look at: they make nothing.
func Remover(stateDir string) func(name string) (platform.Platform, error) {
	return Platforms(stateDir, discard{})
}
