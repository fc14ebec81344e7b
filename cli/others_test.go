package cli

import (
	"bytes"
	"context"
	"errors"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tare/annex/control"
	"tare/image"
	"tare/kernel/file"
	"tare/lab"
	"tare/platform"
	"tare/platform/conformance"
	"tare/record"
	"tare/report"
	"tare/terminal"
)

// Of all directories, locks and sockets that tare and annexd make, another user
// reads the results, and opens, writes or connects to nothing else.
func TestOtherUsersReachResultsAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to look as another user")
	}
	home := conformance.OpenDir(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	store, err := record.Open(filepath.Join(home, storeFile))
	must(err)
	defer store.Close()
	must(os.MkdirAll(filepath.Join(home, "reports"), 0o755))
	must(os.WriteFile(filepath.Join(home, "reports", "run.html"), nil, 0o644))
	session, _, err := lab.OpenSession(t.Context(), filepath.Join(home, "host.lock"), home, "test")
	must(err)
	done, err := session.Ledger.Add(platform.Entry{Platform: "bare", Kind: "directory", ID: "none"})
	must(err)
	_, err = image.OpenStore(filepath.Join(home, "images"), func(string) {})
	must(err)
	annexd, err := control.Listen(filepath.Join(home, "annex", "run", "annexd.sock"))
	must(err)
	defer annexd.Close()
	must(file.Hold(t.Context(), filepath.Join(home, "bridge.lock"), func(*os.File) error { return nil }))

	results := []string{"", storeFile, "reports", "reports/run.html"}
	for _, line := range reachedByOthers(t, home) {
		how, path, _ := strings.Cut(line, " ")
		inside, err := filepath.Rel(home, path)
		must(err)
		if inside == "." {
			inside = ""
		}
		if how != "read" || !slices.Contains(results, inside) {
			t.Errorf("another user can %s %s", how, path)
		}
	}
	done()
	must(session.Close())
}

// reachedByOthers are the paths below a directory with what user 65534 can do with them:
// "read PATH" or "write PATH", which for a socket is to connect.
func reachedByOthers(t *testing.T, dir string) []string {
	t.Helper()
	var paths bytes.Buffer
	all := exec.Command("find", dir)
	all.Stdout = &paths
	if err := all.Run(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(paths.String(), "\n"); n < 15 {
		t.Fatalf("only %d paths were made", n)
	}
	look := exec.Command("/bin/sh", "-c", `while IFS= read -r path; do
		[ -r "$path" ] && printf 'read %s\n' "$path"; [ -w "$path" ] && printf 'write %s\n' "$path"; done; exit 0`)
	look.Dir = "/"
	look.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	look.Stdin = &paths
	out, err := look.Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "read "+filepath.Join(dir, storeFile)) {
		t.Errorf("another user cannot read the results, so that nothing is shown: %s", out)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
}

// TestOutputsOfRoot: another user's link leads no output of root elsewhere.
func TestOutputsOfRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("laying a link as another user takes root")
	}
	t.Setenv("SUDO_UID", "")
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "roots"), 0o700), os.Symlink("roots", link), os.Lchown(link, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(link, "result.json")
	if err := writable(name); exitCode(err) != exitUsage || !strings.Contains(err.Error(), link+" is a link of user 65534") {
		t.Errorf("before a run: %v", err)
	}
	if err := (&app{}).emitJSON(name, 1); err == nil {
		t.Error("a result was written through it")
	}
	if left, err := os.ReadDir(filepath.Join(dir, "roots")); err != nil || len(left) > 0 {
		t.Errorf("written is %v, %v", left, err)
	}
}

// TestPruneOfAnothersStore: a user's store does not say which files root removes.
func TestPruneOfAnothersStore(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving a directory away takes root")
	}
	home := t.TempDir()
	if err := os.Chown(home, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := tare(t, home, "runs", "prune", "--keep", "1"); code != exitUsage || !strings.Contains(stderr, "belongs to user 65534") {
		t.Errorf("%d %q", code, stderr)
	}
}

// TestStateDirectoriesOfOthers: root neither believes nor writes what lies in another user's state directory, whatever
// the command, and makes nothing behind another user's link.
func TestStateDirectoriesOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving a directory away takes root")
	}
	dir := t.TempDir()
	home, link := filepath.Join(dir, "home"), filepath.Join(dir, "link")
	err := errors.Join(os.Mkdir(home, 0o755), os.Chown(home, 65534, 65534), os.Symlink("roots", link), os.Lchown(link, 65534, 65534))
	if err != nil {
		t.Fatal(err)
	}
	figures := write(t, "figures.csv", "storage,copy\nbare,100\nbare,101\nbind,99\nbind,98\n")
	for _, line := range []string{
		"", "doctor --quick", "show", "runs", "export latest", "claims", "advise", "clean --dry-run", "place --undo",
		"resume latest", "reproduce S5.1 --dry-run", "weigh redis --dry-run",
		"import " + figures + " --format csv --value copy --unit MB/s --condition storage --baseline bare",
	} {
		for _, at := range []string{home, filepath.Join(link, "home")} {
			code, _, stderr := tare(t, at, strings.Fields(line)...)
			if code != exitUsage || !strings.Contains(stderr, "belongs to user 65534") {
				t.Errorf("tare %s in %s: %d %q", line, at, code, stderr)
			}
		}
	}
	left, err := os.ReadDir(home)
	if _, made := os.Lstat(filepath.Join(dir, "roots")); err != nil || len(left) > 0 || made == nil {
		t.Errorf("made were %v and, behind the link, %t; %v", left, made == nil, err)
	}
}

// TestReproducesPageIsTriedFirst: weeks of runs do not end with a page that cannot be written.
func TestReproducesPageIsTriedFirst(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("measuring requires root")
	}
	t.Setenv("SUDO_UID", "")
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.Symlink("/", link), os.Lchown(link, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing is to be measured
	var out, errOut bytes.Buffer
	code := run(ctx, []string{"tare", "--home", dir, "reproduce", "S5.1", "--yes", "--out", filepath.Join(link, "tmp")}, &out, &errOut)
	if code != exitUsage || out.Len() > 0 || !strings.Contains(errOut.String(), "is a link of user 65534") {
		t.Errorf("%d, %q, %q", code, &out, &errOut)
	}
}

// TestLiveCommandsAreQuoted: a command is shown to be copied.
func TestLiveCommandsAreQuoted(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: terminal.To(&out), err: terminal.To(&out), args: []string{"tare", "diagnose", "--verify", "web;reboot/throttled"}}
	dir := t.TempDir()
	if err := a.presentLive("verify", report.Sheet{Title: "x"}, nil, dir, ""); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.html"))
	if err != nil || len(pages) != 1 {
		t.Fatal(pages, err)
	}
	page, err := os.ReadFile(pages[0])
	if err != nil || !strings.Contains(html.UnescapeString(string(page)), "tare diagnose --verify 'web;reboot/throttled'") {
		t.Errorf("the page shows no command that can be copied: %v", err)
	}
}
