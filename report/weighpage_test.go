package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/overhead"
	"tare/record"
)

func pageOf(t testing.TB, b *bench) string {
	t.Helper()
	s := b.sheet()
	s.Next = ordinary.Next
	return sheetOf(t, s)
}

// parse walks the page's elements. A page that is not well formed, as far as
// HTML asks for it, fails the test.
func parse(t *testing.T, page string, visit func(xml.StartElement), text func(string)) {
	t.Helper()
	// Style and script are ours alone and are not markup within.
	page = strings.Replace(page, pageScript, "", 1)
	page = strings.Replace(page, pageStyle, "", 1)
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("at byte %d: %v", d.InputOffset(), err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			visit(token)
		case xml.CharData:
			text(string(token))
		}
	}
}

// Whatever a run carries, it adds no element, no attribute and no address that
// a tame run does not have.
func TestPageHoldsNothingForeign(t *testing.T) {
	tame := redis()
	tame.run.Status, tame.run.Plan.Notes, tame.rep.Warnings = record.Interrupted, []string{"n"}, []string{"w"}
	tame.rep.Groups[0].Warnings = []string{"w"}
	for i := range tame.rep.Groups[0].Metrics {
		for j := range tame.rep.Groups[0].Metrics[i].Rows {
			tame.rep.Groups[0].Metrics[i].Rows[j].NotRepresentative = "x"
		}
	}
	allowed, got := marks(t, pageOf(t, tame)), marks(t, pageOf(t, hostile()))
	for kind := range got {
		if allowed[kind] == 0 {
			t.Errorf("a hostile run adds %s", kind)
		}
	}
	for _, kind := range []string{"script", "style", "meta", "link"} {
		if got[kind] != allowed[kind] {
			t.Errorf("a hostile run makes %d of <%s>, a tame one %d", got[kind], kind, allowed[kind])
		}
	}
}

// The page says what the terminal says.
func TestPageAndTerminalAgree(t *testing.T) {
	for name, b := range map[string]*bench{"redis": redis(), "suite": suite(), "ladder": ladder()} {
		var text strings.Builder
		parse(t, pageOf(t, b), func(xml.StartElement) {}, func(s string) { text.WriteString(s + " ") })
		page := strings.NewReplacer("\u00a0", " ", minus, "-").Replace(strings.Join(strings.Fields(text.String()), " "))
		if want := Answer(b.run, b.rep); !strings.Contains(page, want) {
			t.Errorf("%s: the page lacks %q", name, want)
		}
		for _, g := range b.rep.Groups {
			for _, m := range g.Primaries() {
				for _, row := range newMetricTable(b.run, m, b.rep).Rows {
					for _, cell := range row[1:] {
						if !strings.Contains(page, cell.Text) || !strings.Contains(page, cell.Detail) {
							t.Errorf("%s: the page lacks %q of %s", name, cell, row[0].Text)
						}
					}
				}
			}
		}
	}
}

// Coordinates are numbers, whatever the figures are.
func TestDrawingsHoldNumbersOnly(t *testing.T) {
	b := redis()
	b.histograms(t, "get", "redis", 200)
	m := &b.rep.Groups[0].Metrics[0]
	nan := math.NaN()
	m.Rows[1].Percent, m.Rows[1].PercentLow, m.Rows[1].PercentHigh = nan, nan, nan
	m.Rows[2].PercentHigh = math.Inf(1)
	m.Rows[3].Percent, m.Rows[3].PercentLow, m.Rows[3].PercentHigh = 100, -1e9, 1e12
	m.Rows[4].Blocks[2].Value, m.Rows[4].Blocks[3].Value, m.Rows[4].Blocks[4].Value = nan, math.Inf(1), 0
	page := pageOf(t, b)
	numbersOnly(t, page)
	parse(t, page, func(xml.StartElement) {}, func(s string) {
		if strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
			t.Errorf("text %q", s)
		}
	})
}

func TestAxisTurnsWorseToTheRight(t *testing.T) {
	for _, higher := range []bool{false, true} {
		e := effectAxis{axis: axis{-0.2, 0.2}, higherIsBetter: higher}
		if !(e.x(-5) < e.x(0) && e.x(0) < e.x(5)) {
			t.Errorf("higher is better %v: -5 %%, 0 and 5 %% lie at %.1f, %.1f, %.1f", higher, e.x(-5), e.x(0), e.x(5))
		}
		for _, percent := range []float64{-9, 0, 3.1, 12} {
			if back := e.percent(e.place(percent)); math.Abs(back-percent) > 1e-9 {
				t.Errorf("higher is better %v: %v %% comes back as %v", higher, percent, back)
			}
		}
		for _, tick := range e.ticks() {
			label := strings.Fields(strings.Replace(tick.label, minus, "-", 1))[0]
			v, err := strconv.ParseFloat(label, 64)
			v, _, _ = natural(higher, v, 0, 0)
			if err != nil || math.Abs(e.place(v)-tick.at) > 1e-9 {
				t.Errorf("tick %q stands at %v, want %v (%v)", tick.label, tick.at, e.place(v), err)
			}
		}
	}
}

// One condition that dwarfs the rest lies beyond the plot and is named.
func TestForestKeepsTheRestReadable(t *testing.T) {
	row := func(name string, low, high float64) overhead.Row {
		return overhead.Row{Label: name, Condition: name, Verdict: overhead.Worse, Percent: (low + high) / 2, PercentLow: low, PercentHigh: high}
	}
	m := overhead.MetricReport{Rows: []overhead.Row{row("runc", 0.5, 3), row("docker", 2, 6), row("vm/bare", 390, 420)}}
	f := newForest(m, 0.02)
	if len(f.beyond) != 1 || f.beyond[0] != "vm/bare" {
		t.Errorf("beyond the plot: %v", f.beyond)
	}
	if width := f.effect.x(6) - f.effect.x(2); width < 15 {
		t.Errorf("docker's interval takes %.1f %% of the plot", width)
	}
}

func TestReproduce(t *testing.T) {
	for _, c := range []struct {
		command []string
		want    string
	}{
		{[]string{"/usr/bin/tare", "weigh", "redis"}, "tare weigh redis --seed 7"},
		{[]string{"tare", "weigh", "redis", "--seed", "3"}, "tare weigh redis --seed 3"},
		{[]string{"tare", "weigh", "--rootfs", "my root", "--", "sh", "-c", "a; b"}, "tare weigh --rootfs 'my root' --seed 7 -- sh -c 'a; b'"},
		{nil, ""},
	} {
		if got := Reproduce(record.Run{Command: c.command, Seed: 7}); got != c.want {
			t.Errorf("%q: got %q, want %q", c.command, got, c.want)
		}
	}
}

// Percentiles come from the sum of the histograms of the trials that count.
func TestMergedHistogramsLeaveOutWhatDoesNotCount(t *testing.T) {
	of := func(v int64) map[string]record.Histogram {
		h := hdrhistogram.New(1, 1_000_000, 3)
		if err := h.RecordValue(v); err != nil {
			t.Fatal(err)
		}
		text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]record.Histogram{"get": record.Histogram(text)}
	}
	run := record.Run{Trials: []record.Trial{
		{Workload: "w", Condition: "c", Block: 0, Attempt: 1, Histograms: of(10)},                           // warm-up
		{Workload: "w", Condition: "c", Block: 1, Attempt: 1, Histograms: of(20)},                           // repeated
		{Workload: "w", Condition: "c", Block: 1, Attempt: 2, Histograms: of(30)},                           // counts
		{Workload: "w", Condition: "c", Block: 2, Attempt: 1, Histograms: of(40)},                           // its neighbour is tainted
		{Workload: "w", Condition: "d", Block: 2, Attempt: 1, Histograms: of(50), Taint: []string{"steal"}}, // tainted
		{Workload: "w", Condition: "c", Block: 3, Attempt: 1, Histograms: of(60), Error: "killed"},          // failed
		{Workload: "w", Condition: "c", Block: 4, Attempt: 1, Histograms: of(70)},                           // counts
		{Workload: "v", Condition: "c", Block: 5, Attempt: 1, Histograms: of(80)},                           // another workload
		{Workload: "w", Condition: "c", Block: 6, Attempt: 1, Histograms: map[string]record.Histogram{"get": "HISTFAAAnonsense"}},
	}}
	merged, broken := mergedHistograms(run, "w")
	h := merged["get"]["c"]
	if h == nil || h.TotalCount() != 2 || h.Min() != 30 || h.Max() != 70 {
		t.Fatalf("merged: %+v", h)
	}
	if merged["get"]["d"] != nil {
		t.Error("a tainted trial was merged")
	}
	if len(broken["get"]) != 1 {
		t.Errorf("broken histograms: %v", broken["get"])
	}
}

// A histogram that is none is an error and never a panic.
func FuzzDecodeHistogram(f *testing.F) {
	h := hdrhistogram.New(1, 10_000, 2)
	if err := h.RecordValue(77); err != nil {
		f.Fatal(err)
	}
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add("")
	f.Add("HISTFAAAAA==")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := decodeHistogram(record.Histogram(text))
		if (h == nil) == (err == nil) {
			t.Errorf("histogram %v, error %v", h, err)
		}
	})
}

// long is a run of a hundred thousand samples: 20 conditions of 500 blocks,
// ten metrics.
func long(t testing.TB) *bench {
	b := newBench(500)
	var shapes []shape
	for i := range 20 {
		s := shape{platform: "docker", setting: "cpu-shares=" + strconv.Itoa(100+i), cost: 0.002 * float64(i), noise: 0.01}
		if i == 0 {
			s = shape{platform: "bare", noise: 0.01}
		}
		shapes = append(shapes, s)
	}
	var gauges []gauge
	for i := range 10 {
		gauges = append(gauges, gauge{name: "metric-" + strconv.Itoa(i), unit: "us", level: 300, primary: i == 0})
	}
	g := b.weigh("redis", gauges, shapes)
	b.histograms(t, "get", "redis", 10)
	byCondition := map[string]int{}
	for i := range b.run.Trials {
		trial := &b.run.Trials[i]
		for _, m := range g.Metrics {
			for _, r := range m.Rows {
				if r.Condition == trial.Condition {
					trial.Samples = append(trial.Samples, record.Sample{Metric: m.Name, Value: r.Blocks[byCondition[r.Condition]].Value})
				}
			}
		}
		byCondition[trial.Condition]++
	}
	return b
}

// A page is bounded by its drawings and not by the samples behind them.
func TestPageSizeIsBounded(t *testing.T) {
	b := newBench(4000)
	b.weigh("redis", []gauge{{name: "get", unit: "requests/s", higher: true, primary: true, level: 69300}},
		[]shape{{platform: "bare", noise: 0.01}, {platform: "docker", cost: 0.03, noise: 0.01}})
	many := len(pageOf(t, b))
	small := newBench(100)
	small.weigh("redis", []gauge{{name: "get", unit: "requests/s", higher: true, primary: true, level: 69300}},
		[]shape{{platform: "bare", noise: 0.01}, {platform: "docker", cost: 0.03, noise: 0.01}})
	if few := len(pageOf(t, small)); many > 2*few {
		t.Errorf("4000 blocks make %d bytes, 100 blocks %d", many, few)
	}
}

func TestInterimPageOfNothing(t *testing.T) {
	page := pageOf(t, &bench{run: record.Run{Status: record.Running}})
	if !strings.Contains(page, "Nothing was measured") {
		t.Error("an empty run has no answer")
	}
}

func BenchmarkHTML(b *testing.B) {
	bench := long(b)
	samples := 0
	for _, t := range bench.run.Trials {
		samples += len(t.Samples)
	}
	b.ResetTimer()
	size := 0
	for range b.N {
		size = len(pageOf(b, bench))
	}
	b.ReportMetric(float64(samples), "samples")
	b.ReportMetric(float64(size), "bytes")
}

func BenchmarkTerminal(b *testing.B) {
	bench := long(b)
	b.ResetTimer()
	for range b.N {
		if err := SheetTerminal(io.Discard, bench.sheet(), ordinary); err != nil {
			b.Fatal(err)
		}
	}
}
