package checkpoint

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tare/kernel/filesystem"
	"tare/lab"
	"tare/platform"
	"tare/record"
	"tare/study/io/place"
	"tare/study/kit"
	"tare/study/kit/kittest"
)

func groupsOf(d lab.Design) (names []string) {
	for _, g := range d.Groups {
		names = append(names, g.Workload)
	}
	return names
}

func labelsOf(g lab.Group) (labels []string) {
	for _, c := range g.Conditions {
		labels = append(labels, c.Label)
	}
	return labels
}

func design(t *testing.T, o Options) lab.Design { return kittest.Designed(t, Design, o) }

// One factor at a time: each level but the first is tried with all else as in the base.
func TestDefaultVariesOneFactorAtATime(t *testing.T) {
	d := design(t, asked(Default(), oneDisk()))
	want := []string{
		"haccio[particles=2500000,ranks=2]",
		"haccio[particles=2500000,ranks=2,cache=dropped]", "haccio[particles=2500000,ranks=2,cache=bypassed]",
		"haccio[particles=1000000,ranks=2]", "haccio[particles=25000000,ranks=2]",
		"haccio[particles=2500000,ranks=1]", "haccio[particles=2500000,ranks=4]",
		"haccio[particles=2500000,ranks=2,sync=fsync]", "haccio[particles=2500000,ranks=2,layout=shared]", "haccio[particles=2500000,ranks=2,api=mpiio]",
		"haccio[particles=2500000,ranks=2,disk=memory]",
	}
	if got := groupsOf(d); !slices.Equal(got, want) {
		t.Errorf("groups\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, g := range d.Groups {
		want := []string{"bare", "docker layer", "docker bind", "docker volume", "bare, fio floor"}
		if strings.Contains(g.Workload, inMemory) {
			want = []string{"bare tmpfs", "docker tmpfs", "bare tmpfs, fio floor"}
		}
		if got := labelsOf(g); !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", g.Workload, got, want)
		}
		for _, c := range g.Conditions {
			if got := c.Baseline; got != (c.Label == want[0]) {
				t.Errorf("%s is the baseline: %v", c.ID, got)
			}
			if c.Factors[place.FactorOf] != place.Haccio || c.Procedure == nil || c.Limit < lab.DefaultTrialLimit || c.Factors[factorDisk] == "" {
				t.Errorf("%s: %v, limit %v", c.ID, c.Factors, c.Limit)
			}
			isFloor := strings.HasSuffix(c.Label, "floor")
			if (c.Factors[place.FactorFloor] == withFio) != isFloor || (c.Program.Name() == floor) != isFloor {
				t.Errorf("%s runs %s, floor %q", c.ID, c.Program.Name(), c.Factors[place.FactorFloor])
			}
			for _, name := range []string{factorParticles, factorRanks, factorAPI, factorLayout, factorCache, factorSync} {
				if c.Params[name] == "" || c.Params[name] != c.Factors[name] {
					t.Errorf("%s: %s is %q as a parameter and %q as a factor", c.ID, name, c.Params[name], c.Factors[name])
				}
			}
		}
	}
	if d.Study != place.Study {
		t.Errorf("study %q", d.Study)
	}
	if !slices.ContainsFunc(d.Plan.Notes, func(n string) bool { return strings.HasPrefix(n, "4 ranks share 2 CPUs") }) {
		t.Errorf("ranks beyond the CPUs are not noted: %q", d.Plan.Notes)
	}
}

func TestFullIsThePublishedGrid(t *testing.T) {
	h := oneDisk()
	d := design(t, asked(Full(), h))
	if got, want := len(d.Groups), 2*len(PublishedParticles)*len(PublishedRanks)+1; got != want {
		t.Errorf("%d groups, want %d", got, want)
	}
	for _, want := range []string{"haccio[particles=50000000,ranks=8]", "haccio[particles=50000000,ranks=8,cache=dropped]"} {
		if !slices.Contains(groupsOf(d), want) {
			t.Errorf("no %s", want)
		}
	}
	if d := design(t, asked(Quick(), h)); len(d.Groups) != 2 || len(d.Groups[0].Conditions) != 4 {
		t.Errorf("quick: %q, each of %q", groupsOf(d), labelsOf(d.Groups[0]))
	}
}

func TestCrossHasEveryCombination(t *testing.T) {
	o := Quick()
	o.Ranks, o.Syncs, o.Cross = []int{1, 2}, []string{NoSync, Fsync}, true
	cells := o.cells()
	if len(cells) != 8 {
		t.Fatalf("%d cells of 2 x 2 x 2", len(cells))
	}
	seen := map[string]bool{}
	for _, c := range cells {
		if seen[c.group()] {
			t.Errorf("%s twice", c.group())
		}
		seen[c.group()] = true
	}
}

// Of all combinations those that no program has are left out; asked for alone they are
// refused.
func TestWhatNoProgramHas(t *testing.T) {
	o := asked(Quick(), oneDisk())
	o.APIs, o.Caches = []string{POSIX, MPIIO}, []string{Kept, Bypassed}
	o.Cross = true
	d := design(t, o)
	if len(d.Groups) != 3 || !slices.ContainsFunc(d.Plan.Notes, func(n string) bool {
		return strings.HasPrefix(n, "left out: 1 M x 2 ranks, mpiio, bypassed: ") && strings.Contains(n, "no way past the page cache")
	}) {
		t.Errorf("%q, notes %q", groupsOf(d), d.Plan.Notes)
	}
	o.APIs, o.Cross = []string{MPIIO}, false
	_, err := Design(o)
	kittest.Refused(t, err, new(*kit.Usage), "no way past the page cache")
}

// Every disk has a floor of its own: where bare metal cannot reach one, it is found with
// the least between.
func TestEachDiskHasAFloor(t *testing.T) {
	h := twoDisks()
	d := design(t, asked(Quick(), h))
	if got, want := labelsOf(d.Groups[0]), []string{"bare", "docker bind", "docker volume", "bare, fio floor", "docker volume, fio floor"}; !slices.Equal(got, want) {
		t.Errorf("two disks: %q, want %q", got, want)
	}
	disks := map[string]string{}
	for _, c := range d.Groups[0].Conditions {
		disks[c.Label] = c.Factors[factorDisk]
	}
	if disks["bare"] != "8:1" || disks["docker bind"] != "8:1" || disks["docker volume"] != "8:2" || disks["docker volume, fio floor"] != "8:2" {
		t.Errorf("disks: %v", disks)
	}
	if !slices.ContainsFunc(d.Plan.Notes, func(n string) bool {
		return strings.HasPrefix(n, "docker volume lies on another disk (/var/lib/docker) than bare metal (/var/lib/tare)")
	}) {
		t.Errorf("notes %q", d.Plan.Notes)
	}
	o := asked(Quick(), h)
	o.Storages = []platform.Storage{platform.StorageLayer}
	if got := labelsOf(design(t, o).Groups[0]); !slices.Contains(got, "docker layer, fio floor") {
		t.Errorf("a layer alone: %q", got)
	}
	o.Storages = []platform.Storage{platform.StorageLayer, platform.StorageVolume}
	if got := labelsOf(design(t, o).Groups[0]); !slices.Contains(got, "docker volume, fio floor") || len(got) != 5 {
		t.Errorf("a layer, and a volume, which has less between: %q", got)
	}
}

// A platform that does not report where its data lie is measured, and it is said what is
// lacking of that.
func TestUnknownDisk(t *testing.T) {
	h := oneDisk()
	h.engine.stored = nil
	d := design(t, asked(Quick(), h))
	if got := labelsOf(d.Groups[0]); !slices.Equal(got, []string{"bare", "docker bind", "docker volume", "bare, fio floor"}) {
		t.Errorf("%q", got)
	}
	if c := d.Groups[0].Conditions[1]; c.Factors[factorDisk] != "" {
		t.Errorf("its disk is said to be %q", c.Factors[factorDisk])
	}
	if !slices.ContainsFunc(d.Plan.Notes, func(n string) bool {
		return strings.Contains(n, "docker bind: its disk is unknown (it does not say)")
	}) {
		t.Errorf("notes %q", d.Plan.Notes)
	}
}

func TestWhatDoesNotFit(t *testing.T) {
	large := func(h *host) Options {
		o := asked(Quick(), h)
		o.Particles, o.Ranks, o.Caches = []int64{1_000_000, 50_000_000}, []int{8}, []string{Kept}
		return o
	}
	const size = 50_000_000 * 8 * particleSize // 15.2 GB
	for name, c := range map[string]struct {
		change func(*host)
		says   string
	}{
		"memory":            {func(h *host) { h.memory = size }, "it needs 15.2 GB of memory"},
		"disk":              {func(h *host) { h.disks["/var/lib/tare"] = filesystem.FileSystem{Device: "8:1", Free: size} }, "it writes 15.2 GB below /var/lib/tare, which has 15.2 GB left"},
		"the engine's disk": {func(h *host) { h.disks["/var/lib/docker"] = filesystem.FileSystem{Device: "8:2", Free: 1e9} }, "below /var/lib/docker, which has 1.0 GB left"},
	} {
		h := oneDisk()
		c.change(h)
		d := design(t, large(h))
		if got := groupsOf(d); !slices.Equal(got, []string{"haccio[particles=1000000,ranks=8]"}) {
			t.Errorf("%s: %q", name, got)
		}
		if !slices.ContainsFunc(d.Plan.Notes, func(n string) bool {
			return strings.HasPrefix(n, "left out: 50 M x 8 ranks: ") && strings.Contains(n, c.says)
		}) {
			t.Errorf("%s: notes %q, want %q", name, d.Plan.Notes, c.says)
		}
		// Asked for by name it is refused.
		o := large(h)
		o.Fitting = false
		_, err := Design(o)
		kittest.Refused(t, err, new(*kit.Usage), c.says)
		o = large(h)
		o.Particles = o.Particles[1:]
		_, err = Design(o)
		kittest.Refused(t, err, new(*kit.Usage), "nothing fits: ")
	}
	// In memory the checkpoint needs the memory twice, and a tmpfs half of it.
	h := oneDisk()
	h.memory = 2 * size
	o := asked(Quick(), h)
	o.Storages, o.Particles, o.Ranks, o.Caches = append(o.Storages, platform.StorageTmpfs), []int64{50_000_000}, []int{8}, []string{Kept}
	if got := groupsOf(design(t, o)); len(got) != 1 {
		t.Errorf("a tmpfs of all that is left: %q", got)
	}
	h.memory = 3 * size
	if got := groupsOf(design(t, asked(o, h))); len(got) != 2 {
		t.Errorf("with memory for it: %q", got)
	}
}

// What takes longest is left out until three blocks fit, but never the base.
func TestWithinTheBudget(t *testing.T) {
	o := asked(Default(), oneDisk())
	whole := design(t, o)
	o.Plan = record.Plan{Budget: whole.Expected(3), Level: 0.95}
	if d := design(t, o); len(d.Groups) != len(whole.Groups) {
		t.Errorf("what fits is left out: %q", d.Plan.Notes)
	}
	o.Plan.Budget = whole.Expected(2)
	d := design(t, o)
	if d.Expected(3) > o.Plan.Budget || len(d.Groups) < 2 || d.Groups[0].Workload != whole.Groups[0].Workload {
		t.Errorf("%v for three blocks of %q", d.Expected(3), groupsOf(d))
	}
	if !slices.ContainsFunc(d.Plan.Notes, func(n string) bool { return strings.Contains(n, "longest cells are left out") }) {
		t.Errorf("notes %q", d.Plan.Notes)
	}
	o.Plan.Budget = time.Second
	if d := design(t, o); !slices.Equal(groupsOf(d), groupsOf(whole)[:1]) {
		t.Errorf("of a second: %q", groupsOf(d))
	}
	o.Fitting = false
	if d := design(t, o); len(d.Groups) != len(whole.Groups) {
		t.Errorf("what was named is left out: %q", groupsOf(d))
	}
}

// A block has the baseline twice, and what goes to a disk takes longer than what does not.
func TestPass(t *testing.T) {
	d := design(t, asked(Quick(), oneDisk()))
	if got, want := d.Pass(), 5*(base.takes()+dropped.takes()); got < want-time.Second/100 || got > want+time.Second/100 {
		t.Errorf("%v for a block of two cells, want %v", got, want)
	}
	inRAM, large := with(func(c *cell) { c.memory = true }), with(func(c *cell) { c.particles = 1_000_000_000 })
	if !(inRAM.takes() < base.takes() && base.takes() < dropped.takes()) || large.limit() <= base.limit() {
		t.Errorf("in memory %v, in the page cache %v, dropped %v; limits %v and %v", inRAM.takes(), base.takes(), dropped.takes(), base.limit(), large.limit())
	}
}

// A note names a write that the kernel does not let wait in memory.
func TestDirtyLimitIsReported(t *testing.T) {
	h := oneDisk()
	o := asked(Quick(), h)
	o.Particles = []int64{50_000_000}
	h.dirty.Limit = 50_000_000 * 2 * particleSize
	noted := func(d lab.Design) bool {
		return slices.ContainsFunc(d.Plan.Notes, func(n string) bool { return strings.Contains(n, "vm.dirty_ratio") })
	}
	if d := design(t, asked(o, h)); noted(d) {
		t.Errorf("just within: %q", d.Plan.Notes)
	}
	h.dirty.Limit--
	if d := design(t, asked(o, h)); !noted(d) {
		t.Errorf("just beyond: %q", d.Plan.Notes)
	}
}

func TestWhatTheHostLacks(t *testing.T) {
	h := oneDisk()
	h.engine.missing = &platform.Missing{What: "no engine answers"}
	_, err := Design(asked(Quick(), h))
	kittest.Refused(t, err, new(*platform.Missing), "platform docker: no engine answers")

	h = oneDisk()
	h.metal.missing = &platform.Missing{What: "bare needs root"}
	_, err = Design(asked(Quick(), h))
	kittest.Refused(t, err, new(*platform.Missing), "bare needs root")

	h = oneDisk()
	h.engine.refuses = platform.StorageVolume
	d := design(t, asked(Quick(), h))
	if got := labelsOf(d.Groups[0]); slices.Contains(got, "docker volume") || !slices.ContainsFunc(d.Plan.Notes, func(n string) bool { return strings.HasPrefix(n, "docker volume is left out: ") }) {
		t.Errorf("%q, notes %q", got, d.Plan.Notes)
	}
	o := asked(Quick(), h)
	o.Storages = []platform.Storage{platform.StorageVolume}
	_, err = Design(o)
	kittest.Refused(t, err, new(*kit.Usage), "nothing is left to compare with bare metal")
}

// Bare metal's own memory is what a container's tmpfs is compared with.
func TestMemoryWithoutABaselineIsLeftOut(t *testing.T) {
	h := oneDisk()
	h.metal.refuses = platform.StorageTmpfs
	d := design(t, asked(Default(), h))
	for _, g := range d.Groups {
		if strings.Contains(g.Workload, inMemory) {
			t.Errorf("%s has %q", g.Workload, labelsOf(g))
		}
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		says   string
	}{
		{func(o *Options) { o.Particles = nil }, "--particles: want at least one"},
		{func(o *Options) { o.Particles = []int64{0} }, "--particles 0: want 1 to"},
		{func(o *Options) { o.Particles = []int64{7, 7} }, "--particles 7: named twice"},
		{func(o *Options) { o.Ranks = []int{MostRanks + 1} }, "--ranks 1025: want 1 to 1024"},
		{func(o *Options) { o.APIs = []string{"aio"} }, "--api aio: want posix, mpiio, mpiio-collective"},
		{func(o *Options) { o.Layouts = nil }, "--layout: want at least one of file-per-rank, shared"},
		{func(o *Options) { o.Caches = []string{Kept, Kept} }, "--cache kept: named twice"},
		{func(o *Options) { o.Syncs = []string{"sometimes"} }, "--sync sometimes: want none, fsync"},
		{func(o *Options) { o.Storages = nil }, "--storage: want at least one"},
		{func(o *Options) { o.Storages = []platform.Storage{"cloud"} }, "--storage=cloud: want layer"},
		{func(o *Options) { o.Storages = append(o.Storages, o.Storages[0]) }, "--storage bind: named twice"},
		{func(o *Options) { o.Platform = place.Bare }, "--platform bare: bare metal is always the baseline"},
		{func(o *Options) { o.Platform = "elsewhere" }, `unknown platform "elsewhere"`},
		{func(o *Options) { o.Plan = record.Plan{} }, "neither how many blocks"},
	} {
		o := asked(Quick(), oneDisk())
		c.change(&o)
		_, err := Design(o)
		kittest.Refused(t, err, new(*kit.Usage), c.says)
	}
}

func TestTexts(t *testing.T) {
	for _, c := range []struct {
		cell cell
		want string
	}{
		{base, "1 M x 2 ranks"},
		{cell{2_500_000, 1, MPIIO, Shared, Bypassed, Fsync, false}, "2.5 M x 1 rank, mpiio, shared, bypassed, fsync"},
		{with(func(c *cell) { c.memory, c.particles = true, 500 }), "500 x 2 ranks, in memory"},
	} {
		if got := c.cell.text(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if got := base.bytes(); got != 76_000_000 || bytesText(got) != "76 MB" || bytesText(15_200_000_000) != "15.2 GB" || bytesText(38) != "38 bytes" {
		t.Errorf("%d: %s", got, bytesText(got))
	}
}
