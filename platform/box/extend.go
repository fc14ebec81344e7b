package box

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"tare/annex"
	"tare/annex/bound"
	"tare/annex/config"
	"tare/annex/control"
	"tare/annex/guard"
	"tare/kernel/cgroup"
	"tare/kernel/file"
	"tare/kernel/process"
	"tare/platform"
	"tare/platform/held"
)

// An extended box has annexd beside it: a process of this program's own, outside of the
// box and at no other class than ordinary programs, which defends the box's memory by
// moving pages of the idle class. All that it keeps lies in a directory of the box's. It is
// in a control group of its own, as its unit has it be, which weighs as much on the
// processors as the box beside it.

// extendDirectory is where those directories are, below a state directory.
const extendDirectory = "annex"

// Files of such a directory.
const (
	configFile  = "annex.toml"
	socketFile  = "sock"
	pidFile     = "pid"  // the daemon's id and start
	saidFile    = "said" // its output
	logFile     = "decisions.jsonl"
	stateFiles  = "state"   // its own: journal, lock, account of writes
	journalFile = "journal" // in it, of the settings that it changed
)

// Extender is the program that extends boxes.
const Extender = "annexd"

// longestSocket is a Unix socket's path at most: sun_path of unix(7), less its end.
const longestSocket = 107

// FindProgram finds a program of ours: beside this one's executable, or on PATH.
func FindProgram(name string) (string, error) { return findProgram(name, os.Executable) }

func findProgram(name string, self func() (string, error)) (string, error) {
	own, err := self()
	if err == nil {
		beside := filepath.Join(filepath.Dir(own), name)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return beside, nil
		}
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, name))
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return filepath.Join(dir, name), nil
		}
	}
	return "", fmt.Errorf("%s is neither beside %s nor on PATH", name, own)
}

// extender is the daemon's executable.
func (m *Maker) extender() (string, error) {
	if m.options.Extender != "" {
		return m.options.Extender, nil
	}
	program, err := FindProgram(Extender)
	if err != nil {
		return "", &platform.Missing{What: err.Error(), Mend: fmt.Sprintf("install %s (`make build` makes bin/%s), or leave --extend out", Extender, Extender)}
	}
	return program, nil
}

// extendable refuses an extension that cannot be had.
func (m *Maker) extendable(s platform.BoxSpec) error {
	if s.Extend == platform.ExtendNone {
		return nil
	}
	if socket := filepath.Join(m.extension(s.Name), socketFile); len(socket) > longestSocket {
		return &Invalid{fmt.Sprintf("the socket %s of a memory extension", socket), fmt.Sprintf("the kernel takes %d characters: take a shorter state directory", longestSocket)}
	}
	if _, err := configuration(s, m.extension(s.Name)); err != nil {
		return err
	}
	_, err := m.extender()
	return err
}

// extension is a box's directory for it.
func (m *Maker) extension(name string) string {
	return filepath.Join(m.options.StateDir, extendDirectory, name)
}

// configuration is what annexd is given for a box: everything as the box's own file says, or
// as it is by default, but for what is defended, by how much of it, who is in which class,
// and where its files lie.
func configuration(s platform.BoxSpec, dir string) (config.Config, error) {
	c, err := config.Parse("the configuration of the box's memory extension", []byte(s.ExtendConfig))
	if err != nil {
		return c, err
	}
	c.Mode = config.Manage
	whole := path.Join(platform.CgroupParent, s.Name)
	if s.Kind == platform.BoxGroup {
		c.Memory.Defend = whole
	}
	// The same room that protection by headroom keeps, and its proportions.
	usual := config.Default().Memory
	c.Memory.Headroom = Headroom(s.Memory)
	c.Memory.High = c.Memory.Headroom * usual.High / usual.Headroom
	c.Memory.Reserve = c.Memory.Headroom * usual.Reserve / usual.Headroom
	below := func(c platform.Class) string { return config.Literal(path.Join(whole, string(c))) + "/*" }
	c.Rules = []config.Rule{
		{Class: annex.Critical, Cgroup: below(platform.Critical)},
		{Class: annex.Elastic, Cgroup: below(platform.Idle)},
	}
	c.Control = config.Control{Socket: filepath.Join(dir, socketFile)}
	c.Log.File = filepath.Join(dir, logFile)
	c.State.Directory = filepath.Join(dir, stateFiles)
	// With the rest of what is the box's, where its removal looks for it.
	c.State.Journal = filepath.Join(dir, stateFiles, journalFile)
	return c, nil
}

// kindExtension is a directory of an extension's, with its daemon; ID: its path.
const kindExtension = "memory extension"

// takeExtension has annexd beside the box, and returns when that manages it.
func (b *madeBox) takeExtension(ctx context.Context, m *Maker) error {
	if b.spec.Extend == platform.ExtendNone {
		return nil
	}
	program, err := m.extender()
	if err != nil {
		return err
	}
	dir := m.extension(b.spec.Name)
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("there is a %s already: `tare clean` removes what a killed tare left", dir)
	}
	config, err := configuration(b.spec, dir)
	if err != nil {
		return err
	}
	group, err := b.takeExtender(ctx, dir)
	if err != nil {
		return err
	}
	return b.take(ctx, kindExtension, dir, nil, func() error {
		for _, d := range []string{filepath.Dir(dir), dir, filepath.Join(dir, stateFiles)} {
			if err := file.Private(d); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(dir, configFile), []byte(config.String()), 0o600); err != nil {
			return err
		}
		var err error
		if b.extension, err = startExtender(program, dir); err != nil {
			return err
		}
		if err := group.Add(b.extension.PID); err != nil {
			return fmt.Errorf("give %s a control group of its own: %w", Extender, err)
		}
		return b.extension.ready(ctx)
	}, func(ctx context.Context) error {
		if b.extension != nil {
			if err := b.extension.end(ctx); err != nil {
				return err
			}
		}
		return removeExtension(ctx, dir)
	})
}

// extenderGroup is the group that a box's daemon runs in, beside the box's: no box has such a
// name. On version 1 it weighs, and nothing else.
func extenderGroup(l cgroup.Layout, box string) (g cgroup.Group, ok bool) {
	place, ok := l.At(path.Join(platform.CgroupParent, box+"_"+Extender)).For("cpu")
	return cgroup.Group{Places: []cgroup.Place{place}}, ok
}

// takeExtender makes it. It goes when the daemon's directory has: until then its guard may be
// in it, at putting back what was set.
func (b *madeBox) takeExtender(ctx context.Context, dir string) (cgroup.Group, error) {
	group, ok := extenderGroup(b.layout, b.spec.Name)
	if !ok {
		return cgroup.Group{}, nil // nothing is weighed here
	}
	if group.Exists() {
		return cgroup.Group{}, fmt.Errorf("there is a cgroup %s already: `tare clean` removes what a killed tare left", group)
	}
	return group, b.things.Take(ctx, held.CgroupEntry(Entered, group), func() error { return group.Create("cpu") },
		func(ctx context.Context) error {
			if _, err := os.Lstat(dir); err == nil {
				return fmt.Errorf("cgroup %s stays as long as %s is there", group, dir)
			}
			return held.EndGroup(ctx, group)
		})
}

// Bounds of the daemon's steps.
const (
	readyWithin   = 30 * time.Second // it looks for containers first, and engines may be slow
	answersWithin = 10 * time.Second
	endsWithin    = 10 * time.Second // it puts settings back, and is killed after
	guardWithin   = 10 * time.Second // what puts them back after it was
)

// removeExtension ends the daemon of a directory where it is left, has its settings put
// back, and removes the directory.
func removeExtension(ctx context.Context, dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, pidFile))
	if err == nil {
		pid, start, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		id, err := process.ParseIdentity(pid, start)
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(dir, pidFile), err)
		}
		if err := endProcess(ctx, id, endsWithin); err != nil {
			return fmt.Errorf("end %s of %s: %w", Extender, dir, err)
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := recoverSettings(ctx, filepath.Join(dir, stateFiles, journalFile)); err != nil {
		return fmt.Errorf("put back what %s had set: %w", Extender, err)
	}
	if err := removeClaim(filepath.Join(dir, configFile)); err != nil {
		return fmt.Errorf("remove the claim that %s had: %w", Extender, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	// Of the last box, the directory too; others' keep it.
	_ = os.Remove(filepath.Dir(dir))
	return nil
}

// recoverSettings puts back what a daemon's journal lists. Its guard does that too, at its
// end, and is waited for.
func recoverSettings(ctx context.Context, journal string) error {
	if _, err := os.Lstat(journal); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, guardWithin)
	defer cancel()
	_, err := guard.Recover(waiting, guard.Options{Journal: journal})
	return err
}

// claims is where daemons claim what they defend: of tests, elsewhere.
var claims = bound.ClaimDirectory

// removeClaim removes the file by which a daemon that was killed had claimed what its
// configuration has it defend. Without one that can be read no daemon ran.
func removeClaim(file string) error {
	c, err := config.Load(file)
	if err != nil {
		return nil
	}
	group := c.Memory.Defend
	if group == config.Host {
		group = ""
	}
	return bound.Unclaim(claims, group)
}

// endProcess asks a process to end, and kills it where it does not within a time.
func endProcess(ctx context.Context, id process.Identity, within time.Duration) error {
	h, err := id.Open()
	if errors.Is(err, process.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.Close()
	if err := h.Signal(int(syscall.SIGTERM)); err != nil && !errors.Is(err, process.ErrGone) {
		return err
	}
	asked, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if h.Await(asked) == nil {
		return nil
	}
	return id.Kill(ctx)
}

// ownExtension refuses a path that no extension of this state directory has.
func (r remover) ownExtension(dir string) error {
	if filepath.Dir(dir) != filepath.Join(r.stateDir, extendDirectory) || !nameShape.MatchString(filepath.Base(dir)) {
		return fmt.Errorf("%q is no memory extension of %s: it is left alone", dir, r.stateDir)
	}
	return nil
}

// readExtension is what the daemon tells.
func (b *madeBox) readExtension(ctx context.Context, r *platform.BoxReading) error {
	if b.extension == nil {
		return nil
	}
	s, err := b.extension.status(ctx)
	if err != nil {
		r.Notes = append(r.Notes, err.Error())
		return fmt.Errorf("box %s is not extended as it was asked for: %w", b.spec.Name, err)
	}
	if s.State != control.Managing {
		err := fmt.Errorf("%s is %s, and not %s", Extender, s.State, control.Managing)
		r.Notes = append(r.Notes, err.Error())
		return fmt.Errorf("box %s is not extended as it was asked for: %w", b.spec.Name, err)
	}
	reading := extensionReading(s)
	r.Extension = &reading
	for _, w := range s.Warnings {
		r.Notes = append(r.Notes, Extender+": "+w)
	}
	return nil
}

// extensionReading is a status as a box tells it. Predictors' scores are each context's
// own there, and pooled here by what they rest on.
func extensionReading(s control.Status) platform.ExtensionReading {
	r := platform.ExtensionReading{
		CPU:       time.Duration(s.Weight.CPUSeconds * float64(time.Second)),
		Resident:  s.Weight.ResidentBytes,
		Evicted:   s.Moved.EvictedBytes / annex.PageSize,
		Fetched:   s.Moved.FetchedBytes / annex.PageSize,
		Mapped:    s.Moved.MappedBytes / annex.PageSize,
		Untouched: s.Moved.WastedBytes / annex.PageSize,
		Errors:    s.Moved.Failed,
	}
	type sum struct{ precision, recall, lead, predicted float64 }
	sums := map[string]sum{}
	for _, c := range s.Contexts {
		if c.Class != annex.Elastic {
			continue
		}
		r.Contexts++
		for _, p := range c.Predictors {
			of, predicted := sums[string(p.Kind)], float64(p.Predictions)
			sums[string(p.Kind)] = sum{
				of.precision + predicted*p.PrecisionShare,
				of.recall + predicted*p.RecallShare,
				of.lead + predicted*p.LeadSeconds,
				of.predicted + predicted,
			}
		}
	}
	for name, of := range sums {
		if of.predicted == 0 {
			continue
		}
		if r.Predictors == nil {
			r.Predictors = map[string]platform.PredictorReading{}
		}
		r.Predictors[name] = platform.PredictorReading{
			Precision: of.precision / of.predicted,
			Recall:    of.recall / of.predicted,
			Lead:      time.Duration(of.lead / of.predicted * float64(time.Second)),
			Predicted: int64(of.predicted),
		}
	}
	return r
}
