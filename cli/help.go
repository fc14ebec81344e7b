package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"tare/cli/command"
)

// commandGroups are the commands as help lists them.
var commandGroups = []struct {
	id, title string
	commands  []string
}{
	{"start", "Start here:", []string{"doctor", "weigh", "workloads"}},
	{"running", "Look at containers that run:", []string{"diagnose", "causes", "pages", "faults", "place", "predict", "advise"}},
	{"studies", "Repeat published studies:", []string{"startup", "platforms", "density", "latency", "io", "gpu", "reproduce", "claims"}},
	{"results", "Results:", []string{"show", "runs", "compare", "export", "import", "resume"}},
	{"upkeep", "Upkeep:", []string{"clean", "completion", "help"}},
}

// leadingFlags are the flags of a command that most users need: short help shows these. A command that
// is not here shows all of its flags.
var leadingFlags = map[string][]string{
	"tare weigh":           {"platform", "vary", "baseline", "image", "rootfs", "workload", "cpus", "memory", "budget", "fail-above", "quick", "dry-run"},
	"tare startup":         {"platform", "rate", "workload", "image", "single", "profile", "cpus", "memory", "budget", "quick"},
	"tare pages":           {"all", "pid", "workload", "copies", "for", "contents", "budget", "quick", "json"},
	"tare faults":          {"pid", "workload", "copies", "for", "aslr", "budget", "quick", "json"},
	"tare latency cpu":     {"experiment", "platform", "quota", "period", "rate", "cpuset-cpus", "budget", "quick", "full"},
	"tare latency network": {"path", "size", "connection", "budget", "quick", "full"},
	"tare latency files":   {"size", "layers", "platform", "budget", "quick", "full"},
	"tare platforms":       {"workload", "platform", "cpus", "preset", "instance", "budget", "quick", "full"},
	"tare density":         {"neighbours", "box", "swap", "protect", "order", "budget", "quick", "full"},
	"tare gpu":             {"platform", "program", "build", "cache", "share", "budget", "quick"},
	"tare io stream":       {"platform", "storage", "elements", "processes", "budget", "quick", "full"},
	"tare io haccio":       {"platform", "storage", "particles", "ranks", "cache", "budget", "quick", "full"},
	"tare io redis":        {"platform", "command", "payload", "storage", "network", "appendonly", "budget", "quick", "full"},
	"tare predict quota":   {"rate", "quota", "period", "p99", "validate", "platform", "budget", "quick"},
	"tare place":           {"all", "pid", "for", "apply", "undo", "dry-run", "quick", "json"},
	"tare import":          {"format", "condition", "baseline", "value", "unit", "better", "block", "name", "claim"},
}

// arrange puts commands into the groups of help, and marks the flags that short help shows.
func arrange(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	group := map[string]string{}
	for _, g := range commandGroups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, name := range g.commands {
			group[name] = g.id
		}
	}
	for _, c := range root.Commands() {
		c.GroupID = group[c.Name()]
	}
	for path, flags := range leadingFlags {
		c, _, err := root.Find(strings.Fields(path)[1:])
		must(err)
		command.Leading(c, flags...)
	}
}
