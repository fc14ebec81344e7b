package platform

import (
	"errors"
	"testing"
)

func TestCheckRuntimeFreezes(t *testing.T) {
	for runtime, ok := range map[string]bool{
		"": true, "runc": true, "/usr/bin/crun": true, "nvidia-container-runtime": true, "io.containerd.runc.v2": true, "youki": true,
		"runsc": false, "/opt/kata/bin/containerd-shim-kata-v2": false, "io.containerd.runsc.v1": false, "krun": false,
	} {
		err := CheckRuntimeFreezes("p", runtime)
		if refused := new(Unsupported); (err == nil) != ok || err != nil && !errors.As(err, &refused) {
			t.Errorf("%q: %v", runtime, err)
		}
	}
}
