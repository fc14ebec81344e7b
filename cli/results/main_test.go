package main

import (
	"errors"
	"strings"
	"testing"

	"tare/report"
)

func fixture() source {
	return source{sheets: map[string]report.Sheet{}, read: func(command string) (report.Sheet, error) {
		if command != "tare latency cpu" {
			return report.Sheet{}, errors.New("no complete run of " + command)
		}
		return report.Sheet{Answer: "A quota delays.", Parts: []report.Part{report.Table{
			Title:   "CPU quotas",
			Columns: []report.Column{{Head: "quota"}, {Head: "p99", Number: true}, {Head: "S4's", Number: true}},
			Rows: [][]report.Cell{
				{{Text: "1, of 10"}, {Text: "90", Detail: "88 to 93"}, {Text: "70"}},
				{{Text: "2"}, {Text: "91"}, report.Absent()},
				{{Text: "3"}, report.Absent(), {Text: "80"}},
			},
		}, report.Chart{Title: "Curve"}}}, nil
	}}
}

func TestPagesAreFilledOnce(t *testing.T) {
	page := "# Title\n\n<!-- made: tare latency cpu | answer -->\nold\n<!-- end -->\n\nBy hand.\n" +
		"<!-- made: tare latency cpu | CPU quotas -->\n<!-- end -->\nLast.\n"
	once, err := fixture().page(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# Title\n", "-->\n\nA quota delays.\n\n<!-- end", "By hand.", "| 1, of 10 | 90 | 88 to 93 | 70 |", "Last.\n"} {
		if !strings.Contains(once, want) {
			t.Errorf("%q is not in\n%s", want, once)
		}
	}
	if twice, err := fixture().page(once); err != nil || twice != once {
		t.Errorf("filled again: %v\n%s", err, twice)
	}
}

func TestFigures(t *testing.T) {
	text := "# title: Quotas\n# rows: tare latency cpu | CPU quotas | p99 | S4's\ngroup,label,value,low,high,published\nold,x,1,,,\n"
	want := "# title: Quotas\n# rows: tare latency cpu | CPU quotas | p99 | S4's\ngroup,label,value,low,high,published\n" +
		"CPU quotas,\"1, of 10\",90,88,93,70\nCPU quotas,2,91,,,\n"
	if got, err := fixture().figures(text); err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
	byHand := "# title: By hand\ngroup,label,value,low,high,published\na,b,1,,,\n"
	if got, err := fixture().figures(byHand); err != nil || got != byHand {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestWhatCannotBeFilledIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"<!-- made: tare latency cpu | Nothing -->\n<!-- end -->\n": `"CPU quotas"`,
		"<!-- made: tare latency cpu | Curve -->\n<!-- end -->\n":   "drawing",
		"<!-- made: tare io | answer -->\n<!-- end -->\n":           "no complete run of tare io",
		"<!-- made: tare latency cpu | answer -->\n":                "want <!-- made:",
		"<!-- made: answer -->\n<!-- end -->\n":                     "want <!-- made:",
	} {
		if _, err := fixture().page(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"# rows: tare latency cpu | CPU quotas | p50\n": `no column "p50"`,
		"# rows: tare latency cpu | CPU quotas\n":       "want # rows:",
		"# rows: tare latency cpu | Curve | p99\n":      "no table",
	} {
		if _, err := fixture().figures(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
