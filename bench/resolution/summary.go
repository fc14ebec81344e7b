package main

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"tare/overhead"
	"tare/record"
)

// target is one promise of SPECIFICATION.md, and what was found of it.
type target struct {
	name   string // "1. redis, two minutes"
	wanted string
	found  string
	n      int    // runs, or what n counts there
	state  string // one of those below
}

// The states of a target.
const (
	met       = "met"
	notMet    = "not met"
	undecided = "undecided"
	notRun    = "not run yet"
	tooFew    = "too few runs"
	shortOnly = "short runs"
	forReport = "" // no target: a figure beside one
)

// state judges a target of which enough were measured.
func state(n, enough int, is bool) string {
	switch {
	case n == 0:
		return notRun
	case n < enough:
		return tooFew
	case is:
		return met
	}
	return notMet
}

// judge sets all targets beside what was measured.
func judge(lines []line) []target {
	of := map[string][]line{}
	for _, l := range lines {
		of[l.Part] = append(of[l.Part], l)
	}
	var all []target
	add := func(part string, targets []target) {
		for _, t := range targets {
			// Short runs decide nothing, and what lacks its figures was run all the same.
			switch lines := of[part]; {
			case slices.ContainsFunc(lines, func(l line) bool { return l.Short }):
				t.state = shortOnly
			case len(lines) > 0 && t.state == notRun:
				t.state = tooFew
			}
			all = append(all, t)
		}
	}
	add("redis2m", judgeRedis(of["redis2m"]))
	add("weigh", judgeWeigh(of["weigh"]))
	add("designs", judgeDesigns(of["designs"]))
	add("aa-redis", judgeAA("redis", of["aa-redis"]))
	add("aa-ffmpeg", judgeAA("ffmpeg", of["aa-ffmpeg"]))
	add("plants", judgePlants(of["plants"]))
	add("overhead", judgeOverhead(of["overhead"]))
	return all
}

// mostAt is how many of n may fail where nine of ten are to pass.
func mostAt(n int) int { return n / 10 }

// primaryKind is the estimate that a primary metric of redis is headlined by.
func primaryKind(metric string) string {
	if strings.HasSuffix(metric, "cpu") {
		return kindTotal
	}
	return kindTypical
}

// pick gives the figures of a line that are wanted, but for those of a baseline.
func pick(l line, workload, metric, kind string) []figure {
	var all []figure
	for _, f := range l.Figures {
		if f.Workload == workload && (metric == "" && f.Primary || f.Metric == metric) && f.Kind == kind {
			all = append(all, f)
		}
	}
	return all
}

// widest is the widest half-width of figures in percent; +Inf where there are none.
func widest(figures []figure) float64 {
	if len(figures) == 0 {
		return math.Inf(1)
	}
	most := 0.0
	for _, f := range figures {
		most = max(most, f.halfWidth())
	}
	return most
}

func judgeRedis(lines []line) []target {
	const most, runs = 0.5, 10
	var all []target
	for _, metric := range []string{"get", "set", "get-cpu", "set-cpu"} {
		var widths []float64
		within := 0
		for _, l := range lines {
			w := widest(pick(l, "redis", metric, primaryKind(metric)))
			widths = append(widths, w)
			if w <= most {
				within++
			}
		}
		all = append(all, target{
			name:   "1. redis, 2 min, " + metric,
			wanted: fmt.Sprintf("half-width at most %.2g %% in nine of ten", most),
			found:  fmt.Sprintf("%d of %d; %s", within, len(lines), spread(widths)),
			n:      len(lines),
			state:  state(len(lines), runs, len(lines)-within <= mostAt(len(lines))),
		})
	}
	var named, whole, divided int
	for _, l := range lines {
		if v, ok := l.Values["redis "+layerNamed]; ok {
			divided++
			if v > 0 {
				named++
			}
			if l.Values["redis "+layerIsAll] > 0 {
				whole++
			}
		}
	}
	return append(all, target{name: "1. redis, 2 min, layer", wanted: "the layer is named",
		found: fmt.Sprintf("named in %d of %d, all of the cost in %d; divided in %d", named, len(lines), whole, divided), n: len(lines), state: either(len(lines), forReport)})
}

// either is notRun without runs.
func either(n int, otherwise string) string {
	if n == 0 {
		return notRun
	}
	return otherwise
}

// spread gives the median and the largest of half-widths.
func spread(widths []float64) string {
	if len(widths) == 0 {
		return "no runs"
	}
	sorted := slices.Sorted(slices.Values(widths))
	return fmt.Sprintf("median %.2f %%, largest %.2f %%", sorted[len(sorted)/2], sorted[len(sorted)-1])
}

func judgeWeigh(lines []line) []target {
	var all []target
	for _, of := range []struct {
		workload string
		kind     string
		most     float64
	}{{"redis", kindTypical, 0.7}, {"ffmpeg", kindRatio, 1}, {"stream", kindRatio, 3}} {
		var figures []figure
		for _, l := range lines {
			for _, f := range pick(l, of.workload, "", of.kind) {
				if of.workload == "redis" && primaryKind(f.Metric) != of.kind {
					continue
				}
				figures = append(figures, f)
			}
		}
		w := widest(figures)
		all = append(all, target{name: "2. make weigh, " + of.workload, wanted: fmt.Sprintf("half-width at most %.2g %%", of.most),
			found: fmt.Sprintf("largest %.2f %%", w), n: len(figures), state: state(len(lines), 1, w <= of.most)})
	}
	for _, of := range []struct {
		name      string
		workloads []string
		effect    float64
	}{{"redis and ffmpeg", []string{"redis", "ffmpeg"}, 2}, {"stream", []string{"stream"}, 100 * streamEffect}} {
		rows, decided := 0, 0
		for _, l := range lines {
			for _, workload := range of.workloads {
				for _, f := range pick(l, workload, "", kindRatio) {
					rows++
					if f.Verdict != overhead.Inconclusive {
						decided++
					}
				}
			}
		}
		all = append(all, target{name: "2. make weigh, decided: " + of.name, wanted: fmt.Sprintf("nine of ten rows at %g %%", of.effect),
			found: fmt.Sprintf("%d of %d", decided, rows), n: rows, state: state(rows, 1, 10*decided >= 9*rows)})
	}
	return all
}

func judgeDesigns(lines []line) []target {
	var all []target
	for _, of := range []struct {
		workload string
		most     float64
	}{{"redis", 0.2}, {"ffmpeg", 0.5}, {"stream", 0.5}} {
		logs := map[string][]float64{} // by design; of half-widths
		for _, l := range lines {
			design, kind := record.DesignBlocks, kindRatio
			if l.Name == of.workload+" by "+record.DesignRounds {
				design = record.DesignRounds
			} else if l.Name != of.workload+" by "+record.DesignBlocks {
				continue
			}
			for _, f := range pick(l, of.workload, "", kind) {
				if of.workload == "redis" && primaryKind(f.Metric) == kindTotal {
					continue // in blocks no primary metric
				}
				width := f.halfWidth()
				if design == record.DesignBlocks && math.IsInf(width, 1) {
					continue // too few blocks for an interval are no gain of rounds
				}
				logs[design] = append(logs[design], math.Log(width))
			}
		}
		blocks, rounds := logs[record.DesignBlocks], logs[record.DesignRounds]
		n := min(len(blocks), len(rounds))
		ratio := math.Exp(mean(rounds) - mean(blocks))
		all = append(all, target{
			name:   "3. rounds against blocks, " + of.workload,
			wanted: fmt.Sprintf("half-width at most %.2g of that by blocks", of.most),
			found:  fmt.Sprintf("%.2f: %.2f %% to %.2f %%", ratio, math.Exp(mean(rounds)), math.Exp(mean(blocks))),
			n:      n,
			state:  state(n, 2, ratio <= of.most),
		})
	}
	return all
}

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// judgeAA judges each primary metric by itself: those of one run share its rounds.
func judgeAA(workload string, lines []line) []target {
	const fewestRounds, off = 5, 0.2
	enough := map[string]int{"redis": 60, "ffmpeg": 40}[workload]
	fitted := 0
	var pilot, warm, round, strip []float64
	estimates, errors, excluded := map[string][]float64{}, map[string][]float64{}, map[string]int{}
	for _, l := range lines {
		value := func(name string) float64 { return float64(l.Values[workload+" "+name]) }
		if value("rounds") >= fewestRounds {
			fitted++
		}
		pilot, warm = append(pilot, value("pilot_s")), append(warm, value("warm_s"))
		round, strip = append(round, value("round_s")), append(strip, value("strip_s"))
		for _, f := range pick(l, workload, "", kindAA) {
			v, se := f.logError()
			if math.IsNaN(v) || math.IsNaN(se) {
				continue
			}
			estimates[f.Metric], errors[f.Metric] = append(estimates[f.Metric], v), append(errors[f.Metric], se)
			if f.excludesOne() {
				excluded[f.Metric]++
			}
		}
	}
	name := "4. A/A, " + workload
	all := []target{
		{
			name:   name + ", rounds",
			wanted: fmt.Sprintf("at least %d rounds in 20 s", fewestRounds),
			n:      len(lines),
			state:  state(len(lines), enough, fitted == len(lines)),
			found:  fmt.Sprintf("in %d of %d; on the mean: pilot %.1f s, warm-up %.2f s, round besides strips %.2f s, strip %.2f s", fitted, len(lines), mean(pilot), mean(warm), mean(round), mean(strip)),
		},
	}
	for _, metric := range slices.Sorted(maps.Keys(estimates)) {
		n := len(estimates[metric])
		p := binomialTail(excluded[metric], n, 1-level)
		all = append(all, target{name: name + ", level of " + metric, wanted: "intervals that exclude 0: binomial p above 0.05",
			found: fmt.Sprintf("%d of %d, p = %.2g", excluded[metric], n, p), n: n, state: state(n, enough, p > 0.05)})
		ratio, low, high := varianceRatio(estimates[metric], errors[metric])
		all = append(all, target{name: name + ", variance of " + metric, wanted: "that of the estimates within 20 % of the mean squared standard error",
			found: fmt.Sprintf("%.2f times (%.2f to %.2f)", ratio, low, high), n: n, state: state(n, enough, math.Abs(ratio-1) <= off)})
	}
	return all
}

func judgePlants(lines []line) []target {
	var doses, estimates, errors []float64
	var excludes, ones, stalled int
	reported := map[string]int{} // by metric
	for _, l := range lines {
		if l.Values[valueStalls] > 0 {
			stalled++
			for _, metric := range []string{plantedCommand, plantedCPU} {
				for _, f := range pick(l, "redis", metric, kindStalls) {
					if f.excludesOne() {
						reported[metric]++
					}
				}
			}
			continue
		}
		estimate := pick(l, "redis", plantedCPU, kindTotal)
		if len(estimate) != 1 {
			continue
		}
		v, se := estimate[0].logError()
		if math.IsNaN(se) {
			continue
		}
		// Doses are regressed on as they were set, which is once for all runs. What a run's own
		// truth came to scatters by more than a dose, and would bend the line (errors in variables).
		doses = append(doses, float64(l.Values[valueDose]))
		estimates, errors = append(estimates, 100*v), append(errors, 100*se)
		if l.Values[valueDose] == 1 {
			ones++
			if estimate[0].Low > 1 { // in the direction that was planted
				excludes++
			}
		}
	}
	n := len(doses)
	intercept, slope, err := doseResponse(doses, estimates, errors)
	line := fmt.Sprintf(
		"slope %.2f (%.2f to %.2f), intercept %.2f %% (%.2f to %.2f)",
		slope.Value,
		slope.Interval.Low,
		slope.Interval.High,
		intercept.Value,
		intercept.Interval.Low,
		intercept.Interval.High,
	)
	if err != nil {
		line = err.Error()
	}
	return []target{
		{name: "5. plants, dose-response", wanted: "slope 1 and intercept 0 within their intervals", found: line, n: n,
			state: state(n, 35, err == nil && holds(slope, 1) && holds(intercept, 0))},
		{
			name:   "5. plants, 1 %",
			wanted: "the interval excludes 0 in 18 of 20",
			found:  fmt.Sprintf("%d of %d", excludes, ones),
			n:      ones,
			state:  state(ones, 20, 20*excludes >= 18*ones),
		},
		{name: "5. plants, stalls", wanted: "reported in 18 of 20", n: stalled,
			found: fmt.Sprintf("%d of %d by throughput; %d by CPU time", reported[plantedCommand], stalled, reported[plantedCPU]),
			state: state(stalled, 20, 20*reported[plantedCommand] >= 18*stalled)},
	}
}

func judgeOverhead(lines []line) []target {
	var least, most, blocks []float64
	generator := target{name: "6. own weight, load generator", wanted: "CPU time for a request at most redis-benchmark's", state: notRun}
	for _, l := range lines {
		for _, f := range pick(l, "redis", generatorMetric, kindRatio) {
			generator.n = f.N
			generator.found = fmt.Sprintf("%.2f times (%.2f to %.2f): %.2f us to %.2f us", f.Value, f.Low, f.High, l.Values["generator_us"], l.Values["redis_benchmark_us"])
			generator.state = state(f.N, 20, f.High <= 1)
		}
		low, ok := l.Values[valueShareLeast]
		by, also := l.Values[valueShareBlocks]
		if ok && also {
			least, most, blocks = append(least, float64(low)), append(most, float64(l.Values[valueShareMost])),
				append(blocks, float64(by))
		}
	}
	share := target{name: "6. own weight, tare itself", wanted: "share of a CPU, its generator apart, at most that by blocks", n: len(blocks),
		found: fmt.Sprintf("between %.1f %% and %.1f %%, and %.1f %% by blocks", 100*mean(least), 100*mean(most), 100*mean(blocks)),
		state: state(len(blocks), 3, mean(most) <= mean(blocks))}
	if share.state == notMet && mean(least) <= mean(blocks) {
		share.state = undecided
	}
	return []target{generator, share}
}

// evidence says of which commits and hosts the lines are.
func evidence(lines []line) string {
	commits, hosts, short := map[string]bool{}, map[string]bool{}, 0
	var took float64
	for _, l := range lines {
		commits[l.Commit], hosts[l.Host+", boot "+l.Boot] = true, true
		took += l.Seconds
		if l.Short {
			short++
		}
	}
	text := fmt.Sprintf("%d jobs in %v; commit %s; host %s.", len(lines), time.Duration(took*float64(time.Second)).Round(time.Second),
		strings.Join(slices.Sorted(maps.Keys(commits)), ", "), strings.Join(slices.Sorted(maps.Keys(hosts)), "; "))
	if short > 0 {
		text += fmt.Sprintf(" %d of them were short: they show that the benchmark works, and nothing else.", short)
	}
	return text
}

var columns = []string{"target", "wanted", "measured", "n", "state"}

func (t target) cells() []string {
	found := t.found
	if t.state == notRun {
		found = ""
	}
	return []string{t.name, t.wanted, found, fmt.Sprint(t.n), t.state}
}

// asText is the summary for a terminal.
func asText(targets []target, lines []line) string {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(columns, "\t"))
	for _, t := range targets {
		fmt.Fprintln(w, strings.Join(t.cells(), "\t"))
	}
	_ = w.Flush() // to memory
	return text.String() + "\n" + evidence(lines) + "\n"
}

// asMarkdown is the summary for a document, with the runs that it rests on.
func asMarkdown(targets []target, lines []line) string {
	var text strings.Builder
	row := func(cells []string) { fmt.Fprintf(&text, "| %s |\n", strings.Join(cells, " | ")) }
	row(columns)
	row(slices.Repeat([]string{"---"}, len(columns)))
	for _, t := range targets {
		row(t.cells())
	}
	fmt.Fprintf(&text, "\n%s\n\n", evidence(lines))
	row(powerColumns())
	row(slices.Repeat([]string{"---"}, len(powerColumns())))
	for _, p := range powers(lines) {
		row(p.cells())
	}
	text.WriteByte('\n')
	row([]string{"part", "number", "job", "started", "seed", "runs", "notes"})
	row(slices.Repeat([]string{"---"}, 7))
	for _, l := range lines {
		row(
			[]string{
				l.Part,
				fmt.Sprint(l.Number),
				l.Name,
				l.Started.UTC().Format(time.DateTime),
				fmt.Sprint(l.Seed),
				strings.Join(l.Runs, " "),
				strings.Join(l.Notes, "; "),
			},
		)
	}
	return text.String()
}
