package pages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"tare/census"
	"tare/container"
	"tare/kernel/procfs"
	"tare/platform"
	"tare/probe"
	"tare/probe/pagetable"
	"tare/record"
	"tare/report"
	"tare/study/kit"
	"tare/terminal"
)

// Live is a census of containers that we found running.
type Live struct {
	Containers []container.Container
	Count      *census.Count
	Backend    string
	Taken      time.Time
	Elapsed    time.Duration
	// Changed are processes that mapped or unmapped memory meanwhile, Gone those
	// that ended before they could be read.
	// Refused are those that may not be looked into.
	Changed, Gone, Refused []int
	// Twins are those that share the memory of one that is counted.
	Twins []int
	// Generations: the kernel keeps generations instead of two lists.
	Generations bool
	Notes       []string
}

// Look takes a census of running containers. Nothing is written to any of them.
func Look(ctx context.Context, taker pagetable.Taker, containers []container.Container, notes []string) (*Live, error) {
	found, l, err := take(ctx, taker, containers, notes)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range l.Containers {
		names = append(names, c.Name)
	}
	l.Count = census.Of(found, names, census.Options{Files: filesKept})
	l.Backend, l.Taken, l.Elapsed = found.Backend, found.Taken, found.Elapsed
	l.Gone, l.Refused, l.Twins = found.Gone, found.Refused, found.Twin
	for _, s := range found.Spaces {
		if s.Changed {
			l.Changed = append(l.Changed, s.PID)
		}
	}
	return l, nil
}

// others are a container's processes but for tare itself, which descends from
// whoever asks.
func others(c container.Container) ([]int, error) {
	pids, err := c.Processes()
	return slices.DeleteFunc(pids, func(pid int) bool { return pid == os.Getpid() }), err
}

// take takes the census. The containers of the Live are those that have
// processes, in the order of the census' groups.
func take(
	ctx context.Context, taker pagetable.Taker, containers []container.Container, notes []string,
) (*pagetable.Census, *Live, error) {
	l := &Live{Notes: slices.Clone(notes)}
	var asked []pagetable.Process
	var locked []string
	for _, c := range containers {
		pids, err := others(c)
		if err != nil {
			return nil, nil, err
		}
		if len(pids) == 0 {
			l.Notes = append(l.Notes, c.Name+" has no process and is left out")
			continue
		}
		for _, pid := range pids {
			if procfs.Host.Process(pid).Locked() {
				locked = append(locked, fmt.Sprintf("%s: process %d is left out: %v", c.Name, pid, procfs.ErrLocked))
				continue
			}
			asked = append(asked, pagetable.Process{PID: pid, Group: len(l.Containers)})
		}
		l.Containers = append(l.Containers, c)
	}
	if len(asked) == 0 && len(locked) > 0 {
		return nil, nil, &probe.Missing{Probe: "census", What: locked[0], Mend: "see what it waits for (cat /proc/PID/task/*/stack), and end that"}
	}
	l.Notes = append(l.Notes, locked...)
	if len(asked) == 0 {
		return nil, nil, errors.New("no process to count: the containers have ended; name others")
	}
	found, err := taker.Take(ctx, asked, true)
	if err != nil {
		return nil, nil, err
	}
	if found.Entries() == 0 && len(found.Kernel) > 0 {
		return nil, nil, errors.New("nothing to count: a kernel thread has no memory of its own; name another process")
	}
	if found.Entries() == 0 {
		return nil, nil, errors.New("no page-table entry was found: the processes ended during the census; name others")
	}
	return found, l, nil
}

// Measured reports whether a tare is measuring a container at this moment.
func Measured(c container.Container) bool {
	return strings.Contains(c.Cgroup+"/", platform.CgroupParent+"/") ||
		strings.Contains(c.Cgroup, platform.CgroupParent+".slice")
}

// Answer is the sentence that the reader came for.
func (l *Live) Answer() string {
	c := l.Count
	w := whole(&c.All)
	mapped := size(float64(c.All.Classes.Sum()) * pagetable.PageSize)
	memory := size(float64(c.Frames.Bytes()))
	if len(l.Containers) == 1 && len(c.Processes) == 1 {
		return fmt.Sprintf("%s maps %s onto %s of memory, with %s of page tables. It has one process: there is no other to share with.",
			l.Containers[0].Name, mapped, memory, size(float64(c.Tables.Bytes())))
	}
	if len(l.Containers) == 1 {
		return fmt.Sprintf(
			"%s maps %s onto %s of memory. Two or more of its %s have %s %% of their page-table entries in common.",
			l.Containers[0].Name,
			mapped,
			memory,
			report.Counted(len(c.Processes), "process"),
			percentText(float64(c.All.Groupable), float64(w)),
		)
	}
	text := fmt.Sprintf("%s map %s onto %s of memory. Two or more of them have %s %% of the page-table entries in common",
		report.Counted(len(l.Containers), "container"), mapped, memory, percentText(float64(c.All.Across.Groupable), float64(w)))
	if s := c.All.Across.SharedFrame; s > 0 {
		text += fmt.Sprintf("; %s %% more map the same memory at different addresses (address randomisation)", percentText(float64(s), float64(w)))
	}
	return text + "."
}

// Facts stand above the figures.
func (l *Live) facts(host string) []string {
	var names []string
	for _, c := range l.Containers {
		names = append(names, fmt.Sprintf("%s (%s)", c.Name, c.Engine))
	}
	const most = 8
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("and %d more", len(names)-most))
	}
	return []string{
		"containers: " + strings.Join(names, ", "),
		fmt.Sprintf(
			"census: %d entries of %s by %s in %v, at %s",
			l.Count.All.Entries,
			report.Counted(len(l.Count.Processes), "process"),
			l.Backend,
			kit.Short(l.Elapsed),
			taken(l.Taken),
		),
		host,
	}
}

// taken writes when a census or recording was taken.
func taken(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") }

func (l *Live) banners() []string {
	var banners []string
	for _, n := range l.Notes {
		banners = append(banners, "note: "+n)
	}
	if n := len(l.Changed); n > 0 {
		banners = append(banners, fmt.Sprintf("changed: %s mapped or unmapped memory during the census: their figures are of no single moment", report.Counted(n, "process")))
	}
	if n := len(l.Gone); n > 0 {
		banners = append(banners, goneNote(n))
	}
	if n := len(l.Twins); n > 0 {
		banners = append(banners, fmt.Sprintf("not counted twice: the memory of %s is that of another process", report.Counted(n, "process")))
	}
	if n := len(l.Refused); n > 0 {
		banners = append(banners, refusedNote(n))
	}
	if l.Generations {
		banners = append(banners, generationsNote)
	}
	if !l.Count.Flags {
		banners = append(banners, "no flags: the kernel's flags of frames cannot be read on this host. Activity, huge pages and merged pages are unknown")
	}
	return banners
}

// goneNote is the banner of processes that ended too early.
func goneNote(n int) string {
	return fmt.Sprintf("ended: %s ended before the census reached them", report.Counted(n, "process"))
}

// refusedNote is the banner of processes that the kernel keeps closed.
func refusedNote(n int) string {
	return fmt.Sprintf("refused: %s cannot be read even by root on this host, and are in no figure", report.Counted(n, "process"))
}

// Sheet is the page of a census, and, where later is given, of a second one.
func (l *Live) Sheet(on record.Host, later *Live) report.Sheet {
	host := report.HostFact(on)
	l.Generations = generations(on)
	s := report.Sheet{Title: "tare pages", Answer: l.Answer(), Facts: l.facts(host), Banners: l.banners()}
	if later != nil {
		s.Answer = later.Answer()
		s.Facts[1] = "first " + s.Facts[1]
		s.Facts = slices.Insert(s.Facts, 2, "second "+later.facts(host)[1])
		s.Banners = append(s.Banners, later.banners()...)
		s.Parts = append(s.Parts, change(l, later))
		l = later
	}
	c := l.Count
	s.Parts = append(s.Parts, classBars(c), containersTable(c), kindsTable(c))
	if t, ok := activityTable(c); ok {
		s.Parts = append(s.Parts, t)
	}
	s.Parts = append(s.Parts, pageTables(c))
	if t, ok := filesTable(c); ok {
		s.Parts = append(s.Parts, t)
	}
	if t, ok := processesTable(c); ok {
		s.Parts = append(s.Parts, t)
	}
	s.Next = []string{"tare faults " + terminal.Shell(namesOf(l.Containers)...)}
	return s
}

func namesOf(containers []container.Container) []string {
	var names []string
	for i, c := range containers {
		if i == 4 {
			break
		}
		names = append(names, c.Argument())
	}
	return names
}

// change compares two censuses.
func change(before, after *Live) report.Table {
	t := report.Table{
		Title:   "First and second census",
		Columns: []report.Column{{Head: "quantity"}, {Head: "first", Number: true}, {Head: "second", Number: true}},
	}
	a, b := &before.Count.All, &after.Count.All
	both := func(name string, of func(t *census.Tally) uint64) {
		t.Rows = append(t.Rows, []report.Cell{{Text: name}, percent(of(a), whole(a)), percent(of(b), whole(b))})
	}
	t.Rows = append(t.Rows,
		[]report.Cell{{Text: "entries"}, {Text: fmt.Sprint(whole(a))}, {Text: fmt.Sprint(whole(b))}},
		[]report.Cell{{Text: "memory, MiB"}, mib(before.Count.Frames.Bytes()), mib(after.Count.Frames.Bytes())})
	both("groupable between processes, %", func(t *census.Tally) uint64 { return t.Groupable })
	both("groupable between containers, %", func(t *census.Tally) uint64 { return t.Across.Groupable })
	both("exclusive to a container, %", func(t *census.Tally) uint64 { return t.Across.Exclusive })
	if before.Count.Flags && after.Count.Flags {
		both("active, %", func(t *census.Tally) uint64 { return t.Active })
	}
	return t
}
