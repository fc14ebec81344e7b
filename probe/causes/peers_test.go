package causes

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// peer is another's tool that observes the same process at the same time.
type peer struct {
	*exec.Cmd
	said strings.Builder
}

func startPeer(t *testing.T, name string, args ...string) *peer {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/" + name); err != nil {
			t.Skipf("no %s to compare with: apt-get install libbpf-tools", name)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	p := &peer{Cmd: exec.CommandContext(ctx, path, args...)}
	p.Stdout, p.Stderr = &p.said, &p.said
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

// attached waits until its programs are on the scheduler's tracepoint: the ids of
// programs in the kernel go up by the loading, which the tool's descriptors show.
func (p *peer) attached(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		out, _ := exec.Command("ls", "-l", fmt.Sprintf("/proc/%d/fd", p.Process.Pid)).Output()
		if strings.Contains(string(out), "bpf_link") || strings.Contains(string(out), "bpf-link") || strings.Contains(string(out), "perf_event") {
			return
		}
	}
	_ = p.Process.Kill()
	_ = p.Wait()
	t.Skipf("%s did not attach here: %s", p.Path, p.said.String())
}

// end has it print what it saw.
func (p *peer) end(t *testing.T) string {
	t.Helper()
	_ = p.Process.Signal(syscall.SIGINT)
	_ = p.Wait() // some end with the signal's own status
	return p.said.String()
}

// rows are the histogram's lines: "   4 -> 7   : 171   |***|".
var rows = regexp.MustCompile(`(?m)^\s*(\d+) -> (\d+)\s*:\s*(\d+)`)

// cpudist counts the runs that end by preemption, and leaves out those that end by
// blocking. So the program that is watched computes, and shares its CPU
// with another that does.
func TestAgreesWithCPUDist(t *testing.T) {
	path := loadProgram(t)
	p, other := start(t, "taskset", "-c", "0", path, "naps", "1", "1", "800000"), start(t, "taskset", "-c", "0", path, "spin")
	other.say(t)
	theirs := startPeer(t, "cpudist", "-p", strconv.Itoa(p.Process.Pid))
	theirs.attached(t)
	w := watch(t, Target{PIDs: []int{p.Process.Pid}}, Options{})
	p.say(t)
	for p.line(t) != "done" {
	}
	r := stop(t, w)
	said := theirs.end(t)
	byPower := map[uint64]uint64{}
	var count uint64
	for _, row := range rows.FindAllStringSubmatch(said, -1) {
		low, _ := strconv.ParseUint(row[1], 10, 64)
		n, err := strconv.ParseUint(row[3], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		byPower[low] = n
		count += n
	}
	if count == 0 {
		t.Skipf("cpudist says nothing here: %s", said)
	}
	// Each of our steps lies within one of their rows, of whole microseconds.
	ours := map[uint64]uint64{}
	for _, s := range r.Run.Steps {
		ours[power((s.Low+s.High)/2)] += s.Count
	}
	t.Logf("cpudist: %d runs, by microseconds %v; ours: %d runs, %v", count, byPower, r.Run.Count, ours)
	// The few runs that end by blocking, at the beginning and the end, are not in theirs;
	// and a run at a bound may fall on either side, by when each of us read the clock.
	slack := 4 + count/20
	if difference(r.Involuntary, count) > 4+count/100 {
		t.Errorf("we count %d runs that ended by preemption, and cpudist %d:\n%s", r.Involuntary, count, said)
	}
	for low := range ours {
		if a, b := ours[low], byPower[low]; difference(a, b) > slack {
			t.Errorf("from %d µs on we count %d runs, and cpudist %d", low, a, b)
		}
	}
}

// power is the lowest number of microseconds of the row that has it.
func power(d time.Duration) uint64 {
	low := uint64(0)
	for next := uint64(2); uint64(d/time.Microsecond) >= next; next *= 2 {
		low = next
	}
	return low
}

func difference(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// stackEnd is the last line of a stack: the process and its microseconds.
var stackEnd = regexp.MustCompile(`(?m)^\s+-\s+(.*) \((\d+)\)\n\s+(\d+)`)

func TestAgreesWithOffCPUTime(t *testing.T) {
	p := start(t, loadProgram(t), "naps", "400", "1000", "1000")
	theirs := startPeer(t, "offcputime", "-p", strconv.Itoa(p.Process.Pid))
	theirs.attached(t)
	w := watch(t, Target{PIDs: []int{p.Process.Pid}}, Options{Stacks: true})
	p.say(t)
	for p.line(t) != "done" {
	}
	said := theirs.end(t)
	r := stop(t, w)
	if reason, absent := r.Lacks(partStacks); absent {
		t.Skip(reason)
	}
	var sum time.Duration
	stacks := stackEnd.FindAllStringSubmatch(said, -1)
	for _, s := range stacks {
		micros, err := strconv.ParseInt(s[3], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(micros) * time.Microsecond
	}
	if len(stacks) == 0 {
		t.Skipf("offcputime says nothing here: %s", said)
	}
	var ours time.Duration
	for _, s := range r.Off {
		ours += s.Time
	}
	t.Logf("offcputime: %v by %d stacks; ours: %v by %d", sum, len(stacks), ours, len(r.Off))
	// It began before us, and had the program wait for us.
	if ours > sum*102/100+time.Millisecond || ours < sum*80/100 {
		t.Errorf("we report %v off the CPU, and offcputime of %v:\n%s", ours, sum, said)
	}
	for _, function := range []string{"do_nanosleep"} {
		if !strings.Contains(said, function) || len(r.Off) == 0 || !strings.Contains(strings.Join(r.Off[0].Frames, " "), function) {
			t.Errorf("both are to report %s; ours: %v", function, r.Off)
		}
	}
}
