// Package pressure reads how long tasks stood still for want of memory, CPU time or
// I/O (PSI), of the whole host or of one control group, and reports the moment at which
// they do so for longer than a bound.
//
// It does not say who is to blame: a group's tasks may wait for what another one took.
//
// Groups have it in the hierarchy of version 2 alone, with or without the controller of
// the resource: on a hybrid host a group's place in the version 2 tree says of tasks
// whose limits are in a tree of version 1.
//
// Source: Documentation/accounting/psi.rst, kernel/sched/psi.c; memory.pressure and
// cgroup.pressure in Documentation/admin-guide/cgroup-v2.rst.
package pressure

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tare/kernel/small"
)

// Resource is what tasks wait for.
type Resource string

// The resources.
const (
	Memory Resource = "memory"
	CPU    Resource = "cpu"
	IO     Resource = "io"
)

// Source is where the pressure of one resource is reported: the host's, or a group's.
type Source struct {
	root     string // of the tree with proc
	group    string // its directory in the version 2 hierarchy; empty is the host
	resource Resource
}

// Host is the pressure on the whole host.
func Host(r Resource) Source { return Source{root: "/", resource: r} }

// Group is that on a control group and all below it; dir is its directory in the
// hierarchy of version 2.
func Group(dir string, r Resource) Source { return Source{root: "/", group: dir, resource: r} }

// File is the file that has it.
func (s Source) File() string {
	if s.group == "" {
		return filepath.Join(s.proc(), string(s.resource))
	}
	return filepath.Join(s.group, string(s.resource)+".pressure")
}

func (s Source) proc() string { return filepath.Join(s.root, "proc/pressure") }

// Off says that the kernel does not account pressure, at all or for that group.
type Off struct{ File, Why, Mend string }

func (o *Off) Error() string {
	return fmt.Sprintf("no pressure is reported at %s: %s: %s", o.File, o.Why, o.Mend)
}

// NoGroup says that there is no such control group, or none any more.
type NoGroup struct{ Dir string }

func (n *NoGroup) Error() string { return fmt.Sprintf("there is no cgroup at %s", n.Dir) }

// absent says why a source's file cannot be read.
func (s Source) absent(err error) error {
	off := &Off{File: s.File(), Why: "the kernel does not account it (PSI is off)", Mend: "boot with psi=1, and a kernel built with CONFIG_PSI"}
	switch {
	case errors.Is(err, syscall.EOPNOTSUPP): // off, with files from before Linux 5.3
		return off
	case errors.Is(err, syscall.ENODEV) && s.group != "": // removed while open
		return &NoGroup{s.group}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case s.group == "":
		return off
	}
	if _, err := os.Stat(s.group); err != nil {
		return &NoGroup{s.group}
	}
	if b, err := os.ReadFile(filepath.Join(s.group, "cgroup.pressure")); err == nil && strings.TrimSpace(string(b)) == "0" {
		off.Why, off.Mend = "it is switched off for this group", "write 1 to "+filepath.Join(s.group, "cgroup.pressure")
		return off
	}
	if _, err := os.Stat(s.proc()); err != nil {
		return off
	}
	off.Why, off.Mend = "the directory is no group of cgroup version 2", "take the group's directory in that hierarchy"
	return off
}

// Stall is for how long, since boot or since the group was made, tasks stood still.
type Stall struct {
	Some Line `json:"some"` // at least one of them did
	// Full is the time in which all of them did that were not idle, so that nothing was
	// done. For the CPU the host has none, and 0 is reported.
	Full Line `json:"full"`
}

// Line is one of the two kinds of a stall.
type Line struct {
	// Shares of time, in percent, of the last 10 s, 60 s and 300 s, with less weight on
	// what is longer ago.
	Avg10  float64 `json:"avg10"`
	Avg60  float64 `json:"avg60"`
	Avg300 float64 `json:"avg300"`

	Total time.Duration `json:"total_ns"` // counted in microseconds
}

// Read reads it. The error is an [*Off] where the kernel does not account it, and a
// [*NoGroup] where there is no such group.
func (s Source) Read() (Stall, error) {
	b, err := small.Read(s.File())
	if err != nil {
		return Stall{}, s.absent(err)
	}
	stall, err := Parse(bytes.NewReader(b))
	if err != nil {
		return Stall{}, fmt.Errorf("%s: %w", s.File(), err)
	}
	return stall, nil
}

// Parse reads a pressure file, which has a line for some and, but for the CPU before
// Linux 5.13, one for full. Lines and figures that it does not know are passed over.
func Parse(r io.Reader) (Stall, error) {
	var s Stall
	known := false
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		kind, rest, _ := strings.Cut(lines.Text(), " ")
		to := map[string]*Line{"some": &s.Some, "full": &s.Full}[kind]
		if to == nil {
			continue
		}
		line, err := parseLine(rest)
		if err != nil {
			return Stall{}, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		*to = line
		known = known || kind == "some"
	}
	if err := lines.Err(); err != nil {
		return Stall{}, err
	}
	if !known {
		return Stall{}, errors.New("no line begins with some")
	}
	return s, nil
}

func parseLine(text string) (Line, error) {
	var l Line
	shares := map[string]*float64{"avg10": &l.Avg10, "avg60": &l.Avg60, "avg300": &l.Avg300}
	total := false
	for _, field := range strings.Fields(text) {
		name, value, _ := strings.Cut(field, "=")
		if to, ok := shares[name]; ok {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil || math.IsNaN(v) || v < 0 || v > 100 {
				return Line{}, fmt.Errorf("%s is %q, want a percentage", name, value)
			}
			*to = v
			delete(shares, name)
		}
		if name == "total" {
			v, err := strconv.ParseInt(value, 10, 64)
			if err != nil || v < 0 || v > math.MaxInt64/int64(time.Microsecond) {
				return Line{}, fmt.Errorf("total is %q, want microseconds", value)
			}
			l.Total, total = time.Duration(v)*time.Microsecond, true
		}
	}
	if len(shares) > 0 || !total {
		return Line{}, errors.New("want avg10, avg60, avg300 and total")
	}
	return l, nil
}
