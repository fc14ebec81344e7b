package container

import (
	"fmt"
	"strings"
)

// Note is an engine that was asked and could not say what it runs.
type Note struct {
	Engine Engine `json:"engine"`
	Socket string `json:"socket"`
	What   string `json:"what"` // "has not answered for 2s"
	Mend   string `json:"mend"` // what to do about it
}

func (n Note) String() string {
	return fmt.Sprintf("%s at %s %s: %s", n.Engine, n.Socket, n.What, n.Mend)
}

// Unknown says that no running container has the name.
type Unknown struct {
	Name    string
	Nearest []string // names that may have been meant, nearest first
	Running []string // names of what runs
	Notes   []Note   // engines that may know it, and could not say
}

// listed is how many names an error lists.
const listed = 10

func (u *Unknown) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no running container %q", u.Name)
	switch {
	case len(u.Nearest) > 0:
		fmt.Fprintf(&b, "; did you mean %s?", strings.Join(u.Nearest, " or "))
	case len(u.Running) == 0:
		b.WriteString("; none runs that an engine here reports (a process is named pid:NUMBER, a control group by its path)")
	case len(u.Running) > listed:
		fmt.Fprintf(&b, "; running: %s and %d more", strings.Join(u.Running[:listed], ", "), len(u.Running)-listed)
	default:
		fmt.Fprintf(&b, "; running: %s", strings.Join(u.Running, ", "))
	}
	for _, n := range u.Notes {
		fmt.Fprintf(&b, "; %s", n)
	}
	return b.String()
}

// Ambiguous says that several running containers have the name.
type Ambiguous struct {
	Name    string
	Matches []Container
}

func (a *Ambiguous) Error() string {
	var names []string
	for _, c := range a.Matches[:min(len(a.Matches), listed)] {
		names = append(names, fmt.Sprintf("%s (%s %s)", c.Name, c.Engine, short(c.ID)))
	}
	more := ""
	if len(a.Matches) > listed {
		more = fmt.Sprintf(" and %d more", len(a.Matches)-listed)
	}
	return fmt.Sprintf("%q names %d running containers: %s%s; give more of the id, or pid:NUMBER", a.Name, len(a.Matches), strings.Join(names, ", "), more)
}

// Ended says that a container or process is no longer there.
type Ended struct{ Name string }

func (e *Ended) Error() string { return e.Name + " has ended" }

// Twice says that two names are the same container's, or of containers that have a
// process in common: a process and the container that it runs in.
type Twice struct {
	First, Second string
	// PID is the process in common; 0 where they are the same container.
	PID int
}

func (t *Twice) Error() string {
	switch {
	case t.First == t.Second:
		return fmt.Sprintf("%q is named twice", t.First)
	case t.PID != 0:
		return fmt.Sprintf("process %d belongs to %q and to %q: name one of them", t.PID, t.First, t.Second)
	}
	return fmt.Sprintf("%q and %q are the same container", t.First, t.Second)
}
