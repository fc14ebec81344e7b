package sched

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tare/probe"
)

func TestPhases(t *testing.T) {
	// Process 1 is the client, 2 the engine, 3 the shim, 4 the runtime, 5 init.
	byPID := func(pid int, at time.Duration) probe.Component {
		if pid == 5 && at >= 70 {
			return probe.Application
		}
		return map[int]probe.Component{1: probe.Client, 2: probe.Engine, 3: probe.Shim, 4: probe.Runtime, 5: probe.Runtime}[pid]
	}
	path := []Segment{
		{From: 0, To: 4, PID: 1, State: Running},
		{From: 4, To: 5, PID: 2, State: Ready},
		{From: 5, To: 18, PID: 2, State: Running},
		{From: 18, To: 22, PID: 3, State: Ready},
		{From: 22, To: 30, PID: 3, State: Running},
		{From: 30, To: 50, PID: 4, State: Blocked, Cause: RCU},
		{From: 50, To: 60, PID: 5, State: Blocked, Cause: Disk},
		{From: 60, To: 70, PID: 5, State: Running},
		{From: 70, To: 90, PID: 5, State: Running},
		{From: 90, To: 100, PID: 5, State: Blocked, Cause: Disk},
	}
	marks := Marks{Shim: 20, Runtime: 30, Init: 45, Release: 55, Application: 70, Ready: 100, PID: 5}
	type account struct {
		name       PhaseName
		length     time.Duration
		share      Share
		causes     map[Cause]time.Duration
		components map[probe.Component]Share
	}
	accounts := func(marks Marks) (all []account) {
		at := path[0].From
		for _, p := range Phases(path, marks, byPID) {
			if p.From != at {
				t.Errorf("%s begins at %v, where the one before ends at %v", p.Name, p.From, at)
			}
			at = p.To
			all = append(all, account{p.Name, p.To - p.From, p.Share, p.Causes, p.Components})
		}
		if end := path[len(path)-1].To; at != end {
			t.Errorf("the phases end at %v, the path at %v", at, end)
		}
		return all
	}
	none := map[Cause]time.Duration{}
	want := []account{
		{PhaseAccept, 5, Share{Running: 4, Ready: 1}, none, map[probe.Component]Share{probe.Client: {Running: 4}, probe.Engine: {Ready: 1}}},
		{PhasePrepare, 15, Share{Running: 13, Ready: 2}, none, map[probe.Component]Share{probe.Engine: {Running: 13}, probe.Shim: {Ready: 2}}},
		{PhaseShim, 10, Share{Running: 8, Ready: 2}, none, map[probe.Component]Share{probe.Shim: {Running: 8, Ready: 2}}},
		{PhaseCreate, 15, Share{Blocked: 15}, map[Cause]time.Duration{RCU: 15}, map[probe.Component]Share{probe.Runtime: {Blocked: 15}}},
		{PhaseInit, 10, Share{Blocked: 10}, map[Cause]time.Duration{RCU: 5, Disk: 5}, map[probe.Component]Share{probe.Runtime: {Blocked: 10}}},
		{PhaseExec, 15, Share{Running: 10, Blocked: 5}, map[Cause]time.Duration{Disk: 5}, map[probe.Component]Share{probe.Runtime: {Running: 10, Blocked: 5}}},
		{PhaseApplication, 30, Share{Running: 20, Blocked: 10}, map[Cause]time.Duration{Disk: 10}, map[probe.Component]Share{probe.Application: {Running: 20, Blocked: 10}}},
	}
	if diff := cmp.Diff(want, accounts(marks), cmp.AllowUnexported(account{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	for _, c := range []struct {
		name  string
		marks Marks
		want  []PhaseName
	}{
		{"a runtime without an engine", Marks{Runtime: 30, Init: 45, Release: 55, Application: 70}, []PhaseName{PhaseAccept, PhaseCreate, PhaseInit, PhaseExec, PhaseApplication}},
		{"created and started by one command", Marks{Runtime: 30, Init: 45, Application: 70}, []PhaseName{PhaseAccept, PhaseCreate, PhaseInit, PhaseApplication}},
		{"bare metal", Marks{Init: 45, Application: 70}, []PhaseName{PhaseAccept, PhaseInit, PhaseApplication}},
		{"ready with its first instruction", Marks{Init: 45, Application: 100}, []PhaseName{PhaseAccept, PhaseInit}},
		{"nothing seen", Marks{}, []PhaseName{PhaseApplication}},
	} {
		var got []PhaseName
		for _, a := range accounts(c.marks) {
			got = append(got, a.name)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if got := Phases(nil, marks, byPID); got != nil {
		t.Errorf("no path has the phases %v", got)
	}
}
