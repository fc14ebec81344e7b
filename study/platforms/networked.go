package platforms

import (
	"tare/lab"
	"tare/platform"
	"tare/report"
)

// networked is a service in the container that decides, in the host's network and behind
// a bridge: what S2 left open, the network's part. Where the CPUs can be held, they are.
func (b *builder) networked(s subject, size Size) lab.Group {
	c := b.container()
	if !b.Causes || !s.service || b.Base.Network != "" || c.on == nil {
		return lab.Group{}
	}
	presets := b.presets(s, size, c)
	if len(presets) == 0 {
		return lab.Group{}
	}
	g := lab.Group{Workload: groupName(s, size, ofNetwork), Once: true}
	for _, network := range []platform.Network{platform.NetworkHost, platform.NetworkBridge} {
		made := b.condition(s, size, g.Workload, ofNetwork, c, presets[len(presets)-1])
		made.Setting.Network, made.Factors[factorNetwork] = network, string(network)
		made.Setting = made.Setting.Normal()
		made.Label += " network=" + string(network)
		made.ID = g.Workload + "@" + made.Label
		if err := c.on.Supports(made.Setting); err != nil {
			b.notes.Add("the network's part is left out for %s at %s: %s: %v", s.Workload.Name(), size, made.Label, err)
			return lab.Group{}
		}
		made.Baseline = network == platform.NetworkHost
		g.Conditions = append(g.Conditions, made)
	}
	return g
}

// networkPart is how much longer a container takes behind a bridge.
func (r reading) networkPart() []report.Part {
	t := report.Table{
		Title: "The network's part: time behind a bridge relative to the host's network",
		Note:  "The same container with the same CPUs, once in the host's network, as in the other tables, and once behind the platform's bridge.",
		Method: "Ratios are paired within blocks. Verdicts hold for all rows together (Bonferroni). " +
			"For the cost of one round trip, run tare latency network.",
		Columns: []report.Column{
			{Head: "program"}, {Head: "size"}, {Head: "platform"}, {Head: "bridge / host", Number: true}, {Head: "verdict"},
		},
	}
	spots := r.of(ofNetwork, "")
	decides := r.together(len(spots))
	for _, s := range spots {
		for _, c := range s.others() {
			t.Rows = append(t.Rows, []report.Cell{
				{Text: s.workload}, {Text: sizeOf(s)}, {Text: column{c.Platform, preset(c)}.label()},
				report.Estimated(r.cost(s, c), 1), decides.verdictCell(decides.cost(s, c), c),
			})
		}
	}
	return report.Filled(t)
}
