package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A pattern is a sequence of tokens that a whole text fits. Rules compare everything by this one
// language: names, images, labels' values and paths of control groups. docs/annex/configuration.md describes it.
type pattern []token

// token stands for one character of a set, or for any number of any characters.
type token struct {
	many   bool
	not    bool   // the set is what is in none of ranges
	ranges []span // ascending within each
}

type span struct{ first, last rune }

func (t token) takes(r rune) bool {
	return t.not != slices.ContainsFunc(t.ranges, func(s span) bool { return s.first <= r && r <= s.last })
}

// escapable are the characters that a backslash has stand for themselves. Others are refused:
// systemd writes \x2d into names of groups, and that copied into a pattern would fit nothing.
const escapable = `*?[]\-!^`

var (
	errOpen   = errors.New(`a [ that no ] ends: want a set such as [a-z], or \[ for the character`)
	errNone   = errors.New(`an empty set, []: want a set such as [a-z], or \[\] for the two characters`)
	errNegate = errors.New(`a set that begins with ^: want [!...] for any other character, or [\^...] for that one`)
	errLast   = errors.New(`a \ at its end: want \\ for a backslash`)
)

// parsePattern reads a pattern. The error says what is wrong with it, and what to write instead.
func parsePattern(text string) (pattern, error) {
	var p pattern
	rest := []rune(text)
	for len(rest) > 0 {
		switch r := rest[0]; r {
		case '*':
			p, rest = append(p, token{many: true}), rest[1:]
		case '?':
			p, rest = append(p, token{not: true}), rest[1:]
		case '[':
			set, after, err := parseSet(rest[1:])
			if err != nil {
				return nil, err
			}
			p, rest = append(p, set), after
		default:
			r, after, err := character(rest)
			if err != nil {
				return nil, err
			}
			p, rest = append(p, token{ranges: []span{{r, r}}}), after
		}
	}
	return p, nil
}

// character reads one that stands for itself, or is made to by a backslash.
func character(text []rune) (r rune, rest []rune, err error) {
	if text[0] != '\\' {
		return text[0], text[1:], nil
	}
	if len(text) == 1 {
		return 0, nil, errLast
	}
	if !strings.ContainsRune(escapable, text[1]) {
		return 0, nil, fmt.Errorf(`\%c, which is no escape: want \\ for a backslash`, text[1])
	}
	return text[1], text[2:], nil
}

// parseSet reads what follows a [ up to its ].
func parseSet(text []rune) (set token, rest []rune, err error) {
	rest = text
	if len(rest) > 0 && rest[0] == '^' {
		return set, nil, errNegate
	}
	if len(rest) > 0 && rest[0] == '!' {
		set.not, rest = true, rest[1:]
	}
	for len(rest) > 0 && rest[0] != ']' {
		var s span
		if s.first, rest, err = character(rest); err != nil {
			return set, nil, err
		}
		s.last = s.first
		// A - at the end of a set is itself.
		if len(rest) > 1 && rest[0] == '-' && rest[1] != ']' {
			if s.last, rest, err = character(rest[1:]); err != nil {
				return set, nil, err
			}
		}
		if s.last < s.first {
			return set, nil, fmt.Errorf(`an empty range, %c-%c: want %c-%c, or \- for the character`, s.first, s.last, s.last, s.first)
		}
		set.ranges = append(set.ranges, s)
	}
	switch {
	case len(rest) == 0:
		return set, nil, errOpen
	case len(set.ranges) == 0:
		return set, nil, errNone
	}
	return set, rest[1:], nil
}

// after tells which tokens may come next when a text has been read; behind the last, that all of
// the text fits. It takes time in proportion to the product of the lengths at most.
func (p pattern) after(text string) []bool {
	now, next := make([]bool, len(p)+1), make([]bool, len(p)+1)
	reach := func(at []bool, i int) {
		for at[i] = true; i < len(p) && p[i].many; {
			i++
			at[i] = true
		}
	}
	reach(now, 0)
	for _, r := range text {
		clear(next)
		for i, t := range p {
			switch {
			case !now[i]:
			case t.many:
				reach(next, i)
			case t.takes(r):
				reach(next, i+1)
			}
		}
		now, next = next, now
	}
	return now
}

// fits tells whether a whole text fits a pattern; none fits one that is not valid.
func fits(text, whole string) bool {
	p, err := parsePattern(text)
	return err == nil && p.after(whole)[len(p)]
}

// begins tells whether a longer text may fit a pattern that begins with this one.
func begins(text, beginning string) bool {
	p, err := parsePattern(text)
	return err == nil && slices.Contains(p.after(beginning)[:len(p)], true)
}

// Literal is the pattern that fits this text alone.
func Literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(text)
}
