package programs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// printed is a function's line of output.
type printed struct {
	Function, Access                 string
	Bytes, Touched, Records, Results int64
	Checksum                         string
	Seconds                          float64
	Generated                        float64 `json:"generated_seconds"`
}

func runFunction(t *testing.T, program string, args ...string) printed {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).Output()
	if err != nil {
		t.Fatalf("%s %s: %v", filepath.Base(program), strings.Join(args, " "), err)
	}
	var p printed
	if err := json.Unmarshal(out, &p); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return p
}

const page = 4096

// records gives the lines of an input that a function must take, with their
// offsets: those that end within the first part bytes of a page.
func records(input []byte, part int) (lines []string, offsets []int) {
	for at := 0; at < len(input); at += page {
		text := string(input[at : at+part])
		text = text[:strings.LastIndexByte(text, '\n')+1]
		offset := at
		for line := range strings.Lines(text) {
			if line != "\n" {
				lines, offsets = append(lines, strings.TrimSuffix(line, "\n")), append(offsets, offset)
			}
			offset += len(line)
		}
	}
	return lines, offsets
}

func fold(sum, number uint64) uint64 { return (sum ^ number) * 0x100000001b3 }

const foldStart = 0xcbf29ce484222325

// hashed is what hashing must find, by sdbm's function as it is published.
func hashed(lines []string) (results int64, checksum uint64) {
	checksum = foldStart
	for _, line := range lines {
		var hash uint64
		for _, b := range []byte(line) {
			hash = hash*65599 + uint64(b)
		}
		checksum = fold(checksum, hash%1048573)
	}
	return int64(len(lines)), checksum
}

// parsed is what uri-parser must find, by cutting from the outside inwards
// where the program goes from the left to the right.
func parsed(lines []string, offsets []int) (results int64, checksum uint64) {
	checksum = foldStart
	for i, line := range lines {
		keep := func(kind uint64, start int, text string) {
			results++
			checksum = fold(fold(fold(checksum, kind), uint64(offsets[i]+start)), uint64(len(text)))
		}
		scheme, rest, ok := strings.Cut(line, "://")
		if !ok {
			keep(0, 0, "")
			continue
		}
		keep(0, 0, scheme)
		at := len(scheme) + len("://")
		rest, fragment, hasFragment := strings.Cut(rest, "#")
		end := at + len(rest) + 1
		rest, query, hasQuery := strings.Cut(rest, "?")
		segments := strings.Split(rest, "/")
		host, port, hasPort := strings.Cut(segments[0], ":")
		keep(1, at, host)
		at += len(host) + 1
		if hasPort {
			keep(2, at, port)
			at += len(port) + 1
		}
		for _, segment := range segments[1:] {
			keep(3, at, segment)
			at += len(segment) + 1
		}
		if hasQuery {
			for pair := range strings.SplitSeq(query, "&") {
				name, value, hasValue := strings.Cut(pair, "=")
				keep(4, at, name)
				at += len(name) + 1
				if hasValue {
					keep(5, at, value)
					at += len(value) + 1
				}
			}
		}
		if hasFragment {
			keep(6, end, fragment)
		}
	}
	return results, checksum
}

// check compares both accesses' results on a file with the reference.
func check(t *testing.T, dir, function, file string) {
	t.Helper()
	input, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for access, part := range map[string]int{"dense": page, "sparse": page / 5} {
		got := runFunction(t, filepath.Join(dir, function), "--access", access, file)
		lines, offsets := records(input, part)
		results, checksum := hashed(lines)
		if function == "uri-parser" {
			results, checksum = parsed(lines, offsets)
		}
		want := printed{function, access, int64(len(input)), int64(len(input) / page * part), int64(len(lines)),
			results, fmt.Sprintf("%016x", checksum), got.Seconds, 0}
		if got != want {
			t.Errorf("%s, %s:\n got %+v\nwant %+v", function, access, got, want)
		}
		if got.Seconds <= 0 {
			t.Errorf("%s, %s: took %v s", function, access, got.Seconds)
		}
	}
}

var functions = []string{"uri-parser", "hashing"}

func TestFunctionsAgainstReference(t *testing.T) {
	dir := buildIn(t, "functions", "all")
	for _, function := range functions {
		file := filepath.Join(t.TempDir(), "input")
		if out, err := exec.CommandContext(t.Context(), filepath.Join(dir, function), "generate", "--data", "2", file).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		check(t, dir, function, file)
	}
}

// What no generator of ours writes.
func TestFunctionsOnStrangeRecords(t *testing.T) {
	dir := buildIn(t, "functions", "all")
	input := bytes.Repeat([]byte{'\n'}, 2*page)
	copy(input, strings.Join([]string{
		"http://h", "://", "://:", "a", "http://h:1:2/", "h://h?", "h://h#", "h://h?a&b=&=c&&d=e=f", "h://h/#/?#", "h://h//a//", "h://h:/a:b?c:d/e?f#g=h&i",
		"://://", "\x00\xff://\x80/\x7f?\x01", "",
	}, "\n"))
	// Records at the end of a page, which the next one does not continue, and at
	// the end of the part that sparse access sees.
	copy(input[page-6:], "h://zz")
	copy(input[page:], "h://yy")
	copy(input[page+page/5-6:], "h://xx\nh://ww\n")
	file := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(file, input, 0o644); err != nil {
		t.Fatal(err)
	}
	// A record that a page's end cuts is not taken: take it out for the reference.
	copy(input[page-6:], "\n\n\n\n\n\n")
	for _, function := range functions {
		whole := filepath.Join(t.TempDir(), "whole")
		if err := os.WriteFile(whole, input, 0o644); err != nil {
			t.Fatal(err)
		}
		check(t, dir, function, whole)
		cut := runFunction(t, filepath.Join(dir, function), file)
		if without := runFunction(t, filepath.Join(dir, function), whole); cut.Checksum != without.Checksum {
			t.Errorf("%s: a record that its page's end cuts was taken", function)
		}
	}
}

func TestFunctionInputs(t *testing.T) {
	dir := buildIn(t, "functions", "all")
	for _, function := range functions {
		program, at := filepath.Join(dir, function), t.TempDir()
		generate := func(name, size, seed string) []byte {
			file := filepath.Join(at, name)
			if out, err := exec.CommandContext(t.Context(), program, "generate", "--data", size, "--seed", seed, file).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		short, long, other := generate("short", "1", "7"), generate("long", "2", "7"), generate("other", "1", "8")
		if len(short) != 1<<20 || !bytes.HasPrefix(long, short) {
			t.Errorf("%s: a longer input does not begin with the shorter", function)
		}
		if bytes.Equal(short, other) {
			t.Errorf("%s: the seed makes no difference", function)
		}
		// Too short a file is made anew in the scratch file, to the same end.
		made := runFunction(t, program, "--data", "2", "--seed", "7", "--scratch", filepath.Join(at, "scratch"), filepath.Join(at, "short"))
		read := runFunction(t, program, "--data", "2", filepath.Join(at, "long"))
		if made.Checksum != read.Checksum || made.Generated <= 0 || read.Generated != 0 {
			t.Errorf("%s: made %+v, read %+v", function, made, read)
		}
		// Of a longer one the first part is read.
		if part := runFunction(t, program, "--data", "1", filepath.Join(at, "long")); part.Checksum != runFunction(t, program, filepath.Join(at, "short")).Checksum {
			t.Errorf("%s: a part of a long file is not the short file", function)
		}
	}
}

func TestFunctionsRefuse(t *testing.T) {
	dir := buildIn(t, "functions", "all")
	empty := filepath.Join(dir, "function.c")
	for _, c := range []struct {
		args   []string
		status int
	}{
		{nil, 2},
		{[]string{"a", "b"}, 2},
		{[]string{"--data", "0", empty}, 2},
		{[]string{"--data", "4096", empty}, 2},
		{[]string{"--data", "-1", empty}, 2},
		{[]string{"--data", "1x", empty}, 2},
		{[]string{"--access", "some", empty}, 2},
		{[]string{"generate", filepath.Join(dir, "new")}, 2},
		{[]string{filepath.Join(dir, "absent")}, 1},
		{[]string{"--data", "1", empty}, 1}, // too short, and no scratch file
		{[]string{"generate", "--data", "1", filepath.Join(dir, "absent", "new")}, 1},
	} {
		for _, function := range functions {
			out, err := exec.CommandContext(t.Context(), filepath.Join(dir, function), c.args...).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != c.status || len(out) == 0 {
				t.Errorf("%s %q: %v, want status %d: %s", function, c.args, err, c.status, out)
			}
		}
	}
}
