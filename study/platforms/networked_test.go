package platforms

import (
	"math"
	"strings"
	"testing"

	"tare/record"
	"tare/report"
)

// A service is measured behind a bridge too, and the page has what that adds.
func TestTheNetworksPart(t *testing.T) {
	o := options(onPlatforms("docker"), ofWorkloads("wordpress", "ffmpeg"), ofSizes(2), func(o *Options) { o.Causes = true })
	bridged := func(c record.Condition) bool { return c.Factors[factorNetwork] == "bridge" }
	run := measured(designed(t, o), world(alike).by(1.2, bridged))
	parts := read(run).networkPart()
	if len(parts) != 1 {
		t.Fatalf("%d tables, want one", len(parts))
	}
	table := parts[0].(report.Table)
	if got := cellOf(t, table, 3, "wordpress"); math.Abs(got-1.2) > 0.01 || len(table.Rows) != 1 {
		t.Errorf("behind a bridge it takes %g times, in %d rows", got, len(table.Rows))
	}
	for name, change := range map[string]func(*Options){
		"a network of the user's": func(o *Options) { o.Base.Network = "bridge" },
		"no causes":               func(o *Options) { o.Causes = false },
		"no service":              func(o *Options) { o.Subjects = subjectsOf("ffmpeg") },
		"no container":            func(o *Options) { o.Platforms = []string{"vm:kvm/bare"} },
	} {
		other := o
		change(&other)
		for _, g := range designed(t, other).Groups {
			if strings.HasSuffix(g.Workload, ofNetwork) {
				t.Errorf("%s: %s is measured", name, g.Workload)
			}
		}
	}
}
