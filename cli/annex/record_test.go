package annex

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/annex"
	"tare/annex/bound"
	"tare/annex/control"
	"tare/annex/trace"
	"tare/cli/command"
	"tare/kernel/file"
)

// annexVariable makes this test binary act as annex.
const annexVariable = "TARE_ANNEX_TEST_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(annexVariable) != "" {
		os.Exit(Main(os.Args))
	}
	os.Exit(m.Run())
}

// program is a run of annex as a program of its own.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), annexVariable+"=1")
	return cmd
}

func isRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("recording takes root")
	}
}

// A file that a trace cannot, or may not, be written to is a usage error, and stays as it is.
func TestRecordRefusesFiles(t *testing.T) {
	isRoot(t)
	dir := t.TempDir()
	notes := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(notes, []byte("what took a week"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		notes:                            notes + " holds something else than a trace, which would be lost: name another file, or move it away",
		dir:                              dir + " is a directory: name a file in it",
		filepath.Join(dir, "none/trace"): "there is no directory " + filepath.Join(dir, "none"),
		filepath.Join(notes, "trace"):    "not a directory",
		"/proc/trace":                    "no running container", // it is made last, and cannot be
	} {
		code, out, errOut := run(t, "record", "--container", "there-is-no-such-container", path)
		if code != command.Usage || out != "" || !strings.Contains(errOut, says) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%s: code %d, %q, %q; want %q", path, code, out, errOut, says)
		}
	}
	if text, err := os.ReadFile(notes); err != nil || string(text) != "what took a week" {
		t.Errorf("the file holds %q, %v", text, err)
	}
}

// A trace is written anew, and so is an empty file; what is no file is written to.
func TestRecordWritesTracesAnew(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{recorded(t, time.Second), empty, filepath.Join(t.TempDir(), "new"), os.DevNull} {
		if err := mayHold(path); err != nil {
			t.Error(err)
		}
	}
}

// A name that no container has is a usage error; what annexd would take it for is suggested.
func TestRecordSuggestsWhatAnnexdKnows(t *testing.T) {
	isRoot(t)
	out := filepath.Join(t.TempDir(), "trace")
	for name, says := range map[string]string{"web": "did you mean web-1?", "web-1": "no running container \"web-1\"", "nosuch": "no running container \"nosuch\""} {
		code, _, errOut := run(t, "record", "--container", name, "--socket", serving(t, &fake{}), out)
		if code != command.Usage || !strings.Contains(errOut, says) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%s: code %d, %q; want %q", name, code, errOut, says)
		}
	}
	if _, err := os.Lstat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
}

// Whatever an annexd defends, evicting beside it is refused; only to record is not.
func TestRecordDoesNotEvictBesideAManager(t *testing.T) {
	isRoot(t)
	if err := os.Mkdir(bound.ClaimDirectory, 0o700); err == nil {
		t.Cleanup(func() { _ = os.Remove(bound.ClaimDirectory) })
	} else if !errors.Is(err, os.ErrExist) {
		t.Skip(err)
	}
	lock, err := file.Lock(filepath.Join(bound.ClaimDirectory, "defended-%2Ftare-annex-test.lock"))
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = file.Unlock(lock) })
	args := []string{"record", "--container", "there-is-no-such-container", filepath.Join(t.TempDir(), "trace")}
	if code, _, errOut := run(t, append(args, "--evict")...); code != command.Host || !strings.Contains(errOut, "--evict would undo what annexd does: the memory of") || !strings.Contains(errOut, ".lock: end that one first") {
		t.Errorf("code %d, %q", code, errOut)
	}
	if code, _, errOut := run(t, args...); code != command.Usage {
		t.Errorf("without --evict: code %d, %q", code, errOut)
	}
}

// A full disk is told once, wherever in a trace it is met.
func TestRecordOnAFullDisk(t *testing.T) {
	for what, events := range map[string]int{"when the trace ends": 1, "when a block is full": 100_000} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip(err)
		}
		out := bufio.NewWriter(full)
		w, err := trace.NewWriter(out, trace.Header{Host: "made", Clock: "virtual", PageSize: annex.PageSize, Containers: []trace.Container{{ID: "a", Name: "web", Class: annex.Elastic}}})
		if err != nil {
			t.Fatal(err)
		}
		// What is written is of no pattern, so that a block is larger than what is written at once.
		random := rand.New(rand.NewPCG(1, 2))
		for n := 0; n < events && err == nil; n++ {
			err = w.Write(trace.Event{Kind: trace.Woke, At: annex.Moment(random.Int64())})
		}
		begun := err
		err = finish(err, w, out)
		full.Close()
		if !errors.Is(err, syscall.ENOSPC) || strings.Count(err.Error(), "no space left") != 1 || (begun != nil) != (events > 1) {
			t.Errorf("%s: %v, before the end %v", what, err, begun)
		}
	}
}

// A trace that is written keeps why its recording ended.
func TestFinishKeepsWhyItEnded(t *testing.T) {
	var file bytes.Buffer
	out, ended := bufio.NewWriter(&file), errors.New("nothing is told any more")
	w, err := trace.NewWriter(out, trace.Header{Host: "made", Clock: "virtual", PageSize: annex.PageSize, Containers: []trace.Container{{ID: "a", Name: "web", Class: annex.Elastic}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := finish(ended, w, out); !errors.Is(err, ended) {
		t.Errorf("%v, want %v", err, ended)
	}
	if r, err := trace.NewReader(&file); err != nil {
		t.Error(err)
	} else if _, err := r.Next(); err != io.EOF {
		t.Errorf("the trace ends with %v", err)
	}
}

// Who is not root is told that first, whatever else there would be to say.
func TestRecordTakesRoot(t *testing.T) {
	isRoot(t)
	cmd := program(t, "record", "--container", "there-is-no-such-container", "/none/trace")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != command.Host || !strings.HasPrefix(errOut.String(), "annex: not root: ") || strings.Count(errOut.String(), "\n") != 1 {
		t.Errorf("%v: %q", err, errOut.String())
	}
}

// What did not all arrive is a failure, which each command tells by the same words.
func TestOutputOnAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	socket, made := serving(t, &fake{status: control.Status{Schema: control.Schema}}), recorded(t, time.Second)
	simulated := []string{"simulate", "--trace", made, "--memory", "64MiB", "--swap", "64MiB", "--policy", "stock"}
	for _, args := range [][]string{
		{"status", "--socket", socket}, {"status", "--json", "--socket", socket},
		{"top", "--socket", socket}, {"top", "--json", "--socket", socket},
		{"explain", "web-1", "--socket", socket}, {"explain", "web-1", "--json", "--socket", socket},
		{"drain", "--detach", "--socket", socket},
		{"config", "--example"}, {"trace", made}, simulated, append(slices.Clone(simulated), "--json"),
	} {
		cmd := program(t, args...)
		var errOut bytes.Buffer
		cmd.Stdout, cmd.Stderr = full, &errOut
		var exit *exec.ExitError
		if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != command.Failure || errOut.String() != "annex: the output is not complete: write /dev/stdout: no space left on device\n" {
			t.Errorf("%q: %v: %q", args, err, errOut.String())
		}
	}
}

// Another user has laid a link where root is to write a trace.
func TestRecordPassesLinksOfOthersBy(t *testing.T) {
	isRoot(t)
	t.Setenv("SUDO_UID", "")
	dir := t.TempDir()
	precious, link := filepath.Join(dir, "precious"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(precious, []byte("precious"), 0o600), os.Symlink(precious, link), os.Lchown(link, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	coded := new(command.Coded)
	if _, err := create(link); !errors.As(err, &coded) || coded.Code != command.Usage || !strings.Contains(err.Error(), link+" is a link of user 65534") {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(precious); err != nil || string(text) != "precious" {
		t.Errorf("the file holds %q, %v", text, err)
	}
}
