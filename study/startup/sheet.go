package startup

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/kit"
)

// Study is what the command and the page need of it. Attachments that cannot be read are told
// as a banner, and what they would show is left out.
var Study = kit.Alone(kit.Member{
	Title: "tare startup", Judge: Judge, Page: finished, SoFar: soFar, NextOf: next,
	Note: "S1 had 24 cores, Docker 17.06 and Linux 4.4; seconds are shown and not judged, shapes are.",
})

func finished(run record.Run, attached kit.Attachments) report.Sheet {
	p := page{reading: read(run), attachments: attached}
	s := report.Sheet{Answer: p.answer(), Facts: p.facts(), Weight: p.weight()}
	for _, part := range []func() []report.Part{
		p.knees, p.ramps, p.applications, p.singles, p.timelines, p.breakdowns, p.waits,
	} {
		s.Parts = append(s.Parts, part()...)
	}
	s.Banners = append(report.RunBanners(p.Reading), p.unreadable...)
	return s
}

// soFar has the tables of knees and ramps.
func soFar(run record.Run) report.Sheet {
	p := page{reading: read(run)}
	return report.Sheet{Answer: p.answer(), Facts: p.facts(), Weight: p.weight(), Parts: append(p.knees(), p.ramps()...)}
}

// page is a sheet being composed.
type page struct {
	reading
	attachments kit.Attachments
	unreadable  []string
}

// attachment reads one, and notes where it cannot be read.
func (p *page) attachment(t record.Trial, name string) ([]byte, bool) {
	data, err := p.attachments.Of(t, name)
	if err != nil {
		p.unreadable = append(p.unreadable, err.Error())
	}
	return data, data != nil
}

// answer is the sentence that the reader came for: per platform the knee, and a
// start's time at the highest rate that is kept up with.
func (p *page) answer() string {
	workloads, platforms := p.workloads(), p.platforms()
	if len(workloads) == 0 {
		return "Nothing was measured."
	}
	workload := workloads[0]
	var told []string
	for _, on := range platforms {
		var parts []string
		if knee, beyond := p.knee(workload, on); knee.Value == knee.Value {
			if beyond {
				parts = append(parts, fmt.Sprintf("keeps up with %.3g starts a second and more", knee.Value))
			} else {
				parts = append(parts, "keeps up with "+report.Said(knee, 1)+" starts a second")
			}
		}
		if top, ok := p.top(workload, on); ok {
			parts = append(parts, fmt.Sprintf("answers a start in %s ms at %g/s", report.Said(p.Value(top, answer+"-mean"), perMilli), rate(top)))
		} else if s, ok := p.one(workload, on); ok {
			parts = append(parts, fmt.Sprintf("answers a single start in %s ms", report.Said(p.Value(s, answer+"-mean"), perMilli)))
		} else if len(p.reading.ramps(workload, on)) > 0 {
			parts = append(parts, "keeps up with none of the rates")
		}
		if len(parts) > 0 {
			told = append(told, on+" "+strings.Join(parts, " and "))
		}
	}
	if len(told) == 0 {
		return "No start was timed to its end."
	}
	return workload + ": " + strings.Join(told, "; ") + "."
}

// top is the ramp at the highest rate that is kept up with.
func (p *page) top(workload, on string) (top record.Condition, ok bool) {
	for _, c := range p.reading.ramps(workload, on) {
		if v := p.Value(c, answer+"-mean"); v.Value == v.Value && !p.past(c) && !p.failing(c) {
			top, ok = c, true
		}
	}
	return top, ok
}

// one is the condition of warm single starts.
func (p *page) one(workload, on string) (record.Condition, bool) {
	for _, c := range p.of(kindSingle) {
		if workloadOf(c) == workload && c.Platform == on && c.Factors[factorCache] != "cold" {
			return c, true
		}
	}
	return record.Condition{}, false
}

func (p *page) facts() []string {
	return kit.Facts(p.Reading, "workload: "+strings.Join(p.workloads(), ", "))
}

// knees is the table of the highest rates.
func (p *page) knees() []report.Part {
	t := report.Table{
		Title: "The knee: the highest rate at which the backlog does not grow",
		Note: fmt.Sprintf("Searched anew in each block, until the highest rate that is kept up with and the lowest that is not are within %.0f %%; the interval is over the blocks. A rate is kept up with while at most %.0f %% of the arrivals pile up "+
			"and no start fails; on simulated platforms of known capacity, without a delay of their own, nine searches of ten end at 0.97 to 1.2 times it. %s", 100*(kneeGap-1), 100*kneeGrowth, holds),
		Columns: []report.Column{{Head: "workload"}, {Head: "platform"}, {Head: "starts a second", Number: true}, {Head: "against the baseline", Number: true}, {Head: "blocks", Number: true, Optional: true}},
	}
	for _, c := range p.of(kindKnee) {
		e, beyond := p.reading.knee(workloadOf(c), c.Platform)
		if e.Value != e.Value {
			continue
		}
		at := report.Estimated(e, 1)
		if beyond {
			at.Text = "more than " + at.Text
		}
		against := report.Cell{Text: "baseline", Tone: report.Faint}
		if row := p.Row(c, kneeRate); !row.Baseline {
			against = report.Estimated(row.Ratio, 1)
			against.Text += " times"
		}
		t.Rows = append(t.Rows, []report.Cell{{Text: workloadOf(c)}, {Text: c.Platform}, at, against, {Text: fmt.Sprint(e.N)}})
	}
	return report.Filled(t)
}

// holds says what a start has in it, which is not the same everywhere.
const holds = "Docker's start makes the container's network and mounts; for containerd tare lays the network before the start, for a runtime alone network, root and cgroup, as they have none of their own."

// ramps are the figures at each rate, and their pictures.
func (p *page) ramps() []report.Part {
	var parts []report.Part
	for _, w := range p.workloads() {
		parts = append(parts, p.rampTables(w)...)
		parts = append(parts, p.rampCharts(w)...)
	}
	return parts
}

func (p *page) rampTables(w string) []report.Part {
	var parts []report.Part
	for _, l := range latencies {
		t := report.Table{
			Title: fmt.Sprintf("%s: time to %s, ms", w, map[string]string{answer: "the answer", first: "the first instruction", ready: "the first served request"}[l.name]),
			Columns: []report.Column{{Head: "platform"}, {Head: "starts/s", Number: true}, {Head: "mean", Number: true}, {Head: "p50", Number: true, Optional: true},
				{Head: "p95", Number: true}, {Head: "p99", Number: true, Optional: true}, {Head: "max", Number: true, Optional: true}},
		}
		if l.name == answer {
			t.Columns = append(t.Columns, report.Column{Head: "failed", Number: true}, report.Column{Head: "in flight", Number: true, Optional: true}, report.Column{Head: "kept up with"})
			t.Note = "From the intended moment of each start. Means are of the blocks' means (geometric), percentiles and max of all blocks' starts together. " +
				"Past the knee latency grows for as long as one goes on starting, so those figures describe this number of starts and no rate. Failed starts are counted, and in no latency. " + holds
		}
		if l.name == ready {
			t.Note = "Docker's has one request to the engine in it, by which the container's address is learnt. A service is asked again after a twentieth of the time so far, so it is up to 5 % late."
		}
		for _, on := range p.platforms() {
			for _, c := range p.reading.ramps(w, on) {
				if v := p.Value(c, l.name+"-mean"); v.Value != v.Value {
					continue
				}
				row := []report.Cell{{Text: on}, p.rateCell(c)}
				for _, of := range []string{"-mean", "-p50", "-p95", "-p99"} {
					cell := report.Estimated(p.Value(c, l.name+of), perMilli)
					if p.past(c) {
						cell.Tone = report.Faint
					}
					row = append(row, cell)
				}
				most := report.Measured(p.largest(c, l.name+"-max") * perMilli)
				if p.past(c) {
					most.Tone = report.Faint
				}
				row = append(row, most)
				if l.name == answer {
					row = append(row, p.failures(c), report.Measured(p.Value(c, inFlight).Value), p.keptUp(c))
				}
				t.Rows = append(t.Rows, row)
			}
		}
		parts = append(parts, report.Filled(t)...)
	}
	return parts
}

// rateCell is a rate, and whether it is past the knee.
func (p *page) rateCell(c record.Condition) report.Cell {
	cell := report.Cell{Text: number(rate(c))}
	if p.past(c) {
		cell.Detail = "past the knee"
	}
	return cell
}

// largest is the largest of a metric's samples over a condition's trials.
func (p *page) largest(c record.Condition, metric string) float64 {
	most := math.NaN()
	for _, t := range p.Trials(c) {
		for _, s := range t.Samples {
			if s.Metric == metric && !(s.Value <= most) {
				most = s.Value
			}
		}
	}
	return most
}

// failures is the number of failed starts of all trials of a condition.
func (p *page) failures(c record.Condition) report.Cell {
	n, of := 0.0, 0
	for _, t := range p.Trials(c) {
		for _, s := range t.Samples {
			if s.Metric == failed {
				n += s.Value
			}
		}
		of++
	}
	cell := report.Cell{Text: fmt.Sprintf("%g", n)}
	if n > 0 {
		cell.Tone = report.Bad
		cell.Detail = fmt.Sprintf("in %d trials", of)
	}
	return cell
}

func (p *page) keptUp(c record.Condition) report.Cell {
	g := p.Value(c, growth)
	switch {
	case g.Value != g.Value && !p.past(c):
		return report.Absent()
	case p.past(c):
		cell := report.Cell{Text: "past the knee", Tone: report.Bad}
		cell.Detail = fmt.Sprintf("%.0f %% pile up", g.Value)
		return cell
	case p.failing(c):
		return report.Cell{Text: "starts failed", Tone: report.Bad}
	case p.unsure(c):
		return report.Cell{Text: "unsure", Detail: fmt.Sprintf("%.0f to %.0f %% pile up", g.Interval.Low, g.Interval.High)}
	}
	return report.Cell{Text: "yes", Tone: report.Good}
}

func (p *page) rampCharts(w string) []report.Part {
	latency := report.Chart{
		Title: w + ": time to the answer against the rate",
		Note:  "Lines: p50, dashed p95; hollow points are past the knee; upright lines are the knees with their intervals.",
		X:     report.Axis{Label: "starts a second", Log: true}, Y: report.Axis{Label: "time to the answer", Unit: "ms", Log: true},
	}
	backlog := report.Chart{
		Title: w + ": starts due and not answered",
		X:     report.Axis{Label: "time since the first start", Unit: "s"}, Y: report.Axis{Label: "starts"},
	}
	for _, on := range p.platforms() {
		p50 := report.Series{Name: on, Group: on}
		p95 := report.Series{Name: on + " p95", Group: on, Dashed: true}
		ramps := p.reading.ramps(w, on)
		for _, c := range ramps {
			if !slices.Contains(latency.X.Ticks, rate(c)) {
				latency.X.Ticks = append(latency.X.Ticks, rate(c))
			}
			for _, line := range []struct {
				to *report.Series
				of string
			}{{&p50, answer + "-p50"}, {&p95, answer + "-p95"}} {
				if v := p.Value(c, line.of); v.Value == v.Value {
					line.to.Points = append(line.to.Points, point(rate(c), v, perMilli, p.past(c)))
				}
			}
		}
		if len(p50.Points) > 0 {
			latency.Series = append(latency.Series, p50, p95)
		}
		if knee, beyond := p.reading.knee(w, on); knee.Value == knee.Value && !beyond {
			m := report.Mark{X: knee.Value, Label: on + " knee", Group: on}
			if knee.Known() {
				m.Low, m.High = knee.Interval.Low, knee.Interval.High
			}
			latency.Marks = append(latency.Marks, m)
		}
		if len(ramps) > 0 {
			top := ramps[len(ramps)-1]
			if line, ok := p.backlogLine(top); ok {
				backlog.Series = append(backlog.Series, line)
				backlog.Note = fmt.Sprintf("One ramp at %g a second on each platform, that of the last block. What is due and not answered comes back to nothing where the platform keeps up.", rate(top))
			}
		}
	}
	slices.Sort(latency.X.Ticks)
	var parts []report.Part
	if len(latency.Series) > 0 && len(latency.X.Ticks) > 1 {
		parts = append(parts, latency)
	}
	parts = append(parts, report.Filled(backlog)...)
	return parts
}

func point(x float64, e stats.Estimate, scale float64, past bool) report.Point {
	p := report.At(x, e, scale)
	p.Past = past
	return p
}

// backlogLine is the backlog over time of a condition's last trial.
func (p *page) backlogLine(c record.Condition) (report.Series, bool) {
	trials := p.Trials(c)
	line := report.Series{Name: c.Platform, Group: c.Platform}
	if len(trials) == 0 {
		return line, false
	}
	data, ok := p.attachment(trials[len(trials)-1], startsAttachment)
	if !ok {
		return line, false
	}
	timings, err := decodeTimings(data)
	if err != nil {
		p.unreadable = append(p.unreadable, err.Error())
		return line, false
	}
	before := 0
	for _, s := range backlogOf(timings) {
		// A staircase: the old number until now, the new one from now.
		line.Points = append(line.Points, report.Point{X: s.at.Seconds(), Y: float64(before)}, report.Point{X: s.at.Seconds(), Y: float64(s.waiting)})
		before = s.waiting
	}
	return line, true
}

// applications sets the workloads side by side at the highest common rate.
func (p *page) applications() []report.Part {
	workloads := p.workloads()
	if len(workloads) < 2 {
		return nil
	}
	var parts []report.Part
	for _, on := range p.platforms() {
		t := report.Table{
			Title: "Applications on " + on,
			Note:  "At the highest rate that was asked; means. Size is the sum of the image's files, layers those of the archive that an engine loads. A function is no service: it has no readiness but its first instruction.",
			Columns: []report.Column{{Head: "application"}, {Head: "image, MiB", Number: true}, {Head: "layers", Number: true, Optional: true}, {Head: "starts/s", Number: true, Optional: true},
				{Head: "answer, ms", Number: true}, {Head: "first instruction", Number: true}, {Head: "ready", Number: true}},
		}
		for _, w := range workloads {
			ramps := p.reading.ramps(w, on)
			if len(ramps) == 0 {
				continue
			}
			c := ramps[len(ramps)-1]
			size, layers := math.NaN(), math.NaN()
			for _, trial := range p.Trials(c) {
				size, layers = trial.Covariates["image_bytes"]/(1<<20), trial.Covariates["image_layers"]
			}
			row := []report.Cell{{Text: w}, report.Measured(size), {Text: fmt.Sprintf("%g", layers)}, p.rateCell(c)}
			for _, l := range latencies {
				cell := report.Estimated(p.Value(c, l.name+"-mean"), perMilli)
				if p.past(c) {
					cell.Tone = report.Faint
				}
				row = append(row, cell)
			}
			t.Rows = append(t.Rows, row)
		}
		if len(t.Rows) > 1 {
			parts = append(parts, t)
		}
	}
	return parts
}

// singles are the single starts, warm and cold.
func (p *page) singles() []report.Part {
	t := report.Table{
		Title: "One start at a time",
		Note:  "Means from the sending; a start begins when the one before is ready. " + holds + " Cold: the host's page cache, with its directory and inode caches, was dropped before each start.",
		Columns: []report.Column{{Head: "workload", Optional: true}, {Head: "platform"}, {Head: "page cache"}, {Head: "answer, ms", Number: true},
			{Head: "first instruction", Number: true}, {Head: "ready", Number: true}, {Head: "cold / warm", Number: true}},
	}
	for _, c := range p.of(kindSingle) {
		v := p.Value(c, answer+"-mean")
		if v.Value != v.Value {
			continue
		}
		row := []report.Cell{{Text: workloadOf(c)}, {Text: c.Platform}, {Text: c.Factors[factorCache]}}
		for _, l := range latencies {
			row = append(row, report.Estimated(p.Value(c, l.name+"-mean"), perMilli))
		}
		against := report.Absent()
		if c.Factors[factorCache] == "cold" {
			against = report.Estimated(p.Row(c, answer+"-mean").Ratio, 1)
		}
		t.Rows = append(t.Rows, append(row, against))
	}
	return report.Filled(t)
}
