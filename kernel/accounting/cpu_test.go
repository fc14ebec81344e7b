package accounting

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const statText = `cpu  100 10 50 900 5 2 8 3 4 0
cpu0 40 4 20 450 2 1 3 1 2 0
cpu2 60 6 30 450 3 1 5 2 2 0
intr 12345 0 0 7
ctxt 99
`

// A host of four CPUs, of which 1 and 3 are offline.
const interruptsText = `           CPU0       CPU2
  1:          9          0   IO-APIC   1-edge      i8042
 24:       1000      20000  PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0, virtio2-output.0
 25:          3          4   IO-APIC   9-fasteoi   acpi
NMI:          0          1   Non-maskable interrupts
LOC:        500       6000   Local timer interrupts
RES:         10         70   Rescheduling interrupts
CAL:         20         80   Function call interrupts
TLB:          1          2   TLB shootdowns
ERR:          5
MIS:          0
`

const armText = `           CPU0       CPU1
 11:      41000      52000     GICv3  27 Level     arch_timer
 14:          7          0     GICv3  33 Edge      uart-pl011
IPI0:       300        400       Rescheduling interrupts
IPI1:        50         60       Function call interrupts
IPI2:         0          0       CPU stop interrupts
Err:          0
`

func TestParseCPUTime(t *testing.T) {
	got, err := ParseCPUTime(strings.NewReader(statText), 2)
	want := CPUTime{User: 660 * time.Millisecond, System: 300 * time.Millisecond, IRQ: 10 * time.Millisecond, SoftIRQ: 50 * time.Millisecond, Steal: 20 * time.Millisecond}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if got.Busy() != 1020*time.Millisecond {
		t.Errorf("busy %v: steal is nobody's here", got.Busy())
	}
	for name, text := range map[string]string{"CPU 2 is not": "cpu0 1 2 3 4 5 6 7 8\n", "too few": "cpu2 1 2\n", "not a number": "cpu2 1 2 x 4 5 6 7 8\n"} {
		if _, err := ParseCPUTime(strings.NewReader(text), 2); err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(name, "CPU 2 is ")) {
			t.Errorf("%q: %v, want %q", text, err, name)
		}
	}
}

func TestParseInterrupts(t *testing.T) {
	got, err := ParseInterrupts(strings.NewReader(interruptsText), 2)
	if err != nil {
		t.Fatal(err)
	}
	want := []Interrupt{
		{"1", "i8042", Other, 0}, {"24", "virtio2-input.0, virtio2-output.0", Other, 20000}, {"25", "acpi", Other, 4},
		{"NMI", "Non-maskable interrupts", Other, 1}, {"LOC", "Local timer interrupts", Timer, 6000},
		{"RES", "Rescheduling interrupts", Rescheduling, 70}, {"CAL", "Function call interrupts", FunctionCall, 80}, {"TLB", "TLB shootdowns", FunctionCall, 2},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
	if got, err = ParseInterrupts(strings.NewReader(armText), 0); err != nil {
		t.Fatal(err)
	}
	kinds := map[InterruptKind]uint64{}
	for _, i := range got {
		kinds[i.Kind] += i.Count
	}
	if want := (map[InterruptKind]uint64{Timer: 41000, Rescheduling: 300, FunctionCall: 50, Other: 7}); !reflect.DeepEqual(kinds, want) {
		t.Errorf("on arm64 %v, want %v", kinds, want)
	}
	if _, err := ParseInterrupts(strings.NewReader(interruptsText), 1); err == nil || !strings.Contains(err.Error(), "offline") {
		t.Errorf("of a CPU that is offline: %v", err)
	}
}

func TestSince(t *testing.T) {
	at := time.Unix(1000, 0)
	before := CPU{Taken: at, Time: CPUTime{User: time.Second, System: 2 * time.Second, IRQ: time.Second},
		Interrupts: []Interrupt{{"LOC", "Local timer interrupts", Timer, 100}, {"RES", "Rescheduling interrupts", Rescheduling, 5}, {"24", "disk", Other, 7}}}
	after := CPU{Taken: at.Add(time.Second), Time: CPUTime{User: 1200 * time.Millisecond, System: 2100 * time.Millisecond, Steal: 50 * time.Millisecond},
		Interrupts: []Interrupt{{"LOC", "Local timer interrupts", Timer, 140}, {"RES", "Rescheduling interrupts", Rescheduling, 5}, {"24", "disk", Other, 3}, {"25", "net", Other, 60}}}
	got := after.Since(before)
	want := CPUSpan{Elapsed: time.Second, Time: CPUTime{User: 200 * time.Millisecond, System: 100 * time.Millisecond, Steal: 50 * time.Millisecond},
		Interrupts: []Interrupt{{"25", "net", Other, 60}, {"LOC", "Local timer interrupts", Timer, 40}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A thread that keeps one CPU busy shows on that CPU's account.
func TestReadCPUOfThisHost(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var had, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &had); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !had.IsSet(cpu) {
		cpu++
	}
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	defer unix.SchedSetaffinity(0, &had)
	before, err := ReadCPU(cpu)
	if err != nil {
		t.Fatal(err)
	}
	// Busy until its account says so: others may be in this thread's way.
	for {
		after, err := ReadCPU(cpu)
		if err != nil {
			t.Fatal(err)
		}
		span := after.Since(before)
		if span.Time.Busy() > 0 && len(span.Interrupts) > 0 {
			if span.Elapsed <= 0 {
				t.Errorf("elapsed %v", span.Elapsed)
			}
			return
		}
	}
}

func TestReadCPUThatIsNotThere(t *testing.T) {
	if _, err := ReadCPU(1 << 20); err == nil || !strings.Contains(err.Error(), "CPU 1048576") {
		t.Errorf("got %v, want an error that names it", err)
	}
}

func TestParseStatus(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Status
	}{
		{"today's", "Name:\tksoftirqd/1\nPid:\t22\nPPid:\t2\nKthread:\t1\nCpus_allowed_list:\t1\n", Status{"ksoftirqd/1", true, []int{1}}},
		{"older", "Name:\tksoftirqd/1\nPid:\t22\nPPid:\t2\nCpus_allowed_list:\t0-2,5\n", Status{"ksoftirqd/1", true, []int{0, 1, 2, 5}}},
		{"a process", "Name:\tkworker/1:1\nPid:\t300\nPPid:\t1\nCpus_allowed_list:\t1\n", Status{"kworker/1:1", false, []int{1}}},
	} {
		got, err := ParseStatus(strings.NewReader(c.text))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	for _, list := range []string{"2-1", "x", "-3", "0-99999999999", "0-65536"} {
		if _, err := ParseStatus(strings.NewReader("Cpus_allowed_list:\t" + list + "\n")); err == nil {
			t.Errorf("%q was taken for a list of CPUs", list)
		}
	}
	if _, err := ParseStatus(strings.NewReader("Name:\tx\n")); err == nil {
		t.Error("a status without CPUs was taken")
	}
}

// A /proc of one's own: what is bound to CPU 2 of it.
func TestBound(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("interrupts", interruptsText)
	write("irq/24/smp_affinity_list", "2\n")
	write("irq/1/smp_affinity_list", "0,2\n")
	write("irq/25/smp_affinity_list", "0\n")
	thread := func(pid int, name, kernel, list string) {
		write(strconv.Itoa(pid)+"/status", "Name:\t"+name+"\nPid:\t"+strconv.Itoa(pid)+"\nKthread:\t"+kernel+"\nCpus_allowed_list:\t"+list+"\n")
	}
	thread(20, "ksoftirqd/2", "1", "2")
	thread(21, "kworker/2:0-events", "1", "2")
	thread(22, "kworker/2:1H-kblockd", "1", "2")
	thread(23, "kworker/u9:1", "1", "0,2")
	thread(24, "ksoftirqd/0", "1", "0")
	thread(25, "pinned", "0", "2")
	got, err := bound(root, 2)
	want := []string{"ksoftirqd/2", "kworker/2 (2 threads)", "interrupt 24 (virtio2-input.0, virtio2-output.0)"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestBoundOfThisHost(t *testing.T) {
	if _, err := os.Stat("/proc/2/status"); err != nil {
		t.Skip("needs to see the kernel's threads: runs in a process namespace")
	}
	names, err := Bound(0)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(names, "ksoftirqd/0") {
		t.Errorf("%q lacks ksoftirqd/0, which every kernel has on CPU 0", names)
	}
}

func FuzzParseCPUTime(f *testing.F) {
	f.Add(statText, 2)
	f.Add("cpu0 1 2 3 4 5 6 7\n", 0)
	f.Fuzz(func(t *testing.T, text string, cpu int) {
		if got, err := ParseCPUTime(strings.NewReader(text), cpu); err != nil && got != (CPUTime{}) {
			t.Errorf("%v beside %+v", err, got)
		}
	})
}

func FuzzParseInterrupts(f *testing.F) {
	f.Add(interruptsText, 2)
	f.Add(armText, 0)
	f.Add("CPU0\n24: 1 edge\n", 0)
	f.Fuzz(func(t *testing.T, text string, cpu int) {
		got, err := ParseInterrupts(strings.NewReader(text), cpu)
		for _, i := range got {
			if i.Line == "" || i.Name == "" || i.Kind == "" {
				t.Errorf("%+v, %v of %q", i, err, text)
			}
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	f.Add("Name:\tksoftirqd/1\nPid:\t22\nPPid:\t2\nKthread:\t1\nCpus_allowed_list:\t0-3,7\n")
	f.Add("Cpus_allowed_list:\t0-65535,0-65535,0-65535\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseStatus(strings.NewReader(text))
		if err == nil && len(s.Allowed) > mostCPUs {
			t.Errorf("%d CPUs of %q", len(s.Allowed), text)
		}
	})
}
