package advise_test

import (
	"strings"
	"testing"

	"tare/advise"
	"tare/record"
	"tare/stats"
)

// given is a recommendation with evidence of a condition.
func given(rule, run, condition string) advise.Advice {
	return advise.Advice{Rule: rule, Set: "set " + rule, For: "services", Source: "S4", Setting: advise.HostNetwork, Evidence: []advise.Evidence{{
		Run: run, Conditions: []string{condition}, Says: "p99", Unit: "times",
		Figure: stats.Estimate{Value: 2, Interval: stats.Interval{Low: 1.5, High: 2.5}},
	}}}
}

func source(id string, conditions []string, all ...advise.Advice) advise.Source {
	s := advise.Source{Run: record.Run{ID: id}, Advice: all}
	for _, c := range conditions {
		s.Run.Conditions = append(s.Run.Conditions, record.Condition{ID: c, Workload: "redis[get]"})
	}
	return s
}

func rules(all []advise.Advice) string {
	var names []string
	for _, a := range all {
		names = append(names, a.Rule+" by "+a.Evidence[0].Run)
	}
	return strings.Join(names, ", ")
}

func TestBestFoundedAdvice(t *testing.T) {
	long := source("long", []string{"a", "b"}, given("one", "long", "a"))
	quick := source("quick", []string{"a", "b", "c"}, given("not-one", "quick", "a"), given("two", "quick", "b"), given("three", "quick", "c"))
	if got, want := rules(advise.Best([]advise.Source{long, quick})), "one by long, three by quick"; got != want {
		t.Errorf("%s, want %s: the long run measured b, and does not give the second", got, want)
	}
}

func TestAdviceOfAWorkload(t *testing.T) {
	s := source("r", []string{"a"}, given("one", "r", "a"), given("two", "r", "elsewhere"))
	for workload, want := range map[string]string{"redis": "one by r", "redis[get]": "one by r", "httpd": ""} {
		if got := rules(s.Of(workload).Advice); got != want {
			t.Errorf("%s: %q, want %q", workload, got, want)
		}
	}
}

func TestWhatIsContradictedIsShownSo(t *testing.T) {
	wrong := given("not-two", "r", "b")
	wrong.Against = "pin it"
	sheet := advise.Sheet("", []advise.Advice{given("one", "r", "a"), wrong})
	if len(sheet.Parts) != 2 || !strings.HasPrefix(sheet.Answer, "1 recommendation:") {
		t.Errorf("%+v", sheet)
	}
	if part, ok := sheet.Titled("Contradicted on this host"); !ok {
		t.Errorf("%+v", part)
	}
	if s := advise.Sheet("", nil); len(s.Parts) != 0 || !strings.HasPrefix(s.Answer, "No trial") {
		t.Errorf("%+v", s)
	}
}

func TestApply(t *testing.T) {
	change := given("change-the-program", "r", "a")
	change.Setting = advise.Setting{}
	all := []advise.Advice{given("one", "r", "a"), change}
	got, err := advise.Apply("compose", all)
	want := "# one: set one\n# p99: 2.0 (1.5 to 2.5) times (r)\nnetwork_mode: host\n\n"
	if err != nil || got != want {
		t.Errorf("%v\n%q, want\n%q", err, got, want)
	}
	all[0].Evidence[0].Says = "p99\nprivileged: true"
	if got, err := advise.Apply("compose", all); err != nil || strings.Contains(got, "\nprivileged") {
		t.Errorf("a label adds a line: %v\n%s", err, got)
	}
	if got, err := advise.Apply("systemd", all); err != nil || got != "" {
		t.Errorf("systemd has no network: %q, %v", got, err)
	}
	if _, err := advise.Apply("nomad", all); err == nil {
		t.Error("an unknown form is written")
	}
	if s := advise.CPUQuota(6000, 10000); s.Kubernetes[:34] != "resources: {limits: {cpu: 600m}} #" || s.Systemd != "CPUQuota=60% CPUQuotaPeriodSec=10000us" {
		t.Errorf("%+v", s)
	}
}

// No quota is written smaller than it is: 1.55 ms in 100 ms were 1 %.
func TestSmallQuotas(t *testing.T) {
	for quota, want := range map[int64][2]string{
		1550:     {"cpu: 16m", "CPUQuota=1.6%"},
		12500:    {"cpu: 125m", "CPUQuota=12.5%"},
		30000:    {"cpu: 300m", "CPUQuota=30%"},
		20000000: {"cpu: 200000m", "CPUQuota=20000%"},
	} {
		s := advise.CPUQuota(quota, 100000)
		if !strings.Contains(s.Kubernetes, want[0]+"}") || !strings.Contains(s.Systemd, want[1]+" ") {
			t.Errorf("%d us in 100 ms are %q and %q, want %q", quota, s.Kubernetes, s.Systemd, want)
		}
	}
}

func TestOnlyWhatConcernsAContainer(t *testing.T) {
	all := []advise.Advice{given("shares-not-quota", "r", "a"), given("host-network", "r", "a"), given("few-layers", "r", "a")}
	for s, want := range map[advise.Subject]string{
		{}:                              "few-layers by r",
		{Quota: true}:                   "shares-not-quota by r, few-layers by r",
		{Quota: true, OwnNetwork: true}: "shares-not-quota by r, host-network by r, few-layers by r",
	} {
		if got := rules(s.Concerned(all)); got != want {
			t.Errorf("%+v: %s, want %s", s, got, want)
		}
	}
}
