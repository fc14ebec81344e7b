// Programs on the page-fault tracepoints, for probe/faults.
//
// The page-fault tracepoints fire with interrupts off, at the very start of the
// exception: nothing else writes this CPU's ring meanwhile, and no lock of the
// address space is held. Taking one there would cost an interrupt of its own
// (bpf_find_vma does), so the tree of mappings is read without.

#include "../../../kernel/bpf/kernel.h"
#include "../../../kernel/bpf/group.h"
#include "../../../kernel/bpf/memory.h"

#define RLIMIT_STACK 3 // of the kernel's include/uapi/asm-generic/resource.h

// Of a swap entry that is a marker: include/linux/swapops.h.
#define MARKER_POISON_OR_GUARD 0x6ULL

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct seqcount {
	unsigned int sequence;
};

// Since Linux 6.14 this counts up when a thread begins to change mappings, and again
// when it has. Before, one that changes at the moment of a fault may be read half changed.
typedef struct seqcount seqcount_t;
struct mm_struct___since_6_14 {
	seqcount_t mm_lock_seq;
};

// The mapping itself tells the count at which it was last locked to be changed.
struct vm_area_struct___since_6_14 {
	unsigned int vm_lock_seq;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct super_block {
	__u32 s_dev;
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
};

struct file {
	struct inode *f_inode;
	struct path f_path;
};

typedef struct {
	int counter;
} atomic_t;

struct rlimit {
	unsigned long rlim_cur, rlim_max;
};

struct signal_struct {
	atomic_t live;
	struct rlimit rlim[16];
};

struct task_struct {
	int pid, tgid;
	int pagefault_disabled;
	unsigned long min_flt, maj_flt;
	struct mm_struct *mm;
	struct css_set *cgroups;
	struct signal_struct *signal;
	char comm[16];
};

#pragma clang attribute pop

// What a fault is typed by, together the index of its count. facts.go reads them.
enum {
	// Bits 0 to 2: the entry.
	OF_NONE = 0,
	OF_WRITABLE,
	OF_READ_ONLY,
	OF_SWAPPED,
	OF_MOVING,
	OF_GUARDED,
	OF_WITHDRAWN,
	// The access.
	BY_WRITE = 1 << 3,
	BY_FETCH = 1 << 4,
	BY_KERNEL = 1 << 5,
	// Bits 6 to 8: the mapping.
	IN_NONE = 0 << 6,
	IN_ANONYMOUS = 1 << 6,
	IN_PRIVATE_FILE = 2 << 6,
	IN_SHARED = 3 << 6,
	IN_GROWING_STACK = 4 << 6,
	IN_UNKNOWN = 5 << 6,
	ALLOWED = 1 << 9,
	FACTS = 1 << 10,
	// Above the index: the level of the table that the entry is in.
	LEVEL_SHIFT = 10,
};

#define IS_MAPPING 0xffff // in place of facts

// The records of a ring, of one size; decode.go reads them.
struct fault {
	__u64 time, address, ip, entry;
	__u32 pid, tid;
	__u32 mapping; // so many records before this one; 0 is none
	__u16 facts, target;
	__u32 majors, minors; // the thread's, before this fault
	__u32 code;           // so many records before this one: the mapping of ip
	__u32 unused;
};

struct mapping {
	__u64 start, end, flags, offset, inode;
	__u32 device;
	__u16 facts, anonymous;
	__u64 unused[2];
};

struct head {
	__u64 written; // by the program
	__u64 read;    // by the reader
	__u64 lost;
	__u64 unused[5]; // a line of the cache each
};

enum { EVENT_EXEC = 1, EVENT_EXIT };

struct event {
	__u64 time, majors, minors;
	__u32 pid, tid;
	__u32 kind, target;
	__u32 last, unused;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // CPUs times slots, set by the loader
	__type(key, __u32);
	__type(value, struct fault);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // CPUs, set by the loader
	__type(key, __u32);
	__type(value, struct head);
} heads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // CPUs times targets times facts, set by the loader
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

// The directories that are targets.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024); // set by the loader
	__type(key, struct directory);
	__type(value, __s32);
} roots SEC(".maps");

// The target of every directory that was met, or -1. A directory never moves to
// another parent, nor is an id used again.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct directory);
	__type(value, __s32);
} verdicts SEC(".maps");

// Thread groups that are watched by their ids.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __s32);
} followed SEC(".maps");

#define NAME 128

struct found {
	char name[NAME];
};

// Names of the targets that appeared.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // set by the loader
	__type(key, __u32);
	__type(value, struct found);
} appeared SEC(".maps");

#define PARTS 16
#define PART 128 // an engine's directories have names of 64 and more

struct file_key {
	__u64 inode;
	__u32 device, unused;
};

// The path of a file, the last part first; an empty part ends it.
struct file_name {
	char part[PARTS][PART];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 14);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct file_key);
	__type(value, struct file_name);
} files SEC(".maps");

#define CACHED 64

struct cached {
	__u64 start, end, flags, offset, inode, super, ops;
	__u64 at; // in the ring; 0 is empty, as no mapping is before the first
};

// What was found at an address, and when: as long as the address space has not
// changed since, it is still there.
struct near {
	__u64 mm, start, end, flags, ops, at;
	__u32 sequence, tgid, generation, unused;
};

#define NEAR 64

struct cpu {
	__u64 last_id;
	__s32 last_target;
	__u32 unused;
	struct cached mappings[CACHED];
	struct near near[NEAR];
	struct file_name name;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

// Set by the loader.
#define HIERARCHIES 4
const volatile __u32 hierarchies = 0;
const volatile __s32 subsystem[HIERARCHIES] = {}; // -1 is version 2
const volatile __u32 below_hierarchy = HIERARCHIES; // whose directory's children are targets
const volatile __u64 below_id = 0;
const volatile bool by_pid = false;
const volatile __u32 slots = 1; // of a CPU's ring, a power of two
const volatile __u32 targets = 1;
const volatile __u32 given = 0; // targets that do not appear

// Read by the loader.
__u32 appeared_count = 0;
__u64 unplaced = 0;      // containers for which there was no room
__u64 lost_events = 0;

// Counts programs executed: the kernel may use the memory of an address space's
// own description for the next.
__u32 generation = 0;
__u64 unsettled = 0;     // mappings that changed while they were read

static __always_inline __s32 new_target(struct directory *d, struct cgroup *g)
{
	__u32 at = __sync_fetch_and_add(&appeared_count, 1);
	if (at >= targets - given) {
		__sync_fetch_and_add(&unplaced, 1);
		return -1;
	}
	__s32 target = given + at;
	if (bpf_map_update_elem(&roots, d, &target, BPF_NOEXIST)) {
		// Another CPU met it at the same time: this number names none.
		__s32 *other = bpf_map_lookup_elem(&roots, d);
		return other ? *other : -1;
	}
	struct found *f = bpf_map_lookup_elem(&appeared, &at);
	if (f)
		bpf_probe_read_kernel_str(f->name, NAME, BPF_CORE_READ(g, kn, name));
	return target;
}

// judge finds the target of a directory that was not met before: that of the
// nearest above it.
static __noinline __s32 judge(struct cgroup *group, __u32 hierarchy)
{
	struct cgroup *g = group;
	struct directory own = {.hierarchy = hierarchy, .id = BPF_CORE_READ(g, kn, id)};
	__s32 target = -1;
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
		struct cgroup *parent = BPF_CORE_READ(up, cgroup);
		if (hierarchy == below_hierarchy && BPF_CORE_READ(parent, kn, id) == below_id) {
			target = new_target(&d, g);
			break;
		}
		g = parent;
	}
	bpf_map_update_elem(&verdicts, &own, &target, BPF_ANY);
	return target;
}

static __always_inline __s32 target_in(struct css_set *set, __u32 hierarchy, struct cpu *c)
{
	struct cgroup *g;
	__s32 s = subsystem[hierarchy];
	if (s < 0) {
		g = set->dfl_cgrp;
	} else {
		__u64 css = word((__u64)set + bpf_core_field_offset(struct css_set, subsys) + s * sizeof(void *));
		g = FIELD(css, struct cgroup_subsys_state, cgroup);
	}
	struct kernfs_node *node = FIELD(g, struct cgroup, kn);
	struct directory d = {.hierarchy = hierarchy, .id = FIELD(node, struct kernfs_node, id)};
	// Faults come in bursts of one process.
	if (hierarchies == 1 && c && c->last_id == d.id)
		return c->last_target;
	__s32 *known = bpf_map_lookup_elem(&verdicts, &d);
	__s32 target = known ? *known : judge(g, hierarchy);
	if (hierarchies == 1 && c) {
		c->last_target = target;
		c->last_id = d.id;
	}
	return target;
}

// target_of gives the target that a task belongs to, or -1. A process id goes
// before a directory, and the first hierarchy before the others.
static __always_inline __s32 target_of(struct task_struct *task, struct cpu *c)
{
	if (by_pid) {
		__u32 tgid = task->tgid;
		__s32 *t = bpf_map_lookup_elem(&followed, &tgid);
		if (t)
			return *t;
	}
	struct css_set *set = task->cgroups;
#pragma unroll
	for (__u32 h = 0; h < HIERARCHIES; h++) {
		if (h >= hierarchies)
			break;
		__s32 t = target_in(set, h, c);
		if (t >= 0)
			return t;
	}
	return -1;
}

static __always_inline __u32 entry_fact(__u64 entry, int level)
{
	if (!(entry & ~ENTRY_ERRATUM))
		return OF_NONE;
	if (entry & ENTRY_PRESENT)
		return entry & ENTRY_WRITABLE ? OF_WRITABLE : OF_READ_ONLY;
	if (entry & ENTRY_PROTECTED)
		return OF_WITHDRAWN;
	// A huge page's entry loses its present bit alone while it is split.
	if (level != LEVEL_PTE && (entry & ENTRY_LEAF))
		return OF_MOVING;
	__u64 type = entry >> SWAP_TYPE_SHIFT;
	if (type == SWAP_MARKER) {
		__u64 marker = (~entry << (64 - SWAP_TYPE_SHIFT)) >> SWAP_OFFSET_SHIFT;
		return marker & MARKER_POISON_OR_GUARD ? OF_GUARDED : OF_NONE;
	}
	return type >= SWAP_SPECIAL ? OF_MOVING : OF_SWAPPED;
}

struct area {
	__u64 start, end, flags, offset, ops, file;
};

static __always_inline void read_area(__u64 vma, struct area *a)
{
	a->start = FIELD(vma, struct vm_area_struct, vm_start);
	a->end = FIELD(vma, struct vm_area_struct, vm_end);
	a->flags = FIELD(vma, struct vm_area_struct, vm_flags);
	a->offset = FIELD(vma, struct vm_area_struct, vm_pgoff);
	a->ops = (__u64)FIELD(vma, struct vm_area_struct, vm_ops);
	a->file = (__u64)FIELD(vma, struct vm_area_struct, vm_file);
}

static __always_inline __u32 sequence(struct mm_struct *mm)
{
	struct mm_struct___since_6_14 *m = (void *)mm;
	if (bpf_core_field_exists(m->mm_lock_seq.sequence))
		return word((__u64)mm + bpf_core_field_offset(m->mm_lock_seq.sequence));
	return 0;
}

static __always_inline __u32 locked_at(__u64 vma)
{
	struct vm_area_struct___since_6_14 *v = (void *)vma;
	if (bpf_core_field_exists(v->vm_lock_seq))
		return word(vma + bpf_core_field_offset(v->vm_lock_seq));
	return 0;
}

enum { FOUND, FOUND_NONE, FOUND_STACK };

// find_area finds the mapping at an address, without a lock: FOUND_STACK is one
// above that would have to grow; -1 is one that changed meanwhile.
static __noinline int find_area(struct mm_struct *mm, __u64 address, struct area *a)
{
	__u32 before = sequence(mm);
	barrier();
	struct stretch s = {};
	int found = FOUND;
	__u64 root = mappings(mm);
	if (leaf(root, address, &s))
		return -1;
	if (!s.mapping) {
		// A gap: what lies above it may be a stack.
		found = FOUND_NONE;
		if (s.last != ~0ULL && leaf(root, s.last + 1, &s))
			return -1;
	}
	if (s.mapping) {
		read_area(s.mapping, a);
		if (found == FOUND_NONE && (a->flags & VM_GROWSDOWN))
			found = FOUND_STACK;
		if (found == FOUND && (address < a->start || address >= a->end))
			return -1;
	}
	barrier();
	if (sequence(mm) != before)
		return -1;
	// Another thread is changing the mappings now: this one, perhaps.
	if ((before & 1) && (found != FOUND || locked_at(s.mapping) == before))
		return -1;
	return found;
}

static __always_inline __u32 mapping_fact(int found, struct area *a, __u64 error)
{
	if (found < 0)
		return IN_UNKNOWN;
	if (found == FOUND_NONE)
		return IN_NONE;
	__u64 needs = VM_READ | VM_WRITE | VM_EXEC;
	if (error & ERROR_WRITE)
		needs = VM_WRITE;
	else if (error & ERROR_FETCH)
		needs = VM_EXEC;
	__u32 allowed = a->flags & needs ? ALLOWED : 0;
	if (found == FOUND_STACK)
		return allowed | IN_GROWING_STACK;
	if (a->flags & VM_SHARED)
		return allowed | IN_SHARED;
	// A private huge page of hugetlbfs has a file only for the kernel's book-keeping.
	if (!a->ops || (a->flags & VM_HUGETLB))
		return allowed | IN_ANONYMOUS;
	return allowed | IN_PRIVATE_FILE;
}

static __always_inline void name_file(struct cpu *c, struct file_key *key, struct file *file)
{
	if (bpf_map_lookup_elem(&files, key))
		return;
	struct dentry *d = BPF_CORE_READ(file, f_path.dentry);
	for (int i = 0; i < PARTS; i++) {
		struct dentry *up = BPF_CORE_READ(d, d_parent);
		c->name.part[i][0] = 0;
		if (!d || (up == d && i > 0))
			break;
		bpf_probe_read_kernel_str(c->name.part[i], PART, BPF_CORE_READ(d, d_name.name));
		if (up == d)
			up = NULL;
		d = up;
	}
	bpf_map_update_elem(&files, key, &c->name, BPF_NOEXIST);
}

static __always_inline struct fault *slot(__u32 cpu, __u64 at)
{
	__u32 i = cpu * slots + (at & (slots - 1));
	return bpf_map_lookup_elem(&ring, &i);
}

// refer gives how a record finds its mapping: an earlier record of this ring,
// or one that is written now.
static __always_inline __u64 refer(struct cpu *c, __u32 cpu, __u64 *at, struct area *a)
{
	__u64 inode = 0, super = 0;
	if (a->file) {
		struct inode *i = FIELD(a->file, struct file, f_inode);
		super = (__u64)FIELD(i, struct inode, i_sb);
		inode = FIELD(i, struct inode, i_ino);
	}
	struct cached *m = &c->mappings[((a->start >> 12) * 0x9E3779B97F4A7C15ULL >> 58) & (CACHED - 1)];
	// What is farther back than a reference reaches is written again.
	if (m->at && m->start == a->start && m->end == a->end && m->flags == a->flags && m->offset == a->offset &&
	    m->inode == inode && m->super == super && m->ops == a->ops && *at - m->at < (1U << 31))
		return m->at;
	struct mapping *r = (void *)slot(cpu, *at);
	if (!r)
		return 0;
	__u32 device = super ? FIELD(super, struct super_block, s_dev) : 0;
	r->start = a->start;
	r->end = a->end;
	r->flags = a->flags;
	r->offset = a->offset;
	r->inode = inode;
	r->device = device;
	r->facts = IS_MAPPING;
	r->anonymous = !a->ops;
	r->unused[0] = r->unused[1] = 0;
	// Positions are counted from one here.
	*at += 1;
	m->start = a->start;
	m->end = a->end;
	m->flags = a->flags;
	m->offset = a->offset;
	m->inode = inode;
	m->super = super;
	m->ops = a->ops;
	m->at = *at;
	if (a->file) {
		struct file_key key = {.inode = inode, .device = device};
		name_file(c, &key, (struct file *)a->file);
	}
	return *at;
}

static __always_inline bool counts_changes(void)
{
	struct mm_struct___since_6_14 *m = NULL;
	return bpf_core_field_exists(m->mm_lock_seq.sequence);
}

static __always_inline struct near *near_of(struct cpu *c, __u64 address)
{
	return &c->near[((address >> 16) * 0x9E3779B97F4A7C15ULL >> 58) & (NEAR - 1)];
}

// still tells whether what was found near an address is still there, and within
// reach of a reference from a position.
static __always_inline bool still(struct near *n, struct mm_struct *mm, __u32 tgid, __u64 address, __u64 at)
{
	return counts_changes() && n->mm == (__u64)mm && n->tgid == tgid && n->generation == generation &&
	       address >= n->start && address < n->end && n->sequence == sequence(mm) && at - n->at < (1U << 31);
}

static __always_inline void keep(struct near *n, struct mm_struct *mm, __u32 tgid, __u32 seen, struct area *a, __u64 at)
{
	n->mm = seen & 1 ? 0 : (__u64)mm; // nothing holds while another thread changes mappings
	n->tgid = tgid;
	n->generation = generation;
	n->sequence = seen;
	n->start = a->start;
	n->end = a->end;
	n->flags = a->flags;
	n->ops = a->ops;
	n->at = at;
}

static __always_inline int on_fault(__u64 address, struct pt_regs *regs, __u64 error, bool kernel)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 zero = 0;
	struct cpu *c = bpf_map_lookup_elem(&cpus, &zero);
	if (!c)
		return 0;
	bool user_half = (__s64)address >= 0;
	// The kernel's own memory; and attempts that bring in nothing, but fail where
	// the page is absent.
	if (kernel && (!user_half || task->pagefault_disabled))
		return 0;
	struct mm_struct *mm = task->mm;
	if (!mm)
		return 0;
	__s32 target = target_of(task, c);
	if (target < 0)
		return 0;
	__u32 cpu = bpf_get_smp_processor_id(), tgid = task->tgid;
	struct head *head = bpf_map_lookup_elem(&heads, &cpu);
	if (!head)
		return 0;
	__u64 at = head->written;

	int level = LEVEL_PTE;
	__u64 entry = 0;
	__u32 facts = OF_NONE;
	int found = FOUND_NONE;
	bool known = false;
	struct area a = {};
	struct near *n = near_of(c, address);
	__u32 seen = sequence(mm);
	if (user_half) {
		entry = walk((__u64)mm->pgd, address, &level);
		facts = entry_fact(entry, level);
		known = still(n, mm, tgid, address, at);
		if (known) {
			found = FOUND;
			a.flags = n->flags;
			a.ops = n->ops;
		} else {
			found = find_area(mm, address, &a);
			if (found < 0) {
				seen = sequence(mm);
				found = find_area(mm, address, &a);
			}
			if (found < 0)
				__sync_fetch_and_add(&unsettled, 1);
			// Beyond its limit a stack does not grow.
			if (found == FOUND_STACK && a.end - address > BPF_CORE_READ(task, signal, rlim[RLIMIT_STACK].rlim_cur))
				found = FOUND_NONE;
		}
	}
	facts |= mapping_fact(found, &a, error);
	if (error & ERROR_WRITE)
		facts |= BY_WRITE;
	if (error & ERROR_FETCH)
		facts |= BY_FETCH;
	if (kernel)
		facts |= BY_KERNEL;

	__u32 i = (cpu * targets + target) * FACTS + (facts & (FACTS - 1));
	__u64 *count = bpf_map_lookup_elem(&counts, &i);
	if (count)
		*count += 1;

	// Room for two mappings and the fault.
	if (at + 3 > head->read + slots) {
		head->lost++;
		return 0;
	}
	__u64 mapping = 0, code = 0;
	if (known) {
		mapping = n->at;
	} else if (found == FOUND || found == FOUND_STACK) {
		mapping = refer(c, cpu, &at, &a);
		if (found == FOUND)
			keep(n, mm, tgid, seen, &a, mapping);
	}
	__u64 ip = regs->ip;
	if (!kernel && (__s64)ip >= 0) {
		n = near_of(c, ip);
		if (still(n, mm, tgid, ip, at)) {
			code = n->at;
		} else {
			seen = sequence(mm);
			if (find_area(mm, ip, &a) == FOUND) {
				code = refer(c, cpu, &at, &a);
				keep(n, mm, tgid, seen, &a, code);
			}
		}
	}
	struct fault *r = slot(cpu, at);
	if (!r)
		return 0;
	r->time = bpf_ktime_get_ns();
	r->address = address;
	r->ip = ip;
	r->entry = entry;
	r->pid = tgid;
	r->tid = task->pid;
	r->mapping = mapping ? at + 1 - mapping : 0;
	r->code = code ? at + 1 - code : 0;
	r->facts = facts | (level > 0 ? level : 0) << LEVEL_SHIFT;
	r->target = target;
	r->majors = task->maj_flt;
	r->minors = task->min_flt;
	r->unused = 0;
	// The machines that have these tracepoints keep stores in order.
	barrier();
	head->written = at + 1;
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(fault_user, unsigned long address, struct pt_regs *regs, unsigned long error)
{
	return on_fault(address, regs, error, false);
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(fault_kernel, unsigned long address, struct pt_regs *regs, unsigned long error)
{
	return on_fault(address, regs, error, true);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(follow_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 from = parent->tgid, to = child->tgid;
	if (child->pid != child->tgid)
		return 0;
	__s32 *target = bpf_map_lookup_elem(&followed, &from);
	if (target && bpf_map_update_elem(&followed, &to, target, BPF_ANY))
		__sync_fetch_and_add(&lost_events, 1);
	return 0;
}

static __always_inline void tell(struct task_struct *task, __u32 kind, __s32 target, bool last)
{
	struct event e = {
		.time = bpf_ktime_get_ns(),
		.majors = task->maj_flt,
		.minors = task->min_flt,
		.pid = task->tgid,
		.tid = task->pid,
		.kind = kind,
		.target = target,
		.last = last,
	};
	bpf_probe_read_kernel(e.comm, sizeof(e.comm), task->comm);
	if (bpf_ringbuf_output(&events, &e, sizeof(e), 0))
		__sync_fetch_and_add(&lost_events, 1);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task)
{
	__s32 target = target_of(task, NULL);
	__sync_fetch_and_add(&generation, 1);
	if (target >= 0)
		tell(task, EVENT_EXEC, target, false);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	__s32 target = target_of(task, NULL);
	if (target < 0)
		return 0;
	bool last = task->signal->live.counter == 0;
	tell(task, EVENT_EXIT, target, last);
	if (by_pid && last) {
		__u32 tgid = task->tgid;
		bpf_map_delete_elem(&followed, &tgid);
	}
	return 0;
}

// For the kernel's check of helpers alone: see kernel/bpf/kernel.h.
char licence[] SEC("license") = "Dual MIT/GPL";
