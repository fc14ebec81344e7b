package place

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tare/container"
	"tare/kernel/cgroup"
	"tare/record"
	"tare/report"
)

// seen is a pair on one CPU: one answers, and waits behind the other.
func seen() *Watched {
	web := waiting(subject("web", Critical, "0", "0-1"), 5*time.Millisecond, map[int]float64{1: 0.9, -1: 0.08})
	web.Evidence.Share, web.Evidence.Wakeups, web.Evidence.Wanted = 0.1, 1000, 0.6
	web.Container.Engine = container.Docker
	batch := subject("batch", CPUBound, "0", "0-1")
	batch.Evidence.Wanted, batch.Evidence.LongShare = 1, 0.99
	return &Watched{Subjects: []*Subject{web, batch}, Span: 10 * time.Second, Thresholds: Defaults(), machine: &machine{}}
}

func rendered(t *testing.T, w *Watched, p *Proposal, a *Applied) (screen, page string) {
	t.Helper()
	var text, html bytes.Buffer
	sheet := Sheet(w, p, a, record.Host{Hostname: "host"})
	if err := report.SheetTerminal(&text, sheet, report.TerminalOptions{Width: 80}); err != nil {
		t.Fatal(err)
	}
	if err := report.SheetHTML(&html, sheet); err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(NewDocument(w, p, a, record.Host{})); err != nil {
		t.Errorf("no document: %v", err)
	}
	return strings.Join(strings.Fields(text.String()), " "), html.String()
}

func TestSheet(t *testing.T) {
	separate := Action{
		Kind: Separate, Says: "web on CPU 1", Reason: "web waits", Commands: []string{"docker update --cpuset-cpus 1 web"},
		Changes: []Change{{0, cgroup.Changes{{File: "/sys/fs/cgroup/cpuset/docker/web/cpuset.cpus", Old: "0", New: "1"}}}},
	}
	proposed := &Proposal{Victims: []int{0}, Culprits: []int{1}, Actions: []Action{separate}}
	tried := func(windows []Window) *Applied {
		return &Applied{Trials: []Trial{{Action: separate, Windows: windows, Judged: judge(windows, 0.9, nil, 1)}}}
	}
	for _, c := range []struct {
		name     string
		proposal *Proposal
		applied  *Applied
		says     []string
		not      string
	}{
		{"healthy", &Proposal{}, nil, []string{"1 latency-critical, 1 CPU-bound", "nothing is proposed", "Yet web waits up to 5 ms (p99), behind batch 90.0 %", "tare place --for 60s web batch"}, "--apply"},
		{"proposed", proposed, nil, []string{"Proposed: web on CPU 1", "tare place --apply web batch"}, "--undo"},
		{"nothing to be done", &Proposal{Victims: []int{0}, Culprits: []int{1}, Apart: "there is only CPU 0"}, nil, []string{"No remedy is possible", "there is only CPU 0"}, "--apply"},
		{"kept", proposed, tried(windows(8, time.Millisecond, 100*time.Microsecond, 0.9, 0.95)), []string{"The change stays.", "tare place --undo", "docker update --cpuset-cpus 1 web", "8 pairs", "fair: 0.90", "which --undo does not know"}, ""},
		{"reverted", proposed, tried(windows(8, 100*time.Microsecond, time.Millisecond, 0.9, 0.95)), []string{"all settings are as before", "reverted", "wait longer with the change"}, "--undo"},
		{"stopped", proposed, &Applied{Trials: []Trial{{Action: separate}}, Stopped: ErrStopped}, []string{"stopped early: all settings are as before", "The trial did not finish"}, "--undo"},
	} {
		screen, page := rendered(t, seen(), c.proposal, c.applied)
		for _, words := range c.says {
			if !strings.Contains(screen, words) {
				t.Errorf("%s: the screen does not say %q:\n%s", c.name, words, screen)
			}
		}
		if c.not != "" && strings.Contains(screen, c.not) {
			t.Errorf("%s: the screen says %q:\n%s", c.name, c.not, screen)
		}
		if !strings.Contains(page, "latency-critical") {
			t.Errorf("%s: the page does not show the behaviours", c.name)
		}
	}
}

func TestDocument(t *testing.T) {
	all := windows(8, time.Millisecond, 100*time.Microsecond, 0.9, 0.95)
	applied := &Applied{Trials: []Trial{{Action: Action{Kind: Separate}, Windows: all, Judged: judge(all, 0.9, nil, 1)}}}
	d := NewDocument(seen(), &Proposal{Victims: []int{0}, Culprits: []int{1}}, applied, record.Host{})
	if d.Schema != Schema || d.Healthy || d.Victims[0] != "web" || d.Culprits[0] != "batch" || d.Containers[0].Behind["container:batch"] != 0.9 || d.Containers[0].Behind["others"] != 0.08 {
		t.Errorf("the document is %+v", d)
	}
	if len(d.Trials) != 1 || len(d.Trials[0].Windows) != 16 || d.Trials[0].Wait == nil || d.Trials[0].Wait.High >= 1 || !d.Trials[0].Kept {
		t.Errorf("its trials are %+v", d.Trials)
	}
	one := windows(1, time.Millisecond, time.Millisecond, 1, 1)
	if e := (Trial{Windows: one, Judged: judge(one, 1, nil, 1)}).document(); e.Wait != nil {
		t.Errorf("an effect that is not known is %+v, want null", e.Wait)
	}
}

func TestFallbacks(t *testing.T) {
	layout := fakeTree(t, map[string]string{
		"web/cpu.shares": "1024", "web/cpu.cfs_quota_us": "-1", "web/cpu.cfs_period_us": "100000", "web/cpuset.cpus": "0", "web/cpuset.effective_cpus": "0",
		"batch/cpu.shares": "1024", "batch/cpu.cfs_quota_us": "50000", "batch/cpu.cfs_period_us": "100000", "batch/cpuset.cpus": "0", "batch/cpuset.effective_cpus": "0",
	})
	w := seen()
	for i, name := range []string{"/web", "/batch"} {
		w.Subjects[i].Group = layout.At(name)
		w.Subjects[i].Above = []int{0}
	}
	p, err := w.Propose()
	if err != nil {
		t.Fatal(err)
	}
	var kinds []Kind
	for _, a := range p.Actions {
		kinds = append(kinds, a.Kind)
		if a.Reason == "" || a.Says == "" || (a.Not == "") != (len(a.Changes) > 0) {
			t.Errorf("%s: %+v", a.Kind, a)
		}
	}
	if len(kinds) != 3 || kinds[0] != Period || kinds[1] != Shares || kinds[2] != RealTime || !strings.Contains(p.Apart, "only CPU 0") {
		t.Fatalf("with one CPU %v are proposed (%s)", kinds, p.Apart)
	}
	if got := p.Actions[0].Changes[0].Changes; len(got) != 2 || got[0].New != "5000" || got[1].New != "10000" || p.Actions[0].Changes[0].Subject != 1 {
		t.Errorf("shorter periods are %+v", p.Actions[0].Changes)
	}
	if got := p.Actions[1].Changes[0].Changes; len(got) != 1 || got[0].New != "8192" || p.Actions[1].Commands[0] != "docker update --cpu-shares 8192 web" {
		t.Errorf("shares are %+v, made permanent by %v", got, p.Actions[1].Commands)
	}
}
