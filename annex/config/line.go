package config

import (
	"bytes"
	"fmt"

	"github.com/pelletier/go-toml/v2/unstable"
)

// lines tells on which line each key of a document stands, and which of them are texts in "..." with
// a \x: "memory.headroom",
// "rule[1].class", and "rule[1]" of the line that begins it. Of a document that is no TOML it
// tells up to where that shows.
//
// The package below promises less of this interface than of its others: it is asked for
// nothing but lines, and a key of which it tells none is reported without.
func lines(data []byte) (at map[string]int, hex []string) {
	at = map[string]int{}
	listed := map[string]int{} // how many tables of that name have begun
	var prefix string
	var p unstable.Parser
	p.Reset(data)
	lineOf := func(n *unstable.Node) int {
		return 1 + bytes.Count(data[:min(int(n.Raw.Offset), len(data))], []byte("\n"))
	}
	note := func(key string, line int) {
		if _, ok := at[key]; !ok {
			at[key] = line
		}
	}
	// below joins a dotted key to a prefix, each list in it with the table that began last.
	below := func(prefix string, keys unstable.Iterator) (key string, line int) {
		key = prefix
		for keys.Next() {
			if line == 0 {
				line = lineOf(keys.Node())
			}
			if n := listed[key]; n > 0 {
				key = fmt.Sprintf("%s[%d]", key, n-1)
			}
			key = join(key, string(keys.Node().Data))
		}
		return key, line
	}
	var value func(key string, line int, n *unstable.Node)
	value = func(key string, line int, n *unstable.Node) {
		note(key, line)
		switch n.Kind {
		case unstable.String:
			from, to := int(n.Raw.Offset), int(n.Raw.Offset+n.Raw.Length)
			raw := bytes.ReplaceAll(data[min(from, len(data)):min(to, len(data))], []byte(`\\`), nil)
			if bytes.HasPrefix(raw, []byte(`"`)) && bytes.Contains(raw, []byte(`\x`)) {
				hex = append(hex, key)
			}
		case unstable.InlineTable:
			for children := n.Children(); children.Next(); {
				name, on := below(key, children.Node().Key())
				value(name, on, children.Node().Value())
			}
		case unstable.Array:
			i := 0
			for children := n.Children(); children.Next(); i++ {
				value(fmt.Sprintf("%s[%d]", key, i), line, children.Node())
			}
		}
	}
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table:
			var line int
			prefix, line = below("", e.Key())
			note(prefix, line)
		case unstable.ArrayTable:
			name, line := below("", e.Key())
			note(name, line)
			listed[name]++
			prefix = fmt.Sprintf("%s[%d]", name, listed[name]-1)
			note(prefix, line)
		case unstable.KeyValue:
			name, line := below(prefix, e.Key())
			value(name, line, e.Value())
		}
	}
	return at, hex
}
