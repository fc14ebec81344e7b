package annex

import (
	"fmt"
	"strings"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/control"
	"tare/terminal"
)

// summary is what a status tells of the whole: a line a subject.
func summary(s control.Status) []string {
	lines := []string{
		fmt.Sprintf(
			"annexd    %s for %s by %s, mode %s",
			terminal.Line(string(s.State)),
			spanText(s.At.Sub(s.Since)),
			terminal.Line(s.Config),
			terminal.Line(s.Mode),
		),
	}
	add := func(head, format string, args ...any) {
		lines = append(lines, terminal.Fit(head, 9, false)+" "+fmt.Sprintf(format, args...))
	}
	m := s.Memory
	add("memory", "%s: %s free of %s, headroom %s", terminal.Line(m.Defended), sizeText(m.FreeBytes), sizeText(m.LimitBytes), sizeText(m.HeadroomBytes))
	if m.PoolBytes > 0 {
		lines[len(lines)-1] += ", " + sizeText(m.PoolBytes) + " hold compressed swap"
	}
	if len(s.Tiers) == 0 {
		add("swap", "%s free of %s", sizeText(m.SwapFreeBytes), sizeText(m.SwapBytes))
	}
	for _, t := range s.Tiers {
		// Figures first: where the screen is narrow, a long path is what is cut.
		text := fmt.Sprintf("%s free of %s, %s written today", sizeText(t.FreeBytes), sizeText(t.SizeBytes), sizeText(t.WrittenTodayBytes))
		if t.DailyBytes > 0 {
			text += " of " + sizeText(t.DailyBytes)
		}
		text += ": " + terminal.Line(t.Kind) + " " + terminal.Line(t.Area)
		if t.Encrypted != nil && !*t.Encrypted {
			text += ", not encrypted"
		}
		if t.Problem != "" {
			text += "; " + terminal.Line(t.Problem)
		}
		add("swap", "%s", text)
	}
	add("brake", "%s", brakeText(s.Brake))
	add("moved", "%s", movedText(s.Moved))
	if o := s.Observed; o != nil {
		text := fmt.Sprintf("%s would be free, %s would have left, at most %s added", sizeText(o.FreeBytes), sizeText(o.EvictedBytes), plural(o.AddedFaults, "fault"))
		if o.WrongShare != nil {
			text += " and " + shareText(o.WrongShare) + " of it used within a minute"
		}
		add("observed", "%s", text)
	}
	if d := s.Drain; d != nil {
		add("drain", "%s", drainText(*d))
	}
	var theirs int64
	for _, c := range s.Contexts {
		if c.Class == annex.Critical {
			theirs += c.ExtendedBytes
		}
	}
	if theirs > 0 {
		add("critical", "%s of critical containers are in swap, which annexd does not move: they come back as they are used", sizeText(theirs))
	}
	weight := fmt.Sprintf("%s, %.1f s of CPU time", sizeText(s.Weight.ResidentBytes), s.Weight.CPUSeconds)
	if s.Weight.CPUShare != nil {
		weight += " (" + shareText(s.Weight.CPUShare) + " of one now)"
	}
	if s.Weight.GaveWaySeconds > 0 {
		weight += fmt.Sprintf(", gave way for %.1f s", s.Weight.GaveWaySeconds)
	}
	if s.Weight.LostEvents > 0 {
		weight += ", " + plural(s.Weight.LostEvents, "event") + " lost"
	}
	add("itself", "%s", weight)
	for _, w := range s.Warnings {
		lines = append(lines, "warning: "+terminal.Line(w))
	}
	return lines
}

func brakeText(b control.Brake) string {
	var text strings.Builder
	if b.On {
		text.WriteString("ON")
		if b.Why != "" {
			text.WriteString(": " + terminal.Line(b.Why))
		}
	} else {
		text.WriteString("off")
	}
	limit := b.CriticalLimitShare
	fmt.Fprintf(&text, "; critical pressure %s of %s", shareText(b.CriticalShare), shareText(&limit))
	if b.Stops > 0 {
		fmt.Fprintf(&text, "; stopped %s", times(b.Stops))
	}
	fmt.Fprintf(&text, ", within %s", config.FormatDuration(seconds(b.StopWithinSeconds)))
	if b.WorstStopSeconds != nil {
		fmt.Fprintf(&text, " (at worst %s)", spanText(seconds(*b.WorstStopSeconds)))
	}
	return text.String()
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return plural(n, "time")
}

func movedText(m control.Moved) string {
	back := m.FetchedBytes + m.MappedBytes
	text := fmt.Sprintf("%s left, %s came back", sizeText(m.EvictedBytes), sizeText(back))
	if back > 0 {
		wasted := float64(m.WastedBytes) / float64(back)
		text += ", " + shareText(&wasted) + " of it unused"
	}
	if m.Failed > 0 {
		text += ", " + plural(m.Failed, "request") + " failed"
	}
	return text
}

func drainText(d control.Drain) string {
	text := fmt.Sprintf("%s came back, %s still in swap", sizeText(d.ReturnedBytes), sizeText(d.LeftBytes))
	if d.RateBytesPerSecond > 0 {
		text += ", " + sizeText(d.RateBytesPerSecond) + "/s at most"
	}
	if d.Problem != "" {
		text += "; " + terminal.Line(d.Problem)
	}
	return text
}
