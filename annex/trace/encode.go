package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"tare/annex"
)

// The flags of an event.
const (
	flagWrite = 1 << iota
	flagMore
	flagAll = flagWrite | flagMore
)

// check tells why an event cannot be written.
func (e *Event) check(containers int) error {
	runs := 0
	for _, s := range e.Stretches {
		runs += max(len(s.Runs), 1)
	}
	switch {
	case !e.Kind.valid():
		return fmt.Errorf("an event is of %v, which there is not", e.Kind)
	case e.Kind != Lost && (e.Container < 0 || e.Container >= containers):
		return fmt.Errorf("%v names container %d of %d", e.Kind, e.Container, containers)
	case len(e.Pages) > Most || runs > Most:
		return fmt.Errorf("%v has %d pages and %d runs: give at most %d at once", e.Kind, len(e.Pages), runs, Most)
	case e.CPU < 0 || e.Took < 0:
		return fmt.Errorf("%v has a negative time: cpu %v, took %v", e.Kind, e.CPU, e.Took)
	}
	return nil
}

// cursor is what events of a block are told relative to.
type cursor struct {
	at   annex.Moment
	page annex.Page
}

// encode appends an event.
func (c *cursor) encode(b []byte, e *Event) []byte {
	flags := byte(0)
	if e.Write {
		flags |= flagWrite
	}
	if e.More {
		flags |= flagMore
	}
	b = append(b, byte(e.Kind), flags)
	b = binary.AppendVarint(b, int64(e.At-c.at))
	c.at = e.At
	if e.Kind == Lost {
		return binary.AppendUvarint(b, e.Count)
	}
	b = binary.AppendUvarint(b, uint64(e.Container))
	if e.Kind.hasCPU() {
		b = binary.AppendUvarint(b, uint64(e.CPU))
	}
	if !e.Kind.hasSpace() {
		return b
	}
	b = binary.AppendUvarint(b, uint64(uint32(e.Space.PID)))
	b = binary.AppendUvarint(b, e.Space.Started)
	b = binary.AppendUvarint(b, uint64(e.Took))
	if e.Kind.hasPages() {
		b = binary.AppendUvarint(b, uint64(len(e.Pages)))
		for _, p := range e.Pages {
			b = c.encodePage(b, p)
		}
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(e.Stretches)))
	for _, s := range e.Stretches {
		b = c.encodePage(b, s.First)
		b = binary.AppendUvarint(b, uint64(len(s.Runs)))
		for _, r := range s.Runs {
			b = append(b, byte(r.State))
			b = binary.AppendUvarint(b, r.Pages)
			c.page += annex.Page(r.Pages)
		}
	}
	return b
}

func (c *cursor) encodePage(b []byte, p annex.Page) []byte {
	b = binary.AppendVarint(b, int64(p-c.page))
	c.page = p
	return b
}

var errShort = errors.New("an event ends before it is whole")

// decoder takes the events of a block apart.
type decoder struct {
	cursor
	rest []byte
	err  error
}

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.fail(errShort)
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.rest = nil
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// duration is one that is not negative.
func (d *decoder) duration() time.Duration {
	v := d.uvarint()
	if v > math.MaxInt64 {
		d.fail(fmt.Errorf("a time of %d ns is too long", v))
		return 0
	}
	return time.Duration(v)
}

// count is of things that take at least so many bytes each: no more than there can be.
func (d *decoder) count(what string, bytes int) int {
	v := d.uvarint()
	if v > Most || v*uint64(bytes) > uint64(len(d.rest)) {
		d.fail(fmt.Errorf("%d %s are more than there is room for", v, what))
		return 0
	}
	return int(v)
}

func (d *decoder) number(what string, below uint64) uint64 {
	v := d.uvarint()
	if v >= below && d.err == nil {
		d.fail(fmt.Errorf("there is no %s %d", what, v))
		return 0
	}
	return v
}

func (d *decoder) nextPage() annex.Page {
	d.page += annex.Page(d.varint())
	return d.page
}

// event takes the next one.
func (d *decoder) event(containers int) (Event, error) {
	e := Event{Kind: Kind(d.byte())}
	flags := d.byte()
	if d.err == nil && (!e.Kind.valid() || flags&^flagAll != 0) {
		d.fail(fmt.Errorf("there is no %v with flags %#x in this version of the format", e.Kind, flags))
	}
	e.Write, e.More = flags&flagWrite != 0, flags&flagMore != 0
	d.at += annex.Moment(d.varint())
	e.At = d.at
	if e.Kind == Lost {
		e.Count = d.uvarint()
		return e, d.err
	}
	e.Container = int(d.number("container", uint64(containers)))
	if e.Kind.hasCPU() {
		e.CPU = d.duration()
	}
	if !e.Kind.hasSpace() {
		return e, d.err
	}
	e.Space.PID = int32(uint32(d.number("process", 1<<32)))
	e.Space.Started = d.uvarint()
	e.Took = d.duration()
	if e.Kind.hasPages() {
		n := d.count("pages", 1)
		for range n {
			e.Pages = append(e.Pages, d.nextPage())
		}
		return e, d.err
	}
	runs := 0
	for range d.count("stretches", 2) {
		s := Stretch{First: d.nextPage()}
		n := d.count("runs", 2)
		if runs += max(n, 1); runs > Most {
			d.fail(fmt.Errorf("a scan of more than %d runs", Most))
		}
		for range n {
			r := States{annex.State(d.byte()), d.uvarint()}
			d.page += annex.Page(r.Pages)
			s.Runs = append(s.Runs, r)
		}
		e.Stretches = append(e.Stretches, s)
		if d.err != nil {
			break
		}
	}
	return e, d.err
}
