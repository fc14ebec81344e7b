package advise

import (
	"fmt"
	"slices"
	"strings"

	"tare/record"
	"tare/report"
	"tare/terminal"
)

// Source is a run, or runs that are pooled, with what it recommends.
type Source struct {
	Run    record.Run
	Advice []Advice
}

// Best keeps of each rule, or of its opposite, the best-founded recommendation. Sources come in the
// order in which they are founded. A rule is left out where a better-founded source has the conditions
// that it rests on, and does not give it.
func Best(sources []Source) (best []Advice) {
	seen := map[string]bool{}
	for i, s := range sources {
		for _, a := range s.Advice {
			rule := strings.TrimPrefix(a.Rule, "not-")
			if seen[rule] || !a.Holds() {
				continue
			}
			if slices.ContainsFunc(sources[:i], func(better Source) bool { return better.has(a) }) {
				continue
			}
			seen[rule] = true
			best = append(best, a)
		}
	}
	return best
}

// has tells whether a source measured all that a recommendation compares.
func (s Source) has(a Advice) bool {
	for _, e := range a.Evidence {
		for _, id := range e.Conditions {
			if !slices.ContainsFunc(s.Run.Conditions, func(c record.Condition) bool { return c.ID == id }) {
				return false
			}
		}
	}
	return true
}

// Measured tells whether a workload was measured, named with or without its parameters.
func (s Source) Measured(workload string) bool { return len(s.conditions(workload)) > 0 }

// Of keeps the recommendations that rest on conditions of a workload.
func (s Source) Of(workload string) Source {
	of := s.conditions(workload)
	s.Advice = slices.DeleteFunc(slices.Clone(s.Advice), func(a Advice) bool {
		return !slices.ContainsFunc(a.Evidence, func(e Evidence) bool {
			return slices.ContainsFunc(e.Conditions, func(id string) bool { return slices.Contains(of, id) })
		})
	})
	return s
}

// conditions are the ids of those of a workload.
func (s Source) conditions(workload string) (ids []string) {
	for _, c := range s.Run.Conditions {
		if name, _, _ := strings.Cut(c.Workload, "["); name == workload || c.Workload == workload {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// Sheet shows recommendations of a host, those first that agree with published practice.
func Sheet(about string, all []Advice) report.Sheet {
	against := slices.DeleteFunc(slices.Clone(all), func(a Advice) bool { return a.Against == "" })
	to := slices.DeleteFunc(slices.Clone(all), func(a Advice) bool { return a.Against != "" })
	s := report.Sheet{
		Title:  strings.TrimSpace("tare advise " + about),
		Answer: fmt.Sprintf("%s: each rests on trials of this host.", report.Counted(len(to), "recommendation")),
		Runs:   true,
	}
	if len(all) == 0 {
		s.Answer = None(about)
	}
	s.Parts = report.Filled(table("What to set", "Where intervals hold no effect, nothing is recommended.", to))
	contradicted := report.Table{
		Title:   "Contradicted on this host",
		Columns: []report.Column{{Head: "published practice"}, {Head: "by"}, {Head: "since here"}, {Head: "instead"}},
	}
	for _, a := range against {
		contradicted.Rows = append(contradicted.Rows, []report.Cell{
			{Text: a.Against}, {Text: a.Source}, {Text: a.since(), Tone: report.Bad}, {Text: a.Set},
		})
	}
	s.Parts = append(s.Parts, report.Filled(contradicted)...)
	if ids := runsOf(all); len(ids) > 0 {
		s.Facts = []string{"runs: " + strings.Join(ids, ", ")}
	}
	return s
}

// None says that nothing is recommended, in one sentence.
func None(about string) string {
	if about == "" {
		return "No trial of this host supports a recommendation."
	}
	return fmt.Sprintf("%s: what was measured on this host supports no recommendation.", terminal.Line(about))
}

// runsOf are the runs that recommendations rest on.
func runsOf(all []Advice) (ids []string) {
	for _, a := range all {
		for _, e := range a.Evidence {
			if !slices.Contains(ids, e.Run) {
				ids = append(ids, e.Run)
			}
		}
	}
	return ids
}

// Apply writes the settings of recommendations in a form, each below its evidence. Some exclude each
// other: the reader chooses.
func Apply(form string, all []Advice) (string, error) {
	of, ok := forms[form]
	if !ok {
		return "", fmt.Errorf("%q: want one of %s", form, strings.Join(Forms(), ", "))
	}
	var b strings.Builder
	for _, a := range all {
		text := of(a.Setting)
		if text == "" || !a.Holds() {
			continue
		}
		comments := []string{a.Rule + ": " + a.Set}
		if a.Unless != "" {
			comments = append(comments, "Not where "+a.Unless+".")
		}
		comments = append(comments, fmt.Sprintf("%s (%s)", a.since(), strings.Join(runsOf([]Advice{a}), ", ")))
		for _, c := range comments {
			fmt.Fprintf(&b, "# %s\n", terminal.Line(c)) // a label of a run could end the comment
		}
		fmt.Fprintf(&b, "%s\n\n", text)
	}
	return b.String(), nil
}

// Subject is a container that runs, as far as rules concern it.
type Subject struct {
	Quota      bool // its CPU time is limited
	OwnNetwork bool
}

// Concerned keeps the recommendations that a subject does not follow already.
func (s Subject) Concerned(all []Advice) []Advice {
	return slices.DeleteFunc(slices.Clone(all), func(a Advice) bool {
		switch a.Rule {
		case "shares-not-quota", "quota-above-demand", "short-periods", "burst":
			return !s.Quota
		case "host-network", "not-by-the-proxy", "no-userland-proxy", "batch-messages":
			return !s.OwnNetwork
		}
		return false
	})
}
