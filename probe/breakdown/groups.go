package breakdown

import "tare/probe"

// Group is what time was spent on.
type Group string

// The groups, in the order in which they are shown.
const (
	// Memory is the kernel's memory management and the start and end of
	// processes, the first of the two groups of which S1.4 has the share. It is
	// all on the kernel's side.
	Memory Group = "memory management and process start"
	// Collector and Allocation together are the second.
	Collector  Group = "Go garbage collection"
	Allocation Group = "Go allocation"

	GoStart     Group = "Go program start"
	GoScheduler Group = "Go scheduler"
	Linking     Group = "dynamic linking and C program start"
	Mounts      Group = "namespaces and mounts"
	Network     Group = "network set-up"
	Cgroups     Group = "cgroups"
	Seccomp     Group = "seccomp"
	Files       Group = "files, logging and encoding"
	IPC         Group = "IPC between components"
	Management  Group = "container management"
	Scheduling  Group = "scheduling and interrupts"
	OtherKernel Group = "other kernel work"
	Application Group = "the application itself"
	ClientCode  Group = "the client itself"
	Foreign     Group = "other programs"
	Unassigned  Group = "unassigned"
)

// Groups lists them.
var Groups = []Group{
	Memory, Collector, Allocation, GoStart, GoScheduler, Linking, Mounts, Network, Cgroups, Seccomp,
	Files, IPC, Management, Scheduling, OtherKernel, Application, ClientCode, Foreign, Unassigned,
}

// A rule puts stacks into a group. Its patterns are function names, in which *
// stands for any characters (so "runtime.gc*", "*_sys_mount").
//
// How the tables are used, for one stack:
//
//  1. Where the time was spent in the kernel, kernelRules, in order: the first
//     rule of which any function of the kernel's part of the stack matches.
//     So what a page fault does is memory management, whoever took it, be it
//     the Go collector: S1 sorted by the kernel's functions too. And what is
//     special stands before what is general: a clone(2) that makes a network
//     namespace is network set-up while it does that.
//  2. Otherwise, or where none matches, runtimeRules on the user's part, in
//     order, likewise: what the language's own machinery does, whichever code
//     it does it for. So is Go's share comparable with S1.4's.
//  3. Where none matches, codeRules on the user's part from the innermost
//     function outwards: the first function of which any rule knows decides.
//     So JSON that is encoded in an HTTP handler that starts a container is
//     encoding, and the rest of the handler container management.
//  4. What is left is Unassigned.
type rule struct {
	group Group
	// only: of these components; any where empty.
	only []probe.Component
	// leaf: only the innermost function of the side is looked at.
	leaf     bool
	patterns []string
	// unless: not where any function matches one of these.
	unless []string
	why    string
}

// parts are the components that are a platform's.
var parts = []probe.Component{probe.Engine, probe.Containerd, probe.Shim, probe.Runtime}

// kernelRules: system calls are named by the table's entry ("__x64_sys_mount",
// "__arm64_sys_mount"), and by the functions below it, for those that are
// called otherwise.
var kernelRules = []rule{
	{group: Memory,
		patterns: []string{"flush_tlb_func*", "__sysvec_call_function*", "__flush_smp_call_function_queue"},
		why:      "what another CPU's unmapping asks of this one: the only cross-CPU calls that are frequent while processes start and end are TLB flushes"},
	{group: Memory,
		patterns: []string{"tlb_remove_table_rcu", "__tlb_remove_table*", "vm_area_free_rcu_cb", "mt_free_rcu", "mt_free_walk", "delayed_put_task_struct", "__put_task_struct_rcu_cb", "delayed_put_pid"},
		why:      "what is left of a process, freed by an interrupt or by ksoftirqd after an RCU grace period: page tables, mappings, the task"},
	{group: Scheduling,
		patterns: []string{"__sysvec_*", "hrtimer_interrupt", "handle_softirqs", "__do_softirq", "__irq_exit_rcu", "__common_interrupt", "handle_irq_event*", "generic_handle_arch_irq", "gic_handle_irq"},
		why:      "an interrupt's work is not that of the process whose time it took (the frames of entry and return do not count: a process that is killed dies on the way back from one)"},
	{group: Seccomp,
		patterns: []string{"*_sys_seccomp", "do_seccomp", "prctl_set_seccomp", "seccomp_*", "__seccomp_filter", "__secure_computing", "bpf_prog_create_from_user", "bpf_prepare_filter", "bpf_migrate_filter", "bpf_convert_filter", "bpf_jit_*", "bpf_int_jit_compile", "do_jit", "bpf_prog_select_runtime", "bpf_prog_free*", "bpf_prog_pack_*"},
		why:      "a container's filter: the classic program is checked, converted and compiled to machine code, runs at each system call, and is freed at the end (kernel/seccomp.c, net/core/filter.c, arch/*/net/bpf_jit_comp.c)"},
	{group: Network,
		patterns: []string{"setup_net", "copy_net_ns", "cleanup_net", "net_ns_*", "ops_init", "ops_exit*", "ops_free_list", "ops_undo*", "rtnetlink_*", "rtnl_*", "netlink_*", "__netlink_*", "nfnetlink_*", "nf_tables_*", "nft_*", "ctnetlink_*", "nf_ct_*", "nf_conntrack_*", "do_ipt_*", "do_ip6t_*", "do_replace*", "xt_*", "veth_*", "br_*", "register_netdev*", "unregister_netdev*", "register_pernet*", "dev_change_*", "__dev_change_*", "dev_ioctl", "devinet_*", "inetdev_*", "inet6_addr*", "addrconf_*", "fib_*", "fib6_*", "netdev_run_todo", "genl_*", "sock_ioctl", "neigh_*", "arp_*", "packet_set_ring"},
		why:      "a container's network namespace, its pair of interfaces, bridge, addresses, routes and firewall rules, all asked for by netlink or by the old ioctls and socket options (net/core/net_namespace.c, rtnetlink.c, net/netfilter)"},
	{group: Mounts,
		patterns: []string{"*_sys_mount", "*_sys_umount", "*_sys_oldumount", "*_sys_pivot_root", "*_sys_unshare", "*_sys_setns", "*_sys_move_mount", "*_sys_open_tree*", "*_sys_fsopen", "*_sys_fsconfig", "*_sys_fsmount", "*_sys_fspick", "*_sys_mount_setattr", "*_sys_statmount", "*_sys_listmount", "*_sys_chroot", "*_sys_sethostname", "ksys_unshare", "path_mount", "path_umount", "do_mount*", "copy_namespaces", "create_new_namespaces", "unshare_nsproxy_namespaces", "copy_mnt_ns", "copy_pid_ns", "copy_ipcs", "copy_utsname", "copy_cgroup_ns", "create_user_ns", "free_nsproxy", "put_mnt_ns", "exit_task_namespaces", "switch_task_namespaces", "exit_nsproxy_namespaces", "deactivate_nsproxy", "free_mnt_ns", "free_ipc*", "free_pid_ns", "zap_pid_ns_processes", "umount_tree", "cleanup_mnt", "delayed_mntput", "mntput_no_expire", "namespace_unlock", "deactivate_super", "deactivate_locked_super", "propagate_*", "show_mountinfo", "show_vfsmnt", "mounts_open_common", "ns_get_path*", "nsfs_*"},
		why:      "the calls that make, enter and leave namespaces, that mount, move and unmount (fs/namespace.c, kernel/nsproxy.c), and the reading of the table of mounts, which runtimes do to know what to change"},
	{group: Cgroups,
		patterns: []string{"cgroup_mkdir", "cgroup_rmdir", "cgroup_file_*", "cgroup_seqfile_*", "cgroup_kn_*", "cgroup_procs_*", "__cgroup_procs_*", "cgroup1_procs_*", "__cgroup1_procs_*", "cgroup1_*", "cgroup_attach_*", "cgroup_migrate*", "cgroup_apply_*", "cgroup_destroy_*", "cgroup_addrm_files", "cgroup_pidlist_*", "cgroup_release*", "cgroup_freeze*", "css_create", "css_free_*", "css_release_*", "css_killed_*", "css_populate_dir", "css_clear_dir", "proc_cgroup*", "kernfs_fop_*", "kernfs_iop_*", "kernfs_dop_*", "mem_cgroup_css_*", "memcg_offline_*", "cpuset_write_*", "update_cpumask*", "tg_set_*", "tg_set_cfs_*", "sched_create_group", "sched_free_group*", "sched_unregister_group*", "cgwb_*"},
		why:      "groups made, joined, limited and removed (kernel/cgroup). kernfs is sysfs as well, of which runtimes use the cgroups"},
	{group: Memory,
		patterns: []string{
			"asm_exc_page_fault", "exc_page_fault", "do_user_addr_fault", "handle_mm_fault", "do_page_fault", "do_mem_abort", "faultin_page*", "fixup_user_fault", "populate_vma_page_range", "__mm_populate",
			"copy_page_range", "unmap_page_range", "unmap_vmas", "exit_mmap", "mmput", "__mmput", "dup_mm", "dup_mmap",
			"*_sys_mmap", "*_sys_munmap", "*_sys_mprotect", "*_sys_pkey_mprotect", "*_sys_brk", "*_sys_madvise", "*_sys_mremap", "*_sys_mlock*", "*_sys_munlock*", "ksys_mmap_pgoff", "vm_mmap*", "do_mmap", "do_munmap", "__vm_munmap", "do_mprotect_pkey",
			"try_to_free_pages", "shrink_node", "balance_pgdat", "kswapd", "khugepaged", "kcompactd", "out_of_memory"},
		why: "page-range copy, fault handling, page-range unmap: S1.4's own functions, with their callers (mm/memory.c, mm/mmap.c). A fault on a file that is not in memory yet counts here, its reading included"},
	{group: Memory,
		patterns: []string{"*_sys_execve", "*_sys_execveat", "do_execveat_common*", "bprm_execve", "begin_new_exec", "load_elf_binary", "kernel_execve", "*_sys_clone", "*_sys_clone3", "*_sys_fork", "*_sys_vfork", "__do_sys_clone*", "kernel_clone", "copy_process", "schedule_tail", "ret_from_fork_setup"},
		why:      "process start: fork and exec (kernel/fork.c, fs/exec.c) around that copying"},
	{group: Memory,
		patterns: []string{"do_exit", "do_group_exit", "*_sys_exit", "*_sys_exit_group", "release_task", "exit_notify", "free_task", "__put_task_struct*", "mm_release"},
		why:      "the exit paths (kernel/exit.c) around that unmapping"},
	{group: IPC,
		patterns: []string{"unix_*", "sock_sendmsg*", "sock_recvmsg*", "sock_read_iter", "sock_write_iter", "sock_close", "____sys_sendmsg", "____sys_recvmsg", "*_sys_sendto", "*_sys_recvfrom", "*_sys_socket", "*_sys_socketpair", "*_sys_connect", "*_sys_accept", "*_sys_accept4", "*_sys_bind", "*_sys_listen", "*_sys_shutdown", "*_sys_setsockopt", "*_sys_getsockopt", "*_sys_getsockname", "*_sys_getpeername", "tcp_*", "__tcp_*", "udp_*", "inet_*", "pipe_*", "anon_pipe_*", "do_pipe2", "fifo_open", "*_sys_pipe2", "*_sys_splice", "*_sys_tee", "eventfd_*", "*_sys_eventfd2", "signalfd_*"},
		why:      "sockets and pipes: the engine, containerd, the shims and the runtimes speak by HTTP, gRPC, ttrpc and pipes, none of which leaves the host"},
	{group: IPC,
		patterns: []string{"*_sys_epoll_*", "do_epoll_*", "ep_*", "do_compat_epoll_pwait*", "*_sys_poll", "*_sys_ppoll", "*_sys_select", "*_sys_pselect6", "do_sys_poll", "core_sys_select", "*_sys_inotify_*", "inotify_*", "fsnotify*", "*_sys_wait4", "*_sys_waitid", "kernel_wait4", "kernel_waitid*", "do_wait", "*_sys_pidfd_*", "pidfd_*"},
		why:      "waiting for those, for files that another process writes, and for a child's end"},
	{group: Files,
		patterns: []string{"vfs_*", "ksys_read", "ksys_write", "ksys_pread64", "ksys_pwrite64", "ksys_lseek", "*_sys_read", "*_sys_write", "*_sys_pread64", "*_sys_pwrite64", "*_sys_readv", "*_sys_writev", "*_sys_open", "*_sys_openat*", "*_sys_open_by_handle_at", "do_sys_openat2", "do_filp_open", "*_sys_close*", "filp_close", "__fput", "____fput", "delayed_fput", "*_sys_newfstat*", "*_sys_newstat", "*_sys_newlstat", "*_sys_stat*", "*_sys_fstat*", "*_sys_access", "*_sys_faccessat*", "*_sys_getdents*", "*_sys_readlink*", "*_sys_unlink*", "*_sys_rmdir", "*_sys_mkdir*", "*_sys_mknod*", "*_sys_rename*", "*_sys_link*", "*_sys_symlink*", "*_sys_chmod", "*_sys_fchmod*", "*_sys_chown", "*_sys_fchown*", "*_sys_lchown", "*_sys_utimensat", "*_sys_truncate", "*_sys_ftruncate", "*_sys_fallocate", "*_sys_fsync", "*_sys_fdatasync", "*_sys_sync", "*_sys_syncfs", "*_sys_sync_file_range", "*_sys_flock", "*_sys_fcntl", "*_sys_lseek", "*_sys_dup*", "*_sys_ioctl", "*_sys_sendfile64", "*_sys_copy_file_range", "*_sys_memfd_create", "*_sys_getxattr", "*_sys_*xattr", "*_sys_chdir", "*_sys_fchdir", "*_sys_getcwd", "*_sys_umask", "*_sys_close_range", "do_fsync", "path_openat", "filename_lookup", "path_lookupat", "do_unlinkat", "do_mkdirat", "filemap_*", "ext4_*", "jbd2_*", "kjournald2", "xfs_*", "btrfs_*", "ovl_*", "shmem_*", "blk_*", "__blk_*", "submit_bio*", "bio_*", "virtio_queue_rq", "virtblk_*", "nvme_*", "wb_workfn", "wb_writeback", "writeback_*", "__writeback_*", "tty_*", "n_tty_*", "flush_to_ldisc", "proc_*", "seq_read*", "evict", "iput", "dput"},
		why:      "files and directories: images' layers, state, logs, /proc, the terminal, with the file systems, the journal and the block devices below"},
	{group: Scheduling,
		patterns: []string{"schedule", "__schedule", "schedule_*", "preempt_schedule*", "*_sys_futex*", "do_futex", "futex_*", "*_sys_nanosleep", "*_sys_clock_nanosleep", "hrtimer_nanosleep", "*_sys_sched_*", "try_to_wake_up", "wake_up_q", "synchronize_*", "rcu_*", "sync_rcu_*", "__sync_rcu_*", "wait_rcu_*", "*_sys_membarrier", "*_sys_timer_*", "*_sys_timerfd_*", "do_timerfd_*", "timerfd_*", "*_sys_setitimer", "cpu_stopper_thread", "migration_cpu_stop", "run_ksoftirqd", "smpboot_thread_fn", "sched_*", "finish_task_switch*"},
		why:      "choosing who runs, waking, sleeping, locks of user space (futex). It stands behind the others: a process that waits in a mount waits for the mount"},
	{group: Scheduling,
		patterns: []string{"*_sys_tgkill", "*_sys_tkill", "*_sys_kill", "*_sys_rt_sig*", "*_sys_sigaltstack", "do_send_*", "get_signal", "arch_do_signal_or_restart", "handle_signal", "setup_rt_frame", "x64_setup_rt_frame", "__send_signal*"},
		why:      "signals, by which the Go runtime preempts its own threads"},
	{group: Scheduling,
		patterns: []string{"asm_sysvec_*", "asm_common_interrupt", "sysvec_*", "common_interrupt", "irqentry_exit*", "exit_to_user_mode_loop", "el0_interrupt", "el1_interrupt", "cpuidle_*", "do_idle"},
		why:      "what is left of entering and leaving interrupts"},
	{group: OtherKernel,
		patterns: []string{"*_sys_prctl", "*_sys_arch_prctl", "*_sys_cap*", "*_sys_set*", "*_sys_get*", "*_sys_prlimit64", "*_sys_newuname", "*_sys_uname", "*_sys_sysinfo", "*_sys_times", "*_sys_keyctl", "*_sys_add_key", "*_sys_rseq", "*_sys_set_robust_list", "*_sys_set_tid_address", "*_sys_bpf", "*_sys_perf_event_open", "*_sys_personality", "*_sys_clock_get*", "commit_creds", "security_*", "apparmor_*", "selinux_*"},
		why:      "identity, capabilities, limits and other properties of a process"},
	{group: OtherKernel, leaf: true,
		patterns: []string{"entry_SYSCALL_64*", "entry_SYSRETQ*", "syscall_return_via_sysret", "syscall_exit_*", "syscall_enter_*", "do_syscall_64", "x64_sys_call", "el0_svc*", "invoke_syscall", "exit_to_user_mode_*", "__x86_indirect_*", "srso_*", "ret_from_fork*"},
		why:      "entering and leaving the kernel itself: a call whose work has not begun, or is done"},
	{group: OtherKernel, only: []probe.Component{probe.Kernel},
		patterns: []string{"worker_thread", "process_one_work", "kthread_worker_fn", "kdamond_fn", "kthread", "kthreadd"},
		why:      "threads of the kernel in work that no rule above names, the host's own upkeep for the most part"},
}

// runtimeRules: the machinery of the languages.
var runtimeRules = []rule{
	{group: Linking,
		patterns: []string{"[ld-linux*", "[ld-musl*", "[ld-*", "_dl_*", "dl_main", "_dl_start*", "do_lookup_x", "_rtld_*"},
		why:      "the dynamic linker maps libraries and resolves names before the program's first instruction; its tables are mostly stripped, so the file tells"},
	{group: Linking, leaf: true,
		patterns: []string{"_start", "__libc_start_*", "__libc_csu_init", "__libc_early_init", "__libc_setup_tls", "__libc_init_*", "init_cacheinfo", "_init", "__cxx_global_*", "frame_dummy", "register_tm_clones", "call_init*", "_IO_init*", "apply_irel", "ARCH_SETUP_IREL", "__tunables_init", "cpu_features*", "init_cpu_features*", "get_common_cache_info*", "handle_intel*", "intel_check_word*"},
		why:      "the C library's own start, before main; only where it is innermost, since main is called from it"},
	{group: Application, only: []probe.Component{probe.Application},
		patterns: []string{"*"},
		why:      "user code of the program in the container, whatever it does; what it makes the kernel do is with the kernel's groups, in the application's column"},
	{group: Collector,
		patterns: []string{"runtime.gcBgMarkWorker*", "runtime.gcBgMarkStartWorkers*", "runtime.gcDrain*", "runtime.gcAssist*", "runtime.gcStart*", "runtime.gcMark*", "runtime.gcSweep*", "runtime.gcParkAssist", "runtime.gcFlushBgCredit", "runtime.gcResetMarkState*", "runtime.gcWriteBarrier*", "gcWriteBarrier*", "runtime.gcController*", "runtime.(*gcControllerState)*", "runtime.(*gcWork)*", "runtime.gcenable*", "runtime.scanobject*", "runtime.scanObject*", "runtime.scanSpan*", "runtime.tryDeferToSpanScan", "internal/runtime/gc/*", "runtime.greyobject", "runtime.findObject", "runtime.scanblock", "runtime.scanstack*", "runtime.scanframeworker", "runtime.scanConservative", "runtime.markroot*", "runtime.wbBuf*", "runtime.bulkBarrier*", "runtime.typeBitsBulkBarrier", "runtime.bgsweep", "runtime.sweepone*", "runtime.deductSweepCredit", "runtime.(*sweepLocked)*", "runtime.(*mspan).sweep", "runtime.bgscavenge*", "runtime.(*scavenger*", "runtime.(*pageAlloc).scavenge*", "runtime.freeSomeWbufs*", "runtime.prepareFreeWorkbufs", "runtime.runfinq", "runtime.GC", "runtime.shade", "runtime.stopTheWorld*", "runtime.startTheWorld*"},
		why:      "S1.4: the collector marks, sweeps, gives memory back, assists allocation and stops the world (src/runtime/mgc*.go, mbarrier.go). It stands before allocation: an allocation that must help to mark is the collector's"},
	{group: GoStart,
		patterns: []string{"runtime.schedinit", "runtime.mallocinit", "runtime.modulesinit", "runtime.typelinksinit", "runtime.itabsinit", "runtime.goenvs*", "runtime.parsedebugvars", "runtime.check", "runtime.osinit", "runtime.args", "runtime.sysargs", "runtime.libpreinit", "runtime.initsig", "runtime.doaddtimer", "runtime.randinit"},
		why:      "the Go runtime readies itself, its heap included, before the program's packages (src/runtime/proc.go, schedinit). Engine and runtimes pay this in each of the processes that a start takes"},
	{group: Allocation,
		patterns: []string{"runtime.mallocgc*", "runtime.malloc*", "runtime.newobject", "runtime.newarray", "runtime.makeslice*", "runtime.growslice*", "runtime.makemap*", "runtime.makechan*", "runtime.makeBucketArray", "runtime.rawstring*", "runtime.rawbyteslice", "runtime.rawruneslice", "runtime.(*mheap)*", "runtime.(*mcache)*", "runtime.(*mcentral)*", "runtime.(*pageAlloc)*", "runtime.(*mspan)*", "runtime.(*fixalloc)*", "runtime.(*linearAlloc)*", "runtime.persistentalloc*", "runtime.sysAlloc*", "runtime.sysMap*", "runtime.sysReserve*", "runtime.heapBits*", "runtime.(*heapBits)*", "runtime.heapSetType*", "runtime.nextFreeFast*", "runtime.profilealloc", "runtime.mProf_Malloc", "runtime.stackalloc*", "runtime.stackpoolalloc", "runtime.stackcacherefill", "runtime.deductAssistCredit", "runtime.getMCache", "runtime.publicationBarrier", "runtime.memclrNoHeapPointersChunked"},
		why:      "S1.4: memory from Go's heap, for objects, slices, maps and stacks (src/runtime/malloc.go, mheap.go)"},
	{group: GoScheduler,
		patterns: []string{"runtime.mcall*", "runtime.park_m", "runtime.schedule", "runtime.findRunnable*", "runtime.findrunnable", "runtime.stealWork", "runtime.runqsteal*", "runtime.runqgrab", "runtime.execute", "runtime.gopark", "runtime.goparkunlock", "runtime.goready*", "runtime.ready", "runtime.gosched*", "runtime.Gosched", "runtime.goschedImpl", "runtime.goexit0", "runtime.gdestroy", "runtime.newproc*", "runtime.newm*", "runtime.allocm*", "runtime.startm", "runtime.stopm", "runtime.wakep", "runtime.mPark", "runtime.handoffp", "runtime.mstart1", "runtime.mstart0", "runtime.mexit", "runtime.minit", "runtime.sysmon", "runtime.retake", "runtime.exitsyscall*", "runtime.entersyscall*", "runtime.reentersyscall", "runtime.preempt*", "runtime.asyncPreempt*", "runtime.suspendG", "runtime.resumeG", "runtime.signalM", "runtime.sighandler", "runtime.sigtramp*", "runtime.sigtrampgo", "runtime.sigreturn*", "runtime.newstack", "runtime.morestack*", "runtime.copystack", "runtime.adjustframe*", "runtime.netpoll*", "runtime.chansend*", "runtime.chanrecv*", "runtime.closechan", "runtime.selectgo", "runtime.sellock", "runtime.selunlock", "runtime.lock*", "runtime.unlock*", "runtime.futex*", "runtime.notesleep", "runtime.notewakeup", "runtime.notetsleep*", "runtime.usleep*", "runtime.osyield*", "runtime.procyield*", "runtime.semacquire*", "runtime.semrelease*", "runtime.semasleep", "runtime.semawakeup", "runtime.checkTimers", "runtime.runtimer", "runtime.runOneTimer", "runtime.addtimer", "runtime.deltimer", "runtime.modtimer", "runtime.resettimer", "runtime.(*timer)*", "runtime.(*timers)*", "runtime.casgstatus", "runtime.forEachP*", "runtime.acquirep", "runtime.releasep*", "runtime.wirep", "runtime.pidleget*", "runtime.pidleput", "runtime.gfget", "runtime.gfput", "runtime.malg*", "runtime.clone*", "runtime.cgocallback*", "runtime.needm", "runtime.dropm", "runtime.gogo*", "runtime.rt_sigaction*", "runtime.sigprocmask*", "runtime.rtsigprocmask*", "runtime.tgkill*", "runtime.mDoFixup*", "runtime.(*guintptr)*", "runtime.runqget", "runtime.runqput*", "runtime.globrunq*", "runtime.nanotime*", "x_cgo_*", "_cgo_*", "threadentry", "runtime.LockOSThread", "runtime.UnlockOSThread"},
		why:      "goroutines, threads, stacks that grow, channels, timers, locks and signals of the Go runtime (src/runtime/proc.go, chan.go, stack.go, lock_futex.go)"},
	{group: GoStart,
		patterns: []string{"runtime.doInit*", "runtime.rt0_go*", "_rt0_*", "runtime.main.func*"},
		unless:   []string{"*libcontainer.(*LinuxFactory).StartInitialization", "*libcontainer.StartInitialization", "*libcontainer.Init", "*libcontainer/nsenter*"},
		why:      "package initialisation: every process of a Go program runs it anew, whatever it was started for. (runc's init does its work from within, which counts for what it is)"},
	{group: GoStart, leaf: true,
		patterns: []string{"runtime.main", "runtime.rt0_go*", "runtime.settls*", "runtime.goexit*", "runtime.asmcgocall*", "runtime.asminit*", "runtime.gostartcall*"},
		why:      "the first and the last instructions of goroutines"},
}

// codeRules: what the parts' own code is about, by package and library.
var codeRules = []rule{
	{group: Network, only: []probe.Component{probe.Network},
		patterns: []string{"*"},
		why:      "iptables, ip, the proxy and the network plugins do nothing else"},
	{group: Seccomp,
		patterns: []string{"[libseccomp*", "seccomp_*", "*/libseccomp-golang*", "*/libcontainer/seccomp*", "*/profiles/seccomp*", "*/contrib/seccomp*", "*daemon.WithSeccomp*", "libcrun_*seccomp*"},
		why:      "the profile is read and compiled to a filter by libseccomp, or its Go bindings"},
	{group: Network,
		patterns: []string{"*/libnetwork*", "*/netlink*", "*/netns*", "*/ipvs*", "*/iptables*", "*/go-cni*", "*/containernetworking/*", "*daemon.(*Daemon).allocateNetwork*", "*daemon.(*Daemon).releaseNetwork*", "*daemon.(*Daemon).connectToNetwork*", "*daemon.(*Daemon).initializeNetworking*", "net.Interfaces*", "[libmnl*", "[libnftnl*", "[libxtables*"},
		why:      "the engine's network library and what speaks netlink"},
	{group: Cgroups,
		patterns: []string{"*/cgroups*", "*/cgroups/*", "*/cgroup1*", "*/cgroup2*", "libcrun_*cgroup*", "libcrun_update_cgroup*"},
		why:      "the libraries that make and limit groups, by whichever project"},
	{group: Mounts,
		patterns: []string{"*/sys/mount*", "*/sys/mountinfo*", "*/mountinfo*", "*containerd/mount*", "*/core/mount*", "*/pkg/mount*", "*/libcontainer.prepareRootfs", "*/libcontainer.finalizeRootfs", "*/libcontainer.mountToRootfs*", "*/libcontainer.pivotRoot", "*/libcontainer.setupNewRoot*", "*/libcontainer/nsenter*", "*/daemon/graphdriver/*", "*/snapshots/*", "*/snapshotter*", "*layer.(*layerStore).*Mount*", "*/containerfs*", "[runc+*", "nsexec", "libcrun_set_mounts*", "libcrun_do_pivot*", "libcrun_set_namespaces*"},
		why:      "the parts that lay out a root file system and enter namespaces. (runc's C code is all of that kind, libcontainer/nsenter)"},
	{group: Files,
		patterns: []string{"encoding/json.*", "encoding/json/*", "internal/json*", "*/json-iterator/*", "*/toml*", "*/yaml*", "*/sirupsen/logrus*", "*/containerd/log*", "*/daemon/logger*", "log.*", "log/slog*", "*bbolt*", "*boltdb*", "os.*", "io/ioutil.*", "io/fs.*", "path/filepath.*", "*/ioutils.*", "*/atomicwriter*", "archive/tar.*", "compress/*", "crypto/sha256.*", "*/go-digest*", "[libyajl*", "yajl_*", "[libjson-c*", "*/symlink.*", "*/filepath-securejoin*", "internal/poll.(*FD).Fsync", "internal/poll.(*FD).Pread", "internal/poll.(*FD).Pwrite"},
		why:      "state, configuration and logs: read, encoded, decoded, hashed and written"},
	{group: IPC,
		patterns: []string{"net/http.*", "net/http/*", "golang.org/x/net/http2*", "google.golang.org/grpc*", "*/grpc-prometheus*", "*/ttrpc*", "*/protobuf/*", "*/protobuf.*", "google.golang.org/protobuf*", "github.com/gogo/protobuf*", "*/typeurl*", "*/api/services/*", "*/api/events*", "net.*", "net/textproto.*", "net/url.*", "bufio.*", "internal/poll.*", "os/exec.*", "os.(*File).Read", "*/containerd/fifo*", "*/pkg/stdcopy*", "*/go-runc*", "*/otelhttp*", "go.opentelemetry.io/*", "*/gorilla/mux*", "*/api/server/middleware*", "*/pkg/authorization*", "io.Copy*", "io.copyBuffer", "io.ReadAtLeast"},
		why:      "HTTP, gRPC, ttrpc and their encodings, pipes, and the starting of a helper to speak with"},
	{group: ClientCode, only: []probe.Component{probe.Client},
		patterns: []string{"*"},
		why:      "tare, or a command line that asks for starts: not of the platform"},
	{group: Management, only: parts,
		patterns: []string{"github.com/docker/*", "github.com/moby/*", "github.com/containerd/*", "github.com/opencontainers/*", "github.com/containers/*", "gvisor.dev/*", "main.*", "github.com/urfave/cli*", "github.com/spf13/*", "flag.*", "libcrun_*", "container_*", "crun_command_*", "run_*", "[crun+*", "[conmon+*"},
		why:      "the parts' own code: what it knows of containers, in none of the groups above"},
	{group: Management, only: []probe.Component{probe.Runtime, probe.Shim},
		patterns: []string{"[lib*", "malloc*", "free", "calloc", "realloc", "cfree", "__libc_*", "_int_*", "str*", "__str*", "mem*", "__mem*", "_IO_*", "vfprintf*", "__vf*", "printf*", "qsort*", "getenv", "open*", "read*", "write*", "close*", "syscall*", "__*", "argp_*", "json_*", "safe_*", "xmalloc*", "make_*", "free_*"},
		why:      "C code of runtimes and their helpers, whose callers are not told: without frame pointers only the innermost function of the C library is known"},
	{group: Scheduling, leaf: true,
		patterns: []string{"[vdso]"},
		why:      "reading the clock: the Go runtime does at each turn of its scheduler, and its callers are lost in the kernel's page"},
	{group: Foreign, only: []probe.Component{probe.Other},
		patterns: []string{"*"},
		why:      "programs of the host that are none of the experiment's"},
}
