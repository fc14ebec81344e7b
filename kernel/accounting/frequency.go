package accounting

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Frequency is a CPU's clock rate in MHz as its driver reports it
// (Documentation/admin-guide/pm/cpufreq.rst: scaling_cur_freq). ok is false where
// no driver governs the clock, as in most virtual machines: what /proc/cpuinfo
// says there is the nominal rate and never changes.
func Frequency(cpu int) (mhz float64, ok bool) { return frequency("/sys", cpu) }

func frequency(root string, cpu int) (mhz float64, ok bool) {
	text, err := os.ReadFile(filepath.Join(root, "devices/system/cpu", fmt.Sprintf("cpu%d", cpu), "cpufreq/scaling_cur_freq"))
	if err != nil {
		return 0, false
	}
	kHz, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil || kHz == 0 {
		return 0, false
	}
	return float64(kHz) / 1e3, true
}
