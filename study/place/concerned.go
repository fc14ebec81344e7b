package place

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/platform"
	"tare/probe/bursts"
	"tare/stats"
)

// Concerned is a container that an action may harm: one that it changes, or one
// that has a CPU in common, before or after, with one that it changes.
type Concerned struct {
	Subject int
	Name    string
	// Answers: it is latency-critical; Suffers: the action is for its sake.
	Answers, Suffers bool
	// Fair is what its weight gives it of the CPUs that it has without the action.
	Fair float64
}

// Had is what a container that is concerned had in a window.
type Had struct {
	CPUs  float64 // CPU time
	Waits bursts.Histogram
}

// Beside is what came of an action for one that it concerns.
type Beside struct {
	Concerned
	// Without and With are the CPU time that it had, in CPUs, and Wait by what factor
	// the p99 of its waits changed, where it answers.
	Without, With float64
	Wait          stats.Estimate
	// Harm says what was done to it; empty where nothing was.
	Harm string
}

// concerned finds whom an action concerns. The idle have nothing to lose.
func concerned(subjects []*Subject, victims []int, a Action) ([]Concerned, error) {
	touched := map[int][]int{} // the CPUs of those that are changed, before and after
	for _, c := range a.Changes {
		touched[c.Subject] = subjects[c.Subject].CPUs
		for _, one := range c.Changes {
			if filepath.Base(one.File) != "cpuset.cpus" {
				continue
			}
			after, err := platform.ParseCPUList(one.New)
			if err != nil {
				return nil, fmt.Errorf("CPUs proposed for %s: %w", subjects[c.Subject].Container.Name, err)
			}
			touched[c.Subject] = union(touched[c.Subject], after)
		}
	}
	var all []Concerned
	for i, s := range subjects {
		_, changed := touched[i]
		for _, cpus := range touched {
			changed = changed || s.Behaviour != Idle && len(intersect(s.CPUs, cpus)) > 0
		}
		if changed {
			all = append(
				all,
				Concerned{
					i,
					s.Container.Name,
					s.Behaviour == Critical,
					slices.Contains(victims, i),
					fairOf(subjects, i),
				},
			)
		}
	}
	return all, nil
}

// had reads off what each had in a window.
func had(r *bursts.Reading, all []Concerned) []Had {
	var each []Had
	for _, c := range all {
		g := &r.Groups[c.Subject]
		h := Had{CPUs: g.CPUTime.Seconds() / r.Span().Seconds()}
		h.Waits.Merge(g.AllWaits())
		each = append(each, h)
	}
	return each
}

// beside judges what was done to each that is concerned, by itself: what one has
// gained makes up for nothing that another has lost.
func beside(windows []Window, all []Concerned, seed int64) []Beside {
	var each []Beside
	for i, c := range all {
		b := Beside{Concerned: c}
		var cpus [2][]float64
		var waits [2][]*hdrhistogram.Histogram
		for side, with := range []bool{false, true} {
			for _, w := range byPair(windows, with) {
				cpus[side] = append(cpus[side], w.Each[i].CPUs)
				waits[side] = append(waits[side], hdr(&w.Each[i].Waits))
			}
		}
		b.Without, b.With = mean(cpus[0]), mean(cpus[1])
		if c.Answers {
			b.Wait = stats.QuantileRatio(waits[0], waits[1], 0.99, level, seed)
		}
		switch theirs := min(b.Without, c.Fair); {
		case c.Answers && b.Wait.Known() && b.Wait.Interval.Low > 1:
			b.Harm = fmt.Sprintf("the p99 of waits of %s is %s times as long", c.Name, digits(b.Wait.Value))
		case !c.Suffers && b.With < keepsOf*theirs:
			b.Harm = fmt.Sprintf("%s has only %s CPUs, of the %s that are its own", c.Name, digits(b.With), digits(theirs))
		}
		each = append(each, b)
	}
	return each
}

// fairOf is what its weight gives one container of the CPUs that it may use, in
// CPUs, beside all that may use them too, each of whom is taken to want the same
// on each of theirs.
func fairOf(subjects []*Subject, of int) float64 {
	var all []claimant
	own := subjects[of].CPUs
	for i, s := range subjects {
		if common := len(intersect(s.CPUs, own)); common > 0 {
			c := claims(s, i == of)
			c.wants *= float64(common) / float64(len(s.CPUs))
			all = append(all, c)
		}
	}
	return divided(float64(len(own)), all)
}

// claimant is one that wants a part of some CPUs.
type claimant struct {
	shares, wants float64
	counts        bool // in what is summed up
}

func claims(s *Subject, counts bool) claimant {
	wants := min(s.Evidence.Wanted, float64(len(s.CPUs)))
	if s.Bandwidth.Quota > 0 {
		wants = min(wants, float64(s.Bandwidth.Quota)/float64(s.Bandwidth.Period))
	}
	return claimant{float64(max(s.Shares, 2)), wants, counts}
}

// divided divides CPUs by shares, and sums up what those that count get: whoever
// wants less than their part is served, and leaves the rest to the others.
func divided(cpus float64, all []claimant) float64 {
	left, theirs := cpus, 0.0
	for len(all) > 0 && left > 0 {
		var shares float64
		for _, c := range all {
			shares += c.shares
		}
		served := slices.IndexFunc(all, func(c claimant) bool { return c.wants <= left*c.shares/shares })
		if served < 0 {
			for _, c := range all {
				if c.counts {
					theirs += left * c.shares / shares
				}
			}
			break
		}
		if all[served].counts {
			theirs += all[served].wants
		}
		left -= all[served].wants
		all = slices.Delete(all, served, served+1)
	}
	return theirs
}

// fairShare is what of the CPUs that both sides contend for the shares of those
// that compute give them, in CPUs: what one side does not want goes to the other.
func fairShare(subjects []*Subject, victims, culprits []int) float64 {
	var pool []int
	var all []claimant
	for _, i := range slices.Concat(victims, culprits) {
		pool = union(pool, subjects[i].CPUs)
		all = append(all, claims(subjects[i], slices.Contains(culprits, i)))
	}
	return divided(float64(len(pool)), all)
}
