package vm

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"tare/platform"
)

// A machine of user-mode Linux is one like others, of one CPU: it is paused and goes on.
func TestUserModeLinux(t *testing.T) {
	o := options(t, UML)
	o.Bound = 25 * time.Second
	v, img := ready(t, "vm:uml/bare", o)
	for range 2 {
		var out bytes.Buffer
		inst := launch(t, v, platform.Spec{Name: "uml", Image: img, Stdout: &out, Stderr: &out, Args: []string{"sh", "-c", "grep -c ^processor /proc/cpuinfo; uname -r"}})
		exit, err := inst.Wait(t.Context())
		if lines := strings.Fields(out.String()); err != nil || exit.Code != 0 || len(lines) != 2 || lines[0] != "1" {
			t.Errorf("%+v, %v: %q", exit, err, out.String())
		}
		stop(t, inst)
	}
	if boots := v.Boots(); len(boots) != 1 {
		t.Errorf("it booted %d times: %+v", len(boots), boots)
	} else {
		t.Logf("ready after %v: %v; notes %q", boots[0].Ready, boots[0].Phases, boots[0].Notes)
	}
}
