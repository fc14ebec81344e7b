package diagnose

import (
	"archive/tar"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"tare/container"
	"tare/kernel/cgroup"
	"tare/kernel/clock"
	"tare/kernel/process"
	"tare/probe"
)

// What the containers' image holds: in each layer a directory of its own with one file, and in the
// last the files to be copied up. The volume has directories of the same names.
const (
	layersEach    = 40
	copiedFiles   = 120
	copiedBytes   = 2 << 20
	volume        = "/volume"
	measured      = volume + "/measured" // what a program measures of itself
	kernelProgram = "/program"
)

// programs are those that run in containers. Each writes what it has done so far.
var programs = map[string]func(){"makes": makesFiles, "opens": opensFiles, "copies": copiesUp, "calls": callsKernel, "serve": serve,
	"floods": floods, "echoes": echoes, "reads": readsPages}

// makesFiles makes those that are to be copied up.
func makesFiles() {
	content := []byte(strings.Repeat("x", copiedBytes))
	for i := range copiedFiles {
		err := errors.Join(os.MkdirAll("/large", 0o755), os.WriteFile(fmt.Sprintf("/large/%d", i), content, 0o600))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	os.Exit(0)
}

// paced does work again and again, for half of the time, and writes down after each what it
// returns: the number of operations, and the time that they took.
func paced(work func(n int) (count int, took time.Duration)) {
	runtime.LockOSThread() // its own clock is the thread's
	began := time.Now()
	var count int
	var took time.Duration
	for n := 0; ; n++ {
		if n < 3 { // caches fill
			_, _ = work(n)
			began = time.Now()
			continue
		}
		working := time.Now()
		c, t := work(n)
		count, took = count+c, took+t
		line := fmt.Sprintln(time.Since(began).Nanoseconds(), count, took.Nanoseconds())
		if err := os.WriteFile(measured+".new", []byte(line), 0o600); err == nil {
			_ = os.Rename(measured+".new", measured)
		}
		time.Sleep(time.Since(working))
	}
}

// opensFiles opens files of the layers, and a few of the volume, by names of as many elements. What it
// took is how much longer the layers' took.
func opensFiles() {
	const each = 10
	open := func(root string, n int) time.Duration {
		began := clock.Thread()
		for i := range n {
			if f, err := os.Open(fmt.Sprintf("%s/%d/file", root, i%layersEach)); err == nil {
				_ = f.Close()
			}
		}
		return clock.Thread() - began
	}
	paced(func(int) (int, time.Duration) {
		inLayers := open("/data", each*9*layersEach)
		return each * 9 * layersEach, inLayers - 9*open(volume, each*layersEach)
	})
}

// copiesUp opens one file of the image after the other for writing.
func copiesUp() {
	paced(func(n int) (int, time.Duration) {
		if n == copiedFiles {
			select {} // nothing is left to be copied
		}
		began := time.Now()
		f, err := os.OpenFile(fmt.Sprintf("/large/%d", n), os.O_WRONLY, 0)
		took := time.Since(began)
		if err == nil {
			_ = f.Close()
		}
		time.Sleep(100 * ms)
		return 1, took
	})
}

// callsKernel makes system calls of which a filter looks at the argument.
func callsKernel() {
	paced(func(int) (int, time.Duration) {
		const each = 100_000
		began := clock.Thread()
		for range each {
			_ = process.SetASLR("on") // two calls
		}
		return each, clock.Thread() - began
	})
}

// manyLayers makes an image that has this program and the files.
func manyLayers(t *testing.T, tagged string) string {
	t.Helper()
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Skip("needs a static test: CGO_ENABLED=0")
	}
	img := empty.Image
	var diffs []v1.Hash
	add := func(files map[string][]byte) {
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			var b strings.Builder
			w := tar.NewWriter(&b)
			var err error
			for name, content := range files {
				err = errors.Join(err, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}))
				_, wrote := w.Write(content)
				err = errors.Join(err, wrote)
			}
			err = errors.Join(err, w.Close())
			return io.NopCloser(strings.NewReader(b.String())), err
		})
		if err != nil {
			t.Fatal(err)
		}
		diff, err := layer.DiffID()
		if err != nil {
			t.Fatal(err)
		}
		diffs = append(diffs, diff)
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			t.Fatal(err)
		}
	}
	add(map[string][]byte{strings.TrimPrefix(kernelProgram, "/"): program})
	for i := range layersEach {
		add(map[string][]byte{fmt.Sprintf("data/%d/file", i): []byte("x")})
	}
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, RootFS: v1.RootFS{Type: "layers", DiffIDs: diffs},
	})
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(tagged)
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := tarball.WriteToFile(archive, tag, img); err != nil {
		t.Fatal(err)
	}
	return archive
}

// docker runs its command line.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// parentGroup makes a group for the containers that goes before what else this host may be doing, and
// gives the options that put them there.
func parentGroup(t *testing.T) []string {
	if docker(t, "info", "--format", "{{.CgroupDriver}}") != "cgroupfs" {
		return nil // systemd has its own way
	}
	layout, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	name := fmt.Sprintf("/tare-diagnose-in-%d", os.Getpid())
	group := layout.At(name)
	t.Cleanup(func() { _ = group.Remove(context.WithoutCancel(t.Context())) })
	if err := errors.Join(group.Create("cpu", "cpuset", "memory"), group.Apply(cgroup.Limits{Shares: 16384})); err != nil {
		t.Skip(err)
	}
	return []string{"--cgroup-parent", name}
}

// measuredAt is what a program has written.
type measuredAt struct{ began, count, took int64 }

func readMeasured(dir string) (m measuredAt, ok bool) {
	text, err := os.ReadFile(dir + strings.TrimPrefix(measured, volume))
	if err != nil {
		return m, false
	}
	n, err := fmt.Sscan(string(text), &m.began, &m.count, &m.took)
	return m, n == 3 && err == nil
}

// Containers of an image of forty layers, whose programs measure themselves what they lose: opening
// files, copying large ones up, and making system calls with and without a filter.
func TestPlantedContainers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs requires root")
	}
	if err := exec.Command("docker", "version").Run(); err != nil {
		t.Skip("needs Docker's engine and command line:", err)
	}
	if driver := docker(t, "info", "--format", "{{.Driver}} {{.SecurityOptions}}"); !strings.HasPrefix(driver, "overlay2") ||
		!strings.Contains(driver, "seccomp") {
		t.Skipf("needs overlay2 and seccomp, the engine has %s", driver)
	}
	const span = 8 * time.Second
	prefix := fmt.Sprintf("tare-diagnose-%d-", os.Getpid())
	img := fmt.Sprintf("tare.local/diagnose:%d", os.Getpid())
	docker(t, "load", "--input", manyLayers(t, img))
	t.Cleanup(func() { docker(t, "rmi", "--force", img) })
	t.Cleanup(func() { _ = exec.Command("docker", "rm", "--force", prefix+"makes").Run() })
	docker(t, "run", "--name", prefix+"makes", "--env", programVariable+"=makes", img, kernelProgram)
	docker(t, "commit", prefix+"makes", img)
	parent := parentGroup(t)
	dirs := map[string]string{}
	planted := []struct {
		name, program string
		options       []string
	}{
		{"opens", "opens", []string{"--security-opt", "seccomp=unconfined"}},
		{"filtered", "calls", nil},
		{"unfiltered", "calls", []string{"--security-opt", "seccomp=unconfined"}},
		{"healthy", "10ms 100ms", nil},
		{"copies", "copies", []string{"--security-opt", "seccomp=unconfined"}}, // last: its files come to an end
	}
	var names []string
	for _, p := range planted {
		dir := t.TempDir()
		for i := range layersEach {
			in := fmt.Sprintf("%s/%d", dir, i)
			if err := errors.Join(os.MkdirAll(in, 0o755), os.WriteFile(in+"/file", []byte("x"), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		args := append([]string{
			"run", "--detach", "--name", prefix + p.name, "--volume", dir + ":" + volume,
			"--env", programVariable + "=" + p.program, "--env", "GOMAXPROCS=1", "--log-driver", "none",
		}, slices.Concat(parent, p.options)...)
		t.Cleanup(func() { _ = exec.Command("docker", "rm", "--force", prefix+p.name).Run() })
		docker(t, append(args, img, kernelProgram)...)
		dirs[p.name], names = dir, append(names, prefix+p.name)
	}
	for _, p := range planted {
		if programs[p.program] == nil {
			continue
		}

		for started := time.Now(); ; time.Sleep(10 * ms) {
			if _, ok := readMeasured(dirs[p.name]); ok {
				break
			}
			if time.Since(started) > time.Minute {
				t.Fatalf("%s does not begin: %s", p.name, docker(t, "ps", "--all"))
			}
		}
	}
	finder := container.Open(container.Options{})
	containers, err := finder.FindEach(t.Context(), names)
	if err != nil {
		t.Fatal(err)
	}
	before := map[string]measuredAt{}
	for name, dir := range dirs {
		before[name], _ = readMeasured(dir)
	}
	found, err := Run(t.Context(), containers, true, span)
	var missing *probe.Missing
	if errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	if found.Span > 4*span {
		t.Skipf("watching for %v took %v: the host is too busy", span, found.Span)
	}
	// rates are how much each program did a second, and how long that took.
	rates := func(name string) (perSecond, took float64) {
		now, ok := readMeasured(dirs[name])
		was := before[name]
		if !ok || now.count <= was.count {
			t.Skipf("%s measured nothing while it was watched: the host is too busy", name)
		}
		elapsed := float64(now.began-was.began) / 1e9
		return float64(now.count-was.count) / elapsed, float64(now.took-was.took) / 1e9 / elapsed
	}
	_, opening := rates("opens")
	_, copying := rates("copies")
	calls, with := rates("filtered")
	others, without := rates("unfiltered")
	for _, f := range found.Findings {
		t.Logf("%s, %s: %s (%.4f s/s, %v each)", f.ID, f.Level, f.Says, f.Cost.Rate, f.Cost.Each)
		for _, e := range f.Evidence {
			t.Logf("    %s: %s", e.Name, e.Value)
		}
	}
	for name, want := range map[string]struct {
		kind  Kind
		truth float64
	}{
		"opens": {Layers, opening}, "copies": {CopyUps, copying}, "filtered": {Seccomp, with - calls*without/others},
		"unfiltered": {}, "healthy": {},
	} {
		var kinds []Kind
		for _, f := range found.Findings {
			if f.Container != prefix+name || !slices.Contains([]Kind{Layers, CopyUps, Seccomp, Translation}, f.Kind) {
				continue // on a busy host they wait for a CPU
			}
			kinds = append(kinds, f.Kind)
			if got := f.Cost.Rate; f.Kind == want.kind && (got < want.truth*3/4 || got > want.truth*5/4) {
				t.Errorf("%s: %.4f s/s were found, and it lost %.4f", f.ID, got, want.truth)
			} else {
				t.Logf("%s: %.4f s/s by its own clock", f.ID, want.truth)
			}
		}
		if want.kind == "" && len(kinds) > 0 || want.kind != "" && !slices.Equal(kinds, []Kind{want.kind}) {
			t.Errorf("%s: found %v, want %q alone", name, kinds, want.kind)
		}
	}
}
