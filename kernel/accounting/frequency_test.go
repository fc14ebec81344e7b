package accounting

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFrequency(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "devices/system/cpu/cpu3/cpufreq")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, ok := frequency(root, 3); ok {
		t.Error("a CPU without a driver has a frequency")
	}
	for text, want := range map[string]float64{"1955000\n": 1955, "<unknown>\n": 0, "0\n": 0} {
		if err := os.WriteFile(filepath.Join(dir, "scaling_cur_freq"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if mhz, ok := frequency(root, 3); mhz != want || ok != (want > 0) {
			t.Errorf("%q: %v MHz (%v), want %v", text, mhz, ok, want)
		}
	}
}
