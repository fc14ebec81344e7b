package config

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"tare/annex"
	"tare/container"
)

// One language holds for whatever a rule compares.
func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		fits          bool
	}{
		{"web", "web", true},
		{"web", "web-1", false},
		{"web-*", "web-", true},
		{"web-*", "web-1", true},
		{"*", "", true},
		{"*", "a/b", true}, // slashes among it
		{"a*c", "a/b/c", true},
		{"a*c", "a/b/d", false},
		{"*a*b*", "xaxbx", true},
		{"web-?", "web-1", true},
		{"web-?", "web-", false},
		{"web-?", "web-é", true}, // a character, not a byte
		{"a?b", "a/b", true},
		{"web-[0-9]", "web-7", true},
		{"web-[0-9]", "web-x", false},
		{"web-[ab-]", "web--", true}, // a - at the end is itself
		{"web-[-a]", "web--", true},
		{"web-[!0-9]", "web-x", true},
		{"web-[!0-9]", "web-7", false},
		{"web-[!0-9]", "web-", false},
		{"[a-cx]", "x", true},
		{`[\]\\]`, "]", true},
		{`[\]\\]`, `\`, true},
		{`[a\-c]`, "b", false},
		{`[\!a]`, "!", true},
		{"[*?]", "*", true},
		{"[*?]", "a", false},
		{"]", "]", true},
		{"a^!-b", "a^!-b", true},
		{`\*`, "*", true},
		{`\*`, "a", false},
		{`\?\[x\]`, "?[x]", true},
		{`a\\x2db`, `a\x2db`, true}, // as systemd writes a dash
		{"*", "*?[x]", true},
		{`\*\?\[x\]`, "*?[x]", true},
		{`\*\?\[x\]`, "yyx", false},
		{"", "", true},
		{"", "a", false},
	} {
		if got := fits(c.pattern, c.text); got != c.fits {
			t.Errorf("%q fits %q: %t", c.pattern, c.text, got)
		}
		if c.pattern == "" || c.text == "" {
			continue // a rule without a pattern asks for nothing
		}
		of := container.Container{Name: c.text, Image: c.text, Labels: map[string]string{"x": c.text}, Cgroup: "/sys/fs/cgroup/memory/" + c.text}
		for _, r := range []Rule{{Name: c.pattern}, {Image: c.pattern}, {Label: "x=" + c.pattern}, {Cgroup: "/" + c.pattern}} {
			if got := r.Fits(of); got != c.fits {
				t.Errorf("%s fits %q: %t", r.Pattern(), c.text, got)
			}
		}
	}
}

// What no pattern is, is refused by every key, in one line that says what is wrong, where, and what
// to write.
func TestPatternsThatAreRefused(t *testing.T) {
	for pattern, says := range map[string]string{
		"web-[":         `a [ that no ] ends: want a set such as [a-z], or \[ for the character`,
		"web-[a-":       `a [ that no ] ends`,
		"web-[a-z":      `a [ that no ] ends`,
		"web-[!":        `a [ that no ] ends`,
		"[]":            `an empty set, []`,
		"[!]":           `an empty set, []`,
		"[^a]":          `a set that begins with ^: want [!...]`,
		"[z-a]":         `an empty range, z-a: want a-z, or \- for the character`,
		`web\`:          `a \ at its end: want \\ for a backslash`,
		`[a\`:           `a \ at its end`,
		`firefox\x2dw`:  `\x, which is no escape: want \\ for a backslash`,
		`[a\d]`:         `\d, which is no escape`,
		`C:\[0-9\\]\ x`: `\ , which is no escape`,
	} {
		for key, text := range map[string]string{"name": pattern, "image": pattern, "label": "x=" + pattern, "cgroup": "/" + pattern} {
			_, err := Parse("annex.toml", []byte("[[rule]]\nclass = \"elastic\"\n"+key+" = '"+text+"'\n"))
			if err == nil {
				t.Errorf("%s = %q is taken", key, text)
				continue
			}
			if got := err.Error(); !strings.HasPrefix(got, "annex.toml:3: rule[0]."+key+": is ") || !strings.Contains(got, says) || strings.Contains(got, "\n") {
				t.Errorf("%s = %q: says %s, want %s", key, text, got, says)
			}
			if (Rule{Name: pattern}).Fits(container.Container{Name: pattern}) {
				t.Errorf("%q fits something", pattern)
			}
		}
	}
	for _, cgroup := range []string{"/", "/batch/"} {
		if _, err := Parse("annex.toml", []byte("[[rule]]\nclass = \"elastic\"\ncgroup = '"+cgroup+"'\n")); err == nil {
			t.Errorf("%q, which no group's path is, is taken", cgroup)
		}
	}
}

// A pattern says below which groups others may lie that fit it.
func TestMayFitBelow(t *testing.T) {
	for _, c := range []struct {
		cgroup, dir string
		may         bool
	}{
		{"/batch/*", "/sys/fs/cgroup/memory/batch", true},
		{"/batch/*", "/sys/fs/cgroup/unified/batch/a", true},
		{"/batch/*", "/sys/fs/cgroup/memory/other", false},
		{"/batch", "/sys/fs/cgroup/memory/batch", false},
		{"/*/db", "/sys/fs/cgroup/memory/anything/at/all", true},
		{"/batch-[0-9]/x", "/sys/fs/cgroup/memory/batch-7", true},
		{"/batch-[0-9]/x", "/sys/fs/cgroup/memory/batch-x", false},
		{"/sys/fs/cgroup/memory/whole/*", "/sys/fs/cgroup/memory/whole", true},
	} {
		if got := (Rule{Cgroup: c.cgroup}).MayFitBelow(c.dir); got != c.may {
			t.Errorf("%s below %s: %t", c.cgroup, c.dir, got)
		}
	}
}

// A group is meant by its path in each hierarchy in which the container has one of its own.
func TestClassByAnyHierarchy(t *testing.T) {
	c := Config{Rules: []Rule{{Class: annex.Critical, Cgroup: "/docker/*"}, {Class: annex.Elastic, Cgroup: "/system.slice/*"}}}
	of := container.Container{Cgroup: "/sys/fs/cgroup/unified/system.slice/docker-7a.scope", Groups: []string{"/sys/fs/cgroup/unified/system.slice/docker-7a.scope", "/sys/fs/cgroup/memory/docker/7a"}}
	if got := c.Class(of); got != annex.Critical || c.Decides(of) != 0 {
		t.Errorf("it is %s, by rule %d", got, c.Decides(of)+1)
	}
}

// expression is a valid pattern as a regular expression.
func expression(p pattern) string {
	text := strings.Builder{}
	text.WriteString(`(?s)\A`)
	for _, t := range p {
		switch {
		case t.many:
			text.WriteString(".*")
		case t.not && len(t.ranges) == 0:
			text.WriteString(".")
		default:
			text.WriteString("[")
			if t.not {
				text.WriteString("^")
			}
			for _, s := range t.ranges {
				fmt.Fprintf(&text, `\x{%x}-\x{%x}`, s.first, s.last)
			}
			text.WriteString("]")
		}
	}
	return text.String() + `\z`
}

func FuzzPattern(f *testing.F) {
	for _, seed := range [][2]string{{"web-*", "web-1"}, {"[!a-c]*", "dd"}, {`\*\?\[x\]`, "*?[x]"}, {"a*b?c[d-]", "aabxc-"}, {"[", ""}, {`\`, `\`}, {"*a*a*a*b", "aaaaaaaa"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, text, whole string) {
		if !utf8.ValidString(text) || !utf8.ValidString(whole) || len(text)+len(whole) > 200 {
			t.Skip() // a configuration is valid UTF-8, and regexp takes other bytes apart in another way
		}
		if !fits(Literal(whole), whole) || whole != "" && fits(Literal(whole), whole[1:]) {
			t.Errorf("%q is no literal of %q", Literal(whole), whole)
		}
		p, err := parsePattern(text)
		if err != nil {
			if fits(text, whole) || begins(text, whole) || strings.Contains(err.Error(), "\n") && !strings.Contains(text, "\n") {
				t.Errorf("%q is refused with %q", text, err)
			}
			return
		}
		want, err := regexp.Compile(expression(p))
		if err != nil {
			t.Skip(err)
		}
		got := fits(text, whole)
		if got != want.MatchString(whole) {
			t.Errorf("%q fits %q: %t", text, whole, got)
		}
		for i := range whole {
			if got && !begins(text, whole[:i]) {
				t.Errorf("%q fits %q, and nothing that begins with %q", text, whole, whole[:i])
			}
		}
	})
}
