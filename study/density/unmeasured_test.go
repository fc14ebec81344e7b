package density

import (
	"slices"
	"strings"
	"testing"

	"tare/record"
	"tare/report"
)

// A run that was stopped before its base was measured keeps it as what the others are set
// against: in its place, with dashes, and nothing else stands for it.
func TestBaseNotMeasured(t *testing.T) {
	run := withOrder(Interleaved, 3, file(s3), zram(s3)).run(t)
	base := run.Conditions[0].Factors[FactorPolicy]
	run.Trials = slices.DeleteFunc(run.Trials, func(trial record.Trial) bool {
		return strings.Contains(trial.Condition, "@"+base+",")
	})
	s := Study.Sheet(run, attachmentsOf(run), nil)
	if !strings.HasPrefix(s.Answer, "The base, file, was not measured, so that nothing is compared with it. Under zram: Up to 13 idle neighbours") {
		t.Errorf("the answer is %q", s.Answer)
	}
	rows := tables(s.Parts)["Where throughput falls and latency rises, by policy"].Rows
	if len(rows) != 2 || rows[0][0].Text != "file" || rows[1][0].Text != "zram" {
		t.Fatalf("rows: %v", rows)
	}
	for _, cell := range rows[0][1:] {
		if cell.Text != report.Absent().Text {
			t.Errorf("the base has %q", cell.Text)
		}
	}
	for title := range tables(s.Parts) {
		if strings.Contains(title, "compared with") {
			t.Errorf("a table of %q", title)
		}
	}
	if got := Study.Interim(run).Parts[0].(report.Table).Title; !strings.HasSuffix(got, ": zram") {
		t.Errorf("meanwhile there is %q", got)
	}
	Judge(run)
	Advice(run)
	Study.NextOf(run)
}

// Where the kernel ended the service before anything of its box was read, what was asked
// for is not known: it is not nothing.
func TestEndedBeforeAnyReading(t *testing.T) {
	run := remade(t, withOrder(Continuous, 3, file(truth{noise: 0.004})), func(_ int, steps []Step) []Step {
		return []Step{steps[0], {Neighbours: steps[1].Neighbours, Stop: "killed"}}
	})
	s := Study.Sheet(run, attachmentsOf(run), nil)
	rows := tables(s.Parts)["Latency and throughput, by number of neighbours"].Rows
	if last := rows[len(rows)-1]; len(rows) != 2 || last[1].Text != report.Absent().Text || last[len(last)-1].Text != "6 of 6 ended" {
		t.Errorf("rows: %v", rows)
	}
	if got := text(t, s); strings.Contains(got, " 0.00 ") || strings.Contains(got, "NaN") {
		t.Errorf("the page says %q", got)
	}
	if !strings.HasSuffix(s.Answer, "6 of 6 sweeps ended early.") {
		t.Errorf("the answer is %q", s.Answer)
	}
	if got := line(Step{Neighbours: 5, Stop: "killed"}); got != "5 neighbours; the sweep stops here: killed" {
		t.Errorf("the line is %q", got)
	}
}
