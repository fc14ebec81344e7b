package pages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"tare/container"
	"tare/probe"
	"tare/probe/faults"
	"tare/record"
	"tare/report"
	"tare/terminal"
)

// FaultSchema names the layout of what `tare faults --json` writes of running
// containers.
const FaultSchema = "tare-faults/1"

// Recorded is the page faults of containers that we found running.
type Recorded struct {
	Containers []container.Container
	Count      *FaultCount
	Taken      time.Time
	Series     []faults.Bin
	// Costs are what faults take on this host, measured on memory of tare's own
	// just before the recording.
	Costs []faults.CostOf
	Notes []string
}

// stoppedEarly is the note of a recording that did not last as long as asked.
const stoppedEarly = "stopped before its time"

// bins is how many stretches of time a recording is shown in.
const bins = 40

// RecordFaults records the page faults of running containers for a while, or
// until ctx ends, which is no error once something was recorded.
func RecordFaults(
	ctx context.Context, containers []container.Container, window time.Duration, notes []string,
) (r *Recorded, err error) {
	r = &Recorded{Containers: containers, Notes: slices.Clone(notes), Taken: time.Now()}
	var targets []faults.Target
	for _, c := range containers {
		if c.Cgroup != "" {
			targets = append(targets, faults.Target{Name: c.Name, Cgroup: c.Cgroup})
			continue
		}
		pids, err := others(c)
		if err != nil {
			return nil, err
		}
		if len(pids) == 0 {
			return nil, &container.Ended{Name: c.Name}
		}
		targets = append(targets, faults.Target{Name: c.Name, PIDs: pids})
	}
	r.Costs, err = faults.Cost(ctx, os.TempDir(), r.Taken.UnixNano())
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		r.Notes = append(r.Notes, "the cost of a fault could not be measured: "+err.Error())
	}
	stop, note, err := startFaults(targets)
	if err != nil {
		return nil, err
	}
	if note != "" {
		r.Notes = append(r.Notes, note)
	}
	timer := time.NewTimer(window)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		r.Notes = append(r.Notes, stoppedEarly)
	}
	found, err := stop()
	if err != nil {
		return nil, err
	}
	r.Count = readFaults(found, false)
	for _, c := range containers {
		if pids, err := c.Processes(); err == nil && len(pids) == 0 {
			r.Notes = append(r.Notes, c.Name+" ended during the recording. Its rate is over the whole recording")
		}
	}
	if found.Known.Records {
		r.Series = found.Series(-1, max((found.To-found.From)/bins, time.Millisecond))
	}
	return r, nil
}

// startFaults records by tracepoint, or, where that cannot be, by the kernel's
// own events; the note says what those leave out.
func startFaults(targets []faults.Target) (stop func() (*faults.Recording, error), note string, err error) {
	r, err := faults.Start(targets, faults.Options{})
	if err == nil {
		return r.Stop, "", nil
	}
	if missing := new(probe.Missing); !errors.As(err, &missing) {
		return nil, "", err
	}
	events, eerr := faults.StartEvents(targets)
	if eerr != nil {
		return nil, "", fmt.Errorf("%w; nor by perf events: %w", err, eerr)
	}
	return events.Stop, "the types of faults, and all that depends on them, are unknown: " + err.Error(), nil
}

// Answer is the sentence that the reader came for.
func (r *Recorded) Answer() string {
	c := r.Count
	who := report.Counted(len(r.Containers), "container")
	if len(r.Containers) == 1 {
		who = r.Containers[0].Name
	}
	text := fmt.Sprintf("%s took %d page faults in %s s (%s per second)", who, c.User, report.Rounded(c.Seconds, 3), report.Measured(float64(c.User)/c.Seconds).Text)
	if c.User == 0 {
		return fmt.Sprintf("%s took no page fault in %s s.", who, report.Rounded(c.Seconds, 3))
	}
	if !c.Typed {
		return text + "."
	}
	top := slices.MaxFunc(c.Types[:len(types)], func(a, b TypeCount) int { return int(a.User) - int(b.User) })
	text += fmt.Sprintf(", %s %% of them %s", percentText(float64(top.User), float64(c.User)), top.Type)
	if len(r.Containers) > 1 && c.All.Faults > 0 {
		text += fmt.Sprintf(
			". On the pages of %s %% of them another container faulted too; with pages of files at any address, %s %%",
			percentText(float64(c.All.Same), float64(c.All.Faults)),
			percentText(float64(c.All.Anywhere), float64(c.All.Faults)),
		)
	}
	if took, known := timeOf(c, r.Costs); known {
		text += fmt.Sprintf(". They took about %s ms: %s %% of one CPU",
			report.Measured(took/1e6).Text, percentText(took/1e9, c.Seconds))
	}
	return text + "."
}

// timeOf is the time that the faults of a recording took, in ns, as far as a fault of their
// type was timed here: the sum of the column of typesTable.
func timeOf(f *FaultCount, costs []faults.CostOf) (ns float64, ok bool) {
	for i, kind := range f.Types[:len(types)] {
		if each, timed := costOf(costs, types[i]); timed {
			ns += float64(kind.User) * each
			ok = true
		} else if kind.User > 0 {
			return 0, false
		}
	}
	return ns, ok
}

// Sheet is the recording's page.
func (r *Recorded) Sheet(host string) report.Sheet {
	c := r.Count
	var names []string
	for _, of := range r.Containers {
		names = append(names, fmt.Sprintf("%s (%s)", of.Name, of.Engine))
	}
	s := report.Sheet{
		Title: "tare faults", Answer: r.Answer(),
		Facts: []string{
			"containers: " + strings.Join(names, ", "),
			fmt.Sprintf("recorded: %s s by %s, from %s", report.Rounded(c.Seconds, 3), c.Backend, taken(r.Taken)),
			fmt.Sprintf("lost: %d records; %d faults missed; %d without a type", c.Lost, c.Missed, c.Unsettled),
			host,
		},
	}
	for _, n := range r.Notes {
		s.Banners = append(s.Banners, "note: "+n)
	}
	if c.Lost > 0 {
		s.Banners = append(s.Banners, fmt.Sprintf("lost: %d faults have no record. They are counted by type, but not among the duplicated", c.Lost))
	}
	if c.Missed > 0 {
		s.Banners = append(s.Banners, fmt.Sprintf("missed: %d faults are in no count", c.Missed))
	}
	if chart, ok := r.chart(); ok {
		s.Parts = append(s.Parts, chart)
	}
	if c.Typed {
		s.Parts = append(s.Parts, typesTable(c, r.Costs))
	}
	s.Parts = append(s.Parts, targetsTable(c))
	s.Parts = append(s.Parts, faultParts(c)...)
	if len(r.Costs) > 0 {
		s.Parts = append(s.Parts, costTable(r.Costs))
	}
	s.Next = []string{"tare pages " + terminal.Shell(namesOf(r.Containers)...)}
	return s
}

// chart is the faults over time, by type.
func (r *Recorded) chart() (report.Chart, bool) {
	chart := report.Chart{
		Title: "Page faults over time, by type", Note: "Faults in user mode.",
		X: report.Axis{Label: "time", Unit: "s"}, Y: report.Axis{Label: "faults/s"},
	}
	if len(r.Series) < 3 {
		return chart, false
	}
	width := (r.Series[1].From - r.Series[0].From).Seconds()
	for _, kind := range types {
		line := report.Series{Name: kind.String(), Group: kind.String()}
		any := false
		// The last stretch reaches beyond the recording's end.
		for _, bin := range r.Series[:len(r.Series)-1] {
			any = any || bin.User[kind] > 0
			line.Points = append(line.Points, report.Point{
				X: (bin.From - r.Series[0].From).Seconds() + width/2, Y: float64(bin.User[kind]) / width,
			})
		}
		if any {
			chart.Series = append(chart.Series, line)
		}
	}
	return chart, len(chart.Series) > 0
}

// FaultDocument is the recording for other programs.
type FaultDocument struct {
	Schema     string                `json:"schema"`
	Host       record.Host           `json:"host"`
	Taken      time.Time             `json:"taken"`
	Containers []container.Container `json:"containers"`
	Faults     *FaultCount           `json:"faults"`
	Costs      []FaultCost           `json:"costs,omitempty"`
	Notes      []string              `json:"notes,omitempty"`
}

// FaultCost is what one fault takes on this host, with an interval of 95 %.
type FaultCost struct {
	Type        string  `json:"type"`
	What        string  `json:"what"`
	Nanoseconds float64 `json:"ns"`
	Low         float64 `json:"low_ns"`
	High        float64 `json:"high_ns"`
	N           int     `json:"n"` // timings
}

// Document is the recording for other programs.
func (r *Recorded) Document(host record.Host) FaultDocument {
	d := FaultDocument{
		Schema: FaultSchema, Host: host, Taken: r.Taken, Containers: r.Containers, Faults: r.Count, Notes: r.Notes,
	}
	for _, c := range r.Costs {
		d.Costs = append(d.Costs, FaultCost{
			Type: c.Type.String(), What: c.What, N: c.Nanoseconds.N,
			Nanoseconds: c.Nanoseconds.Value, Low: c.Nanoseconds.Interval.Low, High: c.Nanoseconds.Interval.High,
		})
	}
	return d
}
