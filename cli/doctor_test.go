package cli

import (
	"strings"
	"testing"

	"tare/lab"
)

// What doctor says of a host's noise follows the limits by which blocks are disturbed.
func TestJudgementOfNoise(t *testing.T) {
	for _, c := range []struct {
		noise noise
		want  string
	}{
		{noise{Foreign: lab.ForeignLimit, Steal: lab.StealLimit}, "quiet"},
		{noise{Foreign: 0.3, Loudest: "cc1"}, "cc1 most"},
		{noise{Steal: 0.3}, "by the hypervisor"},
	} {
		if got := c.noise.judgement(); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q lacks %q", c.noise, got, c.want)
		}
	}
}
