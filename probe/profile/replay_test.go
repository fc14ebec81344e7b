package profile

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tare/kernel/perfevent"
	"tare/probe"
)

// story replays records, each a millisecond after the one before, with kernel
// functions called "k" and no file to be found.
func story(t *testing.T, o Options, before map[int]*task, records ...perfevent.Record) *Recording {
	t.Helper()
	if o.Contained == nil {
		o.Contained = contained
	}
	if before == nil {
		before = map[int]*task{}
	}
	p := &replay{
		options: o, tasks: before, cgroups: map[uint64]string{5: "/docker/0123"}, files: newFiles(nil),
		kernel: func(uint64) string { return "k" }, stacks: map[string]*chain{}, result: &Recording{Hertz: 1000},
	}
	for i, r := range records {
		now := time.Duration(i) * time.Millisecond
		switch r := r.(type) {
		case *perfevent.Sample:
			r.Time, r.Period = now, time.Millisecond
		case *perfevent.Comm:
			r.Time = now
		}
	}
	p.survey(slices.Values(records))
	for _, r := range records {
		p.record(r)
	}
	return p.result
}

func id(pid int) perfevent.ID { return perfevent.ID{PID: pid, TID: pid} }

func fork(child, parent int) perfevent.Record {
	return &perfevent.Task{ID: id(child), Parent: parent, ParentTID: parent}
}

func execute(pid int, comm, file string, buildID ...byte) []perfevent.Record {
	return []perfevent.Record{
		&perfevent.Comm{ID: id(pid), Name: comm, Exec: true},
		&perfevent.Mapping{ID: id(pid), Address: 0x400000, Length: 0x1000, File: file, BuildID: buildID},
		&perfevent.Mapping{ID: id(pid), Address: 0x7f0000000000, Length: 0x1000, Offset: 0x2000, File: "/nowhere/libc.so.6"},
	}
}

func at(pid int, user ...uint64) perfevent.Record {
	return &perfevent.Sample{ID: id(pid), User: user}
}

func TestAProcessIsWhatItWasAtEachMoment(t *testing.T) {
	before := map[int]*task{
		100: {process: &probe.Process{PID: 100, Parent: 1, Comm: "containerd-shim", Exe: "/usr/bin/containerd-shim-runc-v2"},
			maps: []mapping{{start: 0x400000, end: 0x500000, file: "/nowhere/shim"}}},
		2: {process: &probe.Process{PID: 2, Comm: "kthreadd", KernelThread: true}},
	}
	records := slices.Concat(
		[]perfevent.Record{at(100, 0x400010), fork(200, 100), at(200, 0x400010)},
		execute(200, "runc", "/usr/sbin/runc", 1, 2),
		[]perfevent.Record{at(200, 0x400020, 0x7f0000000101), fork(300, 200)},
		execute(300, "exe", "/", 1, 2), // runc's clone of itself
		[]perfevent.Record{at(300, 0x400030), &perfevent.Comm{ID: id(300), Name: "runc:[2:INIT]"}, at(300, 0x400040)},
		[]perfevent.Record{&perfevent.Comm{ID: perfevent.ID{PID: 300, TID: 301}, Name: "a thread"}, at(300, 0x400041)},
		execute(300, "sh", "/bin/sh"),
		[]perfevent.Record{at(300, 0x7f0000000020, 0xdead, 0x400050), fork(400, 2), &perfevent.Sample{ID: id(400), Kernel: []uint64{1, 2}}},
		[]perfevent.Record{at(999, 0x1000)},
	)
	r := story(t, Options{}, before, records...)
	type line struct {
		comm, exe string
		component probe.Component
		user      []string
	}
	var got []line
	for _, s := range r.Samples {
		got = append(got, line{s.Process.Comm, s.Process.Exe, probe.ComponentOf(*s.Process, 1), s.User})
	}
	want := []line{
		{"containerd-shim", "/usr/bin/containerd-shim-runc-v2", probe.Shim, []string{"[shim+0x10]"}},
		{"containerd-shim", "/usr/bin/containerd-shim-runc-v2", probe.Shim, []string{"[shim+0x10]"}}, // forked, not yet another program
		{"runc", "/usr/sbin/runc", probe.Runtime, []string{"[runc+0x20]", "[libc.so.6+0x2100]"}},     // a return address is looked up before itself
		{"exe", "/usr/sbin/runc", probe.Runtime, []string{"[runc+0x30]"}},                            // found by its build id
		{"runc:[2:INIT]", "/usr/sbin/runc", probe.Runtime, []string{"[runc+0x40]"}},
		{"runc:[2:INIT]", "/usr/sbin/runc", probe.Runtime, []string{"[runc+0x41]"}}, // a thread's name is not the process'
		{"sh", "/bin/sh", probe.Application, []string{"[libc.so.6+0x2020]"}},        // the chain ends where nothing is mapped
		{"kthreadd", "", probe.Kernel, nil},
		{"", "", probe.Other, []string{"[unmapped]"}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(line{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s := r.Samples[7]; s.Process.Parent != 2 || s.Process.PID != 400 || !slices.Equal(s.Kernel, []string{"k", "k"}) {
		t.Errorf("the kernel's thread: %+v, %q", s.Process, s.Kernel)
	}
}

// TestAnExecIsTheNewProgramsFromItsNameOn, though its file is reported later.
func TestAnExecIsTheNewProgramsFromItsNameOn(t *testing.T) {
	early := &perfevent.Sample{ID: id(7), Kernel: []uint64{1}}
	records := execute(7, "exe", "/usr/sbin/dockerd")
	records = slices.Insert(records, 1, perfevent.Record(early))
	records = append(records, &perfevent.Comm{ID: id(8), Name: "gone", Exec: true}, &perfevent.Task{ID: id(8), Exit: true}, fork(8, 7), at(8, 0x400000))
	r := story(t, Options{}, nil, records...)
	for i, want := range []probe.Process{{PID: 7, Comm: "exe", Exe: "/usr/sbin/dockerd"}, {PID: 8, Parent: 7, Comm: "exe", Exe: "/usr/sbin/dockerd"}} {
		if diff := cmp.Diff(want, *r.Samples[i].Process); diff != "" {
			t.Errorf("sample %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestALaterMappingLiesOverAnEarlierOne(t *testing.T) {
	r := story(t, Options{}, nil, slices.Concat(
		execute(7, "a", "/nowhere/a"),
		[]perfevent.Record{at(7, 0x400010), &perfevent.Mapping{ID: id(7), Address: 0x400000, Length: 0x1000, File: "/nowhere/b"}, at(7, 0x400010)},
	)...)
	for i, want := range []string{"[a+0x10]", "[b+0x10]"} {
		if got := r.Samples[i].User; !slices.Equal(got, []string{want}) {
			t.Errorf("sample %d is in %q, want %s", i, got, want)
		}
	}
}

func TestAChildsMappingsAreItsOwn(t *testing.T) {
	over := func(pid int, file string) perfevent.Record {
		return &perfevent.Mapping{ID: id(pid), Address: 0x10000, Length: 0x1000, File: file}
	}
	r := story(t, Options{}, nil, slices.Concat(
		execute(7, "a", "/nowhere/a"),
		[]perfevent.Record{fork(8, 7), fork(9, 7), over(8, "/nowhere/eight"), over(9, "/nowhere/nine"), over(7, "/nowhere/seven"), at(7, 0x10000), at(8, 0x10000), at(9, 0x10000)},
	)...)
	for i, want := range []string{"[seven+0x0]", "[eight+0x0]", "[nine+0x0]"} {
		if got := r.Samples[i].User; !slices.Equal(got, []string{want}) {
			t.Errorf("process %d is in %q, want %s", 7+i, got, want)
		}
	}
}

func TestWhatIsKnownFromElsewhere(t *testing.T) {
	asked := 0
	o := Options{Processes: func(pid int, at time.Duration) (probe.Process, bool) {
		asked++
		if pid == 8 {
			return probe.Process{}, false
		}
		return probe.Process{PID: pid, Parent: 3, Comm: "later", Args: []string{"a", "--flag"}, Exe: "elsewhere", Contained: true}, true
	}}
	r := story(t, o, nil, slices.Concat(
		execute(7, "a", "/nowhere/a"), []perfevent.Record{at(7, 0x400000), at(7, 0x400001)},
		execute(8, "b", "/nowhere/b"), []perfevent.Record{at(8, 0x400000)},
	)...)
	want := probe.Process{PID: 7, Parent: 3, Comm: "a", Args: []string{"a", "--flag"}, Exe: "/nowhere/a", Contained: true}
	if diff := cmp.Diff(want, *r.Samples[0].Process); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r.Samples[0].Process != r.Samples[1].Process || asked != 2 {
		t.Errorf("asked %d times for two programs", asked)
	}
}

func TestAContainersCgroupNamesIt(t *testing.T) {
	in := &perfevent.Sample{ID: id(7), User: []uint64{0x400000}, Cgroup: 5}
	out := &perfevent.Sample{ID: id(8), User: []uint64{0x400000}, Cgroup: 6}
	made := &perfevent.Sample{ID: id(9), User: []uint64{0x400000}, Cgroup: 7}
	r := story(t, Options{}, nil, slices.Concat(
		execute(7, "a", "/nowhere/a"), execute(8, "a", "/nowhere/a"), execute(9, "a", "/nowhere/a"),
		[]perfevent.Record{&perfevent.Cgroup{Cgroup: 7, Path: "/docker/4567"}, in, out, made},
	)...)
	for i, want := range []bool{true, false, true} {
		if got := r.Samples[i].Process.Contained; got != want {
			t.Errorf("process %d is contained: %v", 7+i, got)
		}
	}
}

func TestCounts(t *testing.T) {
	r := story(t, Options{}, nil,
		&perfevent.Sample{Kernel: []uint64{1}}, &perfevent.Lost{Count: 3}, &perfevent.Lost{Count: 4},
		&perfevent.Throttle{}, &perfevent.Throttle{Ends: true}, at(7, 1), at(7, 1), at(7, 1))
	if r.Idle != 1 || r.Lost != 7 || r.Throttled != 1 || len(r.Samples) != 3 || r.Busy() != 0.75 {
		t.Errorf("%+v", r)
	}
	stacks := r.Stacks()
	if len(stacks) != 1 || stacks[0].Weight != 0.003 {
		t.Errorf("three samples alike are %+v", stacks)
	}
	if part := r.Between(6*time.Millisecond, 7*time.Millisecond); len(part.Samples) != 1 || part.Idle != 0 || part.Busy() != 1 {
		t.Errorf("between 6 and 7 ms are %d samples, %d idle", len(part.Samples), part.Idle)
	}
	if part := r.Between(0, 6*time.Millisecond); len(part.Samples) != 1 || part.Idle != 1 || part.Busy() != 0.5 {
		t.Errorf("up to 6 ms are %d samples, %d idle", len(part.Samples), part.Idle)
	}
	if none := r.Between(9*time.Millisecond, 7*time.Millisecond); len(none.Samples) != 0 {
		t.Errorf("from 9 to 7 ms are %d samples", len(none.Samples))
	}
}

func TestOrderIsThatOfTime(t *testing.T) {
	if places, malformed := order(perfevent.Format{}, [][]byte{{1, 2, 3}}); len(places) != 0 || malformed != 1 {
		t.Errorf("bytes that are no record: %d places, %d malformed", len(places), malformed)
	}
}
