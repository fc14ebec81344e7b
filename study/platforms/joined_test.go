package platforms

import (
	"math"
	"strings"
	"testing"

	"tare/model/size"
	"tare/record"
	"tare/workload"
)

// wakings are by workload, of each in thousands a second of CPU time.
var wakings = map[string]float64{"ffmpeg": 0, "mpi-search": 2, "mpi-primes": 4}

func watchedWakings(c record.Condition) map[string]float64 {
	name, _, _ := strings.Cut(c.Workload, " ")
	return map[string]float64{covCPU: 1, covWoken: 1000 * wakings[name]}
}

// ranksOf has each workload of a joint fit run a number of ranks of its own.
func ranksOf(o *Options) {
	o.Causes = true
	o.Subjects = nil
	for name, n := range map[string]string{"ffmpeg": "16", "mpi-search": "128", "mpi-primes": "32"} {
		o.Subjects = append(o.Subjects, workload.Subject{Workload: fakeWorkload{name: name, ranks: true}, Params: map[string]string{paramRanks: n}})
	}
}

// costly has vanilla containers lose to size, the more the more they are woken.
func costly(c record.Condition) float64 {
	name, _, _ := strings.Cut(c.Workload, " ")
	if KindOf(c.Platform) != CN || preset(c) != Vanilla {
		return 1
	}
	return math.Exp(math.Log(1/chr(c)) * (0.05 + 0.03*wakings[name]))
}

func vanillaJoint(t *testing.T, run record.Run) joined {
	t.Helper()
	for _, j := range read(run).joint() {
		if j.column == (column{"docker", Vanilla}) {
			return j
		}
	}
	t.Fatal("vanilla containers were not fitted together")
	return joined{}
}

// What is not identifiable from one workload is from several together.
func TestJointFit(t *testing.T) {
	run := measured(designed(t, options(cns, ranksOf)), costly, watchedWakings)
	j := vanillaJoint(t, run)
	if io, why := j.term(size.IO); why != "" || math.Abs(io.Value-0.03) > 0.005 || !io.Known() {
		t.Errorf("input and output: %g (%s), want 0.03", io.Value, why)
	}
	if tasks, why := j.term(size.Tasks); why != "" || math.Abs(tasks.Value) > 0.005 {
		t.Errorf("tasks: %g (%s), want about 0", tasks.Value, why)
	}
	for _, p := range j.fit.Residuals {
		if want := map[string]float64{"ffmpeg": 16, "mpi-search": 128, "mpi-primes": 32}[p.Point.Workload]; p.Point.Tasks != want {
			t.Errorf("%s at %g CPUs has %g tasks, want %g", p.Point.Workload, p.Point.CPUs, p.Point.Tasks, want)
		}
	}
	if text := shown(t, run); !strings.Contains(text, "Effect of I/O and of tasks") {
		t.Error("the page does not show it")
	}
}

// An unknown number of tasks is not made up, and what was not watched takes no
// part.
func TestJointFitOfWhatIsNotKnown(t *testing.T) {
	unknown := func(o *Options) { o.Causes, o.Subjects = true, subjectsOf("ffmpeg", "mpi-search", "mpi-primes") }
	run := measured(designed(t, options(cns, unknown)), costly, watchedWakings)
	j := vanillaJoint(t, run)
	if _, why := j.term(size.Tasks); !strings.Contains(why, "the number of tasks of ffmpeg, mpi-search and mpi-primes is unknown") {
		t.Errorf("the term of tasks is refused for %q", why)
	}
	if io, why := j.term(size.IO); why != "" || math.Abs(io.Value-0.03) > 0.005 {
		t.Errorf("input and output: %g (%s), want 0.03", io.Value, why)
	}
	if text := shown(t, run); !strings.Contains(text, "is unknown") {
		t.Error("the page does not say what is unknown")
	}
	partly := measured(designed(t, options(cns, unknown)), costly, func(c record.Condition) map[string]float64 {
		if strings.HasPrefix(c.Workload, "mpi-primes") {
			return nil
		}
		return watchedWakings(c)
	})
	if j := vanillaJoint(t, partly); len(j.workloads) != 2 || strings.Join(j.left, "; ") != "mpi-primes was not watched" {
		t.Errorf("fitted together: %v; left out: %v", j.workloads, j.left)
	}
	if all := read(measured(designed(t, options(cns, unknown)), costly)).joint(); len(all) != 0 {
		t.Errorf("unwatched, there are %d joint fits", len(all))
	}
}

func TestTasksOf(t *testing.T) {
	pool := record.Condition{ID: "a", Platform: Bare, Params: map[string]string{paramTasks: "30", paramThreads: "0"}, Baseline: true, Workload: "ffmpeg 1 CPU",
		Factors: map[string]string{factorSize: "1", factorQuestion: matrix}, Metrics: []workload.Metric{{Name: "elapsed", Primary: true}, {Name: metricPool}}}
	run := record.Run{ID: "x", Study: Name, Conditions: []record.Condition{pool}, Plan: record.Plan{Blocks: 1, Level: 0.95}}
	for block := 1; block <= 3; block++ {
		run.Trials = append(run.Trials, record.Trial{ID: int64(block), Condition: "a", Workload: pool.Workload, Block: block, Attempt: 1,
			Samples: []record.Sample{{Metric: "elapsed", Value: 1}, {Metric: metricPool, Value: 2}}})
	}
	r := read(run)
	for name, c := range map[string]struct {
		of    record.Condition
		want  float64
		known bool
	}{
		"x265's own pool in each part": {pool, 60, true},
		"threads":                      {record.Condition{Params: map[string]string{paramTasks: "1", paramThreads: "3"}}, 3, true},
		"ranks":                        {record.Condition{Params: map[string]string{paramRanks: "4"}}, 4, true},
		"processes of a server":        {record.Condition{Params: map[string]string{paramWorkers: "150"}}, 150, true},
		"a database":                   {record.Condition{Params: map[string]string{paramThreads: "100"}}, 0, false},
		"nothing":                      {record.Condition{}, 0, false},
	} {
		if got, known := r.tasksOf(c.of); got != c.want || known != c.known {
			t.Errorf("%s: %g tasks, known %v; want %g, %v", name, got, known, c.want, c.known)
		}
	}
}
