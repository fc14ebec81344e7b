package offcpu

import (
	"fmt"
	"math"
	"strings"
	"time"

	"tare/container"
	"tare/probe/causes"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/kit"
	"tare/terminal"
)

// Sheet is the page of the result.
func (w *Watched) Sheet(on record.Host) report.Sheet {
	s := report.Sheet{
		Title: "tare causes: " + w.Container.Name, Answer: w.Answer(),
		Facts: []string{
			"watched: " + w.subject(),
			fmt.Sprintf("time: %v from %s, every switch and wake-up counted", kit.Short(w.Reading.Span), w.Began.UTC().Format("2006-01-02 15:04:05 UTC")),
			report.HostFact(on),
		},
		Banners: w.banners(),
		Weight:  w.weight(),
		Next:    w.next(),
	}
	if _, absent := w.Reading.Lacks(partSwitches); !absent {
		s.Parts = append(s.Parts, w.times())
	}
	s.Parts = append(s.Parts, w.counts())
	if t := w.blockedOn(); len(t.Rows) > 0 {
		s.Parts = append(s.Parts, t)
	}
	if f, ok := Flame("Time off the CPU, by stack", w.Reading.Off); ok {
		s.Parts = append(s.Parts, report.Long{Part: f}, w.longest(f.Root.Value))
	}
	if t := w.absent(); len(t.Rows) > 0 {
		s.Parts = append(s.Parts, t)
	}
	return s
}

func (w *Watched) subject() string {
	c := w.Container
	text := c.Name + " (" + string(c.Engine) + ")"
	if c.Engine == container.Process {
		text += ", with its descendants"
	}
	if r := w.Reading; r.Used > 0 {
		text += fmt.Sprintf("; it used %v of CPU time, on %d of %d CPUs", kit.Short(r.CPUTime), r.Used, r.CPUs)
	}
	return text
}

func (w *Watched) banners() []string {
	var banners []string
	for _, n := range w.Notes {
		banners = append(banners, "note: "+n)
	}
	r := &w.Reading
	if r.Lost > 0 {
		banners = append(banners, fmt.Sprintf("lost: the probe's tables were full for %d events: the counts are too low by as many", r.Lost))
	}
	if s := r.Throttling.Stale; s > 0 {
		banners = append(banners, fmt.Sprintf("note: its control group was removed before the end: its counts are from at most %v before that", kit.Short(s)))
	}
	return banners
}

// times are the distributions of time.
func (w *Watched) times() report.Table {
	r := &w.Reading
	t := report.Table{
		Title: "Time of its threads, by state",
		Note: "Run: on a CPU until it left it. Burst: on a CPU until it blocked, preemptions ignored. " +
			"Wait: from being woken or preempted until it had a CPU. Blocked: until it was woken.",
		Method: "Quantiles are interpolated in the steps of a histogram.",
		Columns: []report.Column{
			{Head: "state"}, {Head: "count", Number: true}, {Head: "sum, ms", Number: true}, {Head: "mean, ms", Number: true, Optional: true},
			{Head: "p50, ms", Number: true}, {Head: "p99, ms", Number: true},
		},
	}
	for _, row := range []struct {
		name string
		of   *causes.Distribution
	}{{"run", &r.Run}, {"burst", &r.Burst}, {"wait", &r.Wait}, {"blocked", &r.Blocked}} {
		cells := []report.Cell{{Text: row.name}, {Text: fmt.Sprint(row.of.Count)}}
		for _, d := range []time.Duration{row.of.Sum, row.of.Mean(), row.of.Quantile(0.5), row.of.Quantile(0.99)} {
			cell := report.Absent()
			if row.of.Count > 0 {
				cell = report.Measured(millis(d))
			}
			cells = append(cells, cell)
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// counts are the numbers of events.
func (w *Watched) counts() report.Table {
	r := &w.Reading
	t := report.Table{
		Title: "Scheduler events",
		Columns: []report.Column{
			{Head: "event"}, {Head: "count", Number: true}, {Head: "per second", Number: true, Optional: true}, {Head: "meaning"},
		},
	}
	add := func(part, name string, n uint64, meaning string) {
		row := []report.Cell{
			{Text: name},
			{Text: fmt.Sprint(n)},
			{Text: digits(float64(n) / math.Max(r.Span.Seconds(), 1e-9))},
			{Text: meaning},
		}
		if _, absent := r.Lacks(part); absent {
			row = []report.Cell{{Text: name}, report.Absent(), report.Absent(), {Text: "not measured", Tone: report.Faint}}
		}
		t.Rows = append(t.Rows, row)
	}
	share := func(part, whole uint64) string {
		if whole == 0 {
			return ""
		}
		return fmt.Sprintf("%s %% of %d", digits(100*float64(part)/float64(whole)), whole)
	}
	i := &r.Interrupts
	add(partSwitches, "voluntary switches", r.Voluntary, "blocked or ended")
	add(partSwitches, "involuntary switches", r.Involuntary, "preempted")
	add(partSwitches, "migrations", r.Migrations, "moved to another CPU")
	add(partSwitches, "wake-ups", r.Wakeups, "")
	add(partInterrupts, "wake-ups by interrupts", i.Wakeups, share(i.Wakeups, r.Wakeups))
	add(partInterrupts, "of these, to another CPU", i.Elsewhere, share(i.Elsewhere, i.Wakeups))
	throttling := fmt.Sprintf("of %d periods in %v, %v in all", r.Throttling.Periods, kit.Short(r.Span), kit.Short(r.Throttling.Time))
	if r.Throttling.Periods == 0 {
		throttling = "no quota, or idle"
	}
	add(partThrottling, "throttled periods", uint64(max(0, r.Throttling.Throttled)), throttling)
	return t
}

// blockedOn is the blocked time by cause.
func (w *Watched) blockedOn() report.Table {
	t := report.Table{
		Title:  "Blocked time, by cause",
		Note:   "No work: in a poll, in accept or asleep, which delays nothing unless another program's answer is awaited. Threads that wait for work on a futex count as blocked.",
		Method: "By the stacks of blocked threads. The time is until they had a CPU again.",
		Columns: []report.Column{
			{Head: "cause"}, {Head: "system call"}, {Head: "count", Number: true, Optional: true},
			{Head: "time, ms", Number: true}, {Head: "share, %", Number: true},
		},
	}
	const most, least = 6, 0.005
	all, sum := obstacles(w.Reading.Off)
	for i, o := range all {
		if i == most || o.time.Seconds() < least*sum.Seconds() {
			break
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: string(o.cause)}, {Text: o.through}, {Text: fmt.Sprint(o.count)},
			report.Measured(millis(o.time)), {Text: digits(100 * o.time.Seconds() / sum.Seconds())},
		})
	}
	return t
}

// longest are the stacks with the longest time off the CPU, of so many milliseconds in
// all.
func (w *Watched) longest(whole float64) report.Table {
	t := report.Table{
		Title: "Stacks with the longest time off the CPU",
		Note:  "The innermost function is first. Preempted: other threads had the CPU, or the quota was used up.",
		Columns: []report.Column{
			{Head: "time, ms", Number: true}, {Head: "share, %", Number: true}, {Head: "count", Number: true}, {Head: "stack"},
		},
	}
	const most, deep = 5, 7
	for i, s := range w.Reading.Off {
		if i == most {
			break
		}
		frames := s.Frames[:min(deep, len(s.Frames))]
		text := s.Program + ", blocked: "
		if s.Waiting {
			text = s.Program + ", preempted: "
		}
		text += strings.Join(frames, " ← ")
		if more := len(s.Frames) - len(frames); more > 0 {
			text += fmt.Sprintf(" ← %d more", more)
		}
		t.Rows = append(t.Rows, []report.Cell{
			report.Measured(millis(s.Time)),
			{Text: digits(100 * millis(s.Time) / whole)},
			{Text: fmt.Sprint(s.Count)},
			{Text: text},
		})
	}
	return t
}

// absent lists what was not measured, and why.
func (w *Watched) absent() report.Table {
	t := report.Table{Title: "Not measured", Columns: []report.Column{{Head: "part"}, {Head: "reason"}}}
	for _, a := range w.Reading.Absent {
		t.Rows = append(t.Rows, []report.Cell{{Text: a.Part}, {Text: a.Reason, Tone: report.Faint}})
	}
	if _, listed := w.Reading.Lacks(partStacks); !w.Stacks && !listed {
		t.Rows = append(t.Rows, []report.Cell{{Text: partStacks}, {Text: "turned off (--no-stacks)", Tone: report.Faint}})
	}
	return t
}

// weight is the CPU time of the probe itself. It is not estimated: the kernel timed all
// of it.
func (w *Watched) weight() report.Weight {
	r := &w.Reading
	if r.Weight <= 0 || r.Span <= 0 {
		return nil
	}
	item := func(what string, of time.Duration) report.WeightItem {
		return report.WeightItem{
			What: what, Unit: "%", Reason: "the kernel timed each of their runs",
			Estimate: stats.Estimate{Value: 100 * r.Weight.Seconds() / of.Seconds(), N: 1},
		}
	}
	all := report.Weight{item("CPU time of the probe's programs, of one CPU", r.Span)}
	if r.CPUTime > 0 {
		all = append(all, item("compared with the CPU time of the program", r.CPUTime))
	}
	return all
}

// next proposes the next command.
func (w *Watched) next() []string {
	r := &w.Reading
	switch {
	case throttled(r) && r.Wait.Sum > r.Blocked.Sum:
		return []string{"tare diagnose " + terminal.Shell(w.Container.Argument())}
	case r.Wait.Sum > r.Blocked.Sum:
		return []string{"tare place --all"}
	}
	return []string{"tare causes " + terminal.Shell(w.Container.Argument()) + " --for 60s --out ."}
}

func millis(d time.Duration) float64 { return d.Seconds() * 1e3 }
