// Package kittest is what the tests of several studies ask of a study: its design, its verdicts,
// its refusals, its pages. It measures nothing.
package kittest

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tare/claim"
	"tare/lab"
	"tare/record"
	"tare/study/kit"
)

// Designed is the design of options that are right.
func Designed[Options any](t testing.TB, design func(Options) (lab.Design, error), o Options) lab.Design {
	t.Helper()
	d, err := design(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Groups are a design's, each with the labels of its conditions; that of a baseline is starred.
func Groups(d lab.Design) (groups []string) {
	for _, g := range d.Groups {
		var of []string
		for _, c := range g.Conditions {
			label := c.Label
			if c.Baseline {
				label += "*"
			}
			of = append(of, label)
		}
		groups = append(groups, g.Workload+": "+strings.Join(of, " | "))
	}
	return groups
}

// Refused fails unless an error is of a type, and says a text in one line.
func Refused(t testing.TB, err error, as any, says string) {
	t.Helper()
	if err == nil || !errors.As(err, as) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v (%T), want a %T that says %q", err, err, as, says)
	}
}

// Verdict is the settled judgement of a claim, or the first where none is named. Where there is
// none, it is [claim.NotYetRun].
func Verdict(t testing.TB, judge claim.Judge, run record.Run, id string) claim.Judgement {
	t.Helper()
	settled, err := claim.Settle(run, judge(run))
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range settled {
		if id == "" || j.Claim == id {
			return j
		}
	}
	return claim.Judgement{Verdict: claim.NotYetRun}
}

// NoiseConfirmsNothing fails where a claim is confirmed by one of 200 runs in which nothing was
// measured but noise, or where one of them does not judge it. A seed draws a run. judged is
// called for several seeds at a time.
func NoiseConfirmsNothing(t testing.TB, id string, judged func(seed uint64) (claim.Judgement, bool)) {
	t.Helper()
	var next atomic.Uint64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for seed := next.Add(1) - 1; seed < 200 && !t.Failed(); seed = next.Add(1) - 1 {
				if j, ok := judged(seed); !ok || j.Claim != id || j.Verdict == claim.Confirmed {
					t.Errorf("noise of seed %d: %s is %q (%s; %s), want it judged and not confirmed", seed, id, j.Verdict, j.Ours, j.Rests)
				}
			}
		})
	}
	all.Wait()
}

// Pages fails unless every study of a family has a page, a claim or a reason for none, and a
// command to run next, however little was measured: runOf gives a run of one.
func Pages(t *testing.T, f kit.Family, runOf func(name string) record.Run) {
	t.Helper()
	for _, m := range f.Members {
		run := runOf(m.Name)
		s := f.Sheet(run, nil, nil)
		if s.Title != m.Title || s.Answer == "" || f.NextOf(run) != m.Next || m.Next == "" {
			t.Errorf("%s: title %q, answer %q, next %q", m.Name, s.Title, s.Answer, f.NextOf(run))
		}
		if i := f.Interim(run); i.Title != m.Title+", so far" || i.Answer == "" {
			t.Errorf("%s so far: title %q, answer %q", m.Name, i.Title, i.Answer)
		}
		if _, err := claim.Settle(run, f.Judge(run)); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
	if s := f.Sheet(record.Run{}, nil, nil); s.Answer == "" {
		t.Error("a run of nothing has no answer")
	}
}

// Claims fails unless each claim of a study's name is judged by the command of one of a family.
func Claims(t *testing.T, f kit.Family, name string) {
	t.Helper()
	named := map[string]bool{}
	for _, m := range f.Members {
		named[m.Title] = true
	}
	for _, c := range claim.Of(name) {
		if len(c.Command) < 3 || !named["tare "+c.Command[1]+" "+c.Command[2]] {
			t.Errorf("%s is judged by %v, which is none of these studies", c.ID, c.Command)
		}
	}
}
