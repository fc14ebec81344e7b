package diagnose

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tare/record"
)

// Twenty equal health checks have two lines of what to set on the page and one on the view, and the
// document has each container's own.
func TestEqualSettingsAreShownOnce(t *testing.T) {
	var all []*Facts
	for i := range 20 {
		f := checked(time.Second)
		f.Container.Name = fmt.Sprintf("c20-%02d", i)
		f.Engine.Shim += time.Duration(i) * 5 * ms
		all = append(all, f)
	}
	r := &Result{Facts: all, Span: 10 * time.Second, Findings: Diagnose(quietHost, all)}
	rows := settingsOf(r.Findings...).Rows
	if len(rows) != 2 {
		t.Fatalf("%d lines of what to set, want 2: %+v", len(rows), rows)
	}
	// The costliest is the last: 0.06 s/s to 0.0695 s/s, of which a check in 30 s leaves a thirtieth.
	const of, says = "20 containers (c20-19, c20-18, c20-17 and 17 more)", "a check every 30 s: saves 0.058 to 0.067 s/s each"
	if rows[0][0].Text != of || rows[0][1].Text != says || rows[0][1].Detail != "docker run --health-interval 30s" || rows[1][0].Text != of {
		t.Errorf("%+v", rows)
	}
	var view strings.Builder
	(&Rounds{}).Add(r).Block(&view)
	if _, settings, _ := strings.Cut(view.String(), "WHAT TO SET\n"); settings != of+": "+says+"\n" {
		t.Errorf("the view has\n%s", settings)
	}
	for _, f := range r.Document(record.Host{}).Findings {
		if len(f.Set) != 2 || f.Set[0].Saves < 0.057 {
			t.Errorf("the document has of %s %+v", f.ID, f.Set)
		}
	}
}

func TestProposals(t *testing.T) {
	of := func(name, command string, saves float64) Finding {
		return Finding{Container: name, Set: []Remedy{{Says: "less", Command: command, Saves: saves}}}
	}
	quota := func(name string, p99 time.Duration) Finding {
		return Finding{Container: name, Set: []Remedy{{Says: "a quota", P99: p99, P99Now: 4 * p99}}}
	}
	for _, c := range []struct {
		found []Finding
		want  string
	}{
		{[]Finding{quota("a", 30*ms)}, "a: a quota: predicted p99 of a piece of work 30 ms, now 120 ms ()"},
		{[]Finding{quota("a", 30*ms), quota("b", 40*ms)},
			"2 containers (a, b): a quota: predicted p99 of a piece of work at most 40 ms each, now at most 160 ms ()"},
		{[]Finding{of("a", "docker update --cpus 1 a", 0)}, "a: less (docker update --cpus 1 a)"},
		{[]Finding{of("a", "", 0.1)}, "a: less: saves 0.1 s/s ()"},
		{[]Finding{of("a", "docker update --cpus 1 a", 0), of("b c", "docker update --cpus 1 'b c'", 0)},
			"a: less (docker update --cpus 1 a)\nb c: less (docker update --cpus 1 'b c')"},
		{[]Finding{of("update", "docker update --cpus 1 update", 0.1), of("b", "docker update --cpus 1 b", 0.1)},
			"2 containers (update, b): less: saves 0.1 s/s each (docker update --cpus 1 CONTAINER)"},
		{[]Finding{of("a", "docker update --cpus 1 a", 0), of("b", "docker update --cpus 2 b", 0)},
			"a: less (docker update --cpus 1 a)\nb: less (docker update --cpus 2 b)"},
		{[]Finding{of("a", "tare place a x", 0), of("b", "tare place b y", 0)}, "a: less (tare place a x)\nb: less (tare place b y)"},
		{[]Finding{of("a", "x", 0), of("a", "x", 0)}, "a: less (x)"},
	} {
		var got []string
		for _, p := range proposals(c.found...) {
			got = append(got, fmt.Sprintf("%s: %s (%s)", p.of(), p.text(), p.command))
		}
		if all := strings.Join(got, "\n"); all != c.want {
			t.Errorf("got\n%s\nwant\n%s", all, c.want)
		}
	}
}
