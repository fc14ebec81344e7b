package monitor

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/btf"

	"tare/annex"
	"tare/probe/pagetable"
)

// What the programs are given and tell has the layout that they give it.
func TestLayoutsAgree(t *testing.T) {
	spec, err := loadObject()
	if err != nil {
		t.Fatal(err)
	}
	if size := spec.Maps[objectMapRoots].KeySize; uintptr(size) != unsafe.Sizeof(kernelDirectory{}) {
		t.Errorf("a directory has %d bytes in the programs", size)
	}
	if size := spec.Maps[objectMapContexts].ValueSize; uintptr(size) != unsafe.Sizeof(kernelContext{}) {
		t.Errorf("a context has %d bytes in the programs", size)
	}
	var rest *btf.Struct
	proto := btf.FuncMetadata(&spec.Programs[objectProgRest].Instructions[0])
	if proto == nil {
		t.Fatal("the program rest has no type")
	}
	pointer, ok := proto.Type.(*btf.FuncProto).Params[0].Type.(*btf.Pointer)
	if ok {
		rest, ok = pointer.Target.(*btf.Struct)
	}
	if !ok {
		t.Fatalf("the program rest takes %v", proto.Type)
	}
	var k kernelRest
	for name, at := range map[string]uintptr{"number": 0, "slept": unsafe.Offsetof(k.Slept), "before": unsafe.Offsetof(k.Before), "last": unsafe.Offsetof(k.Last), "cpu": unsafe.Offsetof(k.CPU), "running": unsafe.Offsetof(k.Running), "gone": unsafe.Offsetof(k.Gone)} {
		i := slices.IndexFunc(rest.Members, func(m btf.Member) bool { return m.Name == name })
		if i < 0 || uintptr(rest.Members[i].Offset.Bytes()) != at {
			t.Errorf("%s does not lie at %d in the programs", name, at)
		}
	}
}

// written writes a record as the programs do.
func written(r record) []byte {
	b := make([]byte, recordSize)
	binary.LittleEndian.PutUint64(b, uint64(r.at))
	binary.LittleEndian.PutUint64(b[8:], r.value)
	binary.LittleEndian.PutUint64(b[16:], r.space.Started*tick)
	binary.LittleEndian.PutUint32(b[24:], uint32(r.space.PID))
	binary.LittleEndian.PutUint32(b[28:], r.number)
	binary.LittleEndian.PutUint32(b[32:], r.kind)
	binary.LittleEndian.PutUint32(b[36:], r.flags)
	return b
}

func FuzzDecode(f *testing.F) {
	f.Add(written(record{at: 5, value: 7, space: annex.Space{PID: 3, Started: 90}, number: 1, kind: kindFault, flags: flagWritten}))
	f.Add(written(record{kind: kindJoined}))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decode(b)
		if err != nil {
			return
		}
		again, err := decode(written(r))
		if err != nil || again != r {
			t.Errorf("%+v was read back as %+v, %v", r, again, err)
		}
		var out batches
		out.add("one", r)
		for _, one := range out.all {
			for _, p := range one.Processes {
				_ = p.What.String()
			}
		}
	})
}

// A batch has one kind of things, and batches keep the order.
func TestBatchesKeepTheOrder(t *testing.T) {
	var b batches
	for i := range most + 1 {
		b.add("one", record{kind: kindFault, value: uint64(i)})
	}
	b.add("one", record{kind: kindExecuted})
	b.add("one", record{kind: kindEnded})
	b.activity(annex.Activity{ID: "one", What: annex.Slept})
	b.add("one", record{kind: kindFault, flags: flagNew})
	b.lost(3)
	b.add("one", record{kind: kindFault, flags: flagWritten})
	var shape [][4]int
	for _, one := range b.all {
		shape = append(shape, [4]int{len(one.Faults), len(one.Activity), len(one.Processes), int(one.Lost)})
	}
	want := [][4]int{{most}, {1}, {0, 0, 2}, {0, 1}, {1}, {0, 0, 0, 3}, {1}}
	if !slices.Equal(shape, want) {
		t.Fatalf("batches %v, want %v", shape, want)
	}
	if f := b.all[0].Faults; f[0].Page != 0 || f[most-1].Page != annex.Page(most-1) || !f[0].Swapped {
		t.Errorf("faults %+v to %+v", f[0], f[most-1])
	}
	if f := b.all[4].Faults[0]; f.Swapped {
		t.Errorf("a new page %+v", f)
	}
	if f := b.all[6].Faults[0]; !f.Swapped || !f.Write {
		t.Errorf("a page written to %+v", f)
	}
	if p := b.all[2].Processes; p[0].What != Executed || p[1].What != Ended {
		t.Errorf("processes %+v", p)
	}
	to, closing := make(chan Batch, 1), make(chan struct{})
	close(closing)
	if b.send(to, closing) {
		t.Error("more was sent than there is room for")
	}
}

func TestOptions(t *testing.T) {
	o, err := Options{}.filled()
	if err != nil {
		t.Fatal(err)
	}
	if o.Dormancy <= 0 || o.Murmur != o.Dormancy/murmurShare || o.Ring&(o.Ring-1) != 0 {
		t.Errorf("unless told: %+v", o)
	}
	if o, _ := (Options{Murmur: -1}).filled(); o.Murmur != 0 {
		t.Errorf("no murmur: %v", o.Murmur)
	}
	for _, bad := range []Options{{Dormancy: -1}, {Delay: -1}, {Ring: 5000}, {Ring: 1}, {Containers: -1}} {
		if _, err := Open(bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// What was polled steps from dormant to awake and back by the CPU time taken.
func TestPolledSteps(t *testing.T) {
	c := polled{id: "one"}
	const murmur = 2
	var got []annex.Activity
	for now, cpu := range []time.Duration{0, 2, 10, 30, 31, 33, 33, 50} {
		var b batches
		c.step(cpu, annex.Moment(now), murmur, &b)
		for _, one := range b.all {
			got = append(got, one.Activity...)
		}
	}
	want := []annex.Activity{
		{ID: "one", What: annex.Woke, At: 2},
		{ID: "one", What: annex.Slept, At: 3, CPU: 29},
		{ID: "one", What: annex.Woke, At: 7},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Two spaces as after a fork: what is private, shared, swapped, read only once, or of files.
func TestStretches(t *testing.T) {
	const there = pagetable.Present | pagetable.Accessed
	maps := []pagetable.Mapping{
		{Start: 0, End: 100 * 4096, Kind: pagetable.Heap},
		{Start: 100 * 4096, End: 200 * 4096, Kind: pagetable.Library},
		{Start: 200 * 4096, End: 300 * 4096, Kind: pagetable.Anonymous, Shared: true},
		{Start: 300 * 4096, End: 900 * 4096, Kind: pagetable.Anonymous},
	}
	spaces := []pagetable.Space{
		{PID: 1, Mappings: maps, Runs: []pagetable.Run{
			{Page: 1, Mapping: 0, Entries: []pagetable.Entry{there | 70, there | pagetable.Writable | pagetable.Dirty | 71, pagetable.Swapped | 70}},
			{Page: 10, Mapping: 0, Entries: []pagetable.Entry{pagetable.Present | pagetable.Zero | 9}},
			{Page: 98, Mapping: 0, Entries: []pagetable.Entry{there | 70_000}},
			{Page: 100, Mapping: 1, Entries: []pagetable.Entry{there | 72}},
			{Page: 200, Mapping: 2, Entries: []pagetable.Entry{there | 73}},
			{Page: 512, Mapping: 3, Entries: []pagetable.Entry{pagetable.Present | pagetable.Huge | 512, pagetable.Present | pagetable.Huge | 513}},
		}},
		{PID: 2, Mappings: maps, Runs: []pagetable.Run{
			{Page: 1, Mapping: 0, Entries: []pagetable.Entry{there | 70, there | 71, pagetable.Swapped | 70}},
			{Page: 512, Mapping: 3, Entries: []pagetable.Entry{pagetable.Present | pagetable.Huge | 512}},
		}},
	}
	var f frames
	f.find(spaces)
	got, pages := stretches(&spaces[0], &f)
	P, S, A, D, M, H := annex.Present, annex.Swapped, annex.Accessed, annex.Dirty, annex.Shared, annex.Huge
	want := []annex.Stretch{
		{First: 1, States: []annex.State{P | A | M, P | A | D, S, 0, 0, 0, 0, 0, 0, 0}},
		{First: 98, States: []annex.State{P | A}},
		{First: 512, States: []annex.State{P | H | M, P | H}},
	}
	if !slices.EqualFunc(got, want, func(a, b annex.Stretch) bool {
		return a.First == b.First && slices.Equal(a.States, b.States)
	}) {
		t.Errorf("%v, want %v", got, want)
	}
	if pages != 7 {
		t.Errorf("%d pages, want 7", pages)
	}
	// One stretch's end is not another's room.
	_ = append(got[0].States, 255)
	if got[1].States[0] != P|A {
		t.Error("a stretch was written over by the one before")
	}
	f.forget()
	f.find(spaces[:1])
	if alone, _ := stretches(&spaces[0], &f); alone[0].States[0].Has(M) {
		t.Error("a page is shared with nobody")
	}
}
