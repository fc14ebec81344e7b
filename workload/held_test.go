package workload

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// Whatever is sustained goes on where it would have ended, by parameters that it
// knows, and is refused where it is to be weighed so.
func TestSustainersGoOn(t *testing.T) {
	sustained := 0
	for _, w := range All() {
		s, ok := w.(Sustainer)
		if !ok {
			continue
		}
		sustained++
		params, _ := s.Sustained()
		p, err := Resolve(w, params)
		if err != nil {
			t.Errorf("%s: sustained by what it refuses: %v", w.Name(), err)
			continue
		}
		program, err := w.Program(p)
		if err != nil || !program.Service {
			t.Errorf("%s: sustained, it is to end by itself: %+v, %v", w.Name(), program, err)
		}
	}
	if sustained == 0 {
		t.Error("nothing can be sustained")
	}
}

func TestHeldFunctionIsReadyByItsLine(t *testing.T) {
	line := functionLine(hashing, 1, false)
	p := resolve(t, hashing, "data", "1", "until", "signal")
	tr := &trial{params: p, ended: make(chan struct{}), stdout: line}
	if err := hashing.Ready(t.Context(), tr); err != nil {
		t.Errorf("its line is there: %v", err)
	}
	if err := hashing.Drive(t.Context(), tr); err == nil || !strings.Contains(err.Error(), "until=exit") {
		t.Errorf("%v, want how it can be weighed", err)
	}
	// A wrong line is reported at once, and not waited for.
	other := &trial{params: p, ended: make(chan struct{}), stdout: functionLine(hashing, 1, true)}
	if err := hashing.Ready(t.Context(), other); err == nil || !strings.Contains(err.Error(), "not valid") {
		t.Errorf("what another input gives: %v", err)
	}
	// Half a line is none yet.
	half := &trial{params: p, ended: make(chan struct{}), stdout: line[:len(line)/2]}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := hashing.Ready(ctx, half); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("half a line: %v, want that the wait went on", err)
	}
}

func TestWhatIsSustainedMustNotEnd(t *testing.T) {
	ended := make(chan struct{})
	close(ended)
	for _, w := range []Sustainer{hashing, empty{}} {
		p := resolve(t, w, "until", "signal")
		gone := &trial{params: p, ended: ended, exit: Exit{Code: 3}, stderr: "no memory\n"}
		refusedAs[*Ended](t, w.Sustain(t.Context(), gone, 1), "status 3", "no memory")

		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Sustain(ctx, &trial{params: p, ended: make(chan struct{})}, 1) }()
		select {
		case err := <-done:
			t.Errorf("%s: came back before its context ended: %v", w.Name(), err)
		case <-time.After(20 * time.Millisecond): // nothing is to happen
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s: %v where its context ended", w.Name(), err)
		}
	}
	refusedAs[*Ended](t, hashing.Ready(t.Context(), &trial{params: resolve(t, hashing, "until", "signal"), ended: ended, exit: Exit{Code: 1}}), "status 1")
}
