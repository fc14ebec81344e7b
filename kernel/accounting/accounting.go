// Package accounting reads how much CPU time the host as a whole and each of
// its processes have used, and how long tasks stalled for memory: what shows
// foreign load from our own. Of a single CPU it reads what it was doing, what
// interrupted it, and what cannot be moved off it.
//
// Sources: proc(5), /proc/stat and /proc/PID/stat in clock ticks of 10 ms (a
// process that used less in an interval counts as nothing), /proc/interrupts and
// /proc/irq; Documentation/accounting/psi.rst for /proc/pressure.
package accounting

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/kernel/small"
)

// tick is the unit of /proc/stat. USER_HZ is 100 on every Linux architecture
// that tare is built for.
const tick = 10 * time.Millisecond

// Snapshot is the accounts at one moment.
type Snapshot struct {
	Taken time.Time
	CPUs  int
	Busy  time.Duration // by anybody: user, nice, system, irq, softirq
	Steal time.Duration // wanted by us, given by the hypervisor to others
	// MemoryStall is the time in which at least one task waited for memory
	// (PSI "some"); negative where the kernel does not account it.
	MemoryStall time.Duration
	Processes   map[int]Process
}

// Process is one process' account.
type Process struct {
	PID, Parent int
	Start       uint64 // ticks after boot: distinguishes a recycled PID from the same process
	Command     string
	Own         time.Duration // its threads
	Reaped      time.Duration // its children, waited for
}

// Take reads the accounts below root ("/proc").
func Take(root string) (Snapshot, error) {
	dir, err := os.Open(root)
	if err != nil {
		return Snapshot{}, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return Snapshot{}, fmt.Errorf("list processes: %w", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name[0] < '0' || name[0] > '9' })
	s := Snapshot{Taken: time.Now(), MemoryStall: -1, Processes: map[int]Process{}}
	stat, err := os.ReadFile(filepath.Join(root, "stat"))
	if err != nil {
		return s, fmt.Errorf("read the host's CPU time: %w", err)
	}
	if err := s.readHost(bytes.NewReader(stat)); err != nil {
		return s, err
	}
	if pressure, err := os.Open(filepath.Join(root, "pressure", "memory")); err == nil {
		s.MemoryStall = readStall(pressure)
		pressure.Close()
	}
	for _, name := range names {
		line, err := small.Read(filepath.Join(root, name, "stat"))
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				continue // it ended meanwhile
			}
			continue // ESRCH while reading: likewise
		}
		p, err := ParseProcess(line)
		if err != nil {
			return s, err
		}
		s.Processes[p.PID] = p
	}
	return s, nil
}

// readHost reads /proc/stat.
func (s *Snapshot) readHost(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20) // the "intr" line is long
	seen := false
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || !strings.HasPrefix(fields[0], "cpu") {
			continue
		}
		if fields[0] != "cpu" {
			s.CPUs++
			continue
		}
		if len(fields) < 8 {
			return fmt.Errorf("/proc/stat: %q has too few fields", lines.Text())
		}
		ticks := make([]uint64, len(fields))
		for i, f := range fields[1:] {
			v, err := strconv.ParseUint(f, 10, 63)
			if err != nil {
				return fmt.Errorf("/proc/stat: %q is not a number", f)
			}
			ticks[i] = v
		}
		// user nice system idle iowait irq softirq steal; guest time is in user already.
		s.Busy = ticksToTime(ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6])
		if len(fields) > 8 {
			s.Steal = ticksToTime(ticks[7])
		}
		seen = true
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("/proc/stat: %w", err)
	}
	if !seen {
		return errors.New("/proc/stat has no line for all CPUs")
	}
	return nil
}

func ticksToTime(ticks uint64) time.Duration { return time.Duration(ticks) * tick }

// ParseProcess reads one /proc/PID/stat. The command may hold spaces and
// parentheses, so the fields are counted from the last ')'.
func ParseProcess(line []byte) (Process, error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return Process{}, fmt.Errorf("process account %.80q has no command", line)
	}
	var p Process
	var err error
	if p.PID, err = strconv.Atoi(string(bytes.TrimSpace(line[:open]))); err != nil || p.PID <= 0 {
		return Process{}, fmt.Errorf("process account %.80q has no process id", line)
	}
	p.Command = string(line[open+1 : end])
	fields := bytes.Fields(line[end+1:])
	// Field 3 (state) is fields[0] here: ppid 4, utime..cstime 14 to 17, starttime 22.
	if len(fields) < 20 {
		return Process{}, fmt.Errorf("process account of %d has %d fields, want 20 or more", p.PID, len(fields))
	}
	number := func(field int) uint64 {
		v, perr := strconv.ParseInt(string(fields[field-3]), 10, 64)
		if perr != nil || v < 0 {
			if err == nil {
				err = fmt.Errorf("process account of %d: field %d is %q", p.PID, field, fields[field-3])
			}
			return 0
		}
		return uint64(v)
	}
	p.Parent = int(number(4))
	p.Own = ticksToTime(number(14) + number(15))
	p.Reaped = ticksToTime(number(16) + number(17))
	p.Start = number(22)
	return p, err
}

// readStall reads the total of the "some" line of a PSI file, in microseconds there.
func readStall(r io.Reader) time.Duration {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "some ") {
			continue
		}
		_, total, ok := strings.Cut(line, "total=")
		if !ok {
			return -1
		}
		micros, err := strconv.ParseInt(strings.TrimSpace(total), 10, 64)
		if err != nil {
			return -1
		}
		return time.Duration(micros) * time.Microsecond
	}
	return -1
}

// Interval is what happened between two snapshots.
type Interval struct {
	Elapsed time.Duration
	// Steal and Foreign are shares of all the CPU time that the host had (0 to
	// 1); MemoryStall is a share of Elapsed, negative where unknown.
	Steal, Foreign, MemoryStall float64
	// Self is the CPU time of the process root itself, its children apart.
	Self time.Duration
	// Loudest is the foreign command that used most.
	Loudest string
}

// Between compares two snapshots. Ours are the process root, all its
// descendants, and every process for which ours says so; kernel threads are
// nobody's, and so is init: what it reaps may be an engine's shim, with the time
// of the very program under trial, as well as a stranger's service that ended
// within the interval, which therefore goes unseen. Everything else is foreign,
// short-lived children of foreign processes included (their time arrives in
// their parent's account).
func Between(before, after Snapshot, root int, ours func(Process) bool) Interval {
	iv := Interval{Elapsed: after.Taken.Sub(before.Taken), MemoryStall: -1}
	if iv.Elapsed <= 0 || after.CPUs == 0 {
		return iv
	}
	mine := map[int]bool{root: true, 1: true, 2: true}
	var isMine func(pid, depth int) bool
	isMine = func(pid, depth int) bool {
		if known, ok := mine[pid]; ok {
			return known
		}
		p, alive := after.Processes[pid]
		if !alive {
			if p, alive = before.Processes[pid]; !alive {
				return false
			}
		}
		verdict := depth < 64 && p.Parent > 1 && isMine(p.Parent, depth+1) || ours != nil && ours(p)
		mine[pid] = verdict
		return verdict
	}
	used := map[string]time.Duration{}
	var foreign time.Duration
	for pid, p := range after.Processes {
		was, known := before.Processes[pid]
		if known && was.Start != p.Start {
			was, known = Process{}, false
		}
		if !known {
			was = Process{}
		}
		if pid == root {
			iv.Self = p.Own - was.Own
		}
		delta := p.Own - was.Own + p.Reaped - was.Reaped
		// Nothing used is nobody's concern: asking whose it is costs a file read.
		if delta <= 0 || isMine(pid, 0) {
			continue
		}
		foreign += delta
		used[p.Command] += delta
	}
	// A process that was there before and has been reaped brings its whole
	// life into its parent's account; what it had used before is not news.
	for pid, was := range before.Processes {
		if now, alive := after.Processes[pid]; alive && now.Start == was.Start {
			continue
		}
		// Its heir is the nearest ancestor that lives: those between have been
		// reaped too.
		heir := was.Parent
		for range 64 {
			if now, alive := after.Processes[heir]; alive && now.Start == before.Processes[heir].Start {
				break
			}
			heir = before.Processes[heir].Parent
		}
		if now, ok := after.Processes[heir]; ok && !isMine(heir, 0) && !isMine(pid, 0) {
			old := was.Own + was.Reaped
			foreign -= old
			used[now.Command] -= old
		}
	}
	if foreign < 0 {
		foreign = 0
	}
	capacity := float64(iv.Elapsed) * float64(after.CPUs)
	iv.Foreign = float64(foreign) / capacity
	iv.Steal = float64(after.Steal-before.Steal) / capacity
	if before.MemoryStall >= 0 && after.MemoryStall >= 0 {
		iv.MemoryStall = float64(after.MemoryStall-before.MemoryStall) / float64(iv.Elapsed)
	}
	var most time.Duration
	for command, d := range used {
		if d > most || d == most && most > 0 && command < iv.Loudest {
			iv.Loudest, most = command, d
		}
	}
	return iv
}
