package diagnose

import (
	"slices"
	"testing"
)

// A needless quota and the throttling by it are one cost, and have one command: that of the throttling where it has one.
func TestOneCommandForOneCost(t *testing.T) {
	for _, c := range []struct {
		throttled string // its patch
		want      []string
	}{
		{"kubectl patch greater", []string{"kubectl patch greater"}},
		{"", []string{"kubectl patch none"}},
	} {
		held := Finding{ID: "shop/web/app/throttled", Container: "shop/web/app", Kind: Throttled, Set: []Remedy{{Patch: c.throttled}}}
		needless := Finding{
			ID: "shop/web/app/needless-quota", Container: "shop/web/app", Kind: Needless, Within: held.ID,
			Set: []Remedy{{Patch: "kubectl patch none"}},
		}
		node := NodeDocument{Node: "a", Document: Document{Findings: []Finding{held, needless}}}
		sheet := OnNodes([]NodeDocument{node}, nil, nil, Orders[0]).Sheet(false)
		if !slices.Equal(sheet.Next, c.want) {
			t.Errorf("throttled with %q: next %q, want %q", c.throttled, sheet.Next, c.want)
		}
	}
}
