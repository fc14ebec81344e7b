package workload

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/image"
	"tare/kernel/mount"
)

// What the programs printed on two ranks, and what they were asked for.
var exchanges = []struct {
	workload Workload
	params   []string
	output   string
}{
	{mpiSearch{}, []string{"processes", "2", "rounds", "20000", "seed", "4242"}, "mpi-search.json"},
	{mpiPrimes{}, []string{"processes", "2", "rounds", "5000", "limit", "128", "library", "mpich"}, "mpi-primes.json"},
}

func TestExchangeDrive(t *testing.T) {
	for _, c := range exchanges {
		tr := &trial{params: resolve(t, c.workload, c.params...), stdout: string(recorded(t, c.output)), exit: Exit{Elapsed: time.Second, CPU: 2 * time.Second}}
		if err := c.workload.Drive(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		checkRecorded(t, c.workload, tr)
		if share := tr.records["communication"][0]; share < 0.5 || share > 1 {
			t.Errorf("%s: %g of the time in calls: it is to communicate more than it computes", c.workload.Name(), share)
		}
		if tr.records["ranks"][0] != 2 || tr.records["wall"][0] != 1 || tr.records["cpu"][0] != 2 {
			t.Errorf("%s: recorded %v", c.workload.Name(), tr.records)
		}
		tr = &trial{params: tr.params, exit: Exit{Code: 1}, stderr: "the figures are not valid"}
		refusedAs[*Ended](t, c.workload.Drive(t.Context(), tr), "not valid")
	}
}

func TestExchangeOutputRefused(t *testing.T) {
	for _, c := range exchanges {
		good := string(recorded(t, c.output))
		for _, wrong := range []struct{ from, to, want string }{
			{good, "", "(empty)"},
			{good, good + good, "JSON"},
			{`"valid":true`, `"valid":false`, "not valid"},
			{`"valid":true`, `"v":true`, "not valid"},
			{`"program":"`, `"program":"no-`, "of program"},
			{`"rounds":`, `"rounds":1`, "rounds"},
			{`"ranks":2`, `"ranks":3`, "3 ranks"},
			{`"seconds":[`, `"seconds":[1,`, "times of 3"},
			{`"seconds":[`, `"seconds":[-`, "cannot be"},
			{`"call_seconds":[`, `"call_seconds":[9`, "in calls"},
			{`"library":"`, `"library":"Intel `, "calls itself"},
			{`"hits":`, `"hits":1`, "were planted"},
			{`"checksum":10`, `"checksum":11`, "were planted"},
			{`"seed":4242`, `"seed":4243`, "seed 4242"},
			{`"elements":256`, `"elements":257`, "257 elements"},
			{`"primes":[0,1,2,4,6,`, `"primes":[0,1,2,4,7,`, "are right"},
			{`"limit":128`, `"limit":127`, "a limit of 127"},
		} {
			if !strings.Contains(good, wrong.from) {
				continue // the other program's
			}
			tr := &trial{params: resolve(t, c.workload, c.params...), stdout: strings.Replace(good, wrong.from, wrong.to, 1)}
			if err := c.workload.Drive(t.Context(), tr); err == nil || !strings.Contains(err.Error(), wrong.want) {
				t.Errorf("%s: %s for %s: error %v, want one about %q", c.workload.Name(), wrong.to, wrong.from, err, wrong.want)
			}
			if len(tr.records) != 0 {
				t.Errorf("%s: recorded %v", c.workload.Name(), tr.records)
			}
		}
	}
}

func FuzzParseExchange(f *testing.F) {
	for _, c := range exchanges {
		f.Add(recorded(f, c.output))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		for _, c := range exchanges {
			p := resolve(t, c.workload, c.params...)
			e, err := planOf[searchPlan](p)
			if err != nil {
				t.Fatal(err)
			}
			o, err := e.read(line, c.workload.Name())
			if err != nil {
				continue
			}
			if share := o.communication(); !(share >= 0 && share <= 1+1e-5) || o.Ranks != 2 || !(o.Seconds[0] > 0) {
				t.Errorf("accepted %+v, of it %g in calls", o, share)
			}
			// Whatever the rest is, no check may fail otherwise than by its error.
			_ = searchPlan{exchange: exchange{rounds: 3}, elements: 4, seed: -1}.check(line)
			_ = primesPlan{limit: 16}.check(line)
		}
	})
}

// searchEach finds what is planted by looking for it, as whoever knows nothing of the
// program's ways would: all rounds' arrays are made, and gone through.
func searchEach(seed uint64, elements, rounds int64) (hits int64, sum uint64) {
	fold := foldStart
	for round := range rounds {
		wanted, places := planting(seed, elements, round)
		array := make([]int32, elements)
		for _, at := range places {
			array[at] = wanted
		}
		first, found := int64(math.MaxInt64), int64(0)
		for at := elements - 1; at >= 0; at-- {
			if array[at] == wanted {
				found++
				first = at
			}
		}
		hits += found
		fold.fold(uint64(found))
		fold.fold(uint64(first))
	}
	return hits, uint64(fold)
}

func TestPlantedIsWhatASearchFinds(t *testing.T) {
	for seed := range uint64(20) {
		elements := 1 + int64(seed)%7 // so few that places are drawn twice
		hits, sum := plantedBy(seed, elements, 300)
		if wantHits, wantSum := searchEach(seed, elements, 300); hits != wantHits || sum != wantSum {
			t.Errorf("seed %d: %d hits with %d, a search finds %d with %d", seed, hits, sum, wantHits, wantSum)
		}
		if hits == 0 {
			t.Errorf("seed %d: nothing is planted in 300 rounds", seed)
		}
	}
}

// OEIS A007053: the number of primes up to 2^n.
func TestPrimesUpTo(t *testing.T) {
	want := []int64{0, 1, 2, 4, 6, 11, 18, 31, 54, 97, 172, 309, 564, 1028, 1900, 3512, 6542, 12251}
	if got := primesUpTo(1<<17 + 1000); !slices.Equal(got, want) {
		t.Errorf("got  %d\nwant %d", got, want)
	}
	if got := primesUpTo(1); !slices.Equal(got, want[:1]) {
		t.Errorf("up to 1: %d", got)
	}
}

func TestExchangeProgram(t *testing.T) {
	for _, w := range []Workload{mpiSearch{}, mpiPrimes{}} {
		for _, l := range []mpiLibrary{openMPI, mpich} {
			program, err := w.Program(resolve(t, w, "library", l.name, "rounds", "77"))
			if err != nil {
				t.Fatal(err)
			}
			line := strings.Join(program.Args, " ")
			for _, want := range []string{image.GrantedProgram + " " + l.launcher[0] + " ", " -n {} /usr/bin/" + w.Name() + "." + l.name + " ", " --rounds 77"} {
				if !strings.Contains(line, want) {
					t.Errorf("%q lacks %q", line, want)
				}
			}
			for _, want := range []string{image.GrantedProgram, l.launcher[0], "/usr/bin/" + w.Name() + "." + l.name} {
				if !slices.Contains(program.Needs, want) {
					t.Errorf("it is said to need %q, without %s", program.Needs, want)
				}
			}
			program, err = w.Program(resolve(t, w, "library", l.name, "processes", "8"))
			if err != nil {
				t.Fatal(err)
			}
			if line := strings.Join(program.Args, " "); !strings.HasPrefix(line, l.launcher[0]+" ") || !strings.Contains(line, " -n 8 /usr/bin/") {
				t.Errorf("8 processes are started by %q", line)
			}
		}
		for name, value := range map[string]string{"processes": "1025", "rounds": "0", "library": "lam", "elements": "0", "seed": "-1", "limit": "33554432"} {
			if _, taken := (Subject{Workload: w}).With(name, value); taken {
				_, err := Resolve(w, map[string]string{name: value})
				refusedAs[*WrongValue](t, err, name+"="+value)
			}
		}
	}
}

// mpiRoot is a copy of the image's root that a launcher may write to, with what MPI
// looks for in one: processes and the machine's topology.
func mpiRoot(t *testing.T) (img image.Image) {
	t.Helper()
	img = realImage(t, "mpi")
	root := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", img.Root+"/.", root).CombinedOutput(); err != nil {
		t.Fatalf("copy the root: %v: %s", err, out)
	}
	for _, kind := range []string{"proc", "sysfs"} {
		at := filepath.Join(root, strings.TrimSuffix(kind, "fs"))
		if err := mount.New(kind, at, mount.Options{ReadOnly: true}); err != nil {
			t.Skipf("needs to mount %s: %v", kind, err)
		}
		t.Cleanup(func() {
			if err := mount.Unmount(at); err != nil {
				t.Error(err)
			}
		})
	}
	img.Root = root
	return img
}

// runMPI runs a workload's program to its end.
func runMPI(t *testing.T, w Workload, p Params, img image.Image) *trial {
	t.Helper()
	program, err := w.Program(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program.Args[0], program.Args[1:]...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, program.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: img.Root}
	return finished(t, p, cmd)
}

// Both programs with either library, on so many ranks as there are CPUs and on more:
// their results are right, and no library has left anything behind.
func TestRealExchanges(t *testing.T) {
	img := mpiRoot(t)
	for _, w := range []Workload{mpiSearch{}, mpiPrimes{}} {
		for _, l := range []mpiLibrary{openMPI, mpich} {
			for _, processes := range []string{auto, "1", "3"} {
				p := resolve(t, w, "library", l.name, "rounds", "200", "processes", processes)
				tr := runMPI(t, w, p, img)
				if err := w.Drive(t.Context(), tr); err != nil {
					t.Errorf("%s on %s, %s processes: %v", w.Name(), l.name, processes, err)
					continue
				}
				checkRecorded(t, w, tr)
				if processes == "3" && tr.records["ranks"][0] != 3 {
					t.Errorf("%s on %s: %v ranks, want 3", w.Name(), l.name, tr.records["ranks"])
				}
			}
		}
	}
	left, err := os.ReadDir(filepath.Join(img.Root, "tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("left in /tmp: %v, %v", left, err)
	}
}

// The search's own seed is another each time, and what it says it found follows from it.
func TestRealSearchDraws(t *testing.T) {
	img := mpiRoot(t)
	seeds := map[uint64]bool{}
	for range 3 {
		tr := runMPI(t, mpiSearch{}, resolve(t, mpiSearch{}, "rounds", "50", "elements", "9", "processes", "2"), img)
		var o searched
		if err := json.Unmarshal([]byte(tr.stdout), &o); err != nil || o.Seed == nil {
			t.Fatalf("%v, %s %s", err, tr.stdout, tr.stderr)
		}
		seeds[*o.Seed] = true
		if hits, sum := searchEach(*o.Seed, 9, 50); o.Hits != hits || o.Checksum != sum {
			t.Errorf("seed %d: %d hits with %d, a search finds %d with %d", *o.Seed, o.Hits, o.Checksum, hits, sum)
		}
	}
	if len(seeds) != 3 {
		t.Errorf("%d seeds of 3 trials", len(seeds))
	}
}

// What is computed grows with the limit, and what is exchanged hardly does: the share of
// the calls falls.
func TestRealLimitDecidesWhatIsComputed(t *testing.T) {
	img := mpiRoot(t)
	share := func(limit string) float64 {
		tr := runMPI(t, mpiPrimes{}, resolve(t, mpiPrimes{}, "rounds", "20", "limit", limit, "processes", "1"), img)
		if err := (mpiPrimes{}).Drive(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		return tr.records["communication"][0]
	}
	if low, high := share("8"), share("8192"); low <= high {
		t.Errorf("of the time %g are in calls up to 8, %g up to 8192", low, high)
	}
}
