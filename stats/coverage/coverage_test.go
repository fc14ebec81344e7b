package main

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tare/stats"
)

// defaults is the only column that the short simulation needs.
var defaults = []stats.Method{stats.MethodDefault}

const page = "../../docs/statistics.md"

// What the defaults promise: 93 to 97 % for normal and lognormal trials, at each
// published number of blocks. The bounds leave room for the binomial error of a
// short simulation, four standard errors of it.
func TestDefaultsCoverNormalAndLognormal(t *testing.T) {
	const replications = 1000
	room := 4 * math.Sqrt(0.05*0.95/replications)
	for _, simulated := range []*table{pairedRatioByTrial(defaults), differences(defaults), geometricMeans(defaults)} {
		simulated.replications = replications
		simulated.rows = simulated.rows[:2] // normal, lognormal
		for _, r := range simulated.simulate(1, 2) {
			got := r.means[len(r.means)-1]
			if got < 0.93-room || got > 0.97+room {
				t.Errorf("%s, %s, n = %d: the default covers %.1f %%", simulated.title, r.row.name, r.n, 100*got)
			}
		}
	}
}

// The simulation can tell a method that covers from one that does not: BCa on
// five blocks is known to fail by more than ten points.
func TestSimulationSeesAMethodFail(t *testing.T) {
	simulated := pairedRatioByTrial([]stats.Method{stats.MethodBCa})
	simulated.replications = 500
	r := simulated.simulateLine(simulated.rows[0], 5, 1, 2)
	if r.means[0] > 0.90 {
		t.Errorf("BCa on five blocks covers %.1f %%, where about 83 is known", 100*r.means[0])
	}
}

func TestFiguresDoNotDependOnWorkers(t *testing.T) {
	simulated := counts()
	simulated.replications = 50
	one, three := simulated.simulateLine(simulated.rows[0], 5, 1, 1), simulated.simulateLine(simulated.rows[0], 5, 1, 3)
	for c := range one.means {
		if one.means[c] != three.means[c] {
			t.Errorf("%s: %v with one worker, %v with three", simulated.columns[c], one.means[c], three.means[c])
		}
	}
}

// The page shows what the code does: lines cheap enough are simulated in full
// and looked up, to the last printed digit but one (other processors round
// differently). Of the means it is the default's column: t costs little.
func TestPublishedTablesAreCurrent(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	check := func(simulated *table, n, columns int) {
		r := simulated.rows[len(simulated.rows)-1]
		want := simulated.simulateLine(r, n, publishedSeed, 2).means
		got := publishedLine(t, string(text), columns, simulated.title, r.name, n)
		got = got[columns-len(want):]
		for c := range want {
			if math.Abs(got[c]-100*want[c]) > 0.15 {
				t.Errorf("%s, %s, n = %d, %s: the page has %v, the code %.2f; run go generate ./stats/coverage",
					simulated.title, r.name, n, simulated.columns[c], got[c], 100*want[c])
			}
		}
	}
	for _, simulated := range []*table{counts(), countRatios(), changePoints(), stein(), overNodes()} {
		check(simulated, simulated.sizes[0], len(simulated.columns))
	}
	for _, simulated := range []*table{pairedRatioByTrial(defaults), pairedRatioByRatio(defaults), differences(defaults), geometricMeans(defaults)} {
		for _, n := range simulated.sizes {
			check(simulated, n, len(meanMethods))
		}
	}
	for _, n := range []int{30, 50} {
		check(warned(), n, len(warned().columns))
	}
	noise, err := recordings(recorded)
	if err != nil {
		t.Fatal(err)
	}
	for _, simulated := range []*table{roundMeans(noise), roundStops(noise)} {
		check(simulated, simulated.sizes[0], len(simulated.columns))
	}
	// Every table is there, with its every line.
	all, err := tables()
	if err != nil {
		t.Fatal(err)
	}
	for _, simulated := range all {
		for _, r := range simulated.rows {
			for _, n := range simulated.sizes {
				publishedLine(t, string(text), len(simulated.columns), simulated.title, r.name, n)
			}
		}
	}
}

// The published defaults cover what they promise: the full simulation, as it
// stands in the page.
func TestPublishedDefaultsCover(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, simulated := range []*table{pairedRatioByTrial(meanMethods), differences(meanMethods), geometricMeans(meanMethods)} {
		for _, r := range simulated.rows[:2] {
			for _, n := range simulated.sizes {
				got := publishedLine(t, string(text), len(simulated.columns), simulated.title, r.name, n)
				if covered := got[len(got)-1]; covered < 93 || covered > 97 {
					t.Errorf("%s, %s, n = %d: the default covers %v %%", simulated.title, r.name, n, covered)
				}
			}
		}
	}
}

// publishedLine finds the figures of a line in the page.
func publishedLine(t *testing.T, text string, columns int, title, name string, n int) []float64 {
	t.Helper()
	_, section, found := strings.Cut(text, "### "+title+"\n")
	if !found {
		t.Fatalf("%s lacks the table %q; run go generate ./stats/coverage", page, title)
	}
	section, _, _ = strings.Cut(section, "\n### ")
	_, line, found := strings.Cut(section, "| "+name+" | "+strconv.Itoa(n)+" |")
	if !found {
		t.Fatalf("%s: %q lacks the line %q, n = %d; run go generate ./stats/coverage", page, title, name, n)
	}
	line, _, _ = strings.Cut(line, "\n")
	var figures []float64
	for _, cell := range strings.Split(strings.TrimSuffix(strings.TrimSpace(line), "|"), "|") {
		cell = strings.Trim(cell, " *")
		if cell == "" {
			figures = append(figures, math.NaN())
			continue
		}
		v, err := strconv.ParseFloat(cell, 64)
		if err != nil {
			t.Fatalf("%s: %q: %v", title, cell, err)
		}
		figures = append(figures, v)
	}
	if len(figures) != columns {
		t.Fatalf("%s, %s: %d figures for %d columns", title, name, len(figures), columns)
	}
	return figures
}

// The true quantile of a service, found by formula, is where its histograms put it.
func TestServiceQuantileAgreesWithItsHistograms(t *testing.T) {
	for _, s := range services {
		rng := randomFor(s.name)
		var below, total float64
		truth := s.quantile(0.9)
		for range 2000 {
			h := s.histogram(rng, s.block*rng.NormFloat64(), 1)
			for _, bar := range h.Distribution() {
				total += float64(bar.Count)
				if float64(bar.To) <= truth {
					below += float64(bar.Count)
				}
			}
		}
		// 2,000 blocks tell the share to about half a point.
		if got := below / total; math.Abs(got-0.9) > 0.02 {
			t.Errorf("%s: %.3f of requests lie below the true 0.9-quantile", s.name, got)
		}
	}
}

func TestPoissonHasItsMoments(t *testing.T) {
	rng := randomFor("poisson")
	for _, mean := range []float64{0.5, 20, 100} {
		const draws = 20000
		var sum, squares float64
		for range draws {
			v := poisson(rng, mean)
			sum += v
			squares += v * v
		}
		m := sum / draws
		if se := math.Sqrt(mean / draws); math.Abs(m-mean) > 5*se {
			t.Errorf("mean %v, want %v", m, mean)
		}
		if variance := squares/draws - m*m; math.Abs(variance/mean-1) > 0.06 {
			t.Errorf("variance %v, want %v", variance, mean)
		}
	}
}

func TestContaminatedMeanLog(t *testing.T) {
	rng := randomFor("logs")
	for _, noise := range trials {
		const draws = 200000
		var sum, squares float64
		for range draws {
			v := math.Log(noise.draw(rng))
			sum += v
			squares += v * v
		}
		mean := sum / draws
		se := math.Sqrt((squares/draws - mean*mean) / draws)
		if math.Abs(mean-noise.meanLog) > 5*se {
			t.Errorf("%s: mean logarithm %v by drawing, %v by formula", noise.name, mean, noise.meanLog)
		}
	}
}

func TestRunWritesBetweenTheMarkers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte("before\n"+beginMarker+"\nstale figures\n"+endMarker+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"-into", file, "-share", "1e-9"}, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(got, []byte("before\n"+beginMarker)) || !bytes.HasSuffix(got, []byte(endMarker+"\nafter\n")) || bytes.Contains(got, []byte("stale figures")) {
		t.Errorf("the page became\n%s", got)
	}
	if rows := bytes.Count(got, []byte("\n| normal")); rows == 0 {
		t.Errorf("no tables in\n%s", got)
	}
}

func TestRunReplacesOnlyTheTablesAskedFor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	const first, asked, last = "### Ratio of counts\n\nkept\n\n", "### Stein's two stages\n\nstale figures\n\n", "### Geometric mean\n\nkept too\n\n"
	for _, order := range []string{first + asked + last, first + last + asked} {
		if err := os.WriteFile(file, []byte("before\n"+beginMarker+"\n\n"+order+endMarker+"\nafter\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run([]string{"-into", file, "-share", "1e-3", "-only", "^Stein"}, io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		made := new(bytes.Buffer)
		if err := run([]string{"-share", "1e-3", "-only", "^Stein"}, made, io.Discard); err != nil {
			t.Fatal(err)
		}
		if want := "before\n" + beginMarker + "\n\n" + strings.Replace(order, asked, made.String(), 1) + endMarker + "\nafter\n"; string(got) != want {
			t.Errorf("the page became\n%s\nwant\n%s", got, want)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(empty, []byte("no markers\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"-share 2: want more than 0":    {"-share", "2"},
		"no place for the tables":       {"-into", empty},
		"no such file":                  {"-into", empty + ".missing"},
		"no table has such a title":     {"-only", "of nothing"},
		"missing closing ]":             {"-only", "["},
		`no table "Geometric mean"`:     {"-into", empty, "-only", "Geometric"},
		"flag provided but not defined": {"-unknown"},
	} {
		if err := run(args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}

func randomFor(name string) *rand.Rand { return rand.New(rand.NewPCG(1, streamOf("test", name, 0))) }
