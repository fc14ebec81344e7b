// The programs on the entry of system calls and on the end of processes, for probe/calls.

#include "../../../kernel/bpf/kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

// The registers of arguments: of x86-64, and of arm64.
struct pt_regs___amd64 {
	unsigned long di, si;
};

struct pt_regs___arm64 {
	unsigned long long regs[2];
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live; // threads
};

struct task_struct {
	int tgid;
	struct signal_struct *signal;
};

#pragma clang attribute pop

// The layouts below are read by calls.go, and kept to it by its test.

struct counts {
	__u64 calls, lookups, opens;
};

#define NAME 256

// The name of a file that a call looked up.
struct looked_up {
	__s32 pid, directory; // the directory's descriptor, or what AT_FDCWD is
	char name[NAME];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 14);
	__type(key, __s32);   // process id
	__type(value, __u32); // target
} followed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32); // target
	__type(value, struct counts);
} counts_of SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32); // target * names + number
	__type(value, struct looked_up);
} names_of SEC(".maps");

// What a call does, by its number, as kernel/callnumber has it. Set by the loader.
#define CALLS 512
enum { LOOKS_UP = 1, OPENS = 2, IN_DIRECTORY = 4 }; // the last: its first argument is a directory's descriptor
const volatile __u8 does[CALLS] = {};
const volatile __u32 names = 0;  // kept of each target
const volatile __u32 stride = 1; // one of so many lookups has its name kept

volatile bool counting = false;

static __always_inline unsigned long argument(void *registers, bool second)
{
	struct pt_regs___amd64 *amd64 = registers;
	struct pt_regs___arm64 *arm64 = registers;
	if (bpf_core_field_exists(amd64->di))
		return second ? BPF_CORE_READ(amd64, si) : BPF_CORE_READ(amd64, di);
	if (bpf_core_field_exists(arm64->regs))
		return second ? BPF_CORE_READ(arm64, regs[1]) : BPF_CORE_READ(arm64, regs[0]);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_enter, void *registers, long number)
{
	if (!counting)
		return 0;
	__s32 pid = bpf_get_current_pid_tgid() >> 32;
	__u32 *target = bpf_map_lookup_elem(&followed, &pid);
	if (!target)
		return 0;
	struct counts *c = bpf_map_lookup_elem(&counts_of, target);
	if (!c)
		return 0;
	c->calls++;
	if (number < 0 || number >= CALLS)
		return 0;
	__u8 what = does[number];
	if (!(what & LOOKS_UP))
		return 0;
	__u64 n = c->lookups++;
	if (what & OPENS)
		c->opens++;
	// Counts of a CPU begin anew with each window, and so do the places of its names.
	__u32 at = (__u32)n / stride;
	if ((__u32)n % stride || at >= names)
		return 0;
	at += *target * names;
	struct looked_up *l = bpf_map_lookup_elem(&names_of, &at);
	if (!l)
		return 0;
	bool second = what & IN_DIRECTORY;
	l->directory = second ? (__s32)argument(registers, false) : -100; // AT_FDCWD
	if (bpf_probe_read_user_str(l->name, sizeof(l->name), (void *)argument(registers, second)) > 0)
		l->pid = pid;
	return 0;
}

// Another's process may have its id later.
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	__s32 tgid = task->tgid;
	if (!task->signal->live.counter)
		bpf_map_delete_elem(&followed, &tgid);
	return 0;
}

// For the kernel's check of helpers alone: see kernel/bpf/kernel.h.
char licence[] SEC("license") = "Dual MIT/GPL";
