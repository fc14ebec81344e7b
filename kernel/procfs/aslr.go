package procfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// ASLR reports whether the kernel draws the addresses of the process' memory: "on",
// "off", by the process' personality and by the host's sysctl
// kernel.randomize_va_space; empty where they may not be read. (At 1 the sysctl
// leaves out the heap alone, which counts as on.)
func (p Process) ASLR() string {
	flags, err := p.read("personality")
	if err != nil {
		return ""
	}
	host, err := FS(filepath.Dir(p.dir)).randomize()
	if err != nil {
		return ""
	}
	return wordASLR(parseASLR(flags, host))
}

// ASLR gives the same of a process of which nothing else was asked, by the host's
// sysctl alone.
func (f FS) ASLR() string {
	host, err := f.randomize()
	if err != nil {
		return ""
	}
	return wordASLR(parseASLR([]byte("0"), host))
}

func wordASLR(drawn bool, err error) string {
	switch {
	case err != nil:
		return ""
	case drawn:
		return "on"
	}
	return "off"
}

func (f FS) randomize() ([]byte, error) {
	return os.ReadFile(filepath.Join(string(f), "sys/kernel/randomize_va_space"))
}

// parseASLR reads a personality, in hexadecimal, and the sysctl.
func parseASLR(personality, host []byte) (drawn bool, err error) {
	const addrNoRandomize = 0x0040000 // include/uapi/linux/personality.h
	flags, err := strconv.ParseUint(string(bytes.TrimSpace(personality)), 16, 64)
	if err != nil {
		return false, fmt.Errorf("personality: %w", err)
	}
	level, err := strconv.ParseUint(string(bytes.TrimSpace(host)), 10, 8)
	if err != nil {
		return false, fmt.Errorf("kernel.randomize_va_space: %w", err)
	}
	return flags&addrNoRandomize == 0 && level > 0, nil
}
