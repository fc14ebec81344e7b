package gpu_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tare/programs/gpu"
)

// fakeCompiler is a script that answers as nvcc of a release does, and writes down how it was
// called instead of compiling.
func fakeCompiler(t *testing.T, release, architectures string) (nvcc, calls string) {
	t.Helper()
	dir := t.TempDir()
	nvcc, calls = filepath.Join(dir, "nvcc"), filepath.Join(dir, "calls")
	script := `#!/bin/sh
case $1 in
--version) echo "Cuda compilation tools, release ` + release + `, V` + release + `.1" ;;
--list-gpu-arch) for a in ` + architectures + `; do echo "compute_$a"; done ;;
--list-gpu-code) for a in ` + architectures + `; do echo "sm_$a"; done ;;
*)
	echo "$@" >>` + calls + `
	while [ "$1" != -o ]; do shift; done
	touch "$2"
	;;
esac
`
	if err := os.WriteFile(nvcc, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return nvcc, calls
}

// withDevice puts an nvidia-smi first on PATH that tells a compute capability; or none.
func withDevice(t *testing.T, capability string) string {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\necho '" + capability + "'\n"
	if capability == "" {
		script = "#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return "PATH=" + dir + ":" + os.Getenv("PATH")
}

func TestCompileKinds(t *testing.T) {
	for _, c := range []struct {
		release, architectures string
		o                      gpu.CompileOptions
		device                 string
		want                   []string // of the calls that compile the program itself
	}{
		{"13.0", "75 80 90", gpu.CompileOptions{Kinds: []gpu.Kind{gpu.PTX}, Programs: []string{gpu.LU}}, "",
			[]string{`-gencode arch=compute_75,code=compute_75 -DBUILD_KIND="ptx" -DBUILD_TARGETS="compute_75" -c SOURCES/cuda/lu.cu -o OUT/ptx/lu.o`}},
		{"11.8", "35 37 50 52 90", gpu.CompileOptions{Kinds: []gpu.Kind{gpu.Exact, gpu.Both}, Programs: []string{gpu.Stencil}, Capability: "9.0"}, "",
			[]string{
				`-gencode arch=compute_90,code=sm_90 -DBUILD_KIND="exact" -DBUILD_TARGETS="sm_90" -c SOURCES/cuda/stencil.cu -o OUT/exact/stencil.o`,
				`-gencode arch=compute_90,code=sm_90 -gencode arch=compute_50,code=compute_50 -DBUILD_KIND="both" -DBUILD_TARGETS="sm_90,compute_50" -c SOURCES/cuda/stencil.cu -o OUT/both/stencil.o`,
			}},
		{"12.8", "50 120", gpu.CompileOptions{Kinds: []gpu.Kind{gpu.Exact}, Programs: []string{gpu.LU}}, "12.0",
			[]string{`-gencode arch=compute_120,code=sm_120 -DBUILD_KIND="exact" -DBUILD_TARGETS="sm_120" -c SOURCES/cuda/lu.cu -o OUT/exact/lu.o`}},
	} {
		t.Run(c.release, func(t *testing.T) {
			nvcc, calls := fakeCompiler(t, c.release, c.architectures)
			out := filepath.Join(t.TempDir(), "out")
			c.o.Environment = []string{"NVCC=" + nvcc, withDevice(t, c.device)}
			if err := gpu.Compile(t.Context(), out, c.o); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(calls)
			if err != nil {
				t.Fatal(err)
			}
			all := regexp.MustCompile(`\S+(/cuda/\w+\.cu)`).ReplaceAllString(strings.ReplaceAll(string(text), out, "OUT"), "SOURCES$1")
			for _, want := range c.want {
				if !strings.Contains(all, want+"\n") {
					t.Errorf("nvcc was called with\n%s\nwant\n%s", all, want)
				}
			}
			// The program, its frame, and the two linked, for each kind.
			if n := strings.Count(all, "\n"); n != 3*len(c.o.Kinds) {
				t.Errorf("nvcc was called %d times:\n%s", n, all)
			}
		})
	}
}

// All programs in all kinds, where nothing is said.
func TestCompileAll(t *testing.T) {
	nvcc, calls := fakeCompiler(t, "13.0", "75 90")
	if err := gpu.Compile(t.Context(), t.TempDir(), gpu.CompileOptions{Environment: []string{"NVCC=" + nvcc, withDevice(t, "9.0")}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range gpu.Kinds {
		for _, program := range gpu.Programs {
			if !strings.Contains(string(text), fmt.Sprintf("/%[1]s/%[2]s.o", kind, program)) || !strings.Contains(string(text), fmt.Sprintf("/%s/%s\n", kind, program)) {
				t.Errorf("%s is not built as %s", program, kind)
			}
		}
	}
	if n := strings.Count(string(text), "\n"); n != len(gpu.Kinds)*(2*len(gpu.Programs)+1) {
		t.Errorf("nvcc was called %d times", n)
	}
}

func TestCompileMissing(t *testing.T) {
	old, _ := fakeCompiler(t, "11.7", "35 90")
	odd := filepath.Join(t.TempDir(), "nvcc")
	if err := os.WriteFile(odd, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	recent, _ := fakeCompiler(t, "13.0", "75 90")
	for what, c := range map[string]struct {
		nvcc, device string
		o            gpu.CompileOptions
		says         string
	}{
		"no compiler":       {"/no/nvcc", "9.0", gpu.CompileOptions{}, "11.8 to 13"},
		"an old one":        {old, "9.0", gpu.CompileOptions{}, "11.7"},
		"one of no release": {odd, "9.0", gpu.CompileOptions{}, "release"},
		"no device":         {recent, "", gpu.CompileOptions{}, "--capability 9.0"},
		"an old device":     {recent, "6.1", gpu.CompileOptions{}, "no code for sm_61"},
		"a device to be":    {recent, "9.0", gpu.CompileOptions{Capability: "20.0"}, "no code for sm_200"},
	} {
		c.o.Environment = []string{"NVCC=" + c.nvcc, withDevice(t, c.device)}
		err := gpu.Compile(t.Context(), t.TempDir(), c.o)
		if !errors.Is(err, gpu.ErrMissing) || !strings.Contains(fmt.Sprint(err), c.says) || strings.Contains(fmt.Sprint(err), "\n") {
			t.Errorf("%s: %v, want one line with %q", what, err, c.says)
		}
	}
}

func TestCompileUsage(t *testing.T) {
	for what, o := range map[string]gpu.CompileOptions{
		"a kind":       {Kinds: []gpu.Kind{"fat"}},
		"a program":    {Programs: []string{"matrix"}},
		"a capability": {Capability: "sm_90"},
	} {
		if err := gpu.Compile(t.Context(), t.TempDir(), o); err == nil || errors.Is(err, gpu.ErrMissing) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s that there is not: %v", what, err)
		}
	}
}

// What does not compile is told by the compiler's own words.
func TestCompileFails(t *testing.T) {
	nvcc := filepath.Join(t.TempDir(), "nvcc")
	script := "#!/bin/sh\ncase $1 in\n--version) echo 'tools, release 13.0, V1' ;;\n--list-*) echo compute_75 ;;\n*) echo 'nvcc warning : old'; echo 'lu.cu(3): error: no such type'; exit 2 ;;\nesac\n"
	if err := os.WriteFile(nvcc, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	err := gpu.Compile(t.Context(), t.TempDir(), gpu.CompileOptions{Kinds: []gpu.Kind{gpu.PTX}, Programs: []string{gpu.LU}, Environment: []string{"NVCC=" + nvcc}})
	if want := "build the CUDA programs: nvcc failed for 2 of the sources: lu.cu(3): error: no such type"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Who asked for a build may leave: its compilers end with it.
func TestCompileEnds(t *testing.T) {
	dir := t.TempDir()
	nvcc := filepath.Join(dir, "nvcc")
	script := "#!/bin/sh\ncase $1 in\n--version) echo 'tools, release 13.0, V1' ;;\n--list-*) echo compute_75 ;;\n*) touch " + dir + "/begun; exec sleep 600 ;;\nesac\n"
	if err := os.WriteFile(nvcc, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(dir, "begun")); err == nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	began := time.Now()
	err := gpu.Compile(ctx, t.TempDir(), gpu.CompileOptions{Kinds: []gpu.Kind{gpu.PTX}, Programs: []string{gpu.LU}, Environment: []string{"NVCC=" + nvcc}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("left, it says %v", err)
	}
	// Else the pipe would be given up after this long, with the compilers still there.
	if took := time.Since(began); took >= 10*time.Second {
		t.Errorf("it took %v to leave", took)
	}
}

// Where there is a compiler, the programs compile; where there is a device too, they are right
// on it, in every kind.
func TestOnDevice(t *testing.T) {
	if _, err := exec.LookPath("nvcc"); err != nil {
		t.Skip("needs nvcc: no program is compiled for a device")
	}
	smi, err := exec.CommandContext(t.Context(), "nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader").Output()
	if err != nil || !regexp.MustCompile(`^\s*\d+\.\d`).Match(smi) {
		if err := gpu.Compile(t.Context(), t.TempDir(), gpu.CompileOptions{Kinds: []gpu.Kind{gpu.PTX}, Programs: []string{gpu.Stencil}}); err != nil {
			t.Fatal(err)
		}
		t.Skip("needs a device to run what was compiled")
	}
	dir := t.TempDir()
	if err := gpu.Compile(t.Context(), dir, gpu.CompileOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, kind := range gpu.Kinds {
		for program, o := range map[string]gpu.Options{
			gpu.LU:             {Size: []int64{1111}},
			gpu.ParticleFilter: {Size: []int64{100001}},
			gpu.Stencil:        {Size: []int64{101, 67, 45}, Memory: "pinned"},
			gpu.LeNet:          {Size: []int64{257}, Iterations: 60, Task: "training"},
			gpu.DeviceLimits:   {Size: []int64{1 << 20}},
		} {
			o.Check, o.EachKernel = true, true
			e := run(t, gpu.Binary(dir, kind, program), nil, o.Arguments()...)
			r, err := gpu.Read(program, e.code, e.stdout, e.stderr)
			if err != nil {
				t.Errorf("%s of kind %s: %v", program, kind, err)
			} else if r.Emulated || r.Build.Kind != kind {
				t.Errorf("%s of kind %s says that it is %+v, emulated: %t", program, kind, r.Build, r.Emulated)
			}
		}
	}
}
