package network

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/overhead"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/latency/service"
)

// Answer is the sentence that the reader came for: what a trip costs by each way,
// over connections that are kept where they were measured, and what bytes add.
func Answer(run record.Run) string {
	var known []trip
	kept := false
	for _, t := range together(trips(overhead.Read(run)), 2) { // the fixed part, and the bytes'
		if !t.null && t.fit(median).Intercept.Known() {
			known = append(known, t)
			kept = kept || t.connection == Kept
		}
	}
	var told []string
	var most trip
	var bytes stats.Estimate
	for _, t := range known {
		if kept && t.connection != Kept {
			continue
		}
		line := t.fit(median)
		cost := report.Said(line.Intercept, 1) + " us"
		if !line.Intercept.ToldFrom(0) {
			cost = "nothing that could be told (" + cost + ")"
		}
		told = append(told, t.name()+" "+cost)
		if e := line.Combination(0, float64(t.largest())); e.ToldFrom(0) && e.Value > bytes.Value {
			bytes, most = e, t
		}
	}
	if len(told) == 0 {
		return "Against the host's own network no way's cost can be told yet: it takes two sizes and three blocks."
	}
	text := "Against the host's own network a trip costs, by the median: " + strings.Join(told, "; ") + ". "
	if bytes.Value > 0 {
		return text + fmt.Sprintf("The bytes of %s add at most %s us (%s).", sizeText(most.largest()), report.Said(bytes, 1), most.name())
	}
	return text + "What bytes add cannot be told from nothing."
}

// Parts are the run's tables and charts.
func Parts(run record.Run) []report.Part {
	all := trips(overhead.Read(run))
	if len(all) == 0 {
		return nil
	}
	var parts []report.Part
	for _, t := range all {
		if !t.null {
			parts = append(parts, t.table())
		}
	}
	parts = append(parts, fits(all))
	for _, place := range []string{apart, here} {
		for _, connection := range Connections {
			if c, ok := chart(all, place, connection); ok {
				parts = append(parts, c)
			}
			parts = append(parts, tails(all, place, connection)...)
		}
	}
	return append(parts, report.Prose{Title: "What was crossed", Text: crossed(all)})
}

// table is a trip by size.
func (t trip) table() report.Table {
	table := report.Table{
		Title: t.name(),
		Note:  "In microseconds. Differences and ratios are paired by block, of the size's own baseline; intervals by Student's t over blocks.",
		Columns: []report.Column{{Head: "message"}, {Head: "host, median", Number: true}, {Head: t.path + ", median", Number: true},
			{Head: "difference", Number: true}, {Head: "ratio", Number: true},
			{Head: "means differ", Number: true, Optional: true}, {Head: "p99s differ", Number: true, Optional: true}},
	}
	for _, l := range t.levels {
		difference := report.Estimated(t.difference(l, median), 1)
		if !t.difference(l, median).ToldFrom(0) {
			difference.Tone = report.Faint // not to be told from nothing
		}
		table.Rows = append(table.Rows, []report.Cell{{Text: sizeText(l.bytes)},
			report.Estimated(t.Mean(l.base[median.name]), 1), report.Estimated(t.Mean(l.with[median.name]), 1),
			difference, report.Estimated(t.ratio(l, median), 1),
			report.Estimated(t.difference(l, mean), 1), report.Estimated(t.difference(l, p99), 1)})
	}
	return table
}

// fits are the lines of all trips, of the median and of the mean.
func fits(all []trip) report.Table {
	table := report.Table{
		Title: "A fixed part and a part a byte",
		Note: "Lines fitted to the differences in each block, and estimated over blocks. The bytes' part is that of the run's largest message. " +
			"Straight: how probable deviations from the line as large are by noise alone; below 0.01 it is no line. " +
			"The host's second execution against its first is there to be nothing.",
		Columns: []report.Column{{Head: "way"}, {Head: "of"}, {Head: "fixed, us", Number: true}, {Head: "us a KB", Number: true, Optional: true},
			{Head: "its bytes, us", Number: true}, {Head: "straight, p", Number: true, Optional: true}, {Head: "so it is"}},
	}
	decides := together(slices.Clone(all), 2*3) // of median and mean the fixed part, the bytes', and which is more
	for i, t := range all {
		for _, s := range []statistic{median, mean} {
			line := t.fit(s)
			straight := report.Absent()
			if !math.IsNaN(line.Bent) {
				straight = report.Cell{Text: fmt.Sprintf("%.2g", line.Bent)}
			}
			name := report.Cell{Text: t.name()}
			word := report.Cell{Text: kind(decides[i].fit(s), float64(t.largest()))}
			if t.null {
				name.Tone, word.Tone = report.Faint, report.Faint
			}
			table.Rows = append(table.Rows, []report.Cell{name, {Text: s.name}, report.Estimated(line.Intercept, 1), report.Estimated(line.Slope, kilobyte),
				report.Estimated(line.Combination(0, float64(t.largest())), 1), straight, word})
		}
	}
	return table
}

// kind says in a word what a line's parts, with their intervals, amount to.
func kind(line stats.Lines, far float64) string {
	bytes, excess := line.Combination(0, far), line.Combination(1, -far)
	if !line.Intercept.Known() || !bytes.Known() {
		return "not known"
	}
	switch {
	case !line.Intercept.ToldFrom(0) && !bytes.ToldFrom(0):
		return "nothing to be told"
	case line.Intercept.Interval.High < 0 || bytes.Interval.High < 0:
		return "faster in part"
	case excess.Interval.Low > 0 && !bytes.ToldFrom(0):
		return "fixed"
	case excess.Interval.Low > 0:
		return "mostly fixed"
	case excess.Interval.High < 0:
		return "mostly its bytes"
	case !bytes.ToldFrom(0):
		return "fixed; bytes unsure"
	case !line.Intercept.ToldFrom(0):
		return "bytes; fixed unsure"
	}
	return "both"
}

// chart shows the differences of one place against size, and the fitted lines.
func chart(all []trip, place, connection string) (report.Chart, bool) {
	c := report.Chart{
		Title: "What the way costs by the size of a message",
		Note:  "Differences of the medians with their intervals, and the fitted lines, dashed.",
		X:     report.Axis{Label: "message", Unit: "KB"}, Y: report.Axis{Label: "difference from the host's network", Unit: "us"},
	}
	if place == here {
		c.Title += ", on the host itself"
	}
	if connection == New {
		c.Title += ", a connection for each request"
	}
	for _, t := range all {
		if t.null || t.place != place || t.connection != connection || len(t.levels) < 2 {
			continue
		}
		measured := report.Series{Name: t.path + ", service " + t.direction + "s", Group: t.path + t.direction}
		fitted := report.Series{Name: "its line", Group: measured.Group, Dashed: true}
		line := t.fit(median)
		for _, l := range t.levels {
			e := t.difference(l, median)
			if math.IsNaN(e.Value) {
				continue
			}
			p := report.Point{X: float64(l.bytes) / kilobyte, Y: e.Value}
			if e.Known() {
				p.Low, p.High = e.Interval.Low, e.Interval.High
			}
			measured.Points = append(measured.Points, p)
			if at := line.Combination(1, float64(l.bytes)); !math.IsNaN(at.Value) {
				fitted.Points = append(fitted.Points, report.Point{X: p.X, Y: at.Value})
			}
		}
		if len(measured.Points) > 0 {
			c.Series = append(c.Series, measured)
		}
		if len(fitted.Points) > 1 {
			c.Series = append(c.Series, fitted)
		}
	}
	return c, len(c.Series) > 0
}

// trodden are the ways in words.
var trodden = map[string]map[string]string{
	apart: {
		Host:   "host: from a namespace of the client's own over a pair of devices and tare's bridge to the host's stack, where the service listens.",
		NAT:    "nat: the same, and then on: the host rewrites the destination of the published port (DNAT), forwards through its filter to the engine's bridge, and over the container's pair of devices.",
		Bridge: "bridge: the same as nat without the rewriting: the client asks for the container's own address. The port is published nevertheless, for the engine's filter forwards no other.",
	},
	here: {
		Host:      "host over loopback: client and service in the host's network; no device is crossed.",
		Proxy:     "proxy: over loopback to the engine's userland proxy, a program that copies each byte, and from there over the engine's bridge and the container's pair of devices.",
		Container: "container: from a second container's network, over its pair of devices, the engine's bridge, and the service's pair of devices.",
	},
}

// crossed says what lies on the ways that were taken, and what the devices say of it.
func crossed(all []trip) string {
	var paragraphs []string
	seen := map[string]bool{}
	for _, t := range all {
		text := trodden[t.place][t.path]
		if text == "" || seen[text] {
			continue
		}
		seen[text] = true
		paragraphs = append(paragraphs, text+t.carried())
	}
	return strings.Join(paragraphs, "\n\n")
}

// carried is what the devices counted of the trip's trials, all together.
func (t trip) carried() string {
	var client, service float64
	for _, c := range t.Run.Conditions {
		f := c.Factors
		if f[factorExperiment] != Experiment || f[factorPath] != t.path || f[factorClient] != t.place {
			continue
		}
		for _, trial := range t.Trials(c) {
			client += trial.Covariates[clientCarried]
			service += trial.Covariates[serviceCarried]
		}
	}
	switch {
	case client > 0 && service > 0:
		return fmt.Sprintf(" The client's device carried %.1f MB, the container's %.1f MB.", client/1e6, service/1e6)
	case client > 0:
		return fmt.Sprintf(" The client's device carried %.1f MB.", client/1e6)
	case service > 0:
		return fmt.Sprintf(" The container's device carried %.1f MB.", service/1e6)
	}
	return ""
}

// tails are the distributions of the smallest and of the largest messages, of
// one place: each way's, and dashed the host's.
func tails(all []trip, place, connection string) []report.Part {
	var parts []report.Part
	curves := map[int][]report.Tail{}
	var sizes []int
	for _, t := range all {
		if t.null || t.place != place || t.connection != connection || len(t.levels) == 0 {
			continue
		}
		for _, bytes := range []int{t.levels[0].bytes, t.largest()} {
			name := loadOf(bytes).Of(service.Latency)
			for _, of := range []struct {
				condition record.Condition
				name      string
				dashed    bool
			}{{t.of, t.path, false}, {t.base, Host, true}} {
				curve := report.Tail{Name: of.name + ", service " + t.direction + "s", Group: t.direction + t.path, Dashed: of.dashed}
				if of.dashed {
					curve.Group = t.direction
				}
				h, err := t.Merged(of.condition, name)
				twice := slices.ContainsFunc(curves[bytes], func(c report.Tail) bool { return c.Name == curve.Name })
				if err != nil || h == nil || twice {
					continue // the report of the run tells of what cannot be read
				}
				curve.H = h
				curves[bytes] = append(curves[bytes], curve)
			}
			if !slices.Contains(sizes, bytes) && len(curves[bytes]) > 0 {
				sizes = append(sizes, bytes)
			}
		}
	}
	slices.Sort(sizes)
	for _, bytes := range sizes {
		title := "All latencies of messages of " + sizeText(bytes)
		if place == here {
			title += ", on the host itself"
		}
		if connection == New {
			title += ", a connection for each"
		}
		parts = append(parts, report.Tails(title, "Histograms of all blocks, merged; the host's own is dashed.", curves[bytes]))
	}
	return parts
}
