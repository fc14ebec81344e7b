package report

import (
	"regexp"
	"testing"

	"tare/overhead"
	"tare/record"
)

func TestAnswer(t *testing.T) {
	rate := overhead.MetricReport{Name: "get", Unit: "requests/s", Primary: true, HigherIsBetter: true}
	elapsed := overhead.MetricReport{Name: "elapsed", Unit: "s", Primary: true}
	row := func(platform string, v overhead.Verdict, percent, low, high float64) overhead.Row {
		return overhead.Row{Condition: platform, Label: platform, Platform: platform, Verdict: v, Percent: percent, PercentLow: low, PercentHigh: high, AdjustedLow: low, AdjustedHigh: high}
	}
	bare := overhead.Row{Condition: "bare", Label: "bare", Platform: "bare", Baseline: true, Verdict: overhead.Baseline}
	runc := row("oci:runc", overhead.Equivalent, 0.2, -0.4, 0.8)
	crun := row("oci:crun", overhead.Equivalent, 0.1, -0.5, 0.7)
	docker := row("docker", overhead.Worse, 3.1, 2.2, 4.0)
	runsc := row("oci:runsc", overhead.Inconclusive, 2.1, -1, 5.2)
	runsc.Needs = "about 34 blocks"

	for _, c := range []struct {
		name   string
		metric overhead.MetricReport
		rows   []overhead.Row
		want   string
	}{
		{"the first screen", rate, []overhead.Row{bare, crun, runc, docker},
			"Docker costs redis 3.1 % of its get rate (2.2 to 4.0); runc and crun cost nothing above 2 %."},
		{"time", elapsed, []overhead.Row{bare, docker},
			"Docker adds 3.1 % to redis's elapsed time (2.2 to 4.0)."},
		{"nothing costs", rate, []overhead.Row{bare, runc},
			"runc costs redis nothing above 2 %."},
		{"a gain", elapsed, []overhead.Row{bare, row("oci:crun", overhead.Better, -2.5, -3.1, -1.9), runc},
			"crun lowers redis's elapsed time by 2.5 % (1.9 to 3.1); runc costs nothing above 2 %."},
		{"undecided", rate, []overhead.Row{bare, runsc},
			"runsc is undecided for redis (between 1 % better and 5 % worse; about 34 blocks would decide)."},
		{"baseline other than bare metal", rate, []overhead.Row{
			{Condition: "docker", Label: "docker network=bridge", Platform: "docker", Baseline: true}, runc},
			"Against Docker with network=bridge, runc costs redis nothing above 2 %."},
		{"many equivalent", rate, []overhead.Row{bare, docker, runc, crun,
			row("a", overhead.Equivalent, 0, -1, 1), row("b", overhead.Equivalent, 0, -1, 1)},
			"Docker costs redis 3.1 % of its get rate (2.2 to 4.0); 4 conditions cost nothing above 2 %."},
		{"the baseline alone", rate, []overhead.Row{bare}, "Nothing was compared with the baseline of redis."},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.metric.Rows = c.rows
			got := Answer(record.Run{}, overhead.Report{SmallestEffect: 0.02, Level: 0.95,
				Groups: []overhead.Group{{Workload: "redis", Metrics: []overhead.MetricReport{c.metric}}}})
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// Of several primary metrics the one in which a condition does worst is named.
func TestAnswerNamesTheWorstMetric(t *testing.T) {
	b := newBench(20)
	b.weigh("redis", []gauge{
		{name: "get", unit: "requests/s", higher: true, primary: true, level: 69000},
		{name: "set", unit: "requests/s", higher: true, primary: true, level: 66000, stress: 2},
	}, []shape{{platform: "bare", noise: 0.004}, {platform: "docker", cost: 0.04, noise: 0.004}})
	want := regexp.MustCompile(`^Docker costs redis \d\.\d % of its set rate at worst \(\d\.\d to \d\.\d\)\.$`)
	if got := Answer(b.run, b.rep); !want.MatchString(got) {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
