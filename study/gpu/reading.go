package gpu

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"tare/overhead"
	programs "tare/programs/gpu"
	"tare/record"
	"tare/stats"
	"tare/study/kit"
	"tare/workload"
)

// reading is a run as the judge and the page of this study read it.
type reading struct {
	overhead.Reading
	subjects []subject          // programs, in the run's order
	shared   []subject          // the same with several at once
	torch    []subject          // PyTorch's tasks
	timed    []subject          // programs with every launch timed
	limits   []record.Condition // the device's own; one, or none
	attached kit.Attachments    // of the run's trials; may be nil
}

// subject is a group of a run.
type subject struct {
	name  string // "lenet training"
	group string
	all   []record.Condition
}

func readRun(run record.Run) reading {
	r := reading{Reading: overhead.Read(run)}
	for _, c := range run.Conditions {
		to := &r.subjects
		switch c.Factors[FactorKind] {
		case KindLimits:
			r.limits = append(r.limits, c)
			continue
		case KindKernels:
			to = &r.timed
		case KindShared:
			to = &r.shared
		case KindTorch:
			to = &r.torch
		case KindProgram:
		default:
			continue
		}
		at := slices.IndexFunc(*to, func(s subject) bool { return s.group == c.Workload })
		if at < 0 {
			at = len(*to)
			name := strings.TrimSpace(c.Factors[FactorProgram] + " " + c.Factors[FactorTask])
			*to = append(*to, subject{name: name, group: c.Workload})
		}
		(*to)[at].all = append((*to)[at].all, c)
	}
	return r
}

// only is a run with no metrics but those named: each that is analysed takes its time, of
// which a run that is under way has none to give.
func only(run record.Run, metrics ...string) record.Run {
	run.Conditions, run.Trials = slices.Clone(run.Conditions), slices.Clone(run.Trials)
	for i := range run.Conditions {
		c := &run.Conditions[i]
		c.Metrics = slices.DeleteFunc(slices.Clone(c.Metrics), func(m workload.Metric) bool {
			return !slices.Contains(metrics, m.Name)
		})
	}
	for i := range run.Trials {
		t := &run.Trials[i]
		t.Samples = slices.DeleteFunc(slices.Clone(t.Samples), func(s record.Sample) bool {
			return !slices.Contains(metrics, s.Metric)
		})
	}
	return run
}

// emulated reports whether programs ran on a CPU, for a test. Such a run is not judged.
func (r reading) emulated() bool {
	return slices.ContainsFunc(r.Run.Conditions, func(c record.Condition) bool {
		return c.Factors[FactorBuild] == string(programs.Emulated)
	})
}

// base is the platform that the others are set against.
func (r reading) base() string {
	for _, c := range r.Run.Conditions {
		if c.Baseline {
			return c.Platform
		}
	}
	return Bare
}

// containers are the other platforms, the one that the claims are of first: Docker, whose
// kind S1 had, else the first.
func (r reading) containers() []string {
	var names []string
	for _, c := range r.Run.Conditions {
		if c.Platform != r.base() && !slices.Contains(names, c.Platform) {
			names = append(names, c.Platform)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(foreign(a), foreign(b)) })
	return names
}

func foreign(name string) int {
	if name == "docker" {
		return 0
	}
	return 1
}

// cellOf reads a cell back from a condition of it.
func cellOf(c record.Condition) cell {
	return cell{build: c.Factors[FactorBuild], cache: c.Factors[FactorCache], memory: c.Factors[FactorMemory]}
}

// cells are those of a run that no probe watched, in its order.
func (r reading) cells() []cell {
	var all []cell
	for _, s := range r.subjects {
		for _, c := range s.all {
			if of := cellOf(c); c.Factors[FactorProbe] == "" && !slices.Contains(all, of) {
				all = append(all, of)
			}
		}
	}
	return all
}

// The cells that claims are of: code for the exact device, and PTX that was never
// compiled there before.
var (
	exact   = cell{build: string(programs.Exact), memory: Pageable}
	pinned  = cell{build: string(programs.Exact), memory: Pinned}
	ptxCold = cell{build: string(programs.PTX), cache: Cold, memory: Pageable}
	ptxWarm = cell{build: string(programs.PTX), cache: Warm, memory: Pageable}
)

// pick chooses a condition of a subject.
type pick struct {
	platform string
	cell     cell
	probed   bool
}

func (s subject) find(p pick) (record.Condition, bool) {
	i := slices.IndexFunc(s.all, func(c record.Condition) bool {
		return c.Platform == p.platform && cellOf(c) == p.cell && (c.Factors[FactorProbe] == On) == p.probed
	})
	if i < 0 {
		return record.Condition{}, false
	}
	return s.all[i], true
}

// unmeasured is the estimate of what was not measured.
var unmeasured = stats.Absent(0)

// blocks gives a metric's values by block: over several subjects their geometric mean, of
// the blocks that all have.
func (r reading) blocks(subjects []subject, p pick, metric string) map[int]float64 {
	sums, counts, n := map[int]float64{}, map[int]int{}, 0
	for _, s := range subjects {
		c, ok := s.find(p)
		if !ok {
			return nil
		}
		n++
		for block, v := range r.PerBlock(c, metric) {
			if v > 0 {
				sums[block] += math.Log(v)
				counts[block]++
			}
		}
	}
	all := map[int]float64{}
	for block, sum := range sums {
		if counts[block] == n {
			all[block] = math.Exp(sum / float64(n))
		}
	}
	return all
}

// ratio is what b has of a, over subjects that have both.
func (r reading) ratio(subjects []subject, a, b pick, metric string) stats.Estimate {
	subjects = having(subjects, a, b)
	if len(subjects) == 0 {
		return unmeasured
	}
	return r.Ratio(r.blocks(subjects, a, metric), r.blocks(subjects, b, metric))
}

// having keeps the subjects that have all that is picked.
func having(subjects []subject, all ...pick) []subject {
	return slices.DeleteFunc(slices.Clone(subjects), func(s subject) bool {
		return slices.ContainsFunc(all, func(p pick) bool { _, ok := s.find(p); return !ok })
	})
}

// slower is how much longer something takes in a container than on the baseline, in
// percent, in one cell.
func (r reading) slower(subjects []subject, container string, c cell, metric string) stats.Estimate {
	return r.ratio(subjects, pick{platform: r.base(), cell: c}, pick{platform: container, cell: c}, metric).
		PercentMore()
}

// probedSlower is the same under the probe on both sides.
func (r reading) probedSlower(subjects []subject, container string, c cell, metric string) stats.Estimate {
	return r.ratio(subjects, pick{r.base(), c, true}, pick{container, c, true}, metric).PercentMore()
}

// together is the reading by n intervals that hold together.
func (r reading) together(n int) reading {
	r.Reading = r.Reading.Together(n)
	return r
}

// level is a metric's over subjects, with its interval over blocks.
func (r reading) level(subjects []subject, p pick, metric string) stats.Estimate {
	subjects = having(subjects, p)
	if len(subjects) == 0 {
		return unmeasured
	}
	return stats.GeometricMean(overhead.InOrder(r.blocks(subjects, p, metric)), r.Report.Level, r.Run.Seed)
}

// meanBlocks are a metric's values by block: the arithmetic mean over subjects, as S1 has it of
// shares in percent, of the blocks that all have.
func (r reading) meanBlocks(subjects []subject, p pick, metric string) map[int]float64 {
	sums, counts := map[int]float64{}, map[int]int{}
	for _, s := range subjects {
		c, _ := s.find(p)
		for block, v := range r.PerBlock(c, metric) {
			sums[block] += v
			counts[block]++
		}
	}
	all := map[int]float64{}
	for block, sum := range sums {
		if counts[block] == len(subjects) {
			all[block] = sum / float64(len(subjects))
		}
	}
	return all
}

// known reports whether there is any value.
func known(e stats.Estimate) bool { return e.Value == e.Value }
