package reproduction_test

import (
	"bytes"
	"strings"
	"testing"

	"tare/claim"
	"tare/record"
	"tare/report"
	"tare/study/reproduction"
)

// shown is a result of four claims: one that is decided, one by words alone, one that this host
// cannot decide, and one for which a part is open.
func shown(t *testing.T) reproduction.Result {
	rows := claim.Rows(claims(t, "S1.3", "S1.10", "S4.3", "S4.5"), map[string]claim.Judgement{
		"S1.3": {Claim: "S1.3", Verdict: claim.Confirmed, Ours: "kernel 57.2 %", Rests: "8 profiles", Run: "startup-1",
			Figures: []claim.Figure{{Name: "kernel", Value: 57.21, Low: 56.3, High: 58.1, Unit: "%", N: 8}}},
		"S4.3": {Claim: "S4.3", Verdict: claim.Inconclusive, Ours: "both lose", Rests: "no clock", Run: "latency-1"},
	}, func(claim.Claim) bool { return true })
	rows[1].Left, rows[3].Left = "needs a host with counters", "failed: no engine"
	return reproduction.Result{
		Rows: rows, Here: record.Host{Hostname: "scales", CPUs: 2}, On: &claim.Abilities{CPUs: 2},
		Runs: []record.Run{{ID: "startup-1", Version: "v2", Command: strings.Fields("tare startup --profile --yes")}},
		Pages: map[string]report.Sheet{"startup-1": {Parts: []report.Part{
			report.Prose{Title: "Left out", Text: "not shown"},
			report.Bars{Title: "Where the time goes", Rows: []report.Bar{{Label: "docker", Segments: []report.Segment{{Name: "kernel", Value: 57}}}}},
		}}},
	}
}

func TestTableFitsATerminal(t *testing.T) {
	var out bytes.Buffer
	if err := report.SheetTerminal(&out, shown(t).Sheet(), report.TerminalOptions{Width: 80}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if len([]rune(strings.TrimSuffix(line, "\n"))) > 80 {
			t.Errorf("wider than 80 columns: %q", line)
		}
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"1 confirmed, 1 inconclusive and 2 not yet run", "scales",
		"kernel: 56.94 % 57.2 % (56.3 confirmed", "to 58.1)", // published, ours, verdict
		"S4.5* writing is as", "S4.5 The writes are said to have been forced", // the paper contradicts itself
		"S1.10 needs a host with counters", "S4.5 failed: no engine",
		"S4.3 whether the clock rate",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(text, "weight") || strings.Contains(text, "Characterization") {
		t.Errorf("what is the page's stands on the screen:\n%s", out.String())
	}
}

func TestPageHasAChapterAPaper(t *testing.T) {
	var out bytes.Buffer
	if err := report.SheetHTML(&out, shown(t).Sheet()); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	at := 0
	for _, want := range []string{
		`href="#chapter-1"`, `href="#chapter-2"`, ">Claims<", `id="chapter-1"`, "S1: Characterization",
		"8 profiles", "tare startup --profile<", "Where the time goes", `id="chapter-2"`, "S4: The Impact",
	} {
		i := strings.Index(page[at:], want)
		if i < 0 {
			t.Fatalf("no %q after the ones before it", want)
		}
		at += i
	}
	for _, never := range []string{"Not measured with this run", "Left out", "--yes"} {
		if strings.Contains(page, never) {
			t.Errorf("the page says %q", never)
		}
	}
}
