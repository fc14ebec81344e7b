package breakdown

import (
	"os"
	"slices"
	"sort"

	"tare/probe"
)

// Split is an amount by the side on which it was spent.
type Split struct{ Kernel, User float64 }

// Total is both.
func (s Split) Total() float64 { return s.Kernel + s.User }

func (s *Split) add(inKernel bool, weight float64) {
	if inKernel {
		s.Kernel += weight
	} else {
		s.User += weight
	}
}

// Breakdown is weight by side, group and component. All amounts are in the
// stacks' own unit.
type Breakdown struct {
	Split
	// Cells is the matrix; what is not there is nothing.
	Cells map[Cell]Split
}

// Cell is a place of the matrix: what was done, by whom.
type Cell struct {
	Group     Group
	Component probe.Component
}

// Of breaks stacks down. The idle task's are left out. This process is taken
// for the client, see [probe.ComponentOf].
func Of(stacks []Stack) Breakdown {
	b := Breakdown{Cells: map[Cell]Split{}}
	c := NewClassifier()
	for i := range stacks {
		s := &stacks[i]
		cell := c.Cell(s)
		if cell.Component == probe.Idle {
			continue
		}
		b.add(s.InKernel(), s.Weight)
		split := b.Cells[cell]
		split.add(s.InKernel(), s.Weight)
		b.Cells[cell] = split
	}
	return b
}

// Without is the breakdown less some components, such as the client and
// programs that have nothing to do with the experiment.
func (b Breakdown) Without(components ...probe.Component) Breakdown {
	less := Breakdown{Cells: map[Cell]Split{}}
	for cell, split := range b.Cells {
		if !slices.Contains(components, cell.Component) {
			less.Cells[cell] = split
			less.Kernel += split.Kernel
			less.User += split.User
		}
	}
	return less
}

// KernelShare is the part that was spent in the kernel (S1.3), from 0 to 1; 0
// of nothing.
func (b Breakdown) KernelShare() float64 { return b.share(b.Kernel) }

// Share is the part of some groups together, from 0 to 1. S1.4's two are
// Share(Memory) and Share(Collector, Allocation).
func (b Breakdown) Share(groups ...Group) float64 {
	var sum float64
	for cell, split := range b.Cells {
		if slices.Contains(groups, cell.Group) {
			sum += split.Total()
		}
	}
	return b.share(sum)
}

func (b Breakdown) share(part float64) float64 {
	if total := b.Total(); total > 0 {
		return part / total
	}
	return 0
}

// ComponentTotal is one row of a breakdown by component.
type ComponentTotal struct {
	Component probe.Component
	Split
}

// ByComponent lists the components that have anything, the greatest first.
func (b Breakdown) ByComponent() []ComponentTotal {
	totals := map[probe.Component]Split{}
	for cell, split := range b.Cells {
		t := totals[cell.Component]
		totals[cell.Component] = Split{t.Kernel + split.Kernel, t.User + split.User}
	}
	rows := make([]ComponentTotal, 0, len(totals))
	for c, t := range totals {
		rows = append(rows, ComponentTotal{c, t})
	}
	sort.Slice(rows, func(i, j int) bool {
		if a, b := rows[i].Total(), rows[j].Total(); a != b {
			return a > b
		}
		return rows[i].Component < rows[j].Component
	})
	return rows
}

// Classifier gives the groups of stacks, and remembers which function matches
// what: there are far fewer functions than stacks. It is for one goroutine.
type Classifier struct {
	self                  int
	kernel, runtime, code *table
}

// NewClassifier takes this process for the client.
func NewClassifier() *Classifier {
	return &Classifier{os.Getpid(), newTable(kernelRules), newTable(runtimeRules), newTable(codeRules)}
}

// Cell gives where a stack belongs.
func (c *Classifier) Cell(s *Stack) Cell {
	component := probe.ComponentOf(s.Process, c.self)
	return Cell{c.group(s, component), component}
}

func (c *Classifier) group(s *Stack, component probe.Component) Group {
	if r := c.rule(s, component); r != nil {
		return r.group
	}
	return Unassigned
}

// rule is the one that decides; nil for none.
func (c *Classifier) rule(s *Stack, component probe.Component) *rule {
	if r := c.kernel.first(s.Kernel, component); r != nil {
		return r
	}
	if r := c.runtime.first(s.User, component); r != nil {
		return r
	}
	return c.code.innermost(s.User, component)
}
