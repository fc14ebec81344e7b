package network

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tare/claim"
	"tare/load"
	"tare/overhead"
	"tare/record"
	"tare/report"
	"tare/study/kit/kittest"
)

// made is a run whose latencies are made up: what it must be judged to be is known.
type made struct {
	run    record.Run
	blocks int
	random *rand.Rand
}

func makeRun(blocks int) *made {
	return &made{record.Run{ID: "latency-1", Study: "latency", Status: record.Complete, Started: time.Now(), Plan: record.Plan{Level: 0.95, SmallestEffect: 0.02}},
		blocks, rand.New(rand.NewPCG(1, 2))}
}

// cost is a way's, in microseconds: a part for each trip and one for each kilobyte.
type cost struct{ trip, kilobyte float64 }

// hosts is what a trip costs over the host's network.
var hosts = cost{250, 0.8}

// group adds a group in which a path costs so much more than the host's network.
func (m *made) group(t *testing.T, direction, path string, more cost, change ...func(*Options)) *made {
	t.Helper()
	o := options(append(change, func(o *Options) { o.Directions, o.Paths = []string{direction}, []string{path} })...)
	d, err := Design(o)
	if err != nil {
		t.Fatal(err)
	}
	first := map[string]bool{}
	for block := 1; block <= m.blocks; block++ {
		shared := 3 * m.random.NormFloat64() // by which a block is slower as a whole
		for _, c := range d.Groups[0].Conditions {
			if !first[c.ID] {
				m.run.Conditions = append(m.run.Conditions, c.Condition)
				first[c.ID] = true
			}
			replicates, of := 1, cost{hosts.trip + more.trip, hosts.kilobyte + more.kilobyte}
			if c.Baseline {
				replicates, of = 2, hosts
			}
			for replicate := range replicates {
				trial := record.Trial{
					ID: int64(len(m.run.Trials) + 1), Condition: c.ID, Workload: c.Workload, Block: block, Attempt: 1, Replicate: replicate,
					Started: m.run.Started, Histograms: map[string]record.Histogram{}, Covariates: map[string]float64{},
				}
				for _, bytes := range o.Sizes {
					center := of.trip + of.kilobyte*float64(bytes)/kilobyte + shared + 0.3*m.random.NormFloat64()
					h := load.NewHistogram()
					for range 400 {
						_ = h.RecordValue(int64(math.Round(center + 8*m.random.NormFloat64())))
					}
					text, err := record.EncodeHistogram(h)
					if err != nil {
						t.Fatal(err)
					}
					trial.Histograms[loadOf(bytes).Of("latency")] = text
				}
				m.run.Trials = append(m.run.Trials, trial)
			}
		}
	}
	return m
}

func verdictOf(t *testing.T, run record.Run) claim.Judgement {
	return kittest.Verdict(t, Judge, run, "")
}

func TestJudge(t *testing.T) {
	inGo := func(o *Options) { o.Service.Params = map[string]string{"client": "go"} }
	small := func(o *Options) { o.Sizes = []int{1000, 10_000} }
	for _, c := range []struct {
		name   string
		want   claim.Verdict
		blocks int
		more   cost
		change func(*Options)
		path   string
	}{
		{"as S4 has it", claim.Confirmed, 6, cost{15, 0}, nil, NAT},
		{"fixed, with a little a byte", claim.Confirmed, 6, cost{15, 0.05}, nil, NAT},
		{"fixed, of a client in Go", claim.Qualified, 6, cost{15, 0}, inGo, NAT},
		{"fixed, and much for a small message", claim.Qualified, 6, cost{60, 0}, nil, NAT},
		{"by the byte", claim.Refuted, 6, cost{5, 0.5}, nil, NAT},
		{"nothing at all", claim.Inconclusive, 6, cost{}, nil, NAT},
		{"one block", claim.Inconclusive, 1, cost{15, 0}, nil, NAT},
		{"sizes too small", claim.Inconclusive, 6, cost{15, 0}, small, NAT},
		{"another way", claim.NotYetRun, 6, cost{15, 0}, nil, Proxy},
	} {
		m := makeRun(c.blocks)
		for _, direction := range Directions {
			if c.change != nil {
				m.group(t, direction, c.path, c.more, c.change)
				continue
			}
			m.group(t, direction, c.path, c.more)
		}
		if got := verdictOf(t, m.run); got.Verdict != c.want {
			t.Errorf("%s: %s (%s; %s), want %s", c.name, got.Verdict, got.Ours, got.Rests, c.want)
		}
	}
	one := makeRun(6).group(t, Receive, NAT, cost{15, 0})
	if got := verdictOf(t, one.run); got.Verdict != claim.Qualified || !strings.Contains(got.Rests, "only one direction") {
		t.Errorf("one direction alone: %+v", got)
	}
	mixed := makeRun(6).group(t, Receive, NAT, cost{15, 0}).group(t, Send, NAT, cost{5, 0.5})
	if got := verdictOf(t, mixed.run); got.Verdict != claim.Refuted {
		t.Errorf("refuted in one direction: %+v", got)
	}
}

// The line finds the parts that were made, and the host's second execution
// against its first is nothing.
func TestFit(t *testing.T) {
	m := makeRun(12).group(t, Send, NAT, cost{20, 0.1})
	all := trips(overhead.Read(m.run))
	if len(all) != 2 || !all[0].null || all[1].null || all[1].path != NAT {
		t.Fatalf("%d trips: %+v", len(all), all)
	}
	within := func(what string, low, v, high float64) {
		t.Helper()
		if !(low <= v && v <= high) {
			t.Errorf("%s: %g is not within %g to %g", what, v, low, high)
		}
	}
	line := all[1].fit(median)
	// To a widened interval: one in twenty lies outside its own.
	wide := func(low, high float64) (float64, float64) { return low - (high - low), high + (high - low) }
	low, high := wide(line.Intercept.Interval.Low, line.Intercept.Interval.High)
	within("fixed part", low, 20, high)
	low, high = wide(line.Slope.Interval.Low*kilobyte, line.Slope.Interval.High*kilobyte)
	within("part of a KB", low, 0.1, high)
	within("interval of the fixed part", 0, line.Intercept.Interval.High-line.Intercept.Interval.Low, 4)
	null := all[0].fit(median)
	within("the host against itself", null.Intercept.Interval.Low-1, 0, null.Intercept.Interval.High+1)
	if word := kind(null, 1e5); word == "fixed" || word == "mostly fixed" || word == "mostly per byte" {
		t.Errorf("the host against itself is %s", word)
	}
	if word := kind(line, 1e5); word != "mostly fixed" {
		t.Errorf("20 us and 10 us for the bytes are %s", word)
	}
}

// A quantile lies within its step by counts, so that what is less than a step is not lost.
func TestQuantileWithinAStep(t *testing.T) {
	h := load.NewHistogram()
	for range 30 {
		_ = h.RecordValue(100)
	}
	for range 10 {
		_ = h.RecordValue(101)
	}
	if got, want := quantile(h, 0.5), 99.5+20./30; math.Abs(got-want) > 1e-9 {
		t.Errorf("the median is %g, want %g", got, want)
	}
	if got := quantile(h, 1); math.Abs(got-101.5) > 1e-9 {
		t.Errorf("the greatest is %g, want 101.5", got)
	}
	if got := quantile(load.NewHistogram(), 0.5); !math.IsNaN(got) {
		t.Errorf("of nothing the median is %g", got)
	}
}

// Small messages between containers are shown by what the bridge adds in percent, which S4 compares with
// a published 80 %. Larger ones, and other paths, are not among them.
func TestSmallMessages(t *testing.T) {
	sizes := func(o *Options) { o.Sizes = append(SmallSizes(), 1000) }
	m := makeRun(6).group(t, Receive, NAT, cost{15, 0}, sizes).group(t, Receive, Container, cost{200, 0}, sizes)
	for _, p := range Parts(m.run) {
		table, ok := p.(report.Table)
		if !ok || !strings.HasPrefix(table.Title, "Small messages") {
			continue
		}
		if len(table.Rows) != len(SmallSizes()) {
			t.Errorf("%d rows", len(table.Rows))
		}
		for i, row := range table.Rows {
			if row[1].Text != sizeText(SmallSizes()[i]) || row[4].Text != "80" && !strings.HasPrefix(row[4].Text, "80.") && !strings.HasPrefix(row[4].Text, "79.") {
				t.Errorf("%s: %s %% longer, want about 80", row[1].Text, row[4].Text)
			}
		}
		return
	}
	t.Error("no table of small messages")
}

func TestParts(t *testing.T) {
	m := makeRun(6).group(t, Receive, NAT, cost{15, 0}).group(t, Send, NAT, cost{15, 0.3}).group(t, Receive, Proxy, cost{40, 0.2})
	var tables, charts int
	for _, p := range Parts(m.run) {
		switch p := p.(type) {
		case report.Table:
			tables++
			for _, row := range p.Rows {
				if len(row) != len(p.Columns) {
					t.Errorf("%s: a row of %d cells in %d columns", p.Title, len(row), len(p.Columns))
				}
			}
		case report.Chart:
			charts++
		}
	}
	if tables != 4 || charts != 6 {
		t.Errorf("%d tables and %d charts, want one table a way and the fits; a chart a place, and two of all latencies", tables, charts)
	}
	answer := Answer(m.run)
	for _, want := range []string{"nat adds 1", " µs when the service receives and ", "proxy adds ", "The bytes of 100 KB add at most ", " µs more (nat, service sends)"} {
		if !strings.Contains(answer, want) {
			t.Errorf("%q is not in: %s", want, answer)
		}
	}
	if parts, answer := Parts(record.Run{}), Answer(record.Run{}); parts != nil || !strings.Contains(answer, "yet") {
		t.Errorf("of an empty run: %v, %s", parts, answer)
	}
	// A run that has just begun can be shown.
	if p := Parts(makeRun(1).group(t, Receive, NAT, cost{15, 0}).run); len(p) == 0 {
		t.Error("one block shows nothing")
	}
}
