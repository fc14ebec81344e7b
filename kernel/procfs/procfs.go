// Package procfs reads what /proc reports of one process: its state, limits,
// environment, mounts and descriptors.
//
// It is not a general reader of /proc (host-wide figures are elsewhere), and it
// never writes. The formats are those of proc(5) and the kernel's
// Documentation/filesystems/proc.rst. Each has a parser that takes a reader,
// so that reading a recorded file needs no kernel.
package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"tare/kernel/small"
)

// FS is the directory that a procfs is mounted on.
type FS string

// Host is this host's procfs.
const Host FS = "/proc"

// Process is one process in a procfs. It is a name, not a handle: the process
// behind it may end, and every method then fails with an error for which
// [Gone] holds.
type Process struct {
	dir string
	PID int
}

// Process names the process with the given id.
func (f FS) Process(pid int) Process {
	return Process{filepath.Join(string(f), strconv.Itoa(pid)), pid}
}

// errGone is what a zombie's missing parts are reported as.
var errGone error = syscall.ESRCH

// Gone reports whether err says that the process ended.
func Gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// Path is the path of one of the process' files, such as "ns/net".
func (p Process) Path(name string) string { return filepath.Join(p.dir, name) }

// A process decides how long its command line, its environment, the list of what it maps and that of its
// mounts are: by PR_SET_MM_MAP it can have the kernel report any of its memory as the first two (prctl(2)).
const (
	// mostArgs is what is read of a command line. All processes of a host may be asked for theirs.
	mostArgs = 16 << 10
	// mostEnviron is more than execve(2) takes (6 MiB, with the arguments).
	mostEnviron = 8 << 20
	// mostText is more than the kernel's default limits of mappings and mounts come to with usual names.
	mostText = 64 << 20
)

// ErrTooLong is the error of a file of a process that is longer than what is read.
var ErrTooLong = errors.New("too long to be read")

func (p Process) read(name string) ([]byte, error) { return p.readMost(name, mostText) }

func (p Process) readMost(name string, most int) ([]byte, error) {
	b, isCut, err := small.ReadMost(p.Path(name), most)
	switch {
	case err != nil:
		return nil, fmt.Errorf("process %d: %w", p.PID, err)
	case isCut:
		return b, fmt.Errorf("process %d: %s has more than %d KiB: %w", p.PID, p.Path(name), most>>10, ErrTooLong)
	}
	return b, nil
}

func parse[T any](p Process, name string, parser func(io.Reader) (T, error)) (T, error) {
	var none T
	b, err := p.read(name)
	if err != nil {
		return none, err
	}
	return parsed(p, name, b, parser)
}

func parsed[T any](p Process, name string, b []byte, parser func(io.Reader) (T, error)) (T, error) {
	var none T
	v, err := parser(bytes.NewReader(b))
	if err != nil {
		return none, fmt.Errorf("%s: %w", p.Path(name), err)
	}
	return v, nil
}

// Stat reads /proc/PID/stat.
func (p Process) Stat() (Stat, error) { return parse(p, "stat", ParseStat) }

// Status reads /proc/PID/status.
func (p Process) Status() (Status, error) { return parse(p, "status", ParseStatus) }

// Limits reads /proc/PID/limits.
func (p Process) Limits() (Limits, error) { return parse(p, "limits", ParseLimits) }

// Mounts reads /proc/PID/mountinfo: the mounts below the process' root. A process that ends has left them
// before it is gone: the kernel then says EINVAL.
func (p Process) Mounts() ([]Mount, error) {
	mounts, err := parse(p, "mountinfo", ParseMountInfo)
	if errors.Is(err, syscall.EINVAL) {
		err = fmt.Errorf("%w: the process ends: %w", err, fs.ErrNotExist)
	}
	return mounts, err
}

// Environ reads the environment that the program was started with, sorted.
func (p Process) Environ() ([]string, error) {
	b, err := p.readOfMemory("environ", mostEnviron)
	if err != nil {
		return nil, err
	}
	return ParseEnviron(b), nil
}

// Args reads the command line; empty for a zombie. One of more than 16 KiB is cut there.
func (p Process) Args() ([]string, error) {
	b, err := p.readOfMemory("cmdline", mostArgs)
	if err != nil && !errors.Is(err, ErrTooLong) {
		return nil, err
	}
	return splitNUL(b), nil
}

// Runs reports whether the process runs one of the programs for a user. The name of its file decides, as far
// as commands go (15 bytes): a process chooses its command (comm) itself. The user is the effective one, by
// its id on this host. Root's process must be in the caller's process namespace: root in a container has
// files of any name. A process that has ended, and was not waited for, has no file: its command decides.
func (p Process) Runs(uid int, programs []string) bool {
	status, err := p.Status()
	if err != nil || status.UID != uid {
		return false
	}
	if uid == 0 && !p.SharesPIDs() {
		return false
	}
	name := ""
	if exe, err := os.Readlink(p.Path("exe")); err == nil {
		name = filepath.Base(strings.TrimSuffix(exe, deleted)) // the package may have been renewed
	} else if stat, err := p.Stat(); err == nil && stat.Zombie() {
		name = stat.Comm
	}
	return slices.Contains(programs, name[:min(len(name), commandLength)])
}

// SharesPIDs reports whether the process is in the caller's process namespace. In a container of its own, a process
// may have any user's id, and run files of any name.
func (p Process) SharesPIDs() bool {
	theirs, err := os.Readlink(p.Path("ns/pid"))
	ours, failed := os.Readlink(filepath.Join(filepath.Dir(p.dir), "self/ns/pid"))
	return err == nil && failed == nil && theirs == ours
}

// commandLength is the length of a command (comm) at most: TASK_COMM_LEN of the kernel, without the final NUL.
const commandLength = 15

// OOMScoreAdj reads the badness adjustment.
func (p Process) OOMScoreAdj() (int, error) {
	b, err := p.read("oom_score_adj")
	if err != nil {
		return 0, err
	}
	v, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", p.Path("oom_score_adj"), err)
	}
	return v, nil
}

// SecurityLabel reads the security module's profile, empty where no module
// labels processes.
func (p Process) SecurityLabel() string {
	// A kernel without a labelling module answers EINVAL, one without any
	// module has no file.
	b, err := p.read("attr/current")
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(b), "\x00\n")
}

// Descriptor says what one of the process' descriptors is: "/dev/null" (by its
// device number, since every root has its own node), "pipe", "socket", or a path.
func (p Process) Descriptor(fd int) (string, error) {
	name := "fd/" + strconv.Itoa(fd)
	target, err := os.Readlink(p.Path(name))
	if err != nil {
		return "", fmt.Errorf("process %d: %w", p.PID, err)
	}
	if kind, _, anonymous := strings.Cut(target, ":["); anonymous && !strings.HasPrefix(target, "/") {
		return kind, nil
	}
	// The file system of what the process holds is not asked, which might not answer.
	var st unix.Statx_t
	err = unix.Statx(unix.AT_FDCWD, p.Path(name), unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev_major == 1 && st.Rdev_minor == 3 {
		return "/dev/null", nil
	}
	return target, nil
}

// Namespaces maps each kind of namespace ("net", "mnt", ...) to its identity
// ("net:[4026531840]").
func (p Process) Namespaces() (map[string]string, error) {
	entries, err := os.ReadDir(p.Path("ns"))
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", p.PID, err)
	}
	ns := make(map[string]string, len(entries))
	for _, e := range entries {
		// The namespaces that children will be born into are not the process' own.
		if strings.HasSuffix(e.Name(), "_for_children") {
			continue
		}
		id, err := os.Readlink(p.Path("ns/" + e.Name()))
		if err != nil {
			return nil, fmt.Errorf("process %d: %w", p.PID, err)
		}
		ns[e.Name()] = id
	}
	return ns, nil
}

// Children lists the process ids of the children of all its threads.
func (p Process) Children() ([]int, error) {
	files, err := filepath.Glob(p.Path("task/*/children"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended, and its children belong to another
		}
		for _, word := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	sort.Ints(pids)
	return pids, nil
}
