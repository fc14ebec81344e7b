package faults

import (
	"testing"
	"time"
)

func TestBegan(t *testing.T) {
	r := &Recording{
		Targets: make([]Target, 3), given: 1, To: 100,
		Executed: []Execution{
			{At: 10, Target: 0, Command: "redis-server"},
			{At: 20, Target: 1, Command: "exe"},
			{At: 21, Target: 1, Command: "6"},
			{At: 22, Target: 1, Command: "runc:[2:INIT]"},
			{At: 30, Target: 1, Command: "redis-server"},
			{At: 40, Target: 1, Command: "sh"},
		},
	}
	if at, ok := r.Began(1); !ok || at != 30 {
		t.Errorf("began at %d, %t", at, ok)
	}
	for _, target := range []int32{0, 2} {
		if at, ok := r.Began(target); ok {
			t.Errorf("target %d began at %d", target, at)
		}
	}
	use := r.Programs()
	for _, c := range []struct {
		target int32
		at     time.Duration
		want   bool
	}{{0, 1, true}, {1, 29, false}, {1, 30, true}, {2, 50, false}, {-1, 50, false}} {
		if got := use(&Fault{Target: c.target, At: c.at}); got != c.want {
			t.Errorf("target %d at %d: %t", c.target, c.at, got)
		}
	}
}
