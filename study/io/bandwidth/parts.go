package bandwidth

import (
	"fmt"
	"slices"
	"strings"

	"tare/claim"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/io/place"
)

// giga turns bytes a second into GB/s.
const giga = 1e-9

// Answer is what a run found, in a sentence.
func Answer(run record.Run) string {
	r := read(run).together(len(kernels) + 1) // each, and all of them
	spots := r.decisive()
	var told []string
	measured := false
	for _, kernel := range kernels {
		ratio := r.pooled(spots, spot.contained, kernel)
		measured = measured || ratio.Value == ratio.Value
		if ratio.Known() {
			told = append(told, kernel+" "+report.Said(lost(ratio), 1)+" %")
		}
	}
	switch {
	case measured && len(told) == 0:
		return "What a container loses of memory bandwidth cannot be told yet: an interval takes three " + place.Repeats(run) + "."
	case len(told) > 0:
		text := "Beyond the caches a container loses of memory bandwidth: " + strings.Join(told, ", ") + "."
		if all := r.pooled(spots, spot.contained, kernels...); within(all, claim.Threshold(judged, "smallest effect")) {
			text += " That is as good as nothing."
		}
		return text
	case len(r.spots) > 0 && len(spots) == 0 && len(r.shown()) > 0:
		return "Every array was held by caches, or its processes took turns: nothing was learnt of memory's bandwidth."
	}
	return "Nothing was measured."
}

// shown are the spots that have a figure.
func (r reading) shown() []spot {
	return slices.DeleteFunc(slices.Clone(r.spots), func(s spot) bool {
		v := r.Value(s.base, kernels[0])
		return v.Value != v.Value
	})
}

// Parts are the tables and charts of a run.
func Parts(run record.Run) []report.Part {
	r := read(run)
	if len(r.shown()) == 0 {
		return nil
	}
	parts := []report.Part{r.rates()}
	parts = append(parts, r.sizes()...)
	parts = append(parts, r.published()...)
	parts = append(parts, r.peers()...)
	parts = append(parts, r.iterations()...)
	return append(parts, place.ControlPart(r.controls())...)
}

// controls are volume against bind mount in every cell, by every kernel.
func (r reading) controls() []place.Control {
	var groups []place.Conditions
	for _, s := range r.spots {
		groups = append(groups, s.Conditions)
	}
	return place.Controls(r.Reading, groups, func(record.Condition) []string { return kernels })
}

// labels are those of the containers' conditions, over all cells, each once.
func (r reading) labels() []string {
	var all []string
	for _, s := range r.spots {
		for _, c := range s.contained() {
			if !slices.Contains(all, c.Label) {
				all = append(all, c.Label)
			}
		}
	}
	return all
}

// labelled is a spot's condition of that label.
func (s spot) labelled(label string) (record.Condition, bool) {
	i := slices.IndexFunc(s.All, func(c record.Condition) bool { return c.Label == label && c.ID != s.base.ID })
	if i < 0 {
		return record.Condition{}, false
	}
	return s.All[i], true
}

// where says what a spot's figures are of.
func (r reading) where(s spot) string {
	switch {
	case !s.beyond && s.told:
		return "caches"
	case !s.beyond:
		return "perhaps caches"
	case r.crowded(s):
		return "memory, in turns"
	}
	return "memory"
}

// rates is the table of all cells and kernels.
func (r reading) rates() report.Part {
	labels := r.labels()
	t := report.Table{
		Title: "Memory bandwidth, best iteration",
		Note: "Bytes that a kernel names over its best iteration, the first left out, of all processes together; and what the containers lose of bare metal's, in percent (below zero: gain), paired within blocks. " +
			"A cell is elements of each of three arrays of 8 bytes, over all processes, x processes. In caches: an array is smaller than four times the caches that the processes reach, so that the benchmark's own rule does not take it for memory's.",
		Columns: []report.Column{{Head: "cell"}, {Head: "in"}, {Head: "kernel"}, {Head: "bare, GB/s", Number: true}},
	}
	for _, label := range labels {
		t.Columns = append(t.Columns, report.Column{Head: label + ", % lost", Number: true})
	}
	for _, s := range r.shown() {
		for _, kernel := range kernels {
			row := []report.Cell{{Text: s.text()}, {Text: r.where(s)}, {Text: kernel}, report.Estimated(r.Value(s.base, kernel), giga)}
			if !s.beyond {
				row[1].Tone = report.Faint
			}
			for _, label := range labels {
				cell := report.Absent()
				if c, ok := s.labelled(label); ok {
					cell = report.Estimated(lost(r.against(s.base, c, kernel)), 1)
				}
				row = append(row, cell)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// sizes is the chart of bandwidth over size, where there are several.
func (r reading) sizes() []report.Part {
	chart := report.Chart{
		Title: "Bandwidth of " + decider + " against the arrays' size",
		Note:  "Bare metal, and dashed the last of the containers' storages. Hollow: in caches.",
		X:     report.Axis{Label: "elements", Unit: "M", Log: true}, Y: report.Axis{Label: "bandwidth", Unit: "GB/s"},
	}
	var counts []int
	for _, s := range r.shown() {
		if at := float64(s.elements) / 1e6; !slices.Contains(chart.X.Ticks, at) {
			chart.X.Ticks = append(chart.X.Ticks, at)
		}
		if !slices.Contains(counts, s.processes) {
			counts = append(counts, s.processes)
		}
	}
	if len(chart.X.Ticks) < 2 {
		return nil
	}
	slices.Sort(counts)
	labels := r.labels()
	for _, n := range counts {
		bare := report.Series{Name: report.Counted(n, "process") + ", bare", Group: report.Counted(n, "process")}
		contained := report.Series{Name: report.Counted(n, "process") + ", container", Group: report.Counted(n, "process"), Dashed: true}
		if len(labels) > 0 {
			contained.Name = report.Counted(n, "process") + ", " + labels[len(labels)-1]
		}
		for _, s := range r.shown() {
			if s.processes != n {
				continue
			}
			bare.Points = append(bare.Points, r.point(s, s.base))
			if len(labels) == 0 {
				continue
			}
			if c, ok := s.labelled(labels[len(labels)-1]); ok {
				if p := r.point(s, c); p.Y == p.Y {
					contained.Points = append(contained.Points, p)
				}
			}
		}
		chart.Series = append(chart.Series, bare)
		if len(contained.Points) > 0 {
			chart.Series = append(chart.Series, contained)
		}
	}
	return []report.Part{chart}
}

func (r reading) point(s spot, c record.Condition) report.Point {
	v := r.Value(c, decider)
	p := report.Point{X: float64(s.elements) / 1e6, Y: v.Value * giga, Past: !s.beyond}
	if v.Known() {
		p.Low, p.High = v.Interval.Low*giga, v.Interval.High*giga
	}
	return p
}

// published sets S5's figures beside ours.
func (r reading) published() []report.Part {
	of, err := claim.Lookup(judged)
	if err != nil {
		return nil
	}
	spots := slices.DeleteFunc(r.decisive(), func(s spot) bool { return s.elements != publishedCell })
	if len(spots) == 0 {
		return nil
	}
	t := report.Table{
		Title:   "What a container loses at " + millions(publishedCell) + " elements, percent",
		Note:    "The geometric mean over " + cellsText(spots) + ", paired within blocks. S5 published one range for all kernels, from five repetitions, one platform after the other.",
		Columns: []report.Column{{Head: "data in"}, {Head: "S5", Number: true}},
	}
	for _, kernel := range kernels {
		t.Columns = append(t.Columns, report.Column{Head: kernel, Number: true, Optional: true})
	}
	t.Columns = append(t.Columns, report.Column{Head: "all four", Number: true})
	for _, storage := range r.storages() {
		theirs := report.Absent()
		if f, ok := of.Figure("overhead, " + storageText(storage) + ", " + millions(publishedCell) + " elements"); ok {
			theirs = report.Cell{Text: f.Text()}
		}
		row := []report.Cell{{Text: storageText(storage)}, theirs}
		for _, kernel := range kernels {
			row = append(row, report.Estimated(lost(r.pooled(spots, stored(storage), kernel)), 1))
		}
		t.Rows = append(t.Rows, append(row, report.Estimated(lost(r.pooled(spots, stored(storage), kernels...)), 1)))
	}
	return report.Filled(t)
}

// storageText names a storage as S5 does.
func storageText(storage string) string {
	if storage == string(platform.StorageBind) {
		return "bind mount"
	}
	return storage
}

// peerEffect is the difference from the peer that is looked for, in percent.
const peerEffect = 3

// peers sets the program beside the peer.
func (r reading) peers() []report.Part {
	t := report.Table{
		Title: "Stream against " + peerName + ", on bare metal",
		Note: fmt.Sprintf("Both move the same arrays in the same blocks: bytes over the time of all iterations, since that is the one figure that %s gives. Equivalent: the whole interval within %d %%. "+
			"Its threads share one process and keep to a CPU each; our processes are MPI's, and the kernel places them.", peerName, peerEffect),
		Columns: []report.Column{{Head: "cell"}, {Head: "kernel"}, {Head: "stream, GB/s", Number: true}, {Head: peerName + ", GB/s", Number: true}, {Head: "ratio", Number: true}, {Head: "verdict"}},
	}
	compared := 0
	for _, s := range r.spots {
		if peer, ok := s.peer(); ok {
			compared += len(peer.Metrics)
		}
	}
	decides := r.together(compared)
	for _, s := range r.spots {
		peer, ok := s.peer()
		if !ok {
			continue
		}
		for _, m := range peer.Metrics {
			ratio := r.against(peer, s.base, m.Name)
			if ratio.Value != ratio.Value {
				continue
			}
			t.Rows = append(t.Rows, []report.Cell{{Text: s.text()}, {Text: strings.TrimSuffix(m.Name, average)},
				report.Estimated(r.Value(s.base, m.Name), giga), report.Estimated(r.Value(peer, m.Name), giga), report.Estimated(ratio, 1), besidePeer(decides.against(peer, s.base, m.Name))})
		}
	}
	return report.Filled(t)
}

// besidePeer is a verdict on the ratio of our rate to the peer's.
func besidePeer(ratio stats.Estimate) report.Cell {
	switch {
	case within(ratio, peerEffect):
		return report.Cell{Text: "equivalent", Tone: report.Good}
	case ratio.Known() && ratio.Interval.Low > 1:
		return report.Cell{Text: "faster", Tone: report.Good}
	case ratio.Known() && ratio.Interval.High < 1-peerEffect/100.0:
		return report.Cell{Text: "slower", Tone: report.Bad}
	case ratio.Known() && ratio.Interval.Low >= 1-peerEffect/100.0:
		return report.Cell{Text: "equivalent or faster", Tone: report.Good}
	}
	return report.Cell{Text: "inconclusive", Tone: report.Faint}
}

// iterations sets what all iterations have beside the best one.
func (r reading) iterations() []report.Part {
	t := report.Table{
		Title: "All iterations beside the best one",
		Note: "On bare metal and in the containers together: bytes over the time of all iterations but the first, in GB/s, and what the containers lose of that. The best iteration leaves out what disturbs the others; " +
			"a program has them all.",
		Columns: []report.Column{{Head: "cell"}, {Head: "kernel"}, {Head: "bare, best", Number: true}, {Head: "bare, average", Number: true}, {Head: "containers lose of the average, %", Number: true}},
	}
	for _, s := range r.shown() {
		for _, kernel := range kernels {
			whole := r.Value(s.base, kernel+average)
			if whole.Value != whole.Value {
				continue
			}
			t.Rows = append(t.Rows, []report.Cell{{Text: s.text()}, {Text: kernel}, report.Estimated(r.Value(s.base, kernel), giga), report.Estimated(whole, giga),
				report.Estimated(lost(r.pooled([]spot{s}, spot.contained, kernel+average)), 1)})
		}
	}
	return report.Filled(t)
}
