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

// Study is what the command and the page need of it. A banner names each attachment that cannot be
// read. What it would show is left out.
var Study = kit.Alone(kit.Member{
	Title: "tare startup", Judge: Judge, Page: finished, SoFar: soFar, NextOf: next,
	Note: "S1 (published study of container start-up and sharing) had 24 cores, Docker 17.06 and Linux 4.4. " +
		"Verdicts rest on shapes and ratios; times in seconds are shown only.",
})

func finished(run record.Run, attached kit.Attachments) report.Sheet {
	p := page{reading: read(run), attachments: attached}
	s := report.Sheet{Answer: p.answer(), Facts: p.facts(), Weight: p.weight()}
	for _, part := range []func() []report.Part{
		p.latencyCharts, p.knees, p.latencyTables, p.backlogCharts,
		p.applications, p.singles, p.timelines, p.breakdowns, p.waits,
	} {
		s.Parts = append(s.Parts, part()...)
	}
	s.Banners = append(report.RunBanners(p.Reading), p.unreadable...)
	return s
}

// soFar has the tables of knees and ramps.
func soFar(run record.Run) report.Sheet {
	p := page{reading: read(run)}
	return report.Sheet{
		Answer: p.answer(), Facts: p.facts(), Weight: p.weight(), Parts: append(p.knees(), p.latencyTables()...),
	}
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

// answer is what the reader came for: how long a start takes on each platform at the highest
// sustained rate, and the knee.
func (p *page) answer() string {
	workloads := p.workloads()
	if len(workloads) == 0 {
		return "Nothing was measured."
	}
	workload, withInterval := workloads[0], false
	said := func(e stats.Estimate, scale float64, unit string) string {
		withInterval = withInterval || e.Known()
		cell := report.Estimated(e, scale)
		if cell.Text += unit; cell.Detail != "" {
			cell.Text += " (" + cell.Detail + ")"
		}
		return cell.Text
	}
	var loads, knees, none []string
	times := map[string][]string{} // by load
	for _, on := range p.platforms() {
		load, at, ok := "", record.Condition{}, false
		if at, ok = p.top(workload, on); ok {
			load = fmt.Sprintf("At %s per second", startsText(rate(at)))
		} else if at, ok = p.one(workload, on); ok {
			load = "Started one at a time"
		} else if len(p.reading.ramps(workload, on)) > 0 {
			none = append(none, on)
		}
		if ok {
			took := said(p.Value(at, answer+"-mean"), perMilli, " ms")
			if times[load] == nil {
				loads = append(loads, load)
				took += " to start"
			}
			times[load] = append(times[load], took+" on "+on)
		}
		switch knee, beyond := p.knee(workload, on); {
		case knee.Value != knee.Value:
		case beyond:
			knees = append(knees, fmt.Sprintf("at least %s/s on %s", report.Rounded(knee.Value, 3), on))
		default:
			knees = append(knees, said(knee, 1, "/s")+" on "+on)
		}
	}
	var sentences []string
	for _, load := range loads {
		sentences = append(sentences, fmt.Sprintf("%s, %s takes %s.", load, workload, report.Listed(times[load])))
	}
	if len(none) > 0 {
		sentences = append(sentences, "None of the measured rates is sustained on "+report.Listed(none)+".")
	}
	if len(knees) > 0 {
		sentences = append(sentences, "The highest sustained rate is "+report.Listed(knees)+".")
	}
	switch {
	case len(sentences) == 0:
		return "No start was timed to its end."
	case !withInterval && len(loads)+len(knees) > 0:
		sentences = append(sentences, "Fewer than three blocks: no intervals.")
	}
	return strings.Join(sentences, " ")
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

// startsText writes a rate's number: "1 start", "8 starts".
func startsText(rate float64) string {
	if rate == 1 {
		return "1 start"
	}
	return number(rate) + " starts"
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
	own := ""
	if len(p.platforms()) > 1 {
		own = "start: " + includes
	}
	return kit.Facts(p.Reading, "workload: "+strings.Join(p.workloads(), ", "), own)
}

// includes says what a start consists of, which differs by platform.
const includes = "on Docker it includes the container's network and mounts; " +
	"on containerd, tare sets up the network before the start; on a runtime alone, network, root and cgroup"

// knees is the table of the highest sustained rates.
func (p *page) knees() []report.Part {
	t := report.Table{
		Title: "Highest sustained rate (knee)",
		Note:  "The knee is the highest rate at which the backlog of starts does not grow.",
		Method: fmt.Sprintf("Each block searches anew, until the highest sustained rate and the lowest other one are within %.0f %%. "+
			"The interval is over the blocks. A rate is sustained while at most %.0f %% of the arrivals pile up and no start fails. "+
			"On simulated platforms of known capacity and no delay, nine of ten searches end at 0.97 to 1.2 times the capacity.",
			100*(kneeGap-1), 100*kneeGrowth),
		Columns: []report.Column{
			{Head: "workload"}, {Head: "platform"}, {Head: "knee, starts/s", Number: true},
			{Head: "ratio to baseline", Number: true}, {Head: "blocks", Number: true, Optional: true},
		},
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
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: workloadOf(c)}, {Text: c.Platform}, at, against, {Text: fmt.Sprint(e.N)},
		})
	}
	return report.Filled(t)
}

// latencyTables are the figures at each rate, for each workload.
func (p *page) latencyTables() []report.Part {
	var parts []report.Part
	for _, w := range p.workloads() {
		for _, l := range latencies {
			parts = append(parts, report.Filled(p.latencyTable(w, l.name))...)
		}
	}
	return parts
}

// latencyTable is one of the latencies of a workload, by platform and rate.
func (p *page) latencyTable(w, latency string) report.Table {
	t := report.Table{
		Title: fmt.Sprintf("%s: time to %s, ms", w, latencyNames[latency]),
		Columns: []report.Column{
			{Head: "platform"}, {Head: "starts/s", Number: true}, {Head: "mean", Number: true},
			{Head: "p50", Number: true, Optional: true}, {Head: "p95", Number: true},
			{Head: "p99", Number: true, Optional: true}, {Head: "max", Number: true, Optional: true},
		},
	}
	switch latency {
	case answer:
		t.Columns = append(t.Columns, report.Column{Head: "tear-down, mean", Number: true},
			report.Column{Head: "failed starts", Number: true},
			report.Column{Head: "most in flight", Number: true, Optional: true}, report.Column{Head: "sustained"})
		t.Note = fmt.Sprintf("Times count from the intended moment of each start. "+
			"A rate is not sustained (past the knee) where more than %.0f %% of the arrivals pile up: their share stands beside it. "+
			"Latency then grows for as long as the load lasts: the figures describe this number of starts, not the rate.", 100*kneeGrowth)
		t.Method = "Means: geometric means of the blocks' means. Percentiles and maxima: of the starts of all blocks. " +
			"Failed starts are counted, and are in no latency. " +
			fmt.Sprintf("Tear-down ends and removes the containers after the last start, %d at a time.", makers)
	case ready:
		t.Note = "Docker's time includes one request to the engine, for the container's address."
		t.Method = "Readiness is polled. The pause is a twentieth of the time so far, so times are up to 5 % too long."
	}
	for _, on := range p.platforms() {
		for _, c := range p.reading.ramps(w, on) {
			if v := p.Value(c, latency+"-mean"); v.Value == v.Value {
				t.Rows = append(t.Rows, p.latencyRow(c, latency))
			}
		}
	}
	return t
}

// latencyNames name the ends of latencies in headings.
var latencyNames = map[string]string{
	answer: "the platform's answer", first: "the first instruction", ready: "the first served request",
}

func (p *page) latencyRow(c record.Condition, latency string) []report.Cell {
	row := []report.Cell{{Text: c.Platform}, p.rateCell(c)}
	for _, of := range []string{"-mean", "-p50", "-p95", "-p99"} {
		row = append(row, p.toned(c, report.Estimated(p.Value(c, latency+of), perMilli)))
	}
	row = append(row, p.toned(c, report.Measured(p.largest(c, latency+"-max")*perMilli)))
	if latency == answer {
		row[1].Detail = "" // the last column has it
		row = append(row, report.Estimated(p.Value(c, tearDown), perMilli), p.failures(c))
		row = append(row, report.Measured(p.Value(c, inFlight).Value), p.sustained(c))
	}
	return row
}

// toned is a cell, faint where the rate is past the knee.
func (p *page) toned(c record.Condition, cell report.Cell) report.Cell {
	if p.past(c) {
		cell.Tone = report.Faint
	}
	return cell
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

// sustained says whether the platform keeps up with a rate.
func (p *page) sustained(c record.Condition) report.Cell {
	g := p.Value(c, growth)
	switch {
	case g.Value != g.Value && !p.past(c):
		return report.Absent()
	case p.past(c):
		return report.Cell{Text: "no", Detail: fmt.Sprintf("%.0f %%", g.Value), Tone: report.Bad}
	case p.failing(c):
		return report.Cell{Text: "no", Detail: "starts failed", Tone: report.Bad}
	case p.unsure(c):
		growths := fmt.Sprintf("%.0f to %.0f %%", g.Interval.Low, g.Interval.High)
		return report.Cell{Text: "undecided", Detail: growths, Tone: report.Unsure}
	}
	return report.Cell{Text: "yes", Tone: report.Good}
}

// latencyCharts draw the time to the answer against the rate, for each workload.
func (p *page) latencyCharts() []report.Part {
	var parts []report.Part
	for _, w := range p.workloads() {
		if chart := p.latencyChart(w); len(chart.Series) > 0 && len(chart.X.Ticks) > 1 {
			parts = append(parts, chart)
		}
	}
	return parts
}

func (p *page) latencyChart(w string) report.Chart {
	chart := report.Chart{
		Title: w + ": time to the platform's answer, by rate",
		Note:  "Solid lines: p50. Dashed lines: p95. Vertical lines: knees, with their intervals.",
		X:     report.Axis{Label: "starts per second", Log: true},
		Y:     report.Axis{Label: "time to the answer", Unit: "ms", Log: true},
	}
	for _, on := range p.platforms() {
		p50 := report.Series{Name: on, Group: on}
		p95 := report.Series{Name: on + " p95", Group: on, Dashed: true}
		for _, c := range p.reading.ramps(w, on) {
			if !slices.Contains(chart.X.Ticks, rate(c)) {
				chart.X.Ticks = append(chart.X.Ticks, rate(c))
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
			chart.Series = append(chart.Series, p50, p95)
		}
		if knee, beyond := p.reading.knee(w, on); knee.Value == knee.Value && !beyond {
			m := report.Mark{X: knee.Value, Label: on + " knee", Group: on}
			if knee.Known() {
				m.Low, m.High = knee.Interval.Low, knee.Interval.High
			}
			chart.Marks = append(chart.Marks, m)
		}
	}
	slices.Sort(chart.X.Ticks)
	return chart
}

// backlogCharts draw how the backlog grows at the highest rate, for each workload.
func (p *page) backlogCharts() []report.Part {
	var parts []report.Part
	for _, w := range p.workloads() {
		chart := report.Chart{
			Title: w + ": backlog over time",
			X:     report.Axis{Label: "time since the first start", Unit: "s"},
			Y:     report.Axis{Label: "starts due and not answered"},
		}
		for _, on := range p.platforms() {
			ramps := p.reading.ramps(w, on)
			if len(ramps) == 0 {
				continue
			}
			top := ramps[len(ramps)-1]
			if line, ok := p.backlogLine(top); ok {
				chart.Series = append(chart.Series, line)
				chart.Note = fmt.Sprintf("The last block's ramp at %s per second. "+
					"Where the platform keeps up, the backlog returns to zero.", startsText(rate(top)))
			}
		}
		parts = append(parts, report.Filled(chart)...)
	}
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
		at := s.at.Seconds()
		line.Points = append(
			line.Points,
			report.Point{X: at, Y: float64(before)},
			report.Point{X: at, Y: float64(s.waiting)},
		)
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
			Title:  "Mean time to start on " + on + ", by application",
			Note:   "At the highest rate measured. A function serves no requests, so it has no time to readiness.",
			Method: "Image size: sum of the image's files. Layers: those of the archive that an engine loads.",
			Columns: []report.Column{
				{Head: "application"}, {Head: "image, MiB", Number: true}, {Head: "layers", Number: true, Optional: true},
				{Head: "starts/s", Number: true, Optional: true}, {Head: "answer, ms", Number: true},
				{Head: "first instruction, ms", Number: true}, {Head: "ready, ms", Number: true},
			},
		}
		for _, w := range workloads {
			ramps := p.reading.ramps(w, on)
			if len(ramps) == 0 {
				continue
			}
			c := ramps[len(ramps)-1]
			size, layers := math.NaN(), report.Absent()
			for _, ramp := range ramps { // where all starts at the last rate failed, its image is that of the others
				for _, trial := range p.Trials(ramp) {
					size = trial.Covariates["image_bytes"] / (1 << 20)
					layers = report.Cell{Text: fmt.Sprintf("%g", trial.Covariates["image_layers"])}
				}
			}
			row := []report.Cell{{Text: w}, report.Measured(size), layers, p.rateCell(c)}
			for _, l := range latencies {
				row = append(row, p.toned(c, report.Estimated(p.Value(c, l.name+"-mean"), perMilli)))
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
		Title: "Mean time of single starts",
		Note: "Each start begins when the one before is ready. Cold: the host's page cache was dropped before each start. " +
			"Cold / warm: ratio of the times to the answer.",
		Method: "Times count from the sending of the start. Dropping the page cache also drops the directory and inode caches.",
		Columns: []report.Column{
			{Head: "workload", Optional: true}, {Head: "platform"}, {Head: "page cache"}, {Head: "answer, ms", Number: true},
			{Head: "first instruction, ms", Number: true}, {Head: "ready, ms", Number: true},
			{Head: "cold / warm", Number: true},
		},
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
