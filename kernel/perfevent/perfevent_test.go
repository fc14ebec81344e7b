package perfevent

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"
)

// sampler opens one, or says why not.
func sampler(t *testing.T, s Sampling) *Sampler {
	t.Helper()
	sampler, err := Open(s)
	if refused := new(Refused); errors.As(err, &refused) {
		t.Skip(refused)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sampler.Close() })
	return sampler
}

// records decodes all, and fails on bytes that are no records.
func records(t *testing.T, f Format, b []byte) []Record {
	t.Helper()
	var all []Record
	for len(b) > 0 {
		r, size, err := f.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if r != nil {
			all = append(all, r)
		}
		b = b[size:]
	}
	return all
}

func TestSamplesAndMappingsOfAShortLife(t *testing.T) {
	s := sampler(t, Sampling{Hertz: 1000})
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	// A shell that counts, so that there is something to sample.
	shell := exec.Command("/bin/sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	if err := shell.Run(); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	pid := shell.Process.Pid
	var samples, inUser, forks, execs, exits, mappings int
	for _, r := range records(t, s.Format(), s.Drain(nil)) {
		if r.id().PID != pid {
			continue
		}
		switch r := r.(type) {
		case *Sample:
			samples++
			if len(r.User) > 0 && len(r.Kernel) == 0 {
				inUser++
			}
			if r.Period != time.Millisecond {
				t.Errorf("a sample at 1000 Hz stands for %v", r.Period)
			}
		case *Comm:
			if r.Exec && execs == 0 && r.Name != "sh" {
				t.Errorf("the shell's name is %q", r.Name)
			}
			execs++
		case *Mapping:
			mappings++
		case *Task:
			if r.Exit {
				exits++
			} else if r.Parent == os.Getpid() {
				forks++
			}
		}
	}
	if samples == 0 || inUser == 0 || forks != 1 || execs == 0 || exits != 1 || mappings < 2 {
		t.Errorf("of a shell: %d samples, %d of them in user code, %d forks, %d execs, %d mappings, %d exits", samples, inUser, forks, execs, mappings, exits)
	}
	if lost, known := s.Lost(); known && lost > 0 {
		t.Errorf("%d records were lost", lost)
	}
}

func TestARingThatIsFullLoses(t *testing.T) {
	s := sampler(t, Sampling{Hertz: 1000, RingBytes: 1})
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	// Never drained: wait until one page a CPU is full, then lose some.
	for {
		if _, known := s.Lost(); !known {
			t.Skip("this kernel does not count what it loses (before 6.0)")
		}
		if lost, _ := s.Lost(); lost > 0 {
			break
		}
		if _, err := s.Wait(time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWakeEndsAWait(t *testing.T) {
	s := sampler(t, Sampling{Hertz: 1})
	s.Wake()
	if woken, err := s.Wait(-1); !woken || err != nil {
		t.Errorf("a wake-up that came before: %v, %v", woken, err)
	}
	go s.Wake()
	for {
		woken, err := s.Wait(-1)
		if err != nil {
			t.Fatal(err)
		}
		if woken {
			break
		}
	}
	if woken, err := s.Wait(0); woken || err != nil {
		t.Errorf("after both: %v, %v", woken, err)
	}
	s.Close()
	s.Wake() // as nothing
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	if _, err := Open(Sampling{}); err == nil {
		t.Error("sampling at 0 Hz is opened")
	}
	_, err := Open(Sampling{Hertz: 1e9})
	if refused := new(Refused); !errors.As(err, &refused) || refused.Mend == "" {
		t.Errorf("sampling at 10^9 Hz: %v, want what it takes", err)
	}
}
