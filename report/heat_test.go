package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"tare/stats"
)

func ratioOf(v, low, high float64) stats.Estimate {
	return stats.Estimate{Value: v, Interval: stats.Interval{Low: low, High: high, Level: 0.95}, N: 5}
}

func heated() Heat {
	return Heat{
		Title: "ffmpeg: times bare metal", Corner: "where", Columns: []string{"1 CPU", "2 CPUs"}, Band: 0.02,
		Rows: []HeatRow{
			{"docker vanilla", []HeatField{{Ratio: ratioOf(1.3, 1.2, 1.4)}, {Ratio: ratioOf(1.01, 0.99, 1.03)}}},
			{"docker pinned", []HeatField{{Ratio: ratioOf(0.9, 0.85, 0.95)}}},
			{"vm:tcg/bare vanilla", []HeatField{{Ratio: ratioOf(6, 5.5, 6.5), Faint: true}, {Ratio: ratioOf(math.NaN(), math.NaN(), math.NaN())}}},
		},
	}
}

// A field says its figure, its interval on pointing, and that it is not representative;
// what was not measured has a dash, on the page as on the screen.
func TestHeat(t *testing.T) {
	var page, screen bytes.Buffer
	s := Sheet{Title: "tare platforms", Answer: "so", Parts: []Part{heated()}}
	if err := SheetHTML(&page, s); err != nil {
		t.Fatal(err)
	}
	shown := strings.NewReplacer("\u00a0", " ", "\u202f", " ").Replace(page.String())
	for _, want := range []string{
		`class="h3" title="docker vanilla: 1.30 (1.20 to 1.40)"`, `class="h-even"`, `class="h-less"`, `class="h5 h-faint" title="vm:tcg/bare vanilla: 6.0 (5.5 to 6.5), not representative"`,
		`class="h-none" title="docker pinned: –">–`, "as good as 1", "4 times and more", "The figures", ".h5 {",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(page.String(), "2 to 4 times") {
		t.Error("the legend has a shade that no field has")
	}
	if err := SheetTerminal(&screen, s, TerminalOptions{Width: 80}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"docker vanilla", "1.30", "1.01", "(6.0)"} {
		if !strings.Contains(screen.String(), want) {
			t.Errorf("the screen lacks %s:\n%s", want, screen.String())
		}
	}
}

func TestShades(t *testing.T) {
	for v, want := range map[float64]string{0.5: "h-less", 0.99: "h-even", 1: "h-even", 1.019: "h-even", 1.03: "h1", 1.1: "h2", 1.3: "h3", 2: "h4", 40: "h5", 0: "h-none", -1: "h-none", math.Inf(1): "h-none", math.NaN(): "h-none"} {
		if got := heatClass(v, 0.02); got != want {
			t.Errorf("%g has the shade %s, want %s", v, got, want)
		}
	}
}
