package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrMissing is why the programs cannot be built where the compiler or, asked for its compute
// capability, the device is not there.
var ErrMissing = errors.New("what building takes is missing")

// missing is an error that is ErrMissing, and says what is.
type missing string

func (m missing) Error() string { return string(m) }

func (m missing) Is(target error) bool { return target == ErrMissing }

// CompileOptions say what is built.
type CompileOptions struct {
	// Kinds and Programs are nil for all that run on a device.
	Kinds    []Kind
	Programs []string
	// Capability is the compute capability that Exact and Both are for, as in "9.0"; empty
	// for that of the first device here.
	Capability string
	// Environment is what is added to this program's: NVCC, NVCCFLAGS, CXX, CXXFLAGS,
	// SANITIZE, each as in "NVCC=/opt/cuda/bin/nvcc".
	Environment []string
}

// Compile builds programs into a directory, which is made where it is not there: see [Binary]. An
// error is one line; it wraps ErrMissing where something is not there.
func Compile(ctx context.Context, directory string, o CompileOptions) error {
	sources, err := os.MkdirTemp("", "tare-gpu-")
	if err != nil {
		return fmt.Errorf("build the CUDA programs: %w", err)
	}
	defer os.RemoveAll(sources)
	if err := os.CopyFS(sources, Sources); err != nil {
		return fmt.Errorf("build the CUDA programs: %w", err)
	}
	args := []string{filepath.Join(sources, "build.sh"), directory}
	for _, kind := range o.Kinds {
		args = append(args, "--kind", string(kind))
	}
	for _, program := range o.Programs {
		if err := known(program); err != nil {
			return fmt.Errorf("build the CUDA programs: %w", err)
		}
		args = append(args, "--program", program)
	}
	if o.Capability != "" {
		args = append(args, "--capability", o.Capability)
	}
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Env = append(os.Environ(), o.Environment...)
	// The script ends its compilers, which else would go on, and hold the pipe.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	var exit *exec.ExitError
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	last := strings.TrimPrefix(lines[len(lines)-1], "build.sh: ")
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("build the CUDA programs: %w", ctx.Err())
	case errors.As(err, &exit) && exit.ExitCode() == 3:
		return missing("build the CUDA programs: " + last)
	case len(lines) > 1:
		first := max(0, slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "error") }))
		return fmt.Errorf("build the CUDA programs: %s: %s", last, lines[first])
	}
	return fmt.Errorf("build the CUDA programs: %s: %w", last, err)
}

// Binary is where Compile and build.sh put a program of a kind.
func Binary(directory string, kind Kind, program string) string {
	return filepath.Join(directory, string(kind), program)
}

// Read makes a result of what a program printed and how it ended: its exit status, -1 where a
// signal ended it. The error is a *[Failure] where the program failed; where it is its results
// that are wrong, the result is given all the same.
func Read(program string, code int, stdout, stderr []byte) (Result, error) {
	wrong, _ := CauseOf(code)
	if code != 0 && wrong.Name != "wrong" {
		return Result{}, NewFailure(program, code, string(stderr))
	}
	r, err := Parse(stdout)
	switch {
	case err != nil:
		return Result{}, fmt.Errorf("%s: %w", program, err)
	case r.Program != program:
		return Result{}, fmt.Errorf("%s: the result is one of %s", program, r.Program)
	case code != 0:
		return r, NewFailure(program, code, string(stderr))
	}
	return r, nil
}
