// Programs on the scheduler's tracepoints, for probe/bursts.
//
// The kernel lets a program call the helpers used here only where it declares
// a licence compatible with the GPL; the declaration at the end is that and
// nothing else. This source is tare's, under the Apache License 2.0.
//
// The structures below name only the members that are read. Where they lie is
// found when the programs are loaded, from the running kernel's BTF, so one
// object serves every kernel and every little-endian machine. All programs are
// BTF-typed raw tracepoints, which a locked-down kernel allows.
//
// Everything is added up here; nothing is handed over event by event, so that
// the weight does not grow with a reader.

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef _Bool bool;

#define true 1
#define false 0

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

// From the kernel's user interface.
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };

// PF_KTHREAD of the kernel's include/linux/sched.h.
#define KERNEL_THREAD 0x00200000
// TASK_DEAD of the same.
#define DEAD 0x80

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	__u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup_subsys_state *subsys[1];
	struct cgroup *dfl_cgrp;
};

// Since Linux 5.16 the CPU stands here.
struct thread_info {
	__u32 cpu;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	int pid;
	int tgid;
	struct css_set *cgroups;
};

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
	struct histogram burst, wait, blocked;
};

struct counts {
	__u64 cpu_time; // nanoseconds
	__u64 bursts;
	__u64 wakeups;
	__u64 voluntary, involuntary; // switches away
	__u64 migrations;
};

enum mode { RUNNING = 1, QUEUED, BLOCKED };

// What a thread of a target is doing.
struct thread {
	__u64 since; // it has been doing so
	__u64 burst; // time on a CPU since it last blocked, up to since
	__s32 target;
	__u32 mode;
	__u32 cpu; // on which it runs, ran, or is queued
	__u32 unused;
};

// Who had a CPU when. Numbers below zero are no targets.
enum { OTHERS = -1, KERNEL = -2, NOBODY = -3, UNKNOWN = -4 };

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
};

struct pair {
	__s32 waiter, holder;
};

struct behind {
	__u64 nanoseconds, waits;
};

struct directory {
	__u64 id;
	__u32 hierarchy;
	__u32 unused;
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

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 15);
	__type(key, __s32); // thread id
	__type(value, struct thread);
} threads SEC(".maps");

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
const volatile __u64 blamed_from = 0;    // shortest wait of which is told behind whom it was

// Set by the loader once all programs are attached; nothing counts before. A CPU
// whose first switch comes after that was had until then by one thread.
volatile __u64 began = 0;

// Read by the loader.
__u64 lost = 0;         // events that found no room in a table
__u64 unplaced = 0;     // groups for which there was no room
__u32 appeared_count = 0;

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
	__sync_fetch_and_add(&h->counts[at], 1);
	__sync_fetch_and_add(&h->sum, nanoseconds);
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

static __always_inline __s32 target_in(struct css_set *set, __u32 hierarchy)
{
	// Plain loads, which the kernel makes safe by itself: a helper's call for each
	// would be half of what this program weighs.
	struct cgroup *g;
	__s32 s = subsystem[hierarchy];
	if (s < 0) {
		g = set->dfl_cgrp;
	} else {
		struct cgroup_subsys_state **css = (void *)set + bpf_core_field_offset(struct css_set, subsys) + s * sizeof(void *);
		g = (*css)->cgroup;
	}
	struct directory d = {.hierarchy = hierarchy, .id = g->kn->id};
	__s32 *known = bpf_map_lookup_elem(&verdicts, &d);
	return known ? *known : judge(g, hierarchy);
}

// target_of tells whose a task is. A process id goes before a directory, and the
// first hierarchy before the others.
static __always_inline __s32 target_of(struct task_struct *task)
{
	if (!task->pid)
		return NOBODY; // the idle task
	if (by_pid) {
		__s32 tgid = task->tgid;
		__s32 *t = bpf_map_lookup_elem(&followed, &tgid);
		if (t)
			return *t;
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

static __always_inline __u64 between(__u64 from, __u64 to)
{
	return to > from ? to - from : 0;
}

static __always_inline void blame(__s32 waiter, __s32 holder, __u64 nanoseconds)
{
	if (!nanoseconds)
		return;
	struct pair key = {.waiter = waiter, .holder = holder};
	struct behind *b = bpf_map_lookup_elem(&behinds, &key);
	if (!b) {
		struct behind none = {};
		bpf_map_update_elem(&behinds, &key, &none, BPF_NOEXIST);
		b = bpf_map_lookup_elem(&behinds, &key);
		if (!b) {
			missed();
			return;
		}
	}
	__sync_fetch_and_add(&b->nanoseconds, nanoseconds);
	__sync_fetch_and_add(&b->waits, 1);
}

// explain tells behind whom a thread waited on a CPU, by who had that CPU.
// Waits longer than the ring remembers are unknown in their beginning.
static __noinline void explain(__s32 waiter, __u32 cpu, __u64 from, __u64 to)
{
	struct line *l = bpf_map_lookup_elem(&lines, &cpu);
	if (!l)
		return;
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
}

// away takes a thread of a target off its CPU.
static __always_inline void away(struct task_struct *prev, __s32 target, __u32 state, __u32 cpu, bool first, __u64 now)
{
	__s32 tid = prev->pid;
	__u32 at = target;
	struct thread *t = bpf_map_lookup_elem(&threads, &tid);
	struct counts *c = bpf_map_lookup_elem(&counts_of, &at);
	struct histograms *h = bpf_map_lookup_elem(&histogram_of, &at);
	if (!c || !h)
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
	if (state) {
		c->voluntary++;
		if (burst) {
			c->bursts++;
			count_in(&h->burst, burst);
		}
		burst = 0;
	} else {
		c->involuntary++;
	}
	if (state & DEAD) {
		bpf_map_delete_elem(&threads, &tid);
		return;
	}
	if (t) {
		t->since = now;
		t->burst = burst;
		t->target = target;
		t->mode = state ? BLOCKED : QUEUED;
		t->cpu = cpu;
		return;
	}
	struct thread fresh = {.since = now, .burst = burst, .target = target, .mode = state ? BLOCKED : QUEUED, .cpu = cpu};
	if (bpf_map_update_elem(&threads, &tid, &fresh, BPF_ANY))
		missed();
}

// arrive puts a thread of a target on a CPU.
static __always_inline void arrive(struct task_struct *next, __s32 target, __u32 cpu, __u64 now)
{
	__s32 tid = next->pid;
	__u32 at = target;
	struct thread *t = bpf_map_lookup_elem(&threads, &tid);
	if (!t) {
		struct thread fresh = {.since = now, .target = target, .mode = RUNNING, .cpu = cpu};
		if (bpf_map_update_elem(&threads, &tid, &fresh, BPF_ANY))
			missed();
		return;
	}
	if (t->mode == QUEUED) {
		__u64 waited = between(t->since, now);
		struct histograms *h = bpf_map_lookup_elem(&histogram_of, &at);
		if (h)
			count_in(&h->wait, waited);
		if (waited >= blamed_from)
			explain(target, t->cpu, t->since, now);
	}
	if (t->cpu != cpu) {
		struct counts *c = bpf_map_lookup_elem(&counts_of, &at);
		if (c)
			c->migrations++;
	}
	t->since = now;
	t->target = target;
	t->mode = RUNNING;
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
	__s32 from = target_of(prev), to = target_of(next);
	bool first = !l->began;
	// The line still shows prev as the one that has the CPU, so that whoever comes
	// next finds behind whom it waited.
	if (from >= 0)
		away(prev, from, state_of(ctx, prev), cpu, first, now);
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
	l->began = now;
	l->who = to;
	if (to >= 0)
		arrive(next, to, cpu, now);
	return 0;
}

static __always_inline int woken(struct task_struct *task)
{
	if (!began)
		return 0;
	__s32 target = target_of(task);
	if (target < 0)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	__s32 tid = task->pid;
	__u32 at = target, cpu = cpu_of(task);
	struct thread *t = bpf_map_lookup_elem(&threads, &tid);
	// One that had not yet left its CPU goes on without having waited.
	if (t && t->mode != BLOCKED)
		return 0;
	struct counts *c = bpf_map_lookup_elem(&counts_of, &at);
	struct histograms *h = bpf_map_lookup_elem(&histogram_of, &at);
	if (!c || !h)
		return 0;
	c->wakeups++;
	if (!t) {
		struct thread fresh = {.since = now, .target = target, .mode = QUEUED, .cpu = cpu};
		if (bpf_map_update_elem(&threads, &tid, &fresh, BPF_ANY))
			missed();
		return 0;
	}
	count_in(&h->blocked, between(t->since, now));
	if (t->cpu != cpu)
		c->migrations++;
	t->since = now;
	t->mode = QUEUED;
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

// For the kernel's check of helpers alone: see above.
char licence[] SEC("license") = "Dual MIT/GPL";
