package bound

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"os"
	"path"
	"path/filepath"

	"tare/kernel/file"
)

// ClaimDirectory is where claims lie: in memory, since none outlives its daemon.
const ClaimDirectory = "/run/annex"

// Claim is the right to manage what is defended. One program at a time has it, by the lock
// of a file that is named after the memory; it ends with that program, however that ends.
type Claim struct{ lock *os.File }

// Claimed says that another program manages what is defended.
type Claimed struct {
	Group string // the path of the control group; empty is the host
	Lock  string // the file whose lock it holds
}

func (c *Claimed) Error() string {
	what := "the host's memory"
	if c.Group != "" {
		what = "the memory of cgroup " + c.Group
	}
	return what + " is managed by another program, which holds the lock of " + c.Lock + ": end that one first"
}

// Claim takes the right to manage what is defended, by a file in a directory that is made
// where there is none. The error is a [*Claimed] where another program has it. A group and
// the host that it is of are claimed each for itself.
func (b *Bound) Claim(dir string) (*Claim, error) { return claim(dir, b.claimed()) }

// claimed is the path of the group that is defended, however it was named; empty is the host.
func (b *Bound) claimed() string {
	if b.Host() {
		return ""
	}
	if place, ok := b.group.For("memory"); ok {
		return place.Path
	}
	return path.Clean(b.options.Group)
}

// claim takes the claim on a group by its path, or on the host.
func claim(dir, group string) (*Claim, error) {
	name := claimFile(dir, group)
	for try := 0; ; try++ {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		lock, err := file.Lock(name)
		if locked := new(file.Locked); errors.As(err, &locked) {
			return nil, &Claimed{group, name}
		}
		// Whoever ends removes the directory with the last file in it.
		if errors.Is(err, os.ErrNotExist) && try < claimTries {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &Claim{lock}, nil
	}
}

// claimTries is how often the directory is made again.
const claimTries = 100

// Close gives the claim up, and removes its file, and the directory where that has nothing
// else in it. It may be called again, and of none.
func (c *Claim) Close() error {
	if c == nil || c.lock == nil {
		return nil
	}
	dir := filepath.Dir(c.lock.Name())
	err := file.Unlock(c.lock)
	c.lock = nil
	_ = os.Remove(dir) // others' files keep it
	return err
}

// Unclaim removes the file of a claim on a group, by its path, or on the host where that is
// empty, that a killed program left. One that somebody has stays.
func Unclaim(dir, group string) error {
	if _, err := os.Lstat(claimFile(dir, group)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	c, err := claim(dir, group)
	if other := new(Claimed); errors.As(err, &other) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.Close()
}

// longestClaim bounds a file's name below what file systems take, 255 bytes.
const longestClaim = 200

// claimFile is the file of a claim: host, or the group's path with what a file's name cannot
// have escaped as in URLs, or a checksum where that is too long.
func claimFile(dir, group string) string {
	name := "host"
	if group != "" {
		if name = url.PathEscape(path.Clean(group)); len(name) > longestClaim {
			sum := sha256.Sum256([]byte(path.Clean(group)))
			name = hex.EncodeToString(sum[:])
		}
	}
	return filepath.Join(dir, "defended-"+name+".lock")
}
