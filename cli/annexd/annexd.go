// Package annexd is the daemon's command line: it reads the configuration, opens what the
// host has, runs until it is told to end, and says why it could not, a line a reason. How it
// decides is annex/daemon's, and what it is asked while it runs comes over its socket.
package annexd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tare/annex"
	"tare/annex/bound"
	"tare/annex/config"
	"tare/annex/control"
	"tare/annex/daemon"
	"tare/annex/guard"
	"tare/annex/media"
	"tare/cli/command"
	"tare/container"
	"tare/probe"
	"tare/terminal"
)

// Main runs one command line and returns the exit code.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, args, os.Stdout, os.Stderr)
}

// run is Main with its surroundings handed in.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	return command.Run(ctx, (&flags{}).root(), args, out, errOut, code)
}

// code maps an error's type to the code that scripts read.
func code(err error) int {
	switch {
	case is[*config.Invalid](err), is[*guard.NoJournal](err), is[*daemon.Unusable](err):
		return command.Usage
	case is[*daemon.Lacking](err), is[*daemon.Conflict](err), is[*guard.InUse](err), is[*control.Busy](err),
		is[*probe.Missing](err), is[*bound.Unbounded](err), is[*bound.NoGroup](err), is[*bound.Full](err),
		errors.Is(err, media.ErrNoMedium):
		return command.Host
	}
	return command.Failure
}

func is[T error](err error) bool {
	var t T
	return errors.As(err, &t)
}

// flags are one invocation's.
type flags struct {
	out, err             io.Writer
	systemd              notifier
	path                 string
	awaits               string // what was last said to be waited for
	check, once, recover bool
	strict               bool
}

// Command is the command line, for what is made from it.
func Command() *cobra.Command { return (&flags{}).root() }

func (f *flags) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "annexd",
		Short: "Let a host hold more containers than its memory does",
		Long: `annexd moves the memory of sleeping containers to swap, and brings it back before
they wake. Critical containers keep theirs. The configuration says which are which,
and the annex command asks what is done. SIGHUP has annexd read the configuration
again. SIGTERM ends it with every setting as it was found; what is in swap then
comes back as programs touch it.`,
		Example: "  annexd --check\n  annexd --config /etc/annex/annex.toml",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return command.UsageError("annexd takes no arguments, not %q: %s", args[0], cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.out, f.err, f.systemd = cmd.OutOrStdout(), cmd.ErrOrStderr(), systemd()
			return f.printed(f.run(cmd.Context()))
		},
	}
	root.Flags().StringVar(&f.path, "config", config.Path, "configuration file")
	root.Flags().BoolVar(&f.check, "check", false, "check the configuration, print what would be managed, and end: warnings alone are no failure")
	root.Flags().BoolVar(&f.strict, "strict", false, "with --check: fail where there is a warning, with exit code 1")
	root.Flags().BoolVar(&f.recover, "recover", false, "put back settings that a killed annexd left changed, and end")
	root.Flags().BoolVar(&f.once, "once", false, "look and decide once, as with mode observe, print what would be done, and end")
	return root
}

// printed prints each of several reasons on a line of its own, all but the last, which is left
// to whoever prints errors.
func (f *flags) printed(err error) error {
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	last := len(lines) - 1
	if last == 0 {
		return err
	}
	for _, line := range lines[:last] {
		f.tell(line)
	}
	exit := &command.Coded{Code: code(err), Err: errors.New(lines[last])}
	if coded := new(command.Coded); errors.As(err, &coded) {
		exit.Code = coded.Code
	}
	return exit
}

// tell prints a line for whoever started the daemon.
func (f *flags) tell(line string) { terminal.Fprintln(f.err, "annexd:", terminal.Line(line)) }

func (f *flags) run(ctx context.Context) error {
	if f.check && f.once || f.check && f.recover || f.once && f.recover {
		return command.UsageError("--check, --once and --recover: want one of them")
	}
	if f.strict && !f.check {
		return command.UsageError("--strict says how --check ends: want both")
	}
	// Before the configuration is read, which root alone may be able to.
	if !f.check && os.Geteuid() != 0 {
		return &daemon.Lacking{What: "annexd reads page tables and moves the pages of others", Mend: "run it as root, or with --check"}
	}
	// Whoever asks for a reload while the daemon begins gets one when it has begun.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	if f.recover {
		return f.putBack(ctx)
	}
	c, err := config.Load(f.path)
	if err != nil {
		return err
	}
	switch {
	case f.check:
		return f.show(ctx, c)
	case f.once:
		return f.observe(ctx, c)
	}
	// Before anything is opened, as what is started then, a guard among it, inherits it. Whoever
	// is refused wants to know of that alone.
	early := daemon.Light()
	h, err := f.open(ctx, c, hangups)
	if h == nil || err != nil {
		return err
	}
	if early != nil {
		f.tell("the kernel may end annexd early when memory is short: " + early.Error() + ": it takes CAP_SYS_RESOURCE; contrib/annexd.service sets it (OOMScoreAdjust)")
	}
	debug.FreeOSMemory() // what reading the types of the kernel took, which it is done with
	if err := f.attended(ctx, h, hangups); err != nil {
		return err
	}
	f.tell("has ended, and every setting is as it was found; what is in swap comes back as programs touch it")
	return nil
}

// attended runs a daemon, and tells systemd how it stands.
func (f *flags) attended(ctx context.Context, h *daemon.Host, hangups <-chan os.Signal) error {
	f.systemd.tell(ready, doing("looks for containers"))
	defer context.AfterFunc(ctx, func() { f.systemd.tell(stopping) })()
	stop := f.reloads(ctx, h, hangups)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { f.begun(ctx, h) })
	beside.Go(func() { f.systemd.attend(ctx, h.Answers) })
	err := h.Run(ctx)
	cancel()
	beside.Wait()
	return err
}

// waitEvery is how often a group that is to be defended is looked for.
const waitEvery = time.Second

// open makes the daemon. A group that is to be defended may be made, and given its limit, after the
// start of the host: it is waited for. It is nil where that ends with ctx.
func (f *flags) open(ctx context.Context, c config.Config, hangups <-chan os.Signal) (*daemon.Host, error) {
	attending, cancel := context.WithCancel(ctx)
	defer cancel()
	go f.systemd.attend(attending, func(context.Context) error { return nil })
	for {
		h, err := daemon.Open(ctx, f.path, c, command.Version(), f.tell)
		if !isAwaited(err) {
			return h, err
		}
		c = f.await(ctx, c, err, hangups, func(c config.Config) error {
			_, err := bound.New(bound.Options{Group: defended(c)})
			return err
		})
		if ctx.Err() != nil {
			return nil, nil
		}
	}
}

// isAwaited tells that what is to be defended may come to be there.
func isAwaited(err error) bool { return is[*bound.NoGroup](err) || is[*bound.Unbounded](err) }

// await looks for what is to be defended as long as that is what is wrong, and gives the configuration to
// begin with then: another one after a hangup. Any other error is one that a start says.
func (f *flags) await(
	ctx context.Context,
	c config.Config,
	err error,
	hangups <-chan os.Signal,
	look func(config.Config) error,
) config.Config {
	for isAwaited(err) {
		if text := "waiting for what is to be defended: " + err.Error(); text != f.awaits {
			f.awaits = text
			f.tell(text)
			f.systemd.tell(ready, doing(text))
		}
		select {
		case <-ctx.Done():
			return c
		case <-hangups:
			again, err := config.Load(f.path)
			if err == nil {
				return again
			}
			f.kept(err)
		case <-time.After(waitEvery):
			err = look(c)
		}
	}
	return c
}

// kept says why another configuration is not in force.
func (f *flags) kept(err error) {
	for line := range strings.Lines(err.Error()) {
		f.tell("the configuration in force stays: " + line)
	}
}

// putBack puts back what a daemon left that was killed together with its guard. A configuration
// that cannot be read any more keeps nobody from that: the journal is then looked for where it is
// by default.
func (f *flags) putBack(ctx context.Context) error {
	c, err := config.Load(f.path)
	if err != nil {
		c = config.Default()
		f.tell(fmt.Sprintf("looking into %s, as the configuration cannot be read: %v", c.State.Journal, err))
	}
	back, warnings, err := daemon.Recover(ctx, c)
	for _, line := range slices.Concat(back, warnings) {
		f.tell(line)
	}
	return err
}

// stands is what tells how a daemon stands.
type stands interface{ Status() control.Status }

// begun tells, once a daemon has begun, what it does.
func (f *flags) begun(ctx context.Context, h stands) {
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		s := h.Status()
		if s.State == control.Starting {
			continue
		}
		if s.State != control.Ending {
			f.tell(begunText(s))
			f.systemd.tell(doing(begunText(s)))
		}
		return
	}
}

// begunText tells what a daemon that has begun does. It may have been told to drain by then.
func begunText(s control.Status) string {
	does, defended := "observes", s.Memory.Defended
	if s.Mode == string(config.Manage) {
		does = "manages"
	}
	if defended == config.Host {
		defended = "the host"
	}
	count := map[annex.Class]int{}
	for _, c := range s.Contexts {
		count[c.Class]++
	}
	return fmt.Sprintf("%s %s (mode %s): %d critical, %d elastic; annex status tells more", does, defended, s.Mode, count[annex.Critical], count[annex.Elastic])
}

// reloads has the configuration read anew at each hangup.
func (f *flags) reloads(ctx context.Context, h *daemon.Host, hangups <-chan os.Signal) (stop func()) {
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-hangups:
			}
			f.systemd.tell(reloading())
			restart, err := h.Reload(ctx)
			if err != nil {
				f.kept(err)
				f.systemd.tell(doing("the configuration in force stays: " + err.Error()))
			} else {
				f.systemd.tell(doing("the configuration was read again"))
			}
			f.systemd.tell(ready)
			if len(restart) > 0 {
				terminal.Fprintf(f.err, "annexd: in force only when annexd is started anew: %v\n", restart)
			}
		}
	}()
	return func() { close(done) }
}

// show prints what would be managed.
func (f *flags) show(ctx context.Context, c config.Config) error {
	finder, err := daemon.FindContainers(func() config.Config { return c })
	if err != nil {
		return err
	}
	all, notes, err := finder.Find(ctx)
	if err != nil {
		return err
	}
	doubts, err := daemon.Doubts(c, all)
	if err != nil {
		return err
	}
	notes = append(notes, doubts...)
	terminal.Fprintf(f.out, "%s is valid: mode %s, defends %s, headroom %d MiB\n", f.path, c.Mode, c.Memory.Defend, c.Memory.Headroom>>20)
	b, err := bound.New(bound.Options{Group: defended(c)})
	if err != nil {
		return err
	}
	if err := printClasses(f.out, c, all, b.Within); err != nil {
		return err
	}
	notes = append(notes, unbraked(c, all, b.Pressure)...)
	notes = append(notes, unproved(c, all)...)
	clear, err := daemon.InClear()
	if err != nil {
		return err
	}
	notes = append(notes, clear...)
	for _, n := range notes {
		f.tell("warning: " + n)
	}
	return f.warned(len(notes))
}

// warned ends a check that had some warnings: as nginx -t and promtool check do, with success unless
// they are to count.
func (f *flags) warned(n int) error {
	switch {
	case n == 0:
		return nil
	case f.strict:
		return fmt.Errorf("the configuration is valid, and there are warnings (%d), which fail by --strict", n)
	}
	f.tell(fmt.Sprintf("the configuration is valid; the warnings (%d) are no failure (exit code 0): with --strict they are", n))
	return nil
}

// defended is the group whose memory is defended; empty is the host.
func defended(c config.Config) string {
	if c.Memory.Defend == config.Host {
		return ""
	}
	return c.Memory.Defend
}

// printClasses prints which containers would be what, by which rule, and what has to fit for that.
// An elastic one that lies outside of what is defended is named with that, since nothing is freed
// there by what leaves of it. Names have no bound, and so end their lines.
func printClasses(
	out io.Writer,
	c config.Config,
	all []container.Container,
	within func(container.Container) (bool, error),
) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	count, outside := map[annex.Class]int{}, 0
	decides := make([]int, len(c.Rules))
	terminal.Fprintf(w, "CLASS\tRULE\tENGINE\tCONTAINER\n")
	for _, one := range all {
		class, rule := c.Class(one), c.Decides(one)
		count[class]++
		if rule < len(decides) {
			decides[rule]++
		}
		if class == annex.Ignored {
			continue
		}
		terminal.Fprintf(w, "%s\t%d\t%s\t%s", class, rule+1, one.Engine, one.Name)
		if class == annex.Elastic {
			// Of one that has no place of its own the status tells why.
			if inside, err := within(one); err == nil && !inside {
				outside++
				terminal.Fprintf(w, " (outside of %s: not managed)", c.Memory.Defend)
			}
		}
		terminal.Fprintln(w)
	}
	if len(c.Rules) > 0 {
		terminal.Fprintf(w, "\nRULE\tCONTAINERS\tCLASS\tPATTERNS\n")
	}
	for i, r := range c.Rules {
		terminal.Fprintf(w, "%d\t%d\t%s\t%s\n", i+1, decides[i], r.Class, r.Pattern())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	elsewhere := ""
	if outside > 0 {
		elsewhere = fmt.Sprintf(" (%d of them not managed)", outside)
	}
	_, err := terminal.Fprintf(out, "\n%d critical, %d elastic%s, %d ignored\n", count[annex.Critical], count[annex.Elastic], elsewhere, count[annex.Ignored])
	return err
}

// unbraked says of which critical containers the kernel does not tell the pressure, by which
// eviction is stopped.
func unbraked(
	c config.Config,
	all []container.Container,
	pressure func(container.Container) (annex.Pressure, error),
) (notes []string) {
	for _, one := range all {
		if c.Class(one) != annex.Critical {
			continue
		}
		if _, err := pressure(one); err != nil {
			notes = append(notes, fmt.Sprintf("pressure on the critical container %s is not known, so nothing stops eviction where it waits for memory: %v", one.Name, err))
		}
	}
	return notes
}

// unproved says which containers have another class than their names, labels and images would
// give them, since a user may have chosen those.
func unproved(c config.Config, all []container.Container) (notes []string) {
	for _, one := range all {
		named := one
		named.Unprivileged = false
		if is, by := c.Class(one), c.Class(named); is != by {
			notes = append(notes, fmt.Sprintf("container %s is %s and not %s, since a user may have named it: a rule that is to fit it says its cgroup too (%s)", one.Name, is, by, one.Cgroup))
		}
	}
	return notes
}

// onceFor is how long one look may take: containers are asked for, and each scanned.
const onceFor = time.Minute

// observe looks and decides once, and prints what would be done.
func (f *flags) observe(ctx context.Context, c config.Config) error {
	c.Mode, c.Control.Metrics, c.Log.File = config.Observe, "", ""
	dir, err := os.MkdirTemp("", "annexd-once-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c.State.Directory, c.State.Journal, c.Control.Socket = dir, dir+"/journal", dir+"/annex.sock"
	ctx, cancel := context.WithTimeout(ctx, onceFor)
	defer cancel()
	h, err := daemon.Open(ctx, f.path, c, command.Version(), f.tell)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	var s control.Status
	for s.State != control.Observing && ctx.Err() == nil {
		select {
		case err := <-done:
			return err
		case <-time.After(50 * time.Millisecond):
			s = h.Status()
		}
	}
	// What is decided first is decided once the containers are warm.
	select {
	case <-time.After(daemon.FirstDecision):
	case <-ctx.Done():
	}
	s = h.Status()
	decided := decisions(h, s)
	cancel()
	if err := <-done; err != nil {
		return err
	}
	return printDecisions(f.out, s, decided)
}

// explains is what tells of decisions.
type explains interface {
	Explain(container string) (control.Explanation, error)
}

// decisions are what was decided about each container of a status, as long as the daemon
// runs. One that has ended meanwhile has none.
func decisions(h explains, s control.Status) map[annex.ID][]control.Decision {
	all := map[annex.ID][]control.Decision{}
	for _, c := range s.Contexts {
		if e, err := h.Explain(string(c.ID)); err == nil {
			all[c.ID] = e.Decisions
		}
	}
	return all
}

// printDecisions prints what would be done, and of what memory that was decided.
func printDecisions(out io.Writer, s control.Status, all map[annex.ID][]control.Decision) error {
	terminal.Fprintf(out, "%d MiB are free of %d MiB, headroom %d MiB; %d containers are managed or protected\n",
		s.Memory.FreeBytes>>20, s.Memory.LimitBytes>>20, s.Memory.HeadroomBytes>>20, len(s.Contexts))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	some := false
	for _, c := range s.Contexts {
		for _, d := range all[c.ID] {
			if !some {
				terminal.Fprintf(w, "WOULD\tCONTAINER\tPAGES\tWHY\n")
			}
			some = true
			why := string(d.Why)
			if d.Detail != "" {
				why += ": " + d.Detail
			}
			terminal.Fprintf(w, "%s\t%s\t%d\t%s\n", d.Op, c.Name, d.Asked, why)
		}
	}
	if !some {
		terminal.Fprintln(w, "nothing would be moved")
	}
	for _, warning := range s.Warnings {
		terminal.Fprintln(w, "warning:", warning)
	}
	return w.Flush()
}
