package place

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/container"
	"tare/kernel/cgroup"
	"tare/record"
)

func TestConcerned(t *testing.T) {
	subjects := []*Subject{
		subject("web", Critical, "0-1", "0-3"), subject("batch", CPUBound, "0-1", "0-3"), subject("app", Mixed, "0-1", "0-3"),
		subject("cron", Idle, "0-1", "0-3"), subject("cache", Critical, "3", "0-3"), subject("far", Mixed, "2", "0-3"),
	}
	cpus := func(i int, list string) Change {
		return Change{i, cgroup.Changes{{File: "/sys/fs/cgroup/cpuset/x/cpuset.cpus", Old: "0-1", New: list}}}
	}
	for _, c := range []struct {
		name    string
		changes []Change
		want    string
	}{
		{"those that are moved", []Change{cpus(0, "1"), cpus(1, "0"), cpus(2, "0")}, "web batch app"},
		{"and onto whom one is moved", []Change{cpus(0, "3")}, "web batch app cache"},
		{"and beside whom one's shares grow", []Change{{0, cgroup.Changes{{File: "/x/cpu.shares", Old: "1024", New: "8192"}}}}, "web batch app"},
	} {
		all, err := concerned(subjects, []int{0}, Action{Changes: c.changes})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, one := range all {
			names = append(names, one.Name)
			if one.Suffers != (one.Name == "web") || one.Answers != slices.Contains([]string{"web", "cache"}, one.Name) {
				t.Errorf("%s: %+v", c.name, one)
			}
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: %q are concerned, want %q", c.name, got, c.want)
		}
	}
}

// A change that helps those that wait is kept only where nobody else pays for it.
func TestJudgeCountsEachThatIsConcerned(t *testing.T) {
	const quick, slow = 100 * time.Microsecond, time.Millisecond
	for _, c := range []struct {
		name          string
		who           Concerned
		without, with float64       // CPUs
		before, after time.Duration // waits
		kept          bool
	}{
		{"a mixed one squeezed onto fewer CPUs", Concerned{Name: "db", Fair: 1.5}, 1.4, 0.8, quick, quick, false},
		{"a mixed one that keeps what it had", Concerned{Name: "db", Fair: 1.5}, 1.4, 1.38, quick, quick, true},
		{"a mixed one that keeps its share, and had more", Concerned{Name: "db", Fair: 0.8}, 1.4, 0.8, quick, quick, true},
		{"a mixed one's waits are its own affair", Concerned{Name: "db", Fair: 1.5}, 1.4, 1.4, quick, slow, true},
		{"another that answers waits longer", Concerned{Name: "db", Answers: true, Fair: 1}, 0.1, 0.1, quick, slow, false},
		{"another that answers waits as long", Concerned{Name: "db", Answers: true, Fair: 1}, 0.1, 0.1, slow, slow, true},
		{"another that answers gets less done", Concerned{Name: "db", Answers: true, Fair: 1}, 0.4, 0.2, slow, slow, false},
		{"one of those that suffer waits longer", Concerned{Name: "db", Answers: true, Suffers: true, Fair: 1}, 0.1, 0.1, quick, slow, false},
		{"one that suffers needs less CPU time", Concerned{Name: "db", Answers: true, Suffers: true, Fair: 1}, 0.4, 0.2, slow, quick, true},
	} {
		all := windows(8, slow, quick, 0.9, 0.95)
		theirs := windows(8, c.before, c.after, c.without, c.with)
		for i := range all {
			// In the tests' windows, what one has wavers by up to 4 %, upwards.
			all[i].Each = []Had{{}, {CPUs: theirs[i].Others, Waits: theirs[i].Waits}}
		}
		j := judge(all, 0.8, []Concerned{{Name: "web", Suffers: true}, c.who}, 1)
		if j.Kept != c.kept || !c.kept && !strings.Contains(j.Why, "db ") {
			t.Errorf("%s: kept %t, because %q; %+v", c.name, j.Kept, j.Why, j.Each)
		}
		if j.Each[0].Harm != "" || (j.Each[1].Harm == "") != c.kept {
			t.Errorf("%s: harms are %+v", c.name, j.Each)
		}
		action := Action{Kind: Separate, Says: "web on CPU 1"}
		applied := &Applied{Trials: []Trial{{Action: action, Windows: all, Judged: j}}}
		proposal := &Proposal{Victims: []int{0}, Culprits: []int{1}, Actions: []Action{action}}
		screen, _ := rendered(t, seen(), proposal, applied)
		if !strings.Contains(screen, "db, CPUs") {
			t.Errorf("%s: the screen does not show it:\n%s", c.name, screen)
		}
		if d := NewDocument(seen(), proposal, applied, record.Host{}).Trials[0].Each; len(d) != 2 || d[1].Name != "db" || (d[1].Harm == "") != c.kept || (d[1].Wait != nil) != c.who.Answers {
			t.Errorf("%s: the document holds %+v", c.name, d)
		}
	}
}

func TestFairOf(t *testing.T) {
	wants := func(cpus string, shares int, wanted float64) *Subject {
		s := subject(fmt.Sprint(cpus, shares), Mixed, cpus, "0-3")
		s.Container, s.Shares, s.Evidence.Wanted = container.Container{Name: "x"}, shares, wanted
		return s
	}
	for name, c := range map[string]struct {
		subjects []*Subject
		want     float64
	}{
		"alone on its CPUs":               {[]*Subject{wants("0-1", 1024, 1.5), wants("2", 1024, 1)}, 1.5},
		"half of one CPU":                 {[]*Subject{wants("0", 1024, 1), wants("0", 1024, 1)}, 0.5},
		"by weight":                       {[]*Subject{wants("0", 1024, 1), wants("0", 3072, 1)}, 0.25},
		"what the other does not want":    {[]*Subject{wants("0", 1024, 1), wants("0", 1024, 0.2)}, 0.8},
		"the other has other CPUs to use": {[]*Subject{wants("0", 1024, 1), wants("0-3", 1024, 1)}, 0.75},
	} {
		if got := fairOf(c.subjects, 0); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
