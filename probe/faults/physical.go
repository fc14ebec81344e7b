package faults

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// frameBits are the bits of an entry that are an address. Those above what the
// processor can address may be its own, such as that of encrypted memory.
func frameBits() (uint64, error) {
	const file = "/proc/cpuinfo"
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	bits, err := parsePhysicalBits(f)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return (1<<bits - 1) &^ (pageSize - 1), nil
}

// parsePhysicalBits finds how wide physical addresses are: "address sizes	: 48
// bits physical, 48 bits virtual". All processors are alike.
func parsePhysicalBits(cpuinfo io.Reader) (int, error) {
	scan := bufio.NewScanner(cpuinfo)
	for scan.Scan() {
		key, value, _ := strings.Cut(scan.Text(), ":")
		if strings.TrimSpace(key) != "address sizes" {
			continue
		}
		width, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		bits, err := strconv.Atoi(width)
		if err != nil || bits < 32 || bits > 52 {
			return 0, fmt.Errorf("physical addresses of %q bits, want 32 to 52", width)
		}
		return bits, nil
	}
	if err := scan.Err(); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("no address sizes")
}
