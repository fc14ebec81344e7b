package claim

import (
	"fmt"
	"strings"

	"tare/record"
)

// SameMachine tells whether two fingerprints are of one machine, by what stays
// while its software changes. Earlier runs have no Machine.
func SameMachine(a, b record.Host) bool {
	oneMachine := a.Machine == b.Machine || a.Machine == "" || b.Machine == ""
	return oneMachine && a.Hostname == b.Hostname && a.Arch == b.Arch && a.CPUModel == b.CPUModel && a.CPUs == b.CPUs &&
		a.Virtual == b.Virtual
}

// changes names what of a machine is no longer as a run found it and may change
// a verdict. The size of memory is not among it: a kernel's own share of it, and
// a balloon, change what is told.
func changes(then, now record.Host) []string {
	var all []string
	for _, f := range []struct{ what, then, now string }{
		{"kernel", then.Kernel, now.Kernel},
		{"system", then.OS, now.OS},
		{"cgroups", then.Cgroup, now.Cgroup},
		{"SMT", then.SMT, now.SMT},
		{"governor", then.Governor, now.Governor},
		{"huge pages", then.THP, now.THP},
		{"generations of pages", then.Generations, now.Generations},
		{"page merging", then.KSM, now.KSM},
		{"LSM", then.LSM, now.LSM},
		{"boot parameters", then.CmdLine, now.CmdLine},
	} {
		if f.then != f.now {
			all = append(all, fmt.Sprintf("%s %s then, %s now", f.what, orNone(f.then), orNone(f.now)))
		}
	}
	return all
}

// Unchanged says why two fingerprints are not of one machine as it was, where runs would measure the same.
func Unchanged(then, now record.Host) error {
	if !SameMachine(then, now) {
		return fmt.Errorf("measured on another machine: %s", hostText(then))
	}
	if all := changes(then, now); len(all) > 0 {
		return fmt.Errorf("the host has changed: %s", strings.Join(all, ", "))
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// hostText is a machine in one line.
func hostText(h record.Host) string {
	var parts []string
	if h.Hostname != "" {
		parts = append(parts, h.Hostname)
	}
	if h.CPUs > 0 {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%d x %s", h.CPUs, h.CPUModel)))
	}
	if h.Kernel != "" {
		parts = append(parts, "Linux "+h.Kernel)
	}
	if h.Virtual != "" && h.Virtual != "none" {
		parts = append(parts, "virtual ("+h.Virtual+")")
	}
	return strings.Join(parts, ", ")
}
