package cli

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/lab"
	"tare/platform"
	"tare/platform/k8s"
	"tare/platform/vm"
	"tare/record"
	"tare/report"
	"tare/terminal"
)

// printDesign is --dry-run.
func (a *app) printDesign(
	ctx context.Context,
	dir string,
	d lab.Design,
	takes time.Duration,
	platforms func(string) (platform.Platform, error),
) error {
	usable := func(name string) platform.Platform {
		p, err := platforms(name)
		if err != nil {
			return nil
		}
		return p
	}
	engines, bridges, containers, pods := false, false, false, false
	machines := machinery{}
	var notes []string
	trials, unit := 0, "block"
	if d.Plan.Design == record.DesignRounds {
		for _, g := range d.Groups {
			if _, why := lab.Sliceable(ctx, g, usable); why != "" {
				notes = append(notes, fmt.Sprintf("%s is measured in blocks: %s", g.Workload, why))
			} else {
				unit = "round"
			}
		}
	}
	for _, g := range d.Groups {
		terminal.Fprintf(a.out, "%s\n", g.Workload)
		var programs []string
		for _, c := range g.Conditions {
			var marks []string
			if c.Baseline && !g.Once {
				marks = append(marks, "baseline, twice in each "+unit)
			}
			// What was left open in a name is settled: a machine's engine.
			p, err := platforms(c.Platform)
			if err == nil {
				if p.Name() != c.Platform {
					marks = append(marks, p.Name())
				}
				if why := platform.NotRepresentative(p); why != "" {
					marks = append(marks, "not representative")
					if note := p.Name() + " is not representative: " + why; !slices.Contains(notes, note) {
						notes = append(notes, note)
					}
				}
				machines.add(p.Name())
			}
			mark := ""
			if len(marks) > 0 {
				mark = "  (" + strings.Join(marks, "; ") + ")"
			}
			terminal.Fprintf(a.out, "  %s%s\n", c.Label, mark)
			programs = appendNew(programs, programText(c, p))
			engines = engines || strings.HasPrefix(c.Platform, "docker")
			containers = containers || c.Platform == "containerd"
			pods = pods || c.Platform == k8s.Name
			bridges = bridges ||
				(strings.HasPrefix(c.Platform, "oci") || c.Platform == "containerd") &&
					c.Setting.Network == platform.NetworkBridge
		}
		for _, text := range programs {
			terminal.Fprintf(a.out, "  %s\n", text)
		}
		trials += g.Executions()
	}
	for _, n := range append(notes, d.Plan.Notes...) {
		terminal.Fprintf(a.out, "note: %s\n", n)
	}
	plural := strings.ToUpper(unit[:1]) + unit[1:] + "s"
	if unit == "round" {
		terminal.Fprintf(a.out, "\nOne round launches %s side by side, in an order drawn from seed %d, and loads them in short slices, in turn.\n", report.Counted(trials, "instance"), d.Seed)
	} else {
		terminal.Fprintf(a.out, "\nOne block is %s, in an order drawn from seed %d.\n", report.Counted(trials, "trial"), d.Seed)
	}
	switch {
	case d.Plan.Blocks > 0:
		terminal.Fprintf(a.out, "%s and a warm-up: about %v.\n", report.Counted(d.Plan.Blocks, unit), takes.Round(time.Second))
	case d.Plan.Budget > 0 && d.Plan.Precision == 0:
		terminal.Fprintf(a.out, "%s for %v.\n", plural, d.Plan.Budget)
	case d.Plan.Budget > 0:
		terminal.Fprintf(a.out, "%s until every half-width is %s %%, for at most %v.\n", plural, report.Rounded(100*d.Plan.Precision, 2), d.Plan.Budget)
	case unit == "round":
		terminal.Fprintf(a.out, "Rounds until every half-width is %s %%: eight at least.\n", report.Rounded(100*d.Plan.Precision, 2))
	default:
		terminal.Fprintf(a.out, "Blocks until every half-width is %s %%: after %s the number is known.\n", report.Rounded(100*d.Plan.Precision, 2), report.Counted(d.Plan.PilotBlocks, "block"))
	}
	if d.Explain != nil && unit == "round" {
		terminal.Fprintf(a.out, "Where a cost of 1 %% or more is established by then, the last two fifths of the time look for its layer (--explain=false leaves that out).\n")
	}
	if limit := d.Plan.FailAbove; limit > 0 {
		terminal.Fprintf(a.out, "Threshold: %s %% worse than the baseline. Exit code 0 if every interval lies at or below it, 4 if one lies above it, 5 otherwise.\n", report.Rounded(100*limit, 3))
	}
	if a.elsewhere != nil {
		dir = a.elsewhere.StateDir()
		services, _ := podServices(d)
		each, objects := 0, "a Lease and a Job"
		for _, pods := range services {
			each += pods
		}
		if each > 0 {
			objects = "a Lease, a Job and " + report.Counted(each, "Service")
		}
		terminal.Fprintf(a.out, "Made in the cluster, and removed after: a ConfigMap, and for each node %s.\nOn each node: ", objects)
	}
	terminal.Fprintf(a.out, "Touched, and removed after: cgroups below %s, mounts and directories below %s", platform.CgroupParent, dir)
	if engines {
		terminal.Fprintf(a.out, ", containers and images labelled tare in the Docker engine")
	}
	if containers {
		terminal.Fprintf(a.out, ", containers and images in containerd's namespace tare")
	}
	if pods {
		terminal.Fprintf(a.out, ", static pods of the node's kubelet, images in containerd's namespace k8s.io")
	}
	if bridges {
		terminal.Fprintf(a.out, ", a bridge tare0")
	}
	terminal.Fprintf(a.out, "%s", machines.touched(dir))
	terminal.Fprintf(a.out, ".\nKept: images and results below %s%s.\n", dir, machines.kept(dir))
	return nil
}

// programText says how a condition's program is executed, as far as that does not depend on
// its image, which a dry run does not open.
func programText(c lab.Condition, on platform.Platform) string {
	if c.Program == nil || c.Procedure != nil {
		return ""
	}
	p, _, err := lab.ProgramOf(c, on)
	if err != nil {
		return ""
	}
	command := "the image's entry point and command"
	switch {
	case len(p.Args) > 0:
		command = quotedWords(p.Args)
	case len(p.Command) > 0:
		command = "the image's entry point, if it has one, with " + quotedWords(p.Command)
	}
	environment := "the image's"
	if len(p.Env) > 0 {
		environment += ", with " + quotedWords(p.Record(p.Env))
	}
	return fmt.Sprintf("runs %s; directory: %s; user: %s; environment: %s", command, cmp.Or(p.Dir, "the image's"), cmp.Or(p.User, "the image's"), environment)
}

func quotedWords(words []string) string {
	text := make([]string, len(words))
	for i, w := range words {
		text[i] = strconv.Quote(w)
	}
	return strings.Join(text, " ")
}

func appendNew(all []string, text string) []string {
	if text == "" || slices.Contains(all, text) {
		return all
	}
	return append(all, text)
}

// machinery gives what the virtual machines of a design touch.
type machinery struct{ there bool }

func (m *machinery) add(name string) { m.there = m.there || vm.Is(name) }

func (m *machinery) touched(dir string) string {
	if !m.there {
		return ""
	}
	return fmt.Sprintf(", virtual machines with their disks below %s, a network link tare-v0, tare-v1, ... for each", filepath.Join(dir, "vm"))
}

func (m *machinery) kept(dir string) string {
	if !m.there {
		return ""
	}
	return fmt.Sprintf(", and below %s what machines boot from (its packages are fetched the first time)", filepath.Join(dir, "vm", "boot"))
}
