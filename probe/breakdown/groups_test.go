package breakdown

import (
	"slices"
	"strings"
	"testing"

	"tare/probe"
)

// by makes a process of each component.
var by = map[probe.Component]probe.Process{
	probe.Engine:      {PID: 10, Comm: "dockerd", Exe: "/usr/sbin/dockerd"},
	probe.Containerd:  {PID: 11, Comm: "containerd", Exe: "/usr/bin/containerd"},
	probe.Shim:        {PID: 12, Comm: "containerd-shim", Exe: "/usr/bin/containerd-shim-runc-v2"},
	probe.Runtime:     {PID: 13, Comm: "runc", Exe: "/usr/sbin/runc"},
	probe.Network:     {PID: 14, Comm: "iptables", Exe: "/usr/sbin/xtables-nft-multi"},
	probe.Client:      {PID: 15, Comm: "tare", Exe: "/usr/bin/tare"},
	probe.Application: {PID: 16, Comm: "redis-server", Exe: "/usr/bin/redis-server", Contained: true},
	probe.Kernel:      {PID: 17, Comm: "kworker/0:1", KernelThread: true},
	probe.Other:       {PID: 18, Comm: "bash", Exe: "/usr/bin/bash"},
}

// example is a stack, innermost first, both sides parted by blanks.
type example struct {
	component    probe.Component
	kernel, user string
	want         Group
	why          string
}

const (
	inCall = " do_syscall_64 entry_SYSCALL_64_after_hwframe"
	inMain = " main.main runtime.main runtime.goexit"
)

// examples has one for each rule at least, in their order.
var examples = []example{
	{probe.Runtime, "flush_tlb_func __flush_smp_call_function_queue __sysvec_call_function sysvec_call_function asm_sysvec_call_function", "main.work" + inMain, Memory, "another CPU unmaps"},
	{probe.Kernel, "free_frozen_pages tlb_remove_table_rcu rcu_do_batch rcu_core handle_softirqs run_ksoftirqd smpboot_thread_fn kthread", "", Memory, "page tables are freed after a grace period"},
	{probe.Runtime, "rcu_do_batch rcu_core handle_softirqs __irq_exit_rcu sysvec_apic_timer_interrupt asm_sysvec_apic_timer_interrupt handle_mm_fault exc_page_fault", "", Scheduling, "an interrupt in a fault is an interrupt"},
	{probe.Runtime, "unmap_page_range exit_mmap __mmput do_exit do_group_exit get_signal exit_to_user_mode_loop irqentry_exit asm_sysvec_apic_timer_interrupt", "", Memory, "killed on the way back from an interrupt"},
	{probe.Runtime, "do_jit bpf_int_jit_compile bpf_prog_select_runtime bpf_prepare_filter seccomp_set_mode_filter do_seccomp" + inCall, "[libseccomp.so.2+0x1]", Seccomp, "compilation in the kernel"},
	{probe.Runtime, "ops_init setup_net copy_net_ns create_new_namespaces copy_namespaces copy_process kernel_clone" + inCall, "", Network, "the network namespace's part of a clone"},
	{probe.Kernel, "cleanup_net process_one_work worker_thread kthread ret_from_fork", "", Network, "the end of a network namespace"},
	{probe.Engine, "ctnetlink_dump_table netlink_dump netlink_rcv_skb netlink_sendmsg __sys_sendto __x64_sys_sendto" + inCall, "github.com/vishvananda/netlink.ConntrackTableList", Network, "netlink is a socket too"},
	{probe.Runtime, "copy_tree copy_mnt_ns create_new_namespaces copy_namespaces copy_process kernel_clone" + inCall, "", Mounts, "the mount namespace's part of a clone"},
	{probe.Runtime, "kmem_cache_alloc_noprof ovl_fill_super vfs_get_tree path_mount __x64_sys_mount" + inCall, "", Mounts, "overlay"},
	{probe.Runtime, "seq_printf show_mountinfo seq_read_iter vfs_read ksys_read" + inCall, "os.(*File).Read", Mounts, "the table of mounts is a file too"},
	{probe.Runtime, "cgroup_mkdir kernfs_iop_mkdir vfs_mkdir do_mkdirat" + inCall, "os.Mkdir", Cgroups, "a group is a directory too"},
	{probe.Engine, "clear_page_erms do_anonymous_page __handle_mm_fault handle_mm_fault do_user_addr_fault exc_page_fault asm_exc_page_fault", "runtime.memclrNoHeapPointers runtime.mallocgc", Memory, "a fault in Go's allocation is the kernel's memory management, as in S1"},
	{probe.Engine, "exc_page_fault asm_exc_page_fault", "runtime.scanobject runtime.gcDrain", Memory, "a fault in Go's collector too"},
	{probe.Runtime, "copy_page_range dup_mmap dup_mm copy_process kernel_clone" + inCall, "", Memory, "page-range copy"},
	{probe.Runtime, "ext4_read_folio filemap_fault __do_fault handle_mm_fault exc_page_fault", "", Memory, "a fault on a file"},
	{probe.Runtime, "security_bprm_check bprm_execve do_execveat_common.isra.0 __x64_sys_execve" + inCall, "", Memory, "exec"},
	{probe.Shim, "exit_notify do_exit do_group_exit __x64_sys_exit_group" + inCall, "", Memory, "exit"},
	{probe.Shim, "unix_stream_sendmsg sock_write_iter vfs_write ksys_write" + inCall, "github.com/containerd/ttrpc.(*channel).send", IPC, "a socket is a file too"},
	{probe.Runtime, "anon_pipe_read vfs_read ksys_read" + inCall, "", IPC, "a pipe too"},
	{probe.Shim, "__schedule schedule do_wait kernel_wait4" + inCall, "syscall.wait4", IPC, "waiting for a child"},
	{probe.Engine, "ep_send_events do_epoll_wait" + inCall, "runtime.netpoll runtime.findRunnable", IPC, "waiting for a socket"},
	{probe.Engine, "jbd2_log_wait_commit ext4_sync_file do_fsync" + inCall, "go.etcd.io/bbolt.fdatasync", Files, "the journal"},
	{probe.Kernel, "virtio_queue_rq blk_mq_dispatch_rq_list blk_mq_run_work_fn process_one_work worker_thread kthread", "", Files, "the disk's worker"},
	{probe.Engine, "finish_task_switch.isra.0 __schedule schedule futex_do_wait do_futex __x64_sys_futex" + inCall, "runtime.futex runtime.stopm", Scheduling, "a lock of user space"},
	{probe.Engine, "do_send_specific __x64_sys_tgkill" + inCall, "runtime.tgkill runtime.preemptone", Scheduling, "a signal to preempt"},
	{probe.Engine, "irqentry_exit_to_user_mode asm_sysvec_apic_timer_interrupt", "main.work" + inMain, Scheduling, "back from an interrupt"},
	{probe.Runtime, "commit_creds __sys_capset __x64_sys_capset" + inCall, "", OtherKernel, "capabilities"},
	{probe.Runtime, "entry_SYSCALL_64_after_hwframe", "main.work" + inMain, OtherKernel, "entering a call"},
	{probe.Kernel, "damon_pa_check_accesses kdamond_fn kthread ret_from_fork", "", OtherKernel, "the host's upkeep"},
	{probe.Engine, "page_counter_cancel strange_function" + inCall, "encoding/json.Marshal" + inMain, Files, "a kernel function that no rule knows: what the program was doing decides"},
	{probe.Engine, "strange_function" + inCall, "", Unassigned, "and where that is not known, nothing does"},

	{probe.Application, "", "[ld-linux-x86-64.so.2+0x1462a]", Linking, "the dynamic linker, in the application too"},
	{probe.Runtime, "", "__libc_start_main_impl _start", Linking, "the C library's start"},
	{probe.Application, "", "runtime.mallocgc main.main", Application, "what the application does is its own"},
	{probe.Application, "handle_mm_fault exc_page_fault", "main.main", Memory, "but not in the kernel"},
	{probe.Engine, "", "runtime.scanobject runtime.gcDrain runtime.gcBgMarkWorker.func2 runtime.systemstack", Collector, "marking"},
	{probe.Engine, "", "runtime.scanobject runtime.gcDrainN runtime.gcAssistAlloc1 runtime.mallocgc runtime.newobject" + inMain, Collector, "an allocation that helps to mark"},
	{probe.Runtime, "", "runtime.(*itabTableType).add runtime.itabsinit runtime.schedinit runtime.rt0_go", GoStart, "the runtime readies itself"},
	{probe.Runtime, "", "runtime.(*mheap).init runtime.mallocinit runtime.schedinit runtime.rt0_go", GoStart, "its heap included"},
	{probe.Engine, "", "runtime.heapBitsSetType runtime.mallocgc runtime.newobject github.com/docker/libnetwork/ipamutils.init.0 runtime.doInit runtime.main", Allocation, "allocation, whatever for"},
	{probe.Engine, "", "runtime.stealWork runtime.findRunnable runtime.schedule runtime.park_m runtime.mcall", GoScheduler, "looking for work"},
	{probe.Engine, "", "github.com/docker/libnetwork/ipamutils.splitNetwork github.com/docker/libnetwork/ipamutils.init.0 runtime.doInit runtime.main runtime.goexit", GoStart, "a package's initialisation is no network set-up"},
	{probe.Runtime, "", "encoding/json.Unmarshal github.com/opencontainers/runc/libcontainer.(*LinuxFactory).StartInitialization main.init.0 runtime.doInit runtime.main", Files, "runc's init works from within its initialisation"},
	{probe.Runtime, "", "runtime.main runtime.goexit", GoStart, "before main"},

	{probe.Network, "", "[libxtables.so.12+0x10]", Network, "iptables"},
	{probe.Runtime, "", "[libseccomp.so.2.5.4+0x962c]", Seccomp, "libseccomp compiles"},
	{probe.Engine, "", "strings.Split github.com/docker/docker/libnetwork.(*Controller).NewSandbox github.com/docker/docker/daemon.(*Daemon).containerStart net/http.HandlerFunc.ServeHTTP", Network, "the innermost function that says anything decides"},
	{probe.Containerd, "", "strconv.Itoa github.com/containerd/cgroups/v3/cgroup1.New github.com/containerd/containerd.main", Cgroups, "the cgroup library"},
	{probe.Runtime, "", "github.com/opencontainers/runc/libcontainer.prepareRootfs github.com/opencontainers/runc/libcontainer.(*linuxStandardInit).Init", Mounts, "a root file system is laid out"},
	{probe.Engine, "", "reflect.Value.Field encoding/json.structEncoder.encode encoding/json.Marshal github.com/docker/docker/daemon.(*Daemon).containerStart net/http.(*conn).serve", Files, "encoding in a handler"},
	{probe.Engine, "", "bytes.IndexByte net/textproto.readMIMEHeader net/http.(*conn).serve", IPC, "HTTP itself"},
	{probe.Client, "", "main.main", ClientCode, "tare"},
	{probe.Engine, "", "strings.Split github.com/docker/docker/daemon.(*Daemon).containerStart net/http.(*conn).serve", Management, "the engine's own code"},
	{probe.Runtime, "", "__libc_calloc", Management, "crun's C code"},
	{probe.Shim, "", "[vdso]", Scheduling, "the clock"},
	{probe.Other, "", "main", Foreign, "somebody else's"},
	{probe.Engine, "", "never_heard_of_it", Unassigned, "no rule"},
	{probe.Engine, "", "", Unassigned, "nothing is known"},
}

func (e example) stack() Stack {
	return Stack{Process: by[e.component], Kernel: strings.Fields(e.kernel), User: strings.Fields(e.user), Weight: 1}
}

func TestExamples(t *testing.T) {
	c := NewClassifier()
	for _, e := range examples {
		s := e.stack()
		if got, want := c.Cell(&s), (Cell{e.want, e.component}); got != want {
			t.Errorf("%s: %q from %q is %v, want %v", e.why, e.kernel, e.user, got, want)
		}
	}
}

// TestEveryRuleDecidesAnExample keeps the table free of rules that others
// overshadow, and of rules without an example.
func TestEveryRuleDecidesAnExample(t *testing.T) {
	c := NewClassifier()
	used := map[*rule]bool{}
	for _, e := range examples {
		s := e.stack()
		if r := c.rule(&s, e.component); r != nil {
			used[r] = true
		}
	}
	for name, rules := range map[string][]rule{"kernelRules": kernelRules, "runtimeRules": runtimeRules, "codeRules": codeRules} {
		for i := range rules {
			r := &rules[i]
			if !used[r] {
				t.Errorf("%s[%d] (%s: %.50s) decides no example", name, i, r.group, r.why)
			}
			if r.why == "" || len(r.patterns) == 0 || !slices.Contains(Groups, r.group) {
				t.Errorf("%s[%d] (%s) lacks a reason, patterns, or a group that is shown", name, i, r.group)
			}
		}
	}
}

// TestNoPatternStandsTwice: the second of two equal patterns of a table, for
// the same components, would never be asked.
func TestNoPatternStandsTwice(t *testing.T) {
	for name, rules := range map[string][]rule{"kernelRules": kernelRules, "runtimeRules": runtimeRules, "codeRules": codeRules} {
		seen := map[string]Group{}
		for _, r := range rules {
			if len(r.only) > 0 || r.leaf {
				continue
			}
			for _, p := range r.patterns {
				if first, twice := seen[p]; twice {
					t.Errorf("%s has %q for %s and for %s", name, p, first, r.group)
				}
				seen[p] = r.group
			}
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"schedule", "schedule", true},
		{"schedule", "schedule_tail", false},
		{"schedule*", "schedule", true},
		{"*_sys_mount", "__x64_sys_mount", true},
		{"*_sys_mount", "__arm64_sys_mount_setattr", false},
		{"runtime.(*mheap)*", "runtime.(*mheap).alloc.func1", true},
		{"a*b*c", "axxbyyc", true},
		{"a*b*c", "axxcyyb", false},
		{"a*a", "a", false},
		{"*", "", true},
		{"", "", true},
		{"", "x", false},
	} {
		if got := match(c.pattern, c.name); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.name, got)
		}
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("a*b", "axb")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if match(pattern, name) && !match("*"+pattern+"*", "x"+name+"x") {
			t.Errorf("%q matches %q, and no longer what contains it", pattern, name)
		}
	})
}
