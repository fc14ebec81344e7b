package sched

import "strings"

// Cause is what a thread waits for that is blocked.
type Cause string

// The causes.
const (
	RCU    Cause = "RCU"           // a grace period
	Memory Cause = "memory"        // to be reclaimed, or read back from swap
	Child  Cause = "child"         // a process that it started, to end or to execute
	Disk   Cause = "disk"          // data to be read or written, the journal
	Lock   Cause = "lock"          // a lock in the kernel
	Worker Cause = "kernel worker" // work that it gave to a kernel thread
	IPC    Cause = "IPC"           // another program: pipe, socket, futex, and what poll awaits
	Sleep  Cause = "timer"         // time to pass
	Other  Cause = "other"         // what the table does not name
)

// Symbols names the kernel's function at an address; empty where it is not
// known.
type Symbols func(address uint64) string

// causes say by a function on a stack what its thread waits for. A row that
// stands before another wins, wherever on the stack the two functions are: so
// the wait for a grace period goes by that name although it is made of a
// completion under a mutex. A name that ends in an asterisk is a beginning.
//
// The functions are those of Linux 5.4 to 6.18; of several names for one, the
// later stands last.
var causes = []struct {
	cause     Cause
	functions []string
}{
	// Every wait for a grace period, the rush after it to be the one who asks
	// (exp_funnel_lock) and the barriers.
	{RCU, []string{"__wait_rcu_gp", "wait_rcu_gp", "synchronize_rcu*", "synchronize_net", "__synchronize_srcu", "synchronize_srcu*", "rcu_barrier*", "srcu_barrier", "exp_funnel_lock", "rcu_sync_enter"}},
	// Before Disk: swapping in ends in the same functions.
	{Memory, []string{"do_swap_page", "try_to_free_pages", "try_to_free_mem_cgroup_pages", "throttle_direct_reclaim", "mem_cgroup_handle_over_high", "__mem_cgroup_handle_over_high", "mem_cgroup_oom_synchronize", "__alloc_pages_slowpath*", "__alloc_frozen_pages_slowpath*", "handle_userfault"}},
	{Child, []string{"do_wait", "kernel_wait"}},
	{Disk, []string{"io_schedule", "io_schedule_timeout", "blk_mq_get_tag", "blk_mq_freeze_queue*", "submit_bio_wait", "balance_dirty_pages*", "jbd2_*", "wait_transaction_locked", "wait_on_page_bit*", "folio_wait_*", "__wait_on_buffer", "xlog_*", "btrfs_wait_*", "wb_wait_for_completion", "sync_inodes_sb"}},
	// Also the lock of a pipe or socket: it is not yet its content that is waited
	// for. The lock of a cgroup's fork guard is a percpu-rwsem.
	{
		Lock,
		[]string{
			"__mutex_lock*",
			"mutex_lock*",
			"ww_mutex_lock*",
			"rwsem_down_*",
			"__down_read*",
			"__down_write*",
			"down_read*",
			"down_write*",
			"percpu_rwsem_wait",
			"percpu_down_*",
			"__percpu_down_read",
			"__down*",
			"rt_mutex_slowlock*",
			"lock_sock_nested",
			"__lock_sock",
			"bit_wait",
			"out_of_line_wait_on_bit_lock",
			"freeze_super",
		},
	},
	{
		Worker,
		[]string{
			"__flush_work",
			"flush_work",
			"__flush_workqueue",
			"flush_workqueue",
			"drain_workqueue",
			"kthread_stop",
			"kthread_flush_work",
			"__kthread_create_on_node",
			"call_usermodehelper_exec",
			"cgroup_lock_and_drain_offline",
			"devtmpfs_submit_req",
			"synchronize_irq",
			"affine_move_task",
			"stop_one_cpu",
			"stop_machine*",
			"cpu_stop_*",
		},
	},
	{
		IPC,
		[]string{
			"anon_pipe_read",
			"anon_pipe_write",
			"pipe_read",
			"pipe_write",
			"pipe_wait*",
			"wait_for_partner",
			"fifo_open",
			"unix_*",
			"futex_*",
			"__futex_*",
			"ep_poll",
			"do_epoll_*",
			"do_select",
			"do_sys_poll",
			"do_poll*",
			"tcp_*",
			"udp_*",
			"sk_wait_data",
			"sock_wait_*",
			"inet_csk_accept",
			"inet_stream_connect",
			"__inet_stream_connect",
			"netlink_*",
			"__skb_wait_for_more_packets",
			"__skb_recv_*",
			"eventfd_read",
			"signalfd_*",
			"inotify_read",
			"fanotify_read",
			"do_msgrcv",
			"do_semtimedop*",
			"wait_woken",
			"n_tty_read",
			"fuse_*",
			"request_wait_answer",
			"io_cqring_wait",
			"do_sigtimedwait",
			"sigsuspend",
			"ptrace_stop",
			"do_signal_stop",
			"vsock_*",
		},
	},
	{
		Sleep,
		[]string{
			"hrtimer_nanosleep",
			"do_nanosleep",
			"msleep*",
			"usleep_range*",
			"ktime_get_sleep*",
			"timerfd_read",
			"schedule_timeout_*interruptible",
			"pause",
			"__ia32_sys_pause",
			"__x64_sys_pause",
			"__arm64_sys_pause",
		},
	},
	// The parent of a vfork waits until its child has executed a program. Last,
	// since a fork may wait for all of the above too.
	{Child, []string{"wait_for_vfork_done", "kernel_clone", "_do_fork"}},
}

// CauseOf gives what a thread waits for by its kernel stack.
func CauseOf(stack []string) Cause {
	for _, row := range causes {
		for _, frame := range stack {
			for _, function := range row.functions {
				if matches(frame, function) {
					return row.cause
				}
			}
		}
	}
	return Other
}

func matches(frame, pattern string) bool {
	if beginning, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(frame, beginning)
	}
	// The compiler's own copies: "pipe_read.part.0".
	if frame, ok := strings.CutPrefix(frame, pattern); ok {
		return frame == "" || frame[0] == '.'
	}
	return false
}

// Frames names the functions of a kernel stack, the innermost first, without
// those of the scheduler and of the tracing itself. A function without a name
// stands as "".
func Frames(stack []uint64, symbols Symbols) []string {
	var names []string
	for _, address := range stack {
		name := symbols(address)
		// What comes before the scheduler is what the scheduler called.
		if matches(name, "__schedule") {
			names = names[:0]
			continue
		}
		if len(names) == 0 && (name == "schedule" || name == "preempt_schedule_common" || strings.HasPrefix(name, "bpf_")) {
			continue
		}
		names = append(names, name)
	}
	return names
}

// interrupts are the functions through which interrupts come, and what they
// leave to softirqs, on x86-64 and arm64.
var interrupts = []string{
	"asm_sysvec_*", "sysvec_*", "__sysvec_*", "asm_common_interrupt", "common_interrupt", "hrtimer_interrupt", "__hrtimer_run_queues",
	"el1_interrupt", "el0_interrupt", "el1h_64_irq*", "el0t_64_irq*", "handle_irq_event*", "generic_handle_*",
	"irq_exit*", "__irq_exit_rcu", "run_ksoftirqd",
}

// byThread reports whether the current thread has woken the other by its own
// doing, or an interrupt has that came meanwhile.
//
// The CPU's context alone does not say. What a thread sends through the
// loopback or a veth it delivers to the receiver itself, as a softirq, on its
// way out of the network's code. So an interrupt has to be on the stack, where
// there is one.
func byThread(wake Event, symbols Symbols) bool {
	switch {
	case wake.Thread.Kernel || wake.Thread.TID == 0:
		return false
	case wake.Context == 0:
		return true
	case len(wake.Stack) == 0:
		return false
	}
	for _, frame := range Frames(wake.Stack, symbols) {
		for _, function := range interrupts {
			if matches(frame, function) {
				return false
			}
		}
	}
	return true
}
