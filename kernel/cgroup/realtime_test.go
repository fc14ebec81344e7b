package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// scheduled makes a real group in the hierarchy with the cpu controller, two
// levels below a group of the test's own.
func scheduled(t *testing.T) (top, group Group) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making cgroups needs root")
	}
	layout, err := Host()
	if err != nil {
		t.Skip(err)
	}
	h, ok := layout.For("cpu")
	if !ok || h.Version != 1 {
		t.Skip("the cpu controller is not on cgroup v1 here")
	}
	top = Layout{[]Hierarchy{h}}.At(fmt.Sprintf("tare/rt-%d", os.Getpid()))
	group = top.Child("inner").Child("program")
	if err := group.Create(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := top.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if _, err := os.Stat(group.Places[0].File(rtRuntime)); err != nil {
		t.Skip("the kernel does not count real-time threads by groups (CONFIG_RT_GROUP_SCHED)")
	}
	return top, group
}

func realTimeOf(t *testing.T, g Group) rtLimit {
	t.Helper()
	l, err := g.Places[0].realTime()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestGrantRealTime(t *testing.T) {
	top, group := scheduled(t)
	neighbour := top.Child("neighbour")
	if err := neighbour.Create(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "3600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	defer end()
	if err := group.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	realTime := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	if err := unix.SchedSetAttr(cmd.Process.Pid, realTime, 0); !errors.Is(err, unix.EPERM) {
		t.Fatalf("a group without a grant took a real-time thread: %v", err)
	}

	before := map[string]rtLimit{}
	for _, g := range []Group{top, top.Child("inner"), group, neighbour} {
		before[g.String()] = realTimeOf(t, g)
	}
	first, err := group.GrantRealTime(20*time.Millisecond, 100*time.Millisecond)
	var refused *RealTimeRefused
	if errors.As(err, &refused) && errors.Is(err, unix.EINVAL) {
		t.Skipf("others have been granted the host's real-time CPU time: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	second, err := neighbour.GrantRealTime(10*time.Millisecond, 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SchedSetAttr(cmd.Process.Pid, realTime, 0); err != nil {
		t.Errorf("a real-time thread in a group with a grant: %v", err)
	}
	if err := first(); !errors.Is(err, unix.EBUSY) {
		t.Errorf("taking the grant back under a real-time thread: %v, want it busy", err)
	}
	end()
	// In the order of granting, not the other way about.
	for _, restore := range []func() error{first, second, first} {
		if err := restore(); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range []Group{top, top.Child("inner"), group, neighbour} {
		if now, was := realTimeOf(t, g), before[g.String()]; now.runtime != was.runtime {
			t.Errorf("%s has %v afterwards, had %v", g, now, was)
		}
	}
}

func TestGrantRealTimeLeavesOthersGroups(t *testing.T) {
	// A path is not put into a command: the last would run one of its own when it is copied.
	for _, above := range []string{"docker", "x;echo\tevil", "tarent.slice", "tare-ntula", "user.slice/tare"} {
		layout := tree(t, 1, []string{"cpu"}, map[string]string{
			"user.slice/cpu.rt_runtime_us": "950000", "user.slice/cpu.rt_period_us": "1000000",
			above + "/cpu.rt_runtime_us": "0", above + "/cpu.rt_period_us": "1000000",
			above + "/abc/cpu.rt_runtime_us": "0", above + "/abc/cpu.rt_period_us": "1000000",
		})
		_, err := layout.At(above+"/abc").GrantRealTime(10*time.Millisecond, 100*time.Millisecond)
		var refused *RealTimeRefused
		if !errors.As(err, &refused) || refused.Group != "/"+above || !strings.Contains(refused.Mend, "write 100000 to its cpu.rt_runtime_us") {
			t.Errorf("got %v, want a refusal that names /%s and what would mend it", err, above)
		}
		for _, group := range []string{above, above + "/abc"} {
			if text, err := readFile(path.Join(layout.Hierarchies[0].Mount, group), rtRuntime); text != "0" || err != nil {
				t.Errorf("/%s has %q (%v) all the same", group, text, err)
			}
		}
	}
}

func TestGrantRealTimeRaisesOurGroups(t *testing.T) {
	for _, above := range []string{"tare", "tare.slice"} {
		layout := tree(t, 1, []string{"cpu"}, map[string]string{
			above + "/cpu.rt_runtime_us": "100000", above + "/cpu.rt_period_us": "1000000",
			above + "/abc/cpu.rt_runtime_us": "0", above + "/abc/cpu.rt_period_us": "1000000",
		})
		restore, err := layout.At(above+"/abc").GrantRealTime(25*time.Millisecond, 100*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		holds := func(want string) {
			if text, err := readFile(path.Join(layout.Hierarchies[0].Mount, above), rtRuntime); text != want || err != nil {
				t.Errorf("/%s has %q (%v), want %s", above, text, err, want)
			}
		}
		holds("250000")
		if err := restore(); err != nil {
			t.Fatal(err)
		}
		holds("100000")
	}
}

func TestRTGroupsInForce(t *testing.T) {
	for _, c := range []struct {
		line     string
		disabled bool
		want     bool
	}{
		{"quiet", false, true}, {"quiet", true, false}, {"rt_group_sched=0 quiet", false, false}, {"rt_group_sched=0 rt_group_sched=1", true, true}, {"rt_group_sched=maybe", true, false},
	} {
		if got := rtGroupsInForce(c.line, c.disabled); got != c.want {
			t.Errorf("%q, disabled by default %t: %t", c.line, c.disabled, got)
		}
	}
}

func TestRTGroupsBuilt(t *testing.T) {
	for config, want := range map[string][2]bool{
		"CONFIG_SMP=y\nCONFIG_RT_GROUP_SCHED=y\n# CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED is not set\n": {true, false},
		"CONFIG_RT_GROUP_SCHED=y\nCONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED=y\n":                          {true, true},
		"# CONFIG_RT_GROUP_SCHED is not set\n":                                                         {false, false},
	} {
		built, disabled, err := rtGroupsBuilt(strings.NewReader(config))
		if err != nil || [2]bool{built, disabled} != want {
			t.Errorf("%q: %t, %t (%v)", config, built, disabled, err)
		}
	}
}
