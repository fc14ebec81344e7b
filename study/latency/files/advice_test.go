package files

import (
	"slices"
	"testing"

	"tare/record"
)

func rules(run record.Run) (names []string) {
	for _, a := range Advice(run) {
		names = append(names, a.Rule)
	}
	return names
}

// Advice is given where the run shows that it pays, and nowhere else.
func TestAdvice(t *testing.T) {
	if got, want := rules(whole()), []string{"keep-files-open", "add-not-modify", "few-layers"}; !slices.Equal(got, want) {
		t.Errorf("of what is slow in layers: %q, want %q", got, want)
	}
	small := &made{blocks: 4, run: whole()}
	small.run.Conditions = slices.DeleteFunc(small.run.Conditions, func(c record.Condition) bool { return c.Factors[factorExperiment] != Write })
	if got := rules(small.run); len(got) != 0 {
		t.Errorf("of writes a tenth slower: %q", got)
	}
	m := makeRun(4)
	m.add(Write, inBind, writes(1000, 50_000), nil)
	m.add(Write, inLayer, writes(1600, 51_000), nil)
	m.add(Open, inBind, map[string]float64{open: 1000}, nil)
	m.add(Open, ofLayers(1), map[string]float64{open: 1010}, nil)
	m.add(CopyUp, inBind, ups(3000, 0), nil)
	m.add(CopyUp, inLayer, ups(3000, 0), nil)
	m.add(Walk, ofLayers(1), map[string]float64{walk: 4e6}, nil)
	m.add(Walk, ofLayers(32), map[string]float64{walk: 4e6}, nil)
	if got, want := rules(m.run), []string{"batch-writes"}; !slices.Equal(got, want) {
		t.Errorf("where only small writes are slow: %q, want %q", got, want)
	}
	for name, run := range map[string]record.Run{"one block": func() record.Run { r := whole(); r.Trials = r.Trials[:1]; return r }(), "nothing": {ID: "x"}} {
		if got := rules(run); len(got) != 0 {
			t.Errorf("of %s: %q", name, got)
		}
	}
	for _, a := range Advice(whole()) {
		for _, e := range a.Evidence {
			if e.Run != "latency-1" || len(e.Conditions) == 0 {
				t.Errorf("%s rests on %+v", a.Rule, e)
			}
		}
	}
}
