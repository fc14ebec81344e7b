package files

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/image"
	"tare/lab"
	"tare/lab/labtest"
	"tare/platform"
	"tare/workload"
)

// each runs a trial of every condition of a design.
func each(t *testing.T, on platform.Platform, metal *fakeEngine, d lab.Design, check func(c lab.Condition, b *labtest.Bench, err error)) {
	t.Helper()
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			b := labtest.NewBench(on)
			if c.Platform == bare {
				b.On = metal
			}
			b.Of = c.Condition
			check(c, b, c.Procedure(context.Background(), b))
		}
	}
}

func TestTrialsYieldTheirMetrics(t *testing.T) {
	on, metal := docker(), &fakeEngine{name: bare, play: plays}
	d, err := Design(options(on))
	if err != nil {
		t.Fatal(err)
	}
	each(t, on, metal, d, func(c lab.Condition, b *labtest.Bench, err error) {
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
			return
		}
		declared := map[string]bool{}
		for _, m := range c.Metrics {
			declared[m.Name] = true
			if m.Histogram != "" {
				if h := b.Histograms[m.Histogram]; h == nil || h.TotalCount() == 0 {
					t.Errorf("%s: %s has no histogram", c.ID, m.Name)
				}
			} else if len(b.Samples[m.Name]) != 1 {
				t.Errorf("%s: %s has the values %v", c.ID, m.Name, b.Samples[m.Name])
			}
		}
		for name := range b.Samples {
			if !declared[name] {
				t.Errorf("%s: %s was recorded and is no metric", c.ID, name)
			}
		}
		if b.Begun != b.Done || b.Begun == 0 || b.Checked != 1 {
			t.Errorf("%s: measuring %d times, measured %d, settings read back %d times", c.ID, b.Begun, b.Done, b.Checked)
		}
		switch c.Factors[factorExperiment] {
		case Write:
			if got := b.Samples[flushed][0]; math.Abs(got-2000) > 1e-6 {
				t.Errorf("%s: the mean over sizes is %g", c.ID, got)
			}
		case CopyUp:
			if got := b.Samples[firstOpen+"-64k"][0]; math.Abs(got-65536) > 1e-6 {
				t.Errorf("%s: files of 64 KB took %g", c.ID, got)
			}
		}
		if isFlat(c.Condition) != (len(b.Samples[flattening]) == 1) || isFlat(c.Condition) != (b.Covariates[bytesAfter] == 1000) {
			t.Errorf("%s: flattened in %v, to %g bytes", c.ID, b.Samples[flattening], b.Covariates[bytesAfter])
		}
	})
	if on.running != 0 || len(on.flattened) != 0 || metal.running != 0 {
		t.Errorf("left: %d containers, images %v", on.running+metal.running, on.flattened)
	}
	// A flattened image is what runs, and the storage lies behind what is measured.
	for _, spec := range on.specs {
		if spec.Args[0] != image.FilesProgram || len(spec.Data) != 1 {
			t.Errorf("launched %q over %q", spec.Args, spec.Data)
		}
	}
	if !slices.ContainsFunc(on.specs, func(s platform.Spec) bool { return strings.HasPrefix(s.Image.Reference, "flat-") }) {
		t.Error("no flattened image was launched")
	}
}

func TestWarmUpIsShort(t *testing.T) {
	on := docker()
	o := options(on)
	o.Experiments = []string{Write}
	d, err := Design(o)
	if err != nil {
		t.Fatal(err)
	}
	b := labtest.NewBench(on)
	b.Warm = true
	c := d.Groups[0].Conditions[0]
	b.Of = c.Condition
	if err := c.Procedure(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if args := on.specs[0].Args; !slices.Contains(args, fmt.Sprint(o.Writes/warmShare)) || slices.Contains(args, fmt.Sprint(o.Writes)) {
		t.Errorf("in the warm-up its arguments are %q", args)
	}
}

// A program that fails, or prints what it was not asked for, makes the trial not
// valid, and leaves nothing.
func TestTrialsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		play func([]string) (string, string, platform.Exit)
		says string
	}{
		"no room": {func([]string) (string, string, platform.Exit) {
			return `{"clock_ns":1,"series":[`, "warning\nfiles: write in /data: No space left on device\n", platform.Exit{Code: 1}
		}, "files: write in /data: No space left on device"},
		"no word":   {func([]string) (string, string, platform.Exit) { return "", "", platform.Exit{Code: 139} }, "status 139"},
		"no memory": {func([]string) (string, string, platform.Exit) { return "", "", platform.Exit{OOMKilled: true} }, "memory limit"},
		"no output": {func([]string) (string, string, platform.Exit) { return "", "", platform.Exit{} }, "output of files"},
		"another operation": {func([]string) (string, string, platform.Exit) {
			return plays([]string{"", "create", "--count", "3"})
		}, "the program"},
		"a file too few": {func(args []string) (string, string, platform.Exit) {
			if args[1] != "copyup" {
				args = []string{"", "create", "--count", "3"}
			} else {
				args = slices.Delete(slices.Clone(args), 3, 4)
			}
			return plays(args)
		}, "the program"},
	} {
		t.Run(name, func(t *testing.T) {
			on, metal := docker(), &fakeEngine{name: bare, play: c.play}
			d, err := Design(options(on))
			if err != nil {
				t.Fatal(err)
			}
			on.play = c.play
			each(t, on, metal, d, func(cond lab.Condition, b *labtest.Bench, err error) {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v, want %q", cond.ID, err, c.says)
				}
				for name := range b.Samples {
					if name != flattening && cond.Factors[factorExperiment] != CopyUp {
						t.Errorf("%s: %s was recorded", cond.ID, name)
					}
				}
			})
			if on.running != 0 || len(on.flattened) != 0 {
				t.Errorf("left: %d containers, images %v", on.running, on.flattened)
			}
		})
	}
}

func TestFlatteningThatFails(t *testing.T) {
	on := docker()
	o := options(on)
	o.Experiments = []string{Walk}
	d, err := Design(o)
	if err != nil {
		t.Fatal(err)
	}
	on.fakeEngine.flatten = errors.New("the engine's disk is full")
	for _, c := range d.Groups[0].Conditions {
		if !isFlat(c.Condition) {
			continue
		}
		b := labtest.NewBench(on)
		b.Of = c.Condition
		if err := c.Procedure(t.Context(), b); err == nil || !strings.Contains(err.Error(), "disk is full") {
			t.Errorf("%s: %v", c.ID, err)
		}
		b.On = on.fakeEngine // which has no layers
		if err := c.Procedure(t.Context(), b); !errors.Is(err, errNoLayers) {
			t.Errorf("%s without layers: %v", c.ID, err)
		}
	}
	if len(on.specs) > 0 {
		t.Errorf("%d containers were launched", len(on.specs))
	}
}

// The walk that the program is held to is the tree's.
func TestEntriesAreTheImages(t *testing.T) {
	args := (&builder{Options: Default()}).walking(1)(false)
	if i := slices.Index(args, "--entries"); i < 0 || args[i+1] != fmt.Sprint(image.FilesTreeFiles+image.FilesTreeDirectories) {
		t.Errorf("its arguments are %q", args)
	}
	if err := keepWalks(labtest.NewBench(nil), workload.FileTimes{Series: []workload.FileSeries{{Operation: "walk", Entries: 3}}}); err == nil {
		t.Error("a walk of another tree is kept")
	}
}

// An image of other layers than the condition's is refused.
func TestLayersAreCounted(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "archive.tar")
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	manifest := []byte(`[{"Layers":["a.tar","a.tar"]}]`)
	if err := w.WriteHeader(&tar.Header{Name: "manifest.json", Size: int64(len(manifest)), Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(manifest); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), os.WriteFile(archive, text.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	img := image.Image{Name: "x", Archive: archive}
	for want, ok := range map[int]bool{0: true, 2: true, 1: false, 8: false} {
		if err := inLayers(img, want); (err == nil) != ok {
			t.Errorf("two layers where %d are named: %v", want, err)
		}
	}
}
