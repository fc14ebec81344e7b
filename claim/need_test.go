package claim_test

import (
	"slices"
	"strings"
	"testing"

	"tare/claim"
)

func TestShortCommandsRunTheSameStudy(t *testing.T) {
	for _, c := range claim.All() {
		switch {
		case c.Quick == nil:
		case len(c.Quick) <= 2 || !slices.Equal(c.Quick[:2], c.Command[:2]):
			t.Errorf("%s: %q narrows no %q", c.ID, c.Quick, c.Command)
		case slices.Contains(c.Quick, "--blocks"), slices.Contains(c.Quick, "--budget"), slices.Contains(c.Quick, "--quick"):
			t.Errorf("%s: %q says how long it takes, which a plan does", c.ID, c.Quick)
		}
	}
}

func TestWhichHostCouldDecide(t *testing.T) {
	whole := claim.Abilities{CPUs: 8, Counters: true, KVM: true, GPU: true, Clock: true}
	small := claim.Abilities{CPUs: 2}
	elsewhere := []string{}
	partly, open := []string{}, []string{}
	for _, c := range claim.All() {
		if unmet := c.Unmet(whole); len(unmet) > 0 {
			t.Errorf("%s lacks %s on a host that has everything", c.ID, unmet[0].Host)
		}
		for _, n := range c.Unmet(small) {
			if !strings.HasPrefix(n.Host, "a host ") {
				t.Errorf("%s: %q is no host", c.ID, n.Host)
			}
		}
		switch {
		case c.Elsewhere(small) != "":
			elsewhere = append(elsewhere, c.ID)
		case len(c.Unmet(small)) > 0:
			partly = append(partly, c.ID)
		}
		if c.Elsewhere(small) == "" && c.Open(small) {
			open = append(open, c.ID)
		}
	}
	if want := []string{"S1.10", "S1.13", "S1.14", "S1.15", "S2.6", "S2.7", "S2.9b"}; !slices.Equal(elsewhere, want) {
		t.Errorf("two CPUs cannot decide %q, want %q", elsewhere, want)
	}
	if want := []string{"S2.1", "S2.2", "S2.3", "S2.4", "S2.5", "S2.10", "S4.3"}; !slices.Equal(partly, want) {
		t.Errorf("two CPUs show %q in part, want %q", partly, want)
	}
	if want := []string{"S2.1", "S2.2", "S2.3", "S2.4", "S2.10"}; !slices.Equal(open, want) {
		t.Errorf("two CPUs leave %q open, want %q", open, want)
	}
}
