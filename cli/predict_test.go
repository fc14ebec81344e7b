package cli

import "testing"

// Without a service nothing is measured.
func TestPredictQuotaWantsAService(t *testing.T) {
	for _, args := range [][]string{nil, {"--dry-run"}, {"--p99", "5ms"}} {
		code, out, errOut := tare(t, t.TempDir(), append([]string{"predict", "quota"}, args...)...)
		if code != exitUsage || out != "" {
			t.Errorf("%v: %d, %s", args, code, out)
		}
		hasAll(t, "predict quota", errOut, []string{"which service?", "tare predict quota thrift"})
	}
}
