package diagnose

import (
	"os"
	"slices"
	"testing"
	"time"

	"tare/container"
	"tare/kernel/accounting"
)

// Of processes outside of containers those are named that used most. One that began meanwhile may have the id of
// another that ended.
func TestBusyOutside(t *testing.T) {
	began := time.Now()
	at := func(elapsed time.Duration, all ...accounting.Process) accounting.Snapshot {
		s := accounting.Snapshot{Taken: began.Add(elapsed), Processes: map[int]accounting.Process{}}
		for _, p := range all {
			s.Processes[p.PID] = p
		}
		return s
	}
	const far = 1 << 30 // ids that no process has
	before := at(0,
		accounting.Process{PID: far, Start: 1, Own: time.Hour},
		accounting.Process{PID: far + 1, Start: 2, Own: time.Hour},
		accounting.Process{PID: far + 2, Start: 3, Own: time.Hour},
	)
	after := at(10*time.Second,
		accounting.Process{PID: far, Start: 1, Command: "idle", Own: time.Hour + 100*ms},
		accounting.Process{PID: far + 1, Start: 2, Command: "cc1", Own: time.Hour + 2*time.Second},
		accounting.Process{PID: far + 2, Start: 9, Command: "dockerd", Own: 4 * time.Second},
		accounting.Process{PID: far + 3, Parent: 2, Command: "kworker/0:1", Own: 9 * time.Second},
		accounting.Process{PID: os.Getpid(), Command: "tare", Own: 9 * time.Second},
	)
	want := []string{"dockerd (1073741826)", "cc1 (1073741825)"}
	if got := busyOutside(before, after, nil); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	own := accounting.Process{PID: os.Getppid(), Command: "go", Own: 9 * time.Second}
	inside := []container.Container{{Engine: container.Process, PID: os.Getppid()}}
	if got := busyOutside(at(0), at(10*time.Second, own), inside); len(got) > 0 {
		t.Errorf("a process of a container is outside: %q", got)
	}
}
