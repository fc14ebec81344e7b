package gpu

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/image"
	"tare/kernel/accounting"
	"tare/lab"
	"tare/overhead"
	"tare/platform"
	programs "tare/programs/gpu"
	"tare/record"
	"tare/workload"
)

// emulatedRoot is a root with a program compiled for the CPU, which is how the study is
// run from end to end where there is no device.
func emulatedRoot(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("no g++ here, which compiles the CUDA programs for the CPU")
	}
	root := t.TempDir()
	err := programs.Compile(t.Context(), filepath.Join(root, "gpu"), programs.CompileOptions{Kinds: []programs.Kind{programs.Emulated}, Programs: []string{programs.Stencil}})
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// A whole run of a real program, of which the times mean nothing: recorded, interrupted,
// taken up again, shown, and given out as JSON.
func TestRunFromEndToEnd(t *testing.T) {
	h, platforms := fakeHost(t)
	h.Found = found()
	h.Found.Root, h.Found.Library, h.Found.NoProbe = emulatedRoot(t), "", "left out in a test"
	h.Found.Kinds, h.Found.Direct = []programs.Kind{programs.Emulated}, true
	h.Found.Unusable[Bare] = "left out in a test"
	delete(platforms, Direct)
	resolve := h.Platform
	h.Platform = func(name string) (platform.Platform, error) {
		if name == Direct {
			return NewDirect(""), nil
		}
		return resolve(name)
	}
	o := planned(Default(), h)
	o.Builds, o.Memories, o.Subjects, o.Limits = []string{string(programs.Emulated)}, []string{Pageable, Pinned}, []string{programs.Stencil}, false
	o.Sizes, o.Iterations = map[string]string{programs.Stencil: "20x18x17"}, map[string]string{programs.Stencil: "2"}
	o.Share = []int{2}
	o.Seed = 7
	d := design(t, o)
	// The warm-up's size would take seconds here.
	was := checkedSizes[programs.Stencil]
	checkedSizes[programs.Stencil] = "20x18x17"
	t.Cleanup(func() { checkedSizes[programs.Stencil] = was })
	store, err := record.Open(filepath.Join(t.TempDir(), "tare.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	trials := 0
	ctx, cancel := context.WithCancelCause(t.Context())
	l := &lab.Lab{
		Store: store, Platforms: h.Platform,
		Image: func(_ context.Context, src workload.Source) (image.Image, error) {
			return image.Image{Name: "cuda", Digest: "sha256:0", Root: src.Rootfs}, nil
		},
		Judge: func(accounting.Interval, float64, bool) []string { return nil },
		Watch: func(e lab.Event) {
			if e.Kind == lab.Ended {
				if trials++; trials == 12 {
					cancel(errors.New("stopped by a test"))
				}
			}
		},
	}
	run := record.Run{ID: record.NewID(Name, time.Now(), 1), Command: []string{"tare", "gpu"}, Started: time.Now(), Status: record.Running}
	got, err := l.Run(ctx, d, run)
	var interrupted *lab.Interrupted
	if !errors.As(err, &interrupted) {
		t.Fatalf("%v", err)
	}
	if got, err = l.Resume(t.Context(), d, got); err != nil || got.Status != record.Complete {
		t.Fatalf("%s, %v", got.Status, err)
	}
	for _, tr := range got.Trials {
		if tr.Error != "" {
			t.Errorf("%s: %s", tr.Condition, tr.Error)
		}
	}
	r := readRun(got)
	of := r.subjects[0]
	p := pick{platform: Direct, cell: cell{build: string(programs.Emulated), memory: Pageable}}
	if e := r.level([]subject{of}, p, "wall"); !e.Known() || e.N != 3 {
		t.Errorf("from launch to end %+v", e)
	}
	if e := r.level([]subject{of}, p, "outside"); !known(e) || e.Value <= 0 {
		t.Errorf("outside of main %+v", e)
	}
	attached := func(id int64, name string) ([]byte, error) {
		a, err := store.Attachment(id, name)
		return a.Data, err
	}
	s := Study.Sheet(got, attached, nil)
	screen, _ := rendered(t, s)
	if !strings.Contains(s.Answer, "for a test") || !strings.Contains(screen, "stencil: emulated") || !strings.Contains(screen, "Several programs on one device") {
		t.Errorf("%s", screen)
	}
	var document bytes.Buffer
	if err := overhead.JSON(&document, overhead.NewDocument(got, overhead.Analyse(got, overhead.Options{}))); err != nil || !strings.Contains(document.String(), `"kernels"`) {
		t.Errorf("%v", err)
	}
}
