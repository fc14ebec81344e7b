package faults

import (
	"errors"
	"strconv"
	"testing"

	"tare/kernel/cgroup"
	"tare/probe"
)

func count(t *testing.T, targets []Target) *Counter {
	t.Helper()
	c, err := StartEvents(targets)
	var missing *probe.Missing
	if errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop() })
	return c
}

// Without BPF the counts are those that the tracepoints give, by process and by
// directory, children among them; and no types.
func TestEventsCountWhatTracepointsCount(t *testing.T) {
	const n = 60
	for _, kind := range []string{"anonymous read write", "kernel", "fork", "protected"} {
		t.Run(kind, func(t *testing.T) {
			m := begin(t, nil, kind, strconv.Itoa(n))
			targets := []Target{{Name: "maker", PIDs: []int{m.pid}}}
			r, c := start(t, targets, Options{}), count(t, targets)
			m.act()
			m.end()
			// Both see the whole of the process, whose end was awaited.
			events, err := c.Stop()
			if err != nil {
				t.Fatal(err)
			}
			rec := stop(t, r)
			var user, kernel uint64
			for typ := range Types {
				user += rec.Counts[0].User[typ]
				kernel += rec.Counts[0].Kernel[typ]
			}
			got := events.Counts[0]
			if got.User[Untyped] != user || got.Kernel[Untyped] != kernel || got.Total() != user+kernel {
				t.Errorf("events count %d and %d in the kernel, tracepoints %d and %d", got.User[Untyped], got.Kernel[Untyped], user, kernel)
			}
			if events.Served[0] != rec.Served[0] {
				t.Errorf("events say %+v was served, tracepoints %+v", events.Served[0], rec.Served[0])
			}
			if events.Known.Types || events.Known.Records || events.Records() != 0 {
				t.Errorf("known is %+v, with %d records", events.Known, events.Records())
			}
		})
	}
}

func TestEventsOfControlGroups(t *testing.T) {
	const n = 60
	for name, h := range hierarchiesOf(t) {
		t.Run(name, func(t *testing.T) {
			eventsOfGroups(t, h, n)
		})
	}
}

func eventsOfGroups(t *testing.T, h cgroup.Hierarchy, n int) {
	outer, inner := group(t, h, "outer"), group(t, h, "outer", "inner")
	one := begin(t, within(t, outer), "anonymous write", strconv.Itoa(n))
	two := begin(t, within(t, inner), "anonymous read write", strconv.Itoa(n))
	c := count(t, []Target{{Name: "outer", Cgroup: outer}, {Name: "inner", Cgroup: inner}})
	did := []made{one.act(), two.act()}
	_, counts, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range did {
		if got := counts[i].Total(); got < d.minor || got > d.minor+uint64(n)/2 {
			t.Errorf("target %d: %d counted, and its process saw %d", i, got, d.minor)
		}
	}
	one.end()
	two.end()
}
