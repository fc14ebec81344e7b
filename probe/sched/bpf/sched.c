// Programs on the scheduler's and the processes' tracepoints, for probe/sched.

#include "../../../kernel/bpf/kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct path f_path;
};

struct mm_struct {
	unsigned long arg_start, arg_end;
	struct file *exe_file;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	int pid;
	int tgid;
	struct mm_struct *mm;
	struct signal_struct *signal;
	char comm[16];
};

// Before Linux 5.14 the state was a long of another name.
struct task_struct___before_5_14 {
	volatile long state;
};

struct linux_binprm {
	const char *filename;
};

#pragma clang attribute pop

// The layout of an event is read by decode.go, and kept to it by its tests.

enum kind { FORK = 1, EXEC, EXIT, SWITCH, WAKE };

enum flag {
	FIRST_KERNEL = 1 << 0,  // the first thread is a kernel thread
	SECOND_KERNEL = 1 << 1, // the second is
	LAST_THREAD = 1 << 2,   // EXIT: of its process
	NEWBORN = 1 << 3,       // WAKE: for the first time
	IN_INTERRUPT = 1 << 4,  // WAKE: by an interrupt's handler
	IN_SOFTIRQ = 1 << 5,    // WAKE: by a softirq
	IN_TIMER = 1 << 6,      // WAKE: by a timer that expired
};

#define COMM 16
#define NAME 64
#define PATHNAME 256
#define ARGS 1024
#define FRAMES 64

struct head {
	__u64 time; // CLOCK_MONOTONIC
	__u8 kind, flags;
	__u16 cpu;
	__s32 pid, tid;             // forked, executed, ended, switched out, woke
	__s32 other_pid, other_tid; // was born, -, -, switched in, was woken
	__u32 value;                // EXEC: the thread's id before; SWITCH: the state of the one switched out
	char comm[COMM], other_comm[COMM];
};

struct exec_event {
	struct head head;
	char name[NAME];     // of the file that is executed, without its directory
	char path[PATHNAME]; // that execve was given
	char args[ARGS];
};

struct stack_event {
	struct head head;
	__u64 frames[FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); // set by the loader
} events SEC(".maps");

// Scratch room: an event is too large for a program's stack. A program has its
// own, since one that serves an interrupt may come upon another half done.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct exec_event);
} exec_scratch SEC(".maps");

enum { OF_SWITCH, OF_WAKE, STACK_SCRATCHES };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, STACK_SCRATCHES);
	__type(key, __u32);
	__type(value, struct stack_event);
} stack_scratch SEC(".maps");

// What a CPU is doing beside its current thread.
struct context {
	__u8 interrupt, softirq, timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct context);
} contexts SEC(".maps");

// Set by the loader.
const volatile bool every_thread = false;     // report threads, not only processes
const volatile bool switch_has_state = false; // sched_switch's fourth argument: since Linux 5.18
const volatile bool urgent_execs = false;     // wake the reader for each
const volatile __u64 wake_reader_at = 0;      // when so many bytes wait for it

// Read by the loader: events that found no room, in the ring or in a table.
__u64 lost = 0;

// urgency tells whether the reader is woken for an event. Woken for each, it
// would take as much time as what it sees.
static __always_inline __u64 urgency(bool urgent)
{
	if (urgent || bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) >= wake_reader_at)
		return BPF_RB_FORCE_WAKEUP;
	return BPF_RB_NO_WAKEUP;
}

static __always_inline void begin(struct head *h, enum kind kind)
{
	h->time = bpf_ktime_get_ns();
	h->kind = kind;
	h->flags = 0;
	h->cpu = bpf_get_smp_processor_id();
	h->pid = h->tid = h->other_pid = h->other_tid = 0;
	h->value = 0;
	__builtin_memset(h->comm, 0, COMM);
	__builtin_memset(h->other_comm, 0, COMM);
}

static __always_inline void first(struct head *h, struct task_struct *t)
{
	h->pid = t->tgid;
	h->tid = t->pid;
	if (t->flags & KERNEL_THREAD)
		h->flags |= FIRST_KERNEL;
	bpf_probe_read_kernel(h->comm, COMM, t->comm);
}

static __always_inline void second(struct head *h, struct task_struct *t)
{
	h->other_pid = t->tgid;
	h->other_tid = t->pid;
	if (t->flags & KERNEL_THREAD)
		h->flags |= SECOND_KERNEL;
	bpf_probe_read_kernel(h->other_comm, COMM, t->comm);
}

static __always_inline void send(void *event, __u64 size, bool urgent)
{
	if (bpf_ringbuf_output(&events, event, size, urgency(urgent)))
		__sync_fetch_and_add(&lost, 1);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	if (!every_thread && child->pid != child->tgid)
		return 0;
	struct head h;
	begin(&h, FORK);
	first(&h, parent);
	second(&h, child);
	send(&h, sizeof(h), false);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task, int old_tid, struct linux_binprm *bprm)
{
	__u32 zero = 0;
	struct exec_event *e = bpf_map_lookup_elem(&exec_scratch, &zero);
	if (!e)
		return 0;
	begin(&e->head, EXEC);
	first(&e->head, task);
	e->head.value = old_tid;

	struct mm_struct *mm = task->mm;
	e->name[0] = 0;
	e->path[0] = 0;
	__u64 size = 0;
	if (mm) {
		bpf_probe_read_kernel_str(e->name, NAME, BPF_CORE_READ(mm, exe_file, f_path.dentry, d_name.name));
		// The kernel has just written the arguments: their pages are there.
		__u64 start = mm->arg_start;
		size = mm->arg_end - start;
		if (size > ARGS)
			size = ARGS;
		if (bpf_probe_read_user(e->args, size, (void *)start))
			size = 0;
	}
	bpf_probe_read_kernel_str(e->path, PATHNAME, bprm->filename);
	if (size > ARGS) // for the verifier
		size = ARGS;
	send(e, __builtin_offsetof(struct exec_event, args) + size, urgent_execs);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	// Two last threads that end at once are both the last: that is harmless.
	bool last = task->signal->live.counter == 0;
	if (!every_thread && !last)
		return 0;
	struct head h;
	begin(&h, EXIT);
	first(&h, task);
	if (last)
		h.flags |= LAST_THREAD;
	send(&h, sizeof(h), false);
	return 0;
}

// state_of tells in which state the one switched out is; 0 where it would run.
static __always_inline __u32 state_of(__u64 *ctx, struct task_struct *prev)
{
	if (ctx[0]) // preempted
		return 0;
	// A waker on another CPU may have changed the task's own since.
	if (switch_has_state)
		return ((volatile __u64 *)ctx)[3];
	if (bpf_core_field_exists(prev->__state))
		return BPF_CORE_READ(prev, __state);
	return BPF_CORE_READ((struct task_struct___before_5_14 *)prev, state);
}

SEC("tp_btf/sched_switch")
int on_switch(__u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	__u32 at = OF_SWITCH;
	struct stack_event *e = bpf_map_lookup_elem(&stack_scratch, &at);
	if (!e)
		return 0;
	begin(&e->head, SWITCH);
	first(&e->head, prev);
	second(&e->head, next);
	__u32 state = state_of(ctx, prev);
	e->head.value = state;
	long size = 0;
	if (state)
		size = bpf_get_stack(ctx, e->frames, sizeof(e->frames), 0);
	if (size < 0)
		size = 0;
	if (size > sizeof(e->frames))
		size = sizeof(e->frames);
	send(e, sizeof(e->head) + size, false);
	return 0;
}

static __always_inline __u8 context_flags(void)
{
	__u32 zero = 0;
	struct context *c = bpf_map_lookup_elem(&contexts, &zero);
	if (!c)
		return 0;
	return (c->interrupt ? IN_INTERRUPT : 0) | (c->softirq ? IN_SOFTIRQ : 0) | (c->timer ? IN_TIMER : 0);
}

static __always_inline int wake(void *ctx, struct task_struct *woken, __u8 flags)
{
	__u32 at = OF_WAKE;
	struct stack_event *e = bpf_map_lookup_elem(&stack_scratch, &at);
	if (!e)
		return 0;
	begin(&e->head, WAKE);
	first(&e->head, bpf_get_current_task_btf());
	second(&e->head, woken);
	flags |= context_flags();
	e->head.flags |= flags;
	// A softirq that the current thread itself raised, as one that sends to a
	// neighbour through the loopback does, is told from a stranger's by the stack.
	long size = 0;
	if (flags & (IN_INTERRUPT | IN_SOFTIRQ | IN_TIMER))
		size = bpf_get_stack(ctx, e->frames, sizeof(e->frames), 0);
	if (size < 0)
		size = 0;
	if (size > sizeof(e->frames))
		size = sizeof(e->frames);
	send(e, sizeof(e->head) + size, false);
	return 0;
}

// sched_waking is called by who wakes; sched_wakeup may be called elsewhere.
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *woken)
{
	return wake(ctx, woken, 0);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *woken)
{
	return wake(ctx, woken, NEWBORN);
}

// What a CPU is doing could be read from its preempt_count, which has no one
// place, and no address that every kernel tells. These tracepoints have.

#define CONTEXT(tracepoint, member, is)                                  \
	SEC("tp_btf/" #tracepoint)                                       \
	int on_##tracepoint(void *ctx)                                   \
	{                                                                \
		__u32 zero = 0;                                          \
		struct context *c = bpf_map_lookup_elem(&contexts, &zero); \
		if (c)                                                   \
			c->member = is;                                  \
		return 0;                                                \
	}

CONTEXT(irq_handler_entry, interrupt, 1)
CONTEXT(irq_handler_exit, interrupt, 0)
CONTEXT(softirq_entry, softirq, 1)
CONTEXT(softirq_exit, softirq, 0)
CONTEXT(hrtimer_expire_entry, timer, 1)
CONTEXT(hrtimer_expire_exit, timer, 0)

// Time off the CPU, added up in the kernel.

#define NO_STACK (-1)     // the stack could not be kept
#define WAITS_FOR_CPU (-2)

struct absence {
	__u64 since;
	__u64 mm; // tells a process' programs apart
	__s32 pid;
	__s32 stack;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__type(key, __s32); // thread id
	__type(value, struct absence);
} absences SEC(".maps");

struct off_key {
	__u64 mm;
	__s32 pid;
	__s32 stack;
};

struct off_time {
	__u64 nanoseconds, count, last;
	__u32 kernel_thread;
	char comm[COMM];
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__type(key, struct off_key);
	__type(value, struct off_time);
} off_times SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 1 << 14);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, FRAMES * sizeof(__u64));
} stacks SEC(".maps");

static __always_inline void leave(struct task_struct *t, __s32 stack, __u64 now)
{
	__s32 tid = t->pid;
	if (!tid)
		return; // the idle task
	struct absence a = {.since = now, .mm = (__u64)t->mm, .pid = t->tgid, .stack = stack};
	if (bpf_map_update_elem(&absences, &tid, &a, BPF_ANY))
		__sync_fetch_and_add(&lost, 1);
}

static __always_inline void account(struct task_struct *t, struct absence *a, __u64 now)
{
	struct off_key key = {.mm = a->mm, .pid = a->pid, .stack = a->stack};
	struct off_time *o = bpf_map_lookup_elem(&off_times, &key);
	if (!o) {
		struct off_time none = {.kernel_thread = !!(t->flags & KERNEL_THREAD)};
		bpf_probe_read_kernel(none.comm, COMM, t->comm);
		bpf_map_update_elem(&off_times, &key, &none, BPF_ANY);
		o = bpf_map_lookup_elem(&off_times, &key);
		if (!o) {
			__sync_fetch_and_add(&lost, 1);
			return;
		}
	}
	__sync_fetch_and_add(&o->nanoseconds, now - a->since);
	__sync_fetch_and_add(&o->count, 1);
	o->last = now;
}

SEC("tp_btf/sched_switch")
int off_switch(__u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	__u64 now = bpf_ktime_get_ns();
	__u32 state = state_of(ctx, prev);
	if (!state) {
		leave(prev, WAITS_FOR_CPU, now);
	} else if (!(state & DEAD)) {
		long stack = bpf_get_stackid(ctx, &stacks, 0);
		if (stack < 0) {
			stack = NO_STACK;
			__sync_fetch_and_add(&lost, 1);
		}
		leave(prev, stack, now);
	}
	__s32 tid = next->pid;
	struct absence *a = bpf_map_lookup_elem(&absences, &tid);
	if (a) {
		account(next, a, now);
		bpf_map_delete_elem(&absences, &tid);
	}
	return 0;
}

SEC("tp_btf/sched_waking")
int off_waking(__u64 *ctx)
{
	struct task_struct *woken = (void *)ctx[0];
	__s32 tid = woken->pid;
	struct absence *a = bpf_map_lookup_elem(&absences, &tid);
	if (!a || a->stack == WAITS_FOR_CPU)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	account(woken, a, now);
	a->since = now;
	a->stack = WAITS_FOR_CPU;
	return 0;
}

// For the kernel's check of helpers alone: see kernel/bpf/kernel.h.
char licence[] SEC("license") = "Dual MIT/GPL";
