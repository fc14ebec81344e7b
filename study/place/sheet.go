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
	"tare/terminal"
)

// Sheet is the page of what was seen, what is proposed, and, where it was tried, the result.
func Sheet(w *Watched, p *Proposal, a *Applied, on record.Host) report.Sheet {
	s := report.Sheet{
		Title:   "tare place",
		Answer:  answer(w, p, a),
		Facts:   w.facts(on),
		Banners: w.banners(p),
		Parts:   []report.Part{w.waits(), w.behaviours()},
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
			{
				What: "CPU time of the probe, of one CPU", Unit: "%",
				Estimate: stats.Estimate{Value: 100 * w.Weight.Time.Seconds() / w.Span.Seconds(), N: 1},
			},
			{
				What: "for each context switch and wake-up of the host", Unit: "ns",
				Estimate: stats.Estimate{Value: float64(w.Weight.Time) / float64(w.Weight.Runs), N: 1},
			},
		}
	}
	s.Next = next(w, p, a)
	return s
}

func answer(w *Watched, p *Proposal, a *Applied) string {
	switch {
	case p.Healthy():
		return "No latency-critical container waits long for a CPU behind a CPU-bound one: nothing is proposed." + w.elsewhere()
	case a != nil:
		if t, ok := a.Kept(); ok {
			return fmt.Sprintf("Applied: %s. The p99 of waits for a CPU is %s times what it was. The change stays.", t.Says, report.Said(t.Wait, 1))
		}
		if a.Stopped != nil {
			return "The trial was stopped early: all settings are as before."
		}
		return "No proposed change shortened waits for a CPU significantly and without harm: all settings are as before."
	case len(p.Actions) > 0:
		return fmt.Sprintf("%s. Proposed: %s.", w.because(p), p.Actions[0].Says)
	}
	return fmt.Sprintf("%s. No remedy is possible here: %s.", w.because(p), p.Apart)
}

// elsewhere names a container whose waits are long for another reason.
func (w *Watched) elsewhere() string {
	for _, s := range w.Subjects {
		if e := s.Evidence; s.Behaviour == Critical && e.Waits >= w.Thresholds.FewestWaits &&
			e.WaitP99 > w.Thresholds.Wait {
			return fmt.Sprintf(" Yet %s waits up to %v (p99), behind %s.", s.Container.Name, kit.Short(e.WaitP99), w.behind(s))
		}
	}
	return ""
}

// kinds counts the containers of each behaviour.
func (w *Watched) kinds() string {
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
	return strings.Join(kinds, ", ")
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
		"behaviour: " + w.kinds(),
		fmt.Sprintf("watched: %v from %s on, every context switch and wake-up", kit.Short(w.Span), w.Began.UTC().Format("2006-01-02 15:04:05 UTC")),
		report.HostFact(on),
	}
}

func (w *Watched) banners(p *Proposal) []string {
	var banners []string
	for _, n := range w.Notes {
		banners = append(banners, "note: "+n)
	}
	if w.Lost > 0 {
		banners = append(banners, fmt.Sprintf("lost: %d events of the scheduler did not fit into the buffer: counts are too low by as many", w.Lost))
	}
	if p.Apart != "" {
		banners = append(banners, "not separable: "+p.Apart)
	}
	for _, s := range w.Subjects {
		if t := s.Throttling; t.time > 0 && s.Behaviour == Critical {
			banners = append(banners, fmt.Sprintf(
				"throttled: %s exhausted its quota (%v) in %d of %d periods (%s) and waited %v, in the %v watched. "+
					"A larger quota shortens those waits, which are behind no other program (tare diagnose)",
				s.Container.Name,
				kit.Bandwidth(s.Bandwidth),
				t.throttled,
				t.periods,
				percent(t.share()),
				kit.Short(t.time),
				kit.Short(w.Span),
			))
		}
	}
	return banners
}

// behaviours is how each container was classified, and by which figures.
func (w *Watched) behaviours() report.Table {
	t := report.Table{
		Title: "CPU use and behaviour of the containers",
		Note:  "A burst is the time on a CPU until the thread blocks. Wake-ups are those of all its threads.",
		Method: fmt.Sprintf(
			"Latency-critical: %s or more wake-ups per second, bursts up to %v (p50) and %v (p99), and up to %s of its CPUs.\n\n"+
				"CPU-bound: %s or more of its CPU time in bursts longer than %v (long), and a demand of %s CPUs or more, running or waiting.\n\n"+
				"Idle: under %s of a CPU, and under %s wake-ups per second.",
			digits(w.Thresholds.Wakeups),
			w.Thresholds.BurstMedian,
			w.Thresholds.BurstP99,
			percent(w.Thresholds.LowDemand),
			percent(w.Thresholds.LongShare),
			w.Thresholds.LongBurst,
			digits(w.Thresholds.HighDemand),
			percent(w.Thresholds.IdleShare),
			digits(w.Thresholds.IdleWakeups),
		),
		Columns: []report.Column{
			{Head: "container"}, {Head: "behaviour"}, {Head: "CPU, %", Number: true}, {Head: "wake-ups/s", Number: true},
			{Head: "burst p50", Number: true}, {Head: "burst p99", Number: true}, {Head: "long, %", Number: true, Optional: true},
			{Head: "CPUs"}, {Head: "reason", Optional: true},
		},
	}
	for _, s := range w.Subjects {
		e := s.Evidence
		t.Rows = append(t.Rows, []report.Cell{
			{Text: s.Container.Name},
			{Text: string(s.Behaviour)},
			{Text: digits(100 * e.Share)},
			{Text: digits(e.Wakeups)},
			{Text: kit.Short(e.BurstMedian)},
			{Text: kit.Short(e.BurstP99)},
			{Text: digits(100 * e.LongShare)},
			{Text: list(s.CPUs)},
			{Text: s.Why},
		})
	}
	return t
}

// waits is how long each container waited for a CPU, and behind which programs.
func (w *Watched) waits() report.Table {
	t := report.Table{
		Title: "Waits for a CPU",
		Note:  fmt.Sprintf("A wait lasts from wake-up or preemption until the thread is on a CPU. A dash: fewer than %d waits, too few for a p99.", w.Thresholds.FewestWaits),
		Method: fmt.Sprintf("A latency-critical container suffers where its p99 exceeds %v and %s or more of its waiting time is behind CPU-bound containers.",
			w.Thresholds.Wait, percent(w.Thresholds.WaitShare)),
		Columns: []report.Column{
			{Head: "container"}, {Head: "waits", Number: true}, {Head: "p50", Number: true}, {Head: "p99", Number: true},
			{Head: "behind, share of waiting time"},
		},
	}
	for _, s := range w.Subjects {
		e := s.Evidence
		p99 := report.Cell{Text: kit.Short(e.WaitP99)}
		if s.Behaviour == Critical && e.WaitP99 > w.Thresholds.Wait {
			p99.Tone = report.Bad
		}
		if e.Waits < w.Thresholds.FewestWaits {
			p99 = report.Absent()
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: s.Container.Name},
			{Text: fmt.Sprint(e.Waits)},
			{Text: kit.Short(e.WaitMedian)},
			p99,
			{Text: w.behind(s)},
		})
	}
	return t
}

// behind names the programs that a subject waited behind, the longest first.
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
			who = "unwatched processes"
		case i == bursts.Kernel:
			who = "kernel threads"
		case i == bursts.Nobody:
			who = "no other program (an idle CPU waking)"
		case i == bursts.Quota:
			who = "its own quota"
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
		texts = append(texts, fmt.Sprintf("%s %s", a.who, percent(a.part)))
	}
	if len(texts) == 0 {
		return "–"
	}
	return strings.Join(texts, ", ")
}

func actions(p *Proposal) report.Table {
	t := report.Table{
		Title:   "Proposed changes, in the order of trial",
		Columns: []report.Column{{Head: "kind"}, {Head: "change"}, {Head: "reason"}, {Head: "applied by tare"}},
	}
	for _, a := range p.Actions {
		by := report.Cell{Text: "with --apply"}
		if a.Not != "" {
			by = report.Cell{Text: "no: " + a.Not, Tone: report.Faint}
		}
		t.Rows = append(t.Rows, []report.Cell{{Text: string(a.Kind)}, {Text: a.Says}, {Text: a.Reason}, by})
	}
	return t
}

// table is the result of a trial, for both sides.
func (t Trial) table() report.Table {
	table := report.Table{
		Title: fmt.Sprintf("Trial of %s (%s)", t.Kind, t.Says),
		Columns: []report.Column{
			{Head: "figure"}, {Head: "without", Number: true}, {Head: "with", Number: true}, {Head: "ratio", Number: true}, {Head: "result"},
		},
	}
	if t.Why == "" {
		table.Note = "The trial did not finish."
		return table
	}
	verdict := report.Cell{Text: "reverted", Tone: report.Bad}
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
		{
			{Text: "p99 of waits, µs"},
			report.Estimated(t.Without, toMicros),
			report.Estimated(t.With, toMicros),
			report.Estimated(t.Wait, 1),
			verdict,
		},
		{{Text: "waits behind CPU-bound containers, ms/s"}, millis(before, pairs), millis(after, pairs), report.Absent(), {}},
		{
			{Text: "CPU time of CPU-bound containers, CPUs"}, {Text: digits(t.OthersWithout)}, {Text: digits(t.OthersWith)},
			report.Estimated(t.Others, 1), {Text: "fair: " + digits(t.Fair)},
		},
	}
	for _, b := range t.Each {
		table.Rows = append(table.Rows, b.row())
	}
	table.Note = fmt.Sprintf("%s. %d pairs of windows, with and without the change.", strings.ToUpper(t.Why[:1])+t.Why[1:], pairs)
	table.Method = fmt.Sprintf("Waits are those of the suffering latency-critical containers for a CPU. The order within each pair of windows is random. Intervals are at 95 %%, over the pairs.\n\n"+
		"A change stays where three conditions hold: the whole interval of the ratio of waits lies below 1; CPU-bound containers keep %s of the lesser of what they had and their fair share by weight; "+
		"no other container concerned is harmed. A latency-critical container is harmed where it waits significantly longer, any but the suffering ones where it loses more than that of its share.",
		percent(keepsOf))
	if t.Kept && len(t.Commands) > 0 {
		table.Note += "\n\n" + keeping
	}
	return table
}

// row is the result for one container concerned: its CPU time, and, where it is latency-critical,
// the ratio of its waits.
func (b Beside) row() []report.Cell {
	verdict := report.Cell{Text: "fair: " + digits(b.Fair)}
	if b.Suffers {
		verdict.Text = "suffered before"
	}
	if b.Harm != "" {
		verdict = report.Cell{Text: "harmed", Tone: report.Bad}
	}
	ratio := report.Absent()
	what := "CPU time of " + b.Name + ", CPUs"
	if b.Answers {
		what += "; ratio of waits"
		ratio = report.Estimated(b.Wait, 1)
	}
	return []report.Cell{{Text: what}, {Text: digits(b.Without)}, {Text: digits(b.With)}, ratio, verdict}
}

// keeping explains the two ways of having a change.
const keeping = "tare's own change lasts until the container is restarted; tare place --undo reverts it. The commands below make the engine keep the change, in settings which --undo does not know. " +
	"After them --undo would revert the control group alone, until the container is restarted. To revert what the engine keeps, give its command the values from before."

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
		names = append(names, s.Container.Argument())
	}
	const most = 6
	if len(names) > most {
		names = []string{"--all"}
	}
	for _, action := range p.Actions {
		if action.Not == "" && a == nil {
			return []string{"tare place --apply " + terminal.Shell(names...)}
		}
	}
	return []string{"tare place --for 60s " + terminal.Shell(names...)}
}
