package cli

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// timeout(1) signals its child and then its group: that is one wish. Whoever signals again
// later, or otherwise, does not want to wait.
func TestASignalThatComesTwiceAtOnceIsOne(t *testing.T) {
	began := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		second  os.Signal
		after   time.Duration
		insists bool
	}{
		"timeout's two":    {syscall.SIGTERM, time.Microsecond, false},
		"again, later":     {syscall.SIGTERM, sameWish, true},
		"another, at once": {os.Interrupt, time.Microsecond, true},
	} {
		var asked insistence
		if asked.insists(syscall.SIGTERM, began) {
			t.Errorf("%s: the first signal already ends it at once", name)
		}
		if got := asked.insists(c.second, began.Add(c.after)); got != c.insists {
			t.Errorf("%s: it ends at once: %v, want %v", name, got, c.insists)
		}
	}
	var asked insistence
	asked.insists(syscall.SIGTERM, began)
	asked.insists(syscall.SIGTERM, began.Add(sameWish/2))
	if !asked.insists(syscall.SIGTERM, began.Add(sameWish)) {
		t.Error("a signal that is repeated without end never ends it at once")
	}
}
