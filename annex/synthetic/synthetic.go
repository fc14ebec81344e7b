// Package synthetic makes access traces of containers that never ran: periodic, Poisson,
// heavy-tailed, drifting, scanning, collecting garbage, sharing pages with forks, asked after
// by health probes, and serving requests. It is what simulations are given where nothing was recorded,
// and where what should come out is known.
//
// The same mix gives the same trace, to the byte. It models when pages are touched first in a
// burst, not how often; nothing of it was fitted to any program.
//
// Sources of the shapes: heavy tails are Pareto's law with exponent 1.5, as times between
// invocations of functions are (Shahrad et al., Serverless in the Wild, ATC 2020, section 3);
// popularity of pages is Zipf's law.
package synthetic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"tare/annex"
)

// Kind is how a container behaves.
type Kind string

// The kinds. All but Serving sleep and wake for bursts over a working set.
const (
	Periodic  Kind = "periodic"  // every so often, give or take a twentieth
	Poisson   Kind = "poisson"   // exponential times between
	Heavy     Kind = "heavy"     // Pareto's times between, exponent 1.5
	Drifting  Kind = "drifting"  // periodic; each burst a twentieth of the working set is other pages
	Scanning  Kind = "scanning"  // periodic; each burst goes on where the last one ended
	Collected Kind = "collected" // periodic; each eighth burst touches all there is, as a full garbage collection
	Forked    Kind = "forked"    // periodic; the first half of its pages is shared with forks
	Probed    Kind = "probed"    // periodic, and each second a health probe of a moment
	Serving   Kind = "serving"   // requests at Poisson moments, pages by Zipf's law
)

// Kinds lists the kinds.
var Kinds = []Kind{Periodic, Poisson, Heavy, Drifting, Scanning, Collected, Forked, Probed, Serving}

// Duration is one that JSON has as a text such as "12s".
type Duration time.Duration

// MarshalText has it as text.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads it.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// Mix is the containers of a host.
type Mix struct {
	Seed     uint64   `json:"seed"`
	Duration Duration `json:"duration"`
	Groups   []Group  `json:"groups"`
}

// Group is containers of a kind.
type Group struct {
	Name  string      `json:"name"`
	Kind  Kind        `json:"kind"`
	Class annex.Class `json:"class"`
	// Count is how many there are, each with its own phase and its own pages.
	Count int `json:"count"`
	// Pages is the size of one.
	Pages int `json:"pages"`
	// Every is the mean time between bursts, or between requests of one that serves.
	Every Duration `json:"every"`
	// Working is the share of its pages that a burst touches; default one half. Of one that serves, requests touch
	// all.
	Working float64 `json:"working,omitempty"`
	// Written is the share of its pages that bursts write, and do not only read; default 1. They
	// are the same each time, in runs of eight.
	Written *float64 `json:"written,omitempty"`
	// Requests are how many make a burst; default 32.
	Requests int `json:"requests,omitempty"`
	// Touches is how many pages a request of one that serves touches; default 24.
	Touches int `json:"touches,omitempty"`
	// PageTime is what using a page takes beside memory; default 2 us.
	PageTime Duration `json:"page_time,omitempty"`
}

// DefaultPageTime is what using a page takes where a group does not say.
const DefaultPageTime = 2 * time.Microsecond

const mostPages = 1 << 26 // of a container: 256 GiB

// Check tells what is wrong with a mix.
func (m Mix) Check() error {
	if m.Duration <= 0 {
		return errors.New("duration: want how long it lasts, such as \"120s\"")
	}
	if len(m.Groups) == 0 {
		return errors.New("groups: want at least one")
	}
	for i, g := range m.Groups {
		wrong := func(format string, args ...any) error {
			return fmt.Errorf("group %d (%q): %s", i, g.Name, fmt.Sprintf(format, args...))
		}
		switch {
		case g.Name == "":
			return wrong("it has no name")
		case !slices.Contains(Kinds, g.Kind):
			return wrong("kind %q: want one of %q", g.Kind, Kinds)
		case !slices.Contains(annex.Classes, g.Class):
			return wrong("class %q: want one of %q", g.Class, annex.Classes)
		case g.Count < 0 || g.Count > 100_000:
			return wrong("count %d: want 0 to 100000", g.Count)
		case g.Pages < 1 || g.Pages > mostPages:
			return wrong("pages %d: want 1 to %d", g.Pages, mostPages)
		case g.Every <= 0:
			return wrong("every %v: want more than 0", time.Duration(g.Every))
		case g.Working < 0 || g.Working > 1:
			return wrong("working %v: want a share up to 1", g.Working)
		case g.Written != nil && !(*g.Written >= 0 && *g.Written <= 1):
			return wrong("written %v: want a share up to 1", *g.Written)
		case g.Requests < 0 || g.Touches < 0 || g.Touches > 1<<16 || g.PageTime < 0:
			return wrong("requests, touches and page_time: want none negative, and touches up to 65536")
		}
	}
	return nil
}

func (g Group) withDefaults() Group {
	if g.Working == 0 {
		g.Working = 0.5
	}
	if g.Written == nil {
		all := 1.0
		g.Written = &all
	}
	if g.Requests == 0 {
		g.Requests = 32
	}
	if g.Touches == 0 {
		g.Touches = 24
	}
	if g.PageTime == 0 {
		g.PageTime = Duration(DefaultPageTime)
	}
	return g
}

// Containers is how many there are of a class.
func (m Mix) Containers(class annex.Class) int {
	n := 0
	for _, g := range m.Groups {
		if g.Class == class {
			n += g.Count
		}
	}
	return n
}

// Bytes is how much memory all have together.
func (m Mix) Bytes() int64 {
	n := int64(0)
	for _, g := range m.Groups {
		n += int64(g.Count) * int64(g.Pages) * annex.PageSize
	}
	return n
}

// Parse reads a mix, as JSON. What is wrong in how that is written is told with its line.
func Parse(r io.Reader) (Mix, error) {
	var m Mix
	var read lines
	r = io.TeeReader(r, &read)
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		syntax, kind := new(json.SyntaxError), new(json.UnmarshalTypeError)
		switch {
		case errors.Is(err, io.EOF):
			err = errors.New("it is empty")
		case errors.Is(err, io.ErrUnexpectedEOF):
			err = fmt.Errorf("line %d: it ends in the middle", read.at(read.bytes))
		case errors.As(err, &syntax):
			err = fmt.Errorf("line %d: %w", read.at(syntax.Offset), err)
		case errors.As(err, &kind):
			err = fmt.Errorf("line %d: %w", read.at(kind.Offset), err)
		}
		return Mix{}, fmt.Errorf("a trace mix: %w", err)
	}
	rest, err := io.ReadAll(io.MultiReader(d.Buffered(), r))
	if err != nil {
		return Mix{}, err
	}
	if more := bytes.TrimLeft(rest, " \t\r\n"); len(more) > 0 {
		at := d.InputOffset() + int64(len(rest)-len(more)) + 1
		return Mix{}, fmt.Errorf("a trace mix: line %d: there is more behind its end", read.at(at))
	}
	if err := m.Check(); err != nil {
		return Mix{}, fmt.Errorf("a trace mix: %w", err)
	}
	return m, nil
}

// lines is where the lines of what was read end.
type lines struct {
	bytes int64
	ends  []int64
}

func (l *lines) Write(b []byte) (int, error) {
	for i, c := range b {
		if c == '\n' {
			l.ends = append(l.ends, l.bytes+int64(i))
		}
	}
	l.bytes += int64(len(b))
	return len(b), nil
}

// at is the line, from 1 on, of a byte that is the last of what is meant.
func (l *lines) at(offset int64) int {
	before, _ := slices.BinarySearch(l.ends, offset-1)
	return before + 1
}
