package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"tare/container"
	"tare/report"
	"tare/terminal"
)

// explanation says of a kind of finding what a reader of its figures needs to know.
type explanation struct {
	means  string // in one sentence
	cost   string // the formula
	source string // of the formula, or the model
	silent string // when it is not reported: the rule against false alarms
	// detail is the command that shows more of a container's finding; nil where there is none.
	detail func(c container.Container, f *Finding) string
}

func causesOf(c container.Container, _ *Finding) string {
	return "tare causes " + terminal.Shell(c.Argument())
}

func command(line string) func(container.Container, *Finding) string {
	return func(container.Container, *Finding) string { return line }
}

// explanations are of all kinds. docs/diagnose.md has a section on each.
var explanations = map[Kind]explanation{
	Throttled: {
		means: "The container had used up its CPU quota, so its threads waited for the next period.",
		cost: "pieces of work that waited for the quota, a second * what each of them waited. " +
			"Without such waits: throttled time of cpu.stat, which adds up over CPUs, in each second.",
		source: "Waits: sched_switch with the group's throttle count. Settings: the discrete-event model of the kernel's bandwidth control (model/quota).",
		silent: "No period was throttled. It is harmless where no thread waited, or below 0.05 s/s with less than one throttled period a second.",
		detail: causesOf,
	},
	WaitsForCPU: {
		means:  "The container's threads could run, and other threads had the CPU: its own, the host's or the kernel's.",
		cost:   "pieces of work a second * what a piece waited, the part behind these.",
		source: "Measured: sched_wakeup and sched_switch.",
		silent: "Below 0.01 s/s; behind an idle CPU or the quota; or the container computes and ran for 9/10 of the time that it waited.",
		detail: causesOf,
	},
	Neighbour: {
		means:  "The container's threads could run, and another container had the CPU.",
		cost:   "pieces of work a second * what a piece waited, the part behind that container.",
		source: "Measured: sched_wakeup and sched_switch, with the group that had the CPU.",
		silent: "Below 0.01 s/s, below a quarter of the container's waiting, or the container computes and had its share.",
		detail: func(_ container.Container, f *Finding) string { return f.Set[0].Command },
	},
	MemoryLimit: {
		means:  "The memory limit is below the working set: pages that were pushed out are used again.",
		cost:   "time of reading pages and making room for them, on a CPU and off it, * the part of the pages read that had been pushed out.",
		source: "Measured: sampled stacks and sched_switch. Else estimated: memory pressure (PSI), which leaves out waits for pages that were not in active use; or pages used again * 100 us.",
		silent: "There is no limit, or usage did not meet it. Or fewer than 10 pages a second were used again, and no process was killed.",
		detail: func(c container.Container, _ *Finding) string { return "tare faults " + terminal.Shell(c.Argument()) },
	},
	Checks: {
		means:  "The health check takes more CPU time than it is worth.",
		cost:   "CPU time of the shim, of what it waited for (runtime and check), and the daemons' part, in each second.",
		source: "Measured: /proc/PID/stat. The daemons' part is by what containers had them do. Of a pod it is the runtime, and what that starts in the pod.",
		silent: "Below 0.01 s/s where the service costs more than its check, and below 0.002 s/s in any case.",
	},
	Log: {
		means:  "The engine's daemon is busy to write the container's output down.",
		cost:   "CPU time of the daemons, the part of this container's log, in each second.",
		source: "Estimated: /proc/PID/stat, divided by bytes of logs and checks.",
		silent: "Below 64 KiB/s of log, or 0.01 s/s.",
	},
	Proxy: {
		means:  "Traffic to its published ports passes through a program, docker-proxy.",
		cost:   "CPU time of its docker-proxy processes in each second.",
		source: "Measured: /proc/PID/stat. S4.4 has the cost of a round trip.",
		silent: "Below 0.01 s/s.",
	},
	Translation: {
		means:  "The container's packets pass the bridge and address translation.",
		cost:   "packets a second * 4 us.",
		source: "Estimated: a trip over the bridge takes 1.5 to 7.5 µs longer (docs/results/latency.md), on another host.",
		silent: "Below 0.01 s/s, in the host's network, or where the userland proxy is found.",
		detail: command("tare latency network --quick"),
	},
	Layers: {
		means:  "The program looks up or lists files in a deep stack of image layers.",
		cost:   "time in the code of the overlay file system, less what one layer would take, in each second.",
		source: "Estimated: samples of kernel stacks; lookups and listings by depth as in S4.6 and S4.7.",
		silent: "Below 0.01 s/s, or below 20 samples; or a user mounted the layers in a user namespace (rootless engines).",
		detail: command("tare latency files --quick"),
	},
	CopyUps: {
		means:  "Files of the image are opened for writing, and copied whole into the container's layer first.",
		cost:   "time of copying, on the CPU and waiting for the disk, in each second.",
		source: "Measured: samples of kernel stacks and waits. Without waits it is a lower bound, and called estimated.",
		silent: "Below 16 MiB copied, or below 0.01 s/s.",
		detail: command("tare latency files --quick"),
	},
	Seccomp: {
		means:  "The filter of system calls takes a part of each call.",
		cost:   "time of samples in the filter and on its way in, in each second.",
		source: "Measured: samples of kernel stacks, and system calls counted in windows.",
		silent: "There is no filter, or the cost is below 0.01 s/s.",
		detail: causesOf,
	},
	Duplicated: {
		means: "Containers of one image each hold the same anonymous memory, or page tables that are wholly the same.",
		cost: "(anonymous memory * share of equal pages + equal page tables) of the containers compared " +
			"* (containers - 1) / (compared - 1).",
		source: "Page tables: S1's classes of entries. Equal pages: hashes of a sample, with an interval of 95 % (package census).",
		silent: "The lower bound of the interval is below 0.1 % of the host's memory, or the image has one container.",
		detail: command("tare pages --all --contents"),
	},
	Unpinned: {
		means:  "A quota of one or two CPUs is spread over all CPUs of a larger host, and threads move between them.",
		cost:   "moves to another CPU a second * 50 us, or * the mean run where that is shorter.",
		source: "Estimated: S2.9 names migrations as a cause. 50 µs refill an L2 cache of 512 KiB at 10 GB/s.",
		silent: "A set of CPUs is given, the host has two CPUs or fewer than twice the quota, or the cost is below 0.01 s/s.",
		detail: causesOf,
	},
	Needless: {
		means:  "The quota held work back while CPUs were idle and no other container waited: CPU shares would have cost none anything.",
		cost:   "that of the container's throttling. The two are one cost, not two.",
		source: "S4: shares cost a constant or nothing (S4.1), a quota stalls requests (S4.2).",
		silent: "CPUs were idle for less than 20 %, or for less than what was refused. Or other containers waited for 0.01 s/s, or it waited as long behind processes outside of containers.",
		detail: causesOf,
	},
}

// idOf is the identity of a finding, but for what follows a colon.
func idOf(container string, k Kind) string { return container + "/" + string(k) }

// OfID gives the container and the kind that the identity of a finding names; false where it names
// none. Names of containers may have slashes in them.
func OfID(id string) (container string, k Kind, ok bool) {
	for k := range explanations {
		before, after, found := strings.Cut(id, "/"+string(k))
		if found && before != "" && (after == "" || after[0] == ':') {
			return before, k, true
		}
	}
	return "", "", false
}

// Kinds are all of them, by name.
func Kinds() (all []string) {
	for k := range explanations {
		all = append(all, string(k))
	}
	slices.Sort(all)
	return all
}

// prose is an explanation as paragraphs below a table.
func (e explanation) prose() string {
	return fmt.Sprintf("%s\n\nCost: %s\n\nSource: %s\n\nNot reported: %s", e.means, strings.TrimPrefix(e.cost, ""), e.source, e.silent)
}

// Explain leaves a finding alone in a page: what it rests on, how its cost is computed, when it
// is not reported, and the command that goes on. Where it was not found, the page says so.
func (r *Result) Explain(id string, s report.Sheet) report.Sheet {
	_, kind, _ := OfID(id)
	s.Parts, s.Next = nil, nil
	for i := range r.Findings {
		if f := &r.Findings[i]; f.ID == id {
			s.Answer = f.sentence()
			s.Parts = append(s.Parts, f.evidence())
			s.Parts = append(s.Parts, report.Filled(settingsOf(*f))...)
			s.Next = detailOf(*f)
		}
	}
	if len(s.Parts) == 0 {
		s.Answer = fmt.Sprintf("%s was not found within %s.", id, short(r.Span))
		s.Parts = []report.Part{report.Prose{Title: "What it would mean", Text: explanations[kind].prose()}}
	}
	return s
}

// detailOf are the commands that show more of findings, each once.
func detailOf(found ...Finding) (commands []string) {
	for _, f := range found {
		if f.Detail != "" && f.Level != Harmless && !slices.Contains(commands, f.Detail) {
			commands = append(commands, f.Detail)
		}
	}
	return commands
}
