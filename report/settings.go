package report

import (
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"tare/platform"
	"tare/record"
)

// sharedParams writes the workload's parameters, and the settings, that all its
// conditions share, as "clients=50 pipeline=1; cpuset-cpus=0".
func sharedParams(run record.Run, workload string) string {
	shared := map[string]string{}
	seen := false
	for _, c := range run.Conditions {
		if c.Workload != workload {
			continue
		}
		if !seen {
			for k, v := range c.Params {
				shared[k] = v
			}
			seen = true
			continue
		}
		for k, v := range shared {
			if other, ok := c.Params[k]; !ok || other != v {
				delete(shared, k)
			}
		}
	}
	pairs := make([]string, 0, len(shared))
	for k, v := range shared {
		pairs = append(pairs, clean(k)+"="+clean(v))
	}
	sort.Strings(pairs)
	text := strings.Join(pairs, " ")
	if settings := sharedSettings(run, workload); settings != "" {
		text = strings.TrimPrefix(text+"; "+settings, "; ")
	}
	return text
}

// sharedSettings writes the settings that were asked for under all conditions
// of a workload.
func sharedSettings(run record.Run, workload string) string {
	count := map[platform.Pair]int{}
	var order []platform.Pair
	conditions := 0
	for _, c := range run.Conditions {
		if c.Workload != workload {
			continue
		}
		conditions++
		for _, p := range c.Setting.Pairs() {
			if count[p] == 0 {
				order = append(order, p)
			}
			count[p]++
		}
	}
	var shared []string
	for _, p := range order {
		if conditions > 1 && count[p] == conditions {
			shared = append(shared, clean(p.Key)+"="+clean(p.Value))
		}
	}
	return strings.Join(shared, " ")
}

// A fact is a named value; its name is ours, its value may be anyone's.
type fact struct{ Name, Value string }

// inForce lists what the kernel reported for a condition, and what was run
// there, in an order that does not depend on the values.
func inForce(c record.Condition) []fact {
	facts := []fact{
		{"platform", c.Version},
		{"asked for", c.Setting.String()},
		{"image", c.ImageRef},
		{"image digest", c.Image},
	}
	if p := c.Process; p != nil {
		facts = append(facts,
			fact{"command", quoted(p.Args)},
			fact{"working directory", p.Dir},
			fact{"user and groups", p.User.String()},
			fact{"environment given", quoted(p.Env)},
		)
	}
	f := c.InForce
	if f == nil {
		return append(facts, fact{"in force", "not read: no trial came so far"})
	}
	quota := "none"
	if f.CPUQuota > 0 {
		quota = durationExact(f.CPUQuota) + " in " + durationExact(f.CPUPeriod)
		if f.CPUBurst > 0 {
			quota += ", burst " + durationExact(f.CPUBurst)
		}
	}
	return append(facts,
		fact{"CPU quota", quota},
		fact{"CPU shares", numberOr(int64(f.CPUShares), "default")},
		fact{"CPUs allowed", f.CPUSet},
		fact{"memory limit", sizeOr(f.Memory, "none")},
		fact{"network namespace", f.NetworkNS},
		fact{"namespaces of its own", orElse(strings.Join(f.Namespaces, " "), "none")},
		fact{"root file system", f.RootFS},
		fact{"data file systems", strings.Join(f.DataFS, " ")},
		fact{"seccomp", seccompText(f.Seccomp)},
		fact{"security module", f.LSM},
		fact{"capabilities", f.Capability},
		fact{"cgroups", strings.Join(f.Cgroups, " ")},
		fact{"open files", strconv.FormatUint(f.OpenFiles, 10)},
		fact{"core size", strconv.FormatUint(f.CoreSize, 10)},
		fact{"oom_score_adj", strconv.Itoa(f.OOMScore)},
		fact{"environment", strings.Join(f.Env, " ")},
		fact{"standard input", f.Stdin},
		fact{"standard output", f.Stdout},
	)
}

// quoted writes words as they would be typed in Go, where one needs it.
func quoted(words []string) string {
	text := make([]string, len(words))
	for i, w := range words {
		if text[i] = w; w == "" ||
			strings.ContainsFunc(w, func(r rune) bool { return r == ' ' || r == '"' || !strconv.IsPrint(r) }) {
			text[i] = strconv.Quote(w)
		}
	}
	return strings.Join(text, " ")
}

func seccompText(mode int) string {
	switch mode {
	case 0:
		return "off"
	case 1:
		return "strict"
	case 2:
		return "filter"
	}
	return strconv.Itoa(mode)
}

func numberOr(n int64, zero string) string {
	if n == 0 {
		return zero
	}
	return strconv.FormatInt(n, 10)
}

func sizeOr(n int64, zero string) string {
	if n == 0 {
		return zero
	}
	return bytesText(n)
}

// durationExact writes a bandwidth period, which no rounding may hide.
func durationExact(d time.Duration) string {
	if d%time.Millisecond == 0 {
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	}
	return strconv.FormatInt(d.Microseconds(), 10) + " µs"
}

// settingsParts tell apart what the conditions of each workload have in common and what
// they have not: only the second explains an overhead.
func settingsParts(run record.Run) []Part {
	var order []string
	members := map[string][]record.Condition{}
	for _, c := range run.Conditions {
		if members[c.Workload] == nil {
			order = append(order, c.Workload)
		}
		members[c.Workload] = append(members[c.Workload], c)
	}
	var parts []Part
	for _, workload := range order {
		parts = append(parts, settingsOf(clean(workload), members[workload])...)
	}
	return parts
}

// settingsOf are a table of what differs and a list of what does not.
func settingsOf(workload string, conditions []record.Condition) []Part {
	values := map[string][]string{}
	var names []string
	t := Table{Title: "Settings in force that differ: " + workload, Columns: []Column{{Head: "condition"}},
		Note: "As the kernel reported them for the first process of each condition. What differs is what an overhead can come from."}
	for i, c := range conditions {
		for _, f := range inForce(c) {
			if _, ok := values[f.Name]; !ok {
				names = append(names, f.Name)
				values[f.Name] = make([]string, len(conditions))
			}
			values[f.Name][i] = clean(f.Value)
		}
		t.Rows = append(t.Rows, []Cell{{Text: orElse(c.Label, c.ID)}})
	}
	shared := factList{title: "Settings in force, the same in all conditions: " + workload, Folded: true}
	for _, name := range names {
		column := values[name]
		if differs(column) {
			t.Columns = append(t.Columns, Column{Head: name})
			for i := range t.Rows {
				t.Rows[i] = append(t.Rows[i], Cell{Text: orElse(column[i], "–")})
			}
		} else if column[0] != "" {
			shared.Facts = append(shared.Facts, fact{name, column[0]})
		}
	}
	var parts []Part
	if len(t.Columns) > 1 {
		parts = append(parts, t)
	}
	if len(shared.Facts) > 0 {
		parts = append(parts, shared)
	}
	return parts
}

func differs(values []string) bool {
	for _, v := range values {
		if v != values[0] {
			return true
		}
	}
	return false
}

// surroundings gives, for each condition, the median and the range of what was
// seen around its trials.
func surroundings(run record.Run) Table {
	values := map[string]map[string][]float64{} // covariate, condition
	for _, t := range run.Trials {
		if t.Block < 1 || t.Error != "" {
			continue
		}
		for name, v := range t.Covariates {
			if !finite(v) {
				continue
			}
			if values[name] == nil {
				values[name] = map[string][]float64{}
			}
			values[name][t.Condition] = append(values[name][t.Condition], v)
		}
	}
	t := Table{Title: "Surroundings of the trials", Note: "Median, and in small letters the least and the most.", Columns: []Column{{Head: "condition"}}}
	names := slices.Sorted(maps.Keys(values))
	for _, name := range names {
		t.Columns = append(t.Columns, Column{Head: name, Number: true})
	}
	short := func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
	for _, c := range run.Conditions {
		row, seen := []Cell{{Text: c.ID}}, false
		for _, name := range names {
			v := values[name][c.ID]
			if len(v) == 0 {
				row = append(row, Absent())
				continue
			}
			sort.Float64s(v)
			row, seen = append(row, Cell{Text: short(at(v, 0.5)), Detail: short(v[0]) + " to " + short(v[len(v)-1])}), true
		}
		if seen {
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// fingerprint lists what is known of the host.
func fingerprint(h record.Host) []fact {
	facts := []fact{
		{"host", h.Hostname}, {"system", h.OS}, {"kernel", h.Kernel}, {"architecture", h.Arch},
		{"processor", h.CPUModel}, {"CPUs", numberOr(int64(h.CPUs), "")}, {"SMT", h.SMT}, {"governor", h.Governor},
		{"memory", sizeOr(h.Memory, "")}, {"swap", sizeOr(h.Swap, "none")}, {"cgroups", h.Cgroup},
		{"transparent huge pages", h.THP}, {"KSM", h.KSM}, {"hypervisor", h.Virtual}, {"security module", h.LSM},
		{"file system", h.FS}, {"versions", pairsText(h.Versions)}, {"mitigations", pairsText(h.Mitigated)}, {"kernel command line", h.CmdLine},
	}
	kept := facts[:0]
	for _, f := range facts {
		if f.Value = clean(f.Value); f.Value != "" {
			kept = append(kept, f)
		}
	}
	return kept
}

func pairsText(pairs map[string]string) string {
	words := make([]string, 0, len(pairs))
	for k, v := range pairs {
		words = append(words, k+": "+v)
	}
	sort.Strings(words)
	return strings.Join(words, "; ")
}
