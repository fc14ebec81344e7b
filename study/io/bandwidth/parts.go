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

// Answer is the headline: what containers lose of memory bandwidth, in all and by kernel.
func Answer(run record.Run) string {
	r := read(run).together(len(kernels) + 1) // each, and all of them
	spots := r.decisive()
	var byKernel []string
	measured := false
	for _, kernel := range kernels {
		ratio := r.pooled(spots, spot.contained, kernel)
		measured = measured || ratio.Value == ratio.Value
		if ratio.Known() {
			byKernel = append(byKernel, kernel+" "+place.Percent(lost(ratio), 1))
		}
	}
	switch {
	case measured && len(byKernel) == 0:
		return place.Unknown("How much memory bandwidth containers lose", run)
	case len(byKernel) > 0:
		return lossOf(r.pooled(spots, spot.contained, kernels...)) + "Loss by kernel: " + strings.Join(byKernel, ", ") + "."
	case len(r.spots) > 0 && len(spots) == 0 && len(r.shown()) > 0:
		return "No cell measured memory: every array fits into the caches, or has more processes than CPUs."
	}
	return "Nothing was measured."
}

// lossOf is a sentence on the loss over all kernels; empty where it has no interval.
func lossOf(ratio stats.Estimate) string {
	percent := claim.Threshold(judged, "smallest effect")
	loss, gain := place.Percent(lost(ratio), 1), ratio.Value > 1
	switch {
	case !ratio.Known():
		return ""
	case within(ratio, percent) && gain:
		return fmt.Sprintf("Containers reach bare metal's memory bandwidth within %g %%. ", percent)
	case within(ratio, percent):
		return fmt.Sprintf("Containers reach bare metal's memory bandwidth within %g %%: they lose %s. ", percent, loss)
	case ratio.Interval.High < 1:
		return "Containers lose " + loss + " of bare metal's memory bandwidth. "
	case ratio.Interval.Low > 1:
		return "Containers have more memory bandwidth than bare metal. "
	}
	return "Containers show no significant loss of memory bandwidth: " + loss + ". "
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
	parts := append(r.sizes(), r.rates())
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
	case !s.beyond && s.reported:
		return "caches"
	case !s.beyond:
		return "perhaps caches"
	case r.crowded(s):
		return "memory, CPUs shared"
	}
	return "memory"
}

// rates is the table of all cells and kernels.
func (r reading) rates() report.Part {
	labels := r.labels()
	t := report.Table{
		Title: "Memory bandwidth, and loss in containers",
		Note: "A cell is elements x processes. A loss is in percent of bare metal's bandwidth; a negative loss is a gain. " +
			"Rows with arrays in caches do not measure memory.",
		Method: "Bandwidth: the bytes that a kernel moves over the time of its best iteration, all processes together. " +
			"The first iteration does not count. Losses are paired within blocks. " +
			"Elements: of each of three arrays of 8 bytes, over all processes. " +
			"Caches: an array is smaller than four times the caches that the processes reach, which the benchmark's own rule excludes.",
		Columns: []report.Column{{Head: "cell"}, {Head: "arrays in"}, {Head: "kernel"}, {Head: "bare, GB/s", Number: true}},
	}
	for _, label := range labels {
		t.Columns = append(t.Columns, report.Column{Head: label + ", loss %", Number: true})
	}
	for _, s := range r.shown() {
		for _, kernel := range kernels {
			row := []report.Cell{
				{Text: s.text()}, {Text: r.where(s)}, {Text: kernel}, report.Estimated(r.Value(s.base, kernel), giga),
			}
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
		Title: "Bandwidth of " + decider + ", by array size",
		Note:  "Solid: bare metal. Dashed: the container. Hollow: arrays that fit into the caches.",
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
		group := report.Counted(n, "process")
		bare := report.Series{Name: group + ", bare", Group: group}
		contained := report.Series{Group: group, Dashed: true}
		if len(labels) > 0 {
			contained.Name = group + ", " + labels[len(labels)-1]
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

// published compares S5's figures with ours.
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
		Title: "Loss of bandwidth at " + millions(publishedCell) + " elements, %: S5 and this run",
		Note:  place.Paper + " gives one range for all kernels.",
		Method: "Geometric means over " + cellsText(spots) + ", paired within blocks. " +
			"S5 made five repetitions, one platform after the other.",
		Columns: []report.Column{{Head: "data in"}, {Head: "S5", Number: true}},
	}
	for _, kernel := range kernels {
		t.Columns = append(t.Columns, report.Column{Head: kernel, Number: true, Optional: true})
	}
	t.Columns = append(t.Columns, report.Column{Head: "all kernels", Number: true})
	for _, storage := range r.storages() {
		theirs := report.Absent()
		if f, ok := of.Figure("overhead, " + storageText(storage) + ", " + millions(publishedCell) + " elements"); ok {
			theirs = report.Cell{Text: strings.TrimSuffix(f.Text(), " "+f.Unit)}
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

// peerEffect is the difference from the peer that matters, in percent.
const peerEffect = 3

// peers compares the program with the peer.
func (r reading) peers() []report.Part {
	t := report.Table{
		Title: "Stream and " + peerName + " on bare metal",
		Note:  fmt.Sprintf("Equivalent: the whole interval of the ratio lies within %d %% of 1.", peerEffect),
		Method: "Both move the same arrays in the same blocks. Bandwidth: bytes over the time of all iterations, the only figure that " +
			peerName + " reports. Its threads share one process and have a CPU each. The processes of stream are MPI's, placed by the kernel.",
		Columns: []report.Column{
			{Head: "cell"}, {Head: "kernel"}, {Head: "stream, GB/s", Number: true}, {Head: peerName + ", GB/s", Number: true},
			{Head: "ratio", Number: true}, {Head: "verdict"},
		},
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
			t.Rows = append(t.Rows, []report.Cell{
				{Text: s.text()}, {Text: strings.TrimSuffix(m.Name, average)},
				report.Estimated(r.Value(s.base, m.Name), giga), report.Estimated(r.Value(peer, m.Name), giga),
				report.Estimated(ratio, 1), besidePeer(decides.against(peer, s.base, m.Name)),
			})
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

// iterations compares the average of all iterations with the best one.
func (r reading) iterations() []report.Part {
	t := report.Table{
		Title:  "Best iteration and average of all",
		Note:   "The best iteration leaves disturbances out. A program that runs all iterations gets the average.",
		Method: "Average: bytes over the time of all iterations but the first. Loss: over all containers of the cell.",
		Columns: []report.Column{
			{Head: "cell"}, {Head: "kernel"}, {Head: "bare, best, GB/s", Number: true}, {Head: "bare, average, GB/s", Number: true},
			{Head: "loss of average, %", Number: true},
		},
	}
	for _, s := range r.shown() {
		for _, kernel := range kernels {
			whole := r.Value(s.base, kernel+average)
			if whole.Value != whole.Value {
				continue
			}
			t.Rows = append(t.Rows, []report.Cell{
				{Text: s.text()},
				{Text: kernel},
				report.Estimated(r.Value(s.base, kernel), giga),
				report.Estimated(whole, giga),
				report.Estimated(lost(r.pooled([]spot{s}, spot.contained, kernel+average)), 1),
			})
		}
	}
	return report.Filled(t)
}
