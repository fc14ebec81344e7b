package instructions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"tare/kernel/mount"
	"tare/kernel/process"
	"tare/probe"
)

// Of valgrind's tools cachegrind with its caches left out is the cheapest that
// counts.
const tool = "cachegrind"

// places are where distributions keep valgrind's tools; the environment's
// VALGRIND_LIB goes before them, as it does for valgrind itself.
var places = []string{"/usr/libexec/valgrind", "/usr/lib/valgrind", "/usr/local/libexec/valgrind", "/usr/lib64/valgrind"}

// inside is where the tools are shown in a root.
const inside = "/.tare-valgrind"

// Count runs a program to its end under valgrind, and gives how many instructions
// its first process executed in user mode, from the program's first on, its dynamic
// linker's among them. Programs that it executes are not counted; one that forks
// is refused.
//
// root is the root file system that it finds itself in; empty is the host's, where it
// runs as the caller would run it. In a root it is held as a container is, and tighter: it has
// no capability and can gain none, though it is root; and process ids, network, message
// queues and a host name of its own. There is no network, not even a loopback. Its /proc
// cannot be written to and shows it itself alone of the host's processes. What it writes in its
// root is in memory (at most half of the host's), and thrown away with the
// namespace that it lies in, however the caller ends; so root may be in use by others.
//
// Its output is thrown away, too; a status other than 0 is an error with its last
// words. env is its whole environment.
//
// The error is a *[probe.Missing] where valgrind is missing, or root's rights.
func Count(ctx context.Context, argv []string, root string, env []string) (instructions uint64, err error) {
	if len(argv) == 0 {
		return 0, errors.New("counting instructions: no program was named")
	}
	lib, err := library()
	if err != nil {
		return 0, err
	}
	if root == "" {
		return run(ctx, argv, "", lib, env)
	}
	if os.Geteuid() != 0 {
		return 0, &probe.Missing{Probe: name, What: "a program in a root file system of its own is counted there", Mend: "sudo tare ..."}
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return 0, err
	}
	// The mounts are the thread's and its children's alone, and gone with them.
	err = mount.Hiding(nil, func() error {
		at, err := lay(root, lib)
		if err != nil {
			return fmt.Errorf("laying out %s for valgrind: %w", root, err)
		}
		if err := process.ForgoPrivileges(); err != nil {
			return err
		}
		instructions, err = run(ctx, argv, at, inside, env)
		return err
	})
	return instructions, err
}

// program is the tool's own program, which is static and so runs in any root.
func program(lib string) string {
	return filepath.Join(lib, tool+"-"+runtime.GOARCH+"-linux")
}

// library finds valgrind's tools.
func library() (string, error) {
	if own := os.Getenv("VALGRIND_LIB"); own != "" {
		return libraryIn(append([]string{own}, places...))
	}
	return libraryIn(places)
}

func libraryIn(places []string) (string, error) {
	for _, lib := range places {
		if info, err := os.Stat(program(lib)); err == nil && info.Mode().IsRegular() {
			return lib, nil
		}
	}
	return "", &probe.Missing{Probe: name, What: "this host has no valgrind, by which instructions are counted without a processor's counters", Mend: "apt-get install valgrind"}
}

// desks are directories that every host has, of which one is covered to work on, in
// the thread's own view of the host.
var desks = []string{"/mnt", "/media", "/srv", "/opt", "/tmp", "/run", "/home"}

// desk picks one that hides nothing that is needed.
func desk(needed ...string) (string, error) {
	for _, dir := range desks {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		within := func(path string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
		if !slices.ContainsFunc(needed, within) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("there is no directory to work on: of %s one has to be there, with nothing in it that is needed", strings.Join(desks, ", "))
}

// lay makes a view of root that can be written, with the tools and /proc in it. All that
// it makes is in the thread's own view of the host, so that nothing of it has to
// be removed.
func lay(root, lib string) (at string, err error) {
	if lib, err = filepath.EvalSymlinks(lib); err != nil {
		return "", err
	}
	scratch, err := desk(root, lib)
	if err != nil {
		return "", err
	}
	if err := mount.New("tmpfs", scratch, mount.Options{NoDev: true, Data: "mode=755"}); err != nil {
		return "", err
	}
	dirs := map[string]string{}
	for _, name := range []string{"upper", "work", "root"} {
		dirs[name] = filepath.Join(scratch, name)
		if err := os.Mkdir(dirs[name], 0o755); err != nil {
			return "", err
		}
	}
	at = dirs["root"]
	if err := mount.Overlay(root, dirs["upper"], dirs["work"], at); err != nil {
		return "", err
	}
	// The tool keeps files of its own in /tmp.
	for _, dir := range []string{inside, "/proc", "/tmp"} {
		if err := directory(at + dir); err != nil {
			return "", err
		}
	}
	if err := mount.Bind(lib, at+inside, true); err != nil {
		return "", err
	}
	// It is the host's own, since the program's process ids are made only with it: root
	// without capabilities could still write to the host's settings there.
	return at, mount.New("proc", at+"/proc", mount.Options{ReadOnly: true, NoExec: true, NoDev: true, NoSUID: true, Data: "hidepid=ptraceable"})
}

// directory makes one that is not there. A link, which would lead to a place of the
// host's, is refused.
func directory(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.Mkdir(path, 0o755)
	case err == nil && !info.IsDir():
		return &os.PathError{Op: "mount on", Path: path, Err: syscall.ENOTDIR}
	}
	return err
}

// run executes the tool. lib is where the tools lie, as seen from root.
func run(ctx context.Context, argv []string, root, lib string, env []string) (uint64, error) {
	report, said, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer report.Close()
	// The tool is called without valgrind's launcher, which would look for a tool
	// that fits the program, from the host: what it says to the tool is read here.
	args := []string{
		"valgrind", "--tool=" + tool, "--cache-sim=no", "--branch-sim=no", "--trace-children=no", "--vgdb=no",
		"--cachegrind-out-file=/dev/null", "--command-line-only=yes", "--log-fd=3",
	}
	cmd := exec.CommandContext(ctx, program(lib)) // an absolute path: nothing is looked for
	cmd.Args = append(append(args, "--"), argv...)
	cmd.Env = append(append([]string{}, env...), "VALGRIND_LAUNCHER=/usr/bin/valgrind", "VALGRIND_LIB="+lib)
	cmd.ExtraFiles = []*os.File{said}
	complaints := &process.Tail{Most: 4096}
	cmd.Stderr = complaints
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if root != "" {
		cmd.Dir, cmd.SysProcAttr.Chroot = "/", root
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
			syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	}
	if err := cmd.Start(); err != nil {
		_ = said.Close()
		return 0, fmt.Errorf("starting %s under valgrind: %w", argv[0], err)
	}
	_ = said.Close() // its other end is the tool's
	text, reading := io.ReadAll(io.LimitReader(report, mostReport))
	// A program that says more than valgrind ever does must not be held up by it.
	_, _ = io.Copy(io.Discard, report)
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return 0, fmt.Errorf("counting the instructions of %s: %w", argv[0], context.Cause(ctx))
		}
		return 0, fmt.Errorf("%s under valgrind: %w%s", argv[0], err, words(complaints.Bytes(), text))
	}
	if reading != nil {
		return 0, fmt.Errorf("reading what valgrind says of %s: %w", argv[0], reading)
	}
	n, err := parse(bytes.NewReader(text))
	if err != nil {
		return 0, fmt.Errorf("what valgrind says of %s: %w", argv[0], err)
	}
	return n, nil
}

// mostReport bounds what is kept of valgrind's own words.
const mostReport = 1 << 20

// words are the program's last ones, or valgrind's where it has none.
func words(stderr, report []byte) string {
	for _, said := range [][]byte{stderr, report} {
		if lines := strings.Split(strings.TrimSpace(string(said)), "\n"); lines[len(lines)-1] != "" {
			return ": " + lines[len(lines)-1]
		}
	}
	return ""
}
