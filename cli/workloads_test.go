package cli

import (
	"strings"
	"testing"

	"tare/terminal"
	"tare/workload"
)

// The list has a column of names, and one of what they are.
func TestWorkloadsFitAScreen(t *testing.T) {
	_, out, _ := tare(t, t.TempDir(), "workloads")
	second, names := 0, 0
	for _, w := range workload.All() {
		second = max(second, terminal.Columns(w.Name())+1)
	}
	for _, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		if terminal.Columns(line) > 80 || len(line) <= second || line[second-1] != ' ' || line[second] == ' ' {
			t.Errorf("%q", line)
			continue
		}
		if line[0] != ' ' {
			names++
		}
	}
	if names != len(workload.All()) {
		t.Errorf("%d names of %d:\n%s", names, len(workload.All()), out)
	}
}
