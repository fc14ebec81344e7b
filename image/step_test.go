package image

import (
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A slow step says every second how far it is, and nothing once it has ended.
func TestStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		var steps []Step
		s := &Store{progress: func(line string) { lines = append(lines, line) }, OnStep: func(one Step) { steps = append(steps, one) }}
		var fetched atomic.Int64
		ended := s.step("fetching 3 packages", 3, func() int { return int(fetched.Load()) })
		time.Sleep(1500 * time.Millisecond)
		fetched.Store(2)
		time.Sleep(time.Second)
		ended()
		ended = s.step("compiling", 0, nil)
		time.Sleep(1500 * time.Millisecond)
		ended()
		time.Sleep(time.Minute)
		want := []Step{
			{"fetching 3 packages", 0, 3, time.Second}, {"fetching 3 packages", 2, 3, 2 * time.Second}, {"compiling", 0, 0, time.Second},
		}
		if !reflect.DeepEqual(steps, want) || !reflect.DeepEqual(lines, []string{"fetching 3 packages", "compiling"}) {
			t.Errorf("%+v, after %q", steps, lines)
		}
		(&Store{progress: func(string) {}}).step("nobody looks", 0, nil)()
	})
}
