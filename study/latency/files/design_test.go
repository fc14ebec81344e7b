package files

import (
	"slices"
	"strings"
	"testing"

	"tare/image"
	"tare/platform"
	"tare/study/kit"
	"tare/study/kit/kittest"
	"tare/workload"
)

func TestDesign(t *testing.T) {
	d, err := Design(options(docker()))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"files[write]: docker bind* | docker layer | docker volume | docker tmpfs | bare",
		"files[open]: docker bind* | docker 1 layer | docker 8 layers | bare",
		"files[copyup]: docker bind* | docker layer",
		"files[walk]: docker 1 layer* | docker 4 layers | docker 8 layers | docker 1 layer, flattened | docker 8 layers, flattened | bare",
	}
	if got := kittest.Groups(d); !slices.Equal(got, want) {
		t.Errorf("groups\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			primary := slices.ContainsFunc(c.Metrics, func(m workload.Metric) bool { return m.Primary })
			if c.Procedure == nil || !primary || c.Limit <= 0 {
				t.Errorf("%s lacks a procedure, a primary metric, or a limit", c.ID)
			}
			wantLayers := layers(c.Condition)
			if wantLayers == 1 {
				wantLayers = 0 // the image as it is
			}
			if c.Source.Layers != wantLayers || (c.Source.Repeated != "") != (wantLayers > 0) {
				t.Errorf("%s has an image of %d layers by %q, want %d", c.ID, c.Source.Layers, c.Source.Repeated, wantLayers)
			}
			if driver := c.Factors[factorDriver]; (driver == "overlay2 on extfs") != (c.Platform == engine) {
				t.Errorf("%s on %s has the driver %q", c.ID, c.Platform, driver)
			}
		}
	}
	if d.Pass() <= 0 || Preparing(d) != 8*assumedLayer {
		t.Errorf("a pass takes %v, preparing %v", d.Pass(), Preparing(d))
	}
}

// What the host lacks is left out, with a note.
func TestDesignOfLess(t *testing.T) {
	plain := &fakeEngine{name: engine, refuses: platform.StorageVolume, play: plays}
	d, err := Design(options(plain))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"files[write]: docker bind* | docker layer | docker tmpfs | bare",
		"files[open]: docker bind* | docker 1 layer | bare",
		"files[copyup]: docker bind* | docker layer",
		"files[walk]: docker 1 layer* | bare",
	}
	if got := kittest.Groups(d); !slices.Equal(got, want) {
		t.Errorf("groups\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	notes := strings.Join(d.Plan.Notes, "\n")
	for _, said := range []string{"docker has no image layers", "storage=volume is left out"} {
		if !strings.Contains(notes, said) {
			t.Errorf("the notes do not say %q:\n%s", said, notes)
		}
	}
	o := options(docker())
	o.Experiments, o.Flatten = []string{Walk, CopyUp}, false
	if d, err = Design(o); err != nil || len(d.Groups) != 2 || len(d.Groups[1].Conditions) != 4 {
		t.Errorf("two experiments without flattening: %q, %v", kittest.Groups(d), err)
	}
}

func TestDesignRefuses(t *testing.T) {
	var bad *kit.Usage
	var missing *platform.Missing
	few := docker()
	few.layering.MostLayers = 4
	gone := docker()
	gone.missing = &platform.Missing{What: "no engine answers"}
	for _, c := range []struct {
		on     platform.Platform
		change func(*Options)
		as     any
		says   string
	}{
		{docker(), func(o *Options) { o.Sizes = []int64{0} }, &bad, "--size 0: want 1 to 16777216 bytes"},
		{docker(), func(o *Options) { o.Sizes = []int64{GreatestSize + 1} }, &bad, "want 1 to"},
		{docker(), func(o *Options) { o.Sizes = []int64{5, 5} }, &bad, "twice"},
		{docker(), func(o *Options) { o.Sizes = nil }, &bad, "--size"},
		{docker(), func(o *Options) { o.Layers = []int{1, image.MostLayers + 1} }, &bad, "--layers 126: want 1 to 125, Docker's maximum"},
		{docker(), func(o *Options) { o.Layers = []int{1, 0} }, &bad, "--layers 0"},
		{docker(), func(o *Options) { o.Layers = []int{2, 4} }, &bad, "--layers: include 1"},
		{docker(), func(o *Options) { o.Layers = []int{1, 2, 2} }, &bad, "twice"},
		{few, func(*Options) {}, &bad, "--layers 8: docker supports at most 4"},
		{docker(), func(o *Options) { o.Syncs = 0 }, &bad, "--syncs 0"},
		{docker(), func(o *Options) { o.Opens = GreatestCount + 1 }, &bad, "--opens"},
		{docker(), func(o *Options) { o.Experiments = []string{"fly"} }, &bad, "--experiment fly: want write, open, copyup, walk"},
		{docker(), func(o *Options) { o.Experiments = nil }, &bad, "at least one"},
		{docker(), func(o *Options) { o.Platform = "lxc" }, &bad, "unknown platform"},
		{gone, func(*Options) {}, &missing, "no engine answers"},
	} {
		o := options(c.on)
		c.change(&o)
		_, err := Design(o)
		kittest.Refused(t, err, c.as, c.says)
	}
}

// A trial at many layers has fewer walks, and never too few.
func TestWalksGoWithLayers(t *testing.T) {
	o := Default()
	for n, want := range map[int]int{1: 100, 4: 25, 32: fewestWalks, 125: fewestWalks} {
		if got := o.walks(n); got != want {
			t.Errorf("%d walks at %d layers, want %d", got, n, want)
		}
	}
	o.Walks = 3
	if got := o.walks(8); got != 3 {
		t.Errorf("%d walks where 3 are asked for", got)
	}
}

// A metric's name gives its size, and no other name is read as one.
func TestSizesInNames(t *testing.T) {
	for _, size := range []int64{1, 500, 1 << 10, 1025, 100 << 10, 1 << 20, GreatestSize} {
		if got, ok := sizeOf(flushed+"-"+label(size), flushed); !ok || got != size {
			t.Errorf("%d is called %q and read as %d, %t", size, label(size), got, ok)
		}
	}
	for _, name := range []string{flushed, flushed + "-", flushed + mean, flushed + "-4k" + mean, flushed + "-k", flushed + "--4k", synced + "-4k", flushed + "-4g"} {
		if size, ok := sizeOf(name, flushed); ok {
			t.Errorf("%q is read as %d", name, size)
		}
	}
}
