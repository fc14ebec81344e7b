package procfs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Stat is what tare needs of /proc/PID/stat.
type Stat struct {
	PID    int
	Comm   string
	State  byte // 'R', 'S', 'D', 'Z', ...
	Parent int
	// Kernel marks a thread of the kernel's own, which has no memory of its own.
	Kernel bool
	// StartTicks is the start since boot in clock ticks. With the process id
	// it names a process for good: an id is used again, a pair is not.
	StartTicks uint64
}

// kernelThread is PF_KTHREAD of include/linux/sched.h.
const kernelThread = 0x00200000

// Zombie reports whether the process has ended and waits for its parent.
func (s Stat) Zombie() bool { return s.State == 'Z' || s.State == 'X' }

// ParseStat parses /proc/PID/stat. The command may hold any byte, brackets and
// newlines among them, so the line is cut at the last closing bracket.
func ParseStat(r io.Reader) (Stat, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return Stat{}, err
	}
	open, closing := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || closing < open {
		return Stat{}, errors.New("no command in brackets")
	}
	var s Stat
	if s.PID, err = strconv.Atoi(strings.TrimSpace(string(b[:open]))); err != nil {
		return Stat{}, fmt.Errorf("process id: %w", err)
	}
	s.Comm = string(b[open+1 : closing])
	// The rest starts with field 3 of proc(5); the start time is field 22.
	fields := strings.Fields(string(b[closing+1:]))
	const flags, start = 9 - 3, 22 - 3
	if len(fields) <= start || len(fields[0]) != 1 {
		return Stat{}, fmt.Errorf("%d fields after the command, want at least %d", len(fields), start+1)
	}
	s.State = fields[0][0]
	if s.Parent, err = strconv.Atoi(fields[1]); err != nil {
		return Stat{}, fmt.Errorf("parent: %w", err)
	}
	set, err := strconv.ParseUint(fields[flags], 10, 64)
	if err != nil {
		return Stat{}, fmt.Errorf("flags: %w", err)
	}
	s.Kernel = set&kernelThread != 0
	if s.StartTicks, err = strconv.ParseUint(fields[start], 10, 64); err != nil {
		return Stat{}, fmt.Errorf("start time: %w", err)
	}
	return s, nil
}

// Status is what tare needs of /proc/PID/status.
type Status struct {
	CPUsAllowed string // list format, "0-1"
	Seccomp     int    // 0 off, 1 strict, 2 filter; 0 where the kernel has none
	CapEff      string // hexadecimal
	UID, GID    int    // effective
	// PageTables is the memory that the process' page tables take, in bytes; 0 for a kernel thread.
	PageTables uint64
	// Anonymous is its anonymous memory, in bytes, each page counted where it is mapped.
	Anonymous uint64
}

// ParseStatus parses /proc/PID/status.
func ParseStatus(r io.Reader) (Status, error) {
	var s Status
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 1<<20) // the list of groups has no bound of its own
	for scan.Scan() {
		key, value, ok := strings.Cut(scan.Text(), ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		var err error
		switch key {
		case "Cpus_allowed_list":
			s.CPUsAllowed = value
		case "Seccomp":
			s.Seccomp, err = strconv.Atoi(value)
		case "CapEff":
			s.CapEff = value
		case "Uid":
			s.UID, err = effective(value)
		case "RssAnon":
			s.Anonymous, err = kibibytes(value)
		case "VmPTE":
			s.PageTables, err = kibibytes(value)
		case "Gid":
			s.GID, err = effective(value)
		}
		if err != nil {
			return Status{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	if err := scan.Err(); err != nil {
		return Status{}, err
	}
	if s.CPUsAllowed == "" {
		return Status{}, errors.New("no Cpus_allowed_list")
	}
	return s, nil
}

// kibibytes reads "12 kB".
func kibibytes(value string) (uint64, error) {
	digits, ok := strings.CutSuffix(value, " kB")
	if !ok {
		return 0, fmt.Errorf("%q is not in kB", value)
	}
	n, err := strconv.ParseUint(digits, 10, 54)
	return n * 1024, err
}

// effective takes the second of "real effective saved filesystem".
func effective(ids string) (int, error) {
	f := strings.Fields(ids)
	if len(f) < 2 {
		return 0, fmt.Errorf("%q is not four ids", ids)
	}
	return strconv.Atoi(f[1])
}

// Unlimited is the limit that is none.
const Unlimited = math.MaxUint64

// Limit is one resource limit.
type Limit struct{ Soft, Hard uint64 }

// Limits are the resource limits by the kernel's names ("Max open files").
type Limits map[string]Limit

// The limits that tare sets.
const (
	OpenFiles = "Max open files"
	CoreSize  = "Max core file size"
)

// ParseLimits parses /proc/PID/limits, a table whose first column may hold
// blanks: a row is read from its end, where the unit may be absent.
func ParseLimits(r io.Reader) (Limits, error) {
	limits := Limits{}
	scan := bufio.NewScanner(r)
	for scan.Scan() {
		fields := strings.Fields(scan.Text())
		if len(fields) == 0 || fields[0] != "Max" {
			continue
		}
		at := slices.IndexFunc(fields, isLimit)
		if at < 1 || at+1 >= len(fields) {
			return nil, fmt.Errorf("%q has no soft and hard limit", scan.Text())
		}
		soft, err := limitValue(fields[at])
		if err != nil {
			return nil, err
		}
		hard, err := limitValue(fields[at+1])
		if err != nil {
			return nil, err
		}
		limits[strings.Join(fields[:at], " ")] = Limit{soft, hard}
	}
	if err := scan.Err(); err != nil {
		return nil, err
	}
	for _, name := range []string{OpenFiles, CoreSize} {
		if _, ok := limits[name]; !ok {
			return nil, fmt.Errorf("no %q", name)
		}
	}
	return limits, nil
}

func isLimit(word string) bool {
	return word == "unlimited" || word[0] >= '0' && word[0] <= '9'
}

func limitValue(word string) (uint64, error) {
	if word == "unlimited" {
		return Unlimited, nil
	}
	return strconv.ParseUint(word, 10, 64)
}

// ParseEnviron splits the contents of /proc/PID/environ and sorts them.
func ParseEnviron(b []byte) []string {
	env := splitNUL(b)
	slices.Sort(env)
	return env
}

func splitNUL(b []byte) []string {
	b = bytes.TrimRight(b, "\x00")
	if len(b) == 0 {
		return nil
	}
	return strings.Split(string(b), "\x00")
}
