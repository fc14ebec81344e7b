package accounting

import (
	"strings"
	"testing"
)

func TestParseMemory(t *testing.T) {
	m, err := ParseMemory(strings.NewReader("MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:    512 kB\n"))
	if err != nil || m != (Memory{Total: 2 << 20, Available: 512 << 10}) {
		t.Errorf("got %+v, %v", m, err)
	}
	for _, bad := range []string{"", "MemFree: 1 kB", "MemTotal: many kB", "MemTotal: -1 kB"} {
		if _, err := ParseMemory(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func FuzzParseMemory(f *testing.F) {
	f.Add("MemTotal: 2048 kB\nMemAvailable: 512 kB")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMemory(strings.NewReader(text))
		if err == nil && (m.Total <= 0 || m.Available < 0) {
			t.Errorf("%q gave %+v", text, m)
		}
	})
}
