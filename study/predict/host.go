package predict

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tare/model/quota"
)

// HostKernel reads the settings of the kernel below a root ("/") that the model uses:
// the slice from the kernel's own setting, the tick from its configuration. notes are
// of what could not be read and is assumed to be as in most distributions.
func HostKernel(root string) (k quota.Kernel, notes []string) {
	k = quota.DefaultKernel
	if slice, err := readSlice(filepath.Join(root, "proc/sys/kernel/sched_cfs_bandwidth_slice_us")); err == nil {
		k.Slice = slice
	} else {
		notes = append(notes, fmt.Sprintf("the kernel's slice of bandwidth is assumed to be %v: %v", k.Slice, err))
	}
	if tick, err := readTick(root); err == nil {
		k.Tick = tick
	} else {
		notes = append(notes, fmt.Sprintf("the kernel's tick is assumed to be %v: %v", k.Tick, err))
	}
	return k, notes
}

func readSlice(file string) (time.Duration, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	micros, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || micros < 1 || micros > 1_000_000 {
		return 0, fmt.Errorf("%s: %q: want 1 to 1000000 microseconds", file, strings.TrimSpace(string(text)))
	}
	return time.Duration(micros) * time.Microsecond, nil
}

// mostConfiguration is more than the size of any kernel's.
const mostConfiguration = 4 << 20

// readTick reads the running kernel's configuration. Some kernels hold it themselves,
// and most distributions install it beside them.
func readTick(root string) (time.Duration, error) {
	file := filepath.Join(root, "proc/config.gz")
	f, err := os.Open(file)
	if err == nil {
		defer f.Close()
		unpacked, err := gzip.NewReader(f)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		return quota.ParseTick(io.LimitReader(unpacked, mostConfiguration))
	}
	release, err := os.ReadFile(filepath.Join(root, "proc/sys/kernel/osrelease"))
	if err != nil {
		return 0, err
	}
	beside, err := os.Open(filepath.Join(root, "boot", "config-"+filepath.Base(strings.TrimSpace(string(release)))))
	if err != nil {
		return 0, err
	}
	defer beside.Close()
	return quota.ParseTick(io.LimitReader(beside, mostConfiguration))
}
