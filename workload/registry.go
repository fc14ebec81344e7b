package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// All lists the workloads that we ship, in the order in which people see them.
func All() []Workload {
	return []Workload{redis{}, httpd{}, docstore{}, multimodel{}, mapstore{}, stream{}, ffmpeg{}, uriParser, hashing, pagerank{}, fio{}, empty{}}
}

// Unknown says that there is no workload of that name.
type Unknown struct {
	Name    string
	Nearest []string // most alike first; empty where none is alike
	Known   []string
}

func (u *Unknown) Error() string {
	if len(u.Nearest) > 0 {
		return fmt.Sprintf("unknown workload %q; did you mean %s?", u.Name, strings.Join(u.Nearest, " or "))
	}
	return fmt.Sprintf("unknown workload %q; known: %s; --workload FILE.yaml for your own", u.Name, strings.Join(u.Known, ", "))
}

// Lookup finds a workload that we ship. The error is an *Unknown.
func Lookup(name string) (Workload, error) {
	var known []string
	for _, w := range All() {
		if w.Name() == name {
			return w, nil
		}
		known = append(known, w.Name())
	}
	return nil, &Unknown{Name: name, Nearest: nearest(name, known), Known: known}
}

// UnknownParam says that a workload has no parameter of that name.
type UnknownParam struct {
	Workload string
	Name     string
	Known    []string
}

func (u *UnknownParam) Error() string {
	if len(u.Known) == 0 {
		return fmt.Sprintf("workload %s has no parameter %q: it has none", u.Workload, u.Name)
	}
	if near := nearest(u.Name, u.Known); len(near) > 0 {
		return fmt.Sprintf("workload %s has no parameter %q; did you mean %s?", u.Workload, u.Name, strings.Join(near, " or "))
	}
	return fmt.Sprintf("workload %s has no parameter %q; it has %s", u.Workload, u.Name, strings.Join(u.Known, ", "))
}

// WrongValue says that a parameter's value is not allowed.
type WrongValue struct {
	Param, Value string
	Want         string // what is allowed
}

func (w *WrongValue) Error() string { return fmt.Sprintf("%s=%s: want %s", w.Param, w.Value, w.Want) }

// Resolve gives a value to every parameter: the overrides, and else the
// defaults. The error is an *UnknownParam, or what the workload's Program says
// of the values.
func Resolve(w Workload, overrides map[string]string) (Params, error) {
	p := Params{}
	var known []string
	for _, param := range w.Params() {
		p[param.Name] = param.Default
		known = append(known, param.Name)
	}
	// In order, so that of two wrong names always the same is told.
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		if _, ok := p[name]; !ok {
			return nil, &UnknownParam{Workload: w.Name(), Name: name, Known: known}
		}
		p[name] = overrides[name]
	}
	if _, err := w.Program(p); err != nil {
		return nil, fmt.Errorf("workload %s: %w", w.Name(), err)
	}
	return p, nil
}

// nearest gives those of known that are few edits away from name, or begin
// with it, nearest first.
func nearest(name string, known []string) []string {
	type candidate struct {
		name  string
		edits int
	}
	var near []candidate
	for _, k := range known {
		d := edits(strings.ToLower(name), k)
		if d <= max(1, len(k)/4) || len(name) > 1 && strings.HasPrefix(k, strings.ToLower(name)) {
			near = append(near, candidate{k, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return a.edits - b.edits })
	var names []string
	for _, c := range near {
		names = append(names, c.name)
	}
	return names
}

// edits is the number of letters to add, drop or change, or of neighbours to
// swap (optimal string alignment).
func edits(a, b string) int {
	var before, last []int // rows of the table
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
