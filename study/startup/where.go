package startup

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"tare/probe/breakdown"
	"tare/probe/sched"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// The page's parts on time lines and profiles: where the time of a start goes.

// timelines are the phases of single starts, and one start of each platform.
func (p *page) timelines() []report.Part {
	conditions := p.measured(kindTrace, pathTotal)
	if len(conditions) == 0 {
		return nil
	}
	table := report.Table{
		Title: "Phases of a start on its critical path, by state, ms",
		Note: "The critical path is what the end of the start waited for, so the phases add up to the whole. " +
			"A runtime alone has no engine and no shim; its network is set up before the start. " +
			"Phases of pods follow from the kubelet's files and containerd's events, without states.",
		Method: "Starts run one at a time. Every switch and waking is recorded, which slows a start a little. " +
			"The path stays with the thread that ran, and goes to the thread that woke it. " +
			"Phases end with events of the platform's processes: the shim executed, the runtime executed, " +
			"the init forked, the runtime called to start it, the application executed.",
		Columns: []report.Column{
			{Head: "workload", Optional: true}, {Head: "platform"}, {Head: "phase"}, {Head: "time", Number: true},
			{Head: "on a CPU", Number: true}, {Head: "waiting for a CPU", Number: true, Optional: true},
			{Head: "blocked", Number: true},
		},
	}
	stacked := report.Bars{Title: "Phases of a start", Unit: "ms"}
	waiting := report.Bars{
		Title: "Waits on the critical path of a start, by cause", Unit: "ms",
		Method: "Causes follow from the kernel function in which the thread waited. " +
			"Time spent waiting for another program counts as that program's, unless it could not be followed.",
	}
	for _, c := range conditions {
		phaseBar, causeBar := report.Bar{Label: p.where(c)}, report.Bar{Label: p.where(c)}
		for _, name := range slices.Concat(podPhases, phaseNames()) {
			whole := p.Value(c, ofPhase+name)
			if !(whole.Value > 0) {
				continue
			}
			row := []report.Cell{
				{Text: workloadOf(c)}, {Text: c.Platform}, {Text: name}, report.Estimated(whole, perMilli),
			}
			for _, state := range []string{onCPU, forCPU, isBlocked} {
				row = append(row, report.Measured(p.Value(c, ofPhase+name+state).Value*perMilli))
			}
			table.Rows = append(table.Rows, row)
			phaseBar.Segments = append(phaseBar.Segments, segment(name, whole, perMilli))
		}
		for _, cause := range causes {
			if e := p.Value(c, ofCause+string(cause)); e.Value > 0 {
				causeBar.Segments = append(causeBar.Segments, segment(string(cause), e, perMilli))
			}
		}
		stacked.Rows = append(stacked.Rows, phaseBar)
		waiting.Rows = append(waiting.Rows, causeBar)
	}
	parts := []report.Part{stacked, table, waiting}
	for _, c := range conditions {
		if t, ok := p.timeline(c); ok {
			parts = append(parts, t)
		}
	}
	return parts
}

// phaseNames are those of a critical path.
func phaseNames() []string {
	names := make([]string, len(phases))
	for i, p := range phases {
		names[i] = string(p)
	}
	return names
}

// where names a condition in a row of its own.
func (p *page) where(c record.Condition) string {
	if len(p.workloads()) > 1 {
		return workloadOf(c) + " on " + c.Platform
	}
	return c.Platform
}

// measured are the conditions of a kind that have a metric.
func (p *page) measured(kind, metric string) []record.Condition {
	var of []record.Condition
	for _, c := range p.of(kind) {
		if v := p.Value(c, metric); v.Value == v.Value {
			of = append(of, c)
		}
	}
	return of
}

func segment(name string, e stats.Estimate, scale float64) report.Segment {
	s := report.Segment{Name: name, Value: math.Max(e.Value, 0) * scale}
	if e.Known() {
		s.Low, s.High = e.Interval.Low*scale, e.Interval.High*scale
	}
	return s
}

// timeline is one start: the one of median length in the last block.
func (p *page) timeline(c record.Condition) (report.Timeline, bool) {
	trials := p.Trials(c)
	if len(trials) == 0 {
		return report.Timeline{}, false
	}
	data, ok := p.attachment(trials[len(trials)-1], traceAttachment)
	if !ok {
		return report.Timeline{}, false
	}
	var one traced
	if err := json.Unmarshal(data, &one); err != nil {
		p.unreadable = append(p.unreadable, fmt.Sprintf("%s: %v", traceAttachment, err))
		return report.Timeline{}, false
	}
	t := report.Timeline{
		Title:  "Timeline of one start: " + p.where(c),
		Note:   "The critical path of one start: the one of median length in the last block.",
		Length: one.Length,
	}
	for _, phase := range one.Phases {
		t.Phases = append(t.Phases, report.Phase{Name: phase.Name, From: phase.From, To: phase.To})
	}
	lanes := map[string]int{}
	for _, s := range one.Segments {
		at, ok := lanes[s.Component]
		if !ok {
			at = len(t.Lanes)
			lanes[s.Component] = at
			t.Lanes = append(t.Lanes, report.Lane{Name: s.Component})
		}
		span := report.Span{From: s.From, To: s.To}
		switch sched.State(s.State) {
		case sched.Running:
			span.Kind, span.Label = report.Runs, "runs"
		case sched.Ready:
			span.Kind, span.Label = report.Ready, "waits for a CPU"
		default:
			span.Kind, span.Label = report.Waits, "waits for "+s.Cause
			if s.Function != "" {
				span.Label += " (" + s.Function + ")"
			}
		}
		t.Lanes[at].Spans = append(t.Lanes[at].Spans, span)
	}
	return t, true
}

// breakdowns show what the CPUs did while containers started.
func (p *page) breakdowns() []report.Part {
	conditions := p.measured(kindProfile, cpuPerStart)
	if len(conditions) == 0 {
		return nil
	}
	at := fmt.Sprintf("at %s per second", startsText(rate(conditions[0])))
	component := report.Bars{
		Title: "CPU time per start, by component, " + at, Unit: "ms",
		Note:   "The client is tare: its schedule, its checks of readiness and its probes.",
		Method: "All CPUs are sampled. Idle time and programs that take no part in the starts are left out.",
	}
	function := report.Bars{
		Title: "CPU time by kind of work, " + at, Unit: "%",
		Note:   "Unassigned: samples that match no rule.",
		Method: "Each sample is assigned by the first rule that matches a function on its stack.",
	}
	side := report.Bars{Title: "CPU time in kernel and user mode", Unit: "%"}
	table := report.Table{
		Title: "CPU time in the groups of S1, " + at,
		Note:  "S1 is the published study of container start-up. Both: memory and process start, and Go heap.",
		Columns: []report.Column{
			{Head: "workload", Optional: true}, {Head: "platform"}, {Head: "CPU time per start, ms", Number: true},
			{Head: "kernel, %", Number: true}, {Head: "memory and process start, %", Number: true},
			{Head: "Go heap, %", Number: true}, {Head: "both, %", Number: true}, {Head: "unassigned, %", Number: true},
		},
	}
	for _, c := range conditions {
		parts := report.Bar{Label: p.where(c)}
		for _, name := range components {
			if e := p.Value(c, ofComponent+string(name)); e.Value > 0 {
				parts.Segments = append(parts.Segments, segment(string(name), e, perMilli))
			}
		}
		component.Rows = append(component.Rows, parts)
		function.Rows = append(function.Rows, p.groups(c))
		side.Rows = append(side.Rows, report.Bar{Label: p.where(c), Segments: []report.Segment{
			segment("kernel", p.Value(c, kernelShare), 1), segment("user", p.Value(c, userShare), 1),
		}})
		row := []report.Cell{
			{Text: workloadOf(c)},
			{Text: c.Platform},
			report.Estimated(p.Value(c, cpuPerStart), perMilli),
		}
		for _, share := range []string{kernelShare, memoryShare, heapShare, bothShare, unassignedShare} {
			row = append(row, report.Estimated(p.Value(c, share), 1))
		}
		table.Rows = append(table.Rows, row)
	}
	parts := []report.Part{component, function, side, table}
	for _, c := range conditions {
		merged, err := p.merged(c, cpuProfile, p.attachments)
		if err != nil {
			p.unreadable = append(p.unreadable, err.Error())
		}
		if merged == nil {
			continue
		}
		parts = append(parts, report.Flame{
			Title: "Flame graph of CPU time: " + p.where(c) + ", " + at, Unit: "ms",
			Note: "Callees stand above their callers, kernel functions above the user functions that entered the kernel. " +
				"Of C programs without frame pointers only the innermost function is known.",
			Method: "CPU time of all blocks together.",
			Root:   flame(merged, len(merged.SampleType)-1, 1e-6),
		})
	}
	return parts
}

// groups is a condition's bar of groups.
func (p *page) groups(c record.Condition) report.Bar {
	bar := report.Bar{Label: p.where(c)}
	for _, g := range breakdown.Groups {
		e := p.Value(c, ofGroup+string(g))
		if !(e.Value > 0) {
			continue
		}
		s := segment(string(g), e, 1)
		s.Faint = g == breakdown.Unassigned
		bar.Segments = append(bar.Segments, s)
	}
	return bar
}

// waits show what blocked the programs of starts under load.
func (p *page) waits() []report.Part {
	conditions := p.measured(kindBlocked, blockedPerStart)
	if len(conditions) == 0 {
		return nil
	}
	at := fmt.Sprintf("at %s per second", startsText(rate(conditions[0])))
	bars := report.Bars{
		Title: "Waits per start, by cause, " + at, Unit: "ms",
		Note: "The sum over all threads that worked on starts, which is longer than a start takes. A CPU: ready to run, and waiting for one.",
		Method: "Threads that wait for work (in epoll, a futex, asleep) are left out. " +
			"The waits of goroutines are therefore left out too.",
	}
	who := report.Bars{Title: "Blocked time per start, by component, " + at, Unit: "ms"}
	function := report.Bars{Title: "Blocked time by kind of work, " + at, Unit: "%"}
	for _, c := range conditions {
		bar := report.Bar{Label: p.where(c)}
		if e := p.Value(c, forCPUPerStart); e.Value > 0 {
			bar.Segments = append(bar.Segments, segment("a CPU", e, perMilli))
		}
		for _, cause := range causes {
			if e := p.Value(c, ofCause+string(cause)); e.Value > 0 {
				bar.Segments = append(bar.Segments, segment(string(cause), e, perMilli))
			}
		}
		bars.Rows = append(bars.Rows, bar)
		parts := report.Bar{Label: p.where(c)}
		for _, name := range components {
			if e := p.Value(c, ofComponent+string(name)); e.Value > 0 {
				parts.Segments = append(parts.Segments, segment(string(name), e, perMilli))
			}
		}
		who.Rows = append(who.Rows, parts)
		function.Rows = append(function.Rows, p.groups(c))
	}
	return []report.Part{bars, who, function}
}
