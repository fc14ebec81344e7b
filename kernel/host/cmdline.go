package host

import (
	"regexp"
	"slices"
	"strings"
)

// relevant are the boot parameters that change what a measurement comes to:
// scheduling and isolation, interrupts, frequency, mitigations, memory, cgroups,
// clocks, security modules. Everything else is left out, since a command line
// may hold addresses, names and secrets.
var relevant = []string{
	"isolcpus", "nohz", "nohz_full", "rcu_nocbs", "rcu_nocb_poll", "irqaffinity", "threadirqs", "skew_tick",
	"preempt", "maxcpus", "nr_cpus", "nosmp", "nosmt", "noautogroup", "relax_domain_level", "nowatchdog", "nmi_watchdog", "nosoftlockup",
	"idle", "nohalt", "processor.max_cstate", "intel_idle.max_cstate", "intel_pstate", "amd_pstate",
	"cpufreq.default_governor", "cpufreq.off", "cpuidle.off", "cpuidle.governor", "cpuidle_haltpoll.force",
	"mitigations", "nopti", "pti", "kpti", "nospectre_v1", "nospectre_v2", "spectre_v2", "spectre_v2_user", "spectre_bhi",
	"spec_store_bypass_disable", "ssbd", "l1tf", "mds", "tsx", "tsx_async_abort", "srbds", "retbleed", "spec_rstack_overflow",
	"gather_data_sampling", "mmio_stale_data", "reg_file_data_sampling", "kvm.nx_huge_pages",
	"psi", "delayacct", "cgroup_disable", "cgroup_enable", "cgroup_no_v1", "cgroup.memory", "swapaccount",
	"systemd.unified_cgroup_hierarchy", "systemd.legacy_systemd_cgroup_controller",
	"transparent_hugepage", "hugepages", "hugepagesz", "default_hugepagesz", "numa", "numa_balancing", "mem", "movablecore",
	"init_on_alloc", "init_on_free", "page_poison", "slub_debug", "slab_nomerge", "zswap.enabled", "zswap.compressor",
	"clocksource", "tsc", "hpet", "lsm", "security", "apparmor", "selinux", "lockdown", "audit",
}

// plain is what a value may look like to be kept: words, numbers, lists of
// CPUs. An address (dots between numbers, colons) is none of these.
var plain = regexp.MustCompile(`^[A-Za-z0-9_,+-]{1,80}$`)

var listOfCPUs = regexp.MustCompile(`^([a-z_]+,)*[0-9,:/-]{1,80}$`)

// cpuLists take strides besides ranges: "0-15:2/4".
var cpuLists = []string{"isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity"}

// RelevantParameters keeps of a kernel command line the parameters that bear
// on a measurement, in their order. A value that does not look like theirs is
// shown as "...".
func RelevantParameters(commandLine string) string {
	var kept []string
	for _, parameter := range words(commandLine) {
		if parameter == "--" {
			break // the rest is for init
		}
		name, value, hasValue := strings.Cut(parameter, "=")
		// The kernel takes a dash in a name for an underscore.
		name = strings.ReplaceAll(name, "-", "_")
		switch {
		case !slices.Contains(relevant, name):
			continue
		case !hasValue:
			kept = append(kept, name)
		case plain.MatchString(value), slices.Contains(cpuLists, name) && listOfCPUs.MatchString(value):
			kept = append(kept, name+"="+value)
		default:
			kept = append(kept, name+"=...")
		}
	}
	return strings.Join(kept, " ")
}

// words splits at blanks outside of double quotes, as the kernel does.
func words(line string) []string {
	quoted := false
	return strings.FieldsFunc(line, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && (r == ' ' || r == '\t' || r == '\n')
	})
}
