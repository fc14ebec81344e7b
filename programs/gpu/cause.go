package gpu

import (
	"fmt"
	"strings"
)

// Cause is why a program ended without a result that holds. The programs' own table is
// cuda/failure.h; a test holds the two to be the same.
type Cause struct {
	// Code is the exit status.
	Code int
	// Name is the cause in a word or two, for programs: "old-driver".
	Name string
	// What is wrong, in a clause.
	What string
	// Do is what to do about it, in a clause.
	Do string
}

// Causes are all of them, by code.
var Causes = []Cause{
	{1, "failed", "something failed that none of the other causes covers", "see the program's line"},
	{2, "usage", "the command line is wrong", "see the program's line, or its --help"},
	{10, "no-driver", "there is no NVIDIA driver here, or its library cannot be found", "load the driver, and let the program find libcuda.so.1"},
	{11, "old-driver", "the driver is older than the CUDA runtime in the program", "install a newer driver, or build the programs with an older toolkit"},
	{12, "no-device", "the driver shows the program no such device", "pass a device to the program, or choose another by --device"},
	{13, "no-code", "the program holds no code that this device runs", "build it for the device's compute capability, or with PTX"},
	{14, "new-ptx", "the program's PTX is newer than the driver can compile", "install a newer driver, or build the programs with an older toolkit"},
	{15, "no-jit", "PTX cannot be compiled here", "let the program find libnvidia-ptxjitcompiler.so.1 and unset CUDA_DISABLE_PTX_JIT, or build it for the exact device"},
	{16, "device-memory", "the device's memory does not suffice", "choose a smaller --size, or wait until others have freed theirs"},
	{17, "busy", "others hold the device, or its compute mode forbids this use", "end what holds it, or set its compute mode to default"},
	{18, "mig-memory", "the memory of this MIG instance does not suffice", "choose a smaller --size or a larger instance"},
	{19, "not-ready", "the driver is there and does not answer as it should", "see that the device's nodes can be opened and that its services run"},
	{20, "device-fault", "the device failed while the program ran", "see the kernel's log for its Xid errors"},
	{21, "wrong", "the results differ from the reference by more than the tolerance", "report it: no figure of that run holds"},
	{22, "host-memory", "the host's memory does not suffice", "choose a smaller --size, or --memory pageable"},
}

// CauseOf gives the cause that an exit status stands for; false where it is none's.
func CauseOf(code int) (Cause, bool) {
	for _, c := range Causes {
		if c.Code == code {
			return c, true
		}
	}
	return Cause{}, false
}

// Failure is the end of a program that gave no result that holds.
type Failure struct {
	// Program is its name.
	Program string
	// Cause is zero where the exit status is none of ours: a signal, or a program that is
	// none of these.
	Cause Cause
	// Line is the program's own, without its name.
	Line string
}

// Error gives the program's own line, which says what to do, or the cause's where it left
// none.
func (f *Failure) Error() string {
	switch {
	case f.Line != "":
		return f.Program + ": " + f.Line
	case f.Cause.Code != 0:
		return fmt.Sprintf("%s: %s: %s", f.Program, f.Cause.What, f.Cause.Do)
	}
	return f.Program + ": ended without a word: run it by hand"
}

// NewFailure makes a failure of a program's exit status (-1 where a signal ended it) and of
// what it wrote to standard error, of which the last line that is its own counts.
func NewFailure(program string, code int, stderr string) *Failure {
	f := &Failure{Program: program}
	f.Cause, _ = CauseOf(code)
	var last string
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		if own, ok := strings.CutPrefix(line, program+": "); ok {
			f.Line = own
		}
		if line != "" {
			last = line
		}
	}
	if f.Line == "" {
		f.Line = last
	}
	return f
}
