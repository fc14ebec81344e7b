package quota

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Kernel is what of a kernel's bandwidth control differs between hosts.
type Kernel struct {
	// Tick is how often the kernel accounts for a task that goes on running: one
	// second over CONFIG_HZ, see [ParseTick]. No system call reports it: what
	// sysconf(_SC_CLK_TCK) says is always 100.
	Tick time.Duration
	// Slice is what a CPU takes from the pool at once:
	// /proc/sys/kernel/sched_cfs_bandwidth_slice_us.
	Slice time.Duration
}

// DefaultKernel is one as most distributions build it.
var DefaultKernel = Kernel{Tick: 4 * time.Millisecond, Slice: 5 * time.Millisecond}

func (k Kernel) check() error {
	if k.Tick <= 0 || k.Tick > time.Second {
		return fmt.Errorf("a tick each %v: want up to a second", k.Tick)
	}
	if k.Slice <= 0 || k.Slice > time.Second {
		return fmt.Errorf("slices of %v: want up to a second", k.Slice)
	}
	return nil
}

// Constants of kernel/sched/fair.c. Only the last can be set, by debugfs.
const (
	kept        = int64(time.Millisecond)     // min_cfs_rq_runtime: what an idle CPU keeps of its slice
	slackDelay  = 5 * int64(time.Millisecond) // cfs_bandwidth_slack_period: how long what was given back waits
	slackMargin = 2 * int64(
		time.Millisecond,
	) // min_bandwidth_expiration: and no longer where the pool is filled this soon
	// turnLength is how long a task runs while others wait for its CPU (base_slice_ns): 0.7 to
	// 3 ms by the kernel and its number of CPUs. It ends on a tick, which is rarely nearer.
	turnLength = 3 * int64(time.Millisecond)
)

// ErrNoTick says that a configuration does not name the tick.
var ErrNoTick = errors.New("the kernel's configuration has no CONFIG_HZ")

// ParseTick reads the tick from a kernel's configuration: /boot/config-RELEASE,
// or what /proc/config.gz unpacks to. The error is [ErrNoTick] where it is not
// stated.
func ParseTick(r io.Reader) (time.Duration, error) {
	scan := bufio.NewScanner(r)
	for scan.Scan() {
		text, ok := strings.CutPrefix(strings.TrimSpace(scan.Text()), "CONFIG_HZ=")
		if !ok {
			continue
		}
		hz, err := strconv.Atoi(text)
		if err != nil || hz < 1 || hz > 100_000 {
			return 0, fmt.Errorf("CONFIG_HZ=%s is no number of ticks per second", text)
		}
		return time.Second / time.Duration(hz), nil
	}
	if err := scan.Err(); err != nil {
		return 0, fmt.Errorf("the kernel's configuration: %w", err)
	}
	return 0, ErrNoTick
}
