package report

import (
	"bytes"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latencies are n values of a service of that median, in microseconds, of which
// a share has been held up for about so long.
func latencies(n int, median, share, held float64) *hdrhistogram.Histogram {
	random := rand.New(rand.NewPCG(uint64(n), uint64(median)))
	h := hdrhistogram.New(1, 3_600_000_000, 3)
	for range n {
		v := median * math.Exp(0.06*random.NormFloat64())
		if random.Float64() < share {
			v += held * random.Float64()
		}
		if err := h.RecordValue(int64(v)); err != nil {
			panic(err)
		}
	}
	return h
}

// quotas is the sheet of a service by its CPU quota.
func quotas() Sheet {
	return Sheet{
		Title:  "tare latency cpu: thrift by CPU quota",
		Answer: "Below 4,000 us of 10,000 the quota holds requests up for whole periods; above, nothing of it is to be seen.",
		Parts: []Part{
			Tails("Latency by quota", "From the intended moment. A step to the right is ten times rarer.", []Tail{
				{Name: "no quota", Group: "none", H: latencies(1_000_000, 241, 0.0002, 300)},
				{Name: "quota 4,000 us", Group: "quota", H: latencies(300_000, 255, 0.001, 200)},
				{Name: "quota 2,000 us", Group: "quota", Dashed: true, H: latencies(20_000, 262, 0.05, 8000)},
				{Name: "not yet run", Group: "later", H: hdrhistogram.New(1, 1000, 3)},
				{Name: "never", Group: "later"},
			}),
			Tails("Time of a first write by file size", "", []Tail{
				{Name: "64 KiB", H: latencies(400, 12_000, 0, 0)},
				{Name: "16 MiB", H: latencies(400, 410_000, 0.1, 90_000)},
			}),
			Tails("Nothing at all", "", nil),
		},
	}
}

func TestTailsGolden(t *testing.T) {
	for _, c := range []struct {
		name  string
		width int
	}{{"tails-60.txt", 60}, {"tails-80.txt", 80}, {"tails-120.txt", 120}} {
		t.Run(c.name, func(t *testing.T) { golden(t, c.name, sheetScreen(t, quotas(), TerminalOptions{Width: c.width})) })
	}
	t.Run("tails.html", func(t *testing.T) {
		var out bytes.Buffer
		if err := SheetHTML(&out, quotas()); err != nil {
			t.Fatal(err)
		}
		golden(t, "tails.html", out.String())
	})
}

// A curve has the histogram's own value at each labelled percentile, ends where
// ten values lie beyond, and never falls.
func TestTailsAreTheHistograms(t *testing.T) {
	h := latencies(50_000, 241, 0.02, 5000)
	c := Tails("t", "", []Tail{{Name: "a", H: h}}).(Chart)
	points := c.Series[0].Points
	for _, p := range []float64{0, 50, 90, 99, 99.9} {
		found := 0
		for _, at := range points {
			if at.X != p {
				continue
			}
			found++
			if want := float64(h.ValueAtPercentile(p)); at.Y != want {
				t.Errorf("p%v is drawn at %v, the histogram has %v", p, at.Y, want)
			}
		}
		if found != 1 {
			t.Errorf("%d points at p%v", found, p)
		}
	}
	for i := 1; i < len(points); i++ {
		if points[i].X <= points[i-1].X || points[i].Y < points[i-1].Y {
			t.Errorf("from %+v to %+v", points[i-1], points[i])
		}
	}
	if end := points[len(points)-1].X; math.Abs(end-99.98) > 1e-9 {
		t.Errorf("the curve ends at p%v, want p99.98: ten of 50,000 values lie beyond", end)
	}
	if got := strings.Join(c.X.Labels, " "); got != "0 50 90 99 99.9" {
		t.Errorf("labels %q", got)
	}
}

// However deep a tail goes, its labels lie apart on a narrow page.
func TestTailLabelsLieApart(t *testing.T) {
	label := regexp.MustCompile(`<text class="([^"]*)" x="([0-9.]+)%"[^>]*>([^<]*)</text>`)
	for _, deepest := range []float64{90, 99, 99.9, 99.99, 99.999, 99.9999} {
		c := Chart{X: Axis{Tail: true}, Series: []Series{{Points: []Point{{X: 0, Y: 1}, {X: deepest, Y: 2}}}}}
		var shown []string
		end := math.Inf(-1)
		for _, m := range label.FindAllStringSubmatch(string(newPlot(c).foot()), -1) {
			x, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				t.Fatal(err)
			}
			from, to := labelExtent(m[1], x, len(m[3]))
			if from < end {
				t.Errorf("down to p%v, %s begins at %v, before the label on its left ends, %v", deepest, m[3], from, end)
			}
			end = to
			shown = append(shown, m[3])
		}
		if len(shown) < 3 || shown[0] != "0" || !slices.Contains(shown, "90") {
			t.Errorf("down to p%v the labels are %q", deepest, shown)
		}
	}
}

// Each step on the axis of a tail is ten times rarer, and as long.
func TestTailAxis(t *testing.T) {
	m := newMeasure([]float64{0, 99.99}, Axis{Tail: true, Log: true}, false)
	for i, p := range []float64{0, 90, 99, 99.9, 99.99} {
		if x, ok := m.place(p); !ok || math.Abs(x-25*float64(i)) > 1e-6 {
			t.Errorf("p%v lies at %v of 100, want %v", p, x, 25*i)
		}
	}
	for _, p := range []float64{-1, 100, 101, math.NaN()} {
		if _, ok := m.place(p); ok {
			t.Errorf("p%v has a place", p)
		}
	}
	if ticks := m.ticks(6); len(ticks) != 6 || ticks[5].label != "99.99" {
		t.Errorf("ticks %+v, want those of 0, 50, 90, 99, 99.9 and 99.99", ticks)
	}
}

// Labels of an axis stand at its ticks, and only where there is one for each.
func TestAxisLabels(t *testing.T) {
	with := func(labels ...string) string {
		c := Chart{Title: "t", X: Axis{Label: "at", Ticks: []float64{1, 2}, Labels: labels}, Y: Axis{Label: "y"},
			Series: []Series{{Name: "s", Points: []Point{{X: 1, Y: 3}, {X: 2, Y: 5}}}}}
		var page bytes.Buffer
		if err := SheetHTML(&page, Sheet{Title: "t", Parts: []Part{c}}); err != nil {
			t.Fatal(err)
		}
		return page.String() + sheetScreen(t, Sheet{Title: "t", Parts: []Part{c}}, TerminalOptions{})
	}
	if out := with("never", "often<"); strings.Count(out, "never") < 3 || !strings.Contains(out, "often&lt;") {
		t.Error("labels lack on the drawing, in its table or on the screen")
	}
	if out := with("never"); strings.Contains(out, "never") {
		t.Error("one label for two ticks was shown")
	}
}
