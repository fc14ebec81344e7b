package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
)

// Crowded says that a control group lets too few threads be made.
type Crowded struct {
	Dir         string // of the group that has the limit
	Limit       int64  // its pids.max
	Left, Wants int64  // of threads
}

func (c *Crowded) Error() string {
	return fmt.Sprintf("%s has room for %d more threads under its pids.max of %d, and %d are needed: raise it there "+
		"(TasksMax= of a systemd unit, --pids-limit of a container)", c.Dir, c.Left, c.Limit, c.Wants)
}

// ThreadRoom fails with a [*Crowded] where a group, or one above it, has no room for so many threads. What
// cannot be read sets no limit.
func (g Group) ThreadRoom(wants int64) error {
	place, has := g.For("pids")
	if !has {
		return nil
	}
	return place.upward(func(dir string) error {
		limit, err := readInt(dir, "pids.max")
		if err != nil {
			limit = math.MaxInt64 // "max", or the root, which has no file
		}
		now, err := readInt(dir, "pids.current")
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && limit-now >= wants:
			return nil
		case err != nil:
			return err
		}
		return &Crowded{dir, limit, max(limit-now, 0), wants}
	})
}
