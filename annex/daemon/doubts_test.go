package daemon

import (
	"strings"
	"testing"

	"tare/annex"
	"tare/annex/config"
	"tare/container"
)

// What is most likely not meant is told, each by its name, and nothing of what is in order.
func TestDoubts(t *testing.T) {
	c := config.Default()
	c.Rules = []config.Rule{{Class: annex.Critical, Name: "db"}, {Class: annex.Elastic, Name: "web*"}}
	c.Tiers = []config.Tier{{Area: "/swap"}}
	found := []container.Container{{Name: "db"}, {Name: "web-1"}}
	if all := doubts(c, found, []string{"/swap"}, 1<<30); len(all) > 0 {
		t.Errorf("of what is in order: %q", all)
	}
	all := doubts(c, found[1:], nil, c.Memory.Headroom)
	for i, want := range []string{"memory.headroom", "/swap", "rule 1 (critical)", "no container that runs is critical"} {
		if len(all) != 4 || !strings.Contains(all[i], want) {
			t.Fatalf("%q, want one of %s", all, want)
		}
	}
}

// A group that does not exist is refused, as it is by a start.
func TestDoubtsNoGroup(t *testing.T) {
	c := config.Default()
	c.Memory.Defend = "/there-is-no-such-group"
	if _, err := Doubts(c, nil); err == nil {
		t.Error("no error of a group that there is not")
	}
}
