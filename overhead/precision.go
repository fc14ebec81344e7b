package overhead

import (
	"math"

	"tare/record"
	"tare/stats"
)

// HalfWidth is the precision reached so far, for a stop rule: the widest of
// the primary overheads' intervals, as a ratio-effect to either side (0.02 is
// 2 %, and is half the interval's width on the log scale). It is +Inf while
// some interval is unknown, or rests on fewer than [stats.StopFrom] rounds. A condition of
// which no trial was valid is left out: more blocks would not mend it.
func HalfWidth(run record.Run, opt Options) float64 {
	widest := math.Inf(-1)
	eachPrimary(run, opt, func(p pairs, opt Options) {
		e := p.ratio(opt)
		half := (math.Log(e.Interval.High) - math.Log(e.Interval.Low)) / 2
		if math.IsNaN(half) || p.rounds && len(p.blocks) < stats.StopFrom {
			half = math.Inf(1)
		}
		widest = max(widest, half)
	})
	if math.IsInf(widest, -1) {
		return math.Inf(1)
	}
	return math.Expm1(widest)
}

// SteinBlocks is how many blocks of a workload Stein's second stage asks for,
// after a pilot, so that every primary overhead's half-width is at most
// precision (0.02 is 2 %); 0 where the pilot does not tell.
func SteinBlocks(run record.Run, workload string, opt Options, precision float64) int {
	opt.Workload = workload
	most := 0
	eachPrimary(run, opt, func(p pairs, opt Options) {
		most = max(most, stats.SteinBlocks(p.logSD(), len(p.blocks), precision, opt.Level))
	})
	return most
}

// eachPrimary visits the primary comparisons of a run of which both sides were
// ever measured; a baseline that stands alone is compared with itself.
func eachPrimary(run record.Run, opt Options, visit func(pairs, Options)) {
	opt = opt.from(run)
	for _, l := range layouts(run, opt) {
		if l.baseline < 0 {
			continue
		}
		for _, m := range l.metrics {
			if !l.carries(m.Name) {
				continue
			}
			if len(l.conditions) == 1 {
				visit(l.pairAA(m), opt)
				continue
			}
			for i, c := range l.conditions {
				if i != l.baseline && l.everValid(c.ID) {
					visit(l.pair(m, c.ID, false), opt)
				}
			}
		}
	}
}

func (l *layout) everValid(condition string) bool {
	for _, t := range l.trials {
		if t.Condition == condition && t.Error == "" {
			return true
		}
	}
	return false
}
