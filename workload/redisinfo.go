package workload

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"tare/load"
)

// serverCPU is the CPU time that Redis has used so far, all its threads together, in
// seconds, as it says itself (INFO cpu).
func serverCPU(ctx context.Context, address string) (seconds float64, err error) {
	client, err := load.DialRESP(ctx, address)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	replies, err := client.Do(ctx, []string{"INFO", "cpu"})
	if err != nil {
		return 0, err
	}
	if err := replies[0].Err(); err != nil {
		return 0, err
	}
	return parseInfoCPU(string(replies[0].Text))
}

// parseInfoCPU adds up the process' own user and system time. That of children (which
// rewrite the append-only file) stands apart in INFO, and is left out.
func parseInfoCPU(text string) (seconds float64, err error) {
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		found := false
		for line := range strings.Lines(text) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			if key != name {
				continue
			}
			v, err := strconv.ParseFloat(value, 64)
			if err != nil || !(v >= 0) || math.IsInf(v, 0) {
				return 0, fmt.Errorf("INFO cpu tells %s of %q: want seconds", name, value)
			}
			seconds, found = seconds+v, true
			break
		}
		if !found {
			return 0, fmt.Errorf("INFO cpu tells no %s", name)
		}
	}
	return seconds, nil
}
