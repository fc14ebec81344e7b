package overhead

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"tare/record"
	"tare/workload"
)

// Redact gives a copy of a run that can be shown to strangers: without the
// host's name, the kernel's command line, what the user's own program was
// called with, environments and cgroup paths; and with every other path, user
// name and mention of the host replaced wherever it stands. Equal paths get
// equal names, so that conditions stay apart. What was measured is untouched.
func Redact(run record.Run) record.Run {
	r := newRedactor(run)
	out := run
	out.Host.Hostname, out.Host.Machine, out.Host.CmdLine = "", "", ""
	out.Host.Mitigated = maps.Clone(run.Host.Mitigated)
	out.Host.Versions = r.values(run.Host.Versions)
	out.Command = r.command(run.Command)
	out.Reason = r.text(run.Reason)
	out.Plan.Notes = r.texts(run.Plan.Notes)
	if part := run.Plan.Part; part != nil {
		// A node's name is its host's, and the id ends with it.
		out.ID, out.Plan.Part = part.Study, &record.Part{Study: part.Study}
	}
	if imported := run.Plan.Imported; imported != nil {
		hidden := *imported
		hidden.Order, hidden.Host = r.text(imported.Order), r.text(imported.Host)
		hidden.Unjudged = r.text(imported.Unjudged)
		hidden.FewProcesses = r.texts(imported.FewProcesses)
		if imported.UnjudgedOf != nil {
			hidden.UnjudgedOf = map[string]string{}
			for id, why := range imported.UnjudgedOf {
				hidden.UnjudgedOf[r.text(id)] = r.text(why)
			}
		}
		hidden.Sources = slices.Clone(imported.Sources)
		for i := range hidden.Sources {
			hidden.Sources[i].Name = r.text(hidden.Sources[i].Name)
		}
		out.Plan.Imported = &hidden
	}
	if run.Plan.Targets != nil {
		out.Plan.Targets = map[string]int{}
		for workload, blocks := range run.Plan.Targets {
			out.Plan.Targets[r.text(workload)] = blocks
		}
	}
	if run.Plan.Rounds != nil {
		out.Plan.Rounds = map[string]record.RoundPlan{}
		for workload, rounds := range run.Plan.Rounds {
			out.Plan.Rounds[r.text(workload)] = rounds
		}
	}
	if run.Plan.Blocked != nil {
		out.Plan.Blocked = map[string]string{}
		for workload, reason := range run.Plan.Blocked {
			out.Plan.Blocked[r.text(workload)] = r.text(reason)
		}
	}
	if run.Plan.Layers != nil {
		out.Plan.Layers = map[string]record.LayerPlan{}
		for workload, plan := range run.Plan.Layers {
			out.Plan.Layers[r.text(workload)] = r.layers(plan)
		}
	}

	out.Conditions = slices.Clone(run.Conditions)
	for i := range out.Conditions {
		c := &out.Conditions[i]
		// A label has the end of an image's path alone, which would not be seen to be one.
		if label, _, ok := strings.Cut(c.Label, " image="); ok {
			_, path, _ := strings.Cut(c.ID, ",image=")
			c.Label = label + " image=" + path
		}
		c.ID, c.Label, c.Workload = r.text(c.ID), r.text(c.Label), r.text(c.Workload)
		c.Params = workload.Params(r.values(c.Params))
		c.ImageRef, c.Version, c.NotRepresentative = r.text(c.ImageRef), r.text(c.Version), r.text(c.NotRepresentative)
		if run.Plan.Imported != nil { // its platforms and levels are whatever somebody called them
			c.Platform, c.Factors = r.text(c.Platform), r.values(c.Factors)
		}
		c.Metrics = slices.Clone(c.Metrics)
		for j := range c.Metrics {
			c.Metrics[j].Doc = r.text(c.Metrics[j].Doc)
		}
		c.Process = nil // a command line may hold anything
		if c.InForce == nil {
			continue
		}
		force := *c.InForce
		force.Env, force.Cgroups = nil, nil
		force.LSM, force.Stdin, force.Stdout = r.text(force.LSM), r.text(force.Stdin), r.text(force.Stdout)
		c.InForce = &force
	}
	out.Trials = slices.Clone(run.Trials)
	for i := range out.Trials {
		t := &out.Trials[i]
		t.Condition, t.Workload = r.text(t.Condition), r.text(t.Workload)
		t.Error = r.text(t.Error)
		t.Taint = r.taint(t.Taint)
		t.Slices = slices.Clone(t.Slices)
		for j := range t.Slices {
			slice := &t.Slices[j]
			slice.Previous, slice.Taint = r.text(slice.Previous), r.taint(slice.Taint)
		}
	}
	return out
}

func (r *redactor) layers(plan record.LayerPlan) record.LayerPlan {
	plan.Of, plan.Condition = r.text(plan.Of), r.text(plan.Condition)
	plan.Whole, plan.Bare, plan.Absent = r.text(plan.Whole), r.text(plan.Bare), r.texts(plan.Absent)
	plan.Steps = slices.Clone(plan.Steps)
	for i := range plan.Steps {
		step := &plan.Steps[i]
		step.Without, step.With = r.text(step.Without), r.text(step.With)
	}
	return plan
}

// loudest is what a taint says of other people's programs.
var loudest = regexp.MustCompile(` \([^()]* most\)`)

// redactor replaces what must not be seen.
type redactor struct {
	paths map[string]string
	names []replacement
	keep  map[string]bool // what has a slash and is no path: platforms
}

type replacement struct {
	pattern *regexp.Regexp
	with    string
}

// A path is whatever has a slash, up to what separates words in messages,
// lists and options: better a rate too many than a directory too few.
var (
	anyPath  = regexp.MustCompile("[^\\s\"'`,;:()<>|=@]*/[^\\s\"'`,;:()<>|]*")
	rate     = regexp.MustCompile(`^[A-Za-z%]+/s$`) // "requests/s"
	fileName = regexp.MustCompile(`[A-Za-z0-9_.-]+\.(?:yaml|yml|tar|tgz|gz|xz|zst|json|html|db|csv|txt|log|sh)\b`)
	home     = regexp.MustCompile(`(?:/home/|/Users/|~)([A-Za-z0-9_][A-Za-z0-9_.-]*)`)
)

func newRedactor(run record.Run) *redactor {
	r := &redactor{paths: map[string]string{}, keep: map[string]bool{}}
	users := map[string]bool{}
	look := func(text string) {
		for _, match := range home.FindAllStringSubmatch(text, -1) {
			users[match[1]] = true
		}
	}
	for _, text := range run.Command {
		look(text)
	}
	look(run.Reason)
	for _, c := range run.Conditions {
		r.keep[c.Platform] = run.Plan.Imported == nil
		look(c.ID)
		look(c.ImageRef)
	}
	for _, t := range run.Trials {
		look(t.Error)
	}
	if run.Host.Hostname != "" {
		r.hide(run.Host.Hostname, "[host]")
		if short, _, dotted := strings.Cut(run.Host.Hostname, "."); dotted {
			r.hide(short, "[host]")
		}
	}
	for _, user := range slices.Sorted(maps.Keys(users)) {
		if user != "root" { // everyone's
			r.hide(user, "[user]")
		}
	}
	return r
}

// hide replaces a name where it stands as a whole word.
func (r *redactor) hide(name, with string) {
	r.names = append(
		r.names,
		replacement{regexp.MustCompile(`(^|[^A-Za-z0-9])` + regexp.QuoteMeta(name) + `($|[^A-Za-z0-9])`), "${1}" + with + "${2}"},
	)
}

func (r *redactor) text(s string) string {
	for _, pattern := range []*regexp.Regexp{anyPath, fileName} {
		s = pattern.ReplaceAllStringFunc(s, func(match string) string {
			if r.keep[match] || rate.MatchString(match) {
				return match
			}
			return r.path(match)
		})
	}
	for _, n := range r.names {
		// Twice: of two names side by side the first takes the space between.
		s = n.pattern.ReplaceAllString(n.pattern.ReplaceAllString(s, n.with), n.with)
	}
	return s
}

func (r *redactor) path(p string) string {
	name, ok := r.paths[p]
	if !ok {
		name = fmt.Sprintf("[path-%d]", len(r.paths)+1)
		r.paths[p] = name
	}
	return name
}

func (r *redactor) texts(list []string) []string {
	if list == nil {
		return nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = r.text(s)
	}
	return out
}

// taint keeps the causes without the names of other people's programs.
func (r *redactor) taint(causes []string) []string {
	out := r.texts(causes)
	for i := range out {
		out[i] = loudest.ReplaceAllString(out[i], "")
	}
	return out
}

func (r *redactor) values(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for key, value := range m {
		out[key] = r.text(value)
	}
	return out
}

// secretFlags are those whose values may be secrets, or name people.
var secretFlags = []string{"--env", "--user", "--entrypoint"}

// command keeps the program's bare name and tare's own arguments. What follows
// "--" is the user's program, of which any word may be a secret.
func (r *redactor) command(args []string) []string {
	if args == nil {
		return nil
	}
	var out []string
	for i, arg := range args {
		flag, _, given := strings.Cut(arg, "=")
		switch {
		case i == 0:
			out = append(out, filepath.Base(arg))
		case arg == "--":
			return append(out, "--", "[command]")
		case slices.Contains(secretFlags, args[i-1]):
			out = append(out, "[value]")
		case slices.Contains(secretFlags, flag) && given:
			out = append(out, flag+"=[value]")
		default:
			out = append(out, r.text(arg))
		}
	}
	return out
}
