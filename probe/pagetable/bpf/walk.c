// Programs that copy page tables, for probe/pagetable: those of x86-64, whose format the
// processor fixes.
//
// Nothing is locked: the process goes on. Tables that it frees meanwhile stay
// readable until the read-side section of RCU ends, as the kernel's own walk
// without locks relies on (CONFIG_MMU_GATHER_RCU_TABLE_FREE), and every table
// is reached, from the top, within one such section. A kernel without that
// frees them at once: there, of a process that unmaps memory while it is read,
// entries may be read that were never its own.

#include "../../../kernel/bpf/kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct mm_struct {
	void *pgd;
};

struct task_struct {
	struct mm_struct *mm;
};

#pragma clang attribute pop

// Since Linux 6.2. Before, no process is found by its id, and no read-side section begun: the
// programs read the tables of who runs them alone, who must not free any meanwhile.
extern struct task_struct *bpf_task_from_pid(__s32 pid) __ksym __weak;
extern void bpf_task_release(struct task_struct *p) __ksym __weak;
extern void bpf_rcu_read_lock(void) __ksym __weak;
extern void bpf_rcu_read_unlock(void) __ksym __weak;
const volatile bool finds = false; // set by the loader

// The layout of what follows is read by walker.go, and kept to it by its tests.

#define ENTRIES 512
#define TABLES 512   // room for copies of last-level tables: 2 MiB
#define RECORDS 4096 // room for what was found
#define STEPS 65536  // bounds a read-side section: one call takes some 0.2 ms

enum outcome {
	DONE = 0,    // up to next, which is 0 at the end
	NO_TASK = 1, // no such process
	NO_MM = 2,   // it has no memory of its own: it ends, or is the kernel's
	OTHER_MM = 3, // it executed another program, or ended, meanwhile
	UNREADABLE = 4, // the topmost table cannot be read
};

struct request {
	__s32 pid;
	__u32 levels;
	__u64 base;     // of the direct map: where physical address 0 would be
	__u64 limit;    // physical addresses from here on hold no memory
	__u64 physical; // mask of the address in an entry of a table
	__u64 end;      // of user space
	__u64 mm;       // as an earlier call told it; 0 takes whichever there is
	__u64 next;     // address to go on at
	// What is told:
	__u64 pgd;
	__u32 outcome;
	__u32 records;
	__u64 ptes, pmds, puds, p4ds; // tables
	__u64 strays; // entries that point to no memory, or could not be read
};

// A record is a last-level table, copied to a slot, or an entry of a higher
// level that maps memory itself.
struct record {
	__u64 address; // the first that it maps
	__u64 entry;   // as it stands in the table above
	__u32 level;   // 1: entry points to a table; 2, 3: entry maps 2 MiB, 1 GiB
	__u32 slot;
};

struct table {
	__u64 entries[ENTRIES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TABLES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct table);
} tables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RECORDS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct record);
} records SEC(".maps");

// Bits of an entry.
#define PRESENT (1ull << 0)
#define LEAF (1ull << 7) // _PAGE_PSE

// A walk under way. One runs at a time, which user space sees to.
static struct table top, p4d, pud, pmd; // copies of the tables on the way
static __u64 p4d_of, pud_of, pmd_of; // 1 + the address that each begins at
static struct request walking;
static __u64 pgd;
static __u32 used;

#define SPAN_PMD (1ull << 21)
#define SPAN_PUD (1ull << 30)
#define SPAN_P4D (1ull << 39)
#define SPAN_PGD (1ull << 48)

static long copy(struct table *to, __u64 entry)
{
	__u64 at = entry & walking.physical;

	if (at >= walking.limit)
		return -1;
	return bpf_probe_read_kernel(to, sizeof(*to), (void *)(walking.base + at));
}

static void pass(__u64 span) { walking.next = (walking.next | (span - 1)) + 1; }

static int note(__u64 entry, __u32 level, __u32 slot)
{
	__u32 at = walking.records;
	struct record *r = bpf_map_lookup_elem(&records, &at);

	if (!r)
		return 1;
	r->address = walking.next;
	r->entry = entry;
	r->level = level;
	r->slot = slot;
	walking.records++;
	return 0;
}

// One step passes over the widest stretch that nothing is mapped in, or takes
// one record. A table is counted when it is first come upon, at its first
// address: each step passes something, so none is come upon so twice.
static long step(__u64 i, void *unused)
{
	__u64 at = walking.next, entry;

	if (at >= walking.end || walking.records >= RECORDS || used >= TABLES)
		return 1;

	if (walking.levels == 5) {
		if (p4d_of != (at & ~(SPAN_PGD - 1)) + 1) {
			entry = top.entries[at >> 48 & (ENTRIES - 1)];
			if (!(entry & PRESENT)) {
				pass(SPAN_PGD);
				return 0;
			}
			if (copy(&p4d, entry)) {
				walking.strays++;
				pass(SPAN_PGD);
				return 0;
			}
			p4d_of = (at & ~(SPAN_PGD - 1)) + 1;
			if (!(at & (SPAN_PGD - 1)))
				walking.p4ds++;
		}
		entry = p4d.entries[at >> 39 & (ENTRIES - 1)];
	} else {
		entry = top.entries[at >> 39 & (ENTRIES - 1)];
	}

	if (pud_of != (at & ~(SPAN_P4D - 1)) + 1) {
		if (!(entry & PRESENT)) {
			pass(SPAN_P4D);
			return 0;
		}
		if (copy(&pud, entry)) {
			walking.strays++;
			pass(SPAN_P4D);
			return 0;
		}
		pud_of = (at & ~(SPAN_P4D - 1)) + 1;
		if (!(at & (SPAN_P4D - 1)))
			walking.puds++;
	}

	entry = pud.entries[at >> 30 & (ENTRIES - 1)];
	if (!entry) {
		pass(SPAN_PUD);
		return 0;
	}
	if (!(entry & PRESENT) || entry & LEAF) {
		if (note(entry, 3, 0))
			return 1;
		pass(SPAN_PUD);
		return 0;
	}
	if (pmd_of != (at & ~(SPAN_PUD - 1)) + 1) {
		if (copy(&pmd, entry)) {
			walking.strays++;
			pass(SPAN_PUD);
			return 0;
		}
		pmd_of = (at & ~(SPAN_PUD - 1)) + 1;
		if (!(at & (SPAN_PUD - 1)))
			walking.pmds++;
	}

	entry = pmd.entries[at >> 21 & (ENTRIES - 1)];
	if (!entry) {
		pass(SPAN_PMD);
		return 0;
	}
	if (!(entry & PRESENT) || entry & LEAF) {
		if (note(entry, 2, 0))
			return 1;
		pass(SPAN_PMD);
		return 0;
	}
	__u32 slot = used;
	struct table *to = bpf_map_lookup_elem(&tables, &slot);

	if (!to)
		return 1;
	if (copy(to, entry)) {
		walking.strays++;
	} else {
		if (note(entry, 1, slot))
			return 1;
		used++;
		walking.ptes++;
	}
	pass(SPAN_PMD);
	return 0;
}

// memory reads which address space a process has, and its topmost table.
static __u64 memory(struct task_struct *task)
{
	struct mm_struct *mm = BPF_CORE_READ(task, mm);

	pgd = 0;
	if (mm)
		pgd = (__u64)BPF_CORE_READ(mm, pgd);
	return (__u64)mm;
}

static __always_inline void tell(struct request *r, struct task_struct *task)
{
	r->mm = memory(task);
	r->pgd = pgd;
	r->outcome = r->mm ? DONE : NO_MM;
}

// find tells a process' address space and where its topmost table is.
SEC("syscall") int find(struct request *r)
{
	if (!finds) {
		tell(r, bpf_get_current_task_btf());
		return 0;
	}
	struct task_struct *task = bpf_task_from_pid(r->pid);

	if (!task) {
		r->outcome = NO_TASK;
		return 0;
	}
	tell(r, task);
	bpf_task_release(task);
	return 0;
}

// read takes records of a task from next on.
static __always_inline void read(struct request *r, struct task_struct *task)
{
	__u64 mm;

	walking.levels = r->levels;
	walking.base = r->base;
	walking.limit = r->limit;
	walking.physical = r->physical;
	walking.end = r->end;
	walking.next = r->next;
	walking.records = 0;
	walking.ptes = walking.pmds = walking.puds = walking.p4ds = walking.strays = 0;
	p4d_of = pud_of = pmd_of = 0;
	used = 0;

	if (finds)
		bpf_rcu_read_lock();
	mm = memory(task);
	if (!mm) {
		r->outcome = NO_MM;
	} else if (r->mm && mm != r->mm) {
		r->outcome = OTHER_MM;
	} else if (bpf_probe_read_kernel(&top, sizeof(top), (void *)pgd)) {
		r->outcome = UNREADABLE;
	} else {
		r->pgd = pgd;
		bpf_loop(STEPS, step, 0, 0);
		r->outcome = DONE;
		// It is let go of before its tables are freed: while it is there,
		// what was read was its own.
		if (memory(task) != mm)
			r->outcome = OTHER_MM;
	}
	if (finds)
		bpf_rcu_read_unlock();
	r->mm = mm;
	r->next = walking.next >= walking.end ? 0 : walking.next;
	r->records = walking.records;
	r->ptes = walking.ptes;
	r->pmds = walking.pmds;
	r->puds = walking.puds;
	r->p4ds = walking.p4ds;
	r->strays = walking.strays;
}

// walk takes records of a process from next on, as many as there is room for.
SEC("syscall") int walk(struct request *r)
{
	r->records = 0;
	if (!finds) {
		read(r, bpf_get_current_task_btf());
		return 0;
	}
	struct task_struct *task = bpf_task_from_pid(r->pid);

	if (!task) {
		r->outcome = NO_TASK;
		return 0;
	}
	read(r, task);
	bpf_task_release(task);
	return 0;
}

// For the kernel's check of helpers alone: see kernel/bpf/kernel.h.
char licence[] SEC("license") = "Dual MIT/GPL";
