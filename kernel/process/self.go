package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tare/kernel/file"
	"tare/kernel/procfs"
	"tare/kernel/small"
)

// Affinity lists the CPUs that this program may run on: while it keeps itself to
// some of them ([Confine]), those that it had before, which it may still give to
// others.
func Affinity() ([]int, error) {
	if had := unconfined.Load(); had != nil {
		return cpusOf(*had), nil
	}
	// The kernel refuses a set smaller than its own; unix.CPUSet holds 1024.
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, os.NewSyscallError("sched_getaffinity", err)
	}
	var cpus []int
	for c := 0; len(cpus) < set.Count(); c++ {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}

// SetAffinity restricts the calling thread, and what it executes or starts, to
// those CPUs.
func SetAffinity(cpus []int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("restricting to CPUs %v: %w", cpus, os.NewSyscallError("sched_setaffinity", err))
	}
	return nil
}

// OpenFilesMax is how high this program may set the number of open files.
func OpenFilesMax() (uint64, error) {
	var r unix.Rlimit
	err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &r)
	return r.Max, os.NewSyscallError("prlimit", err)
}

// SetLimits sets the numbers of open files and bytes of a core file, soft and hard.
func SetLimits(openFiles, coreSize uint64) error {
	for _, l := range []struct {
		name     string
		resource int
		value    uint64
	}{{"open files", unix.RLIMIT_NOFILE, openFiles}, {"core size", unix.RLIMIT_CORE, coreSize}} {
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: l.value, Max: l.value}); err != nil {
			return fmt.Errorf("setting the limit of %s to %d: %w", l.name, l.value, err)
		}
	}
	return nil
}

// Nice is the calling process' nice value, -20 to 19.
func Nice() (int, error) {
	// The system call gives 20 minus the value, so that none is negative.
	v, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	return 20 - v, err
}

// CPUTime is the user and system time that the calling process has used.
func CPUTime() (time.Duration, error) {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return 0, err
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), nil
}

// Waited is how long the calling process' threads, those that have not ended, were ready to
// run and had no processor: the second number of /proc/PID/task/TID/schedstat
// (Documentation/scheduler/sched-stats.rst).
func Waited() (time.Duration, error) {
	dir := procfs.Host.Process(os.Getpid()).Path("task")
	tasks, err := os.Open(dir)
	if err != nil {
		return 0, err
	}
	names, err := tasks.Readdirnames(-1)
	if err := errors.Join(err, tasks.Close()); err != nil {
		return 0, err
	}
	var ran, waited time.Duration
	for _, name := range names {
		file := filepath.Join(dir, name, "schedstat")
		b, err := small.Read(file)
		if procfs.Gone(err) {
			continue // the thread ended meanwhile, or there is no such file
		}
		if err != nil {
			return 0, err
		}
		r, w, err := parseSchedstat(b)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		ran, waited = ran+r, waited+w
	}
	if ran == 0 { // this program runs: with accounts that are off the kernel writes noughts
		return 0, errors.New("this kernel reports nothing of how long programs wait (/proc/PID/schedstat): CONFIG_SCHEDSTATS, or the boot parameter delayacct")
	}
	return waited, nil
}

// parseSchedstat gives the first two of its three numbers: how long a thread ran, and waited.
func parseSchedstat(text []byte) (ran, waited time.Duration, err error) {
	fields := strings.Fields(string(text))
	if len(fields) != 3 {
		return 0, 0, fmt.Errorf("%q, want three numbers", text)
	}
	var ns [2]int64
	for i := range ns {
		if ns[i], err = strconv.ParseInt(fields[i], 10, 64); err != nil {
			return 0, 0, err
		}
	}
	return time.Duration(ns[0]), time.Duration(ns[1]), nil
}

// SetUmask sets the bits that this process' new files lack, and gives those of before.
func SetUmask(mask int) (before int) { return unix.Umask(mask) }

// SetOOMScore sets the calling process' badness adjustment. Lowering it needs
// CAP_SYS_RESOURCE; where it is already so, nothing is needed.
func SetOOMScore(score int) error {
	const file = "/proc/self/oom_score_adj"
	want := strconv.Itoa(score)
	if now, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(now)) == want {
		return nil
	}
	if err := os.WriteFile(file, []byte(want), 0); err != nil {
		return fmt.Errorf("setting oom_score_adj to %s: %w", want, err)
	}
	return nil
}

// ChangeRoot makes dir the root directory and, inside it, inside the working one, which is
// made where it is not there: what was mounted over it may have hidden it.
func ChangeRoot(dir, inside string) error {
	if err := unix.Chroot(dir); err != nil {
		return &os.PathError{Op: "chroot", Path: dir, Err: err}
	}
	err := unix.Chdir(inside)
	if err == unix.ENOENT {
		if err := os.MkdirAll(inside, 0o755); err != nil {
			return err
		}
		err = unix.Chdir(inside)
	}
	if err != nil {
		return &os.PathError{Op: "chdir", Path: inside, Err: err}
	}
	return nil
}

// User is who a program runs as.
type User struct {
	UID    int   `json:"uid"`
	GID    int   `json:"gid"`
	Groups []int `json:"groups,omitempty"`
}

// Name is the user with its first group, by numbers: "1000:1000".
func (u User) Name() string { return fmt.Sprintf("%d:%d", u.UID, u.GID) }

// String is the user with all groups: "1000:1000, groups 1000 29".
func (u User) String() string {
	groups := strings.Trim(fmt.Sprint(u.Groups), "[]")
	if groups == "" {
		groups = "none"
	}
	return u.Name() + ", groups " + groups
}

// SetUser gives up the calling process' identity for that one, groups first.
func SetUser(u User) error {
	if err := unix.Setgroups(u.Groups); err != nil {
		return os.NewSyscallError("setgroups", err)
	}
	if err := unix.Setresgid(u.GID, u.GID, u.GID); err != nil {
		return os.NewSyscallError("setresgid", err)
	}
	return os.NewSyscallError("setresuid", unix.Setresuid(u.UID, u.UID, u.UID))
}

// GiveStreams gives those of the standard streams that are pipes to a user: what opens them by
// their names, /dev/stdout and the like, needs the owner's permission.
func GiveStreams(uid int) error {
	for fd := range 3 {
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFIFO {
			continue
		}
		if err := unix.Fchown(fd, uid, -1); err != nil {
			return os.NewSyscallError("fchown", err)
		}
	}
	return nil
}

// Execute replaces this program. It returns only when it fails.
func Execute(program string, args, env []string) error {
	return &os.PathError{Op: "exec", Path: program, Err: unix.Exec(program, args, env)}
}

// CloseOnExec keeps a descriptor from the program that is executed next.
func CloseOnExec(f *os.File) { unix.CloseOnExec(int(f.Fd())) }

// SearchPath is PATH in an environment; empty where it has none.
func SearchPath(env []string) string {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			return value
		}
	}
	return ""
}

// LookPath finds the file that executing name means, for a process whose root
// directory is root, working directory dir and search path searchPath. One that an entry
// of the search path finds relative to the working directory is refused. The error names
// the program and where it was looked for.
func LookPath(root, dir, name, searchPath string) (string, error) {
	if name == "" {
		return "", errors.New("no program was named")
	}
	if strings.Contains(name, "/") {
		at := name
		if !filepath.IsAbs(name) {
			at = filepath.Join(dir, name)
		}
		if err := executable(root, at); err != nil {
			return "", fmt.Errorf("program %q: %w", name, err)
		}
		return name, nil
	}
	var denied error
	for _, in := range filepath.SplitList(searchPath) {
		found := filepath.Join(in, name)
		if !filepath.IsAbs(in) {
			found = filepath.Join(dir, in, name)
		}
		err := executable(root, found)
		switch {
		case err == nil && !filepath.IsAbs(in):
			// Runtimes differ: those written in Go refuse it, crun executes it.
			return "", fmt.Errorf("program %q: PATH finds it by %q, relative to the working directory: name it by a path, such as ./%s", name, in, name)
		case err == nil:
			return found, nil
		}
		switch {
		case errors.Is(err, fs.ErrPermission):
			denied = err
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, syscall.ELOOP):
			return "", fmt.Errorf("program %q: %w", name, err) // nobody knows whether it is there
		}
	}
	if denied != nil {
		return "", fmt.Errorf("program %q: %w", name, denied)
	}
	return "", fmt.Errorf("program %q: %w in %s", name, fs.ErrNotExist, searchPath)
}

func executable(root, name string) error {
	pinned, err := file.PinIn(root, name)
	if err != nil {
		return err
	}
	defer pinned.Close()
	info, err := pinned.Stat()
	switch {
	case errors.Is(err, file.ErrNotRegular):
		return fmt.Errorf("%w: %w", err, fs.ErrPermission)
	case err != nil:
		return err
	case info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not executable: %w", name, fs.ErrPermission)
	}
	return nil
}
