package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare/study/offcpu"
)

// A program that only sleeps was blocked, asleep; the document is on the standard output
// by itself, and the page beside it.
func TestCausesOfASleeper(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("watching needs root")
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	sleeper := exec.Command(shell, "-c", "while :; do sleep 0.01; done")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
	})
	pages := filepath.Join(t.TempDir(), "pages")
	code, stdout, stderr := tare(t, t.TempDir(), "causes", fmt.Sprintf("pid:%d", sleeper.Process.Pid), "--for", "500ms", "--json", "-", "--out", pages)
	if code == exitHost {
		t.Skip(stderr)
	}
	if code != exitSuccess {
		t.Fatalf("code %d: %s", code, stderr)
	}
	var d offcpu.Document
	if err := json.Unmarshal([]byte(stdout), &d); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	if d.Schema != offcpu.Schema || d.Target.PID != sleeper.Process.Pid || d.Reading.Span <= 0 {
		t.Errorf("%+v", d)
	}
	if _, absent := d.Reading.Lacks("switches"); absent {
		t.Skip(d.Answer)
	}
	if !strings.Contains(stderr, "mostly blocked") || d.Reading.Blocked.Count == 0 {
		t.Errorf("it was not blocked: %s", stderr)
	}
	page, err := filepath.Glob(filepath.Join(pages, "causes-*.html"))
	if err != nil || len(page) != 1 {
		t.Fatalf("%q, %v", page, err)
	}
	text, err := os.ReadFile(page[0])
	if _, absent := d.Reading.Lacks("stacks"); err != nil || !absent && !strings.Contains(string(text), `class="flame"`) {
		t.Errorf("the page has no flame graph (%v)", err)
	}
}
