package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tare/nearest"
)

// All lists the workloads that we ship, in the order in which people see them.
func All() []Workload {
	return []Workload{
		redis{},
		httpd{},
		docstore{},
		multimodel{},
		wordpress{},
		booking{},
		cassandra{},
		mapstore{},
		thrift{},
		stream{},
		streamMPI{},
		streamPeer{},
		ffmpeg{},
		uriParser,
		hashing,
		pagerank{},
		fio{},
		fioSync{},
		haccio{},
		fioCheckpoint{},
		mpiSearch{},
		mpiPrimes{},
		static,
		heap,
		files{},
		matrix{},
		empty{},
	}
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
	return nil, &Unknown{Name: name, Nearest: similar(name, known), Known: known}
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
	if near := similar(u.Name, u.Known); len(near) > 0 {
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
	// In order, so that of two wrong names always the same is reported.
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

// similar gives those of known that are few edits away from name, or begin
// with it, nearest first.
func similar(name string, known []string) []string {
	asked := strings.ToLower(name)
	return nearest.Of(known, 0, func(k string) (int, bool) {
		d := nearest.Edits(asked, k)
		return d, d <= max(1, len(k)/4) || len(asked) > 1 && strings.HasPrefix(k, asked)
	})
}
