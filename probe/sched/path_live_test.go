package sched

import (
	"testing"

	"errors"
	"os"
	"tare/kernel/kallsyms"
	"tare/probe"
)

func startRecording(t testing.TB) *Recorder {
	t.Helper()
	needRoot(t)
	r, err := StartRecording()
	if missing := new(probe.Missing); errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func kernelSymbols(t testing.TB) Symbols {
	t.Helper()
	table, err := kallsyms.Load()
	if err != nil {
		t.Skip(err)
	}
	return func(address uint64) string {
		s, _, _ := table.Lookup(address)
		return s.Name
	}
}

func TestDockerPath(t *testing.T) {
	symbols := kernelSymbols(t)
	id := createDocker(t, sleeper)
	r := startRecording(t)
	sent := Now()
	docker(t, nil, "start", id)
	recording, err := r.Stop()
	if err != nil {
		t.Fatal(err)
	}
	marks, ok := recording.Marks(id, sleeper)
	t.Logf("%d events, %d lost, %v; marks %+v %t", len(recording.Events), recording.Lost, recording.Ended-recording.Began, marks, ok)
	marks.Sent = sent
	path := CriticalPath(recording.Events, sent, Moment{Time: marks.Application, PID: marks.PID}, symbols)
	c := recording.Component(os.Getpid())
	for _, s := range path {
		p, _ := recording.Processes.At(s.PID, s.From)
		if s.Length() > 200000 {
			t.Logf("%12v %10v %6d/%6d %-12s %-12s %-8s %s %d %v", s.From-sent, s.Length(), s.PID, s.TID, p.Comm, c(s.PID, s.From), s.State, s.Cause, s.Waker, s.Stack)
		}
	}
	for _, p := range Phases(path, marks, c) {
		t.Logf("%-24s %v %v %v %v", p.Name, p.To-p.From, p.Share, p.Causes, p.Components)
	}
}
