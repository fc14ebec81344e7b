package workload

import (
	"math"
	"strings"
	"testing"
)

// What Redis 7.0.15 answers.
const infoCPU = "# CPU\r\nused_cpu_sys:0.125\r\nused_cpu_user:0.250\r\nused_cpu_sys_children:9.0\r\nused_cpu_user_children:9.0\r\nused_cpu_sys_main_thread:0.1\r\nused_cpu_user_main_thread:0.2\r\n"

func TestParseInfoCPU(t *testing.T) {
	if got, err := parseInfoCPU(infoCPU); err != nil || got != 0.375 {
		t.Errorf("%v, %v; want 0.375 s, without children", got, err)
	}
	for name, text := range map[string]string{
		"nothing":      "",
		"half":         "used_cpu_sys:1\r\n",
		"no number":    strings.Replace(infoCPU, "0.250", "much", 1),
		"below none":   strings.Replace(infoCPU, "0.250", "-1", 1),
		"without end":  strings.Replace(infoCPU, "0.250", "inf", 1),
		"another word": "PONG",
	} {
		if got, err := parseInfoCPU(text); err == nil || !strings.Contains(err.Error(), "used_cpu") {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func FuzzParseInfoCPU(f *testing.F) {
	f.Add(infoCPU)
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := parseInfoCPU(text); err == nil && (!(v >= 0) || math.IsInf(v, 0)) {
			t.Errorf("accepted %v", v)
		}
	})
}
