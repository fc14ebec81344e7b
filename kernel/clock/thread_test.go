package clock

import (
	"runtime"
	"testing"
)

func TestThreadUsesTime(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := Thread()
	for Thread() == before {
	}
	if after := Thread(); after <= before {
		t.Errorf("%v after %v", after, before)
	}
}
