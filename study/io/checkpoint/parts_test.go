package checkpoint

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"tare/record"
	"tare/report"
	"tare/workload"
)

// whole is a run of several sizes and manners.
func whole() *made {
	m := makeRun(5)
	m.cellWith(base, slight, asPublished)
	m.add(base, inLayer, 300, 700)
	m.cellWith(with(func(c *cell) { c.particles = 25_000_000 }), slight, asPublished)
	m.cellWith(with(func(c *cell) { c.ranks = 1 }), slight, asPublished)
	m.cellWith(dropped, asBare, asBare)
	return m
}

func shown(t *testing.T, run record.Run) string {
	t.Helper()
	var page bytes.Buffer
	sheet := report.Sheet{Title: "tare io haccio", Answer: Answer(run), Parts: Parts(run)}
	if err := report.SheetHTML(&page, sheet); err != nil {
		t.Fatal(err)
	}
	var screen bytes.Buffer
	if err := report.SheetTerminal(&screen, sheet, report.TerminalOptions{All: true, Width: 120}); err != nil {
		t.Fatal(err)
	}
	return screen.String()
}

func table(t *testing.T, run record.Run, title string) report.Table {
	t.Helper()
	for _, p := range Parts(run) {
		if t, ok := p.(report.Table); ok && strings.HasPrefix(t.Title, title) {
			return t
		}
	}
	t.Fatalf("no table %q", title)
	return report.Table{}
}

func row(t *testing.T, of report.Table, name string) []report.Cell {
	t.Helper()
	i := slices.IndexFunc(of.Rows, func(r []report.Cell) bool { return r[0].Text == name })
	if i < 0 {
		t.Fatalf("%s: no row %q among %v", of.Title, name, of.Rows)
	}
	return of.Rows[i]
}

func TestAnswer(t *testing.T) {
	got := Answer(whole().run)
	for _, want := range []string{"Page cache kept: the largest loss is 39.96", " of bare metal's rate, for a write in docker layer.", "Page cache dropped: no significant loss of rate; the largest estimate is "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
	if got := Answer(record.Run{ID: "x"}); got != "Nothing was measured." {
		t.Errorf("of nothing: %q", got)
	}
	if parts := Parts(record.Run{ID: "x"}); len(parts) != 0 {
		t.Errorf("of nothing: %d parts", len(parts))
	}
}

// Every figure of a storage stands as a share of its floor.
func TestSharesOfTheFloor(t *testing.T) {
	run := whole().run
	summary := table(t, run, "Loss of write and read rate")
	// 99 % of 500 MB/s, where fio writes 505.
	if cells := row(t, summary, "page cache kept: docker volume"); !strings.HasPrefix(cells[1].Text, "1.0") || !strings.HasPrefix(cells[2].Text, "98") || cells[5].Text != "3" {
		t.Errorf("volume: %+v", cells)
	}
	if cells := row(t, summary, "page cache kept: bare"); cells[1].Text != "baseline" || !strings.HasPrefix(cells[2].Text, "99") {
		t.Errorf("bare metal: %+v", cells)
	}
	// The layer is in one cell of three, and is compared within that one.
	if cells := row(t, summary, "page cache kept: docker layer"); !strings.HasPrefix(cells[1].Text, "39.9") || cells[5].Text != "1" {
		t.Errorf("layer: %+v", cells)
	}
	for _, r := range summary.Rows {
		if strings.Contains(r[0].Text, "floor") {
			t.Errorf("the floor stands among the places: %q", r[0].Text)
		}
	}
	writes := table(t, run, "Write rate, by checkpoint")
	if cells := row(t, writes, "1 M x 2 ranks: docker layer"); !strings.HasPrefix(cells[1].Text, "30") || !strings.HasPrefix(cells[3].Text, "59") || cells[4].Text != "76 MB" {
		t.Errorf("layer: %+v", cells)
	}
	if cells := row(t, writes, "1 M x 2 ranks: bare, fio floor"); cells[3].Text != "100" {
		t.Errorf("the floor: %+v", cells)
	}
}

// Ours stand beside S5's, over all sizes and at those that S5 has drawn.
func TestPublishedFiguresStandBesideOurs(t *testing.T) {
	m := makeRun(5)
	m.cellWith(base, slight, rated{90, 90})
	m.cellWith(with(func(c *cell) { c.particles = 25_000_000 }), slight, rated{98, 98})
	m.cellWith(dropped, asBare, asBare)
	of := table(t, m.run, "Loss of rate, %: S5")
	// A write is drawn at 1 M, a read at 25 M; the mean of 90 and 98 % is 93.9 %.
	for name, want := range map[string][4]string{"write, bind mount": {"3.3", "6.", "0", "10"}, "read, bind mount": {"3 to 10", "6.", "0", "2"}} {
		cells := row(t, of, name)
		for i, w := range want {
			if got := strings.TrimPrefix(cells[1+i].Text, "-"); !strings.HasPrefix(got, w) {
				t.Errorf("%s, %s: %q, want %q", name, of.Columns[1+i].Head, got, w)
			}
		}
	}
	m = makeRun(5)
	m.cellWith(dropped, asBare, asBare)
	if cells := row(t, table(t, m.run, "Loss of rate, %: S5"), "read, volume"); len(cells) != 4 || cells[3].Text != report.Absent().Text {
		t.Errorf("without S5's manner: %+v", cells)
	}
}

// A place has the floor of its own disk.
func TestSharesAreOfTheOwnDisk(t *testing.T) {
	m := makeRun(4)
	m.add(base, onMetal, 500, 800)
	m.floor(base, 500, 800)
	m.add(base, inVolume, 100, 100)
	m.condition(base, inVolume, "docker volume, fio floor", true, 200, 400)
	for i := range m.run.Conditions {
		if c := &m.run.Conditions[i]; strings.HasPrefix(c.Label, "docker volume") {
			c.Factors[factorDisk] = "8:2"
		}
	}
	writes := table(t, m.run, "Write rate, by checkpoint")
	if cells := row(t, writes, "1 M x 2 ranks: docker volume"); !strings.HasPrefix(cells[3].Text, "50") && !strings.HasPrefix(cells[3].Text, "49.9") {
		t.Errorf("half of its own disk: %+v", cells)
	}
	floors := table(t, m.run, "Rate of the disk")
	if cells := row(t, floors, "1 M x 2 ranks: docker volume"); len(floors.Rows) != 2 || !strings.HasPrefix(cells[3].Text, "50") && !strings.HasPrefix(cells[3].Text, "49.9") {
		t.Errorf("the program beside it: %+v", cells)
	}
}

// A block that one of several cells lacks is left out: what is put together is of all.
func TestBlocksOfAllCells(t *testing.T) {
	m := whole()
	fast := with(func(c *cell) { c.ranks = 1 }).group()
	m.run.Trials = slices.DeleteFunc(m.run.Trials, func(t record.Trial) bool { return t.Workload == fast && t.Block == 5 })
	r := readRun(m.run)
	cells := r.of(mode{cache: Kept, sync: NoSync})
	if len(cells) != 3 {
		t.Fatalf("%d cells", len(cells))
	}
	if blocks := r.levels(cells, bare, write); len(blocks) != 4 || blocks[5] != 0 {
		t.Errorf("levels of %d blocks: %v", len(blocks), blocks)
	}
}

func TestFloorsShowTheirScatter(t *testing.T) {
	m := whole()
	floors := table(t, m.run, "Rate of the disk")
	if len(floors.Rows) != 4 {
		t.Errorf("%d floors of 4 cells", len(floors.Rows))
	}
	for _, want := range []string{"equivalent to fio within 5 %", "page cache kept, write equivalent", "page cache dropped, read equivalent"} {
		if !strings.Contains(floors.Note, want) {
			t.Errorf("%q does not say %q", floors.Note, want)
		}
	}
	slow := makeRun(5)
	slow.add(base, onMetal, 400, 880)
	slow.add(base, inBind, 400, 880)
	slow.floor(base, 500, 800)
	floors = table(t, slow.run, "Rate of the disk")
	if !strings.Contains(floors.Note, "write slower, 80") || !strings.Contains(floors.Note, "read faster, 110") {
		t.Errorf("a slow program: %q", floors.Note)
	}
	shaky := makeRun(5)
	shaky.shakes = 0.3
	shaky.cellWith(base, slight, asPublished)
	if cells := row(t, table(t, shaky.run, "Rate of the disk"), "1 M x 2 ranks"); len(cells[2].Text) < 2 || cells[2].Text[0] == '0' {
		t.Errorf("a floor that moves by a third scatters by %q %%", cells[2].Text)
	}
}

// S5's figures 4 and 5: over ranks at one size, and over sizes at one number of ranks.
func TestCharts(t *testing.T) {
	var titles []string
	for _, p := range Parts(whole().run) {
		if c, ok := p.(report.Chart); ok {
			titles = append(titles, c.Title)
			if c.Series[0].Name != "bare" || len(c.Series[0].Points) != 2 || c.Series[len(c.Series)-1].Name != "fio" {
				t.Errorf("%s: %+v", c.Title, c.Series)
			}
		}
	}
	want := []string{
		"Write rate, by ranks: 1 M particles per rank, page cache kept", "Read rate, by ranks: 1 M particles per rank, page cache kept",
		"Write rate, by million particles per rank: 2 ranks, page cache kept", "Read rate, by million particles per rank: 2 ranks, page cache kept",
	}
	if !slices.Equal(titles, want) {
		t.Errorf("charts %q, want %q", titles, want)
	}
}

// Of several sizes with as many ranks those are drawn that S5 has drawn.
func TestChartsAreDrawnAsPublished(t *testing.T) {
	m := makeRun(3)
	for _, particles := range []int64{1_000_000, 5_000_000, 25_000_000} {
		for _, n := range []int{1, 2} {
			m.cellWith(with(func(c *cell) { c.particles, c.ranks = particles, n }), slight, asPublished)
		}
	}
	titles := map[string]string{}
	for _, p := range Parts(m.run) {
		if c, ok := p.(report.Chart); ok {
			_, as, _ := strings.Cut(c.Note, "gives. ")
			titles[as] = c.Title
		}
	}
	for note, want := range map[string]string{"The same plot is S5's figure 4.": "Write rate, by ranks: 1 M", "The same plot is S5's figure 5.": "Read rate, by ranks: 25 M"} {
		if !strings.HasPrefix(titles[note], want) {
			t.Errorf("%s %q, want %q", note, titles[note], want)
		}
	}
}

// What the page cache has to do with the figures is said, by the host's own limits.
func TestAbout(t *testing.T) {
	text := shown(t, whole().run)
	for _, want := range []string{
		"0.25 s on average", "at most 3 MB of",
		"lets 1.0 GB of writes wait in memory", "These wrote more than the first: 25 M x 2 ranks",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	m := makeRun(4)
	m.cellWith(base, slight, asPublished)
	if r := readRun(m.run).waits(); !strings.Contains(r, "These wrote more than the second: 1 M x 2 ranks") {
		t.Errorf("a small checkpoint: %s", r)
	}
	for i := range m.run.Trials {
		m.run.Trials[i].Covariates = map[string]float64{dirtyLimit: 1e9, dirtyBackground: 5e8}
	}
	if r := readRun(m.run).waits(); !strings.Contains(r, "No checkpoint of this run reaches either") {
		t.Errorf("below both: %s", r)
	}
	elsewhere := shown(t, imported(map[string][]rated{"bare": {{2600, 9500}, {2650, 9400}, {2610, 9450}}, "volume": {{2600, 9500}}, "bind": {{2600, 9500}}}))
	for _, want := range []string{"measured elsewhere", "no fio beside them", "if the device is as fast as S5's"} {
		if !strings.Contains(strings.Join(strings.Fields(elsewhere), " "), want) {
			t.Errorf("imported, the page does not say %q:\n%s", want, elsewhere)
		}
	}
}

// The program reports page by page that the page cache was dropped.
func TestWhatWasNotDroppedIsReported(t *testing.T) {
	about := func(left float64) string {
		m := makeRun(4)
		m.cellWith(dropped, slight, asPublished)
		for i := range m.run.Trials {
			m.run.Trials[i].Samples = append(m.run.Trials[i].Samples, record.Sample{Metric: cached, Value: left})
		}
		return readRun(m.run).notDropped()
	}
	if got := about(0); !strings.Contains(got, "none of the files' pages was in memory") {
		t.Errorf("all dropped: %q", got)
	}
	if got := about(0.25); !strings.Contains(got, "up to 25 % of a file's pages were still in memory") {
		t.Errorf("a quarter left: %q", got)
	}
	if got := readRun(whole().run).notDropped(); got != "" {
		t.Errorf("nobody looked: %q", got)
	}
}

func TestAdvice(t *testing.T) {
	rules := func(run record.Run) (names []string) {
		for _, a := range Advice(run) {
			names = append(names, a.Rule)
			for _, e := range a.Evidence {
				if e.Run != "io-1" || len(e.Conditions) < 2 {
					t.Errorf("%s rests on %+v", a.Rule, e)
				}
			}
		}
		return names
	}
	if got, want := rules(whole().run), []string{"checkpoints-outside-the-layer"}; !slices.Equal(got, want) {
		t.Errorf("of a slow layer, and a bind mount that loses: %q, want %q", got, want)
	}
	m := makeRun(5)
	m.cellWith(base, asBare, asBare)
	m.add(base, inLayer, 500, 800)
	if got, want := rules(m.run), []string{"volume-or-bind-alike"}; !slices.Equal(got, want) {
		t.Errorf("where all are alike: %q, want %q", got, want)
	}
	one := whole()
	one.run.Trials = one.run.Trials[:1]
	if got := rules(one.run); len(got) != 0 {
		t.Errorf("of one trial: %q", got)
	}
	if got := rules(imported(map[string][]rated{"bare": {{1, 1}, {1, 1}, {1, 1}}, "volume": {{1, 1}}, "bind": {{1, 1}}})); len(got) != 0 {
		t.Errorf("of what was measured elsewhere: %q", got)
	}
}

// aboutOf is what the page says of what was measured.
func aboutOf(t *testing.T, run record.Run) string {
	t.Helper()
	for _, p := range Parts(run) {
		if p, ok := p.(report.Prose); ok {
			return p.Text
		}
	}
	t.Fatal("the page says nothing")
	return ""
}

// Ranks that wrote one after the other look faster than they were.
func TestLongSpansAreReported(t *testing.T) {
	for span, reported := range map[float64]bool{1.4: false, 3: true} {
		m := makeRun(3)
		m.cellWith(base, slight, asPublished)
		for i := range m.run.Conditions {
			m.run.Conditions[i].Metrics = append(slices.Clone(rates), workload.Metric{Name: writeTime, Unit: "s"}, workload.Metric{Name: writeSpan, Unit: "s"})
		}
		for i := range m.run.Trials {
			t := &m.run.Trials[i]
			t.Samples = append(t.Samples, record.Sample{Metric: writeTime, Value: 0.2}, record.Sample{Metric: writeSpan, Value: 0.2 * span})
		}
		if text := aboutOf(t, m.run); strings.Contains(text, "up to 3 times as long") != reported {
			t.Errorf("a span of %v times: %s", span, text)
		}
	}
}
