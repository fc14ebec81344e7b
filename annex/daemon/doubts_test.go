package daemon

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"tare/annex"
	"tare/annex/bound"
	"tare/annex/config"
	"tare/annex/control"
	"tare/annex/media"
	"tare/container"
	"tare/kernel/cgroup"
)

// What is most likely not meant is told, each by its name, and nothing of what is in order.
func TestDoubts(t *testing.T) {
	c := config.Default()
	c.Rules = []config.Rule{{Class: annex.Critical, Name: "db"}, {Class: annex.Elastic, Name: "web*"}}
	c.Tiers = []config.Tier{{Area: "/swap"}}
	found := []container.Container{{Name: "db"}, {Name: "web-1"}}
	if all := doubts(c, found, []string{"/swap"}, cgroup.Layout{}); len(all) > 0 {
		t.Errorf("of what is in order: %q", all)
	}
	all := doubts(c, found[1:], nil, cgroup.Layout{})
	for i, want := range []string{"/swap", "rule 1 (critical)", "no container that runs is critical"} {
		if len(all) != 3 || !strings.Contains(all[i], want) {
			t.Fatalf("%q, want one of %s", all, want)
		}
	}
}

// A rule that decides of nothing says why.
func TestUnusedRuleSaysWhy(t *testing.T) {
	memory, cpu, unified := t.TempDir(), t.TempDir(), t.TempDir()
	layout := cgroup.Layout{Hierarchies: []cgroup.Hierarchy{
		{Version: 1, Controllers: []string{"memory"}, Mount: memory, Root: "/"},
		{Version: 1, Controllers: []string{"cpu"}, Mount: cpu, Root: "/"}, {Version: 2, Mount: unified, Root: "/"},
	}}
	put(t, memory, "empty/cgroup.procs", "")
	put(t, cpu, "elsewhere/cgroup.procs", "")
	put(t, unified, "threads/cgroup.type", "threaded\n")
	c := config.Default()
	found := []container.Container{{Name: "web-1"}}
	for says, r := range map[string]config.Rule{
		"rule 1 (critical) comes first and fits web-1 too": {Name: "web-1"},
		"no container that runs has such a name":           {Name: "db"},
		"image and label":                                  {Image: "a", Label: "b"},
		"there is no control group of such a path":         {Cgroup: memory + "/nobody"},
		"is in a hierarchy without memory":                 {Cgroup: cpu + "/else*"},
		"is a threaded group":                              {Cgroup: unified + "/threads"},
		"nothing runs in " + memory + "/empty":             {Cgroup: memory + "/empty"},
		"has another name":                                 {Cgroup: memory + "/empty", Name: "x"},
	} {
		r.Class = annex.Elastic
		c.Rules = []config.Rule{{Class: annex.Critical, Name: "web*"}, r}
		if all := doubts(c, found, nil, layout); len(all) != 1 || !strings.Contains(all[0], "rule 2 (elastic)") || !strings.Contains(all[0], says) {
			t.Errorf("%+v: %q, want %q", r, all, says)
		}
	}
}

// As much headroom as there is memory is refused by one that manages, and doubted by one that observes.
func TestHeadroomThatIsNeverFree(t *testing.T) {
	c := config.Default()
	c.Memory.Headroom, c.Memory.High = 1<<50, 1<<50
	for mode, refused := range map[config.Mode]bool{config.Manage: true, config.Observe: false} {
		c.Mode = mode
		all, err := Doubts(c, nil)
		lacking := new(Lacking)
		if errors.As(err, &lacking) != refused {
			t.Errorf("%s: %v", mode, err)
		}
		if text := fmt.Sprint(all, err); !strings.Contains(text, "memory.headroom") {
			t.Errorf("%s: %s", mode, text)
		}
	}
}

// Swap that is full is told of, and that there is none, as soon as it is known.
func TestNoRoom(t *testing.T) {
	for want, m := range map[string]control.Memory{
		"":                      {},
		"there is no swap":      {LimitBytes: 1 << 30},
		"swap is full (64 MiB)": {LimitBytes: 1 << 30, SwapBytes: 64 << 20},
	} {
		if got := noRoom(m); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%+v: %q", m, got)
		}
	}
	if got := noRoom(control.Memory{LimitBytes: 1 << 30, SwapBytes: 64 << 20, SwapFreeBytes: 1 << 20}); got != "" {
		t.Errorf("with room: %q", got)
	}
}

// Swap that is more than half full is told of, and what there is to do.
func TestOverHalf(t *testing.T) {
	for _, c := range []struct {
		size, free int64
		kinds      []media.Kind
		told       bool
	}{
		{0, 0, nil, false}, {64 << 20, 64 << 20, []media.Kind{media.File}, false}, {64 << 20, 32 << 20, []media.Kind{media.File}, false},
		{64 << 20, 31 << 20, []media.Kind{media.File}, true}, {64 << 20, 0, []media.Kind{media.ZRAM, media.Device}, true},
		{64 << 20, 0, []media.Kind{media.ZRAM}, false}, // where nothing is written
	} {
		var tiers []control.Tier
		for _, kind := range c.kinds {
			tiers = append(tiers, control.Tier{Kind: string(kind)})
		}
		if text := overHalf(control.Memory{SwapBytes: c.size, SwapFreeBytes: c.free}, tiers); (text != "") != c.told || c.told && !strings.Contains(text, "of 64 MiB") {
			t.Errorf("of %d bytes of swap, of which %d are free, it says %q", c.size, c.free, text)
		}
	}
}

// Where evictions free nothing the status names the cause that was seen.
func TestVainEvictionsNameTheCause(t *testing.T) {
	var f futile
	if text := f.problem(1, "a cause"); text != "" {
		t.Errorf("of none: %q", text)
	}
	f.saw("web", vainOfOne+vainSpare, 0, 1)
	for why, says := range map[string]string{"": "the cause is unknown", (&bound.CacheTaken{Group: "/web", Bytes: 8 << 20}).Error(): "took 8 MiB of page cache"} {
		if text := f.problem(2, why); !strings.Contains(text, says) {
			t.Errorf("%q does not say %q", text, says)
		}
	}
	r := &reclaims{wanted: func() bool { return true }}
	if r.vain() != "" {
		t.Error(r.vain())
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
