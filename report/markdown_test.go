package report

import (
	"strings"
	"testing"
)

func TestMarkdown(t *testing.T) {
	table := Table{
		Title:   "Quotas",
		Note:    "First.\n\nSecond *line*.",
		Columns: []Column{{Head: "quota"}, {Head: "p99, µs", Number: true}, {Head: "stalled", Number: true}},
		Rows: [][]Cell{
			{{Text: "a|b <i>"}, {Text: "90", Detail: "88 to 93"}, {Text: "130"}},
			{{Text: "1ms/10ms"}, Absent()},
		},
	}
	for _, c := range []struct {
		part Part
		want string
	}{
		{Long{table}, `| quota | p99, µs | interval | stalled |
|---|---:|---:|---:|
| a\|b &lt;i> | 90 | 88 to 93 | 130 |
| 1ms/10ms | – |  |  |

First.

Second \*line\*.
`},
		{Table{
			Columns: []Column{{Head: "claim"}, {Head: "here"}},
			Rows:    [][]Cell{{{Text: "S4.1"}, {Text: "mean: 69 µs", Detail: "64 to 75"}}, {{Text: "S4.2"}, Absent()}},
		}, `| claim | here | interval |
|---|---|---|
| S4.1 | mean: 69 µs | 64 to 75 |
| S4.2 | – |  |
`},
		{Judgements{Rows: []Judgement{{Claim: "S4.1", Says: "shares cost", Published: "14 µs", Ours: "0.2", Verdict: "refuted"}}},
			`| claim | says | verdict | ours | published |
|---|---|---|---|---|
| S4.1 | shares cost | refuted | 0.2 | 14 µs |
`},
		{Prose{Text: "One\nline.\n\nAnother."}, "One line.\n\nAnother.\n"},
	} {
		var b strings.Builder
		if err := Markdown(&b, c.part); err != nil || b.String() != c.want {
			t.Errorf("%+v: %v\n%s\nwant\n%s", c.part, err, b.String(), c.want)
		}
	}
	if err := Markdown(&strings.Builder{}, Chart{Title: "A chart"}); err == nil {
		t.Error("a chart was written as Markdown")
	}
}

func TestTitled(t *testing.T) {
	sheet := Sheet{Parts: []Part{Long{Table{Title: "one"}}, metricTables{metrics: []metricTable{{Table: Table{Title: "two"}}}}, Prose{Text: "none"}}}
	for _, title := range sheet.Titles() {
		if part, ok := sheet.Titled(title); !ok || part.heading() != title {
			t.Errorf("%q: %v", title, part)
		}
	}
	if got := strings.Join(sheet.Titles(), " "); got != "one two" {
		t.Errorf("titles %q", got)
	}
}
