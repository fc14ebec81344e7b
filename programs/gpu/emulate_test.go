package gpu_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"tare/programs/gpu"
)

// scratch is where the package's tests build; it goes when they are done.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "tare-gpu-test-"); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(scratch)
	os.Exit(status)
}

// sanitizers are those that the emulated programs run under: addresses, and of undefined
// behaviour what the arithmetic of indexes can do. The others cost the compiler more than these.
const sanitizers = "address,bounds,alignment,shift,signed-integer-overflow,integer-divide-by-zero"

var buildEmulated = sync.OnceValue(func() error {
	return gpu.Compile(context.Background(), scratch, gpu.CompileOptions{Kinds: []gpu.Kind{gpu.Emulated}, Programs: gpu.Programs, Environment: []string{"SANITIZE=" + sanitizers}})
})

func needCompiler(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("needs g++")
	}
}

// ended is how a program ended.
type ended struct {
	code           int
	stdout, stderr []byte
}

func run(t *testing.T, binary string, environment []string, args ...string) ended {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = append(os.Environ(), environment...)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return ended{cmd.ProcessState.ExitCode(), stdout.Bytes(), stderr.Bytes()}
}

// emulated runs a program on the CPU.
func emulated(t *testing.T, program string, environment []string, args ...string) ended {
	t.Helper()
	needCompiler(t)
	if err := buildEmulated(); err != nil {
		t.Fatal(err)
	}
	return run(t, gpu.Binary(scratch, gpu.Emulated, program), environment, args...)
}

// result runs a program on the CPU, and wants a result that is right.
func result(t *testing.T, program string, environment []string, o gpu.Options) gpu.Result {
	t.Helper()
	o.Check = true
	e := emulated(t, program, environment, o.Arguments()...)
	r, err := gpu.Read(program, e.code, e.stdout, e.stderr)
	if err != nil {
		t.Fatalf("%v %s %q: %v\n%.2000s", environment, program, o.Arguments(), err, e.stderr)
	}
	if !r.Emulated || !r.Check.Valid {
		t.Errorf("%s: emulated %t, valid %t", program, r.Emulated, r.Check.Valid)
	}
	return r
}

// orders are those in which threads and streams take their turns.
var orders = []string{"ascending", "descending", "shuffled"}

// forOrders runs a program once in each order, or in one where it is one that is slow.
func forOrders(t *testing.T, program string, o gpu.Options, orders []string, test func(*testing.T, gpu.Result)) {
	t.Helper()
	for _, order := range orders {
		t.Run(fmt.Sprintf("%s/%s", strings.Join(o.Arguments(), ""), order), func(t *testing.T) {
			t.Parallel()
			test(t, result(t, program, []string{"EMULATE_ORDER=" + order}, o))
		})
	}
}

func TestLU(t *testing.T) {
	for _, c := range []struct {
		n      int64
		orders []string
	}{
		// Around a strip of 32 columns and a panel of 128, with and without a row's filling up;
		// 161 has two panels, of which one is factored beside an update.
		{1, orders[:1]}, {2, orders[1:2]}, {31, orders[2:]}, {32, orders[:1]}, {33, orders}, {65, orders[1:2]}, {128, orders[:1]}, {161, orders[1:]},
	} {
		forOrders(t, gpu.LU, gpu.Options{Size: []int64{c.n}, Iterations: 1, Warmup: new(int)}, c.orders, func(t *testing.T, r gpu.Result) {
			// A step with r rows left below the pivot divides r times, and multiplies and
			// subtracts r times r.
			var flops float64
			for rest := float64(c.n - 1); rest > 0; rest-- {
				flops += rest + 2*rest*rest
			}
			if r.Kernels.Flops != flops {
				t.Errorf("%g operations, a factoring has %g", r.Kernels.Flops, flops)
			}
		})
	}
}

func TestStencil(t *testing.T) {
	for _, size := range [][]int64{{3}, {4, 5, 6}, {33, 34, 35}, {65, 3, 9}, {3, 70, 4}, {32, 34, 40}} {
		o := gpu.Options{Size: size, Iterations: 3, Memory: "pinned"}
		forOrders(t, gpu.Stencil, o, orders[len(size)/2:], func(t *testing.T, r gpu.Result) {
			edge := func(i int) float64 { return float64(size[i%len(size)]) }
			inner := (edge(0) - 2) * (edge(1) - 2) * (edge(2) - 2)
			if r.Kernels.Flops != 3*8*inner || r.Kernels.Bytes != 3*4*(edge(0)*edge(1)*edge(2)+inner) {
				t.Errorf("%g operations and %g bytes for %g inner points", r.Kernels.Flops, r.Kernels.Bytes, inner)
			}
			if r.Parameters.Memory != "pinned" || !slices.Equal(r.Parameters.Size, size) {
				t.Errorf("parameters are %+v", r.Parameters)
			}
		})
	}
}

func TestParticleFilter(t *testing.T) {
	for i, c := range []struct {
		n      int64
		frames int
	}{
		{1, 3}, {31, 3}, {200, 8}, {1024, 3}, {1025, 3}, {4000, 3}, {200, 8},
		{66000, 1}, // more tiles than one round of their prefix sum has
	} {
		o := gpu.Options{Size: []int64{c.n}, Iterations: c.frames, Warmup: new(int), EachKernel: c.n < 4000}
		forOrders(t, gpu.ParticleFilter, o, orders[i%3:i%3+1], func(t *testing.T, r gpu.Result) {
			if *r.Check.MaxError != 0 {
				t.Errorf("off by %g", *r.Check.MaxError)
			}
			// The filter's own purpose: it knows where the disk is.
			if off := r.Figures["track_error_pixels"]; c.n == 4000 && !(off < 1.5) {
				t.Errorf("it loses the disk by %g pixels", off)
			}
		})
	}
}

func TestLeNet(t *testing.T) {
	const forward, backward = 833040, 1430880
	for _, c := range []struct {
		task   string
		batch  int64
		flops  float64
		orders []string
	}{
		{"training", 3, forward + backward, orders[1:2]},
		{"inference", 65, forward, orders[2:]}, // more than a tile of the full layers
	} {
		o := gpu.Options{Size: []int64{c.batch}, Iterations: 1, Warmup: new(int), Task: c.task}
		forOrders(t, gpu.LeNet, o, c.orders, func(t *testing.T, r gpu.Result) {
			if want := c.flops * float64(c.batch); r.Kernels.Flops != want {
				t.Errorf("%g operations, want %g", r.Kernels.Flops, want)
			}
			// Before it has learned, it knows as much as chance does.
			if loss := r.Figures["loss_first"]; math.Abs(loss-math.Log(10)) > 0.7 {
				t.Errorf("the first loss is %g, chance has %g", loss, math.Log(10))
			}
		})
	}
}

// The reference's gradient is that of its loss, and steps against it lower the loss.
func TestLeNetReference(t *testing.T) {
	t.Parallel()
	needCompiler(t)
	binary := filepath.Join(t.TempDir(), "gradient")
	if out, err := exec.CommandContext(t.Context(), "g++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-DEMULATE", "-o", binary, "emulate/gradient.cpp").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	e := run(t, binary, nil)
	var off, first, last float64
	if _, err := fmt.Sscan(string(e.stdout), &off, &first, &last); err != nil || e.code != 0 {
		t.Fatalf("%q, status %d: %v", e.stdout, e.code, err)
	}
	if !(off < 1e-6) {
		t.Errorf("the gradient is off by %g of its largest", off)
	}
	if !(last < 0.8*first) {
		t.Errorf("training brings the loss from %g to %g", first, last)
	}
}

func TestDeviceLimits(t *testing.T) {
	for _, n := range []int64{1, 4095, 10007} {
		forOrders(t, gpu.DeviceLimits, gpu.Options{Size: []int64{n}, Iterations: 2}, orders[:1], func(t *testing.T, r gpu.Result) {
			if _, err := gpu.LimitsOf(r); err != nil {
				t.Error(err)
			}
		})
	}
}

// A seed gives the same again, to the last bit; without one each run has its own.
func TestSeed(t *testing.T) {
	t.Parallel()
	seed := uint64(1<<53 - 1)
	o := gpu.Options{Size: []int64{1}, Iterations: 1, Warmup: new(int), Task: "inference", Seed: &seed}
	first, again := result(t, gpu.LeNet, nil, o), result(t, gpu.LeNet, []string{"EMULATE_ORDER=descending"}, o)
	if first.Parameters.Seed != seed || !maps.Equal(first.Figures, again.Figures) {
		t.Errorf("seed %d gives %v, and then %v", first.Parameters.Seed, first.Figures, again.Figures)
	}
	o = gpu.Options{Size: []int64{1}, Iterations: 1}
	if one, other := result(t, gpu.LU, nil, o), result(t, gpu.LU, nil, o); one.Parameters.Seed == other.Parameters.Seed {
		t.Errorf("two runs draw the seed %d", one.Parameters.Seed)
	}
}

// Sizes that nobody chose.
func TestAnySize(t *testing.T) {
	edge := func(most int64) int64 { return 1 + rand.Int64N(most) }
	for program, o := range map[string]gpu.Options{
		gpu.LU:             {Size: []int64{edge(70)}},
		gpu.ParticleFilter: {Size: []int64{edge(3000)}},
		gpu.Stencil:        {Size: []int64{2 + edge(70), 2 + edge(40), 2 + edge(40)}},
		gpu.LeNet:          {Size: []int64{edge(12)}, Task: "inference"},
		gpu.DeviceLimits:   {Size: []int64{edge(20000)}},
	} {
		o.Iterations, o.Warmup, o.Memory = 2, new(int), "pinned"
		forOrders(t, program, o, orders[1:2], func(t *testing.T, r gpu.Result) {
			if len(r.Kernels.Iterations) != 2 {
				t.Errorf("iterations took %v", r.Kernels.Iterations)
			}
		})
	}
}

// A result with one wrong number is found wrong, and given with its failure.
func TestWrongResult(t *testing.T) {
	for _, c := range []struct {
		program string
		spoil   int // which copy from the device
		o       gpu.Options
	}{
		{gpu.LU, 1, gpu.Options{Size: []int64{20}}},
		{gpu.LU, 2, gpu.Options{Size: []int64{20}}},
		{gpu.Stencil, 1, gpu.Options{Size: []int64{7}}},
		{gpu.Stencil, 3, gpu.Options{Size: []int64{7}}},
		{gpu.ParticleFilter, 1, gpu.Options{Size: []int64{100}}},
		{gpu.ParticleFilter, 3, gpu.Options{Size: []int64{100}}},
		{gpu.LeNet, 5, gpu.Options{Size: []int64{2}, Task: "inference"}},
		{gpu.LeNet, 6, gpu.Options{Size: []int64{1}, Task: "inference"}}, // the loss
		{gpu.LeNet, 8, gpu.Options{Size: []int64{1}, Task: "training"}},  // the gradient
		{gpu.LeNet, 9, gpu.Options{Size: []int64{1}, Task: "training"}},  // the step
		{gpu.DeviceLimits, 1, gpu.Options{Size: []int64{100}}},
		{gpu.DeviceLimits, 2, gpu.Options{Size: []int64{100}}},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.program, c.spoil), func(t *testing.T) {
			t.Parallel()
			c.o.Check, c.o.Iterations, c.o.Warmup = true, 1, new(int)
			e := emulated(t, c.program, []string{"EMULATE_SPOIL=" + strconv.Itoa(c.spoil)}, c.o.Arguments()...)
			r, err := gpu.Read(c.program, e.code, e.stdout, e.stderr)
			var failure *gpu.Failure
			if !errors.As(err, &failure) || failure.Cause.Name != "wrong" {
				t.Fatalf("ended with %v", err)
			}
			if r.Check == nil || r.Check.Valid {
				t.Errorf("the check says %+v", r.Check)
			}
		})
	}
}

// Each cause has its exit status, and one line that says what, where, and what to do.
func TestCauses(t *testing.T) {
	small := []string{"--size", "20", "--iterations", "1"}
	for _, c := range []struct {
		cause       string
		environment []string
		args        []string
		says        string
	}{
		{"no-driver", []string{"EMULATE_FAIL=cudaGetDeviceCount:35", "EMULATE_DRIVER=0"}, small, "libcuda.so.1"},
		{"old-driver", []string{"EMULATE_FAIL=cudaGetDeviceCount:35", "EMULATE_DRIVER=11040"}, small, "CUDA 11.4, the program needs 13.0"},
		{"old-driver", []string{"EMULATE_FAIL=cudaGetDeviceCount:803"}, small, "kernel module"},
		{"no-device", []string{"EMULATE_FAIL=cudaGetDeviceCount:100"}, small, "CUDA_VISIBLE_DEVICES"},
		{"no-device", nil, append(small, "--device", "3"), "no device 3"},
		{"no-code", []string{"EMULATE_FAIL=cudaFuncGetAttributes:209"}, small, "compute capability"},
		{"new-ptx", []string{"EMULATE_FAIL=cudaFuncGetAttributes:222:2"}, small, "CUDA 13.0"},
		{"no-jit", []string{"EMULATE_FAIL=cudaFuncGetAttributes:221"}, small, "libnvidia-ptxjitcompiler.so.1"},
		{"no-jit", []string{"EMULATE_FAIL=cudaFuncGetAttributes:223"}, small, "CUDA_DISABLE_PTX_JIT"},
		{"device-memory", []string{"EMULATE_MEMORY=100000"}, []string{"--size", "300"}, "allocate 0.4 MiB for the matrix"},
		{"mig-memory", []string{"EMULATE_MEMORY=100000", "EMULATE_NAME=A card MIG 1g.5gb"}, []string{"--size", "300"}, "larger instance"},
		{"busy", []string{"EMULATE_FAIL=cudaFree:46"}, small, "compute mode"},
		{"busy", []string{"EMULATE_FAIL=cudaSetDevice:805"}, small, "server"},
		{"not-ready", []string{"EMULATE_FAIL=cudaGetDeviceCount:802"}, small, "/dev/nvidia"},
		{"device-fault", []string{"EMULATE_FAIL=launch:700:9"}, small, "Xid"},
		{"device-fault", []string{"EMULATE_FAIL=cudaStreamSynchronize:719:2"}, small, "Xid"},
		{"host-memory", []string{"EMULATE_FAIL=cudaHostAlloc:2"}, append(small, "--memory", "pinned"), "--memory pageable"},
		{"not-ready", []string{"EMULATE_FAIL=cudaGetDeviceCount:999"}, small, "/dev/nvidia-uvm"},
		{"device-memory", []string{"EMULATE_FAIL=cudaMalloc:2"}, small, "are free"},
		{"failed", []string{"EMULATE_FAIL=cudaStreamCreateWithFlags:999"}, small, "error 999"},
		{"usage", nil, []string{"--size", "0"}, "1 to 65536"},
		{"usage", nil, []string{"--size", "4x4x4"}, "one number"},
		{"usage", nil, []string{"--size", "9e9"}, "1 to 65536"},
		{"usage", nil, []string{"--iterations", "100001"}, "100000"},
		{"usage", nil, []string{"--seed", "-1"}, "9007199254740991"},
		{"usage", nil, []string{"--memory", "managed"}, "pageable or pinned"},
		{"usage", nil, []string{"--task", "training"}, "--help"},
		{"usage", nil, []string{"--fast"}, "no such flag"},
		{"usage", nil, []string{"--size"}, "needs a value"},
		{"usage", nil, []string{"all"}, "no such argument"},
	} {
		t.Run(c.cause, func(t *testing.T) {
			t.Parallel()
			e := emulated(t, gpu.LU, append(c.environment, "ASAN_OPTIONS=detect_leaks=0"), c.args...)
			_, err := gpu.Read(gpu.LU, e.code, e.stdout, e.stderr)
			var failure *gpu.Failure
			if !errors.As(err, &failure) || failure.Cause.Name != c.cause {
				t.Fatalf("%v %q: status %d, %v; want %s", c.environment, c.args, e.code, err, c.cause)
			}
			// A sanitizer may have a line before it, of what it thinks of coroutines.
			lines := strings.Split(strings.TrimSpace(string(e.stderr)), "\n")
			lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "WARNING: ASan") })
			if len(lines) != 1 || !strings.Contains(lines[0], c.says) || len(e.stdout) > 0 {
				t.Errorf("it says %q, want one line with %q; and prints %q", lines, c.says, e.stdout)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for _, program := range gpu.Programs {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			e := emulated(t, program, nil, "--help")
			text := string(e.stdout)
			if e.code != 0 || len(e.stderr) > 0 || !strings.HasPrefix(text, "usage: "+program+" ") {
				t.Fatalf("status %d: %s%s", e.code, text, e.stderr)
			}
			for _, c := range gpu.Causes {
				if !regexp.MustCompile(fmt.Sprintf(`\b%d [a-zA-Z]`, c.Code)).MatchString(text) {
					t.Errorf("status %d is not among those explained", c.Code)
				}
			}
			example := regexp.MustCompile(`(?m)^Example: (\S+) (.*)$`).FindStringSubmatch(text)
			if example == nil || example[1] != program {
				t.Fatalf("the example is %q", example)
			}
			// It is taken, whatever it would take: of a device that is not there.
			args := append(strings.Fields(example[2]), "--device", "9")
			if e := emulated(t, program, nil, args...); e.code != 12 {
				t.Errorf("%q ends with status %d: %s", args, e.code, e.stderr)
			}
		})
	}
}

// The programs' table of causes is that of this package.
func TestCausesAreThePrograms(t *testing.T) {
	text, err := gpu.Sources.ReadFile("cuda/failure.h")
	if err != nil {
		t.Fatal(err)
	}
	theirs := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^\t([a-z_]+) = (\d+), `).FindAllStringSubmatch(string(text), -1) {
		code, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		theirs[strings.ReplaceAll(m[1], "_", "-")] = code
	}
	ours := map[string]int{}
	for _, c := range gpu.Causes {
		ours[c.Name] = c.Code
	}
	if !maps.Equal(theirs, ours) {
		t.Errorf("the programs have %v, the package %v", theirs, ours)
	}
}

// The emulation finds the faults that it is there for.
func TestEmulationFindsFaults(t *testing.T) {
	t.Parallel()
	needCompiler(t)
	binary := filepath.Join(t.TempDir(), "faults")
	if out, err := exec.CommandContext(t.Context(), "g++", "-std=c++17", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address", "-DSANITIZED", "-DEMULATE",
		"-o", binary, "emulate/faults.cpp", "emulate/emulate.cpp").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const emulation, sanitizer = 99, 1
	for _, c := range []struct {
		name string
		code int
		says string
	}{
		{"sound", 0, "right"},
		{"half-at-barrier", emulation, "32 wait (32 at faults.cpp:"},
		{"left-before-barrier", emulation, "a barrier that not all threads reach: of 64 threads 63 wait"},
		{"two-barriers", emulation, "barriers at different lines"},
		{"half-of-warp", emulation, "have left"},
		{"two-exchanges", emulation, "exchanges of a warp at different lines"},
		{"exchange-and-barrier", emulation, "a warp's exchange that not all of its lanes reach"},
		{"part-of-mask", emulation, "0xffff"},
		{"no-whole-warp", emulation, "no whole warps"},
		{"much-shared", emulation, "51200 bytes of shared memory"},
		{"many-threads", 0, "refused"},
		{"beyond-shared", sanitizer, "heap-buffer-overflow"},
		{"beyond-global", sanitizer, "heap-buffer-overflow"},
		{"never-written", 0, "right"},
		{"no-barrier", 0, "wrong"},
		{"not-freed", emulation, "1 allocations"},
		{"event", 0, "right"},
	} {
		for _, order := range orders {
			e := run(t, binary, []string{"EMULATE_ORDER=" + order}, c.name)
			if all := string(e.stdout) + string(e.stderr); e.code != c.code || !strings.Contains(all, c.says) {
				t.Errorf("%s, %s: status %d, want %d and %q: %.500s", c.name, order, e.code, c.code, c.says, all)
			}
		}
	}
	// A dependency that no event tells is kept in one order by chance, and not in the other.
	found := map[string]bool{}
	for _, order := range orders {
		e := run(t, binary, []string{"EMULATE_ORDER=" + order}, "no-event")
		word, _, _ := strings.Cut(strings.TrimSpace(string(e.stdout)), ":")
		found[word] = true
	}
	if !found["wrong"] {
		t.Errorf("without its event a dependency is kept in every order: %v", found)
	}
}
