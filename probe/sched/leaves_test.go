package sched

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/cilium/ebpf"
)

// programIDs are the kernel's ids of the programs that are loaded.
func programIDs(t *testing.T, a *attachment) []ebpf.ProgramID {
	t.Helper()
	var ids []ebpf.ProgramID
	for name, p := range a.collection.Programs {
		info, err := p.Info()
		if err != nil {
			t.Fatal(err)
		}
		id, ok := info.ID()
		if !ok {
			t.Fatalf("%s has no id", name)
		}
		ids = append(ids, id)
	}
	return ids
}

// awaitGone returns when the kernel knows a program no more, which is some
// moments after its last user let it go. An id is not soon used again.
func awaitGone(t *testing.T, ids []ebpf.ProgramID) {
	t.Helper()
	ctx := patient(t)
	for _, id := range ids {
		for {
			p, err := ebpf.NewProgramFromID(id)
			if errors.Is(err, os.ErrNotExist) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			p.Close()
			select {
			case <-ctx.Done():
				t.Fatalf("program %d (%v) is still there", id, p)
			case <-time.After(time.Millisecond):
			}
		}
	}
}

func TestNothingStaysAfterStop(t *testing.T) {
	tracer := startTracer(t)
	recorder := startRecording(t)
	off, err := StartOffCPU()
	if err != nil {
		t.Fatal(err)
	}
	var ids []ebpf.ProgramID
	for _, a := range []*attachment{tracer.attachment, recorder.attachment, off.attachment} {
		ids = append(ids, programIDs(t, a)...)
	}
	if len(ids) == 0 {
		t.Fatal("no programs are loaded: this test would say nothing")
	}
	if _, err := off.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := recorder.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := tracer.Stop(); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, ids)
}

// asChild has the test below run its child's part.
const asChild = "TARE_SCHED_TEST_CHILD"

func TestNothingStaysAfterKill(t *testing.T) {
	if os.Getenv(asChild) != "" {
		tracer := startTracer(t)
		fmt.Println("programs", programIDs(t, tracer.attachment))
		select {} // until it is killed
	}
	startTracer(t) // skips where the child would
	child := exec.Command(os.Args[0], "-test.run=^TestNothingStaysAfterKill$")
	child.Env = append(os.Environ(), asChild+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var ids [3]ebpf.ProgramID
	if _, err := fmt.Fscanf(out, "programs [%d %d %d]\n", &ids[0], &ids[1], &ids[2]); err != nil {
		t.Errorf("the child does not report its programs: %v", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait() // says that it was killed
	awaitGone(t, ids[:])
}

// What each instrument costs whoever starts processes.
func BenchmarkForkAndExec(b *testing.B) {
	spawn := func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("unobserved", spawn)
	b.Run("traced", func(b *testing.B) {
		tracer := startTracer(b)
		spawn(b)
		if lost, err := tracer.Lost(); lost != 0 || err != nil {
			b.Errorf("%d events lost, %v", lost, err)
		}
	})
	b.Run("off-CPU", func(b *testing.B) {
		needRoot(b)
		off, err := StartOffCPU()
		if err != nil {
			b.Skip(err)
		}
		spawn(b)
		times, err := off.Stop()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(times.Lost), "lost")
	})
	b.Run("recorded", func(b *testing.B) {
		r := startRecording(b)
		spawn(b)
		recording, err := r.Stop()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(recording.Lost), "lost")
		b.ReportMetric(float64(len(recording.Events))/float64(b.N), "events/op")
	})
}
