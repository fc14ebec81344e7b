package platforms

import (
	"math"
	"slices"

	"tare/model/size"
	"tare/record"
	"tare/stats"
)

// column is a platform with a preset: what is followed over sizes.
type column struct{ platform, preset string }

func (c column) label() string {
	if c.preset == "" {
		return c.platform
	}
	return c.platform + " " + c.preset
}

// columns are those of a question, in the order of the run.
func (r reading) columns(question string) (all []column) {
	for _, s := range r.of(question, "") {
		for _, c := range s.others() {
			if at := (column{c.Platform, preset(c)}); !slices.Contains(all, at) {
				all = append(all, at)
			}
		}
	}
	return all
}

// at is a spot's condition in a column.
func (s spot) at(col column) (record.Condition, bool) {
	i := slices.IndexFunc(s.all, func(c record.Condition) bool {
		return c.Platform == col.platform && preset(c) == col.preset
	})
	if i < 0 {
		return record.Condition{}, false
	}
	return s.all[i], true
}

// points are a workload's costs on a column, over sizes, as the model takes them. What
// is not known of its input, output and tasks is left at nothing: a fit of one workload
// has no term for them, and one of several ([reading.joint]) takes those that are known.
func (r reading) points(name string, col column) (points []size.Point) {
	intensity, _ := r.intensity(name)
	for _, s := range r.of(matrix, name) {
		c, ok := s.at(col)
		if !ok {
			continue
		}
		cost := r.cost(s, c)
		se, n := r.logs(s, c)
		if !(cost.Value > 0) || n < 2 || !(se > 0) {
			continue
		}
		points = append(points, size.Point{
			Workload: name, CPUs: s.size, HostCPUs: int(number(c, factorHost)),
			Intensity: intensity, Tasks: oneTask(r.tasksOf(c)),
			Log: math.Log(cost.Value), SE: math.Max(se, 1e-6), N: n,
		})
	}
	return points
}

// parted is a column's cost of one workload, taken apart.
type parted struct {
	workload string
	column   column
	points   []size.Point
	fit      size.Fitted
	compared size.Comparison
	// err is why the platform's part is unknown, sizeErr why the size's is.
	err, sizeErr error
	emulated     string
}

// parted is every workload's cost on every column, taken apart.
func (r reading) parted() []parted { return r.fits() }

func (r reading) takeApart() (all []parted) {
	for _, name := range r.names(matrix) {
		for _, col := range r.columns(matrix) {
			p := parted{workload: name, column: col, points: r.points(name, col)}
			if len(p.points) == 0 {
				continue
			}
			for _, s := range r.of(matrix, name) {
				if c, ok := s.at(col); ok {
					p.emulated = emulated(c)
				}
			}
			options := size.Options{Level: r.Report.Level}
			if p.fit, p.err = size.Fit(p.points, options); p.err == nil {
				p.compared, p.sizeErr = size.Compare(p.points, options)
			}
			all = append(all, p)
		}
	}
	return all
}

// least is the least share of the host at which the cost of size is below a fraction.
func (p parted) least(overhead float64) (stats.Estimate, error) {
	if p.err != nil {
		return stats.Estimate{}, p.err
	}
	return size.LeastShare(p.fit, overhead)
}

func (p parted) kind() Kind { return KindOf(p.column.platform) }
