package report

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"tare/claim"
	"tare/record"
)

var claimHost = record.Host{Hostname: "bench", Arch: "amd64", CPUModel: "EPYC", CPUs: 2, Kernel: "6.18", Virtual: "none"}

// claimRows are the claims of two papers as after one run of start-up.
func claimRows(t *testing.T, edit func(*claim.Judgement)) []claim.Row {
	t.Helper()
	run := record.Run{ID: "startup-20260102-120000-7f3a", Finished: time.Date(2026, 1, 2, 12, 10, 0, 0, time.Local), Host: claimHost}
	first := claim.Judgement{
		Claim: "S1.1", Verdict: claim.Confirmed, Ours: "the mean grew 1.9 times and the p95 2.6 times while the rate grew 8 times",
		Rests: "12 blocks of docker at 1, 2, 4 and 8 starts a second, 32 starts each",
		Figures: []claim.Figure{
			{Name: "mean, 1 a second", Value: 0.2143, Low: 0.2101, High: 0.2188, Unit: "s", N: 12},
			{Name: "p95, 8 a second", Value: 0.6211, Low: 0.58, High: 0.67, Unit: "s", N: 12},
			{Name: "growth of the mean", Value: 1.92, Low: 1.81, High: 2.04, Unit: "times", N: 12},
		},
	}
	if edit != nil {
		edit(&first)
	}
	settled, err := claim.Settle(run, []claim.Judgement{first,
		{Claim: "S1.3", Verdict: claim.Inconclusive, Rests: "12 profiles, of which the interval holds 50 %"},
		{Claim: "S1.4", Verdict: claim.Refuted, Ours: "22.1 % (21.0 to 23.2)", Rests: "12 profiles"},
		{Claim: "S1.6", Verdict: claim.Confirmed, Ours: "61 %", Rests: "a test", NotRepresentative: "an emulated virtual machine"},
	})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]claim.Judgement{}
	for _, j := range settled {
		j.Since = []string{"kernel 6.17 then, 6.18 now"}
		found[j.Claim] = j
	}
	var claims []claim.Claim
	for _, c := range claim.All() {
		if c.Paper.Key == "S1" || c.Paper.Key == "S3" {
			claims = append(claims, c)
		}
	}
	return claim.Rows(claims, found, func(c claim.Claim) bool { return c.Study == "startup" })
}

func claimList(t *testing.T, opt TerminalOptions) string {
	t.Helper()
	var out bytes.Buffer
	notes := []string{"judge run startup-1: the judgement of S1.1 rests on nothing"}
	if err := ClaimList(&out, claimHost, claimRows(t, nil), notes, opt); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func claimTexts(t *testing.T, opt TerminalOptions, edit func(*claim.Judgement)) string {
	t.Helper()
	var out bytes.Buffer
	rows := claimRows(t, edit)
	if err := ClaimTexts(&out, []claim.Row{rows[0], rows[5], rows[8], rows[2]}, nil, opt); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestClaimsGolden(t *testing.T) {
	next := []string{"tare claims S1.1"}
	golden(t, "claims-80.txt", claimList(t, TerminalOptions{Width: 80, Next: next}))
	golden(t, "claims-60.txt", claimList(t, TerminalOptions{Width: 60, Next: next}))
	golden(t, "claims-whole-80.txt", claimTexts(t, TerminalOptions{Width: 80}, nil))
}

func TestClaimsFitTheScreen(t *testing.T) {
	for _, width := range []int{60, 72, 80, 120} {
		for name, text := range map[string]string{"list": claimList(t, TerminalOptions{Width: width}), "whole": claimTexts(t, TerminalOptions{Width: width}, nil)} {
			for line := range strings.Lines(text) {
				if line = strings.TrimRight(line, "\n"); columns(line) > width {
					t.Errorf("%s at %d columns: a line of %d: %s", name, width, columns(line), line)
				}
			}
		}
	}
}

func TestColoursOfClaimsSayNothingElse(t *testing.T) {
	colours := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for name, of := range map[string]func(TerminalOptions) string{
		"list":  func(o TerminalOptions) string { return claimList(t, o) },
		"whole": func(o TerminalOptions) string { return claimTexts(t, o, nil) },
	} {
		without, with := of(TerminalOptions{}), of(TerminalOptions{Color: true})
		if strings.Contains(without, "\x1b") {
			t.Errorf("%s: coloured unasked", name)
		}
		if !strings.Contains(with, "\x1b") {
			t.Errorf("%s: not coloured where asked", name)
		}
		// Colours keep spaces that would else be cut off at a line's end.
		trim := func(s string) string { return regexp.MustCompile(` +\n`).ReplaceAllString(s, "\n") }
		if trim(colours.ReplaceAllString(with, "")) != without {
			t.Errorf("%s: with colours other words stand:\n%s", name, with)
		}
	}
}

// What a run says of itself comes from a file that others may write.
func TestClaimsAreSafeForATerminal(t *testing.T) {
	const hostile = "a\x1b[2Jb\r\u202e"
	text := claimTexts(t, TerminalOptions{}, func(j *claim.Judgement) {
		j.Ours, j.Rests, j.NotRepresentative = hostile, hostile, hostile
		j.Figures = append(j.Figures, claim.Figure{Name: hostile, Value: 1, Unit: hostile})
	})
	if strings.ContainsAny(text, "\x1b\r\u202e") {
		t.Errorf("a terminal would obey this:\n%q", text)
	}
	if !strings.Contains(text, `a\u001b[2Jb \u202e`) {
		t.Error("the hostile text is not there at all")
	}
}

func TestClaimSpans(t *testing.T) {
	rows := claimRows(t, nil)
	for _, c := range []struct {
		at   []int
		want string
	}{
		{[]int{0}, "S1.1"},
		{[]int{0, 1}, "S1.1, S1.2"},
		{[]int{0, 1, 2}, "S1.1 to S1.3"},
		{[]int{0, 2, 4, 5, 6, 9}, "S1.1, S1.3, S1.5 to S1.7, S1.10"},
		{nil, ""},
	} {
		if got := claimSpans(rows, c.at); got != c.want {
			t.Errorf("%v are %q, want %q", c.at, got, c.want)
		}
	}
}

func TestNoClaimIsNoFault(t *testing.T) {
	var out bytes.Buffer
	if err := ClaimList(&out, claimHost, nil, nil, TerminalOptions{}); err != nil || !strings.Contains(out.String(), "No claim") {
		t.Errorf("%v: %q", err, out.String())
	}
}

func TestJudgedClaims(t *testing.T) {
	var settled []claim.Judgement
	for _, r := range claimRows(t, nil) {
		if r.Judgement.Verdict != claim.NotYetRun {
			settled = append([]claim.Judgement{r.Judgement}, settled...) // in another order
		}
	}
	var got []string
	for _, j := range JudgedClaims(settled) {
		if j.Says == "" || j.Published == "" || j.Why == "" {
			t.Errorf("%s lacks something: %+v", j.Claim, j)
		}
		got = append(got, fmt.Sprintf("%s %s %q", j.Claim, j.Verdict, j.Tone))
	}
	want := []string{`S1.1 confirmed "good"`, `S1.3 inconclusive "faint"`, `S1.4 refuted "bad"`, `S1.6 qualified ""`}
	if strings.Join(got, "; ") != strings.Join(want, "; ") {
		t.Errorf("rows %q, want %q", got, want)
	}
	last := JudgedClaims(settled)[3]
	for _, word := range []string{"97 %", "emulated"} {
		if !strings.Contains(last.Why, word) {
			t.Errorf("S1.6 does not say %q: %s", word, last.Why)
		}
	}
}
