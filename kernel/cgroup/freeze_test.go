package cgroup

import (
	"bufio"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"tare/kernel/procfs"
)

// counting starts a shell in the group, which prints rising numbers.
func counting(t testing.TB, group Group) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	script := `for f; do echo $$ > "$f"; done; i=0; while :; do i=$((i+1)); echo $i; done`
	cmd := exec.Command("sh", append([]string{"-c", script, "sh"}, group.ProcessFiles()...)...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = group.Thaw(context.Background()); _ = cmd.Wait() })
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() {
		t.Fatal("it does not count")
	}
	return cmd, lines
}

func TestFreezeAndThaw(t *testing.T) {
	for _, way := range ways(t) {
		t.Run(strings.Fields(way.Mode())[0], func(t *testing.T) {
			group := own(t, way)
			if err := group.Freeze(t.Context()); !errors.Is(err, ErrEmpty) {
				t.Errorf("of a group without a process: %v", err)
			}
			cmd, lines := counting(t, group)
			for range 2 {
				if err := group.Freeze(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if frozen, err := group.Frozen(); !frozen || err != nil {
				t.Errorf("frozen, it is reported as %v (%v)", frozen, err)
			}
			used := func() string {
				b, err := procfs.Host.Process(cmd.Process.Pid).Stat()
				if err != nil || b.Zombie() {
					t.Fatalf("it has ended: %v", err)
				}
				return readSchedstat(t, cmd.Process.Pid)
			}
			time.Sleep(20 * time.Millisecond) // that nothing happens makes no event
			before := used()
			time.Sleep(50 * time.Millisecond)
			if after := used(); after != before {
				t.Errorf("frozen it ran on: %s, then %s", before, after)
			}
			for range 2 {
				if err := group.Thaw(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if frozen, err := group.Frozen(); frozen || err != nil {
				t.Errorf("thawed, it is reported as %v (%v)", frozen, err)
			}
			for last := lines.Text(); used() == before; { // the pipe holds what it printed before
				if !lines.Scan() {
					t.Fatalf("thawed, it does not go on from %s", last)
				}
			}
			if err := group.Freeze(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := group.Kill(t.Context()); err != nil {
				t.Errorf("a frozen group cannot be ended: %v", err)
			}
		})
	}
}

func readSchedstat(t *testing.T, pid int) string {
	t.Helper()
	text, err := readFile(procfs.Host.Process(pid).Path(""), "schedstat")
	if err != nil {
		t.Fatal(err)
	}
	used, _, _ := strings.Cut(text, " ")
	return used
}

// What is frozen above, or about to be, counts; what says nothing does not.
func TestFrozen(t *testing.T) {
	for _, c := range []struct {
		version int
		files   map[string]string
		frozen  bool
	}{
		{2, map[string]string{"a/cgroup.events": "populated 1\nfrozen 1"}, true},
		{2, map[string]string{"a/cgroup.events": "populated 1\nfrozen 0"}, false},
		{2, map[string]string{"a/cgroup.events": "populated 1"}, false}, // before Linux 5.2
		{2, nil, false},
		{1, map[string]string{"a/freezer.state": "FROZEN"}, true},
		{1, map[string]string{"a/freezer.state": "FREEZING"}, true},
		{1, map[string]string{"a/freezer.state": "THAWED"}, false},
		{1, nil, false},
	} {
		group := tree(t, c.version, []string{"freezer"}, c.files).At("/a")
		if frozen, err := group.Frozen(); frozen != c.frozen || err != nil {
			t.Errorf("version %d, %v: %v, %v", c.version, c.files, frozen, err)
		}
	}
}

func TestThawOfNoGroup(t *testing.T) {
	layout := tree(t, 2, nil, nil)
	if err := layout.At("/gone").Thaw(t.Context()); err != nil {
		t.Error(err)
	}
	if err := layout.At("/gone").Freeze(t.Context()); !errors.Is(err, ErrEmpty) {
		t.Error(err)
	}
}

// A group that does not become still in time is thawed again.
func TestFreezeGivenUp(t *testing.T) {
	layout := tree(t, 2, nil, map[string]string{"a/cgroup.events": "populated 1\nfrozen 0", "a/cgroup.freeze": ""})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	group := layout.At("/a")
	if err := group.Freeze(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if text, err := readFile(group.Places[0].Dir(), "cgroup.freeze"); !strings.HasPrefix(text, "0") {
		t.Errorf("it is left with %q, %v", text, err)
	}
}

func BenchmarkFreezeAndThaw(b *testing.B) {
	layout, err := Host()
	if err != nil {
		b.Skip(err)
	}
	group := own(b, layout)
	counting(b, group)
	for b.Loop() {
		if err := errors.Join(group.Freeze(b.Context()), group.Thaw(b.Context())); err != nil {
			b.Fatal(err)
		}
	}
}
