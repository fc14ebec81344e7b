package k8s

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/containerd/containerd/api/events"
	"google.golang.org/protobuf/types/known/timestamppb"

	"tare/platform"
)

// A pod's program has started when its own task has, and ended when its first process has.
func TestPodTakesEvents(t *testing.T) {
	begin := time.Now()
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	p := newPod("u")
	p.sandbox = moments{id: "s", created: at(30)}
	p.take("s", &events.TaskStart{ContainerID: "s", Pid: 7}, at(60))
	p.program = moments{id: "c", created: at(100)}
	p.take("s", &events.TaskExit{ContainerID: "s", ID: "s"}, at(101))
	if isClosed(p.started) || len(p.ended) > 0 {
		t.Error("the sandbox counts as the program")
	}
	p.take("c", &events.TaskStart{ContainerID: "c", Pid: 8}, at(150))
	if !isClosed(p.started) || p.program.pid != 8 {
		t.Errorf("started: %+v", p.program)
	}
	p.take("c", &events.TaskExit{ContainerID: "c", ID: "exec"}, at(160))
	if len(p.ended) > 0 {
		t.Error("another process in the container counts as the program")
	}
	p.take("c", &events.TaskOOM{ContainerID: "c"}, at(170))
	p.take("c", &events.TaskExit{ContainerID: "c", ID: "c", ExitStatus: 137, ExitedAt: timestamppb.New(at(171))}, at(172))
	p.take("c", &events.TaskDelete{ContainerID: "c"}, at(173))
	if e := <-p.ended; e.Code != 137 || !e.At.Equal(at(171)) || !p.wasOOMKilled() || !isClosed(p.deleted) {
		t.Errorf("ended: %+v", e)
	}

	logs := t.TempDir()
	c := created{l: &launch{node: &node{kubeletConfig: kubeletConfig{PodLogs: logs}}, uid: "u", pod: p, starting: begin}}
	want := []platform.Phase{
		{Name: PhaseNetwork, Time: 30 * time.Millisecond}, {Name: PhaseSandbox, Time: 30 * time.Millisecond},
		{Name: PhaseContainer, Time: 40 * time.Millisecond}, {Name: PhaseStart, Time: 50 * time.Millisecond},
	}
	for _, hasLog := range []bool{false, true} {
		if hasLog {
			if err := os.Mkdir(filepath.Join(logs, "default_p-node_u"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		phases := c.Phases()
		var sum time.Duration
		for _, phase := range phases {
			sum += phase.Time
		}
		if sum != 150*time.Millisecond || phases[len(phases)-1] != want[len(want)-1] {
			t.Errorf("phases %v, want a sum of 150 ms", phases)
		}
		if !hasLog && len(phases) != len(want) {
			t.Errorf("phases %v, want %v", phases, want)
		}
	}
}

// Where the feed is lost, nobody waits for what it would have reported.
func TestPodIsLost(t *testing.T) {
	p := newPod("u")
	p.lose(platform.ErrGone)
	p.lose(platform.ErrGone)
	if e := <-p.ended; !errors.Is(e.Err, platform.ErrGone) || !isClosed(p.started) || !isClosed(p.deleted) {
		t.Errorf("%+v", e)
	}
}
