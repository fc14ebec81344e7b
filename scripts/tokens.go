//go:build ignore

// Tokens counts what a reader of this repository has to read, by floor of the tower: tokens of Go,
// C, templates, styles and scripts, comments and generated files left out, and the share of
// comments among the lines. docs/architecture.md shows what it printed.
//
//	go run scripts/tokens.go [DIRECTORY]
package main

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// count is of the files of a floor.
type count struct{ code, tests, lines, comments int }

var (
	generated = regexp.MustCompile(`(?m)^(//|/\*|#).*(DO NOT EDIT|@generated)`)
	// What other languages are made of: words, numbers, and any other mark by itself.
	word     = regexp.MustCompile(`[\pL\pN_]+|[^\s\pL\pN_]`)
	comments = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*|\{\{/\*.*?\*/\}\}`)
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	floors := map[string]*count{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if d.IsDir() {
			if name != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "out" {
				return fs.SkipDir
			}
			return nil
		}
		ext := filepath.Ext(name)
		if !slices.Contains([]string{".go", ".c", ".h", ".gohtml", ".css", ".js"}, ext) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || generated.Match(text[:min(len(text), 2000)]) {
			return err
		}
		floor, _, inside := strings.Cut(filepath.ToSlash(name), "/")
		if !inside {
			floor = "house rules"
		}
		if floors[floor] == nil {
			floors[floor] = &count{}
		}
		floors[floor].add(name, ext, text)
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "tokens:", err)
		os.Exit(1)
	}
	fmt.Printf("%-14s %10s %10s %10s %10s\n", "floor", "code", "tests", "lines", "comments")
	var all count
	for _, floor := range slices.Sorted(maps.Keys(floors)) {
		c := floors[floor]
		c.print(floor)
		all.code, all.tests = all.code+c.code, all.tests+c.tests
		all.lines, all.comments = all.lines+c.lines, all.comments+c.comments
	}
	all.print("all")
}

func (c *count) print(name string) {
	fmt.Printf("%-14s %10d %10d %10d %8.1f %%\n", name, c.code, c.tests, c.lines, 100*float64(c.comments)/float64(max(c.lines, 1)))
}

// add counts a file. Its lines are those that are not blank.
func (c *count) add(name, ext string, text []byte) {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			c.lines++
			if bytes.HasPrefix(line, []byte("//")) || bytes.HasPrefix(line, []byte("*")) ||
				bytes.HasPrefix(line, []byte("/*")) {
				c.comments++
			}
		}
	}
	tokens := 0
	if ext == ".go" {
		var s scanner.Scanner
		files := token.NewFileSet()
		s.Init(files.AddFile(name, files.Base(), len(text)), text, nil, 0)
		for {
			_, kind, literal := s.Scan()
			if kind == token.EOF {
				break
			}
			if kind != token.SEMICOLON || literal == ";" { // the others are ends of lines
				tokens++
			}
		}
	} else {
		tokens = len(word.FindAll(comments.ReplaceAll(text, nil), -1))
	}
	if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(filepath.Dir(name), "test") {
		c.tests += tokens
	} else {
		c.code += tokens
	}
}
