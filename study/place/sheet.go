package place

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tare/probe/bursts"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/kit"
)

// Sheet is the page of what was seen, of what could be done about it, and, where
// that was tried, of what came of it.
func Sheet(w *Watched, p *Proposal, a *Applied, on record.Host) report.Sheet {
	s := report.Sheet{
		Title:   "tare place",
		Answer:  answer(w, p, a),
		Facts:   w.facts(on),
		Banners: w.banners(p),
		Parts:   []report.Part{w.behaviours(), w.waits()},
	}
	if len(p.Actions) > 0 {
		s.Parts = append(s.Parts, actions(p))
	}
	if a != nil {
		for _, t := range a.Trials {
			s.Parts = append(s.Parts, t.table())
		}
	}
	if w.Weight.Runs > 0 {
		s.Weight = report.Weight{
			{What: "the probe's programs, of one CPU", Unit: "%", Estimate: stats.Estimate{Value: 100 * w.Weight.Time.Seconds() / w.Span.Seconds(), N: 1}},
			{What: "for each of the host's switches and wakings", Unit: "ns", Estimate: stats.Estimate{Value: float64(w.Weight.Time) / float64(w.Weight.Runs), N: 1}},
		}
	}
	s.Next = next(w, p, a)
	return s
}

func answer(w *Watched, p *Proposal, a *Applied) string {
	counts := map[Behaviour]int{}
	for _, s := range w.Subjects {
		counts[s.Behaviour]++
	}
	var kinds []string
	for _, b := range []Behaviour{Critical, CPUBound, Mixed, Idle} {
		if n := counts[b]; n > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", n, b))
		}
	}
	seen := fmt.Sprintf("Of %s, %s.", report.Counted(len(w.Subjects), "container"), strings.Join(kinds, ", "))
	switch {
	case p.Healthy():
		return seen + " None that answers waits for a CPU because of one that computes" + w.elsewhere() + ": nothing is proposed."
	case a != nil:
		if t, ok := a.Kept(); ok {
			return fmt.Sprintf("%s %s: the p99 of the waits for a CPU is %s times what it was (%s to %s); it stays.", seen, t.Says, digits(t.Wait.Value), digits(t.Wait.Interval.Low), digits(t.Wait.Interval.High))
		}
		if a.Stopped != nil {
			return seen + " Stopped before its time: everything is as it was."
		}
		return seen + " Nothing that was tried helped beyond doubt: everything is as it was."
	case len(p.Actions) > 0:
		return fmt.Sprintf("%s %s. Proposed: %s.", seen, w.because(p), p.Actions[0].Says)
	}
	return fmt.Sprintf("%s %s. Nothing can be done about it here: %s.", seen, w.because(p), p.Apart)
}

// elsewhere tells of waits that are long for another reason.
func (w *Watched) elsewhere() string {
	for _, s := range w.Subjects {
		if e := s.Evidence; s.Behaviour == Critical && e.Waits >= w.Thresholds.FewestWaits && e.WaitP99 > w.Thresholds.Wait {
			return fmt.Sprintf(", though %s waits up to %v (p99), behind %s", s.Container.Name, kit.Short(e.WaitP99), w.behind(s))
		}
	}
	return ""
}

func (w *Watched) facts(on record.Host) []string {
	var names []string
	for _, s := range w.Subjects {
		names = append(names, fmt.Sprintf("%s (%s)", s.Container.Name, s.Container.Engine))
	}
	const most = 8
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("and %d more", len(names)-most))
	}
	return []string{
		"containers: " + strings.Join(names, ", "),
		fmt.Sprintf("watched: %v from %s on, every switch and waking", kit.Short(w.Span), w.Began.UTC().Format("2006-01-02 15:04:05 UTC")),
		report.HostFact(on),
	}
}

func (w *Watched) banners(p *Proposal) []string {
	var banners []string
	for _, n := range w.Notes {
		banners = append(banners, "note: "+n)
	}
	if w.Lost > 0 {
		banners = append(banners, fmt.Sprintf("lost: %d events of the scheduler found no room: counts are too low by as much", w.Lost))
	}
	if p.Apart != "" {
		banners = append(banners, "not separable: "+p.Apart)
	}
	for _, s := range w.Subjects {
		if s.Throttled > 0 && s.Behaviour == Critical {
			banners = append(banners, fmt.Sprintf("throttled: %s uses its quota (%v) up in %s of the periods: those waits are behind nobody, and a larger quota mends them (tare predict quota)", s.Container.Name, s.Bandwidth, percent(s.Throttled)))
		}
	}
	return banners
}

// behaviours shows what each container was taken for, and by what.
func (w *Watched) behaviours() report.Table {
	t := report.Table{
		Title: "How the containers use the CPUs",
		Note: fmt.Sprintf("Latency-critical: woken %s times a second or more, bursts up to %v in the middle and %v at the 99th percentile, up to %s of its CPUs. CPU-bound: %s or more of its CPU time in bursts longer than %v, and wants %s CPUs or more, running or waiting. Idle: under %s of a CPU and woken less than %s times a second. A burst is the time on a CPU until the thread blocks; long is the part of the CPU time in long ones.",
			digits(w.Thresholds.Wakeups), w.Thresholds.BurstMedian, w.Thresholds.BurstP99, percent(w.Thresholds.LowDemand),
			percent(w.Thresholds.LongShare), w.Thresholds.LongBurst, digits(w.Thresholds.HighDemand), percent(w.Thresholds.IdleShare), digits(w.Thresholds.IdleWakeups)),
		Columns: []report.Column{
			{Head: "container"}, {Head: "behaviour"}, {Head: "CPU, %", Number: true}, {Head: "woken/s", Number: true},
			{Head: "burst p50", Number: true}, {Head: "burst p99", Number: true}, {Head: "long, %", Number: true, Optional: true}, {Head: "CPUs"}, {Head: "because", Optional: true},
		},
	}
	for _, s := range w.Subjects {
		e := s.Evidence
		t.Rows = append(t.Rows, []report.Cell{
			{Text: s.Container.Name}, {Text: string(s.Behaviour)}, {Text: digits(100 * e.Share)}, {Text: digits(e.Wakeups)},
			{Text: kit.Short(e.BurstMedian).String()}, {Text: kit.Short(e.BurstP99).String()}, {Text: digits(100 * e.LongShare)}, {Text: list(s.CPUs)}, {Text: s.Why},
		})
	}
	return t
}

// waits shows for how long each waited for a CPU, and behind whom.
func (w *Watched) waits() report.Table {
	t := report.Table{
		Title:   "How long they wait for a CPU, and behind whom",
		Note:    fmt.Sprintf("From being woken, or preempted, until on a CPU. One that answers suffers where the p99 is over %v and %s or more of its waiting is behind containers that compute.", w.Thresholds.Wait, percent(w.Thresholds.WaitShare)),
		Columns: []report.Column{{Head: "container"}, {Head: "waits", Number: true}, {Head: "p50", Number: true}, {Head: "p99", Number: true}, {Head: "behind, of the time"}},
	}
	for _, s := range w.Subjects {
		e := s.Evidence
		p99 := report.Cell{Text: kit.Short(e.WaitP99).String()}
		if s.Behaviour == Critical && e.WaitP99 > w.Thresholds.Wait {
			p99.Tone = report.Bad
		}
		if e.Waits < w.Thresholds.FewestWaits {
			p99 = report.Absent()
		}
		t.Rows = append(t.Rows, []report.Cell{{Text: s.Container.Name}, {Text: fmt.Sprint(e.Waits)}, {Text: kit.Short(e.WaitMedian).String()}, p99, {Text: w.behind(s)}})
	}
	return t
}

// behind names whom a subject waited behind, the longest first.
func (w *Watched) behind(s *Subject) string {
	type share struct {
		who  string
		part float64
	}
	var all []share
	for i, part := range s.Behind {
		who := ""
		switch {
		case i == bursts.Others:
			who = "processes that were not asked about"
		case i == bursts.Kernel:
			who = "the kernel's threads"
		case i == bursts.Nobody:
			who = "nobody (an idle CPU waking, or its own quota)"
		case i < 0:
			who = "unknown"
		case w.Subjects[i] == s:
			who = "its own threads"
		default:
			who = w.Subjects[i].Container.Name
		}
		all = append(all, share{who, part})
	}
	slices.SortFunc(all, func(a, b share) int {
		if a.part != b.part {
			if a.part > b.part {
				return -1
			}
			return 1
		}
		return strings.Compare(a.who, b.who)
	})
	const most, least = 3, 0.01
	var texts []string
	for _, a := range all {
		if len(texts) == most || a.part < least {
			break
		}
		texts = append(texts, fmt.Sprintf("%s %s", percent(a.part), a.who))
	}
	if len(texts) == 0 {
		return "–"
	}
	return strings.Join(texts, ", ")
}

func actions(p *Proposal) report.Table {
	t := report.Table{
		Title:   "What is proposed, in the order in which it is tried",
		Columns: []report.Column{{Head: "what"}, {Head: "how"}, {Head: "why"}, {Head: "by tare"}},
	}
	for _, a := range p.Actions {
		by := report.Cell{Text: "--apply"}
		if a.Not != "" {
			by = report.Cell{Text: "no: " + a.Not, Tone: report.Faint}
		}
		t.Rows = append(t.Rows, []report.Cell{{Text: string(a.Kind)}, {Text: a.Says}, {Text: a.Reason}, by})
	}
	return t
}

// table shows what came of a trial, for both sides.
func (t Trial) table() report.Table {
	table := report.Table{
		Title:   fmt.Sprintf("Tried: %s (%s)", t.Kind, t.Says),
		Columns: []report.Column{{Head: ""}, {Head: "without", Number: true}, {Head: "with", Number: true}, {Head: "ratio", Number: true}, {Head: "verdict"}},
	}
	if t.Why == "" {
		table.Note = "It was not tried to its end."
		return table
	}
	verdict := report.Cell{Text: "given back", Tone: report.Bad}
	if t.Kept {
		verdict = report.Cell{Text: "stays", Tone: report.Good}
	}
	const toMicros = 1e-3
	var before, after time.Duration
	for _, w := range t.Windows {
		if w.With {
			after += w.Behind
		} else {
			before += w.Behind
		}
	}
	pairs := len(t.Windows) / 2
	table.Rows = [][]report.Cell{
		{{Text: "waits, p99, us"}, report.Estimated(t.Without, toMicros), report.Estimated(t.With, toMicros), report.Estimated(t.Wait, 1), verdict},
		{{Text: "waited behind, ms/s"}, millis(before, pairs), millis(after, pairs), report.Absent(), {}},
		{{Text: "others, CPUs"}, {Text: digits(t.OthersWithout)}, {Text: digits(t.OthersWith)}, report.Estimated(t.Others, 1), {Text: fmt.Sprintf("fair: %s", digits(t.Fair))}},
	}
	for _, b := range t.Each {
		table.Rows = append(table.Rows, b.row())
	}
	table.Note = fmt.Sprintf("%s. Waits are those of the containers that answer, for a CPU, in all and behind those that compute; the others are these. %d pairs of windows, with and without it, in an order drawn for each pair; 95 %% intervals over the pairs. It stays where the waits' ratio lies wholly below 1 and those that compute keep %s of the lesser of what they had and their fair share by weight, and nobody else whom it concerns, each in a row of their own, is harmed: none that answers waits longer beyond doubt, and none but those that suffered loses more than that of what is theirs.", strings.ToUpper(t.Why[:1])+t.Why[1:], pairs, percent(keepsOf))
	if t.Kept && len(t.Commands) > 0 {
		table.Note += " " + keeping
	}
	return table
}

// row shows what came of it for one that it concerns: its CPU time, and, where it
// answers, its waits.
func (b Beside) row() []report.Cell {
	verdict := report.Cell{Text: "fair: " + digits(b.Fair)}
	if b.Suffers {
		verdict.Text = "it suffered"
	}
	if b.Harm != "" {
		verdict = report.Cell{Text: "harmed", Tone: report.Bad}
	}
	ratio := report.Absent()
	what := b.Name + ", CPUs"
	if b.Answers {
		what += "; waits' ratio"
		ratio = report.Estimated(b.Wait, 1)
	}
	return []report.Cell{{Text: what}, {Text: digits(b.Without)}, {Text: digits(b.With)}, ratio, verdict}
}

// keeping tells the two ways of having a change apart.
const keeping = "What tare has set lasts until the container is started again, and tare place --undo gives it back. The commands below have the engine keep it, in its own settings, which --undo does not know: " +
	"after them it would give back the control group alone, until the container is next started. To take back what the engine keeps, give its command what was there before."

func millis(sum time.Duration, windows int) report.Cell {
	return report.Cell{Text: digits(sum.Seconds() * 1e3 / float64(max(1, windows)))}
}

func next(w *Watched, p *Proposal, a *Applied) []string {
	if a != nil {
		if t, ok := a.Kept(); ok {
			return append([]string{"tare place --undo"}, t.Commands...)
		}
	}
	var names []string
	for _, s := range w.Subjects {
		name := s.Container.Name
		if s.Container.PID != 0 && s.Container.Cgroup == "" {
			name = "pid:" + s.Container.ID
		}
		names = append(names, name)
	}
	const most = 6
	if len(names) > most {
		names = []string{"--all"}
	}
	for _, action := range p.Actions {
		if action.Not == "" && a == nil {
			return []string{"tare place --apply " + strings.Join(names, " ")}
		}
	}
	return []string{"tare place --for 60s " + strings.Join(names, " ")}
}
