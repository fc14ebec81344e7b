package accounting

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CPU is the account of one CPU at one moment.
type CPU struct {
	Taken  time.Time
	Number int
	Time   CPUTime
	// Interrupts are what this CPU has taken since boot, in the order of
	// /proc/interrupts.
	Interrupts []Interrupt
}

// CPUTime is what a CPU has been doing. The kernel counts it by ticks where it
// was not built to do better (CONFIG_VIRT_CPU_ACCOUNTING_GEN, IRQ_TIME_ACCOUNTING):
// then an interrupt's time is mostly in that of the task which it interrupted.
type CPUTime struct {
	User, System time.Duration // of tasks; niced ones among the users'
	IRQ, SoftIRQ time.Duration // of interrupts, and of what they put off
	Steal        time.Duration // given by the hypervisor to others
}

// Busy is all that it did for anybody here.
func (t CPUTime) Busy() time.Duration { return t.User + t.System + t.IRQ + t.SoftIRQ }

// Interrupt is one line of /proc/interrupts, as far as it is of one CPU.
type Interrupt struct {
	Line  string // "LOC", "24"
	Name  string // "Local timer interrupts", "virtio0-input.0"; the line where it has none
	Kind  InterruptKind
	Count uint64
}

// InterruptKind is why a CPU was interrupted.
type InterruptKind string

// The kinds of interrupts.
const (
	Timer        InterruptKind = "timer"         // the CPU's own
	Rescheduling InterruptKind = "rescheduling"  // another CPU has woken a task here
	FunctionCall InterruptKind = "function call" // another CPU wants something done here, TLB shootdowns among it
	Other        InterruptKind = "other"         // devices, and the rest
)

// ReadCPU reads the account of a CPU.
func ReadCPU(cpu int) (CPU, error) { return readCPU("/proc", cpu) }

func readCPU(root string, cpu int) (CPU, error) {
	c := CPU{Taken: time.Now(), Number: cpu}
	read := func(name string, parse func(io.Reader) error) error {
		path := filepath.Join(root, name)
		f, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("account of CPU %d: %w", cpu, err)
		}
		defer f.Close()
		if err := parse(f); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	}
	err := read("stat", func(r io.Reader) (err error) { c.Time, err = ParseCPUTime(r, cpu); return })
	if err != nil {
		return c, err
	}
	return c, read("interrupts", func(r io.Reader) (err error) { c.Interrupts, err = ParseInterrupts(r, cpu); return })
}

// ParseCPUTime reads one CPU's line of /proc/stat.
func ParseCPUTime(stat io.Reader, cpu int) (CPUTime, error) {
	lines := longLines(stat)
	want := "cpu" + strconv.Itoa(cpu)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0] != want {
			continue
		}
		// user nice system idle iowait irq softirq steal; guest time is in user already.
		var ticks [8]uint64
		if len(fields) < 8 {
			return CPUTime{}, fmt.Errorf("%.80q has too few fields", lines.Text())
		}
		for i := range min(len(ticks), len(fields)-1) {
			v, err := strconv.ParseUint(fields[i+1], 10, 53)
			if err != nil {
				return CPUTime{}, fmt.Errorf("%s: %q is not a number of ticks", want, fields[i+1])
			}
			ticks[i] = v
		}
		return CPUTime{
			User: ticksToTime(ticks[0] + ticks[1]), System: ticksToTime(ticks[2]),
			IRQ: ticksToTime(ticks[5]), SoftIRQ: ticksToTime(ticks[6]), Steal: ticksToTime(ticks[7]),
		}, nil
	}
	if err := lines.Err(); err != nil {
		return CPUTime{}, err
	}
	return CPUTime{}, fmt.Errorf("no line for CPU %d: it is not there, or offline", cpu)
}

// ParseInterrupts reads one CPU's column of /proc/interrupts. Lines that are not
// of single CPUs (ERR, MIS) are left out.
func ParseInterrupts(r io.Reader, cpu int) ([]Interrupt, error) {
	lines := longLines(r)
	if !lines.Scan() {
		if err := lines.Err(); err != nil {
			return nil, err
		}
		return nil, errors.New("it is empty")
	}
	// CPUs that are offline have no column.
	head := strings.Fields(lines.Text())
	column := -1
	for i, name := range head {
		if name == "CPU"+strconv.Itoa(cpu) {
			column = i
		}
	}
	if column < 0 {
		return nil, fmt.Errorf("no column for CPU %d: it is not there, or offline", cpu)
	}
	var all []Interrupt
	for lines.Scan() {
		line, rest, ok := strings.Cut(lines.Text(), ":")
		if line = strings.TrimSpace(line); !ok || line == "" {
			return nil, fmt.Errorf("%.80q has no name", lines.Text())
		}
		fields := strings.Fields(rest)
		if len(fields) < len(head) {
			continue
		}
		count, err := strconv.ParseUint(fields[column], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("interrupt %.20s: %.20q is not a count", line, fields[column])
		}
		one := Interrupt{Line: line, Name: interruptName(line, fields[len(head):]), Count: count}
		one.Kind = interruptKind(one)
		all = append(all, one)
	}
	return all, lines.Err()
}

// interruptName is what stands after the counts: of an architecture's own
// interrupt, words; of a device's, the controller, the number and kind of its
// line there, and the drivers'.
func interruptName(line string, words []string) string {
	if _, err := strconv.Atoi(line); err == nil && len(words) > 0 {
		for i, w := range words {
			if w == "edge" || w == "level" || w == "Edge" || w == "Level" || strings.HasSuffix(w, "-edge") || strings.HasSuffix(w, "-level") ||
				strings.HasSuffix(w, "-fasteoi") {
				words = words[i+1:]
				break
			}
		}
	}
	if len(words) == 0 {
		return line
	}
	return strings.Join(words, " ")
}

func interruptKind(i Interrupt) InterruptKind {
	// x86 has three letters for each, arm64 IPI0 to IPI7 with words; its timers are
	// devices, one for each CPU.
	switch name := strings.ToLower(i.Name); {
	case i.Line == "LOC", name == "arch_timer":
		return Timer
	case i.Line == "RES", strings.HasPrefix(name, "rescheduling"):
		return Rescheduling
	case i.Line == "CAL", i.Line == "TLB", strings.HasPrefix(name, "function call"):
		return FunctionCall
	}
	return Other
}

// CPUSpan is what a CPU did between two readings.
type CPUSpan struct {
	Elapsed time.Duration
	Time    CPUTime
	// Interrupts are those that came at all, most first.
	Interrupts []Interrupt
}

// Since compares two readings of one CPU. What the kernel's counts lose (time in
// an interrupt of a CPU that was offline meanwhile) is nothing, never negative.
func (c CPU) Since(before CPU) CPUSpan {
	less := func(now, was time.Duration) time.Duration { return max(0, now-was) }
	span := CPUSpan{Elapsed: c.Taken.Sub(before.Taken), Time: CPUTime{
		User: less(c.Time.User, before.Time.User), System: less(c.Time.System, before.Time.System),
		IRQ: less(c.Time.IRQ, before.Time.IRQ), SoftIRQ: less(c.Time.SoftIRQ, before.Time.SoftIRQ),
		Steal: less(c.Time.Steal, before.Time.Steal),
	}}
	was := map[string]uint64{}
	for _, i := range before.Interrupts {
		was[i.Line] = i.Count
	}
	for _, i := range c.Interrupts {
		if i.Count > was[i.Line] {
			i.Count -= was[i.Line]
			span.Interrupts = append(span.Interrupts, i)
		}
	}
	slices.SortStableFunc(span.Interrupts, func(a, b Interrupt) int { return cmp.Compare(b.Count, a.Count) })
	return span
}

// longLines reads lines as long as a host of many CPUs has them.
func longLines(r io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	return lines
}
