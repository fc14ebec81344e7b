package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"tare/lab"
	"tare/record"
	"tare/terminal"
)

// hostile are names that clear a screen, turn the reading direction, and forge a line.
var hostile = []string{"\x1b[2J\x1b[31m", "x\nforged: y) Z 0 0", "\u009b1m\u202e\u200b\x7f", "a) R 1 (b", "x\r\u2028forged: 1"}

// obeyed says what of an output a terminal would obey, or take for a line of ours.
func obeyed(text string) error {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if at := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsGraphic(r) }); at >= 0 {
			return fmt.Errorf("%q steers a terminal", line)
		}
		if strings.HasPrefix(line, "forged:") {
			return fmt.Errorf("%q is a line that nobody wrote", line)
		}
	}
	return nil
}

// Whatever a name is, no command has a terminal obey it: not in a run that was imported, not in
// what the command line says, and not in an error.
func TestForeignTextIsEscaped(t *testing.T) {
	for _, name := range hostile {
		var file bytes.Buffer
		w := csv.NewWriter(&file)
		for _, row := range [][]string{{"kind", "copy"}, {"bare", "100"}, {"bare", "101"}, {"bare", "102"}, {name, "90"}, {name, "91"}, {name, "92"}} {
			if err := w.Write(row); err != nil {
				t.Fatal(err)
			}
		}
		w.Flush()
		home, path := t.TempDir(), write(t, "figures.csv", file.String())
		for range 2 { // to compare
			if code, _, errOut := tare(t, home, "import", path, "--format", "csv", "--value", "copy", "--unit", name, "--better", "higher", "--condition", "kind", "--baseline", "bare"); code != exitSuccess {
				t.Fatalf("import of %q: %d, %s", name, code, errOut)
			}
		}
		store, err := record.Open(filepath.Join(home, storeFile))
		if err != nil {
			t.Fatal(err)
		}
		runs, err := store.Runs()
		store.Close()
		if err != nil || len(runs) != 2 {
			t.Fatalf("%d runs: %v", len(runs), err)
		}
		for _, args := range [][]string{
			{"show"}, {"runs"}, {"compare", runs[1].ID, "latest"}, {"claims"}, {"clean", "--dry-run"}, {"resume"},
			{"show", name}, {"resume", name}, {"compare", name, "latest"}, {"runs", "prune", "--keep", name}, {"export", "--format", name},
			{"claims", name}, {"workloads", name}, {"pages", name}, {"faults", name}, {"causes", name}, {"place", name, "--dry-run"},
			{"weigh", name}, {"weigh", "redis", "--platform", name, "--dry-run"}, {"weigh", "redis", "--param", name, "--dry-run"},
			{"import", name}, {"predict", name}, {name}, {"--" + name},
			{"__complete", "show", ""}, {"__complete", "pages", name},
		} {
			_, out, errOut := tare(t, home, args...)
			if args[0] == "__complete" { // a shell reads it, and takes what follows a tab for a remark
				out = strings.ReplaceAll(out, "\t", " ")
			}
			if err := errors.Join(obeyed(out), obeyed(errOut)); err != nil {
				t.Errorf("%q: %v", args, err)
			}
		}
		var document any
		code, out, errOut := tare(t, home, "export", "latest")
		if err := json.Unmarshal([]byte(out), &document); code != exitSuccess || err != nil || !holds(document, name) {
			t.Errorf("the document of %q is not JSON with that name: %d, %v, %s", name, code, err, errOut)
		}
	}
}

// holds finds a text within those of a document.
func holds(document any, text string) bool {
	switch d := document.(type) {
	case string:
		return strings.Contains(d, text)
	case []any:
		for _, one := range d {
			if holds(one, text) {
				return true
			}
		}
	case map[string]any:
		for key, one := range d {
			if strings.Contains(key, text) || holds(one, text) {
				return true
			}
		}
	}
	return false
}

// Processes whose names and files steer terminals are counted and watched as any others.
func TestProcessesWithOddNames(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("watching needs root")
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var all []string
	for _, name := range hostile {
		// The kernel names a process, and the mappings of its code, by its file.
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, program, 0o755); err != nil {
			t.Fatal(err)
		}
		odd := exec.Command(path, "3600")
		if err := odd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = odd.Process.Kill(); _ = odd.Wait() })
		all = append(all, fmt.Sprintf("pid:%d", odd.Process.Pid))
	}
	for _, args := range [][]string{{"pages"}, {"faults", "--for", "200ms"}, {"causes", "--for", "200ms"}} {
		watched := all
		if args[0] == "causes" { // of one at a time
			watched = all[:1]
		}
		args = append(args, watched...)
		code, out, errOut := tare(t, t.TempDir(), args...)
		if code == exitHost {
			t.Logf("%q: %s", args, errOut)
			continue
		}
		if err := errors.Join(obeyed(out), obeyed(errOut)); err != nil || code != exitSuccess {
			t.Errorf("%q: code %d, %v: %s", args, code, err, errOut)
		}
		if !strings.Contains(out, `\u001b[2J`) {
			t.Errorf("%q does not show the first name:\n%s", args, out)
		}
		var document any
		_, out, errOut = tare(t, t.TempDir(), append(args, "--json", "-")...)
		if err := json.Unmarshal([]byte(out), &document); err != nil || !holds(document, hostile[0]) {
			t.Errorf("the document of %q is not JSON with the first name: %v", args, err)
		}
		if err := obeyed(errOut); err != nil {
			t.Errorf("%q --json -: %v", args, err)
		}
	}
}

// What disturbed a trial is named by its process, on a terminal's line and elsewhere.
func TestProgressEscapesNames(t *testing.T) {
	for _, name := range hostile {
		for _, onTerminal := range []bool{false, true} {
			var b bytes.Buffer
			p := newProgress(terminal.To(&b))
			p.tty = onTerminal
			for _, kind := range []lab.EventKind{lab.Warned, lab.Tainted, lab.Preparing, lab.Started, lab.Reported, lab.Ended, lab.Blocked} {
				p.event(lab.Event{Kind: kind, Label: name, Group: name, Condition: "a@" + name, Text: name})
			}
			p.note(name)
			p.clear()
			text := b.String()
			if onTerminal { // the line is written over
				text = strings.ReplaceAll(text, "\r\x1b[K", "\n")
			}
			if err := obeyed(text); err != nil {
				t.Errorf("of %q: %v", name, err)
			}
		}
	}
}
