package process

import (
	"errors"
	"os"
	"testing"
)

func TestCompareMemory(t *testing.T) {
	us := os.Getpid()
	same, err := CompareMemory(us, us)
	if errors.Is(err, ErrCannotCompare) {
		t.Skip(err)
	}
	if same != 0 || err != nil {
		t.Errorf("our memory and our memory compare as %d (%v)", same, err)
	}
	there, err := CompareMemory(us, os.Getppid())
	if err != nil {
		t.Skipf("our parent is not ours to compare: %v", err)
	}
	back, err := CompareMemory(os.Getppid(), us)
	if there == 0 || back != -there || err != nil {
		t.Errorf("we and our parent compare as %d, and the other way as %d (%v)", there, back, err)
	}
	if _, err := CompareMemory(us, 1<<22+1); !errors.Is(err, ErrGone) {
		t.Errorf("with a process that cannot be: %v, want ErrGone", err)
	}
}
