package platform_test

import (
	"testing"

	"tare/platform"
)

// What ends a box alone is not reported as if the host had been in danger.
func TestEndangered(t *testing.T) {
	for want, e := range map[string]*platform.Endangered{
		"the OOM killer ended the service":             {Why: "the OOM killer ended the service", Within: true},
		"stopped for the host's sake: memory is short": {Why: "memory is short"},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
