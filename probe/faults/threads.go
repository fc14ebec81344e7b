package faults

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

func openThreadFaults(file string) (threadFaults, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return threadFaults{}, err
	}
	f, err := parseThreadFaults(b)
	if err != nil {
		return threadFaults{}, fmt.Errorf("%s: %w", file, err)
	}
	return f, nil
}

// parseThreadFaults reads the faults of a stat file of proc(5): its fields 10
// and 12. The command may hold any byte, so fields are counted from its end.
func parseThreadFaults(b []byte) (f threadFaults, err error) {
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	const minor, major = 10 - 3, 12 - 3
	if len(fields) <= major {
		return f, fmt.Errorf("%d fields after the command, want more than %d", len(fields), major)
	}
	if f.minor, err = strconv.ParseUint(string(fields[minor]), 10, 64); err != nil {
		return f, fmt.Errorf("minor faults: %w", err)
	}
	if f.major, err = strconv.ParseUint(string(fields[major]), 10, 64); err != nil {
		return f, fmt.Errorf("major faults: %w", err)
	}
	return f, nil
}
