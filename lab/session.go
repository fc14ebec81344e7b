package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"tare/platform"
)

// Session is the right to measure on this host: its lock, and the ledger of
// what will be made. One measuring tare a host at a time, whatever its state
// directory.
type Session struct {
	lock      *flock.Flock
	Ledger    *Ledger
	Platforms func(name string) (platform.Platform, error)
}

// Busy says that another tare is measuring on this host.
type Busy struct{ Holder string }

func (b *Busy) Error() string {
	return "another tare is measuring on this host (" + b.Holder + "): two would measure one another; wait for it"
}

// Measuring says whether a tare is measuring on this host now, as far as the
// caller may know.
func Measuring(lockPath string) bool {
	if _, err := os.Stat(lockPath); err != nil {
		return false
	}
	lock := flock.New(lockPath, flock.SetFlag(os.O_RDONLY))
	taken, err := lock.TryRLock()
	if err != nil {
		return false
	}
	_ = lock.Unlock() // taken or not, its file is closed
	return !taken
}

// LockPath is the host's lock.
const LockPath = "/run/tare.lock"

// LedgerDir is where ledgers lie below a state directory.
func LedgerDir(stateDir string) string { return filepath.Join(stateDir, "ledger") }

// OpenSession takes the host's lock, removes what dead runs left (so that it
// does not disturb this one) and opens a ledger named for this process.
func OpenSession(ctx context.Context, lockPath, stateDir, name string) (*Session, Cleaned, error) {
	lock := flock.New(lockPath, flock.SetPermissions(0o644))
	taken, err := lock.TryLock()
	if err != nil {
		return nil, Cleaned{}, fmt.Errorf("take the host's lock: %w", err)
	}
	if !taken {
		holder, err := os.ReadFile(lockPath)
		if err != nil {
			holder = []byte("another process")
		}
		return nil, Cleaned{}, &Busy{strings.TrimSpace(string(holder))}
	}
	// Whom the lock keeps out learns who has it; that this fails is no reason
	// not to measure.
	_ = os.WriteFile(lockPath, fmt.Appendf(nil, "process %d\n", os.Getpid()), 0o644)
	dir := LedgerDir(stateDir)
	cleaned, err := Clean(ctx, dir, Platforms(stateDir, discard{}), false)
	if err != nil {
		return nil, cleaned, errors.Join(err, lock.Unlock())
	}
	ledger, err := OpenLedger(dir, fmt.Sprintf("%s-%d", name, os.Getpid()))
	if err != nil {
		return nil, cleaned, errors.Join(err, lock.Unlock())
	}
	return &Session{lock: lock, Ledger: ledger, Platforms: Platforms(stateDir, ledger)}, cleaned, nil
}

// Close gives everything back. What still stands in the ledger is reported, and
// stays there for `tare clean`.
func (s *Session) Close() error {
	left := s.Ledger.Open()
	err := errors.Join(s.Ledger.Close(), s.lock.Unlock())
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
