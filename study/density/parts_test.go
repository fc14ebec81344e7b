package density

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tare/claim"
	"tare/report"
)

// text is a page as a terminal shows it.
func text(t *testing.T, s report.Sheet) string {
	t.Helper()
	var b bytes.Buffer
	if err := report.SheetTerminal(&b, s, report.TerminalOptions{Width: 200, All: true}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// tables are a page's by title.
func tables(parts []report.Part) map[string]report.Table {
	all := map[string]report.Table{}
	for _, p := range parts {
		if long, ok := p.(report.Long); ok {
			p = long.Part
		}
		if table, ok := p.(report.Table); ok {
			all[table.Title] = table
		}
	}
	return all
}

func TestAnswer(t *testing.T) {
	thrashes, tailOnly, never := s3, s3, truth{noise: 0.02}
	thrashes.thrash = 5.5
	tailOnly.keeps = 1
	few := withOrder(Continuous, 3, file(s3))
	few.numbers = []int{1, 13, 25} // of a quick run
	for _, c := range []struct {
		name string
		run  made
		want []string
	}{
		{"as S3", withOrder(Continuous, 3, file(s3)), []string{"Up to 13 idle neighbours (2.0 times the memory), booking keeps its throughput. Beyond that, throughput halves, and the p99 is ", " times as long."}},
		{"until it thrashes", withOrder(Continuous, 3, file(thrashes)), []string{"Up to 13 idle neighbours (2.0 times the memory), booking keeps its throughput. Beyond that, throughput halves", "6 of 6 sweeps ended early, at 5.75 times the memory."}},
		{"the tail alone", withOrder(Continuous, 3, file(tailOnly)), []string{"Beyond 13 idle neighbours (2.0 times the memory), booking's p99 is ", "No loss of throughput was found up to 49 idle neighbours (6.8 times the memory)."}},
		{"nothing", withOrder(Continuous, 3, file(never)), []string{"No effect of idle neighbours on booking was found, up to 49 idle neighbours (6.8 times the memory)."}},
		{"one sweep", withOrder(Interleaved, 1, file(never)), []string{"With 49 idle neighbours (6.8 times the memory), compared with 1, booking's p99 ", "Only 1 sweep: no intervals, which require 3."}},
		{"few numbers", few, []string{"With 25 idle neighbours (3.6 times the memory), booking has 0.49", "times the p99 that it has with 1. Where the change begins is unknown"}},
		{"two devices", withOrder(Continuous, 3, file(s3), zram(never)), []string{"the p99 on zram is 0.01"}},
		{"two devices alike", withOrder(Continuous, 3, file(never), zram(never)), []string{"At 6.8 times the memory, no significant difference between zram and file was found."}},
	} {
		got := Answer(c.run.run(t))
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q lacks %q", c.name, got, want)
			}
		}
	}
}

// That nothing changes is never said: of too few sweeps, and where figures are worse without a place
// where that begins, the place is unknown.
func TestPanelsClaimNoMoreThanIsKnown(t *testing.T) {
	never := truth{noise: 0.02}
	few := withOrder(Continuous, 3, file(s3))
	few.numbers = []int{1, 13, 25}
	for _, c := range []struct {
		name, want string
		run        made
	}{
		{"as S3", "Beyond 13 idle neighbours", withOrder(Continuous, 3, file(s3))},
		{"nothing", "No place was found where throughput changes.", withOrder(Continuous, 3, file(never))},
		{"one sweep", "Where throughput begins to change is unknown.", withOrder(Interleaved, 1, file(never))},
		{"few numbers", "Where throughput begins to change is unknown.", few},
	} {
		run := c.run.run(t)
		all := text(t, Study.Sheet(run, attachmentsOf(run), nil))
		if !strings.Contains(all, c.want) {
			t.Errorf("%s: the page does not say %q", c.name, c.want)
		}
		if strings.Contains(all, "does not change") {
			t.Errorf("%s: the page says that something does not change", c.name)
		}
	}
}

// The page says what S3's four panels show, where the cliff is, and what is absent.
func TestSheet(t *testing.T) {
	t.Parallel()
	thrashes := s3
	thrashes.thrash = 5.5
	run := withOrder(Continuous, 3, file(thrashes), zram(s3)).run(t)
	judgements, err := claim.Settle(run, Judge(run))
	if err != nil {
		t.Fatal(err)
	}
	s := Study.Sheet(run, attachmentsOf(run), judgements)
	var charts []string
	for _, p := range s.Parts {
		if long, ok := p.(report.Long); ok {
			p = long.Part
		}
		if c, ok := p.(report.Chart); ok {
			charts = append(charts, c.Title)
			if len(c.Marks) == 0 || len(c.Series) == 0 || !slices.ContainsFunc(c.X.Labels, func(l string) bool { return strings.HasSuffix(l, "(6.8)") }) {
				t.Errorf("%s: %d marks, %d lines, labels %v", c.Title, len(c.Marks), len(c.Series), c.X.Labels)
			}
		}
	}
	if want := []string{"Throughput", "Percentiles of latency", "p99 latency, by policy", "Mean and greatest latency", "Mean and greatest latency, on a logarithmic axis"}; !slices.Equal(charts, want) {
		t.Errorf("charts %v, want %v", charts, want)
	}
	sweep := tables(s.Parts)["Latency and throughput, by number of neighbours: file"]
	if len(sweep.Rows) != 11 || sweep.Rows[4][len(sweep.Columns)-1].Text != "throughput falls, p99 rises" || sweep.Rows[10][len(sweep.Columns)-1].Text != "6 of 6 ended" {
		t.Errorf("the sweep's table has %d rows: %+v", len(sweep.Rows), sweep.Rows)
	}
	all := text(t, s)
	for _, want := range []string{
		"6 sweeps of file: throughput fell below a tenth of the first step's", // of the attachment
		"device_read_bytes: zram has no device below it",
		"--order interleaved separates the two",
		"Effect of the swap device", "zram compared with file", "Latency of the neighbours, by policy", "Agreement of repeats of the same step", "S3.1", "What to set",
		"--protect swappiness",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	var page bytes.Buffer
	if err := report.SheetHTML(&page, s); err != nil || page.Len() == 0 {
		t.Errorf("%d bytes of HTML, %v", page.Len(), err)
	}
	for title, table := range tables(s.Parts) {
		for _, row := range table.Rows {
			if len(row) != len(table.Columns) {
				t.Errorf("%s: a row of %d cells under %d columns", title, len(row), len(table.Columns))
			}
		}
	}
	// Without the attachment its texts are missing, and nothing else is.
	bare := Study.Sheet(run, nil, nil)
	if got := text(t, bare); !strings.Contains(got, "its reason is in the attachment steps.json") {
		t.Error("the page without attachments says nothing of why sweeps ended")
	}
	if len(tables(bare.Parts)) < len(tables(s.Parts)) {
		t.Error("the page without attachments lacks tables")
	}
	lost := func(int64, string) ([]byte, error) { return []byte("{"), nil }
	if s := Study.Sheet(run, lost, nil); !slices.ContainsFunc(s.Banners, func(b string) bool { return strings.Contains(b, "could not be read whole") }) {
		t.Errorf("banners %v", s.Banners)
	}
}

// A figure that the kernel does not report is a dash, not nothing.
func TestAbsentIsNoZero(t *testing.T) {
	run := withOrder(Continuous, 3, file(s3)).run(t)
	at := func(s report.Sheet, head string) report.Cell {
		table := tables(s.Parts)["Swap device and memory limit of the box"]
		i := slices.IndexFunc(table.Columns, func(c report.Column) bool { return c.Head == head })
		if i < 0 || len(table.Rows) == 0 {
			t.Fatalf("no column %q", head)
		}
		return table.Rows[len(table.Rows)-1][i]
	}
	if got := at(Study.Sheet(run, attachmentsOf(run), nil), "read, MB/s"); got != report.Absent() {
		t.Errorf("a figure that is not reported reads %+v", got)
	}
	if got := at(Study.Sheet(run, attachmentsOf(run), nil), "written, MB/s"); got.Text == "0" || got == report.Absent() {
		t.Errorf("a figure that is reported reads %+v", got)
	}
}

func TestAdvice(t *testing.T) {
	protected, useless := s3, s3
	protected.stalls, protected.keeps = 0, 0.9
	run := withOrder(Interleaved, 5, file(s3),
		madePolicy{"file, swappiness", "file", "swappiness", "", protected, ""},
		madePolicy{"file, limit", "file", "limit", "", useless, ""}).run(t)
	var rules []string
	for _, a := range Advice(run) {
		rules = append(rules, a.Rule+": "+a.Set)
		for _, e := range a.Evidence {
			if len(e.Conditions) == 0 || e.Run == "" {
				t.Errorf("%s rests on nothing that is named: %+v", a.Rule, e)
			}
		}
	}
	got := strings.Join(rules, "\n")
	if len(rules) != 2 || !strings.Contains(got, "stop-before-the-cliff") || !strings.Contains(got, "memory.swappiness 0") {
		t.Errorf("advised:\n%s", got)
	}
	if !strings.Contains(got, "below 2 times the memory") { // where its place's interval begins
		t.Errorf("advised:\n%s", got)
	}
	loose := withOrder(Interleaved, 5, file(truth{cliff: s3.cliff, keeps: 0.7, slows: 1, noise: 0.5}))
	loose.seed = 3
	if all := Advice(loose.run(t)); len(all) != 0 {
		t.Errorf("advised where a fall may be anywhere: %+v", all)
	}
	never := withOrder(Interleaved, 5, file(truth{noise: 0.02})).run(t)
	if all := Advice(never); len(all) != 0 {
		t.Errorf("advised where nothing is wrong: %+v", all)
	}
}

func TestNext(t *testing.T) {
	short := withOrder(Interleaved, 5, file(truth{noise: 0.02}))
	short.numbers = []int{1, 3, 5, 7, 9}
	for want, m := range map[string]made{
		"tare density --blocks 5":                               withOrder(Interleaved, 3, file(s3)),
		"tare density --full":                                   short,
		"tare density --swap file,zram":                         withOrder(Interleaved, 5, file(s3)),
		"tare density --protect none,swappiness,limit,headroom": withOrder(Interleaved, 5, file(s3), zram(s3)),
	} {
		if got := Study.NextOf(m.run(t)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// The page has what is known of a box: notes, its limit, and the cost of keeping it.
func TestPageHasTheBox(t *testing.T) {
	const note = "the box is not kept as it was asked for"
	run := remade(t, withOrder(Continuous, 3, file(s3)), func(trial int, steps []Step) []Step {
		for i := range steps {
			steps[i].Limit, steps[i].Keeper = 1000<<20, steps[i].Elapsed/50
			steps[i].SwapSize, steps[i].SwapUsed = 2048<<20, 512<<20
		}
		steps[5].SwapUsed = 1025 << 20
		steps[4].Notes = []string{note}
		steps[5].Notes = []string{fmt.Sprintf("swap is full (%d of 64 MiB)", trial), fmt.Sprintf("swap is full (%d of 64 MiB)", trial+1), "rule 2 decides of nothing", fmt.Sprintf("was ready to run for 1m%ds together", trial)}
		steps[6].Notes = []string{"rule 3 decides of nothing"}
		return steps
	})
	s := Study.Sheet(run, attachmentsOf(run), nil)
	for _, want := range []string{
		note + " (6 of 78 steps)",
		"swap is full (1 of 64 MiB) (6 of 78 steps, some with other amounts)",
		"was ready to run for 1m1s together (6 of 78 steps, some with other amounts)",
		"rule 2 decides of nothing (6 of 78 steps)",
		"rule 3 decides of nothing (6 of 78 steps)",
	} {
		if !slices.Contains(s.Banners, "box of file: "+want) {
			t.Errorf("no banner %q in %q", want, s.Banners)
		}
	}
	if !slices.ContainsFunc(s.Banners, func(b string) bool {
		return strings.HasPrefix(b, "swap of file was more than half full at the end of 6 of 78 steps")
	}) {
		t.Errorf("banners %q", s.Banners)
	}
	table := tables(s.Parts)["Swap device and memory limit of the box"]
	for head, want := range map[string]string{"limit, MiB": "1000", "keeper CPU, %": "2", "swap used, %": "25"} {
		i := slices.IndexFunc(table.Columns, func(c report.Column) bool { return c.Head == head })
		if i < 0 || !strings.HasPrefix(strings.ReplaceAll(table.Rows[3][i].Text, ",", ""), want) {
			t.Errorf("%s: column %d of %+v", head, i, table.Rows[3])
		}
	}
}
