package gpu

import (
	"slices"
	"strings"
	"testing"

	"tare/lab"
	"tare/platform"
	programs "tare/programs/gpu"
	"tare/study/kit"
	"tare/study/kit/kittest"
	"tare/workload"
)

func labelsOf(g lab.Group) (labels []string) {
	for _, c := range g.Conditions {
		labels = append(labels, c.Label)
	}
	return labels
}

func groupsOf(d lab.Design) (names []string) {
	for _, g := range d.Groups {
		names = append(names, g.Workload)
	}
	return names
}

func design(t *testing.T, o Options) lab.Design { return kittest.Designed(t, Design, o) }

// A factor at a time on every platform, and two cells under the probe.
func TestDefaultDesign(t *testing.T) {
	h, _ := fakeHost(t, "oci:runc", "docker")
	h.Found = found()
	d := design(t, planned(Default(), h))
	want := []string{"gpu[program=lu]", "gpu[program=particlefilter]", "gpu[program=stencil]", "gpu[program=lenet,task=training]", "gpu[program=devicelimits]",
		"gpu[program=lu,kernels]", "gpu[program=particlefilter,kernels]", "gpu[program=stencil,kernels]", "gpu[program=lenet,task=training,kernels]"}
	if got := groupsOf(d); !slices.Equal(got, want) {
		t.Errorf("groups %q", got)
	}
	labels := []string{}
	for _, cell := range []string{"exact", "ptx cold", "ptx warm", "both", "exact pinned"} {
		labels = append(labels, "bare "+cell, "oci:runc "+cell, "docker "+cell)
	}
	for _, cell := range []string{"exact probed", "ptx cold probed"} {
		labels = append(labels, "bare "+cell, "oci:runc "+cell, "docker "+cell)
	}
	if got := labelsOf(d.Groups[0]); !slices.Equal(got, labels) {
		t.Errorf("conditions\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(labels, "\n"))
	}
	for _, g := range d.Groups {
		for i, c := range g.Conditions {
			if c.Baseline != (i == 0) || c.Procedure == nil || c.Limit == 0 || c.Setting.GPU != platform.AllGPUs || c.Source.Rootfs != "/root-of-a-test" {
				t.Errorf("%s: baseline %t, %+v of %+v", c.ID, c.Baseline, c.Setting, c.Source)
			}
			if probed := c.Factors[FactorProbe] == On; probed != strings.HasSuffix(c.Label, "probed") || probed != slices.ContainsFunc(c.Metrics, func(m workload.Metric) bool { return m.Name == metricAPIShare }) {
				t.Errorf("%s: probed %t, %v", c.ID, probed, c.Metrics)
			}
		}
	}
	for i, g := range d.Groups[4:] {
		if !g.Once || len(g.Conditions) != 1 || g.Conditions[0].Platform != Bare {
			t.Errorf("the limits: %+v", g)
		}
		if timed := g.Conditions[0].Params["each-kernel"] == "yes"; timed != (i > 0) {
			t.Errorf("%s: each launch is timed: %t", g.Workload, timed)
		}
	}
	if !slices.ContainsFunc(d.Plan.Notes, func(n string) bool {
		return strings.Contains(n, "device: synthetic device, compute capability 9.0, CUDA 13.0")
	}) {
		t.Errorf("notes %q", d.Plan.Notes)
	}
	if d.Pass() <= 0 {
		t.Error("a pass takes no time")
	}
}

// A design that nobody has looked for a device for, as of a dry run, is the same but for
// what is not known.
func TestDesignWithoutADevice(t *testing.T) {
	h, _ := fakeHost(t, "docker")
	d := design(t, planned(Default(), h))
	if len(d.Groups) != 9 || len(d.Groups[0].Conditions) != 14 {
		t.Errorf("%q of %q", groupsOf(d), labelsOf(d.Groups[0]))
	}
	if !slices.ContainsFunc(d.Plan.Notes, func(n string) bool { return strings.Contains(n, "oci:runc is left out: no oci:runc: install it") }) {
		t.Errorf("notes %q", d.Plan.Notes)
	}
	h.Found = found()
	if _, err := Design(planned(Default(), h)); err != nil {
		t.Error(err)
	}
}

// What a host cannot give is left out and noted: platforms, the probe, PyTorch.
func TestLeftOut(t *testing.T) {
	h, _ := fakeHost(t, "oci:runc", "docker")
	h.Found = found()
	h.Found.Library, h.Found.NoProbe = "", "this host has no C compiler"
	h.Found.NoTorch = "python3: No module named 'torch'"
	h.Found.Unusable["docker"] = "stencil: no CUDA device is shown"
	o := planned(Default(), h)
	o.Torch = true
	d := design(t, o)
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			if c.Platform == "docker" || c.Factors[FactorProbe] != "" || c.Factors[FactorKind] == KindTorch {
				t.Errorf("%s takes part", c.ID)
			}
		}
	}
	notes := strings.Join(d.Plan.Notes, "\n")
	for _, want := range []string{"docker is left out: stencil: no CUDA device is shown", "the activity probe is left out: this host has no C compiler", "PyTorch is left out: python3: No module named 'torch'"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in %s", want, notes)
		}
	}
	// PTX that is newer than the driver.
	h.Found.Kinds, h.Found.NoKind = []programs.Kind{programs.Exact, programs.Both}, map[programs.Kind]string{programs.PTX: "devicelimits: newer"}
	d = design(t, planned(Default(), h))
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			if c.Factors[FactorBuild] == string(programs.PTX) {
				t.Errorf("%s takes part", c.ID)
			}
		}
	}
	if !slices.Contains(d.Plan.Notes, "programs built ptx are left out: devicelimits: newer") {
		t.Errorf("notes %q", d.Plan.Notes)
	}
	h.Found.Kinds, h.Found.NoKind = slices.Clone(programs.Kinds), nil
	// Not even bare metal.
	h.Found.Direct, h.Found.Unusable[Bare] = true, "mount: operation not permitted"
	d = design(t, planned(Default(), h))
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			if c.Platform != Direct {
				t.Errorf("%s takes part", c.ID)
			}
		}
	}
	notes = strings.Join(d.Plan.Notes, "\n")
	for _, want := range []string{"started directly: mount: operation not permitted", "oci:runc is left out: there is no baseline to compare it with", "the comparison of platforms is inconclusive"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in %s", want, notes)
		}
	}
}

func TestCells(t *testing.T) {
	text := func(o Options) string {
		var all []string
		for _, c := range o.cells() {
			all = append(all, c.text())
		}
		return strings.Join(all, ", ")
	}
	o := Full()
	if got, want := text(o), "exact, ptx cold, ptx warm, both, exact pinned, ptx cold pinned, ptx warm pinned, both pinned"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := text(Quick()), "exact, ptx cold"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	o = Default()
	o.Builds, o.Caches, o.Memories = []string{"ptx"}, []string{Off}, []string{Pinned}
	if got, want := text(o), "ptx off pinned"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestShareDesign(t *testing.T) {
	h, _ := fakeHost(t, "docker")
	h.Found = found()
	o := planned(Quick(), h)
	o.Platforms, o.Subjects, o.Share = []string{Bare, "docker"}, []string{programs.Stencil}, []int{4, 2}
	d := design(t, o)
	g := d.Groups[len(d.Groups)-1]
	want := []string{"bare x 1", "bare x 2", "bare x 4", "docker x 1", "docker x 2", "docker x 4"}
	if got := labelsOf(g); !slices.Equal(got, want) || g.Workload != "gpu[program=stencil,shared]" || !g.Conditions[0].Baseline {
		t.Errorf("%s: %q", g.Workload, got)
	}
	// Starts differ by as much as making a context takes: the timed part has to be longer.
	if got := g.Conditions[0].Params["iterations"]; got != "5000" {
		t.Errorf("%s timed repetitions", got)
	}
	o.Iterations = map[string]string{programs.Stencil: "7"}
	d = design(t, o)
	if got := d.Groups[len(d.Groups)-1].Conditions[0].Params["iterations"]; got != "7" {
		t.Errorf("%s timed repetitions, where 7 were asked for", got)
	}
	for _, subject := range Subjects {
		if sharedIterations[programOf(subject)] == "" {
			t.Errorf("%s: nobody says how many repetitions", subject)
		}
	}
}

// A device that one process may have is not shared.
func TestShareTakesAComputeMode(t *testing.T) {
	h, _ := fakeHost(t)
	h.Found = found()
	h.Found.Device.ComputeMode = "exclusive-process"
	o := planned(Quick(), h)
	o.Share = []int{1, 2}
	_, err := Design(o)
	var lacks *platform.Missing
	kittest.Refused(t, err, &lacks, "--share 2: the compute mode of synthetic device is exclusive-process")
	o.Share = []int{1}
	design(t, o)
}

func TestDesignRefuses(t *testing.T) {
	h, _ := fakeHost(t)
	for name, c := range map[string]struct {
		change func(*Options)
		says   string
	}{
		"a program":        {func(o *Options) { o.Subjects = []string{"matrix"} }, "--program matrix: want lu"},
		"lenet of no task": {func(o *Options) { o.Subjects = []string{"lenet"} }, "--program lenet"},
		"twice":            {func(o *Options) { o.Builds = []string{"ptx", "ptx"} }, "--build ptx is named twice"},
		"no cache":         {func(o *Options) { o.Caches = nil }, "--cache: want at least one"},
		"a memory":         {func(o *Options) { o.Memories = []string{"managed"} }, "--memory managed"},
		"no share":         {func(o *Options) { o.Share = []int{0} }, "--share 0: want 1 to 64"},
		"no device":        {func(o *Options) { o.GPU = "none" }, "--gpu none"},
		"a device":         {func(o *Options) { o.GPU = "first" }, "--gpu=first"},
		"a size's program": {func(o *Options) { o.Sizes = map[string]string{"matrix": "8"} }, "--size matrix"},
		"a size":           {func(o *Options) { o.Sizes = map[string]string{"stencil": "8x8"} }, "size=8x8"},
		"no platform":      {func(o *Options) { o.Platforms = nil }, "--platform"},
	} {
		o := planned(Default(), h)
		c.change(&o)
		_, err := Design(o)
		var wrong *kit.Usage
		t.Run(name, func(t *testing.T) { kittest.Refused(t, err, &wrong, c.says) })
	}
	h.Found = found()
	h.Found.Kinds = []programs.Kind{programs.PTX}
	_, err := Design(planned(Default(), h))
	var lacks *platform.Missing
	kittest.Refused(t, err, &lacks, "no programs built exact, but ptx")
}

// Sizes and iterations are a subject's, or its program's.
func TestSizes(t *testing.T) {
	h, _ := fakeHost(t)
	o := planned(Default(), h)
	o.Sizes = map[string]string{"stencil": "64x32x16", "lenet": "128"}
	o.Iterations = map[string]string{"lenet-training": "7", "devicelimits": "3"}
	d := design(t, o)
	for _, g := range d.Groups {
		p := g.Conditions[0].Params
		want := map[string][2]string{"stencil": {"64x32x16", "auto"}, "lenet": {"128", "7"}, "devicelimits": {"auto", "3"}}[p["program"]]
		if want[0] == "" {
			want = [2]string{"auto", "auto"}
		}
		if p["size"] != want[0] || p["iterations"] != want[1] {
			t.Errorf("%s: size %s, iterations %s, want %v", g.Workload, p["size"], p["iterations"], want)
		}
	}
}
