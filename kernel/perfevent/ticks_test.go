package perfevent

import (
	"errors"
	"testing"
)

func TestTicks(t *testing.T) {
	if _, err := OpenTicks(0); err == nil {
		t.Error("took no frequency at all")
	}
	ticks, err := OpenTicks(97)
	if refused := (*Refused)(nil); errors.As(err, &refused) {
		t.Skip(refused)
	}
	if err != nil {
		t.Fatal(err)
	}
	cpus, err := online()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(ticks.Descriptors()); n != len(cpus) {
		t.Errorf("%d events on %d CPUs", n, len(cpus))
	}
	if err := errors.Join(ticks.Start(), ticks.Close(), ticks.Close()); err != nil {
		t.Error(err)
	}
	if n := len(ticks.Descriptors()); n != 0 {
		t.Errorf("%d events after the end", n)
	}
}
