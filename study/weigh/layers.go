package weigh

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tare/lab"
	"tare/overhead"
	"tare/platform"
	"tare/record"
	"tare/workload"
)

const (
	// gate is the part of the error rate that is spent where a cost is looked for in order
	// to explain it. What is found later is judged as if there had been no such look, which
	// so strict a one hardly touches (Haybittle 1971, Peto et al. 1976).
	gate = 0.1
	// leastCost is the least percentage that is divided among layers.
	leastCost = 1.0
	// layerMargin is the ratio-effect within which what a layer leaves counts as nothing.
	layerMargin = 0.005
)

// layersName is a workload's name where its cost is divided among layers.
func layersName(workload string) string { return workload + " layers" }

// Explain gives [lab.Design.Explain]: for each workload the layers of the condition that
// costs most, where that is established and bare metal is the baseline.
func Explain(o Options, d lab.Design) func(record.Run) ([]lab.Group, record.Plan, error) {
	return func(run record.Run) ([]lab.Group, record.Plan, error) {
		plan := run.Plan
		plan.Layers = maps.Clone(plan.Layers)
		if plan.Layers == nil {
			plan.Layers = map[string]record.LayerPlan{}
		}
		var groups []lab.Group
		for _, g := range d.Groups {
			known, before := plan.Layers[layersName(g.Workload)]
			if !before {
				var found bool
				if known, found = costliest(run, g); !found {
					continue
				}
			}
			group, layers, ok := o.layers(g, known, run.Host)
			if !ok {
				continue
			}
			plan.Layers[group.Workload] = layers
			groups = append(groups, group)
		}
		return groups, plan, nil
	}
}

// costliest finds the condition of a group that costs most, and the metric.
func costliest(run record.Run, g lab.Group) (plan record.LayerPlan, found bool) {
	level := run.Plan.Level
	if level == 0 {
		level = DefaultLevel
	}
	rep := overhead.Analyse(run, overhead.Options{Level: 1 - gate*(1-level)})
	most := leastCost
	for _, of := range rep.Groups {
		if of.Workload != g.Workload || !of.Rounds {
			continue
		}
		for _, m := range of.Primaries() {
			for _, r := range m.Rows {
				costs := r.Verdict == overhead.Worse || r.Verdict == overhead.Equivalent && r.AdjustedLow > 0
				if !costs || r.Percent < most || r.NotRepresentative != "" {
					continue
				}
				most, found = r.Percent, true
				plan.Of, plan.Condition, plan.Metric = g.Workload, r.Condition, m.Name
			}
		}
	}
	return plan, found
}

// variant is a condition without one layer, or with fewer.
type variant struct {
	layer    string
	platform string
	setting  platform.Setting
}

// layers makes the group that divides a condition's cost.
func (o Options) layers(
	g lab.Group, plan record.LayerPlan, host record.Host,
) (group lab.Group, _ record.LayerPlan, ok bool) {
	at := slices.IndexFunc(g.Conditions, func(c lab.Condition) bool { return c.ID == plan.Condition })
	bare := slices.IndexFunc(g.Conditions, func(c lab.Condition) bool { return c.Baseline })
	if at < 0 || bare < 0 || g.Conditions[bare].Platform != "bare" {
		return group, plan, false
	}
	whole := g.Conditions[at]
	group = lab.Group{Workload: layersName(g.Workload)}
	if sliced, ok := whole.Program.(workload.Sliced); ok {
		for _, m := range sliced.SliceMetrics(whole.Params) {
			if m.Name == plan.Metric {
				group.Drive = driveOf(sliced, whole.Params, m.Part)
			}
		}
	}
	plan.Steps, plan.Absent, plan.Margin = nil, nil, layerMargin
	add := func(name string, s platform.Setting, baseline bool) string {
		c := whole
		text := conditionLabel(name, s)
		c.ID, c.Label, c.Workload = group.Workload+"@"+strings.ReplaceAll(text, " ", ","), text, group.Workload
		c.Platform, c.Setting, c.Baseline = name, s, baseline
		for _, known := range group.Conditions {
			if known.ID == c.ID {
				return c.ID
			}
		}
		group.Conditions = append(group.Conditions, c)
		return c.ID
	}
	plan.Bare = add(g.Conditions[bare].Platform, g.Conditions[bare].Setting, true)
	plan.Whole = add(whole.Platform, whole.Setting, false)
	absent := func(layer, why string) { plan.Absent = append(plan.Absent, layer+": "+why) }
	can := func(v variant) bool {
		p, err := o.Host.Platform(v.platform)
		if err == nil {
			err = o.Host.Check(p)
		}
		if err == nil {
			err = p.Supports(v.setting)
		}
		if err != nil {
			var no *platform.Unsupported
			if errors.As(err, &no) {
				absent(v.layer, fmt.Sprintf("%s has no %s", v.platform, no.Key))
			} else {
				absent(v.layer, err.Error())
			}
		}
		return err == nil
	}
	for _, v := range removable(whole, host, absent) {
		if can(v) {
			without := add(v.platform, v.setting, false)
			plan.Steps = append(plan.Steps, record.LayerStep{
				Layer: v.layer, Without: without, With: plan.Whole, Removed: true,
			})
		}
	}
	below := plan.Bare
	for _, v := range rungsTo(whole) {
		if !can(v) {
			break // what comes next would be compared without it
		}
		with := add(v.platform, v.setting, false)
		if with != below {
			plan.Steps = append(plan.Steps, record.LayerStep{Layer: v.layer, Without: below, With: with})
		}
		below = with
	}
	return group, plan, len(plan.Steps) > 0
}

// driveOf is the drive by which a part is measured; empty where that is several parts' one.
func driveOf(w workload.Sliced, p workload.Params, part string) string {
	drives, err := w.Drives(p)
	if err != nil {
		return "" // the group has been measured by others
	}
	for _, d := range drives {
		if d.Name == part && d.HalfOf == "" {
			return part
		}
	}
	return ""
}

// removable are the layers that one setting takes away from a condition.
func removable(c lab.Condition, host record.Host, absent func(layer, why string)) []variant {
	var all []variant
	without := func(layer string, change func(*platform.Setting)) {
		s := c.Setting
		change(&s)
		all = append(all, variant{layer, c.Platform, s})
	}
	if c.Platform == "cgroup" {
		return nil
	}
	if c.Setting.Network != "" && c.Setting.Network != platform.NetworkHost {
		without("the network path", func(s *platform.Setting) { s.Network = "" }) // the host's
	}
	if c.Setting.Seccomp != "unconfined" {
		without("the seccomp filter", func(s *platform.Setting) { s.Seccomp = "unconfined" })
	}
	switch {
	case c.Setting.LSM == "unconfined":
	case host.LSM == "" || !strings.Contains(host.LSM, "apparmor") && !strings.Contains(host.LSM, "selinux"):
		absent("the security module", "no module that confines containers is active")
	default:
		without("the security module", func(s *platform.Setting) { s.LSM = "unconfined" })
	}
	if c.Setting.CPUs > 0 {
		without("the CPU quota", func(s *platform.Setting) { s.CPUs, s.CPUPeriod, s.CPUBurst = 0, 0, 0 })
	}
	if c.Setting.Memory > 0 {
		without("the memory limit", func(s *platform.Setting) { s.Memory = 0 })
	}
	if c.Platform == "docker" && c.Setting.LogDriver != "none" {
		without("the log driver", func(s *platform.Setting) { s.LogDriver = "none" })
	}
	return all
}

// rungsTo adds layers one after the other: those of an OCI runtime, and the condition's
// engine, all on the host's network.
func rungsTo(c lab.Condition) []variant {
	with := func(change func(*platform.Setting)) platform.Setting {
		s := c.Setting
		s.Network, s.LogDriver, s.Runtime = "", "", ""
		change(&s)
		return s
	}
	group := variant{"the control group", "cgroup", with(func(s *platform.Setting) {
		s.Root, s.Seccomp, s.LSM = "", "", ""
	})}
	if c.Platform == "cgroup" {
		return []variant{group}
	}
	all := []variant{
		group,
		{"namespaces and capabilities", "oci:runc", with(func(s *platform.Setting) {
			s.Root, s.Seccomp = platform.RootDir, "unconfined"
		})},
		{"the seccomp filter", "oci:runc", with(func(s *platform.Setting) { s.Root = platform.RootDir })},
		{"the overlay file system", "oci:runc", with(func(*platform.Setting) {})},
	}
	switch {
	case c.Platform == "oci:runc":
	case strings.HasPrefix(c.Platform, "oci:"):
		all = append(all, variant{"the runtime", c.Platform, with(func(*platform.Setting) {})})
	default:
		all = append(all, variant{"the engine", c.Platform, with(func(*platform.Setting) {})})
	}
	return all
}
