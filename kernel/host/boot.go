package host

import (
	"fmt"
	"os"
	"strings"
)

// BootID names this start of the kernel: what was set at run time is gone with it.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("when the kernel was started: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
