package cli

import (
	"testing"
	"time"
)

func TestFewBlocks(t *testing.T) {
	for _, c := range []struct {
		budget, before, pass time.Duration
		want                 string
	}{
		{0, 0, 4 * time.Minute, ""},
		{12 * time.Minute, 0, 4 * time.Minute, ""},
		{12 * time.Minute, time.Minute, 4 * time.Minute, "2 blocks of about 4m0s fit into 12m0s, and an interval takes three: --budget 13m, or name fewer conditions"},
		{10 * time.Minute, 0, 250 * time.Second, "2 blocks of about 4m10s fit into 10m0s, and an interval takes three: --budget 13m, or name fewer conditions"},
	} {
		if got := fewBlocks(c.budget, c.before, c.pass); got != c.want {
			t.Errorf("%v of %v after %v: %q", c.budget, c.pass, c.before, got)
		}
	}
}
