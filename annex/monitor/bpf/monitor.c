// Programs that see what managed containers do, for annex/monitor: when they begin to
// run, what CPU time they take, which pages they fault on, and which processes they make.
// Of containers that come first they see one thing only: where a task of theirs waits for a
// CPU.
//
// Every switch of every task on the host comes by here, and that it is made ready to run. One that is of no watched
// container costs a look at its control group's id and at what is known of that id.

#include "../../../kernel/bpf/kernel.h"
#include "../../../kernel/bpf/group.h"
#include "../../../kernel/bpf/memory.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
};

struct sched_entity {
	__u64 sum_exec_runtime;
	__u64 prev_sum_exec_runtime; // when it was last given a CPU
};

struct thread_info {
	__u32 cpu;
};

struct task_struct {
	struct thread_info thread_info;
	struct sched_entity se;
	int on_cpu, on_rq;
	unsigned int __state;
	int pid, tgid;
	unsigned int flags;
	int pagefault_disabled;
	__u64 start_boottime;
	struct task_struct *group_leader;
	struct mm_struct *mm;
	struct css_set *cgroups;
	struct signal_struct *signal;
};

#pragma clang attribute pop

// What is told. record.go reads it.
enum {
	FAULT = 1, // value: the page; flags: WRITTEN, NEW
	WOKE,      // value: the CPU time that the container had taken before
	FORKED,    // of a process that is new
	EXECUTED,
	ENDED,
	JOINED, // a process that was moved in from elsewhere
};

enum { WRITTEN = 1, NEW = 2 };

struct record {
	__u64 time;
	__u64 value;
	__u64 started; // of the process, nanoseconds since boot
	__u32 pid;     // of the process
	__u32 number;  // of the container
	__u32 kind;
	__u32 flags;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22); // set by the loader
} events SEC(".maps");

// Of the hierarchies 0 is that of version 1 with the memory controller, 1 is version 2.
#define HIERARCHIES 2

// The directories that are containers', and the containers' numbers, from 1. No number is
// given twice. Those of containers that come first have FIRST besides.
#define FIRST 0x80000000

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096); // set by the loader
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct directory);
	__type(value, __u32);
} roots SEC(".maps");

// What a container does.
struct context {
	__u64 last; // left a CPU
	__u64 cpu;  // nanoseconds, in all
	__u64 from; // since when, while it is dormant, used is counted
	__u64 used;
	__u32 awake, unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096); // set by the loader
	__uint(map_flags, BPF_F_NO_PREALLOC); // one that goes stays readable until nobody reads it
	__type(key, __u32);
	__type(value, struct context);
} contexts SEC(".maps");

// What is known of a directory: whose it is, by the watch of a generation. Never of
// another CPU's making, so that none is read half written: switches and faults have
// interrupts off.
struct place {
	__u64 id;
	__u32 generation, number;
};

#define PLACES 256

struct cpu {
	__u64 since;   // it has been running
	__u32 running; // container
	__u32 drowsy;  // which was dormant still when it began to
	int task;      // that was last seen to be given it
	struct place places[HIERARCHIES][PLACES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

// By CPU, since when a task of a container that comes first waits for it; 0 is none. User space
// reads it. Of several that wait for the same CPU the last that came is known of, until one
// of them has it.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // set by the loader
	__type(key, __u32);
	__type(value, __u64);
} waits SEC(".maps");

// Set by the loader.
const volatile __s32 memory_subsystem = -1; // -1 where version 1 has no memory controller
const volatile __u64 dormancy = 0;          // nanoseconds
const volatile __u64 murmur = 0;            // nanoseconds of CPU time within dormancy
const volatile bool new_pages = false;
const volatile __u32 possible = 1; // CPUs
const volatile __u64 full = 1;     // bytes that wait, from which on the reader is woken

// Set while running.
volatile __u32 generation = 0; // counts changes of what is watched; 0 is nothing yet
volatile __u32 watched[HIERARCHIES] = {}; // containers of each hierarchy
volatile __u32 firsts = 0; // containers that come first
__u32 armed = 0;               // the reader blocks, and is to be woken

// Read while running.
__u64 lost = 0;
__u64 others = 0;    // faults of containers on what had not left
__u64 unsettled = 0; // of them on mappings that were being changed

static __noinline __u32 judge(struct cgroup *group, __u32 hierarchy)
{
	struct cgroup *g = group;
	for (int depth = 0; depth < 32; depth++) {
		struct directory d = {.hierarchy = hierarchy, .id = BPF_CORE_READ(g, kn, id)};
		__u32 *number = bpf_map_lookup_elem(&roots, &d);
		if (number)
			return *number;
		struct cgroup_subsys_state *up = BPF_CORE_READ(g, self.parent);
		if (!up)
			break;
		g = BPF_CORE_READ(up, cgroup);
	}
	return 0;
}

static __always_inline __u32 number_in(struct cgroup *g, __u32 hierarchy, __u32 now, struct cpu *c)
{
	__u64 id = g->kn->id;
	if (!c)
		return judge(g, hierarchy);
	struct place *p = &c->places[hierarchy][id & (PLACES - 1)];
	if (p->id == id && p->generation == now)
		return p->number;
	__u32 number = judge(g, hierarchy);
	p->id = id;
	p->generation = now;
	p->number = number;
	return number;
}

// number_of tells which container a task is of; 0 is none. c is this CPU's, where
// interrupts are off.
static __always_inline __u32 number_of(struct task_struct *task, struct cpu *c)
{
	__u32 now = generation, number = 0;
	if (!now || !task->pid || (task->flags & KERNEL_THREAD))
		return 0;
	struct css_set *set = task->cgroups;
	if (memory_subsystem >= 0 && watched[0]) {
		struct cgroup_subsys_state **css = (void *)set + bpf_core_field_offset(struct css_set, subsys) + memory_subsystem * sizeof(void *);
		number = number_in((*css)->cgroup, 0, now, c);
	}
	if (!number && watched[1])
		number = number_in(set->dfl_cgrp, 1, now, c);
	return number;
}

static __always_inline struct cpu *this_cpu(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&cpus, &zero);
}

// wait notes since when a task of a container that comes first waits for a CPU, or, with 0,
// that none does.
static __always_inline void wait(__u32 cpu, __u64 since)
{
	__u64 *w = bpf_map_lookup_elem(&waits, &cpu);
	if (w)
		*w = since;
}

// catch_up makes up for a switch that was not told, by which a task got its CPU: there are
// hosts whose kernel tells none that is away from certain tasks of their agent. What ran
// before it, and when that left, is lost.
static __always_inline void catch_up(struct cpu *c, struct task_struct *task, __u64 now)
{
	__u32 number = number_of(task, c);
	struct context *x = number ? bpf_map_lookup_elem(&contexts, &number) : NULL;
	c->task = task->pid;
	c->since = now - (task->se.sum_exec_runtime - task->se.prev_sum_exec_runtime);
	c->drowsy = x && !x->awake;
	if (number & FIRST)
		wait(bpf_get_smp_processor_id(), 0);
	__sync_lock_test_and_set(&c->running, number);
}

static __always_inline bool tell(struct task_struct *task, __u32 kind, __u32 number, __u64 time, __u64 value, __u32 flags)
{
	struct record *r = bpf_ringbuf_reserve(&events, sizeof(*r), 0);
	if (!r) {
		__sync_fetch_and_add(&lost, 1);
		return false;
	}
	struct task_struct *leader = task->group_leader;
	r->time = time;
	r->value = value;
	r->started = leader->start_boottime;
	r->pid = task->tgid;
	r->number = number;
	r->kind = kind;
	r->flags = flags;
	// A reader that does not block looks again by itself, soon; that a container woke it is
	// told at once. The exchange comes even where armed is clear: else it could be read before
	// others see that there is a record, and a reader that arms just then would block.
	__u64 how = BPF_RB_NO_WAKEUP;
	if (__sync_lock_test_and_set(&armed, 0) || kind == WOKE ||
	    bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) >= full)
		how = BPF_RB_FORCE_WAKEUP;
	bpf_ringbuf_submit(r, how);
	return true;
}

static __always_inline __u64 between(__u64 from, __u64 to) { return to > from ? to - from : 0; }

// wake tells that a container woke, and how much CPU time it had taken before: what it
// murmured as it woke counts to what it does now.
static __always_inline void wake(struct task_struct *task, struct context *x, __u32 number, __u64 now)
{
	__u64 used = between(x->from, now) > dormancy ? 0 : x->used;
	if (__sync_val_compare_and_swap(&x->awake, 0, 1))
		return;
	if (!tell(task, WOKE, number, now, x->cpu - used, 0))
		x->awake = 0; // it is told when it next would be
}

SEC("tp_btf/sched_switch")
int on_switch(__u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	struct cpu *c = this_cpu();
	if (!c)
		return 0;
	if (c->task != prev->pid)
		catch_up(c, prev, bpf_ktime_get_ns());
	c->task = next->pid;
	__u32 left = c->running, number = number_of(next, c);
	// One that had to leave would go on; a task that sleeps has a state (ctx[3]), but for one whose
	// CPU was taken on the way there (ctx[0]).
	if ((left & FIRST) && (!ctx[3] || ctx[0]))
		wait(bpf_get_smp_processor_id(), bpf_ktime_get_ns());
	else if (number & FIRST)
		wait(bpf_get_smp_processor_id(), 0);
	// Nobody's, or it goes on by another of its threads.
	if (left == number && !(left && c->drowsy))
		return 0;
	__u64 now = bpf_ktime_get_ns();
	struct context *x;
	if (left && (x = bpf_map_lookup_elem(&contexts, &left))) {
		__u64 ran = between(c->since, now);
		__sync_fetch_and_add(&x->cpu, ran);
		x->last = now;
		if (!x->awake) {
			if (between(x->from, now) > dormancy) {
				x->from = now;
				x->used = ran;
			} else {
				__sync_fetch_and_add(&x->used, ran);
			}
			if (x->used > murmur)
				wake(prev, x, left, now);
		}
	}
	c->since = now;
	// All of it: what follows is read after others can see this, as rest relies on.
	__sync_lock_test_and_set(&c->running, number);
	if (!number || !(x = bpf_map_lookup_elem(&contexts, &number)))
		return 0;
	if (!x->awake && between(x->last, now) >= dormancy)
		wake(next, x, number, now);
	c->drowsy = !x->awake;
	return 0;
}

// waits_first tells whether a task that is ready to run, and does not yet, is of a container
// that comes first. Who makes one ready, or gives it another CPU, has interrupts off, but for a
// task that does so to itself; on a kernel for one CPU alone nobody is seen to wait.
static __always_inline bool waits_first(struct task_struct *task)
{
	if (!firsts || !bpf_core_field_exists(task->on_cpu) || !bpf_core_field_exists(task->thread_info.cpu))
		return false;
	// One that sleeps may still be on its CPU's queue for a while, and be moved with it.
	return !task->on_cpu && !task->__state && (number_of(task, this_cpu()) & FIRST);
}

static __always_inline int on_ready(struct task_struct *task)
{
	// One that is on its CPU has not left it yet, and goes on.
	if (waits_first(task))
		wait(task->thread_info.cpu, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *task) { return on_ready(task); }

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_new, struct task_struct *task) { return on_ready(task); }

// One that waits may be given another CPU.
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *task, int to)
{
	if (!task->on_rq || !waits_first(task))
		return 0;
	wait(task->thread_info.cpu, 0);
	wait(to, bpf_ktime_get_ns());
	return 0;
}

// rest is what user space asks of a container that was awake.
struct rest {
	__u32 number;
	__u32 slept;   // it is dormant from now on
	__u64 before;  // CPU time that it had taken when it was last asked for
	__u64 last;    // it ran
	__u64 cpu;
	__u32 running; // on a CPU now
	__u32 gone;
};

struct look {
	__u64 now, running;
	__u32 number, found;
};

static long look_at(__u32 cpu, struct look *l)
{
	__u32 zero = 0;
	struct cpu *c = bpf_map_lookup_percpu_elem(&cpus, &zero, cpu);
	if (c && c->running == l->number) {
		l->found++;
		l->running += between(c->since, l->now);
	}
	return 0;
}

// rest lets a container sleep that has run no more than a murmur since it was last
// asked for, and does not run now. One that begins to run meanwhile either finds it
// awake still, and is seen here; or finds that it sleeps, and tells that it woke.
SEC("syscall")
int rest(struct rest *r)
{
	__u32 number = r->number;
	r->slept = r->running = r->gone = 0;
	struct context *x = bpf_map_lookup_elem(&contexts, &number);
	if (!x) {
		r->gone = 1;
		return 0;
	}
	struct look first = {.now = bpf_ktime_get_ns(), .number = number};
	bpf_loop(possible, look_at, &first, 0);
	r->last = x->last;
	r->cpu = x->cpu + first.running;
	r->running = first.found;
	if (first.found || r->cpu - r->before > murmur)
		return 0;
	x->from = first.now;
	x->used = 0;
	if (__sync_val_compare_and_swap(&x->awake, 1, 0) != 1)
		return 0;
	struct look second = {.now = first.now, .number = number};
	bpf_loop(possible, look_at, &second, 0);
	if (second.found && !__sync_val_compare_and_swap(&x->awake, 0, 1)) {
		r->running = second.found;
		return 0;
	}
	r->slept = 1;
	return 0;
}

// private_anonymous tells whether an address is in a mapping of private anonymous memory.
static __always_inline bool private_anonymous(struct mm_struct *mm, __u64 address)
{
	struct stretch s = {};
	bool told = !leaf(mappings(mm), address, &s);
	__u64 vma = s.mapping;
	if (told && !vma)
		return false;
	if (!told || address < FIELD(vma, struct vm_area_struct, vm_start) || address >= FIELD(vma, struct vm_area_struct, vm_end)) {
		__sync_fetch_and_add(&unsettled, 1);
		return false;
	}
	return !(FIELD(vma, struct vm_area_struct, vm_flags) & (VM_SHARED | VM_HUGETLB)) &&
	       !FIELD(vma, struct vm_area_struct, vm_ops);
}

static __always_inline int on_fault(__u64 address, __u64 error, bool kernel)
{
	struct task_struct *task = bpf_get_current_task_btf();
	// The kernel's own memory; and attempts of the kernel's that bring in nothing, but fail
	// where the page is absent.
	if ((__s64)address < 0 || (kernel && task->pagefault_disabled))
		return 0;
	struct cpu *c = this_cpu();
	__u32 number = number_of(task, c);
	if (!number || (number & FIRST))
		return 0;
	if (c && c->task != task->pid)
		catch_up(c, task, bpf_ktime_get_ns());
	struct mm_struct *mm = task->mm;
	if (!mm)
		return 0;
	int level = LEVEL_PTE;
	__u64 entry = walk((__u64)mm->pgd, address, &level);
	__u32 flags = error & ERROR_WRITE ? WRITTEN : 0;
	// An entry that names a place in swap is of private memory: shared memory has none.
	bool away = level == LEVEL_PTE && (entry & ~ENTRY_ERRATUM) && !(entry & (ENTRY_PRESENT | ENTRY_PROTECTED)) &&
		    entry >> SWAP_TYPE_SHIFT < SWAP_SPECIAL;
	if (!away) {
		__sync_fetch_and_add(&others, 1);
		if (!new_pages || (entry & ~ENTRY_ERRATUM) || !private_anonymous(mm, address))
			return 0;
		flags |= NEW;
	}
	__u64 now = bpf_ktime_get_ns();
	struct context *x;
	// One that only murmured wakes where it needs what had left.
	if (away && (x = bpf_map_lookup_elem(&contexts, &number)) && !x->awake)
		wake(task, x, number, now);
	tell(task, FAULT, number, now, address >> 12, flags);
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(fault_user, unsigned long address, struct pt_regs *regs, unsigned long error)
{
	return on_fault(address, error, false);
}

// Such as a read() into memory that has left.
SEC("tp_btf/page_fault_kernel")
int BPF_PROG(fault_kernel, unsigned long address, struct pt_regs *regs, unsigned long error)
{
	return on_fault(address, error, true);
}

static __always_inline void tell_process(struct task_struct *task, __u32 kind)
{
	__u32 number = number_of(task, NULL);
	if (number && !(number & FIRST))
		tell(task, kind, number, bpf_ktime_get_ns(), 0, 0);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	if (child->pid == child->tgid)
		tell_process(child, FORKED);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task)
{
	tell_process(task, EXECUTED);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	if (!task->signal->live.counter)
		tell_process(task, ENDED);
	return 0;
}

SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(process_join, struct cgroup *to, const char *path, struct task_struct *task)
{
	if (task->pid == task->tgid)
		tell_process(task, JOINED);
	return 0;
}

// For the kernel's check of helpers alone: see kernel/bpf/kernel.h.
char licence[] SEC("license") = "Dual MIT/GPL";
