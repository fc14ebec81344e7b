// Programs on the scheduler's tracepoints, for probe/bursts.
//
// Everything is added up here; nothing is handed over event by event, so that
// the weight does not grow with a reader.

#include "../../../kernel/bpf/kernel.h"
#include "../../../kernel/bpf/group.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

// Since Linux 5.16 the CPU stands here.
struct thread_info {
	__u32 cpu;
};

struct mm_struct;

// Of a kernel with CONFIG_CFS_BANDWIDTH.
struct cfs_rq {
	int throttle_count; // above 0: its group, or one above, has used up its quota here
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live; // threads
};

struct task_struct {
	struct thread_info thread_info;
	struct sched_entity se;
	unsigned int __state;
	unsigned int flags;
	struct mm_struct *mm;
	int pid;
	int tgid;
	struct css_set *cgroups;
	struct signal_struct *signal;
	char comm[16];
};

struct linux_binprm;

// Before Linux 5.16 the CPU stood here.
struct task_struct___before_5_16 {
	unsigned int cpu;
};

// Before Linux 5.14 the state was a long of another name.
struct task_struct___before_5_14 {
	volatile long state;
};

#pragma clang attribute pop

// The layouts below are read by maps.go, and kept to it by its tests.

// A histogram's steps are linear within each power of two: sixteen of them, of
// units of 16 ns.
#define UNIT_SHIFT 4
#define STEP_SHIFT 4
#define STEPS (1 << STEP_SHIFT)
#define OCTAVES 33 // up to 2^(33 + 4 + 3) ns, eighteen minutes
#define BUCKETS (OCTAVES * STEPS)

struct histogram {
	__u64 counts[BUCKETS];
	__u64 sum; // nanoseconds
};

struct histograms {
	struct histogram burst, wait, blocked, run;
};

struct counts {
	__u64 cpu_time; // nanoseconds
	__u64 bursts;
	__u64 wakeups;
	__u64 voluntary, involuntary; // switches away
	__u64 migrations;
	__u64 hard, soft;         // interrupts while a thread of the target had the CPU
	__u64 interrupt_wakeups;  // wakings from within an interrupt
	__u64 interrupt_elsewhere, other_elsewhere; // wakings after which the thread went on on another CPU
	// Of bursts: their length times what they waited, in units of 2^40 ns^2, and the rest in
	// units of 2^20 ns^2.
	__u64 delays, delays_rest;
	__u64 throttled; // when a thread last left this CPU, with its group throttled there
};

#define PRODUCT_SHIFT 10 // of both times of a product, which else would not fit
#define REST_SHIFT (2 * PRODUCT_SHIFT)

enum mode { UNSEEN = 0, RUNNING, QUEUED, BLOCKED };

enum waker { NO_WAKER = 0, BY_THREAD, BY_INTERRUPT };

#define NO_CPU 0xffffffff

// What is known of a thread: whose it is, and, of a target's, what it is doing.
// It fills one line of the processor's cache.
struct thread {
	__u64 since; // it has been doing so
	__u64 burst; // time on a CPU since it last blocked, up to since
	__u64 group; // of which the target was judged
	__u64 left;  // when it left its CPU, where stacks are kept
	__s32 tid, tgid;
	__s32 target;
	__u8 mode;
	__u8 waking; // who last called it
	__u8 woken;  // who woke it, until it has a CPU
	__u8 preempted : 1; // it left its CPU though it wanted it
	__u8 held : 1; // it waits because a quota is used up, whoever has the CPU
	__u32 cpu;  // on which it runs, ran, or is queued
	__u32 last; // on which it ran
	__s32 kernel_stack, user_stack; // by which it left; without keep_stacks both are waited_of
};

// waited_of is how long a thread has waited since it last blocked. It has the place of the
// stacks, so that a thread still fits its line of the cache.
static __always_inline __u64 *waited_of(struct thread *t)
{
	return (__u64 *)&t->kernel_stack;
}

// Who had a CPU when. Numbers below zero are no targets.
enum { OTHERS = -1, KERNEL = -2, NOBODY = -3, UNKNOWN = -4, QUOTA = -5 };

#define SLICES 64

struct slice {
	__u64 began, ended;
	__s32 who;
	__u32 unused;
};

struct line {
	struct slice slices[SLICES]; // the last ones, in a ring; neighbours are of different holders
	__u64 began;                 // of the one that goes on
	__u32 count;                 // of slices so far
	__s32 who;
	__u8 interrupt, softirq, timer; // what the CPU is in the midst of
	__u8 unused[5];
};

struct pair {
	__s32 waiter, holder;
};

struct behind {
	__u64 nanoseconds, waits;
};

// Their sizes are set by the loader.

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct histograms);
} histogram_of SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} counts_of SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct line);
} lines SEC(".maps"); // by CPU

// A thread's place is its id's last bits: an array is looked up in a tenth of the
// time that a hash table takes. A thread of a target that finds its place taken goes
// into the table.
#define PLACES (1 << 16)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PLACES);
	__type(key, __u32);
	__type(value, struct thread);
} places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 15);
	__type(key, __s32); // thread id
	__type(value, struct thread);
} threads SEC(".maps");

#define FRAMES 64

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, FRAMES * sizeof(__u64));
} stacks SEC(".maps");

#define NO_STACK (-1)

struct way {
	__u64 mm; // tells a process' programs apart
	__s32 tgid;
	__s32 target;
	__s32 kernel_stack, user_stack;
	__u32 waiting; // it wanted the CPU
	__u32 unused;
};

struct absence {
	__u64 nanoseconds, count;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct way);
	__type(value, struct absence);
} absences SEC(".maps");

struct found {
	__s32 target;
	__s32 kernel_stack; // NO_STACK in the program's own code
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct found);
	__type(value, __u64);
} samples SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct directory);
	__type(value, __s32); // target
} roots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 14);
	__type(key, struct directory);
	__type(value, __s32); // target, or OTHERS
} verdicts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 14);
	__type(key, __s32); // process id
	__type(value, __s32); // target
} followed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32); // target
	__type(value, __u64); // id of a group that appeared
} appeared SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 14);
	__type(key, struct pair);
	__type(value, struct behind);
} behinds SEC(".maps");

// Set by the loader.
#define HIERARCHIES 4
const volatile __u32 hierarchies = 0;
const volatile __s32 subsystem[HIERARCHIES] = {}; // -1 is version 2
const volatile bool by_pid = false;
const volatile bool every_group = false; // each group is a target of its own
const volatile __u32 targets = 1;        // room for them
const volatile bool switch_has_state = false; // sched_switch's fourth argument: since Linux 5.18
const volatile bool blaming = false;     // it is told behind whom waits were
const volatile __u64 blamed_from = 0;    // from which length on
const volatile __u32 lanes = 1;          // histograms a target: one, or one a CPU
const volatile bool keep_stacks = false; // by which threads leave their CPU

// Set by the loader once all programs are attached; nothing counts before. A CPU
// whose first switch comes after that was had until then by one thread.
volatile __u64 began = 0;

// Read by the loader.
__u64 lost = 0;         // events that found no room in a table
__u64 unplaced = 0;     // groups for which there was no room
__u32 appeared_count = 0;
__u64 unstacked = 0; // absences and samples whose stack found no room

// How many threads went into the table.
__u64 spilled = 0;

// count_in is kept to one index that the kernel's verifier sees to be below the end.
static __always_inline void count_in(struct histogram *h, __u64 nanoseconds)
{
	__u64 v = nanoseconds >> UNIT_SHIFT;
	__u64 at = v;
	if (v >= STEPS) {
		__u32 log = 0;
		__u64 rest = v;
		if (rest >> 32) { log += 32; rest >>= 32; }
		if (rest >> 16) { log += 16; rest >>= 16; }
		if (rest >> 8) { log += 8; rest >>= 8; }
		if (rest >> 4) { log += 4; rest >>= 4; }
		if (rest >> 2) { log += 2; rest >>= 2; }
		if (rest >> 1) log += 1;
		at = (log - STEP_SHIFT + 1) * STEPS + ((v >> (log - STEP_SHIFT)) & (STEPS - 1));
	}
	asm volatile("" : "+r"(at)); // or the comparison is of another register
	if (at >= BUCKETS)
		at = BUCKETS - 1;
	if (lanes > 1) { // none but this CPU adds here, with its interrupts off
		h->counts[at]++;
		h->sum += nanoseconds;
		return;
	}
	__sync_fetch_and_add(&h->counts[at], 1);
	__sync_fetch_and_add(&h->sum, nanoseconds);
}

static __always_inline struct histograms *histograms_of(__s32 target, __u32 cpu)
{
	__u32 at = lanes > 1 ? target * lanes + cpu : target;
	return bpf_map_lookup_elem(&histogram_of, &at);
}

enum times { BURSTS, WAITS, BLOCKINGS, RUNS }; // as struct histograms has them

// count adds a time to one of a target's histograms. It is global for the verifier's sake, as explain is.
__noinline int count(__s32 target, __u32 cpu, __u32 of, __u64 nanoseconds)
{
	struct histograms *all = histograms_of(target, cpu);
	if (all)
		count_in(&all->burst + (of & 3), nanoseconds);
	return 0;
}

static __always_inline void missed(void)
{
	__sync_fetch_and_add(&lost, 1);
}

// appear gives a group that is met for the first time a number.
static __always_inline __s32 appear(__u64 id)
{
	__u32 at = __sync_fetch_and_add(&appeared_count, 1);
	__u64 *slot = bpf_map_lookup_elem(&appeared, &at);
	if (at >= targets || !slot) {
		__sync_fetch_and_add(&unplaced, 1);
		return OTHERS;
	}
	*slot = id;
	return at;
}

// judge finds the target of a directory that was not met before: that of the
// nearest above it.
static __noinline __s32 judge(struct cgroup *group, __u32 hierarchy)
{
	struct cgroup *g = group;
	struct directory own = {.hierarchy = hierarchy, .id = BPF_CORE_READ(g, kn, id)};
	__s32 target = OTHERS;
	if (every_group) {
		target = appear(own.id);
		// Another CPU may meet it at the same moment: then the first number holds,
		// and the second names nobody.
		if (bpf_map_update_elem(&verdicts, &own, &target, BPF_NOEXIST)) {
			__s32 *other = bpf_map_lookup_elem(&verdicts, &own);
			return other ? *other : OTHERS;
		}
		return target;
	}
	for (int depth = 0; depth < 32; depth++) {
		struct directory d = {.hierarchy = hierarchy, .id = BPF_CORE_READ(g, kn, id)};
		__s32 *t = bpf_map_lookup_elem(&roots, &d);
		if (t) {
			target = *t;
			break;
		}
		struct cgroup_subsys_state *up = BPF_CORE_READ(g, self.parent);
		if (!up)
			break;
		g = BPF_CORE_READ(up, cgroup);
	}
	bpf_map_update_elem(&verdicts, &own, &target, BPF_ANY);
	return target;
}

static __always_inline struct cgroup *group_in(struct css_set *set, __u32 hierarchy)
{
	// Plain loads, which the kernel makes safe by itself: a helper's call for each
	// would be half of what this program weighs.
	__s32 s = subsystem[hierarchy];
	if (s < 0)
		return set->dfl_cgrp;
	struct cgroup_subsys_state **css = (void *)set + bpf_core_field_offset(struct css_set, subsys) + s * sizeof(void *);
	return (*css)->cgroup;
}

static __always_inline __s32 target_in(struct css_set *set, __u32 hierarchy)
{
	struct cgroup *g = group_in(set, hierarchy);
	struct directory d = {.hierarchy = hierarchy, .id = g->kn->id};
	__s32 *known = bpf_map_lookup_elem(&verdicts, &d);
	return known ? *known : judge(g, hierarchy);
}

// BY_ID stands for the group of a thread whose process is followed. It is its target's in every group, also
// from the end of its process, when the id is followed no more, to its last switch.
#define BY_ID (~0ULL)

// target_of tells whose a task is. A process id goes before a directory, and the
// first hierarchy before the others.
static __always_inline __s32 target_of(struct task_struct *task, __u64 *group)
{
	if (!task->pid)
		return NOBODY; // the idle task
	if (by_pid) {
		__s32 tgid = task->tgid;
		__s32 *t = bpf_map_lookup_elem(&followed, &tgid);
		if (t) {
			*group = BY_ID;
			return *t;
		}
	}
	if (task->flags & KERNEL_THREAD)
		return KERNEL;
	struct css_set *set = task->cgroups;
	__s32 target = OTHERS;
#pragma unroll
	for (__u32 h = 0; h < HIERARCHIES; h++) {
		if (h >= hierarchies)
			break;
		if (target < 0)
			target = target_in(set, h);
	}
	return target;
}

static __always_inline struct thread *place_of(__s32 tid)
{
	__u32 at = tid & (PLACES - 1);
	return bpf_map_lookup_elem(&places, &at);
}

// known finds a thread that has a place, or is in the table.
static __always_inline struct thread *known(__s32 tid)
{
	struct thread *t = place_of(tid);
	if (t && t->tid == tid)
		return t;
	return spilled ? bpf_map_lookup_elem(&threads, &tid) : 0;
}

// settle gives a thread a place, or where that is taken and the thread a
// target's, an entry in the table. It is global for the verifier's sake, as explain is.
__noinline int settle(__s32 tid, __s32 tgid, __s32 target, __u64 group)
{
	struct thread *t = known(tid);
	if (!t) {
		t = place_of(tid);
		if (!t)
			return 0;
		if (__sync_val_compare_and_swap(&t->tid, 0, tid)) {
			if (target < 0)
				return 0;
			struct thread none = {.tid = tid, .last = NO_CPU};
			if (bpf_map_update_elem(&threads, &tid, &none, BPF_ANY)) {
				missed();
				return 0;
			}
			__sync_fetch_and_add(&spilled, 1);
			t = bpf_map_lookup_elem(&threads, &tid);
			if (!t)
				return 0;
		}
		t->mode = UNSEEN;
		t->burst = t->left = *waited_of(t) = 0;
		t->waking = t->woken = NO_WAKER;
		t->last = NO_CPU;
	}
	if (target < 0)
		t->mode = UNSEEN;
	t->tgid = tgid;
	t->group = group;
	t->target = target;
	return 0;
}

static __always_inline void forget(__s32 tid)
{
	struct thread *t = place_of(tid);
	if (t && t->tid == tid)
		t->tid = 0;
	else if (spilled)
		bpf_map_delete_elem(&threads, &tid);
}

// whose tells a task's target, and finds the thread where it is one's. What was
// judged before holds while the thread is in the same group, or its process is
// followed, and while it is of the same process.
static __always_inline __s32 whose(struct task_struct *task, struct thread **thread)
{
	__s32 tid = task->pid;
	*thread = 0;
	if (!tid)
		return NOBODY; // the idle task
	struct thread *t = known(tid);
	__u64 group = hierarchies == 1 ? group_in(task->cgroups, 0)->kn->id : 0;
	if (t && t->tgid == task->tgid && (t->group == BY_ID || (hierarchies <= 1 && t->group == group))) {
		*thread = t;
		return t->target;
	}
	__s32 target = target_of(task, &group);
	settle(tid, task->tgid, target, group);
	*thread = known(tid);
	return target;
}

static __always_inline __u32 cpu_of(struct task_struct *task)
{
	struct task_struct___before_5_16 *before = (void *)task;
	if (bpf_core_field_exists(before->cpu))
		return BPF_CORE_READ(before, cpu);
	return BPF_CORE_READ(task, thread_info.cpu);
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

// throttled tells whether a quota keeps a thread from the CPU for which it is queued.
static __always_inline bool throttled(struct task_struct *task)
{
	return bpf_core_field_exists(task->se.cfs_rq->throttle_count) && task->se.cfs_rq->throttle_count > 0;
}

static __always_inline __u64 between(__u64 from, __u64 to)
{
	return to > from ? to - from : 0;
}

// blame and explain are global, and so the kernel's verifier checks each once, for any arguments. As a part
// of on_switch it followed explain's loop for each way there: 267,000 steps, a second of CPU time.
__noinline int blame(__s32 waiter, __s32 holder, __u64 nanoseconds)
{
	if (!nanoseconds)
		return 0;
	struct pair key = {.waiter = waiter, .holder = holder};
	struct behind *b = bpf_map_lookup_elem(&behinds, &key);
	if (!b) {
		struct behind none = {};
		bpf_map_update_elem(&behinds, &key, &none, BPF_NOEXIST);
		b = bpf_map_lookup_elem(&behinds, &key);
		if (!b) {
			missed();
			return 0;
		}
	}
	__sync_fetch_and_add(&b->nanoseconds, nanoseconds);
	__sync_fetch_and_add(&b->waits, 1);
	return 0;
}

// explain tells behind whom a thread waited on a CPU, by who had that CPU.
// Waits longer than the ring remembers are unknown in their beginning.
__noinline int explain(__s32 waiter, __u32 cpu, __u64 from, __u64 to)
{
	struct line *l = bpf_map_lookup_elem(&lines, &cpu);
	if (!l)
		return 0;
	__u64 told = 0;
	if (l->began && l->began < to) { // 0 where no switch was seen there yet
		__u64 start = l->began > from ? l->began : from;
		told = between(start, to);
		blame(waiter, l->who, told);
	}
	__u32 count = l->count;
	for (__u32 i = 1; i <= SLICES; i++) {
		if (i > count)
			break;
		struct slice *s = &l->slices[(count - i) & (SLICES - 1)];
		__u64 start = s->began > from ? s->began : from;
		__u64 end = s->ended < to ? s->ended : to;
		__u64 part = between(start, end);
		if (s->ended <= from)
			break;
		blame(waiter, s->who, part);
		told += part;
	}
	blame(waiter, UNKNOWN, between(told, to - from));
	return 0;
}

// add_delay adds the length of a burst times what it waited. Both may be up to 52 days.
static __always_inline void add_delay(struct counts *c, __u64 burst, __u64 waited)
{
	if ((burst | waited) >> (32 + PRODUCT_SHIFT)) { // the product with a rest would not fit
		c->delays += (burst >> REST_SHIFT) * (waited >> REST_SHIFT);
		return;
	}
	__u64 product = (burst >> PRODUCT_SHIFT) * (waited >> PRODUCT_SHIFT);
	c->delays += product >> REST_SHIFT;
	c->delays_rest += product & ((1 << REST_SHIFT) - 1);
}

// away takes a thread of a target off its CPU.
static __always_inline void away(__u64 *ctx, struct task_struct *prev, struct thread *t, __s32 target, __u32 state, __u32 cpu, bool first, __u64 now)
{
	__u32 at = target;
	struct counts *c = bpf_map_lookup_elem(&counts_of, &at);
	if (!c)
		return;
	__u64 ran = 0, burst = 0;
	if (t && t->mode == RUNNING) {
		ran = between(t->since, now);
		burst = t->burst + ran;
	} else if (first) {
		// It has had the CPU from before the recording: no switch was seen there.
		ran = burst = between(began, now);
	}
	c->cpu_time += ran;
	bool held = throttled(prev);
	if (held)
		c->throttled = now;
	if (ran)
		count(target, cpu, RUNS, ran);
	if (state) {
		c->voluntary++;
		if (burst) {
			c->bursts++;
			count(target, cpu, BURSTS, burst);
			if (t && !keep_stacks)
				add_delay(c, burst, *waited_of(t));
		}
		if (t && !keep_stacks)
			*waited_of(t) = 0;
		burst = 0;
	} else {
		c->involuntary++;
	}
	if (!t)
		return;
	t->since = now;
	t->burst = burst;
	t->mode = state ? BLOCKED : QUEUED;
	t->held = !state && held;
	t->cpu = t->last = cpu;
	if (!keep_stacks || state & DEAD)
		return;
	t->left = now;
	long in_kernel = bpf_get_stackid(ctx, &stacks, 0);
	long in_program = prev->mm ? bpf_get_stackid(ctx, &stacks, BPF_F_USER_STACK) : NO_STACK;
	if (in_kernel < 0)
		__sync_fetch_and_add(&unstacked, 1);
	t->kernel_stack = in_kernel < 0 ? NO_STACK : in_kernel;
	t->user_stack = in_program < 0 ? NO_STACK : in_program;
	// Whether it blocked is of the stack too; what comes until it has a CPU again may
	// change the mode.
	t->preempted = !state;
}

// returned adds up how long a thread was off its CPU, by the stack by which it left.
static __always_inline void returned(struct task_struct *next, struct thread *t, __s32 target, __u64 now)
{
	struct way way = {
		.mm = (__u64)next->mm, .tgid = next->tgid, .target = target,
		.kernel_stack = t->kernel_stack, .user_stack = t->user_stack, .waiting = t->preempted,
	};
	struct absence *a = bpf_map_lookup_elem(&absences, &way);
	if (!a) {
		struct absence none = {};
		bpf_probe_read_kernel(none.comm, sizeof(none.comm), next->comm);
		bpf_map_update_elem(&absences, &way, &none, BPF_NOEXIST);
		a = bpf_map_lookup_elem(&absences, &way);
		if (!a) {
			missed();
			return;
		}
	}
	__sync_fetch_and_add(&a->nanoseconds, between(t->left, now));
	__sync_fetch_and_add(&a->count, 1);
}

// account_for tells what a thread waited for: for its quota from when that was used up, and
// before that for who had the CPU. A group may be throttled while the thread is queued. The
// kernel moves no thread that is queued in a throttled group to another CPU.
static __always_inline void account_for(__s32 target, struct thread *t, __u32 cpu, __u64 now)
{
	__u64 throttled = t->held ? t->since : 0;
	__u32 at = target;
	struct counts *c = bpf_map_lookup_elem(&counts_of, &at);
	if (!t->held && t->cpu == cpu && c)
		throttled = c->throttled;
	if (throttled < t->since) {
		explain(target, t->cpu, t->since, now);
		return;
	}
	if (throttled > t->since)
		explain(target, t->cpu, t->since, throttled);
	blame(target, QUOTA, between(throttled, now));
}

// arrive puts a thread of a target on a CPU.
static __always_inline void arrive(struct task_struct *next, struct thread *t, __s32 target, __u32 cpu, __u64 now)
{
	if (!t)
		return;
	if (t->mode == QUEUED) {
		__u64 waited = between(t->since, now);
		if (!keep_stacks)
			*waited_of(t) += waited;
		count(target, cpu, WAITS, waited);
		if (blaming && waited >= blamed_from)
			account_for(target, t, cpu, now);
	}
	bool moved = t->mode != UNSEEN && t->cpu != cpu;
	bool elsewhere = t->woken && t->last != NO_CPU && t->last != cpu;
	if (moved || elsewhere) {
		__u32 at = target;
		struct counts *c = bpf_map_lookup_elem(&counts_of, &at);
		if (c) {
			c->migrations += moved;
			if (elsewhere && t->woken == BY_INTERRUPT)
				c->interrupt_elsewhere++;
			else if (elsewhere)
				c->other_elsewhere++;
		}
	}
	if (keep_stacks && t->left) {
		returned(next, t, target, now);
		t->left = 0;
	}
	t->since = now;
	t->mode = RUNNING;
	t->woken = NO_WAKER;
	t->cpu = cpu;
}

SEC("tp_btf/sched_switch")
int on_switch(__u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	if (!began)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	__u32 cpu = bpf_get_smp_processor_id();
	struct line *l = bpf_map_lookup_elem(&lines, &cpu);
	if (!l)
		return 0;
	struct thread *leaving, *coming;
	__s32 from = whose(prev, &leaving), to = whose(next, &coming);
	bool first = !l->began;
	__u32 state = state_of(ctx, prev);
	// The line still shows prev as the one that has the CPU, so that whoever comes
	// next finds behind whom it waited.
	if (from >= 0)
		away(ctx, prev, leaving, from, state, cpu, first, now);
	if (state & DEAD)
		forget(prev->pid);
	if (blaming) {
		struct slice *last = &l->slices[(l->count - 1) & (SLICES - 1)];
		struct slice *s = &l->slices[l->count & (SLICES - 1)];
		if (l->count && last->who == from) {
			last->ended = now;
		} else {
			s->began = first ? began : l->began;
			s->ended = now;
			s->who = from;
			l->count++;
		}
	}
	l->began = now;
	l->who = to;
	if (to >= 0)
		arrive(next, coming, to, cpu, now);
	return 0;
}

static __always_inline int woken(struct task_struct *task)
{
	if (!began)
		return 0;
	struct thread *t;
	__s32 target = whose(task, &t);
	if (target < 0 || !t)
		return 0;
	// One that had not yet left its CPU goes on without having waited.
	if (t->mode == RUNNING || t->mode == QUEUED)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	__u32 at = target, cpu = cpu_of(task);
	struct counts *c = bpf_map_lookup_elem(&counts_of, &at);
	if (!c)
		return 0;
	c->wakeups++;
	t->woken = t->waking ? t->waking : BY_THREAD;
	t->waking = NO_WAKER;
	if (t->woken == BY_INTERRUPT)
		c->interrupt_wakeups++;
	if (t->mode == BLOCKED) {
		count(target, bpf_get_smp_processor_id(), BLOCKINGS, between(t->since, now));
		if (t->cpu != cpu)
			c->migrations++;
	}
	t->since = now;
	t->mode = QUEUED;
	t->held = throttled(task);
	t->cpu = cpu;
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *task)
{
	return woken(task);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *task)
{
	return woken(task);
}

// A waking is called where the waker is, and may be carried out on the CPU of the
// one that is woken: so only here is it known what the waker was.
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	struct thread *t = known(task->pid);
	if (!t || t->target < 0)
		return 0;
	__u32 cpu = bpf_get_smp_processor_id();
	struct line *l = bpf_map_lookup_elem(&lines, &cpu);
	if (l)
		t->waking = l->interrupt | l->softirq | l->timer ? BY_INTERRUPT : BY_THREAD;
	return 0;
}

// What a CPU is in the midst of could be read from its preempt_count, which has no
// one place. These tracepoints have. A timer's expiry is an interrupt by which threads
// are woken, but none of a device.

static __always_inline struct line *this_line(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	return bpf_map_lookup_elem(&lines, &cpu);
}

// A CPU's who is 0 before its first switch, which is a target's number.
static __always_inline struct counts *interrupted(struct line *l)
{
	if (!began || !l->began || l->who < 0)
		return 0;
	__u32 at = l->who;
	return bpf_map_lookup_elem(&counts_of, &at);
}

SEC("tp_btf/irq_handler_entry")
int on_irq_handler_entry(void *ctx)
{
	struct line *l = this_line();
	if (!l)
		return 0;
	l->interrupt = 1;
	struct counts *c = interrupted(l);
	if (c)
		c->hard++;
	return 0;
}

SEC("tp_btf/softirq_entry")
int on_softirq_entry(void *ctx)
{
	struct line *l = this_line();
	if (!l)
		return 0;
	l->softirq = 1;
	struct counts *c = interrupted(l);
	if (c)
		__sync_fetch_and_add(&c->soft, 1); // a handler's program may come between
	return 0;
}

#define BESIDE(tracepoint, member, is)     \
	SEC("tp_btf/" #tracepoint)         \
	int on_##tracepoint(void *ctx)     \
	{                                  \
		struct line *l = this_line(); \
		if (l)                     \
			l->member = is;    \
		return 0;                  \
	}

BESIDE(irq_handler_exit, interrupt, 0)
BESIDE(softirq_exit, softirq, 0)
BESIDE(hrtimer_expire_entry, timer, 1)
BESIDE(hrtimer_expire_exit, timer, 0)

// A thread that executes a program takes the id of its process' first, which ended.
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int before)
{
	__s32 tid = task->pid;
	if (before == tid)
		return 0;
	struct thread *was = known(before);
	if (!was)
		return 0;
	struct thread copy = *was;
	forget(before);
	if (copy.target < 0)
		return 0;
	settle(tid, task->tgid, copy.target, copy.group);
	struct thread *t = known(tid);
	if (!t)
		return 0;
	copy.tid = tid;
	*t = copy;
	return 0;
}

// Where the target's threads are when a CPU's clock, or its counter, strikes.
SEC("perf_event")
int on_sample(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	if (!began || !task->pid)
		return 0;
	struct thread *t = known(task->pid);
	if (!t || t->target < 0)
		return 0; // of a target it is seen at the next switch, at the latest
	struct found f = {.target = t->target};
	long stack = bpf_get_stackid(ctx, &stacks, 0);
	f.kernel_stack = stack < 0 ? NO_STACK : stack;
	if (stack == -17) // EEXIST: another stack has its place
		__sync_fetch_and_add(&unstacked, 1);
	__u64 *n = bpf_map_lookup_elem(&samples, &f);
	if (!n) {
		__u64 none = 0;
		bpf_map_update_elem(&samples, &f, &none, BPF_NOEXIST);
		n = bpf_map_lookup_elem(&samples, &f);
		if (!n) {
			missed();
			return 0;
		}
	}
	__sync_fetch_and_add(n, 1);
	return 0;
}

// What a followed process starts is followed too.
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	__s32 above = parent->tgid, below = child->tgid;
	if (above == below)
		return 0; // a thread
	__s32 *t = bpf_map_lookup_elem(&followed, &above);
	if (!t)
		return 0;
	__s32 target = *t;
	if (bpf_map_update_elem(&followed, &below, &target, BPF_ANY))
		missed();
	return 0;
}

// Another's process may have its id later.
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	if (by_pid && !task->signal->live.counter) {
		__s32 tgid = task->tgid;
		bpf_map_delete_elem(&followed, &tgid);
	}
	return 0;
}

// For the kernel's check of helpers alone: see kernel/bpf/kernel.h.
char licence[] SEC("license") = "Dual MIT/GPL";
