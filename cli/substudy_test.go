package cli

import (
	"testing"
	"time"
)

func TestFewBlocks(t *testing.T) {
	for _, c := range []struct {
		budget, pass time.Duration
		want         string
	}{
		{0, 4 * time.Minute, ""},
		{12 * time.Minute, 4 * time.Minute, ""},
		{10 * time.Minute, 250 * time.Second, "2 blocks of about 4m10s fit into 10m0s, and an interval takes three: --budget 13m, or name fewer conditions"},
	} {
		if got := fewBlocks(c.budget, c.pass); got != c.want {
			t.Errorf("%v of %v: %q", c.budget, c.pass, got)
		}
	}
}
