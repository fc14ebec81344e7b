// What a page fault is about: the entry of the page table, and the mapping, at an address of the
// process that runs. Both are read without a lock, with interrupts off, as they are at the start
// of the exception: page tables are freed only after every CPU has had its interrupts on, and a
// node that was taken out of the tree of mappings tells so.

#pragma once

#include "kernel.h"

// Of the kernel's include/linux/mm.h.
#define VM_READ 0x1ULL
#define VM_WRITE 0x2ULL
#define VM_EXEC 0x4ULL
#define VM_SHARED 0x8ULL
#define VM_GROWSDOWN 0x100ULL
#define VM_HUGETLB 0x400000ULL

// Of arch/x86/include/asm/trap_pf.h: the error code.
#define ERROR_WRITE 0x2
#define ERROR_FETCH 0x10

// Of arch/x86/include/asm/pgtable_types.h: bits of an entry.
#define ENTRY_PRESENT 0x1ULL
#define ENTRY_WRITABLE 0x2ULL
#define ENTRY_LEAF 0x80ULL       // of an upper level
#define ENTRY_PROTECTED 0x100ULL // where not present: access is withdrawn
#define ENTRY_ERRATUM 0x60ULL    // may stand in an entry that is none

// Of include/linux/swap.h, swapops.h and arch/x86/include/asm/pgtable_64.h:
// types of swap entry that are no swap area. The last is the marker's; before
// it come at most eight of migration, devices and poison.
#define SWAP_TYPE_SHIFT 59
#define SWAP_OFFSET_SHIFT 14
#define SWAP_SPECIAL 23
#define SWAP_MARKER 31

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

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

struct file;

struct vm_area_struct {
	unsigned long vm_start, vm_end, vm_pgoff, vm_flags;
	void *vm_ops;
	struct file *vm_file;
};

struct pt_regs {
	unsigned long r15, ip;
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

// Set by the loader.
const volatile __u64 direct_map = 0;
const volatile __u32 levels = 4; // of page tables
const volatile __u64 frame_bits = 0x000ffffffffff000ULL;

enum { LEVEL_PTE, LEVEL_PMD, LEVEL_PUD, LEVEL_ABOVE };

// descend steps down one level: whether the entry there is the last that can be reached.
static __always_inline bool descend(__u64 *table, __u64 address, int l, __u64 *entry, int *level)
{
	*level = l > LEVEL_PUD ? LEVEL_ABOVE : l;
	*entry = word(*table + ((address >> (12 + 9 * l)) & 511) * 8);
	if (l == LEVEL_PTE || !(*entry & ENTRY_PRESENT) || (l <= LEVEL_PUD && (*entry & ENTRY_LEAF)))
		return true;
	*table = direct_map + (*entry & frame_bits);
	return false;
}

// walk gives the entry of an address and its level.
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

#define NODE_MASK 255ULL
#define NODE_TYPE(node) (((__u64)(node) >> 3) & 15)
#define IS_NODE(root) (((root) & 3) == 2 && (root) > 4096)
#define DEPTH 8 // of the tree, at most: millions of mappings

// What is at an address: a mapping or, where none is, 0; and the last address of which that holds.
struct stretch {
	__u64 mapping, last;
};

// leaf finds what is at an address, by the kernel's own mtree_lookup_walk; -1 where a node was
// taken out of the tree meanwhile: it is then its own parent. A function of its own, so that
// the kernel's verifier goes through it once.
__noinline int leaf(__u64 root, __u64 address, struct stretch *out)
{
	__u64 next = root;
	if (!out)
		return -1;
	out->last = ~0ULL;
	if (!IS_NODE(root))
		return -1;
	for (int depth = 0; depth < DEPTH; depth++) {
		__u64 node = next & ~NODE_MASK, type = NODE_TYPE(next);
		// Pivots begin at the same place in all.
		__u64 pivots = node + bpf_core_field_offset(struct maple_range_64, pivot);
		__u32 count = 15, slots_at = bpf_core_field_offset(struct maple_range_64, slot);
		if (type == bpf_core_enum_value(enum maple_type, maple_arange_64)) {
			count = 9;
			slots_at = bpf_core_field_offset(struct maple_arange_64, slot);
		}
		__u32 i = 0;
		for (; i < 15; i++) {
			if (i >= count)
				break;
			__u64 pivot = word(pivots + i * 8);
			if (pivot >= address) {
				out->last = pivot;
				break;
			}
			// The last of a node need not say where it ends (Linux 6.1): where the node does.
			if (i && !pivot)
				break;
		}
		next = word(node + slots_at + i * 8);
		if ((word(node) & ~NODE_MASK) == node)
			return -1;
		if (type == bpf_core_enum_value(enum maple_type, maple_leaf_64)) {
			out->mapping = next;
			return 0;
		}
	}
	return -1;
}

// mappings is the root of a process' tree.
static __always_inline __u64 mappings(struct mm_struct *mm)
{
	return word((__u64)mm + bpf_core_field_offset(mm->mm_mt.ma_root));
}
