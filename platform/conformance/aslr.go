package conformance

import (
	"os"
	"slices"
	"strings"
	"testing"

	"tare/kernel/procfs"
	"tare/platform"
)

// hostASLR is what a program has of which nothing else is asked, where tare
// itself is randomised.
func hostASLR(t *testing.T) string {
	t.Helper()
	aslr := procfs.Host.ASLR()
	if aslr == "" {
		t.Fatal("kernel.randomize_va_space cannot be read")
	}
	return aslr
}

// testASLR launches twice: without randomisation the kernel's own parts of the
// address space lie where they lay before, with it they do not.
func testASLR(t *testing.T, s suite) {
	for _, aslr := range []string{"off", "on"} {
		t.Run(aslr, func(t *testing.T) {
			st := s.set(t)
			setting := platform.Setting{ASLR: aslr}
			st.skipUnsupported(setting)
			if aslr == "on" && hostASLR(t) == "off" {
				t.Skip("kernel.randomize_va_space is 0 on this host")
			}
			where := addresses
			if s.has(OtherKernel) {
				where = addressesPrinted
			}
			first, second := where(st, setting), where(st, setting)
			if same := slices.Equal(first, second); same != (aslr == "off") {
				t.Errorf("two launches lie at %q and %q", first, second)
			}
		})
	}
}

// addresses launches and gives where the stack ends (where it begins depends on
// the environment) and where the vdso begins.
func addresses(st *stage, setting platform.Setting) []string {
	st.Helper()
	l := newLines()
	spec := st.shell("echo ready; while :; do sleep 3600; done")
	spec.Setting, spec.Stdout = setting, l
	inst := st.launch(spec)
	l.await(st, "ready")
	pids, err := inst.Processes()
	if err != nil || len(pids) == 0 {
		st.Fatalf("processes %v, %v", pids, err)
	}
	maps, err := os.ReadFile(procfs.Host.Process(pids[0]).Path("maps"))
	if err != nil {
		st.Fatal(err)
	}
	return fixed(st, string(maps))
}

// addressesPrinted is addresses as a program itself prints them.
func addressesPrinted(st *stage, setting platform.Setting) []string {
	st.Helper()
	spec := st.spec("cat", "/proc/self/maps")
	spec.Setting = setting
	_, maps, _ := st.run(spec)
	return fixed(st, maps)
}

func fixed(st *stage, maps string) []string {
	st.Helper()
	var at []string
	for line := range strings.Lines(maps) {
		fields := strings.Fields(line)
		begin, end, _ := strings.Cut(fields[0], "-")
		switch fields[len(fields)-1] {
		case "[stack]":
			at = append(at, "stack to "+end)
		case "[vdso]":
			at = append(at, "vdso from "+begin)
		}
	}
	if len(at) != 2 {
		st.Fatalf("stack and vdso are not both in\n%s", maps)
	}
	return at
}
