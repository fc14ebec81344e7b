package media

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tare/annex"
	"tare/kernel/swap"
)

// Kind is what pages go to.
type Kind string

// The kinds.
const (
	File   Kind = "file"   // a swap file
	Device Kind = "device" // a block device or partition
	ZRAM   Kind = "zram"   // a block device that holds compressed pages in memory
)

// Kinds lists them.
var Kinds = []Kind{File, Device, ZRAM}

// Traits are what a medium wants of those who use it.
type Traits struct {
	// Chunk is how many pages are asked for at a time.
	Chunk int
	// Gap is how many pages that nobody asked for are worth bringing in to make one run of
	// two.
	Gap int
	// Sequential tells that neighbours are had in one read: pages that are used together
	// are to lie together.
	Sequential bool
	// Depth is how many reads may wait at the device before no more are added, behind which
	// a demand fault would have to wait; 0 where there is no queue.
	Depth int
	// Wears tells that writing to it uses it up.
	Wears bool
}

// traits, by kind. A disk takes some 2.4 us a page in one run, 4 in runs of four and 9
// scattered, where a page of zram takes 5 to 7 however it lies (BenchmarkFile,
// BenchmarkZRAM): so a page that is not wanted costs a disk less than another run does, as
// long as there are one or two. A chunk of a disk is one read of 256 KiB at best, a tenth
// of a millisecond behind which a demand fault may come to stand; zram has no queue, and a
// chunk is what the processor is busy with for as long.
//
// The kernel does not wait for a disk: of scattered pages 200 reads and more come to stand
// at it, and the faults of other programs, at the 99th percentile, take 3.8 ms. At a depth
// of 32 they take 0.7 to 1.0, and the pages 14 us each (BenchmarkDemandFaultBeside).
var traits = map[Kind]Traits{
	File:   {Chunk: 64, Gap: 2, Sequential: true, Depth: 32, Wears: true},
	Device: {Chunk: 64, Gap: 2, Sequential: true, Depth: 32, Wears: true},
	ZRAM:   {Chunk: 32},
}

// Room is how much a medium holds. Bytes.
type Room struct{ Size, Free int64 }

// Counters are what went through a medium since it is there, by whomever: of a file,
// that of the device below it. Bytes.
type Counters struct {
	Written, Read int64
	// Held is memory that the medium takes for what it holds: of zram.
	Held int64
}

// Medium is a place that pages go to. The kernel moves them there, so that it has
// nothing to do but to tell of itself.
type Medium interface {
	Name() string
	Kind() Kind
	Traits() Traits
	// Room reads how much there is; the error is a [*NotInUse] where the kernel puts no
	// pages there.
	Room() (Room, error)
	// Counters reads them; the error is a [*swap.NoDevice] where no single device is below.
	Counters() (Counters, error)
	// Reading is how many reads, of whomever, the device has not answered yet. The error is
	// that of Counters.
	Reading() (int, error)
}

// NotInUse says that a medium is not among the kernel's swap areas.
type NotInUse struct{ Path string }

func (n *NotInUse) Error() string {
	return fmt.Sprintf("%s is not in use as swap: put it to use (swapon %[1]s)", n.Path)
}

// area is what media have in common: each is an area of swap.
type area struct {
	host swap.Host
	path string
	kind Kind
	gone bool // its file has no name any more: another may have it

	mu    sync.Mutex
	queue *swap.Queue // of the device below; nil until it is asked for
}

func (a *area) Name() string {
	if a.gone {
		return a.path + " (deleted)"
	}
	return a.path
}
func (a *area) Kind() Kind     { return a.kind }
func (a *area) Traits() Traits { return traits[a.kind] }

func (a *area) Room() (Room, error) {
	areas, err := a.host.Areas()
	if err != nil {
		return Room{}, err
	}
	path := a.path
	if real, err := filepath.EvalSymlinks(path); err == nil && !a.gone {
		path = real // the kernel knows it by that
	}
	for _, has := range areas {
		if has.Deleted == a.gone && (has.Path == path || has.Path == a.path) {
			return Room{Size: has.Size, Free: max(0, has.Size-has.Used)}, nil
		}
	}
	return Room{}, &NotInUse{a.Name()}
}

func (a *area) Counters() (Counters, error) {
	below, err := a.host.Below(a.path)
	if err != nil {
		return Counters{}, err
	}
	io, err := a.host.IO(below)
	if err != nil {
		return Counters{}, err
	}
	return Counters{Written: io.WrittenBytes, Read: io.ReadBytes}, nil
}

// Reading asks the device that was below when it was asked first, or last could be.
func (a *area) Reading() (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.queue == nil {
		below, err := a.host.Below(a.path)
		if err != nil {
			return 0, err
		}
		if a.queue, err = a.host.Queue(below); err != nil {
			return 0, err
		}
	}
	reads, _, err := a.queue.Length()
	if err != nil {
		_ = a.queue.Close()
		a.queue = nil // it may have gone, and another be below
	}
	return int(reads), err
}

// compressed is an area on zram, which holds in memory what it is given.
type compressed struct {
	*area
	device swap.ZRAM
}

func (c compressed) Counters() (Counters, error) {
	counters, err := c.area.Counters()
	if err != nil {
		return Counters{}, err
	}
	stat, err := c.host.ZRAMStat(c.device)
	if err != nil {
		return Counters{}, err
	}
	counters.Held = stat.MemUsedTotal
	return counters, nil
}

// Of is the medium that an area is.
func Of(host swap.Host, a swap.Area) Medium {
	if a.File {
		return &area{host: host, path: a.Path, kind: File, gone: a.Deleted}
	}
	if number, ok := strings.CutPrefix(filepath.Base(a.Path), "zram"); ok {
		if id, err := strconv.Atoi(number); err == nil && id >= 0 {
			return compressed{&area{host: host, path: a.Path, kind: ZRAM}, swap.ZRAM{ID: id, Size: a.Size}}
		}
	}
	return &area{host: host, path: a.Path, kind: Device}
}

// InUse lists the media that are in use, in the order in which the kernel fills them.
func InUse(host swap.Host) ([]Medium, error) {
	areas, err := host.Areas()
	if err != nil {
		return nil, err
	}
	var all []Medium
	slices.SortStableFunc(areas, func(a, b swap.Area) int { return cmp.Compare(b.Priority, a.Priority) })
	for _, a := range areas {
		all = append(all, Of(host, a))
	}
	return all, nil
}

// Together are media as one: the kernel fills them in their order, and which it takes
// nobody tells it.
type Together []Medium

// Name is their names.
func (t Together) Name() string {
	var names []string
	for _, m := range t {
		names = append(names, m.Name())
	}
	return strings.Join(names, ", ")
}

// Filling is the one that is being filled.
func (t Together) Filling() Medium { return t.first() }

// first is the one that the next pages go to: the first that has room.
func (t Together) first() Medium {
	if len(t) == 1 {
		return t[0]
	}
	for _, m := range t {
		if room, err := m.Room(); err == nil && room.Free >= annex.PageSize {
			return m
		}
	}
	return t[0]
}

// Kind is that of the one that is being filled.
func (t Together) Kind() Kind { return t.first().Kind() }

// Traits are those of the one that is being filled; it wears where any does, and runs
// are bridged for whichever profits.
func (t Together) Traits() Traits {
	all := t.first().Traits()
	for _, m := range t {
		one := m.Traits()
		all.Gap = max(all.Gap, one.Gap)
		all.Depth = max(all.Depth, one.Depth)
		all.Sequential = all.Sequential || one.Sequential
		all.Wears = all.Wears || one.Wears
	}
	return all
}

// Room is what those of them have together that are in use.
func (t Together) Room() (Room, error) {
	var all Room
	var last error
	inUse := false
	for _, m := range t {
		one, err := m.Room()
		var not *NotInUse
		switch {
		case errors.As(err, &not):
			last = err
		case err != nil:
			return Room{}, err
		default:
			inUse = true
			all.Size += one.Size
			all.Free += one.Free
		}
	}
	if inUse {
		last = nil
	}
	return all, last
}

// Counters are what went through any of them.
func (t Together) Counters() (Counters, error) {
	var all Counters
	for _, m := range t {
		one, err := m.Counters()
		if err != nil {
			return Counters{}, err
		}
		all.Written += one.Written
		all.Read += one.Read
		all.Held += one.Held
	}
	return all, nil
}

// Reading is that of the one where most wait.
func (t Together) Reading() (int, error) {
	most := 0
	for _, m := range t {
		one, err := m.Reading()
		if err != nil {
			return 0, err
		}
		most = max(most, one)
	}
	return most, nil
}

// ErrNoMedium says that the host has no swap.
var ErrNoMedium = errors.New("no swap is in use on this host: put a swap file, a device or zram to use first")
