package imported_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/claim"
	"tare/record"
	"tare/record/foreign"
	"tare/report"
	"tare/study/imported"
	"tare/workload"
)

var study imported.Study

// figures are repetitions of a metric in cells, by condition.
func figures(t *testing.T, cells int, factors []string, repetitions map[string][]float64) record.Run {
	t.Helper()
	var csv strings.Builder
	csv.WriteString("storage,elements,copy\n")
	for cell := range cells {
		for _, storage := range []string{"bare", "volume", "bind"} {
			for _, v := range repetitions[storage] {
				fmt.Fprintf(&csv, "%s,%d,%g\n", storage, 1000*(cell+1), v*float64(cell+1))
			}
		}
	}
	run, err := foreign.Read(t.Context(), []foreign.File{{Name: "figures.csv", Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(csv.String())), nil }}}, foreign.Options{
		Format: foreign.CSV, Workload: "stream", Values: []string{"copy"}, Units: []string{"MB/s"},
		Condition: []string{"storage"}, Baseline: []string{"bare"}, Factors: factors, When: time.Unix(1e9, 0),
	})
	if err != nil {
		t.Fatal(err)
	}
	run.ID, run.Study = "import-1", imported.Name
	return run
}

var (
	bare   = []float64{100, 100.2, 100.1, 99.9, 100}
	same   = []float64{100.1, 100, 99.9, 100.2, 100.1}
	slower = []float64{90, 90.2, 90.1, 89.9, 90}
)

func screen(t *testing.T, s report.Sheet) string {
	t.Helper()
	var b strings.Builder
	if err := report.SheetTerminal(&b, s, report.TerminalOptions{Width: 200}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func tables(s report.Sheet) []report.Table {
	var all []report.Table
	for _, p := range s.Parts {
		if t, ok := p.(report.Table); ok {
			all = append(all, t)
		}
	}
	return all
}

// Few cells have a table each, the worst condition below the baseline.
func TestFewCells(t *testing.T) {
	s := study.Sheet(figures(t, 2, nil, map[string][]float64{"bare": bare, "volume": same, "bind": slower}), nil, nil)
	all := tables(s)
	if len(all) != 2 {
		t.Fatalf("%d tables of 2 cells", len(all))
	}
	var order []string
	for _, row := range all[0].Rows {
		order = append(order, row[0].Text+" "+row[4].Text)
	}
	if got := strings.Join(order, ", "); got != "bare , bind worse, volume equivalent" {
		t.Errorf("rows %s", got)
	}
	if !strings.Contains(s.Answer, "bind costs") {
		t.Errorf("answer %q", s.Answer)
	}
	for _, want := range []string{"imported: ", "not interleaved: ", "order: ", "no A/A: ", "repetitions: 5 runs a cell", "host: unknown"} {
		if !slices.ContainsFunc(s.Banners, func(b string) bool { return strings.HasPrefix(b, want) }) {
			t.Errorf("no banner %q among %q", want, s.Banners)
		}
	}
}

// Many cells are counted, the worst stand alone, and each metric has a table over
// cells; a page never grows beyond reading.
func TestManyCells(t *testing.T) {
	run := figures(t, 40, nil, map[string][]float64{"bare": bare, "volume": same, "bind": slower})
	s := study.Sheet(run, nil, nil)
	all := tables(s)
	if len(all) != 3 {
		t.Fatalf("%d tables", len(all))
	}
	if len(all[0].Rows) != 2 || all[0].Rows[0][0].Text != "bind" || all[0].Rows[0][5].Text != "40" {
		t.Errorf("counts %+v", all[0].Rows)
	}
	if rows := all[1].Rows; len(rows) != 20 || rows[0][4].Text != "worse" {
		t.Errorf("the worst are %d rows, first %+v", len(rows), rows[0])
	}
	if rows := all[2].Rows; len(rows) != 40 || rows[0][0].Text != "1000" || all[2].Columns[0].Head != "elements" {
		t.Errorf("%s: %d rows", all[2].Title, len(rows))
	}
	if !strings.Contains(s.Answer, "40 worse") || !strings.Contains(s.Answer, "40 equivalent") {
		t.Errorf("answer %q", s.Answer)
	}
	if text := screen(t, study.Sheet(figures(t, 100, nil, map[string][]float64{"bare": bare, "bind": slower}), nil, nil)); !strings.Contains(text, "100 cells are more than a page shows") {
		t.Errorf("a hundred cells:\n%s", text)
	}
}

// One run a cell decides nothing, and says what would.
func TestOneRunACell(t *testing.T) {
	s := study.Sheet(figures(t, 1, nil, map[string][]float64{"bare": bare[:1], "bind": slower[:1]}), nil, nil)
	text := screen(t, s)
	for _, want := range []string{"one run a cell", "--block", "inconclusive", "at least 5 repetitions under each condition"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// What an interval takes are repetitions, of which no block is known; who has them needs
// no hint.
func TestTooFewRepetitions(t *testing.T) {
	two := study.Sheet(figures(t, 1, []string{"io=redis", "payload=3", "pipeline=1"}, map[string][]float64{"bare": bare[:2], "bind": slower[:2]}), nil, nil)
	if !strings.Contains(two.Answer, "requires three repetitions") {
		t.Errorf("answer %q", two.Answer)
	}
	if !slices.ContainsFunc(two.Banners, func(b string) bool { return strings.Contains(b, "--block") }) {
		t.Errorf("no hint among %q", two.Banners)
	}
	three := study.Sheet(figures(t, 1, nil, map[string][]float64{"bare": bare[:3], "bind": slower[:3]}), nil, nil)
	if slices.ContainsFunc(three.Banners, func(b string) bool { return strings.Contains(b, "--block") }) {
		t.Errorf("a hint to who needs none: %q", three.Banners)
	}
}

// Without a baseline there is nothing to judge, and what there is is shown.
func TestNothingToCompare(t *testing.T) {
	s := study.Sheet(figures(t, 1, nil, map[string][]float64{"bare": bare}), nil, nil)
	if !strings.Contains(s.Answer, "tare compare") || len(tables(s)[0].Rows) != 1 {
		t.Errorf("answer %q, tables %+v", s.Answer, tables(s))
	}
}

// The page says why nothing was compared: no cell has several conditions, or the baseline has
// no value above zero.
func TestWhyNothingIsCompared(t *testing.T) {
	for contents, want := range map[string]string{
		"storage,kind,faults\nbare,a,1\nbind,b,2\n": "nothing is compared: no cell has the baseline and another condition",
		"storage,kind,faults\nbare,a,0\nbind,a,2\n": "no effect is known",
	} {
		run, err := foreign.Read(t.Context(), []foreign.File{{Name: "figures.csv", Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(contents)), nil }}}, foreign.Options{
			Format: foreign.CSV, Values: []string{"faults"}, Units: []string{"faults"}, Better: []string{"lower"}, Condition: []string{"storage"}, Baseline: []string{"bare"}, When: time.Unix(1e9, 0),
		})
		if err != nil {
			t.Fatal(err)
		}
		if s := study.Sheet(run, nil, nil); !strings.HasPrefix(strings.ToLower(s.Answer), want) {
			t.Errorf("answer %q, want %q", s.Answer, want)
		}
	}
}

// Where no verdict rests on the figures, the answer begins with that, no claim is judged, and
// what is exact is still decided, of none before too.
func TestNoVerdict(t *testing.T) {
	run := figures(t, 1, []string{"io=stream"}, map[string][]float64{"bare": bare, "bind": slower})
	run.Plan.Imported.Unjudged = "not interleaved: bare is in a.csv, and bind in b.csv"
	s := study.Sheet(run, nil, study.Judge(run))
	if s.Answer != "No verdict: not interleaved. The first caution says more." || !strings.HasPrefix(s.Banners[0], "no verdict: not interleaved: bare is") || study.Judge(run) != nil {
		t.Errorf("answer %q, first banner %q", s.Answer, s.Banners[0])
	}
	if text := screen(t, s); strings.Contains(text, "worse") {
		t.Errorf("a verdict on\n%s", text)
	}
	run.Plan.Imported.FewProcesses = nil
	for c := range run.Conditions {
		run.Conditions[c].Metrics = append(run.Conditions[c].Metrics, workload.Metric{Name: "allocs", Unit: "allocs", Better: workload.Lower, Primary: true})
	}
	for i := range run.Trials {
		count := 0.0
		if strings.HasSuffix(run.Trials[i].Condition, "@bind") {
			count = 2
		}
		run.Trials[i].Samples = append(run.Trials[i].Samples, record.Sample{Metric: "allocs", Value: count})
	}
	s = study.Sheet(run, nil, nil)
	if !strings.HasPrefix(s.Answer, "No verdict on what varies: not interleaved.") || !strings.Contains(s.Answer, "bind adds 2.00 to stream's allocs at worst (exact)") {
		t.Errorf("answer %q", s.Answer)
	}
	if text := screen(t, s); !strings.Contains(text, "2.00 allocs") {
		t.Errorf("no change of none on\n%s", text)
	}
}

// A claim is judged where one was named, and the verdict says whose figures it rests
// on.
func TestClaims(t *testing.T) {
	plain := figures(t, 1, nil, map[string][]float64{"bare": bare, "bind": slower})
	if j := study.Judge(plain); j != nil || study.NextOf(plain) != "tare export import-1 --format csv" {
		t.Errorf("no claim was named: %+v, next %s", j, study.NextOf(plain))
	}
	named := figures(t, 1, []string{"io=stream"}, map[string][]float64{"bare": bare, "bind": slower})
	if next := study.NextOf(named); next != "tare io stream" {
		t.Errorf("next %s", next)
	}
	for _, j := range study.Judge(named) {
		if j.NotRepresentative == "" {
			t.Errorf("%s is judged as if it were ours", j.Claim)
		}
	}
	if text := screen(t, study.Sheet(named, nil, nil)); !strings.Contains(text, "do not have what decides the claim") {
		t.Errorf("nothing says that there is no verdict:\n%s", text)
	}
	verdict := []claim.Judgement{{Claim: "S5.1", Verdict: claim.Qualified, Ours: "copy 0.2 %", Rests: "3 cells", NotRepresentative: "measured elsewhere, and imported"}}
	if text := screen(t, study.Sheet(named, nil, verdict)); !strings.Contains(text, "qualified") || !strings.Contains(text, "measured elsewhere") {
		t.Errorf("the verdict is not shown:\n%s", text)
	}
}

// What the paper says of its own data stands beside what the data are: their interval, and whether it
// reaches what was published.
func TestPublishedSummaryBesideItsData(t *testing.T) {
	run := figures(t, 1, []string{"io=stream"}, map[string][]float64{"bare": bare, "bind": slower})
	const volume, bind = "overhead, volume, 50 M elements", "overhead, bind mount, 50 M elements"
	s := study.Sheet(run, nil, []claim.Judgement{{Claim: "S5.1", Verdict: claim.Qualified, Ours: "copy 0.2 %", Figures: []claim.Figure{
		{Name: volume, Value: 0.6, Low: 0.3, High: 1, Unit: "%", N: 5}, {Name: bind, Value: 0.2, Low: 0.1, High: 0.4, Unit: "%", N: 5},
		{Name: "triad at its best", Value: 9, Unit: "%"},
	}}})
	all := tables(s)
	i := slices.IndexFunc(all, func(t report.Table) bool { return strings.HasPrefix(t.Title, "Published summary") })
	if i < 0 {
		t.Fatal("no table of the published summary")
	}
	var rows []string
	for _, row := range all[i].Rows {
		var cells []string
		for _, c := range row {
			cells = append(cells, c.Text)
		}
		rows = append(rows, strings.Join(cells, "|"))
	}
	want := []string{"S5.1|" + volume + "|0.5 to 0.7|0.6|0.3 to 1.0|%|yes", "S5.1|" + bind + "|1 to 1.5|0.20|0.10 to 0.40|%|no"}
	if !slices.Equal(rows, want) {
		t.Errorf("rows %q, want %q", rows, want)
	}
}
