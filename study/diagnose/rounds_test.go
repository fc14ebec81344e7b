package diagnose

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tare/terminal"
)

// round is a result of one round, with a cost for each id.
func round(began time.Time, costs map[string]float64) *Result {
	r := &Result{Began: began, Span: 10 * time.Second, Watched: 1, Facts: []*Facts{{}}}
	for id, cost := range costs {
		container, _, _ := strings.Cut(id, "/")
		r.Findings = append(r.Findings, Finding{
			ID: id, Container: container, Level: levelOf(cost), Cost: Cost{Rate: cost},
			Set: []Remedy{{Says: "another setting"}},
		})
	}
	Sort(r.Findings, "cost")
	return r
}

func TestRounds(t *testing.T) {
	var h Rounds
	began := time.Now().Add(-time.Minute)
	h.Add(round(began, map[string]float64{"web/throttled": 0.1}))
	v := h.Add(round(began.Add(10*time.Second), map[string]float64{"web/throttled": 0.2, "db/memory-limit": 0.3}))
	if len(v.Trends) != 2 || v.Trends[0].ID != "db/memory-limit" || v.Round != 2 {
		t.Fatalf("%+v", v)
	}
	if web := v.Trends[1]; !web.Since.Equal(began) || web.sparkline() != "▅█" || web.IsGone {
		t.Errorf("%+v, drawn as %s", web, web.sparkline())
	}
	v = h.Add(round(began, map[string]float64{"db/memory-limit": 0.3}))
	if len(v.Trends) != 2 || !v.Trends[1].IsGone {
		t.Errorf("what is gone does not stay: %+v", v.Trends)
	}
	for range keptRounds {
		v = h.Add(round(began, map[string]float64{"db/memory-limit": 0.3}))
	}
	if len(v.Trends) != 1 || len(v.Trends[0].Costs) != keptRounds {
		t.Errorf("what is gone for long, or old costs, stay: %+v", v.Trends)
	}
}

// Every row of a view keeps a width of 80 columns, and what has no room is counted.
func TestViewsFit(t *testing.T) {
	var h Rounds
	costs := map[string]float64{"a\x1b[2J/throttled": 0.7, "日本語日本語日本語日本語/noisy-neighbour:" + strings.Repeat("long", 20): 0.5}
	for _, name := range strings.Split("bcdefghijklmnopqrstuvwxyz", "") {
		costs[name+"/waits-for-cpu"] = 0.01
	}
	v := h.Add(round(time.Now(), costs))
	v.Failed = errors.New("a failure\nof two lines")
	for height := 5; height < 60; height++ {
		rows := v.Rows(80, height)
		text := terminal.Frame(rows, 80, height).String()
		for _, row := range rows[:min(len(rows), height)] {
			columns := 0
			for _, s := range row {
				columns += terminal.Columns(terminal.Escape(s.Words))
			}
			if columns > 80 && !strings.HasPrefix(row[0].Words, "note: ") {
				t.Errorf("%d columns: %+v", columns, row)
			}
		}
		if height < 30 && !strings.Contains(text, "findings more") {
			t.Errorf("on %d lines nothing says what is left out:\n%s", height, text)
		}
	}
	if v = (&Rounds{}).Add(round(time.Now(), nil)); len(v.Rows(80, 24)) != 3 {
		t.Errorf("nothing found is shown as %+v", v.Rows(80, 24))
	}
}

func TestABlockHasWholeNames(t *testing.T) {
	var b strings.Builder
	name := strings.Repeat("long", 30)
	(&Rounds{}).Add(round(time.Now(), map[string]float64{name + "/throttled": 0.1})).Block(&b)
	if got := b.String(); !strings.Contains(got, name+"  throttled ") || !strings.Contains(got, name+": another setting\n") {
		t.Error(got)
	}
}
