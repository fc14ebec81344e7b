package procfs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const netDev = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
  eth0:     486       5    0    0    0     0          0         0      700       9    0    0    0     0       0          0
`

func TestInterfaces(t *testing.T) {
	got, err := ParseInterfaces(strings.NewReader(netDev))
	if diff := cmp.Diff([]Interface{{Name: "lo"}, {"eth0", 5, 9}}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, line := range []string{"eth0 1 2", "eth0: 1 2", strings.Replace(netDev, "486       5", "486 x", 1)} {
		if _, err := ParseInterfaces(strings.NewReader("\n\n" + line)); err == nil {
			t.Errorf("%q is accepted", line)
		}
	}
}

func FuzzInterfaces(f *testing.F) {
	f.Add(netDev)
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseInterfaces(strings.NewReader(text))
		if err == nil && len(all) > strings.Count(text, "\n")+1 {
			t.Errorf("%d interfaces in %q", len(all), text)
		}
	})
}
