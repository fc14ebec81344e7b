package process

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The size is one that the processor's own list of what it has bounds from below and above
// (Intel SDM volume 1, 13.4: 512 bytes and a header of 64, then 256 for the upper halves
// of AVX, 2 KiB and more with AVX-512's, 8 KiB more with AMX's tiles).
func TestExtendedState(t *testing.T) {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Skip(err)
	}
	_, flags, _ := strings.Cut(string(text), "\nflags")
	flags, _, _ = strings.Cut(flags, "\n")
	has := func(flag string) bool { return slices.Contains(strings.Fields(flags), flag) }
	if !has("xsave") {
		t.Skip("this processor has no XSAVE")
	}
	from, below := 576, 2400
	switch {
	case has("amx_tile"):
		from, below = 8192+576, mostRegisters
	case has("avx512f"):
		from, below = 2400, 8192
	case has("avx"):
		from = 832
	}
	for range 3 {
		if size, err := ExtendedState(); err != nil || size < from || size >= below {
			t.Errorf("%d bytes, error %v; want %d and more, below %d", size, err, from, below)
		}
	}
}
