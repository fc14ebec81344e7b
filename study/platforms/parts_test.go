package platforms

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"tare/claim"
	"tare/record"
	"tare/report"
)

// shown is a run's page as a screen of 80 columns has it.
func shown(t *testing.T, run record.Run) string {
	t.Helper()
	settled, err := claim.Settle(run, Judge(run))
	if err != nil {
		t.Fatal(err)
	}
	sheet := Study.Sheet(run, nil, settled)
	var screen, page bytes.Buffer
	if err := report.SheetTerminal(&screen, sheet, report.TerminalOptions{Width: 80}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(screen.String()) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	if err := report.SheetHTML(&page, sheet); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"NaN", "+Inf", "%!"} {
		if strings.Contains(screen.String(), bad) || strings.Contains(page.String(), bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	return screen.String()
}

func TestPage(t *testing.T) {
	watch := func(o *Options) { o.Causes = true }
	run := measured(designed(t, options(tcg, ofSizes(0.5, 1, 1.5, 2), withCPUs(2), watch)), published, watchedAs(
		map[string]float64{covCPU: 1.1, covBurst: 0.004, covWait: 0.1, covMigrations: 50, covPeriods: 10, covCut: 5, covSamples: 1000, covAccounting: 3, covElsewhere: 2, covWoken: 20, covWeight: 0.01},
		map[string]float64{covCPU: 1, covBurst: 0.01, covWait: 0.01, covMigrations: 5, covPeriods: 0, covSamples: 1000, covAccounting: 1, covElsewhere: 1, covWoken: 20, covWeight: 0.01}))
	text := shown(t, run)
	for _, want := range []string{
		"The costliest is docker with a quota of 0.5 CPU: ffmpeg takes 1.1", "docker vanilla = pinned", "emulated", "same CPUs",
		"Cost of the platform's type and of its size", "not identifiable", "ln(1/CHR)", "Smallest share of the host",
		"Scheduling, throttling and interrupts", "Rank correlation with the cost", "Bare metal against itself",
		"Residuals of the model", "Practices recommended by S2", "not shown", "S2.10", "CPU time of the probe, where it was on",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
	if next := Study.NextOf(run); next != "tare platforms --workload ffmpeg --tasks one,many" {
		t.Errorf("next: %s", next)
	}
}

// A page can be made of any run, also of one that yielded nothing.
func TestPageOfAnyRun(t *testing.T) {
	whole := measured(designed(t, options(cns)), alike)
	none, once := whole, measured(designed(t, options(cns, func(o *Options) { o.Plan.Blocks = 1 })), alike)
	none.Trials = nil
	for name, c := range map[string]struct {
		run    record.Run
		answer string
	}{
		"without conditions": {record.Run{ID: "x", Study: Name}, "Nothing was measured."},
		"without trials":     {none, "Nothing was measured."},
		"one block":          {once, "The costs are not known yet: an interval requires three blocks."},
		"all alike":          {whole, "Every program stays within 2 % of bare metal's time on every platform."},
		"of tasks":           {measured(designed(t, options(cns, ofSizes(2), func(o *Options) { o.Tasks = []int{1, 30} })), world(alike).by(1.1, isKind(CN), tasksAre(30))), "Splitting ffmpeg into 30 processes adds overhead"},
		"of tasks, alike":    {measured(designed(t, options(cns, ofSizes(2), func(o *Options) { o.Tasks = []int{1, 30} })), alike), "Whether splitting ffmpeg into 30 processes"},
		"of hosts":           {measured(designed(t, options(cns, ofSizes(2), func(o *Options) { o.Hosts, o.Disruptive = []int{2, 16}, true })), alike), "On a host with 16 CPUs"},
	} {
		if got := Answer(c.run); !strings.HasPrefix(got, c.answer) {
			t.Errorf("%s: %s", name, got)
		}
		shown(t, c.run)
		Study.Interim(c.run)
		if Study.NextOf(c.run) == "" {
			t.Errorf("%s: nothing is next", name)
		}
	}
}

// A part of a CPU costs what is beyond the ideal: bare metal's time over the share.
func TestFractionsAreOverTheIdeal(t *testing.T) {
	r := read(measured(designed(t, options(cns, ofSizes(0.5, 1.5), withCPUs(2))), world(alike).by(1.1, isKind(CN))))
	for _, s := range r.of(matrix, "ffmpeg") {
		c, ok := s.one(CN, Vanilla)
		if !ok {
			t.Fatalf("no container at %g", s.size)
		}
		if got := r.cost(s, c); math.Abs(got.Value-1.1) > 0.01 {
			t.Errorf("at %g it costs %g times, want 1.1", s.size, got.Value)
		}
		times := r.PerBlock(c, s.metric.Name)
		if bare := r.PerBlock(s.base, s.metric.Name); math.Abs(times[1]/bare[1]-1.1*math.Ceil(s.size)/s.size) > 0.05 {
			t.Errorf("at %g it takes %g times bare metal's time", s.size, times[1]/bare[1])
		}
	}
}

// What bare metal does not use is not missed: of two CPUs 1.6 are busy.
func TestWhatIsNotUsedIsNotMissed(t *testing.T) {
	run := measured(designed(t, options(cns, ofSizes(1.5), withCPUs(2))), alike)
	for i := range run.Trials {
		trial := &run.Trials[i]
		trial.Covariates["cpu_s"] = 1.6 * trial.Samples[0].Value
	}
	r := read(run)
	for _, s := range r.of(matrix, "ffmpeg") {
		c, _ := s.one(CN, Vanilla)
		if got := r.ideal(s, c); math.Abs(got-1.6/1.5) > 0.05 {
			t.Errorf("the ideal is %g times bare metal's time, want %g", got, 1.6/1.5)
		}
	}
}

// Docker's container decides, whatever stands beside it, as S2's were Docker's.
func TestOneContainerDecides(t *testing.T) {
	r := read(measured(designed(t, options(onPlatforms("oci:runc", "docker"))), alike))
	for _, s := range r.of(matrix, "") {
		if c, ok := s.one(CN, Pinned); !ok || c.Platform != "docker" {
			t.Errorf("%s decides", c.Platform)
		}
	}
}
