package platforms

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"tare/record"
	"tare/report"
	"tare/study/kit"
	"tare/workload"
)

// sized is a world in which a vanilla container costs 10 % more by each e-fold that it is
// smaller than the host.
func sized(c record.Condition) float64 {
	if KindOf(c.Platform) != CN || preset(c) != Vanilla {
		return 1
	}
	return math.Exp(0.1 * math.Log(16/number(c, factorSize)))
}

// ladder is a run of a ladder of ffmpeg on which seccomp costs 5 %.
func ladder(host record.Host) record.Run {
	run := record.Run{ID: "weigh-ladder", Study: "weigh", Status: record.Complete, Host: host,
		Plan: record.Plan{Level: 0.95, SmallestEffect: 0.02, Ladder: true}}
	for i, cost := range []float64{1, 1, 1.05} {
		c := record.Condition{
			ID: "ffmpeg@" + strconv.Itoa(i), Label: []string{"bare", "cgroup", "oci:runc"}[i], Workload: "ffmpeg", Platform: "bare", Baseline: i == 0,
			Metrics: []workload.Metric{{Name: "elapsed", Unit: "s", Better: workload.Lower, Primary: true}},
		}
		run.Conditions = append(run.Conditions, c)
		for block := 1; block <= 6; block++ {
			value := cost * (1 + 0.002*math.Sin(float64(3*block+i)))
			run.Trials = append(run.Trials, record.Trial{ID: int64(len(run.Trials) + 1), Condition: c.ID, Workload: c.Workload, Block: block,
				Attempt: 1, Samples: []record.Sample{{Metric: "elapsed", Value: value}}})
		}
	}
	return run
}

// cellOf is a table's cell in the row whose first cells are these.
func cellOf(t *testing.T, table report.Table, column int, begins ...string) float64 {
	t.Helper()
rows:
	for _, row := range table.Rows {
		for i, text := range begins {
			if row[i].Text != text {
				continue rows
			}
		}
		v, err := strconv.ParseFloat(row[column].Text, 64)
		if err != nil {
			t.Fatalf("%s: %q in column %d", strings.Join(begins, " "), row[column].Text, column)
		}
		return v
	}
	t.Fatalf("%s: no row begins so", strings.Join(begins, " "))
	return 0
}

// Costs between the measured sizes, and of levels of isolation there, are near the truth.
func TestPredict(t *testing.T) {
	run := measured(designed(t, options(onPlatforms("docker"), ofSizes(1, 2, 4, 8, 16))), sized)
	answer, tables, err := Predict(run, []record.Run{ladder(record.Host{CPUs: 3}), ladder(run.Host)}, []float64{3, 4})
	if err != nil {
		t.Fatal(err)
	}
	if len(tables) != 2 || !strings.HasPrefix(answer, "ffmpeg in docker vanilla on 3 of 16 is predicted to take 1.") {
		t.Fatalf("%d tables, %s", len(tables), answer)
	}
	for cpus, want := range map[string]float64{"3": math.Exp(0.1 * math.Log(16./3)), "4": math.Exp(0.1 * math.Log(4))} {
		if got := cellOf(t, tables[0], 3, "ffmpeg", "docker vanilla", cpus); math.Abs(got/want-1) > 0.02 {
			t.Errorf("%s CPUs: predicted %g, want %.3f", cpus, got, want)
		}
	}
	if got := cellOf(t, tables[0], 4, "ffmpeg", "docker vanilla", "4"); math.Abs(got/math.Exp(0.1*math.Log(4))-1) > 0.02 {
		t.Errorf("measured on 4 CPUs: %g", got)
	}
	if got, want := cellOf(t, tables[1], 2, "oci:runc"), 1.05*math.Exp(0.1*math.Log(16./3)); math.Abs(got/want-1) > 0.02 {
		t.Errorf("with seccomp on 3 CPUs: %g, want %.3f", got, want)
	}
	if len(tables[1].Rows) != 2 {
		t.Errorf("%d levels, want cgroup and oci:runc", len(tables[1].Rows))
	}
	// Of none, those between the measured ones; of a pinned container the whole ones.
	if _, tables, err = Predict(run, nil, nil); err != nil || len(tables) != 1 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	cellOf(t, tables[0], 3, "ffmpeg", "docker vanilla", "1.5")
	for _, row := range tables[0].Rows {
		if row[1].Text == "docker pinned" && strings.Contains(row[2].Text, ".") {
			t.Errorf("a set of %s CPUs is predicted", row[2].Text)
		}
	}
	// Beyond a doubling nothing is predicted, and the page has why.
	if _, tables, err = Predict(run, nil, []float64{0.1}); err != nil || !strings.Contains(tables[0].Note, "measure nearer to it") {
		t.Errorf("a tenth of a CPU: %v", err)
	}
	usage := new(kit.Usage)
	few := measured(designed(t, options(onPlatforms("docker"), ofSizes(1, 2))), sized)
	for name, run := range map[string]record.Run{"two sizes": few, "nothing": {ID: "x"}} {
		if _, _, err := Predict(run, nil, nil); !errors.As(err, &usage) || !strings.Contains(err.Error(), "--cpus") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
