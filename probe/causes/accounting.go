package causes

import (
	"slices"
	"strings"

	"tare/probe/bursts"
)

// blind says why accounting is not found where the CPU's clock samples.
const blind = "the processor's counters are not visible here, and the CPU's clock does not strike where no interrupt is let in, as in the scheduler's accounting: a machine with them (a virtual one with a virtual PMU)"

// accounting are the functions in which the kernel charges CPU time to a thread and
// its control groups: what S2's section IV-B calls the tracking of a container's use.
// Those that end in * are beginnings.
var accounting = []string{
	// The thread's and its groups' run time, at each switch, waking and tick.
	"update_curr*", "update_se", "cpuacct_charge", "cgroup_account_cputime*", "__cgroup_account_cputime*",
	// User and system time, at each tick and crossing of the kernel's border.
	"account_process_tick", "account_user_time", "account_system_*", "account_guest_time", "cpuacct_account_field", "vtime_*",
	// The quota: what is left of it, what is fetched, throttling and its end.
	"account_cfs_rq_runtime", "__account_cfs_rq_runtime", "assign_cfs_rq_runtime", "__assign_cfs_rq_runtime",
	"return_cfs_rq_runtime", "__return_cfs_rq_runtime", "check_cfs_rq_runtime", "check_enqueue_throttle",
	"throttle_cfs_rq*", "unthrottle_cfs_rq*", "tg_throttle_*", "tg_unthrottle_*", "throttle_cfs_rq_work", "distribute_cfs_runtime",
	"sched_cfs_period_timer", "sched_cfs_slack_timer", "do_sched_cfs_*",
	// Pressure of each group, at each switch and waking.
	"psi_*",
	// Groups whose sums are out of date.
	"cgroup_rstat_updated", "css_rstat_updated", "__css_rstat_updated", "cgroup_base_stat_cputime_*",
}

// scheduler are the functions through which switches and wakings go.
var scheduler = []string{"__schedule", "schedule", "try_to_wake_up", "default_wake_function", "wake_up_new_task", "finish_task_switch", "sched_ttwu_pending", "wake_up_q"}

// accountingOf counts where the samples fell. name gives a kernel function's name.
func accountingOf(samples []bursts.Sample, precise bool, name func(uint64) string) Accounting {
	var a Accounting
	seen := map[string]int{}
	for _, s := range samples {
		n := int(s.Count)
		a.Samples += n
		within, around := "", false
		for _, address := range s.Kernel {
			f, _, _ := strings.Cut(name(address), ".") // without the compiler's own ending
			if within == "" && listed(f, accounting) {
				within = f
			}
			around = around || listed(f, scheduler)
		}
		if around {
			a.Scheduler += n
		}
		if precise && within != "" {
			a.Within += n
			seen[within] += n
		}
	}
	a.Functions = ranked(seen)
	return a
}

func listed(name string, functions []string) bool {
	return slices.ContainsFunc(functions, func(f string) bool {
		if beginning, ok := strings.CutSuffix(f, "*"); ok {
			return strings.HasPrefix(name, beginning)
		}
		return name == f
	})
}
