package daemon

import (
	"testing"

	"tare/annex/config"
)

// Engines are missed only by rules that ask for what they alone know.
func TestWhoAsksEngines(t *testing.T) {
	for _, c := range []struct {
		rules []config.Rule
		asks  bool
	}{
		{nil, false},
		{[]config.Rule{{Cgroup: "/a/*"}, {Cgroup: "/b"}}, false},
		{[]config.Rule{{Cgroup: "/a/*"}, {Cgroup: "/b", Name: "web"}}, true},
		{[]config.Rule{{Label: "tier"}}, true},
		{[]config.Rule{{Image: "*"}}, true},
	} {
		if got := asksEngines(c.rules); got != c.asks {
			t.Errorf("%+v: %t", c.rules, got)
		}
	}
}
