package cli

import (
	"strings"
	"testing"
)

func TestPredictPlatformWantsARun(t *testing.T) {
	home := t.TempDir()
	storedRun(t, home, "weigh-batch", map[string]float64{"bare": 1, "docker": 1}, nil)
	for _, c := range []struct {
		args string
		says []string
	}{
		{"", []string{"no run to predict from", "tare platforms"}},
		{"--cpus none", []string{"--cpus none", "numbers of cpus"}},
		{"--cpus 0", []string{"--cpus 0"}},
	} {
		code, out, errOut := tare(t, home, append([]string{"predict", "platform"}, strings.Fields(c.args)...)...)
		if code != exitUsage {
			t.Errorf("%q: %d, %s", c.args, code, errOut)
		}
		hasAll(t, c.args, out+errOut, c.says)
	}
	code, out, errOut := tare(t, home, "predict", "platform", "weigh-batch")
	if code != exitUsage {
		t.Errorf("a run of another study: %d, %s", code, errOut)
	}
	hasAll(t, "a run of another study", out+errOut, []string{"weigh-batch", "compares no platforms by size"})
}
