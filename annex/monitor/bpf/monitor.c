// Programs that see what managed containers do, for annex/monitor: when they begin to
// run, what CPU time they take, which pages they fault on, and which processes they make.
//
// The kernel lets a program call the helpers used here only where it declares
// a licence compatible with the GPL; the declaration at the end is that and
// nothing else. This source is tare's, under the Apache License 2.0.
//
// The structures below name only the members that are read. Where they lie is
// found when the programs are loaded, from the running kernel's BTF. All
// programs are BTF-typed raw tracepoints, which a locked-down kernel allows, but for
// one that user space runs.
//
// Every switch of every task on the host comes by here. One that is of no watched
// container costs a look at its control group's id and at what is known of that id.

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
#define NULL ((void *)0)

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

// From the kernel's user interface.
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_PERCPU_ARRAY = 6, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_F_NO_PREALLOC = 1 << 0 };
enum { BPF_RB_NO_WAKEUP = 1 << 0, BPF_RB_FORCE_WAKEUP = 1 << 1 };
enum { BPF_RB_AVAIL_DATA = 0 };

// Of the kernel's include/linux/sched.h and mm.h.
#define KERNEL_THREAD 0x00200000
#define VM_SHARED 0x8ULL
#define VM_HUGETLB 0x400000ULL

// Of arch/x86/include/asm/trap_pf.h: the error code.
#define ERROR_WRITE 0x2

// Of arch/x86/include/asm/pgtable_types.h: bits of an entry.
#define ENTRY_PRESENT 0x1ULL
#define ENTRY_LEAF 0x80ULL       // of an upper level
#define ENTRY_PROTECTED 0x100ULL // where not present: access is withdrawn
#define ENTRY_ERRATUM 0x60ULL    // may stand in an entry that is none

// Of include/linux/swap.h, swapops.h and arch/x86/include/asm/pgtable_64.h: types of
// swap entry from here on are no swap area.
#define SWAP_TYPE_SHIFT 59
#define SWAP_SPECIAL 23

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

struct maple_tree {
	void *ma_root;
};

struct maple_range_64 {
	void *parent;
	unsigned long pivot[15];
	void *slot[16];
};

struct maple_arange_64 {
	void *parent;
	unsigned long pivot[9];
	void *slot[10];
};

struct mm_struct {
	struct maple_tree mm_mt;
	void *pgd;
};

struct vm_area_struct {
	unsigned long vm_start, vm_end, vm_flags;
	void *vm_ops;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
};

struct task_struct {
	int pid, tgid;
	unsigned int flags;
	int pagefault_disabled;
	__u64 start_boottime;
	struct task_struct *group_leader;
	struct mm_struct *mm;
	struct css_set *cgroups;
	struct signal_struct *signal;
};

struct pt_regs {
	unsigned long r15;
};

enum maple_type { maple_leaf_64 = 1, maple_range_64 = 2, maple_arange_64 = 3 };

#pragma clang attribute pop

// A pointer that is declared one to a type of the kernel's, as it can be since Linux 6.2, is read
// by single instructions, which give 0 where there is no memory. Before, each read is a call.
extern void *bpf_rdonly_cast(const void *address, __u32 type) __ksym __weak;
const volatile bool casts = false; // set by the loader

#define FIELD(address, type, member)                                                             \
	({                                                                                       \
		type *p_ = (void *)(address);                                                    \
		typeof(p_->member) v_ = 0;                                                       \
		if (casts) {                                                                     \
			type *cast_ = bpf_rdonly_cast(p_, bpf_core_type_id_kernel(type));        \
			v_ = cast_->member;                                                      \
		} else {                                                                         \
			bpf_core_read(&v_, sizeof(v_), &p_->member);                             \
		}                                                                                \
		v_;                                                                              \
	})

// word reads eight bytes at an address that is no member's: those of the first
// register that a pt_regs, of which the layout is fixed, holds.
static __always_inline __u64 word(__u64 address) { return FIELD(address, struct pt_regs, r15); }

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

// A directory of a hierarchy: 0 is that of version 1 with the memory controller, 1 is
// version 2.
#define HIERARCHIES 2

struct directory {
	__u64 id;
	__u32 hierarchy, unused;
};

// The directories that are containers', and the containers' numbers, from 1. No number is
// given twice.
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
	struct place places[HIERARCHIES][PLACES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

// Set by the loader.
const volatile __s32 memory_subsystem = -1; // -1 where version 1 has no memory controller
const volatile __u64 dormancy = 0;          // nanoseconds
const volatile __u64 murmur = 0;            // nanoseconds of CPU time within dormancy
const volatile bool new_pages = false;
const volatile __u64 direct_map = 0;
const volatile __u32 levels = 4; // of page tables
const volatile __u64 frame_bits = 0x000ffffffffff000ULL;
const volatile __u32 possible = 1; // CPUs
const volatile __u64 full = 1;     // bytes that wait, from which on the reader is woken

// Set while running.
volatile __u32 generation = 0; // counts changes of what is watched; 0 is nothing yet
volatile __u32 watched[HIERARCHIES] = {}; // containers of each hierarchy
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
	__u32 left = c->running, number = number_of(next, c);
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

// A page table's entry, found without a lock: tables are freed only after every CPU has
// had its interrupts on, and a fault comes with them off.

enum { LEVEL_PTE, LEVEL_PMD, LEVEL_PUD };

// descend steps down one level: whether the entry there is the last that can be reached.
static __always_inline bool descend(__u64 *table, __u64 address, int l, __u64 *entry, int *level)
{
	*level = l;
	*entry = word(*table + ((address >> (12 + 9 * l)) & 511) * 8);
	if (l == LEVEL_PTE || !(*entry & ENTRY_PRESENT) || (l <= LEVEL_PUD && (*entry & ENTRY_LEAF)))
		return true;
	*table = direct_map + (*entry & frame_bits);
	return false;
}

static __always_inline __u64 walk(__u64 table, __u64 address, int *level)
{
	__u64 entry = 0;
	if (levels == 5 && descend(&table, address, 4, &entry, level))
		return entry;
	if (descend(&table, address, 3, &entry, level) || descend(&table, address, 2, &entry, level) ||
	    descend(&table, address, 1, &entry, level))
		return entry;
	descend(&table, address, 0, &entry, level);
	return entry;
}

// The mapping at an address, by the kernel's own mtree_lookup_walk, without a lock: a
// node that was taken out of the tree meanwhile is its own parent.

#define NODE_MASK 255ULL
#define NODE_TYPE(node) (((__u64)(node) >> 3) & 15)
#define IS_NODE(root) (((root) & 3) == 2 && (root) > 4096)
#define DEPTH 8 // of the tree, at most: millions of mappings

// leaf gives the mapping, 0 where there is none, or 1 where it could not be told. A
// function of its own, so that the kernel's verifier goes through it once.
__noinline __u64 leaf(__u64 root, __u64 address)
{
	__u64 next = root;
	if (!IS_NODE(root))
		return 1;
	for (int depth = 0; depth < DEPTH; depth++) {
		__u64 node = next & ~NODE_MASK, type = NODE_TYPE(next);
		__u64 pivots = node + bpf_core_field_offset(struct maple_range_64, pivot);
		__u32 count = 15, slots_at = bpf_core_field_offset(struct maple_range_64, slot);
		if (type == bpf_core_enum_value(enum maple_type, maple_arange_64)) {
			count = 9;
			slots_at = bpf_core_field_offset(struct maple_arange_64, slot);
		}
		__u32 i = 0;
		for (; i < 15; i++) {
			__u64 pivot = i < count ? word(pivots + i * 8) : ~0ULL;
			// The last of a node need not say where it ends (Linux 6.1): where the node does.
			if (pivot >= address || (i && !pivot))
				break;
		}
		next = word(node + slots_at + i * 8);
		if ((word(node) & ~NODE_MASK) == node)
			return 1;
		if (type == bpf_core_enum_value(enum maple_type, maple_leaf_64))
			return next;
	}
	return 1;
}

// private_anonymous tells whether an address is in a mapping of private anonymous memory.
static __always_inline bool private_anonymous(struct mm_struct *mm, __u64 address)
{
	__u64 root = word((__u64)mm + bpf_core_field_offset(struct mm_struct, mm_mt.ma_root));
	__u64 vma = leaf(root, address);
	if (vma == 1)
		__sync_fetch_and_add(&unsettled, 1);
	if (vma <= 1)
		return false;
	if (address < FIELD(vma, struct vm_area_struct, vm_start) || address >= FIELD(vma, struct vm_area_struct, vm_end)) {
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
	__u32 number = number_of(task, this_cpu());
	if (!number)
		return 0;
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
	if (number)
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

// For the kernel's check of helpers alone: see above.
char licence[] SEC("license") = "Dual MIT/GPL";
