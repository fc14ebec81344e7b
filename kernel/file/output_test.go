package file_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"tare/kernel/file"
)

func writeText(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// create writes a text by Create.
func create(path, text string) error {
	f, err := file.Create(path)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func mustHold(t *testing.T, path, want string) {
	t.Helper()
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("%s holds %q, %v; want %q", path, text, err, want)
	}
}

func TestOutputs(t *testing.T) {
	t.Setenv("SUDO_UID", "")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.Mkdir(at("real"), 0o755), os.Symlink("real", at("own"))); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"the first, which is longer", "the second"} {
		if err := file.Replace(at("own/replaced"), writeText(text)); err != nil {
			t.Fatal(err)
		}
		mustHold(t, at("real/replaced"), text)
		if err := create(at("own/created"), text); err != nil {
			t.Fatal(err)
		}
		mustHold(t, at("real/created"), text)
	}
	if mode := modeOf(t, at("real/replaced")); mode != 0o644 {
		t.Errorf("a replaced file has mode %v", mode)
	}
	failed := errors.New("failed")
	err := file.Replace(at("real/replaced"), func(io.Writer) error { return failed })
	if !errors.Is(err, failed) {
		t.Errorf("a writer that fails: %v", err)
	}
	mustHold(t, at("real/replaced"), "the second")
	// The user's own link: Replace takes its place, Create follows it.
	if err := errors.Join(os.WriteFile(at("target"), []byte("before"), 0o600), os.Symlink("target", at("link"))); err != nil {
		t.Fatal(err)
	}
	if err := create(at("link"), "after"); err != nil {
		t.Fatal(err)
	}
	mustHold(t, at("target"), "after")
	if err := file.Replace(at("link"), writeText("instead")); err != nil {
		t.Fatal(err)
	}
	mustHold(t, at("target"), "after")
	mustHold(t, at("link"), "instead")
	for what, err := range map[string]error{
		"Replace":     file.Replace(at("none/file"), writeText("")),
		"Create":      create(at("none/file"), ""),
		"Replaceable": file.Replaceable(at("none/file")),
	} {
		if named := new(fs.PathError); !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &named) || filepath.Dir(named.Path) == "/proc/self/fd" {
			t.Errorf("%s where there is no directory: %v", what, err)
		}
	}
	if err := file.Replaceable(at("own/x")); err != nil {
		t.Error(err)
	}
	if err := file.OutputDirectory(at("own/a/b")); err != nil {
		t.Error(err)
	}
	if err := os.Remove(at("real/a/b")); err != nil {
		t.Error(err)
	}
	if err := os.Remove(at("real/a")); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(at("real"))
	if err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestOutputsPassLinksOfOthersBy: a user who can write in the directory of an output has laid a link.
func TestOutputsPassLinksOfOthersBy(t *testing.T) {
	t.Setenv("SUDO_UID", "")
	const person = 65534
	dir := makeDirectory(t, filepath.Join(t.TempDir(), "tmp"), 0o777|fs.ModeSticky, person)
	at := func(name string) string { return filepath.Join(dir, name) }
	roots := t.TempDir()
	precious := filepath.Join(roots, "precious")
	if err := os.WriteFile(precious, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(roots, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // else opening it to write would wait for one
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for name, target := range map[string]string{"file": precious, "dir": roots, "pipe": pipe} {
		if err := errors.Join(os.Symlink(target, at(name)), os.Lchown(at(name), person, person)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(precious, at("second")); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"Create at a link":          create(at("file"), "evil"),
		"Create through a link":     create(at("dir/precious"), "evil"),
		"Create, a second name":     create(at("second"), "evil"),
		"Create at a pipe":          create(at("pipe"), "evil"),
		"Replace through a link":    file.Replace(at("dir/precious"), writeText("evil")),
		"OutputDirectory":           file.OutputDirectory(at("dir/new")),
		"Replaceable behind a link": file.Replaceable(at("dir/new")),
	} {
		if exposed := new(file.Exposed); !errors.As(err, &exposed) || exposed.Mend == "" {
			t.Errorf("%s: %v, want an *Exposed", what, err)
		}
	}
	// What a link at the end leads to stays as it is: the link is replaced.
	if err := file.Replace(at("file"), writeText("new")); err != nil {
		t.Error(err)
	}
	mustHold(t, precious, "precious")
	mustHold(t, at("file"), "new")
	// Who ran sudo may lay links.
	t.Setenv("SUDO_UID", "65534")
	if err := create(at("dir/other"), "by sudo"); err != nil {
		t.Error(err)
	}
	mustHold(t, filepath.Join(roots, "other"), "by sudo")
}

// What takes what is written, and is no file, is written to and stays.
func TestOutputsToPipesAndDevices(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(path, text string) error{
		"Create":  create,
		"Replace": func(path, text string) error { return file.Replace(path, writeText(text)) },
	} {
		if err := file.Replaceable(path); err != nil {
			t.Errorf("a pipe: %v", err)
		}
		came := make(chan string)
		go func() {
			text, _ := os.ReadFile(path)
			came <- string(text)
		}()
		if err := write(path, "through a pipe"); err != nil {
			t.Fatal(err)
		}
		if text := <-came; text != "through a pipe" {
			t.Errorf("%s: %q came", name, text)
		}
		if err := write("/dev/null", "to nobody"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if info, err := os.Stat("/dev/null"); err != nil || info.Mode()&fs.ModeCharDevice == 0 {
			t.Fatalf("%s: /dev/null is %v, %v", name, info, err)
		}
	}
}

func TestOutputsAreNoDirectories(t *testing.T) {
	dir := t.TempDir()
	if err := file.Replaceable(dir); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a directory can be replaced: %v", err)
	}
	if err := create(dir, "x"); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a directory is created: %v", err)
	}
}

// What is neither a file nor takes what is written stays what it is.
func TestOutputsReplaceNoSocketAndNothingAmongDevices(t *testing.T) {
	dir := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, path := range []string{filepath.Join(dir, "socket"), "/proc/sys/kernel/hostname", "/dev/tare-test-output", "/sys/tare-test-output"} {
		exposed := new(file.Exposed)
		if err := file.Replaceable(path); !errors.As(err, &exposed) {
			t.Errorf("%s can be replaced: %v", path, err)
		}
		if err := file.Replace(path, writeText("x")); !errors.As(err, &exposed) {
			t.Errorf("%s is replaced: %v", path, err)
		}
		if err := create(path, "x"); !errors.As(err, &exposed) {
			t.Errorf("%s is created: %v", path, err)
		}
	}
}

// Seccomp profiles that are older than openat2(2) refuse it: outputs of root do without, and what cannot says so.
func TestWithoutOpenat2(t *testing.T) {
	dir := t.TempDir()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, and the filter with it
		done <- func() error {
			if err := refuseOpenat2(); err != nil {
				return err
			}
			if _, err := file.PinBelow(dir, "x"); err == nil || !strings.Contains(err.Error(), "the call openat2 requires Linux 5.6") {
				return fmt.Errorf("PinBelow: %w", err)
			}
			return errors.Join(
				file.OutputDirectory(filepath.Join(dir, "made")), file.Replaceable(filepath.Join(dir, "made/a")),
				file.Replace(filepath.Join(dir, "made/a"), writeText("a")), create(filepath.Join(dir, "made/b"), "b"),
			)
		}()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	mustHold(t, filepath.Join(dir, "made/a"), "a")
	mustHold(t, filepath.Join(dir, "made/b"), "b")
}

// refuseOpenat2 has the kernel refuse the call to this thread, as Docker's profile before 20.10 has it: by EPERM.
func refuseOpenat2() error {
	const number = 0 // of the call, in struct seccomp_data
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_OPENAT2, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}
