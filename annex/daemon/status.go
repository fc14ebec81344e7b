package daemon

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/control"
	"tare/annex/data"
	"tare/annex/media"
	"tare/annex/predict"
	"tare/kernel/process"
	"tare/nearest"
)

// Status tells how it stands. Of one that has ended it tells that alone.
func (d *Daemon) Status() control.Status {
	s := control.Status{
		Schema:   control.Schema,
		Version:  d.parts.Version,
		State:    control.Ending,
		PID:      os.Getpid(),
		At:       time.Now(),
		Started:  d.started,
		Since:    time.Now(),
		Tiers:    []control.Tier{},
		Contexts: []control.Context{}, // lists, however little is in them
	}
	// Areas have an account that is written to a disk: that is nothing for the goroutine of Run.
	if running := d.do(context.Background(), func() { d.tell(&s) }); running == nil && d.parts.Tiers != nil {
		s.Tiers = append(s.Tiers, d.parts.Tiers()...)
	}
	s.Warnings = append(s.Warnings, spent(s.Tiers)...)
	isNoSwap := func(text string) bool { return strings.Contains(text, "no swap") }
	text := cmp.Or(noRoom(s.Memory), overHalf(s.Memory, s.Tiers))
	isKnown := isNoSwap(text) && slices.ContainsFunc(s.Warnings, isNoSwap) // by the last look at the host
	if text != "" && s.State != control.Ending && !isKnown {
		s.Warnings = append(s.Warnings, text)
	}
	s.Weight.ResidentBytes = residentBytes()
	if cpu, err := process.CPUTime(); err == nil {
		s.Weight.CPUSeconds = cpu.Seconds()
	}
	return s
}

// tell fills in what the goroutine of Run knows.
func (d *Daemon) tell(s *control.Status) {
	known := d.parts.Data.Status()
	s.State, s.Mode, s.Since = d.state, string(d.settings.Mode), d.entered
	s.Config, s.Loaded = d.settings.File, d.settings.Loaded
	s.Memory = control.Memory{
		Defended:      d.settings.Defended,
		LimitBytes:    d.memory.Limit,
		FreeBytes:     d.memory.Free,
		HeadroomBytes: d.settings.Policy.Low,
		PoolBytes:     d.memory.Pool,
		SwapBytes:     d.memory.SwapSize,
		SwapFreeBytes: d.memory.SwapFree,
	}
	s.Brake = d.tellBrake()
	wasted := 0
	for _, c := range known.Contexts {
		wasted += c.Use.Wasted
		s.Contexts = append(s.Contexts, d.tellContext(c))
		s.Weight.ManagedBytes += c.ResidentBytes + c.ExtendedBytes
	}
	if d.settings.Mode == config.Observe {
		wasted = 0 // what data knows of it is the shadow's
		o := d.shadow.observed()
		s.Observed = &control.Observed{
			FreeBytes: d.shadow.memory(d.memory).Free, EvictedBytes: o.Left * annex.PageSize,
			ReturnedBytes: o.Returned * annex.PageSize, AddedFaults: o.Faults,
		}
		if o.Left > 0 {
			wrong := float64(o.Wrong) / float64(o.Left)
			s.Observed.WrongShare = &wrong
		}
	}
	s.Moved = d.all.status(wasted)
	if d.drain.on {
		s.Drain = d.tellDrain(known)
	}
	if share, ok := d.weight.share(); ok {
		s.Weight.CPUShare = &share
	}
	s.Weight.LostEvents = int64(d.lost)
	s.Weight.GaveWaySeconds = d.parts.Monitor.Given().Seconds()
	s.Warnings = slices.Concat(
		d.parts.Warnings,
		d.settings.Warnings,
		d.doubts,
		d.notes,
		d.unbraked(),
		d.unscanned(),
		d.setAsides(),
	)
	unguarded, vain := "", ""
	if d.parts.Vain != nil {
		vain = d.parts.Vain()
	}
	if d.parts.Unguarded != nil {
		unguarded = d.parts.Unguarded()
	}
	futile := d.movers.futile.problem(d.now(), vain)
	for _, text := range []string{d.refused, d.swapTrouble, futile, d.crowded(), d.weight.starved(), unguarded} {
		if text != "" {
			s.Warnings = append(s.Warnings, text)
		}
	}
	if known.Degraded != "" {
		s.Warnings = append(s.Warnings, known.Degraded)
	}
	if d.logErr != nil {
		s.Warnings = append(s.Warnings, d.logErr.Error())
	}
}

// spent says of which areas the day's budget of writes is used up.
func spent(tiers []control.Tier) (all []string) {
	const chunk = 1 << 20 // less than that is not worth a request
	for _, t := range tiers {
		if t.DailyBytes > 0 && t.WrittenTodayBytes+chunk > t.DailyBytes {
			all = append(all, fmt.Sprintf("%s: %d MiB were written today, of %d MiB that its tier allows: while the kernel fills it nothing more leaves before the next day (UTC)", t.Area, t.WrittenTodayBytes>>20, t.DailyBytes>>20))
		}
	}
	return all
}

// noRoom says that nothing can leave: swap is full, or there is none.
func noRoom(m control.Memory) string {
	switch {
	case m.LimitBytes == 0: // nothing is known yet
	case m.SwapBytes == 0:
		return "there is no swap: nothing can leave (mkswap, swapon)"
	case m.SwapFreeBytes < annex.PageSize:
		return fmt.Sprintf("swap is full (%d MiB): nothing more can leave: add an area (mkswap, swapon), or manage fewer containers", m.SwapBytes>>20)
	}
	return ""
}

// overHalf says what it costs where swap is more than half full: from there on the kernel gives up
// the place of each page that is used again (vm_swap_full of its include/linux/swap.h), so that a page
// that was only read has to be written too when it leaves. To compressed memory nothing is written,
// and a place that is kept there is memory that is taken twice.
func overHalf(m control.Memory, tiers []control.Tier) string {
	used := m.SwapBytes - m.SwapFreeBytes
	written := func(t control.Tier) bool { return t.Kind != string(media.ZRAM) }
	if 2*used <= m.SwapBytes || !slices.ContainsFunc(tiers, written) {
		return ""
	}
	return fmt.Sprintf("swap is more than half full (%d of %d MiB): the kernel then gives up the place of each page that is used again, so that all are written anew when they leave: have it twice as large as what it holds", used>>20, m.SwapBytes>>20)
}

// crowded says the same of limits of swap.
func (d *Daemon) crowded() string {
	n, first := 0, (*held)(nil)
	for _, id := range d.ids() {
		if h := d.held[id]; h.crowded != "" {
			if n++; first == nil {
				first = h
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("of what may be in swap half or more is used (containers: %d; %s by the limit of %s): the kernel then gives up the place of each page that is used again, so that all are written anew when they leave: raise memory.swap.max there to twice as much", n, first.container.Name, first.crowded)
}

func (d *Daemon) tellBrake() control.Brake {
	b := control.Brake{
		On: d.braked.why != "", Why: d.braked.why, Stops: d.braked.stops,
		CriticalLimitShare: d.settings.CriticalLimit, StopWithinSeconds: d.settings.StopWithin.Seconds(),
	}
	if b.On {
		since := d.braked.since
		b.Since = &since
	}
	if share, ok := d.stalls.worst(); ok {
		b.CriticalShare = &share
	}
	if d.braked.worst > 0 {
		worst := d.braked.worst.Seconds()
		b.WorstStopSeconds = &worst
	}
	return b
}

func (d *Daemon) tellDrain(known data.Status) *control.Drain {
	out := &control.Drain{RateBytesPerSecond: d.drain.rate, Problem: d.drain.problem}
	for _, c := range known.Contexts {
		out.LeftBytes += c.ExtendedBytes
	}
	out.ReturnedBytes = d.all.fetched + d.all.mapped - d.drain.before
	return out
}

// tellContext is one container.
func (d *Daemon) tellContext(c data.ContextStatus) control.Context {
	out := control.Context{
		ID: c.ID, Name: c.Name, Class: c.Class, State: control.Dormant,
		ResidentBytes: c.ResidentBytes, ExtendedBytes: c.ExtendedBytes, ShareBytes: c.ShareBytes,
		Problem: c.Fixed,
	}
	h := d.held[c.ID]
	switch {
	case h != nil && h.what.frozen:
		out.State = control.Frozen
	case c.Fixed != "":
		out.State = control.Fixed
	case c.Awake, c.Class == annex.Critical && h != nil && !h.what.idle:
		out.State = control.Active
	}
	if c.Class == annex.Elastic {
		out.Activity = &control.Activity{
			Activations: int64(c.Activations),
			Probes:      int64(c.Probes),
			DemandPages: int64(c.Use.Misses),
		}
	}
	if c.Expected {
		now := d.now()
		out.Next = &control.Forecast{
			EarliestSeconds: c.Next.Earliest.Since(now).Seconds(),
			LikelySeconds:   c.Next.Likely.Since(now).Seconds(),
			LatestSeconds:   c.Next.Latest.Since(now).Seconds(),
		}
	}
	if c.Use.Hits+c.Use.Misses > 0 {
		out.HitShare = &c.HitRate
	}
	if c.Use.Evicted > 0 {
		share := float64(c.Use.Errors) / float64(c.Use.Evicted)
		out.ErrorShare = &share
	}
	for _, s := range c.Scores {
		out.Predictors = append(out.Predictors, score(s))
	}
	if last := d.last[c.ID]; last != nil {
		out.Last, out.LastOp = annex.Reason(last.Why), last.What
	}
	observing := d.settings.Mode == config.Observe
	if observing && c.Class == annex.Elastic {
		// What data was told is of the shadow.
		out.Observed = &control.ObservedContext{ResidentBytes: c.ResidentBytes, ExtendedBytes: c.ExtendedBytes}
		away := d.shadow.awayOf(c.ID) * annex.PageSize
		out.ResidentBytes, out.ExtendedBytes = c.ResidentBytes+away, max(c.ExtendedBytes-away, 0)
		out.HitShare, out.ErrorShare, c.Use.Wasted = nil, nil, 0
	}
	out.Moved = d.moved[c.ID].status(c.Use.Wasted)
	if h != nil {
		out.Image = h.container.Image
		if h.unknown == "" {
			out.PressureShare = &c.Pressure
		}
		out.Aside = h.aside.isOn(d.now())
		if out.Problem == "" {
			out.Problem = cmp.Or(h.aside.problem(d.now()), h.trouble)
		}
		if out.Problem == "" && h.class == annex.Critical && h.unknown != "" {
			out.Problem = "its pressure is not known, so that it stops no eviction" // the warning says why
		}
		if (h.class != annex.Elastic || observing || h.fixed != "") && d.parts.Size != nil {
			// One that has just ended has nothing.
			if resident, extended, err := d.parts.Size(h.container); err == nil {
				out.ResidentBytes, out.ExtendedBytes = resident, extended
			}
		}
	}
	return out
}

func score(s predict.Score) control.Score {
	return control.Score{
		Kind:           s.Kind,
		PrecisionShare: s.Precision,
		RecallShare:    s.Recall,
		LeadSeconds:    s.Lead.Seconds(),
		Predictions:    s.Predictions,
		On:             s.On,
	}
}

// Explain tells why a container's pages are where they are.
func (d *Daemon) Explain(name string) (e control.Explanation, err error) {
	ending := d.do(context.Background(), func() {
		var h *held
		if h, err = d.named(name); err != nil {
			return
		}
		why, ok := d.parts.Data.Explain(h.id)
		if !ok {
			err = &control.Unknown{Container: name}
			return
		}
		e = control.Explanation{
			Schema:    control.Schema,
			Context:   d.tellContext(why.ContextStatus),
			Decisions: []control.Decision{},
		}
		e.Sentences = d.sentences(h, why, e.Context)
		now, clock := d.now(), time.Now()
		for _, one := range why.Decisions {
			decision := control.Decision{
				At:      clock.Add(-now.Since(one.First)),
				Op:      one.Op.String(),
				Why:     one.Why,
				Detail:  one.Says,
				Asked:   one.Pages,
				Moved:   one.Moved,
				Seconds: one.Last.Since(one.First).Seconds(),
				Problem: one.Problem,
			}
			if d.modeAt(one.First) == config.Observe {
				decision.Observed, decision.Moved = true, 0
			}
			e.Decisions = append(e.Decisions, decision)
		}
	})
	if ending != nil {
		return e, ending
	}
	return e, err
}

// sentences say how it stands with a container.
func (d *Daemon) sentences(h *held, e data.Explanation, is control.Context) []string {
	var all []string
	if e.Held != "" {
		all = append(all, e.Held)
	}
	if h.class != annex.Elastic {
		return all
	}
	now := d.now()
	what := "It sleeps, and last worked "
	switch {
	case h.what.frozen:
		what = "It is frozen or stopped, so that nothing is fetched for it, and last worked "
	case e.Awake:
		what = "It runs since "
	}
	all = append(all, fmt.Sprintf("%s%v ago; %d MiB are in memory and %d MiB in swap; its share is %d MiB.",
		what, now.Since(e.Since).Round(time.Millisecond), is.ResidentBytes>>20, is.ExtendedBytes>>20, e.ShareBytes>>20))
	if would := is.Observed; would != nil {
		all = append(all, fmt.Sprintf("Managed, %d MiB would be in memory and %d MiB in swap: in mode observe nothing moves.", would.ResidentBytes>>20, would.ExtendedBytes>>20))
	}
	switch {
	case e.Awake, h.what.frozen:
	case e.Expected:
		all = append(
			all,
			fmt.Sprintf(
				"It is expected to wake in %v, between %v and %v.",
				roughly(e.Next.Likely, now),
				roughly(e.Next.Earliest, now),
				roughly(e.Next.Latest, now),
			),
		)
	default:
		all = append(all, "When it wakes next is not known: it leaves by how long it sleeps.")
	}
	if e.RecordBytes > 0 {
		all = append(all, fmt.Sprintf("What it touches when it wakes is known: %d MiB.", e.RecordBytes>>20))
	}
	for _, is := range []struct{ what, text string }{
		{"Calls for it hang: ", h.aside.problem(now)}, {"Its pressure is not known: ", h.unknown}, {"Trouble: ", h.trouble},
	} {
		if is.text != "" {
			all = append(all, is.what+is.text)
		}
	}
	return all
}

func roughly(at, now annex.Moment) time.Duration { return at.Since(now).Round(100 * time.Millisecond) }

// shortestID is how much of an id names a container at least.
const shortestID = 3

// named finds a container by its name, its id or the beginning of one.
func (d *Daemon) named(name string) (*held, error) {
	var names []string
	for _, match := range []func(h *held) bool{
		func(h *held) bool { return h.container.Name == name || h.container.ID == name || string(h.id) == name },
		func(h *held) bool { return len(name) >= shortestID && strings.HasPrefix(h.container.ID, name) },
	} {
		var fit []*held
		for _, id := range d.ids() {
			if h := d.held[id]; match(h) {
				fit = append(fit, h)
			}
		}
		if len(fit) == 1 {
			return fit[0], nil
		}
		if len(fit) > 1 {
			several := &control.Unknown{Container: name}
			for _, h := range fit {
				several.Several = append(several.Several, fmt.Sprintf("%s (%s)", h.container.Name, h.id))
			}
			return nil, several
		}
	}
	for _, id := range d.ids() {
		names = append(names, d.held[id].container.Name)
	}
	near := nearest.Of(names, 3, func(known string) (int, bool) {
		if len(name) >= shortestID && strings.Contains(known, name) {
			return 0, true
		}
		far := nearest.Edits(name, known)
		return far, far <= max(1, len(known)/4)
	})
	return nil, &control.Unknown{Container: name, Near: near}
}
