package config

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/pelletier/go-toml/v2"

	"tare/kernel/mount"
	"tare/nearest"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	Line int    // from 1; 0 where it is of no line
	Key  string // "memory.headroom", "rule[0].class"; empty where it is of the whole
	What string // what is wrong, and what to write instead
}

// Invalid is a configuration that is refused, with all that is wrong with it.
type Invalid struct {
	File     string
	Problems []Problem
	// Unread is why the file could not be read; nil where it was.
	Unread error
}

func (i *Invalid) Unwrap() error { return i.Unread }

func (i *Invalid) Error() string { return strings.Join(i.Lines(), "\n") }

// Lines are the problems, each as "file:line: key: what".
func (i *Invalid) Lines() []string {
	var lines []string
	for _, p := range i.Problems {
		at := i.File
		if p.Line > 0 {
			at += ":" + strconv.Itoa(p.Line)
		}
		if p.Key != "" {
			at += ": " + p.Key
		}
		lines = append(lines, at+": "+p.What)
	}
	return lines
}

// most is how large a file may be.
const most = 1 << 20

// Load reads a file. The error is an *Invalid, also where it cannot be read.
func Load(path string) (Config, error) {
	data, err := read(path)
	if err != nil {
		return Config{}, &Invalid{File: path, Problems: []Problem{{What: unread(err)}}, Unread: err}
	}
	return Parse(path, data)
}

// read reads no more of a file than shows that it is too large.
func read(path string) ([]byte, error) {
	if err := mount.Answers(context.Background(), path, mount.Patience); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most+1))
}

// unread says why a file could not be read, and what to do. An example is offered only where
// there is no file that it could be written over.
func unread(err error) string {
	why := err
	if at := new(os.PathError); errors.As(err, &at) {
		why = at.Err
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "there is no such file: annex config --example prints one to begin with"
	case errors.Is(err, syscall.EISDIR):
		return "is a directory: name the file in it"
	case errors.Is(err, os.ErrPermission):
		return "cannot be read: " + why.Error() + ": read it as root, or as its owner"
	}
	return "cannot be read: " + why.Error()
}

// Parse reads what a file says; name is what its errors call it. What it does not say is
// as in Default. The error is an *Invalid.
func Parse(name string, data []byte) (Config, error) {
	r := reader{file: name, config: Default()}
	if len(data) > most {
		r.problem("", "the file is larger than 1MiB: this is no configuration")
		return Config{}, r.err()
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // as editors of Windows begin a file
	if bytes.IndexByte(data, 0) >= 0 {
		r.problem("", "the file holds bytes of zero, as UTF-16 does: save it as UTF-8")
		return Config{}, r.err()
	}
	var document map[string]any
	if err := toml.Unmarshal(data, &document); err != nil {
		p := Problem{What: strings.TrimPrefix(err.Error(), "toml: ")}
		var at *toml.DecodeError
		if errors.As(err, &at) {
			p.Line, _ = at.Position()
			p.Key = strings.Join(at.Key(), ".")
		}
		if strings.Contains(p.What, "escape") {
			p.What += `: in "..." a backslash stands for itself only where it is written twice; in '...' it always does`
			return Config{}, &Invalid{File: name, Problems: []Problem{p}}
		}
		p.What += ": mend what stands there as TOML (texts in quotes, one key a line)"
		return Config{}, &Invalid{File: name, Problems: []Problem{p}}
	}
	var hex []string
	r.lines, hex = lines(data)
	r.document(document)
	for _, key := range hex {
		if strings.HasSuffix(key, ".cgroup") && !r.hasProblem(key) {
			r.problem(key, `has \x in "...", which TOML reads as another character: for a name such as systemd's a\x2db want it in '...' and with the backslash twice, 'a\\x2db'`)
		}
	}
	r.check()
	if err := r.err(); err != nil {
		return Config{}, err
	}
	return r.config, nil
}

// reader turns a document into a configuration.
type reader struct {
	file     string
	lines    map[string]int
	config   Config
	problems []Problem
}

func (r *reader) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key))
	})
	return &Invalid{File: r.file, Problems: r.problems}
}

func (r *reader) problem(key, format string, args ...any) {
	r.problems = append(r.problems, Problem{Line: r.line(key), Key: key, What: fmt.Sprintf(format, args...)})
}

// line is where a key stands, or what it belongs to.
func (r *reader) line(key string) int {
	for {
		if n := r.lines[key]; n > 0 {
			return n
		}
		i := strings.LastIndexAny(key, ".[")
		if i < 0 {
			return 0
		}
		key = key[:i]
	}
}

const (
	versionKey = "version"
	ruleTable  = "rule"
	tierTable  = "tier"
)

func (r *reader) document(document map[string]any) {
	if v, ok := document[versionKey]; ok && v != int64(Version) {
		r.problem(versionKey, "is %s: this annex reads version %d", kindOf(v), Version)
	}
	names := []string{versionKey, ruleTable, tierTable}
	for _, s := range sections {
		if s.name == "" {
			for _, k := range s.keys {
				names = append(names, k.name)
			}
			above := map[string]any{}
			for _, k := range s.keys {
				if v, ok := document[k.name]; ok {
					above[k.name] = v
				}
			}
			fill(r, "", above, s.keys, &r.config)
			continue
		}
		names = append(names, s.name)
		value, ok := document[s.name]
		if !ok {
			continue
		}
		table, ok := value.(map[string]any)
		if !ok {
			r.problem(s.name, "is %s: want a table, begun by a line [%s]", kindOf(value), s.name)
			continue
		}
		fill(r, s.name, table, s.keys, &r.config)
	}
	r.config.Rules = list(r, ruleTable, document, ruleKeys)
	r.config.Tiers = list(r, tierTable, document, tierKeys)
	for name := range document {
		if !slices.Contains(names, name) {
			r.unknown("", name, names)
		}
	}
}

// list reads the tables that are called [[name]].
func list[T any](r *reader, name string, document map[string]any, keys []key[T]) []T {
	value, ok := document[name]
	if !ok {
		return nil
	}
	tables, ok := value.([]any)
	if !ok {
		r.problem(name, "is %s: want tables, each begun by a line [[%s]]", kindOf(value), name)
		return nil
	}
	var all []T
	for i, value := range tables {
		at := fmt.Sprintf("%s[%d]", name, i)
		table, ok := value.(map[string]any)
		if !ok {
			r.problem(at, "is %s: want a table, begun by a line [[%s]]", kindOf(value), name)
			continue
		}
		var one T
		fill(r, at, table, keys, &one)
		all = append(all, one)
	}
	return all
}

// fill sets what a table says.
func fill[T any](r *reader, prefix string, table map[string]any, keys []key[T], to *T) {
	var names []string
	for _, k := range keys {
		names = append(names, k.name)
		if value, ok := table[k.name]; ok {
			if err := k.set(to, value); err != nil {
				r.problem(join(prefix, k.name), "%s", err)
			}
		}
	}
	for name := range table {
		if !slices.Contains(names, name) {
			r.unknown(prefix, name, names)
		}
	}
}

func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

func (r *reader) unknown(prefix, name string, known []string) {
	// Up to half of its letters away, a name is mistyped; further, it is another.
	near := nearest.Of(known, 1, func(k string) (int, bool) {
		if len(name) > 2*len(k)+1 {
			return 0, false // as far as that at least
		}
		far := nearest.Edits(name, k)
		return far, far <= max(1, min(len(name), len(k))/2)
	})
	what := "is no key"
	if prefix != "" {
		what += " of " + prefix
	}
	if homes := homesOf(name); len(homes) > 0 {
		what += ": it stands " + strings.Join(homes, " or ")
	} else if len(near) == 1 {
		what += fmt.Sprintf(": did you mean %s?", near[0])
	} else {
		slices.Sort(known)
		what += ": there are " + strings.Join(known, ", ")
	}
	r.problems = append(
		r.problems,
		Problem{Line: r.line(join(prefix, name)), Key: join(prefix, printable(name)), What: what},
	)
}

// homesOf says where a key stands.
func homesOf(name string) (homes []string) {
	const above = "above all tables"
	if name == versionKey {
		return []string{above}
	}
	add := func(known, table string) {
		if known == name {
			homes = append(homes, table)
		}
	}
	for _, s := range sections {
		table := above
		if s.name != "" {
			table = "below [" + s.name + "]"
		}
		for _, k := range s.keys {
			add(k.name, table)
		}
	}
	for _, k := range ruleKeys {
		add(k.name, "below [["+ruleTable+"]]")
	}
	for _, k := range tierKeys {
		add(k.name, "below [["+tierTable+"]]")
	}
	return homes
}

// printable is a name as it can stand in a line of its own.
func printable(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` || name == "" {
		return quoted
	}
	return name
}

// check refuses what does not go together. Where one of two values was refused already, its
// default stands in its place, which nobody wrote: then nothing is said of the two.
func (r *reader) check() {
	c := &r.config
	m := c.Memory
	if m.High < m.Headroom && !r.hasProblem("memory.headroom") && !r.hasProblem("memory.high") {
		if r.lines["memory.high"] == 0 {
			// Who says only headroom wants the same distance above it as by default.
			c.Memory.High = min(m.Headroom+m.Headroom/2, tebibyte)
		} else {
			r.problem("memory.high", "is %s, below headroom, which is %s: want it no lower", FormatSize(m.High), FormatSize(m.Headroom))
		}
	}
	if m.Reserve >= m.Headroom && !r.hasProblem("memory.headroom") && !r.hasProblem("memory.reserve") {
		if r.lines["memory.reserve"] == 0 {
			c.Memory.Reserve = m.Headroom / 4
		} else {
			r.problem("memory.reserve", "is %s, and headroom %s: want it lower", FormatSize(m.Reserve), FormatSize(m.Headroom))
		}
	}
	if c.Scan.Most < c.Scan.Least && !r.hasProblem("scan.least") && !r.hasProblem("scan.most") {
		r.problem("scan.most", "is %s, below least, which is %s: want it no lower", FormatDuration(c.Scan.Most), FormatDuration(c.Scan.Least))
	}
	for i, rule := range c.Rules {
		at := fmt.Sprintf("%s[%d]", ruleTable, i)
		if rule.Class == "" && !r.hasProblem(at+".class") {
			r.problem(at, "has no class: say class = \"critical\", \"elastic\" or \"ignored\"")
		}
		if rule == (Rule{Class: rule.Class}) && !r.hasProblemBelow(at) {
			r.problem(at, "fits nothing: say name, label, image or cgroup")
		}
	}
	seen := map[string]bool{}
	for i, t := range c.Tiers {
		at := fmt.Sprintf("%s[%d]", tierTable, i)
		switch {
		case t.Area == "" && !r.hasProblem(at+".area"):
			r.problem(at, "has no area: say area = \"/var/swap\", as /proc/swaps names it")
		case t.Area != "" && seen[t.Area]:
			r.problem(at+".area", "is %q, as of a tier before: one tier an area", t.Area)
		}
		seen[t.Area] = true
		if (t.Endurance > 0) != (t.Years > 0) && !r.hasProblemBelow(at) {
			r.problem(at, "endurance and years go together: so much in so many years")
		}
	}
}

// hasProblem tells whether a problem of a key is known already.
func (r *reader) hasProblem(key string) bool {
	return slices.ContainsFunc(r.problems, func(p Problem) bool { return p.Key == key })
}

func (r *reader) hasProblemBelow(prefix string) bool {
	return slices.ContainsFunc(r.problems, func(p Problem) bool { return strings.HasPrefix(p.Key, prefix+".") })
}

// Restarts lists the keys that two configurations have different and that take effect
// only when the daemon is started anew.
func Restarts(old, changed Config) []string {
	var keys []string
	for _, s := range sections {
		for _, k := range s.keys {
			if k.fixed && k.get(&old) != k.get(&changed) {
				keys = append(keys, join(s.name, k.name))
			}
		}
	}
	return keys
}

// InForce is a configuration as it is in force for a daemon that was started with old: what
// takes effect only when one is started is as it was then.
func InForce(old, changed Config) Config {
	for _, s := range sections {
		for _, k := range s.keys {
			if k.fixed {
				k.keep(&changed, &old)
			}
		}
	}
	return changed
}
