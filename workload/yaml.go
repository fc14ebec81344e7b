package workload

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Malformed says what is wrong in a workload's file, and where.
type Malformed struct {
	File         string
	Line, Column int    // from 1; 0 where the whole file is meant
	Key          string // path of keys: "load.http.rate"; empty where the whole file is meant
	Problem      string // with what is allowed
}

func (m *Malformed) Error() string {
	at := m.File
	if m.Line > 0 {
		at = fmt.Sprintf("%s:%d:%d", m.File, m.Line, m.Column)
	}
	if m.Key != "" {
		at += ": " + m.Key
	}
	return at + ": " + m.Problem
}

// position is where something stands in a file.
type position struct {
	file         string
	line, column int
	key          string
}

func (p position) wrong(format string, args ...any) error {
	return &Malformed{File: p.file, Line: p.line, Column: p.column, Key: p.key, Problem: fmt.Sprintf(format, args...)}
}

// maxFile bounds a workload's file: what is larger is none.
const maxFile = 1 << 20

// parseYAML gives a file's one document.
func parseYAML(file string, data []byte) (node, error) {
	whole := position{file: file}
	if len(data) > maxFile {
		return node{}, whole.wrong("larger than %d bytes: not a workload", maxFile)
	}
	parsed, err := parser.ParseBytes(data, 0)
	if err != nil {
		var syntax yaml.Error
		if errors.As(err, &syntax) && syntax.GetToken() != nil {
			return node{}, positionOf(file, "", syntax.GetToken()).wrong("%s", syntax.GetMessage())
		}
		return node{}, whole.wrong("%s", strings.SplitN(err.Error(), "\n", 2)[0])
	}
	var documents []ast.Node
	for _, d := range parsed.Docs {
		if d.Body != nil {
			documents = append(documents, d.Body)
		}
	}
	if len(documents) != 1 {
		return node{}, whole.wrong("holds %d documents, want one", len(documents))
	}
	return node{documents[0], positionOf(file, "", documents[0].GetToken())}, nil
}

func positionOf(file, key string, t *token.Token) position {
	p := position{file: file, key: key}
	if t != nil && t.Position != nil {
		p.line, p.column = t.Position.Line, t.Position.Column
	}
	return p
}

// node is a value in a file, of any kind. Reading it is strict: what is not
// asked for is refused, with what is allowed.
type node struct {
	ast ast.Node
	at  position
}

// fields are the keys of a mapping.
type fields map[string]node

// mapping reads a mapping with some of the allowed keys.
func (n node) mapping(allowed ...string) (fields, error) {
	return n.pairs("a mapping with some of: "+strings.Join(allowed, ", "), func(key string) string {
		if slices.Contains(allowed, key) {
			return ""
		}
		if near := similar(key, allowed); len(near) > 0 {
			return "unknown key; did you mean " + strings.Join(near, " or ") + "? Allowed: " + strings.Join(allowed, ", ")
		}
		return "unknown key; allowed: " + strings.Join(allowed, ", ")
	})
}

// pairs reads a mapping; refuse says what is wrong with a key, or nothing.
func (n node) pairs(want string, refuse func(key string) string) (fields, error) {
	var values []*ast.MappingValueNode
	switch m := n.ast.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		return nil, n.at.wrong("want %s", want)
	}
	found := fields{}
	for _, pair := range values {
		at := positionOf(n.at.file, "", pair.Key.GetToken())
		key, ok := scalar(pair.Key)
		if !ok {
			return nil, at.wrong("want a plain word as key")
		}
		if at.key = key; n.at.key != "" {
			at.key = n.at.key + "." + key
		}
		if problem := refuse(key); problem != "" {
			return nil, at.wrong("%s", problem)
		}
		if _, twice := found[key]; twice {
			return nil, at.wrong("given a second time")
		}
		child := node{pair.Value, at}
		// Where a value stands on a line of its own its place says more than the key's.
		if t := pair.Value.GetToken(); t != nil && t.Position != nil {
			child.at = positionOf(n.at.file, at.key, t)
		}
		if _, empty := pair.Value.(*ast.NullNode); empty {
			return nil, at.wrong("has no value")
		}
		if err := child.plain(); err != nil {
			return nil, err
		}
		found[key] = child
	}
	return found, nil
}

// list reads a sequence.
func (n node) list(want string) ([]node, error) {
	s, ok := n.ast.(*ast.SequenceNode)
	if !ok {
		return nil, n.at.wrong("want a list of %s", want)
	}
	var all []node
	for i, v := range s.Values {
		at := positionOf(n.at.file, fmt.Sprintf("%s[%d]", n.at.key, i), v.GetToken())
		child := node{v, at}
		if err := child.plain(); err != nil {
			return nil, err
		}
		all = append(all, child)
	}
	return all, nil
}

// plain refuses what makes a file mean other than it shows, or grow when read.
func (n node) plain() error {
	switch n.ast.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode, *ast.TagNode:
		return n.at.wrong("anchors, aliases and tags are not read; write the value out")
	}
	return nil
}

// scalar reads text, number or truth value as it is written.
func (n node) scalar(want string) (value, error) {
	text, ok := scalar(n.ast)
	if !ok {
		return value{}, n.at.wrong("want %s", want)
	}
	return value{text, n.at}, nil
}

func scalar(n ast.Node) (string, bool) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.LiteralNode:
		return s.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return s.GetToken().Value, true
	}
	return "", false
}

// scalars reads a list of texts.
func (n node) scalars(want string) ([]value, error) {
	nodes, err := n.list(want)
	if err != nil {
		return nil, err
	}
	var all []value
	for _, each := range nodes {
		v, err := each.scalar(want)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}
