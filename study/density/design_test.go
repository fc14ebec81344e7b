package density

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/lab"
	"tare/platform"
	"tare/study/kit"
	"tare/workload"
)

func TestParseNeighbours(t *testing.T) {
	for text, want := range map[string][]int{
		"1:9:4": {1, 5, 9}, "0,5,10": {0, 5, 10}, "2:4": {2, 3, 4}, "7": {7}, "10,1:3": {1, 2, 3, 10}, "1:4:2": {1, 3},
	} {
		if got, err := ParseNeighbours(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "5:1", "1:5:0", "1:2:3:4", "1,1", "-1", "1:100000", "1,,2"} {
		if got, err := ParseNeighbours(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestParseBox(t *testing.T) {
	for text, want := range map[string]struct {
		box Box
		on  string
	}{
		"1g":        {Box{Kind: platform.BoxGroup, Memory: 1 << 30}, "oci"},
		"vm:512m":   {Box{Kind: platform.BoxMachine, Memory: 512 << 20, Engine: "vm"}, "vm+memory=512m/oci"},
		"vm:tcg:1g": {Box{Kind: platform.BoxMachine, Memory: 1 << 30, Engine: "vm:tcg"}, "vm:tcg+memory=1024m/oci"},
		"host":      {Box{Kind: platform.BoxMachine}, "oci"},
	} {
		if got, err := ParseBox(text); err != nil || got != want.box || got.On("oci") != want.on {
			t.Errorf("%s: %+v on %s, %v", text, got, got.On("oci"), err)
		}
	}
	for _, text := range []string{"", "1", "moon:1g", "vm:", "vm", "-1g"} {
		if got, err := ParseBox(text); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

// S3's proportion has 49 neighbours ask for 6.5 times the box.
func TestNeighbourShare(t *testing.T) {
	if got := NeighbourShare(DefaultBox); got != 136<<20 {
		t.Errorf("%d MiB", got>>20)
	}
	if over := 49 * float64(NeighbourShare(DefaultBox)) / DefaultBox; over < 6.5 || over > 6.52 {
		t.Errorf("49 neighbours ask for %g times the box", over)
	}
}

func designed(t *testing.T, change func(*Options)) []string {
	t.Helper()
	f := newFixture(1, 5)
	f.o.Noises = []workload.Subject{{Workload: *f.nap}}
	change(&f.o)
	d, err := Design(f.o)
	if err != nil {
		t.Fatal(err)
	}
	var labels []string
	for _, g := range d.Groups {
		if g.Once != (len(g.Conditions) == 1) {
			t.Errorf("%s: %d conditions, the baseline once: %v", g.Workload, len(g.Conditions), g.Once)
		}
		for i, c := range g.Conditions {
			if c.Baseline != (i == 0) {
				t.Errorf("%s: baseline is %v", c.ID, c.Baseline)
			}
			labels = append(labels, c.Label)
		}
	}
	return labels
}

// Conditions differ from the base in one factor, unless they are crossed; interleaved,
// each number of neighbours is one.
func TestConditions(t *testing.T) {
	many := func(o *Options) {
		o.Swaps = []platform.SwapKind{platform.SwapFile, platform.SwapZRAM}
		o.Protects = []platform.Protection{platform.ProtectNone, platform.ProtectLimit}
	}
	for name, c := range map[string]struct {
		change func(*Options)
		want   []string
	}{
		"the base alone":         {func(*Options) {}, []string{"file"}},
		"one factor at a time":   {many, []string{"file", "zram", "file, limit"}},
		"crossed":                {func(o *Options) { many(o); o.Cross = true }, []string{"file", "file, limit", "zram", "zram, limit"}},
		"interleaved":            {func(o *Options) { o.Order = Interleaved }, []string{"file, 1", "file, 5"}},
		"another base":           {func(o *Options) { o.Clusters = []int{0, 3} }, []string{"file, page-cluster 0", "file, page-cluster 3"}},
		"no swap":                {func(o *Options) { o.Swaps = []platform.SwapKind{platform.SwapNone} }, []string{"no swap"}},
		"several ways of asking": {func(o *Options) { o.Patterns = append(o.Patterns, "poisson") }, []string{"file", "file"}},
	} {
		if got := designed(t, c.change); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// How precise a run is to be is asked of the first step, and of the first that is well
// short of memory.
func TestPrimaryMetrics(t *testing.T) {
	f := newFixture(1, 2, 20, 40)
	f.o.NeighbourMemory = 8 << 20 // 64 + 20 x 8 of 128 MiB
	f.o.Noises = []workload.Subject{{Workload: *f.nap}}
	d, err := Design(f.o)
	if err != nil {
		t.Fatal(err)
	}
	var primary []string
	for _, m := range d.Groups[0].Conditions[0].Metrics {
		if m.Primary {
			primary = append(primary, m.Name)
		}
	}
	if want := []string{"p99-n1", "throughput-n1", "p99-n20", "throughput-n20"}; !slices.Equal(primary, want) {
		t.Errorf("primary are %q, want %q", primary, want)
	}
	if d.Pass() <= 0 {
		t.Error("a block takes no time")
	}
}

// What cannot be measured is refused before anything starts, by the flag that mends it.
func TestRefused(t *testing.T) {
	missing := &platform.Missing{What: "no zram"}
	for says, change := range map[string]func(*Options){
		"--box 32 MiB: shop alone needs 64 MiB": func(o *Options) { o.Box = 32 << 20 },
		"--neighbour-memory":                    func(o *Options) { o.NeighbourMemory = 1 },
		"--box host":                            func(o *Options) { o.BoxKind = platform.BoxMachine },
		"annexd is not on PATH":                 func(o *Options) { o.Extends = []string{ExtendAnnex} },
		"have no annexd in them":                func(o *Options) { o.Extends = []string{ExtendAnnex}; inMachine(o) },
		"annex:mine.toml: want some of":         func(o *Options) { o.Extends = []string{"annex:mine.toml"} }, // nobody read it
		"--swap none has none": func(o *Options) {
			o.Extends, o.Swaps = []string{ExtendNone, ExtendAnnex}, []platform.SwapKind{platform.SwapNone}
		},
		"port 20001 is served":  func(o *Options) { o.Host.CheckPorts = func([]int) error { return errors.New("port 20001 is served") } },
		"no zram":               func(o *Options) { o.Host.CheckBox = func(platform.BoxSpec) error { return missing } },
		"--memory":              func(o *Options) { o.Base.Memory = 1 << 20 },
		"--drop-caches":         func(o *Options) { o.DropCaches = true },
		"--noise shop":          func(o *Options) { o.Noises = []workload.Subject{o.Critical} },
		"--settle 2m0s: a step": func(o *Options) { o.Settle = 2 * time.Minute },
		"--neighbours: want":    func(o *Options) { o.Neighbours = nil },
	} {
		f := newFixture(1, 5)
		f.o.Noises = []workload.Subject{{Workload: *f.nap}}
		change(&f.o)
		_, err := Design(f.o)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q, got %v", says, err)
			continue
		}
		if lacks := new(platform.Missing); !errors.As(err, &lacks) && !errors.As(err, new(*kit.Usage)) {
			t.Errorf("%q is neither the user's to mend nor the host's", says)
		}
	}
}

// A platform that can put no program into a box is refused before anything starts.
func TestNoGroups(t *testing.T) {
	f := newFixture(1, 5)
	f.o.Noises = []workload.Subject{{Workload: *f.nap}}
	f.grouping = &platform.Unsupported{Platform: "fake", Key: "box", Reason: "its groups are its own"}
	_, design := Design(f.o)
	_, outline := Outline(f.o)
	for _, err := range []error{design, outline} {
		if !errors.Is(err, f.grouping) {
			t.Errorf("%v", err)
		}
	}
}

// No trial is ended from outside whose every step keeps to its limit.
func TestTheLimitHoldsEveryStep(t *testing.T) {
	f := newFixture(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25)
	f.o.Noises = []workload.Subject{{Workload: *f.nap}}
	f.o.StepLimit, f.o.Warm = 10*time.Minute, time.Hour
	d, err := Design(f.o)
	if err != nil {
		t.Fatal(err)
	}
	grown, loads := f.o.StepLimit, lab.StepAttempts*f.o.StepLimit
	if got, longest := d.Groups[0].Conditions[0].Limit, f.o.warming()+25*(grown+loads)+removalLimit; got <= longest {
		t.Errorf("a trial of %v is ended after %v", longest, got)
	}
}

// A client that waits asks at no rate.
func TestOutlineOfTheNeighboursClient(t *testing.T) {
	for says, change := range map[string]func(*Options){
		"a request every 1ms to the neighbours":                       func(*Options) {},
		"a request to the neighbours 1ms after each answer of theirs": func(o *Options) { o.IdleClosed = true },
		"10 requests at once every 10ms to one of the neighbours":     func(o *Options) { o.Burst = 10 },
	} {
		f := newFixture(1, 5)
		f.o.Noises = []workload.Subject{{Workload: *f.nap}}
		change(&f.o)
		lines, err := Outline(f.o)
		if err != nil || !strings.Contains(lines[0], says) {
			t.Errorf("%q, %v: want %q", lines, err, says)
		}
	}
}

// The box has swap for all that the greatest number of neighbours asks for.
func TestSwapHoldsEverything(t *testing.T) {
	f := newFixture(1, 49)
	var specs []platform.BoxSpec
	f.o.Host.CheckBox = func(s platform.BoxSpec) error { specs = append(specs, s); return nil }
	f.o.Swaps = append(f.o.Swaps, platform.SwapNone)
	f.o.Protects = append(f.o.Protects, platform.ProtectLimit)
	f.o.Noises = []workload.Subject{{Workload: *f.nap}}
	if _, err := Design(f.o); err != nil {
		t.Fatal(err)
	}
	if all := int64(64<<20 + 49*NeighbourShare(f.o.Box)); len(specs) != 3 || specs[0].SwapSize < all || specs[1].SwapSize != 0 {
		t.Errorf("boxes %+v", specs)
	}
	if limit := specs[2]; limit.Reserve < 64<<20 || limit.Reserve >= limit.Memory {
		t.Errorf("the limit leaves the critical class %d of %d", limit.Reserve, limit.Memory)
	}
}

// What is as it was found is not set.
func TestOutlineOfWhatIsSet(t *testing.T) {
	for _, c := range []struct {
		found  string
		levels []int
		set    bool
	}{{"3", []int{-1}, false}, {"3", []int{3}, false}, {"3", []int{3, 0}, true}, {"", []int{3}, true}} {
		f := newFixture(1)
		f.o.Noises, f.o.Clusters = []workload.Subject{{Workload: *f.nap}}, c.levels
		f.o.Host.Cluster = func() string { return c.found }
		lines, err := Outline(f.o)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(lines, "\n"), "vm.page-cluster"); got != c.set {
			t.Errorf("found %q, levels %v: the outline says that it is set: %v, want %v:\n%s", c.found, c.levels, got, c.set, strings.Join(lines, "\n"))
		}
	}
}

// The extension is an arm of its own, beside the base's levels of all else.
func TestExtensionIsAnArm(t *testing.T) {
	f := newFixture(1, 5)
	f.o.Noises = []workload.Subject{{Workload: *f.nap}}
	f.o.Extends = []string{ExtendNone, ExtendAnnex}
	f.o.Protects = []platform.Protection{platform.ProtectNone, platform.ProtectSwappiness}
	f.o.Host.Look = func(program string) (string, error) { return "/usr/sbin/" + program, nil }
	boxes := map[platform.Extension]int{}
	f.o.Host.CheckBox = func(s platform.BoxSpec) error {
		if s.Extend != platform.ExtendNone && s.Protect != platform.ProtectNone {
			t.Errorf("%s beside %s", s.Extend, s.Protect)
		}
		boxes[s.Extend]++
		return nil
	}
	d, err := Design(f.o)
	if err != nil {
		t.Fatal(err)
	}
	var labels []string
	for _, c := range d.Groups[0].Conditions {
		labels = append(labels, c.Label)
	}
	if want := []string{"file", "file, swappiness", "file, annex"}; !slices.Equal(labels, want) || boxes[platform.ExtendAnnex] != 1 || boxes[platform.ExtendNone] != 2 {
		t.Errorf("%q, boxes %v", labels, boxes)
	}
}

// A configuration of one's own is a level of its own, goes to the box, and is in the record.
func TestExtensionByAConfiguration(t *testing.T) {
	const level, text = ExtendAnnex + ":mine.toml", "[scan]\nleast = \"9s\"\n"
	f := newFixture(1, 5)
	f.o.Noises = []workload.Subject{{Workload: *f.nap}}
	f.o.Extends, f.o.ExtendConfigs = []string{ExtendAnnex, level}, map[string]string{level: text}
	f.o.Host.Look = func(program string) (string, error) { return "/usr/sbin/" + program, nil }
	var boxes []string
	f.o.Host.CheckBox = func(s platform.BoxSpec) error {
		boxes = append(boxes, string(s.Extend)+" "+s.ExtendConfig)
		return nil
	}
	d, err := Design(f.o)
	if err != nil {
		t.Fatal(err)
	}
	var recorded []string
	for _, c := range d.Groups[0].Conditions {
		recorded = append(recorded, c.Factors[FactorExtend]+" "+c.Factors[FactorExtendConfig])
	}
	if want := []string{"annex ", "annex " + text}; !slices.Equal(boxes, want) {
		t.Errorf("boxes %q", boxes)
	}
	if want := []string{"annex ", level + " " + text}; !slices.Equal(recorded, want) {
		t.Errorf("in the record %q", recorded)
	}
}
