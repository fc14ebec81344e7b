package cli

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"tare/kernel/host"
	"tare/study/gpu"
	"tare/terminal"
)

// A requirement is what commands require of a host.
type requirement struct {
	commands string
	linux    string // the first version that has all of it; empty where any has
	btf      bool   // the kernel describes its types
	groups   bool   // control groups, of version 1 or 2
	root     bool
	swap     bool
	gpu      bool   // one that CUDA can use
	besides  string // what else, by command or platform
	without  string // what is left where the kernel is older or has no types
}

// requirements are those of all commands, in the order of their groups in help.
var requirements = []requirement{
	{commands: "weigh, latency, io, density, predict", linux: "5.8", groups: true, root: true, besides: "the engine or runtime of each platform that is named"},
	{commands: "platforms", linux: "5.8", groups: true, root: true, besides: "for virtual machines: QEMU, and KVM for figures that count"},
	{commands: "startup", linux: "5.11", btf: true, groups: true, root: true, besides: "an engine or an OCI runtime"},
	{commands: "diagnose, causes, place", linux: "5.12", btf: true, groups: true, root: true, besides: "diagnose --verify: Docker", without: "causes: what control groups count"},
	{commands: "reproduce", groups: true, root: true, besides: "what the studies of its claims require"},
	{commands: "pages", linux: "6.2", btf: true, root: true, without: "entries are read from /proc/PID/pagemap, which takes longer"},
	{commands: "faults", linux: "6.1", btf: true, root: true},
	{commands: "gpu", linux: "5.8", groups: true, root: true, gpu: true, besides: "a device of NVIDIA's and its driver; nvcc to build the programs"},
	{commands: "annexd", linux: "6.2", btf: true, groups: true, root: true, swap: true, besides: "the memory controller", without: "from 5.10: memory leaves, and nothing is fetched ahead"},
	{commands: "advise, show, runs, compare, export, import, claims, workloads, doctor"},
}

// lacks says what a host lacks of a requirement, in short words.
func (r requirement) lacks(h host.Facts, root, btf bool) []string {
	var lacking []string
	if r.root && !root {
		lacking = append(lacking, "root")
	}
	if r.linux != "" && older(h.Kernel, r.linux) {
		lacking = append(lacking, "Linux "+r.linux)
	}
	if r.btf && !btf {
		lacking = append(lacking, "kernel types (BTF)")
	}
	if r.groups && h.Cgroup == "none" {
		lacking = append(lacking, "control groups")
	}
	if r.swap && h.Swap == 0 {
		lacking = append(lacking, "swap")
	}
	return lacking
}

// partly reports whether the kernel is what keeps a command from all that it does.
func (r requirement) partly(h host.Facts, btf bool) bool {
	return r.linux != "" && older(h.Kernel, r.linux) || r.btf && !btf
}

// older reports whether a kernel's release comes before a version; one that cannot be read does not.
func older(release, version string) bool {
	has, ok := majorMinor(release)
	wants, _ := majorMinor(version)
	return ok && (has[0] < wants[0] || has[0] == wants[0] && has[1] < wants[1])
}

// majorMinor reads "6.1" of "6.1.0-18-amd64".
func majorMinor(release string) (v [2]int, ok bool) {
	major, rest, _ := strings.Cut(release, ".")
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		rest = rest[:end]
	}
	var err1, err2 error
	v[0], err1 = strconv.Atoi(major)
	v[1], err2 = strconv.Atoi(rest)
	return v, err1 == nil && err2 == nil
}

// Requirements is the table of what commands require, in Markdown.
func Requirements() string {
	var text strings.Builder
	text.WriteString("| command | Linux | kernel types (BTF) | control groups | user | besides | on an older kernel |\n|---|---|---|---|---|---|---|\n")
	yes := func(b bool, text string) string {
		if b {
			return text
		}
		return ""
	}
	for _, r := range requirements {
		fmt.Fprintf(
			&text,
			"| %s | %s | %s | %s | %s | %s | %s |\n",
			r.commands,
			r.linux,
			yes(r.btf, "yes"),
			yes(r.groups, "version 1 or 2"),
			yes(r.root, "root"),
			strings.TrimPrefix(yes(r.swap, "; swap")+"; "+r.besides, "; "),
			r.without,
		)
	}
	return text.String()
}

// answer is a row of doctor's table of commands.
func (r requirement) answer(h host.Facts) answer {
	_, err := os.Stat("/sys/kernel/btf/vmlinux")
	lacking := r.lacks(h, os.Geteuid() == 0, err == nil)
	if r.gpu {
		if missing := gpu.Lacks(deviceHost); missing != nil {
			lacking = append(lacking, "a GPU ("+strings.TrimPrefix(missing.Error(), "no GPU for CUDA: ")+")")
		}
	}
	a := answer{Name: r.commands, OK: len(lacking) == 0, Detail: r.besides}
	if a.Detail != "" {
		a.Detail = "also requires: " + a.Detail
	}
	if !a.OK {
		a.Detail, a.Mend = "", "requires "+strings.Join(lacking, ", ")
		if r.without != "" && r.partly(h, err == nil) {
			a.Mend += "; on this kernel: " + r.without
		}
	}
	return a
}

// printCommands prints doctor's table of commands, of which many stand in a row.
func (a *app) printCommands(answers []answer) {
	terminal.Fprintln(a.out, "Commands")
	for _, c := range answers {
		word, text := "yes", c.Detail
		if !c.OK {
			word, text = "no", c.Mend
		}
		a.hanging(fmt.Sprintf("  %-4s", word), c.Name)
		if text != "" {
			a.hanging("        ", text)
		}
	}
}
