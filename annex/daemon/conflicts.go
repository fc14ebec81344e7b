package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/annex"
	"tare/annex/bound"
	"tare/annex/config"
	"tare/container"
	"tare/kernel/procfs"
)

// Lacking says what a host lacks for the extension to run there.
type Lacking struct{ What, Mend string }

func (l *Lacking) Error() string { return l.What + ": " + l.Mend }

// Unusable is a path of the configuration's at which nothing can be made.
type Unusable struct {
	Key string
	Err error
}

func (u *Unusable) Error() string { return fmt.Sprintf("%s: %v: name another path", u.Key, u.Err) }

func (u *Unusable) Unwrap() error { return u.Err }

// Conflict is another that manages memory, which would undo what the extension does, or the
// other way round.
type Conflict struct{ Manager, What, Mend string }

func (c *Conflict) Error() string { return fmt.Sprintf("%s %s: %s", c.Manager, c.What, c.Mend) }

// modules of the kernel's that reclaim by what they think is cold.
var modules = []struct{ name, what string }{
	{"damon_reclaim", "reclaims what it finds cold"},
	{"damon_lru_sort", "sorts the kernel's own lists by what it finds hot and cold"},
}

// Conflicts finds who manages the memory of containers already. root is "/", but in a test;
// properties asks systemd.
func Conflicts(
	ctx context.Context,
	root string,
	managed []container.Container,
	properties func(ctx context.Context, units []string) (string, error),
) (all []*Conflict, notes []string) {
	for _, m := range modules {
		file := filepath.Join(root, "sys/module", m.name, "parameters/enabled")
		if b, err := os.ReadFile(file); err == nil && strings.HasPrefix(strings.TrimSpace(string(b)), "Y") {
			all = append(all, &Conflict{"the kernel's " + m.name, m.what, "write N to " + file + ", or take it off the kernel's command line"})
		}
	}
	for _, dir := range damonMoves(root) {
		// A scheme may be of few pages or of another's memory: that is for the operator to say.
		notes = append(notes, (&Conflict{"DAMON", "moves or sorts pages by " + dir, "where those are containers', write off to the state of that kdamond, or end what has set it up (damo stop)"}).Error())
	}
	if !runsOOMD(root) || len(managed) == 0 {
		return all, notes
	}
	units := []string{rootSlice}
	for _, c := range managed {
		units = append(units, unitsOf(c.Cgroup)...)
	}
	slices.Sort(units)
	units = slices.Compact(units)
	text, err := properties(ctx, units)
	if err != nil {
		return all, append(notes, "systemd-oomd runs, and it is not known what it manages: "+err.Error())
	}
	for _, unit := range killed(text) {
		all = append(all, &Conflict{"systemd-oomd", "ends what is in " + unit + " when its swap fills or it waits for memory", "systemctl set-property -- " + unit + " ManagedOOMSwap=auto ManagedOOMMemoryPressure=auto"})
	}
	return all, notes
}

// damonMoves are the schemes of DAMON's that are at work and move pages, or sort the kernel's lists:
// Documentation/admin-guide/mm/damon/usage.rst.
func damonMoves(root string) (schemes []string) {
	states, _ := filepath.Glob(filepath.Join(root, "sys/kernel/mm/damon/admin/kdamonds/[0-9]*/state"))
	for _, state := range states {
		if b, err := os.ReadFile(state); err != nil || strings.TrimSpace(string(b)) != "on" {
			continue
		}
		actions, _ := filepath.Glob(filepath.Join(filepath.Dir(state), "contexts/[0-9]*/schemes/[0-9]*/action"))
		for _, action := range actions {
			b, err := os.ReadFile(action)
			if text := strings.TrimSpace(string(b)); err == nil && text != "stat" && text != "hugepage" && text != "nohugepage" {
				schemes = append(schemes, filepath.Dir(action))
			}
		}
	}
	return schemes
}

// conflictsEvery is how often it is looked for others that manage memory, while the daemon runs.
const conflictsEvery = time.Minute

// wary is a finder that tells of them, too, as they may be started at any time.
type wary struct {
	Finder
	conflicts func(context.Context, []container.Container) []string
	now       func() time.Time
	looked    time.Time
	notes     []string
}

func (w *wary) Find(ctx context.Context) ([]container.Container, []string, error) {
	all, notes, err := w.Finder.Find(ctx)
	if err != nil {
		return nil, nil, err
	}
	if now := w.now(); w.looked.IsZero() || now.Sub(w.looked) >= conflictsEvery {
		w.looked, w.notes = now, w.conflicts(ctx, all)
	}
	return all, slices.Concat(notes, w.notes), nil
}

// oomd is the name of the file of systemd-oomd, and oomdUser its user.
const oomd, oomdUser = "systemd-oomd", "systemd-oom"

// runsOOMD tells whether systemd-oomd runs. Any program may call itself so, and keep annexd from managing: its file,
// its user and its process namespace decide.
func runsOOMD(root string) bool {
	uids := []int{0}
	if u, err := user.Lookup(oomdUser); err == nil {
		if uid, err := strconv.Atoi(u.Uid); err == nil {
			uids = append(uids, uid)
		}
	}
	proc := procfs.FS(filepath.Join(root, "proc"))
	dirs, err := filepath.Glob(string(proc) + "/[0-9]*")
	if err != nil {
		return false
	}
	return slices.ContainsFunc(dirs, func(dir string) bool {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return false
		}
		p := proc.Process(pid)
		stat, err := p.Stat()
		return err == nil && stat.Comm == oomd && p.SharesPIDs() &&
			slices.ContainsFunc(uids, func(uid int) bool { return p.Runs(uid, []string{oomd}) })
	})
}

// rootSlice is the unit that every control group is in, and that no path names. Where swap is
// watched at all it is mostly for this one: systemd-oomd then ends whoever has most of it.
const rootSlice = "-.slice"

// unitsOf are the units of systemd's that a control group is in, besides that of the root.
func unitsOf(dir string) (units []string) {
	for _, part := range strings.Split(dir, "/") {
		switch filepath.Ext(part) {
		case ".slice", ".scope", ".service":
			units = append(units, part)
		}
	}
	return units
}

// killed reads what systemctl show says of units, parted by empty lines, and names those
// that systemd-oomd may end.
func killed(text string) (units []string) {
	for _, unit := range strings.Split(text, "\n\n") {
		id, kill := "", false
		for _, line := range strings.Split(unit, "\n") {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			switch key {
			case "Id":
				id = value
			case "ManagedOOMSwap", "ManagedOOMMemoryPressure":
				kill = kill || value == "kill"
			}
		}
		if kill && id != "" {
			units = append(units, id)
		}
	}
	return units
}

// systemdPatience is how long systemd may take to answer.
const systemdPatience = 5 * time.Second

// askSystemd asks systemd what systemd-oomd is to do with units.
func askSystemd(ctx context.Context, units []string) (string, error) {
	return showUnits(ctx, "Id,ManagedOOMSwap,ManagedOOMMemoryPressure", units...)
}

// showUnits has systemd tell properties of units, parted by empty lines.
func showUnits(ctx context.Context, properties string, units ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, systemdPatience)
	defer cancel()
	args := append([]string{"show", "--property=" + properties, "--"}, units...)
	out, err := exec.CommandContext(ctx, "systemctl", args...).Output()
	if ctx.Err() != nil {
		err = fmt.Errorf("no answer within %v", systemdPatience)
	}
	if err != nil {
		return "", fmt.Errorf("systemctl show: %w", err)
	}
	return string(out), nil
}

// unitOf asks systemd for a unit.
func unitOf(ctx context.Context, name string) (bound.Unit, error) {
	text, err := showUnits(ctx, "ControlGroup,MemoryLow", name)
	if errors.Is(err, exec.ErrNotFound) {
		return bound.Unit{}, nil // no systemd owns the group
	}
	if err != nil {
		return bound.Unit{}, err
	}
	return parseUnit(text), nil
}

func parseUnit(text string) (u bound.Unit) {
	for line := range strings.Lines(text) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key {
		case "ControlGroup":
			u.Group = value
		case "MemoryLow":
			u.MemoryLow = value
		}
	}
	return u
}

// warn tells of others that manage memory, whatever the mode is.
func warn(ctx context.Context, c config.Config, found []container.Container) []string {
	c.Mode = config.Observe
	notes, _ := check(ctx, c, found)
	return notes
}

// check refuses a host on which the extension must not manage. The notes are what is not
// known.
func check(ctx context.Context, c config.Config, found []container.Container) ([]string, error) {
	managed := slices.DeleteFunc(
		slices.Clone(found),
		func(one container.Container) bool { return c.Class(one) == annex.Ignored },
	)
	conflicts, notes := Conflicts(ctx, "/", managed, askSystemd)
	if len(conflicts) == 0 {
		return notes, nil
	}
	var all []error
	for _, one := range conflicts {
		if c.Mode == config.Observe {
			notes = append(notes, one.Error())
			continue
		}
		all = append(all, one)
	}
	return notes, errors.Join(all...)
}
