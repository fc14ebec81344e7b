package platforms

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/model/size"
	"tare/overhead"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/kit"
	"tare/workload"
)

// PredictionAssumes is what predictions of a platform's cost rest on.
var PredictionAssumes = []string{
	"the cost of size falls with the share of the host's CPUs in one of the forms that the measured sizes allow.",
	"a layer of isolation costs the same factor at every size; only the limit on CPUs costs more at small ones.",
}

// Predict gives what a run's programs cost on numbers of CPUs, as multiples of bare metal's
// time, by the model of platform and size; of none, on those between the measured ones.
// With a ladder of the same program from the same host, it gives the cost of each level of
// isolation at these sizes too. The error is a *[kit.Usage] where the run has no sizes to
// predict from.
func Predict(run record.Run, ladders []record.Run, cpus []float64) (answer string, tables []report.Table, err error) {
	r := read(run)
	all := r.parted()
	sizes := report.Table{
		Title: "Predicted time, relative to bare metal of the same size",
		Note: "1.2 is 20 % longer than bare metal on as many CPUs. Intervals (95 %) are for one measurement there. " +
			"Measured: of this run, where it has that size.",
		Columns: []report.Column{
			{Head: "program"}, {Head: "platform"}, {Head: "CPUs", Number: true},
			{Head: "predicted, times", Number: true}, {Head: "measured, times", Number: true},
		},
	}
	var refused []string
	for _, p := range all {
		if p.err != nil || p.sizeErr != nil {
			continue
		}
		for _, n := range p.asked(cpus) {
			e, err := p.fit.Predict(p.pointAt(n))
			row := []report.Cell{
				{Text: p.workload}, {Text: p.column.label()}, {Text: cpusNumber(n)},
				report.Absent(), r.measuredAt(p, n),
			}
			if err != nil {
				refused = append(refused, fmt.Sprintf("%s on %s: %v", p.workload, p.column.label(), err))
			} else {
				row[3] = report.Estimated(size.Ratio(e), 1)
			}
			if err == nil && answer == "" {
				answer = fmt.Sprintf("%s in %s on %s of %d is predicted to take %s times bare metal's time.", p.workload,
					p.column.label(), cpusNumber(n), p.points[0].HostCPUs, report.Said(size.Ratio(e), 1))
			}
			sizes.Rows = append(sizes.Rows, row)
		}
	}
	if len(sizes.Rows) == 0 {
		if len(all) == 0 {
			return "", nil, kit.Usagef("%s compares no platforms by size: run tare platforms --workload ffmpeg --cpus %s", run.ID, r.fourSizes())
		}
		return "", nil, kit.Usagef("nothing can be predicted from %s: %s", run.ID, r.unfitted(all))
	}
	if len(refused) > 0 {
		sizes.Note += " Not predicted: " + strings.Join(kit.Once(refused), "; ") + "."
	}
	if answer == "" {
		answer = "None of these sizes can be predicted."
	}
	tables = []report.Table{sizes}
	for _, p := range r.deciding(all) {
		if p.kind() != CN || p.column.preset != Vanilla || p.sizeErr != nil || p.err != nil {
			continue
		}
		for _, l := range ladders {
			if levels := levelsOf(l, p.workload); len(levels) > 0 && sameHost(l.Host, run.Host) {
				tables = append(tables, p.byLevel(levels, cpus, l.ID))
				break
			}
		}
	}
	return answer, tables, nil
}

// asked are the numbers of CPUs that are predicted: those named, or those between the
// measured ones. A set of CPUs holds whole ones.
func (p parted) asked(cpus []float64) (all []float64) {
	if len(cpus) == 0 {
		var had []float64
		for _, at := range p.points {
			had = append(had, at.CPUs)
		}
		slices.Sort(had)
		for i := range len(had) - 1 {
			cpus = append(cpus, (had[i]+had[i+1])/2)
		}
	}
	for _, n := range cpus {
		if p.column.preset != Pinned || n == math.Trunc(n) {
			all = append(all, n)
		}
	}
	return all
}

// pointAt is the program on so many CPUs, with the tasks of the nearest size measured.
func (p parted) pointAt(cpus float64) size.Point {
	nearest := slices.MinFunc(p.points, func(a, b size.Point) int {
		return cmp.Compare(math.Abs(math.Log(a.CPUs/cpus)), math.Abs(math.Log(b.CPUs/cpus)))
	})
	return size.Point{
		Workload: p.workload, CPUs: cpus, HostCPUs: nearest.HostCPUs,
		Intensity: nearest.Intensity, Tasks: nearest.Tasks,
	}
}

// measuredAt is the cost at a size that the run has.
func (r reading) measuredAt(p parted, cpus float64) report.Cell {
	for _, s := range r.of(matrix, p.workload) {
		if c, ok := s.at(p.column); ok && s.size == cpus {
			return report.Estimated(r.cost(s, c), 1)
		}
	}
	return report.Absent()
}

// isolated is a level of isolation, and what it costs where a container has the whole
// host, as a logarithm.
type isolated struct {
	label string
	cost  stats.Estimate
}

// levelsOf are the rungs of a ladder of a program without a limit on CPUs; none where the
// run is no such ladder.
func levelsOf(run record.Run, program string) (levels []isolated) {
	if !run.Plan.Ladder {
		return nil
	}
	l := overhead.Read(run)
	for _, c := range run.Conditions {
		name, _, _ := strings.Cut(c.Workload, "[")
		if c.Baseline || name != program || c.Setting.CPUs != 0 || c.Setting.CPUSet != "" {
			continue
		}
		m := primary(c)
		ratio := l.Row(c, m.Name).Ratio
		if !ratio.Known() || !(ratio.Interval.Low > 0) {
			continue
		}
		low, high := math.Log(ratio.Interval.Low), math.Log(ratio.Interval.High)
		ratio.Value = math.Log(ratio.Value)
		if m.Better == workload.Higher {
			ratio.Value, low, high = -ratio.Value, -high, -low
		}
		ratio.Interval.Low, ratio.Interval.High = low, high
		levels = append(levels, isolated{c.Label, ratio})
	}
	return levels
}

// sameHost means that figures of two runs may be put together.
func sameHost(a, b record.Host) bool {
	return a.Hostname == b.Hostname && a.CPUModel == b.CPUModel && a.CPUs == b.CPUs
}

// byLevel is a program's cost at each level of isolation, by size.
func (p parted) byLevel(levels []isolated, cpus []float64, ladder string) report.Table {
	host := p.points[0].HostCPUs
	t := report.Table{
		Title: p.workload + ": predicted time by isolation, relative to bare metal of the same size",
		Note: fmt.Sprintf("Levels are those of the ladder %s, whose containers have no limit on CPUs (first column of figures). "+
			"Further columns: with a quota of so many of %d CPUs, which costs as it does in %s.", ladder, host, p.column.label()),
		Columns: []report.Column{{Head: "isolation"}, {Head: "no limit, times", Number: true}},
	}
	sizes := p.asked(cpus)
	for _, n := range sizes {
		t.Columns = append(t.Columns, report.Column{Head: cpusNumber(n) + " CPUs, times", Number: true})
	}
	for _, l := range levels {
		row := []report.Cell{{Text: l.label}, report.Estimated(size.Ratio(l.cost), 1)}
		for _, n := range sizes {
			cell := report.Absent()
			if _, err := p.fit.Predict(p.pointAt(n)); err == nil { // within reach
				if e, err := p.fit.AtLevel(l.cost, n/float64(host)); err == nil {
					cell = report.Estimated(size.Ratio(e), 1)
				}
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func cpusNumber(n float64) string { return strconv.FormatFloat(n, 'g', 4, 64) }
