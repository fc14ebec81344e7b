package checkpoint

import (
	"time"

	"tare/lab"
)

// What a trial takes: assumptions by which a pass over a design is estimated, of a
// small host with a disk that it shares.
const (
	assumedLaunch = 500 * time.Millisecond // of an engine's container, and of mpiexec or fio in it
	assumedMemory = 2e9                    // bytes a second through memory: made, written, read and checked
	assumedDisk   = 400e6                  // bytes a second to a disk, and from it
)

// takes estimates a trial of the cell.
func (c cell) takes() time.Duration {
	bytes := float64(c.bytes())
	seconds := 3 * bytes / assumedMemory // made, written and read; checked
	switch {
	case c.memory:
	case c.cache == Kept && c.sync == NoSync:
		seconds += bytes / assumedDisk / 4 // what the kernel brings to the disk before the files are removed
	case c.cache == Kept:
		seconds += bytes / assumedDisk
	default:
		seconds += 2 * bytes / assumedDisk
	}
	return assumedLaunch + time.Duration(seconds*float64(time.Second))
}

// limit bounds a trial: ten times what it is thought to take.
func (c cell) limit() time.Duration { return max(lab.DefaultTrialLimit, 10*c.takes()) }
