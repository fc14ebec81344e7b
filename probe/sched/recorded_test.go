package sched

import (
	"bytes"
	"compress/gzip"
	"encoding/gob"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tare/probe"
)

var record = flag.Bool("record", false, "record starts anew into testdata")

// recorded is a start that really was, with all that its path needs and nothing
// of what else ran on the host.
type recorded struct {
	ID      string
	Args    []string
	Sent    time.Duration
	Symbols map[uint64]string
	Known   []probe.Process // that were there before
	Events  [][]byte        // as the kernel's programs send them
}

func (r recorded) write(t *testing.T, name string) {
	t.Helper()
	var file bytes.Buffer
	z, err := gzip.NewWriterLevel(&file, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if err := gob.NewEncoder(z).Encode(r); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d events, %d bytes", name, len(r.Events), file.Len())
}

func readRecorded(t *testing.T, name string) recorded {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var r recorded
	if err := gob.NewDecoder(z).Decode(&r); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// recording makes of the file what a Recorder would have.
func (r recorded) recording(t *testing.T) *Recording {
	t.Helper()
	var raw []byte
	var ends []int
	for _, e := range r.Events {
		raw = append(raw, e...)
		ends = append(ends, len(raw))
	}
	events, err := decodeAll(raw, ends)
	if err != nil {
		t.Fatal(err)
	}
	known := newProcesses()
	for _, p := range r.Known {
		known.add(p.PID, state{process: p})
	}
	return newRecording(events, known)
}

func (r recorded) symbol(address uint64) string { return r.Symbols[address] }

// extract keeps of a recording what concerns the processes of a path.
func extract(t *testing.T, whole *Recording, marks Marks, id string, args []string, symbols Symbols) recorded {
	t.Helper()
	path := CriticalPath(whole.Events, marks.Sent, Moment{Time: marks.Application, PID: marks.PID}, symbols)
	// A thread's work for another client is not distinguished from its work for this one.
	for _, s := range path {
		if p, ok := whole.Processes.At(s.PID, s.From); s.PID != os.Getpid() && p.Parent != os.Getpid() && ok && probe.ComponentOf(p, 0) == probe.Client {
			t.Fatalf("%+v asked the same engine meanwhile: record where nothing else runs", p)
		}
	}
	if p, _ := whole.Processes.At(path[0].PID, path[0].From); path[0].PID != os.Getpid() && p.Parent != os.Getpid() {
		t.Fatalf("the path begins in %+v, which is not of this start: record where nothing else runs", p)
	}
	ours, walked := map[int]bool{}, map[int]bool{}
	for _, s := range path {
		ours[s.PID], walked[s.TID] = true, true
	}
	for _, e := range whole.Events {
		if e.Kind == Fork && ours[e.Thread.PID] {
			ours[e.Other.PID] = true
		}
	}
	r := recorded{ID: id, Args: args, Sent: marks.Sent, Symbols: map[uint64]string{}}
	name := func(thread *Thread) {
		if !ours[thread.PID] {
			thread.Comm = ""
		}
	}
	seen := map[int]bool{}
	for _, e := range whole.Events {
		lives := e.Kind == Fork || e.Kind == Exec || e.Kind == Exit
		if e.Time > marks.Application || lives && !ours[e.Thread.PID] || !lives && !walked[e.Thread.TID] && !walked[e.Other.TID] {
			continue
		}
		name(&e.Thread)
		name(&e.Other)
		if e.Kind == Switch && !walked[e.Thread.TID] {
			e.Stack = nil
		}
		for i, address := range e.Stack {
			symbol := symbols(address)
			r.Symbols[address] = symbol
			e.Stack[i] = address
		}
		r.Events = append(r.Events, encode(e))
		for _, pid := range []int{e.Thread.PID, e.Other.PID} {
			if seen[pid] || !ours[pid] {
				continue
			}
			seen[pid] = true
			if p, ok := whole.Processes.At(pid, 0); ok {
				p.Args = p.Args[:min(1, len(p.Args))]
				r.Known = append(r.Known, p)
			}
		}
	}
	again := r.recording(t)
	if diff := cmp.Diff(path, CriticalPath(again.Events, marks.Sent, Moment{Time: marks.Application, PID: marks.PID}, r.symbol)); diff != "" {
		t.Fatalf("what was kept has another path (-whole +kept):\n%s", diff)
	}
	return r
}

const (
	dockerFile = "testdata/docker.gz" // Docker 20.10, containerd 1.6, runc 1.1 on Linux 6.18
	runcFile   = "testdata/runc.gz"   // runc 1.1 on the same
)

func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("records anew only with -record")
	}
	symbols := kernelSymbols(t)
	take := func(name, id string, start func()) {
		f := startTracer(t).Follow(id, sleeper)
		r := startRecording(t)
		sent := Now()
		start()
		awaitApplication(t, f)
		recording := stopRecording(t, r)
		marks, ok := recording.Marks(id, sleeper)
		if !ok {
			t.Fatal("the program was not seen")
		}
		marks.Sent = sent
		extract(t, recording, marks, id, sleeper, symbols).write(t, filepath.FromSlash(name))
	}
	id := createDocker(t, sleeper)
	take(dockerFile, id, func() { docker(t, nil, "start", id) })
	file := lookRuntime(t, "runc")
	dir := bundle(t, file, sleeper)
	id = fmt.Sprintf("tare-sched-%d", Now())
	take(runcFile, id, func() { startOCI(t, file, id, starts[0].commands(dir, id)) })
}

func TestRecordedStarts(t *testing.T) {
	for _, c := range []struct {
		file   string
		phases []PhaseName
		onPath []probe.Component
	}{
		{dockerFile, []PhaseName{PhaseAccept, PhasePrepare, PhaseShim, PhaseCreate, PhaseInit, PhaseExec}, []probe.Component{probe.Engine, probe.Containerd, probe.Shim, probe.Runtime}},
		{runcFile, []PhaseName{PhaseAccept, PhaseCreate, PhaseInit, PhaseExec}, []probe.Component{probe.Runtime}},
	} {
		t.Run(filepath.Base(c.file), func(t *testing.T) {
			r := readRecorded(t, c.file)
			recording := r.recording(t)
			marks, ok := recording.Marks(r.ID, r.Args)
			if !ok {
				t.Fatalf("the program was not seen, only %+v", marks)
			}
			order := []time.Duration{r.Sent, marks.Runtime, marks.Init, marks.Release, marks.Application}
			if !slices.IsSorted(order) {
				t.Errorf("the marks are out of order: %+v", marks)
			}
			marks.Sent = r.Sent
			checkStart(t, recording, marks, r.symbol, 0, c.phases, c.onPath)
		})
	}
}

// What these starts waited for is known from reading their stacks: runc's
// joining of a cgroup, and the engine's moving of a network device, wait for RCU.
func TestRecordedCauses(t *testing.T) {
	for _, c := range []struct {
		file  string
		cause Cause
		in    string
		by    probe.Component
	}{
		{dockerFile, RCU, "cgroup_procs_write_start", probe.Runtime},
		{dockerFile, RCU, "__dev_change_net_namespace", probe.Engine},
		{runcFile, RCU, "cgroup_procs_write_start", probe.Runtime},
	} {
		r := readRecorded(t, c.file)
		recording := r.recording(t)
		marks, _ := recording.Marks(r.ID, r.Args)
		component := recording.Component(0)
		var waited time.Duration
		for _, s := range CriticalPath(recording.Events, r.Sent, Moment{Time: marks.Application, PID: marks.PID}, r.symbol) {
			if s.Cause == c.cause && slices.Contains(s.Stack, c.in) && component(s.PID, s.From) == c.by {
				waited += s.To - s.From
			}
		}
		if waited < time.Millisecond {
			t.Errorf("%s: %s waited for %s in %s for %v, want milliseconds", c.file, c.by, c.cause, c.in, waited)
		}
	}
}

func BenchmarkCriticalPath(b *testing.B) {
	file, err := os.Open(dockerFile)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		b.Fatal(err)
	}
	var r recorded
	if err := gob.NewDecoder(z).Decode(&r); err != nil {
		b.Fatal(err)
	}
	var events []Event
	for _, raw := range r.Events {
		e, err := decode(raw)
		if err != nil {
			b.Fatal(err)
		}
		events = append(events, e)
	}
	recording := newRecording(events, newProcesses())
	marks, _ := recording.Marks(r.ID, r.Args)
	b.ReportMetric(float64(len(events)), "events")
	for b.Loop() {
		CriticalPath(recording.Events, r.Sent, Moment{Time: marks.Application, PID: marks.PID}, r.symbol)
	}
}
