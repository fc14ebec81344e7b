package breakdown

import (
	"slices"
	"strings"

	"tare/probe"
)

// table is rules, with what is known of functions so far.
type table struct {
	rules []rule
	known map[string]matches
}

// matches says which rules a function's name matches, by bit: by their patterns,
// and by those that keep them from applying.
type matches struct{ applies, prevents uint64 }

func newTable(rules []rule) *table {
	if len(rules) > 64 {
		panic("breakdown: more rules than bits")
	}
	return &table{rules, map[string]matches{}}
}

func (t *table) of(name string) matches {
	m, ok := t.known[name]
	if ok {
		return m
	}
	for i, r := range t.rules {
		if slices.ContainsFunc(r.patterns, func(p string) bool { return match(p, name) }) {
			m.applies |= 1 << i
		}
		if slices.ContainsFunc(r.unless, func(p string) bool { return match(p, name) }) {
			m.prevents |= 1 << i
		}
	}
	t.known[name] = m
	return m
}

// first is the first rule that any of the functions matches; nil for none.
func (t *table) first(functions []string, component probe.Component) *rule {
	var any, leaf, prevented uint64
	for i, name := range functions {
		m := t.of(name)
		any |= m.applies
		prevented |= m.prevents
		if i == 0 {
			leaf = m.applies
		}
	}
	for i := range t.rules {
		r := &t.rules[i]
		matched := any
		if r.leaf {
			matched = leaf
		}
		if matched&^prevented&(1<<i) != 0 && r.of(component) {
			return r
		}
	}
	return nil
}

// innermost is the first rule that the innermost function matches of which any
// rule knows; nil for none.
func (t *table) innermost(functions []string, component probe.Component) *rule {
	for at := range functions {
		m := t.of(functions[at])
		if m.applies == 0 {
			continue
		}
		for i := range t.rules {
			r := &t.rules[i]
			if m.applies&(1<<i) != 0 && (!r.leaf || at == 0) && r.of(component) {
				return r
			}
		}
	}
	return nil
}

func (r *rule) of(component probe.Component) bool {
	return len(r.only) == 0 || slices.Contains(r.only, component)
}

// match matches a name with a pattern, in which * stands for any characters,
// or none.
func match(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	if !strings.HasPrefix(name, head) {
		return false
	}
	name = name[len(head):]
	for {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(name, part)
		}
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name, rest = name[i+len(part):], after
	}
}
