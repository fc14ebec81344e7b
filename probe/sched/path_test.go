package sched

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Functions of the stacks in these tests, by made-up addresses.
var functions = []string{1: "__schedule", 2: "schedule", 3: "synchronize_rcu_normal", 4: "io_schedule", 5: "anon_pipe_read", 6: "rwsem_down_write_slowpath", 7: "hrtimer_nanosleep", 8: "do_wait", 9: "futex_wait_queue", 10: "worker_thread",
	11: "__local_bh_enable_ip", 12: "tcp_v4_rcv", 13: "__irq_exit_rcu", 14: "tcp_recvmsg", 15: "bpf_get_stack"}

const (
	rcuStack   = 3
	diskStack  = 4
	pipeStack  = 5
	lockStack  = 6
	sleepStack = 7
	waitStack  = 8
	futexStack = 9
	tcpStack   = 14
)

func madeUp(address uint64) string {
	if address < uint64(len(functions)) {
		return functions[address]
	}
	return ""
}

// Threads of process 100, process 200, and a kernel thread, by their ids.
func thread(tid int) Thread {
	return Thread{PID: tid / 100 * 100, TID: tid, Kernel: tid == 2}
}

// cpu makes a CPU's events.
type cpu struct{ events []Event }

func (c *cpu) to(at time.Duration, from, to int, state uint32, stack ...uint64) {
	if len(stack) > 0 {
		stack = append([]uint64{15, 1, 2}, stack...)
	}
	c.events = append(c.events, Event{Time: at, Kind: Switch, Thread: thread(from), Other: thread(to), State: state, Stack: stack})
}

// runs switches to a thread from the idle task, waits from it to that.
func (c *cpu) runs(at time.Duration, tid int) { c.to(at, 0, tid, 0) }
func (c *cpu) waits(at time.Duration, tid int, function uint64) {
	c.to(at, tid, 0, 1, function)
}
func (c *cpu) preempted(at time.Duration, tid, by int) { c.to(at, tid, by, 0) }

func (c *cpu) wakes(at time.Duration, by, tid int) {
	c.events = append(c.events, Event{Time: at, Kind: Wake, Thread: thread(by), Other: thread(tid)})
}

func (c *cpu) interruptWakes(at time.Duration, context Context, on, tid int, stack ...uint64) {
	c.events = append(c.events, Event{Time: at, Kind: Wake, Thread: thread(on), Other: thread(tid), Context: context, Stack: stack})
}

func (c *cpu) forks(at time.Duration, parent, child int) {
	c.events = append(c.events,
		Event{Time: at, Kind: Fork, Thread: thread(parent), Other: thread(child)},
		Event{Time: at, Kind: Wake, Thread: thread(parent), Other: thread(child), Newborn: true})
}

func (c *cpu) executes(at time.Duration, tid, former int) {
	c.events = append(c.events, Event{Time: at, Kind: Exec, Thread: thread(tid), FormerTID: former})
}

func TestCriticalPath(t *testing.T) {
	type segment struct {
		from, to time.Duration
		tid      int
		state    State
		cause    Cause
		waker    int
	}
	for _, c := range []struct {
		name   string
		events func(*cpu)
		to     Moment
		want   []segment // from 0
	}{
		{"runs, is preempted, runs", func(c *cpu) {
			c.runs(10, 100)
			c.preempted(20, 100, 200)
			c.preempted(30, 200, 100)
		}, Moment{Time: 40, TID: 100}, []segment{
			{0, 10, 100, Ready, "", 0}, {10, 20, 100, Running, "", 0}, {20, 30, 100, Ready, "", 0}, {30, 40, 100, Running, "", 0},
		}},
		{"a grace period", func(c *cpu) {
			c.runs(0, 100)
			c.waits(10, 100, rcuStack)
			c.interruptWakes(50, Softirq, 0, 100, 13)
			c.runs(52, 100)
		}, Moment{Time: 60, TID: 100}, []segment{
			{0, 10, 100, Running, "", 0}, {10, 50, 100, Blocked, RCU, 0}, {50, 52, 100, Ready, "", 0}, {52, 60, 100, Running, "", 0},
		}},
		{"a grace period, ended by a kernel thread", func(c *cpu) {
			c.waits(10, 100, rcuStack)
			c.wakes(50, 2, 100)
			c.runs(52, 100)
		}, Moment{Time: 60, TID: 100}, []segment{
			{0, 10, 100, Running, "", 0}, {10, 50, 100, Blocked, RCU, 2}, {50, 52, 100, Ready, "", 0}, {52, 60, 100, Running, "", 0},
		}},
		{"a disk, on whose interrupt another ran", func(c *cpu) {
			c.waits(10, 100, diskStack)
			c.runs(15, 200)
			c.interruptWakes(50, Interrupt, 200, 100, 13)
			c.to(52, 200, 100, 0)
		}, Moment{Time: 60, TID: 100}, []segment{
			{0, 10, 100, Running, "", 0}, {10, 50, 100, Blocked, Disk, 0}, {50, 52, 100, Ready, "", 0}, {52, 60, 100, Running, "", 0},
		}},
		{"an answer through a pipe", func(c *cpu) {
			c.runs(0, 100)
			c.wakes(8, 100, 200)
			c.waits(10, 100, pipeStack)
			c.runs(12, 200)
			c.wakes(30, 200, 100)
			c.to(33, 200, 100, 1, pipeStack)
		}, Moment{Time: 40, TID: 100}, []segment{
			{0, 8, 100, Running, "", 0}, {8, 12, 200, Ready, "", 0}, {12, 30, 200, Running, "", 0}, {30, 33, 100, Ready, "", 0}, {33, 40, 100, Running, "", 0},
		}},
		{"an answer through the loopback, delivered by who sent it", func(c *cpu) {
			c.waits(10, 100, tcpStack)
			c.runs(10, 200)
			c.interruptWakes(30, Softirq, 200, 100, 12, 11)
			c.to(33, 200, 100, 0)
		}, Moment{Time: 40, TID: 100}, []segment{
			{0, 10, 200, Ready, "", 0}, {10, 30, 200, Running, "", 0}, {30, 33, 100, Ready, "", 0}, {33, 40, 100, Running, "", 0},
		}},
		{"an answer from the network, on whose interrupt another ran", func(c *cpu) {
			c.waits(10, 100, tcpStack)
			c.runs(10, 200)
			c.interruptWakes(30, Softirq, 200, 100, 12, 11, 13)
			c.to(33, 200, 100, 0)
		}, Moment{Time: 40, TID: 100}, []segment{
			{0, 10, 100, Running, "", 0}, {10, 30, 100, Blocked, IPC, 0}, {30, 33, 100, Ready, "", 0}, {33, 40, 100, Running, "", 0},
		}},
		{"an answer through a pipe, after a timer whose end was not seen", func(c *cpu) {
			c.waits(10, 100, pipeStack)
			c.runs(10, 200)
			c.interruptWakes(30, Timer, 200, 100, pipeStack)
			c.to(33, 200, 100, 0)
		}, Moment{Time: 40, TID: 100}, []segment{
			{0, 10, 200, Ready, "", 0}, {10, 30, 200, Running, "", 0}, {30, 33, 100, Ready, "", 0}, {33, 40, 100, Running, "", 0},
		}},
		{"an answer that does not come in time", func(c *cpu) {
			c.waits(10, 100, futexStack)
			c.interruptWakes(30, Interrupt|Timer, 0, 100)
			c.runs(30, 100)
		}, Moment{Time: 40, TID: 100}, []segment{
			{0, 10, 100, Running, "", 0}, {10, 30, 100, Blocked, Sleep, 0}, {30, 40, 100, Running, "", 0},
		}},
		{"a lock, whose holder waits for a grace period", func(c *cpu) {
			c.runs(1, 200)
			c.waits(5, 200, rcuStack)
			c.runs(6, 100)
			c.waits(10, 100, lockStack)
			c.interruptWakes(50, Softirq, 0, 200)
			c.runs(51, 200)
			c.wakes(53, 200, 100)
			c.runs(54, 100)
		}, Moment{Time: 60, TID: 100}, []segment{
			{0, 6, 100, Ready, "", 0}, {6, 10, 100, Running, "", 0},
			{10, 50, 200, Blocked, RCU, 0}, {50, 51, 200, Ready, "", 0}, {51, 53, 200, Running, "", 0},
			{53, 54, 100, Ready, "", 0}, {54, 60, 100, Running, "", 0},
		}},
		{"a thread that looks around from time to time", func(c *cpu) {
			c.waits(5, 101, sleepStack)
			c.waits(10, 100, futexStack)
			c.interruptWakes(20, Interrupt|Timer, 0, 101)
			c.runs(20, 101)
			c.wakes(21, 101, 100)
			c.to(22, 101, 100, 1, sleepStack)
		}, Moment{Time: 30, TID: 100}, []segment{
			{0, 10, 100, Running, "", 0},
			{10, 20, 101, Blocked, Sleep, 0}, {20, 21, 101, Running, "", 0},
			{21, 22, 100, Ready, "", 0}, {22, 30, 100, Running, "", 0},
		}},
		{"a birth", func(c *cpu) {
			c.runs(0, 100)
			c.forks(10, 100, 200)
			c.waits(12, 100, waitStack)
			c.runs(13, 200)
		}, Moment{Time: 20, TID: 200}, []segment{
			{0, 10, 100, Running, "", 0}, {10, 13, 200, Ready, "", 0}, {13, 20, 200, Running, "", 0},
		}},
		{"a child's end", func(c *cpu) {
			c.waits(10, 100, waitStack)
			c.runs(11, 200)
			c.wakes(20, 200, 100)
			c.to(21, 200, 100, dead)
		}, Moment{Time: 30, TID: 100}, []segment{
			{0, 11, 200, Ready, "", 0}, {11, 20, 200, Running, "", 0}, {20, 21, 100, Ready, "", 0}, {21, 30, 100, Running, "", 0},
		}},
		{"an exec, by another than the first thread", func(c *cpu) {
			c.runs(0, 103)
			c.executes(10, 100, 103)
			c.to(15, 100, 200, 0)
			c.to(18, 200, 100, 0)
		}, Moment{Time: 20, TID: 100}, []segment{
			{0, 10, 103, Running, "", 0}, {10, 15, 100, Running, "", 0}, {15, 18, 100, Ready, "", 0}, {18, 20, 100, Running, "", 0},
		}},
		{"an exec parts what ran", func(c *cpu) {
			c.runs(0, 100)
			c.executes(10, 100, 100)
		}, Moment{Time: 20, TID: 100}, []segment{
			{0, 10, 100, Running, "", 0}, {10, 20, 100, Running, "", 0},
		}},
		{"woken while it still ran", func(c *cpu) {
			c.runs(0, 100)
			c.wakes(10, 200, 100)
		}, Moment{Time: 20, TID: 100}, []segment{{0, 20, 100, Running, "", 0}}},
		{"woken on its way out", func(c *cpu) {
			c.runs(0, 100)
			c.wakes(10, 200, 100)
			c.waits(11, 100, futexStack)
			c.runs(14, 100)
		}, Moment{Time: 20, TID: 100}, []segment{
			{0, 11, 100, Running, "", 0}, {11, 14, 100, Ready, "", 0}, {14, 20, 100, Running, "", 0},
		}},
		{"woken twice", func(c *cpu) {
			c.runs(0, 100)
			c.waits(5, 100, rcuStack)
			c.wakes(10, 200, 100)
			c.wakes(12, 2, 100)
			c.runs(14, 100)
		}, Moment{Time: 20, TID: 100}, []segment{
			{0, 5, 100, Running, "", 0}, {5, 10, 100, Blocked, RCU, 200}, {10, 14, 100, Ready, "", 0}, {14, 20, 100, Running, "", 0},
		}},
		{"its waking was lost", func(c *cpu) {
			c.runs(0, 100)
			c.waits(5, 100, diskStack)
			c.runs(14, 100)
		}, Moment{Time: 20, TID: 100}, []segment{
			{0, 5, 100, Running, "", 0}, {5, 14, 100, Blocked, Disk, 0}, {14, 20, 100, Running, "", 0},
		}},
		{"ends blocked", func(c *cpu) {
			c.runs(0, 100)
			c.waits(5, 100, pipeStack)
		}, Moment{Time: 20, TID: 100}, []segment{
			{0, 5, 100, Running, "", 0}, {5, 20, 100, Blocked, IPC, 0},
		}},
		{"never seen", func(*cpu) {}, Moment{Time: 20, TID: 100}, []segment{{0, 20, 100, Blocked, Other, 0}}},
		{"blocked from before the recording", func(c *cpu) {
			c.runs(5, 200)
			c.wakes(10, 200, 100)
			c.runs(12, 100)
		}, Moment{Time: 20, TID: 100}, []segment{
			{0, 5, 200, Ready, "", 0}, {5, 10, 200, Running, "", 0}, {10, 12, 100, Ready, "", 0}, {12, 20, 100, Running, "", 0},
		}},
		{"the family's last to run", func(c *cpu) {
			c.runs(0, 100)
			c.forks(5, 100, 200)
			c.to(6, 100, 200, 1, waitStack)
			c.to(15, 200, 2, 1, pipeStack)
		}, Moment{Time: 20, PID: 100}, []segment{
			{0, 5, 100, Running, "", 0}, {5, 6, 200, Ready, "", 0}, {6, 15, 200, Running, "", 0}, {15, 20, 200, Blocked, IPC, 0},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var made cpu
			c.events(&made)
			var got []segment
			for _, s := range CriticalPath(made.events, 0, c.to, madeUp) {
				got = append(got, segment{s.From, s.To, s.TID, s.State, s.Cause, s.Waker})
				if s.PID != thread(s.TID).PID && c.name != "never seen" {
					t.Errorf("thread %d is of process %d", s.TID, s.PID)
				}
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(segment{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// checkTiles: segments follow each other and fill the interval.
func checkTiles(t *testing.T, path []Segment, from, to time.Duration) {
	t.Helper()
	at := from
	for _, s := range path {
		if s.From != at || s.To <= s.From {
			t.Fatalf("a segment from %v to %v follows what ended at %v", s.From, s.To, at)
		}
		if (s.Cause != "") != (s.State == Blocked) {
			t.Fatalf("a segment %q has the cause %q", s.State, s.Cause)
		}
		at = s.To
	}
	if at != to {
		t.Fatalf("the path ends at %v, want %v", at, to)
	}
}

// Whatever the events, consistent or not, the path has an end and no gap.
func TestPathTilesItsInterval(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var made cpu
		at := time.Duration(0)
		for range random.IntN(60) {
			at += time.Duration(random.IntN(3)) // ties among them
			a, b := 100+random.IntN(4), 200+random.IntN(3)
			if random.IntN(2) == 0 {
				a, b = b, a
			}
			switch random.IntN(7) {
			case 0:
				made.runs(at, a)
			case 1:
				made.waits(at, a, uint64(3+random.IntN(7)))
			case 2:
				made.preempted(at, a, b)
			case 3:
				made.wakes(at, a, b)
			case 4:
				made.interruptWakes(at, Context(random.IntN(8)), a, b, uint64(11+random.IntN(3)))
			case 5:
				made.forks(at, a, b)
			case 6:
				made.executes(at, a, b)
			}
		}
		from, to := time.Duration(random.IntN(10)), 10+time.Duration(random.IntN(60))
		checkTiles(t, CriticalPath(made.events, from, Moment{Time: to, TID: 100}, madeUp), from, to)
	}
}

func TestCauseOf(t *testing.T) {
	for _, c := range []struct {
		stack []string
		want  Cause
	}{
		{[]string{"schedule_timeout", "wait_for_completion", "synchronize_rcu_normal", "rcu_sync_enter", "percpu_down_write", "cgroup_procs_write_start"}, RCU},
		{[]string{"__mutex_lock.constprop.0", "exp_funnel_lock", "synchronize_rcu_expedited", "synchronize_net"}, RCU},
		{[]string{"schedule_timeout", "wait_for_completion", "rcu_barrier", "__dev_change_net_namespace"}, RCU},
		{[]string{"io_schedule", "folio_wait_bit_common", "do_swap_page", "handle_mm_fault"}, Memory},
		{[]string{"io_schedule", "folio_wait_bit_common", "filemap_fault", "handle_mm_fault"}, Disk},
		{[]string{"jbd2_log_wait_commit", "ext4_sync_file"}, Disk},
		{[]string{"schedule_preempt_disabled", "rwsem_down_write_slowpath", "copy_net_ns"}, Lock},
		{[]string{"__mutex_lock.constprop.0", "anon_pipe_read"}, Lock},
		{[]string{"anon_pipe_read", "vfs_read"}, IPC},
		{[]string{"schedule_hrtimeout_range_clock", "ep_poll", "do_epoll_wait"}, IPC},
		{[]string{"futex_do_wait", "__futex_wait", "futex_wait"}, IPC},
		{[]string{"schedule_timeout", "unix_stream_read_generic"}, IPC},
		{[]string{"wait_for_vfork_done", "kernel_clone"}, Child},
		{[]string{"schedule_timeout", "__wait_for_common", "wait_for_completion_state", "kernel_clone", "__do_sys_clone"}, Child},
		{[]string{"percpu_rwsem_wait", "__percpu_down_read", "cgroup_css_set_fork", "copy_process", "kernel_clone"}, Lock},
		{[]string{"do_wait", "kernel_wait4"}, Child},
		{[]string{"do_nanosleep", "hrtimer_nanosleep"}, Sleep},
		{[]string{"schedule_timeout", "wait_for_completion", "__flush_work"}, Worker},
		{[]string{"schedule_timeout", "wait_for_completion"}, Other},
		{nil, Other},
	} {
		if got := CauseOf(c.stack); got != c.want {
			t.Errorf("%q waits for %q, want %q", c.stack, got, c.want)
		}
	}
}

// A beginning must not take what belongs elsewhere.
func TestCausesDoNotOverlap(t *testing.T) {
	seen := map[string]Cause{}
	for _, row := range causes {
		for _, function := range row.functions {
			if other, ok := seen[function]; ok {
				t.Errorf("%s stands for %q and for %q", function, other, row.cause)
			}
			seen[function] = row.cause
		}
	}
	for _, row := range causes {
		for _, function := range row.functions {
			plain := function
			if n := len(function) - 1; function[n] == '*' {
				plain = function[:n]
			}
			if got := CauseOf([]string{plain}); got != row.cause {
				t.Errorf("%s stands for %q and is taken for %q", function, row.cause, got)
			}
		}
	}
}

func TestFrames(t *testing.T) {
	names := map[uint64]string{1: "bpf_prog_1", 2: "bpf_trace_run4", 3: "__schedule", 4: "schedule", 5: "do_wait", 7: "kernel_wait4"}
	symbols := func(a uint64) string { return names[a] }
	for _, c := range []struct {
		stack []uint64
		want  []string
	}{
		{[]uint64{1, 2, 3, 4, 5, 6, 7}, []string{"do_wait", "", "kernel_wait4"}},
		{[]uint64{1, 2, 5, 7}, []string{"do_wait", "kernel_wait4"}},
		{nil, nil},
	} {
		if got := Frames(c.stack, symbols); !slices.Equal(got, c.want) {
			t.Errorf("%v is %q, want %q", c.stack, got, c.want)
		}
	}
}
