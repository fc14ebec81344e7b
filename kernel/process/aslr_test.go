package process

import (
	"os/exec"
	"strings"
	"testing"
)

// A child of a thread that switched it off has it off; another thread's has not.
func TestASLRIsInherited(t *testing.T) {
	flags := func() string {
		out, err := exec.Command("cat", "/proc/self/personality").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	before := flags()
	for _, aslr := range []string{"off", "on", ""} {
		var in string
		err := OnFreshThread(func() error {
			// From the other state, so that there is something to change.
			if aslr == "on" {
				if err := SetASLR("off"); err != nil {
					return err
				}
			}
			err := SetASLR(aslr)
			in = flags()
			return err
		})
		want := map[string]string{"off": "00040000", "on": "00000000", "": before}[aslr]
		if err != nil || in != want {
			t.Errorf("%q: the child has %s (%v), want %s", aslr, in, err, want)
		}
		if now := flags(); now != before {
			t.Errorf("%q: another thread has %s, had %s", aslr, now, before)
		}
	}
}
