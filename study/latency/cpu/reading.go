package cpu

import (
	"cmp"
	"slices"
	"time"

	"tare/overhead"
	"tare/record"
	"tare/stats"
	"tare/study/latency/service"
)

// reading is a run as the judge and the page of this study read it.
type reading struct{ overhead.Reading }

func read(run record.Run) reading { return reading{overhead.Read(run)} }

// together widens the intervals so that n of them hold together.
func (r reading) together(n int) reading { return reading{r.Reading.Together(n)} }

// compared is how many conditions are set against another.
func (r reading) compared() int {
	n := 0
	for _, c := range r.Run.Conditions {
		if !c.Baseline {
			n++
		}
	}
	return n
}

// group is one service in one experiment.
type group struct {
	name       string // "thrift[quota,server=python]"
	experiment string
	conditions []record.Condition
	base       record.Condition
}

// groups gives those of an experiment, in the design's order.
func (r reading) groups(experiment string) []group {
	var all []group
	for _, c := range r.Run.Conditions {
		if c.Factors[FactorExperiment] != experiment {
			continue
		}
		i := slices.IndexFunc(all, func(g group) bool { return g.name == c.Workload })
		if i < 0 {
			all = append(all, group{name: c.Workload, experiment: experiment})
			i = len(all) - 1
		}
		all[i].conditions = append(all[i].conditions, c)
		if c.Baseline {
			all[i].base = c
		}
	}
	return all
}

// measured reports whether a condition has a metric.
func (r reading) measured(c record.Condition, metric string) bool {
	return len(r.Row(c, metric).Blocks) > 0
}

func quotaOf(c record.Condition) time.Duration  { return factor(c, factorQuota) }
func periodOf(c record.Condition) time.Duration { return factor(c, factorPeriod) }
func burstOf(c record.Condition) time.Duration  { return factor(c, factorBurst) }

func factor(c record.Condition, name string) time.Duration {
	d, err := time.ParseDuration(c.Factors[name])
	if err != nil {
		return 0
	}
	return d
}

// share is a condition's quota in percent of its period; 100 where there is none.
func share(c record.Condition) float64 {
	if q, p := quotaOf(c), periodOf(c); q > 0 && p > 0 {
		return 100 * float64(q) / float64(p)
	}
	return 100
}

// periods lists the periods of a group's conditions, in the design's order.
func (g group) periods() []time.Duration {
	var all []time.Duration
	for _, c := range g.conditions {
		if p := periodOf(c); p > 0 && !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// has reports whether some condition has a quota in that period.
func (g group) has(period time.Duration) bool { return slices.Contains(g.periods(), period) }

// at gives the conditions under a quota of one period, by quota.
func (g group) at(period time.Duration) []record.Condition {
	var of []record.Condition
	for _, c := range g.conditions {
		if periodOf(c) == period && burstOf(c) == 0 {
			of = append(of, c)
		}
	}
	slices.SortStableFunc(of, func(a, b record.Condition) int { return cmp.Compare(quotaOf(a), quotaOf(b)) })
	return of
}

// with gives the condition that has these factors.
func (g group) with(by, beside string, quota time.Duration) (record.Condition, bool) {
	for _, c := range g.conditions {
		if c.Factors[factorGranted] == by && c.Factors[factorBeside] == beside && quotaOf(c) == quota {
			return c, true
		}
	}
	return record.Condition{}, false
}

// quotas lists a neighbour group's, in the design's order.
func (g group) quotas() []time.Duration {
	var all []time.Duration
	for _, c := range g.conditions {
		if q := quotaOf(c); q > 0 && !slices.Contains(all, q) {
			all = append(all, q)
		}
	}
	return all
}

// products are stalled requests per million, times the quota in microseconds. By
// S4 that is the CPU time that a million requests take.
func (r reading) products(c record.Condition) stats.Estimate {
	stalled := r.PerBlock(c, service.Stalled)
	times := map[int]float64{}
	for block, v := range stalled {
		times[block] = v * float64(quotaOf(c).Microseconds())
	}
	return r.Mean(times)
}

// minus is the mean of a - b, paired by block.
func (r reading) minus(a, b map[int]float64) stats.Estimate {
	d := map[int]float64{}
	for block, v := range a {
		if w, ok := b[block]; ok {
			d[block] = v - w
		}
	}
	return r.Mean(d)
}

// covariates are a condition's values of one, by block.
func (r reading) covariates(c record.Condition, name string) map[int]float64 {
	values := map[int]float64{}
	for _, t := range r.Trials(c) {
		if v, ok := t.Covariates[name]; ok {
			values[t.Block] = v
		}
	}
	return values
}

// covariate gives a covariate's mean over a condition's trials; false where none
// has it.
func (r reading) covariate(c record.Condition, name string) (stats.Estimate, bool) {
	values := r.covariates(c, name)
	return r.Mean(values), len(values) > 0
}
