package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tare/study/latency/cpu"
)

// The kernel's word for no quota is one of a list, and no other quota comes in its place.
func TestQuotasWithMax(t *testing.T) {
	for text, want := range map[string][]time.Duration{
		"max":      nil,
		"max,20s":  {20 * time.Second},
		"1ms, max": {time.Millisecond},
	} {
		f, o := &cpuFlags{matrix: cpu.MatrixSize, stall: time.Millisecond, quotas: strings.Split(text, ",")}, cpu.Options{}
		if err := f.levels(&o, func(string) bool { return false }); err != nil || !slices.Equal(o.Quotas, want) {
			t.Errorf("--quota %s: %v, %v; want %v", text, o.Quotas, err, want)
		}
	}
}
