package cli

import (
	"bytes"
	"errors"
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
	"tare/platform/agent"
	"tare/platform/conformance"
	"tare/record"
)

// Of all directories, locks and sockets that tare, its agent and annexd make, another user
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
	_, err = agent.OpenIdentity(filepath.Join(home, "agent", "identity.pem"))
	must(err)
	called, err := listenUnix(t.Context(), filepath.Join(home, "agent.sock"))
	must(err)
	defer called.Close()
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
