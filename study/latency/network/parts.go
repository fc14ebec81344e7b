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

// Answer is the headline: what each path adds to a request by the median, over kept
// connections where they were measured, and what the bytes add.
func Answer(run record.Run) string {
	var known []trip
	kept := false
	for _, t := range together(trips(overhead.Read(run)), 2) { // the fixed part, and the bytes'
		if !t.null && t.fit(median).Intercept.Known() {
			known = append(known, t)
			kept = kept || t.connection == Kept
		}
	}
	var paths []string
	costs := map[string][]string{} // by path
	var most trip
	var bytes stats.Estimate
	for _, t := range known {
		if kept && t.connection != Kept {
			continue
		}
		line := t.fit(median)
		subject := "it"
		if costs[t.path] == nil {
			paths = append(paths, t.path)
			subject = "the service"
		}
		costs[t.path] = append(costs[t.path], added(line.Intercept)+" when "+subject+" "+t.direction+"s")
		if e := line.Combination(0, float64(t.largest())); e.DiffersFrom(0) && e.Value > bytes.Value {
			bytes, most = e, t
		}
	}
	if len(paths) == 0 {
		return "No path can be compared with the host's network yet: that requires two sizes and three blocks."
	}
	var clauses []string
	for _, path := range paths {
		clauses = append(clauses, path+" adds "+strings.Join(costs[path], " and "))
	}
	text := "Compared with the host's network, "
	if !kept {
		text = "With one connection per request, compared with the host's network, "
	}
	text += strings.Join(clauses, "; ") + ". "
	if bytes.Value > 0 {
		return text + fmt.Sprintf("The bytes of %s add at most %s µs more (%s).", sizeText(most.largest()), report.Said(bytes, 1), most.name())
	}
	return text + "No cost of the bytes was found."
}

// added writes what a path adds to a request, in microseconds.
func added(e stats.Estimate) string {
	if !e.DiffersFrom(0) {
		return "no significant time (" + report.Estimated(e, 1).Detail + " µs)"
	}
	return report.Said(e, 1) + " µs"
}

// Parts are the run's charts and tables.
func Parts(run record.Run) []report.Part {
	all := trips(overhead.Read(run))
	if len(all) == 0 {
		return nil
	}
	var parts []report.Part
	for _, place := range []string{apart, here} {
		for _, connection := range Connections {
			if c, ok := chart(all, place, connection); ok {
				parts = append(parts, c)
			}
		}
	}
	parts = append(append(parts, fits(all)), report.Filled(small(all))...)
	for _, t := range all {
		if !t.null {
			parts = append(parts, t.table())
		}
	}
	for _, place := range []string{apart, here} {
		for _, connection := range Connections {
			parts = append(parts, tails(all, place, connection)...)
		}
	}
	return append(parts, report.Prose{Title: "Network paths", Text: crossed(all)})
}

// table is a trip by size.
func (t trip) table() report.Table {
	table := report.Table{
		Title:  "Latency by message size: " + t.name(),
		Note:   "Faint or in parentheses: the difference is not significant.",
		Method: "Differences and ratios are paired by block, against the host's network at the same size. Intervals: Student's t over blocks.",
		Columns: []report.Column{
			{Head: "message"}, {Head: "host median, µs", Number: true}, {Head: t.path + " median, µs", Number: true},
			{Head: "difference, µs", Number: true}, {Head: "ratio", Number: true},
			{Head: "difference of means, µs", Number: true, Optional: true},
			{Head: "difference of p99s, µs", Number: true, Optional: true},
		},
	}
	for _, l := range t.levels {
		table.Rows = append(table.Rows, []report.Cell{
			{Text: sizeText(l.bytes)},
			report.Estimated(t.Mean(l.base[median.name]), 1), report.Estimated(t.Mean(l.with[median.name]), 1),
			report.Against(0, t.difference(l, median)), report.Estimated(t.ratio(l, median), 1),
			report.Estimated(t.difference(l, mean), 1), report.Estimated(t.difference(l, p99), 1),
		})
	}
	return table
}

// small are the small messages between two containers, by which S4 explains a published loss.
func small(all []trip) report.Table {
	table := report.Table{
		Title: "Small messages, both ends on the bridge",
		Note: "Another paper has round trips 80 % longer over the bridge (Felter 2015). S4 explains that by small messages, " +
			"and by both ends being in containers. Faint: the difference is not significant.",
		Method: "Medians against the host's loopback at the same size, paired by block. Intervals: Student's t over blocks.",
		Columns: []report.Column{
			{Head: "path"}, {Head: "message"}, {Head: "loopback, µs", Number: true}, {Head: "bridge, µs", Number: true},
			{Head: "longer, %", Number: true},
		},
	}
	for _, t := range all {
		if t.null || t.path != Container {
			continue
		}
		for _, l := range t.levels {
			if l.bytes <= largestSmall {
				table.Rows = append(table.Rows, []report.Cell{
					{Text: t.name()}, {Text: sizeText(l.bytes)},
					report.Estimated(t.Mean(l.base[median.name]), 1), report.Estimated(t.Mean(l.with[median.name]), 1),
					report.Against(0, t.ratio(l, median).PercentMore()),
				})
			}
		}
	}
	return table
}

// chance writes a probability.
func chance(p float64) string {
	const least = 0.001
	if p < least {
		return "under " + report.Rounded(least, 1)
	}
	return report.Rounded(p, 2)
}

// fits are the lines of all trips, of the median and of the mean.
func fits(all []trip) report.Table {
	table := report.Table{
		Title: "Added latency per request: fixed part and part per byte",
		Note:  "Against itself: the host's network measured twice (A/A), where no difference is expected.",
		Method: "In each block a line is fitted to the differences by size; estimates are over blocks. The bytes' part is that of the largest message. " +
			"Linearity: the probability of deviations from the line as large as these by noise alone; below 0.01 the cost is not linear.",
		Columns: []report.Column{
			{Head: "path"}, {Head: "statistic"}, {Head: "fixed, µs", Number: true},
			{Head: "per KB, µs", Number: true, Optional: true},
			{Head: "all bytes, µs", Number: true}, {Head: "linearity, p", Number: true, Optional: true}, {Head: "kind of cost"},
		},
	}
	decides := together(slices.Clone(all), 2*3) // for median and mean: the fixed part, the bytes', and which is larger
	for i, t := range all {
		for _, s := range []statistic{median, mean} {
			line := t.fit(s)
			linearity := report.Absent()
			if !math.IsNaN(line.Bent) {
				linearity = report.Cell{Text: chance(line.Bent)}
			}
			name := report.Cell{Text: t.name()}
			cost := report.Cell{Text: kind(decides[i].fit(s), float64(t.largest()))}
			if t.null {
				name.Tone, cost.Tone = report.Faint, report.Faint
			}
			table.Rows = append(table.Rows, []report.Cell{
				name, {Text: s.name}, report.Estimated(line.Intercept, 1), report.Estimated(line.Slope, kilobyte),
				report.Estimated(line.Combination(0, float64(t.largest())), 1), linearity, cost,
			})
		}
	}
	return table
}

// kind names a line by its parts and their intervals.
func kind(line stats.Lines, far float64) string {
	bytes, excess := line.Combination(0, far), line.Combination(1, -far)
	if !line.Intercept.Known() || !bytes.Known() {
		return "–"
	}
	switch {
	case !line.Intercept.DiffersFrom(0) && !bytes.DiffersFrom(0):
		return "no difference found"
	case line.Intercept.Interval.High < 0 || bytes.Interval.High < 0:
		return "partly faster"
	case excess.Interval.Low > 0 && !bytes.DiffersFrom(0):
		return "fixed"
	case excess.Interval.Low > 0:
		return "mostly fixed"
	case excess.Interval.High < 0:
		return "mostly per byte"
	case !bytes.DiffersFrom(0):
		return "fixed; bytes undecided"
	case !line.Intercept.DiffersFrom(0):
		return "per byte; fixed undecided"
	}
	return "both"
}

// chart shows the differences of one place against size, and the fitted lines.
func chart(all []trip, place, connection string) (report.Chart, bool) {
	c := report.Chart{
		Title: "Added latency by message size",
		Note:  "Difference of the medians from the host's network. A level line is a cost per request, a rising one a cost per byte. Dashed: fitted.",
		X:     report.Axis{Label: "message", Unit: "KB"}, Y: report.Axis{Label: "added latency", Unit: "µs"},
	}
	if place == here {
		c.Title += ", client on the host"
	}
	if connection == New {
		c.Title += ", one connection per request"
	}
	for _, t := range all {
		if t.null || t.place != place || t.connection != connection || len(t.levels) < 2 {
			continue
		}
		measured := report.Series{Name: t.path + ", service " + t.direction + "s", Group: t.path + t.direction}
		fitted := report.Series{Name: "fitted", Group: measured.Group, Dashed: true}
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

// routes describe the paths.
var routes = map[string]map[string]string{
	apart: {
		Host:   "host: from the client's network namespace over a veth pair and tare's bridge to the host's network, where the service listens.",
		NAT:    "nat: as host, and on to the container. The host rewrites the destination of the published port (DNAT), and forwards through its filter, the engine's bridge and the container's veth pair.",
		Bridge: "bridge: as nat, without the rewriting: the client connects to the container's own address. The port is published too, because the engine's filter forwards no other.",
	},
	here: {
		Host:      "host over loopback: client and service are in the host's network; no device is crossed.",
		Proxy:     "proxy: over loopback to the engine's userland proxy, a program that copies each byte. From there over the engine's bridge and the container's veth pair.",
		Container: "container: from a second container, over its veth pair, the engine's bridge and the service's veth pair.",
	},
}

// crossed describes the paths of a run, with what their devices counted.
func crossed(all []trip) string {
	var paragraphs []string
	seen := map[string]bool{}
	for _, t := range all {
		text := routes[t.place][t.path]
		if text == "" || seen[text] {
			continue
		}
		seen[text] = true
		paragraphs = append(paragraphs, text+t.carried())
	}
	return strings.Join(paragraphs, "\n\n")
}

// carried is what the devices counted in all trials of the trip.
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
// one place: those of each path, and dashed the host's.
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
				curve := report.Tail{
					Name: of.name + ", service " + t.direction + "s", Group: t.direction + t.path, Dashed: of.dashed,
				}
				if of.dashed {
					curve.Group = t.direction
				}
				h, err := t.Merged(of.condition, name)
				twice := slices.ContainsFunc(curves[bytes], func(c report.Tail) bool { return c.Name == curve.Name })
				if err != nil || h == nil || twice {
					continue // the report of the run lists what cannot be read
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
		title := "Distribution of latency, messages of " + sizeText(bytes)
		if place == here {
			title += ", client on the host"
		}
		if connection == New {
			title += ", one connection per request"
		}
		parts = append(parts, report.Tails(title, "Each step to the right is ten times rarer. Dashed: the host's network.", curves[bytes]))
	}
	return parts
}
