package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker/go-units"

	"tare/container"
	"tare/kernel/host"
	"tare/lab"
	"tare/record"
	"tare/report"
	"tare/terminal"
)

// situation is what the next steps depend on.
type situation struct {
	root      bool
	platforms []string // that can be used, as `tare doctor` names them
	runs      bool     // something has been measured
	stopped   string   // the newest run, where it can be finished
	running   string   // a container that runs
}

// A step is a command and what it answers.
type step struct {
	command, answers string
	root             bool // it requires root
}

// overview prints what tare is for, this host, and three commands to go on with. It changes nothing.
func (a *app) overview(ctx context.Context) error {
	dir, err := a.stateDir()
	if err != nil {
		return err
	}
	s := situation{root: os.Geteuid() == 0}
	var missing []string
	for _, p := range examinePlatforms(ctx, dir, "bare", "oci:runc", "oci:crun", "containerd", "docker") {
		if p.OK {
			s.platforms = append(s.platforms, p.Name)
		} else {
			missing = append(missing, p.Name)
		}
	}
	s.runs, s.stopped = a.lastRun()
	if found, _, err := container.Open(container.Options{}).All(ctx); err == nil {
		if i := slices.IndexFunc(found, func(c container.Container) bool { return c.Image != "" }); i >= 0 {
			s.running = found[i].Argument()
		}
	}
	terminal.Fprintf(a.out, "tare weighs what a container costs the program inside it, says why, and says\nwhat to set instead.\n\n")
	h := host.Read("/")
	rows := [][2]string{
		{
			"this host",
			fmt.Sprintf(
				"%s, %s of memory",
				report.Counted(h.CPUs, "CPU"),
				units.CustomSize("%.4g %s", float64(h.Memory), 1024, []string{"B", "KiB", "MiB", "GiB", "TiB"}),
			),
		},
		{"kernel", h.Kernel + ", control groups " + h.Cgroup},
		{"platforms", orNone(s.platforms)},
	}
	if len(missing) > 0 {
		rows = append(rows, [2]string{"not here", strings.Join(missing, ", ") + " (tare doctor says what mends it)"})
	}
	for _, r := range rows {
		terminal.Fprintf(a.out, "%-11s%s\n", r[0], r[1])
	}
	terminal.Fprintf(a.out, "\nNext:\n")
	// sudo does not pass the variable on.
	from := &app{home: cmp.Or(a.home, os.Getenv("TARE_HOME"))}
	for _, step := range s.next() {
		command := from.again(step.command)[0]
		if step.root && !s.root {
			command = "sudo " + command
		}
		terminal.Fprintf(a.out, "  %s\n      %s\n", command, step.answers)
	}
	terminal.Fprintf(a.out, "\ntare --help lists all commands.\n")
	return nil
}

func orNone(words []string) string {
	if len(words) == 0 {
		return "none that can be used"
	}
	return strings.Join(words, ", ")
}

// lastRun reports whether anything has been measured, and the newest run's id where it was stopped.
func (a *app) lastRun() (any bool, stopped string) {
	dir, err := a.stateDir()
	if err != nil {
		return false, ""
	}
	store, err := record.OpenReadOnly(filepath.Join(dir, storeFile)) // which migrates nothing
	if err != nil {
		return false, ""
	}
	defer store.Close()
	runs, err := store.Runs()
	if err != nil || len(runs) == 0 {
		return false, ""
	}
	newest := runs[0]
	killed := newest.Status == record.Running && !lab.Measuring(lab.LockPath)
	if newest.Status == record.Interrupted || killed {
		return true, newest.ID
	}
	return true, ""
}

// next are the three commands to go on with.
func (s situation) next() []step {
	engine := "docker"
	if !slices.Contains(s.platforms, engine) {
		if i := slices.IndexFunc(s.platforms, func(p string) bool { return strings.HasPrefix(p, "oci:") }); i >= 0 {
			engine = s.platforms[i]
		}
	}
	var steps []step
	if s.stopped != "" {
		steps = append(steps, step{"tare resume " + s.stopped, "finish the run that was stopped", true})
	}
	if !s.runs {
		steps = append(steps, step{"tare doctor", "what can be measured here, what is missing, and how quiet this host is", true},
			step{"tare weigh redis --quick", "what containers cost redis here, in about a minute", true})
	} else if s.stopped == "" {
		steps = append(steps, step{"tare show", "what the last run came to", false})
	}
	steps = append(steps, step{"tare weigh --image IMAGE --platform bare," + engine + " -- COMMAND", "what the container costs a program of yours", true})
	if s.running != "" {
		steps = append(steps, step{"tare causes " + terminal.Shell(s.running), "what keeps a container that runs off its CPUs", true})
	}
	steps = append(steps, step{"tare claims", "what five published studies say of containers, and what this host shows", false})
	return steps[:3]
}
