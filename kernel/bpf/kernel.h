// What every program begins with: the types and the constants that it would otherwise have
// from the kernel's headers, of which none is needed to compile it.
//
// The kernel lets a program call most helpers only where it declares a licence compatible with
// the GPL; the declaration at the end of each program is that and nothing else. The sources
// are tare's, under the Apache License 2.0.
//
// Structures of the kernel's name only the members that are read. Where they lie is found when
// the programs are loaded, from the running kernel's BTF, so that one object serves every
// kernel and every little-endian machine. Programs are BTF-typed raw tracepoints, which a
// locked-down kernel allows, but for those that user space runs.

#pragma once

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
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_NO_PREALLOC = 1 << 0, BPF_F_USER_STACK = 1 << 8, BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_RB_NO_WAKEUP = 1 << 0, BPF_RB_FORCE_WAKEUP = 1 << 1 };
enum { BPF_RB_AVAIL_DATA = 0 };

// PF_KTHREAD and TASK_DEAD of the kernel's include/linux/sched.h.
#define KERNEL_THREAD 0x00200000
#define DEAD 0x80
