package census_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tare/census"
	"tare/probe/pagetable"
)

// space makes an address space of one mapping that begins at the page.
func space(pid, group int, m pagetable.Mapping, page uint64, entries ...pagetable.Entry) pagetable.Space {
	m.Start, m.End = page*pagetable.PageSize, (page+uint64(len(entries)))*pagetable.PageSize
	return pagetable.Space{
		PID: pid, Group: group, Mappings: []pagetable.Mapping{m},
		Runs:   []pagetable.Run{{Page: page, Entries: entries}},
		Tables: pagetable.Tables{PTE: 1, PMD: 1, PUD: 1, Known: true},
	}
}

// fill makes n entries with ascending frames.
func fill(n int, frame uint64, flags pagetable.Entry) []pagetable.Entry {
	entries := make([]pagetable.Entry, n)
	for i := range entries {
		entries[i] = pagetable.Entry(frame+uint64(i)) | flags
	}
	return entries
}

const (
	cached = pagetable.Present | pagetable.FileFrame
	anon   = pagetable.Present | pagetable.Anon
)

// Two workers of one server, and the server's copy in another container: the
// library is groupable for all, what the workers inherited only over processes, and
// the copy has its heap elsewhere.
func ExampleOf() {
	lib := pagetable.Mapping{Kind: pagetable.Library, File: "/lib/libc.so.6", Inode: 7}
	heap := pagetable.Mapping{Kind: pagetable.Heap, Write: true}
	process := func(pid, group int, inherited uint64) pagetable.Space {
		s := space(pid, group, lib, 1000, fill(300, 50, cached)...)
		h := space(pid, group, heap, 5000, fill(100, inherited, anon)...)
		s.Mappings = append(s.Mappings, h.Mappings[0])
		h.Runs[0].Mapping = 1
		s.Runs = append(s.Runs, h.Runs[0])
		return s
	}
	c := &pagetable.Census{Spaces: []pagetable.Space{process(11, 0, 9000), process(12, 0, 9000), process(13, 1, 9500)}}
	n := census.Of(c, []string{"web-1", "web-2"}, census.Options{})
	fmt.Printf("over processes %.0f %%, across containers %.0f %%\n", 100*n.All.Groupability(), 100*n.All.Across.Groupability())
	fmt.Printf("%d entries, %d frames, of %s %d its own\n", n.All.Entries, n.Frames.Mapped, n.Groups[0].Name, n.Groups[0].OwnFrames)
	fmt.Printf("%s: %d entries\n", n.Files[0].Path, n.Files[0].Tally.Entries)
	// Output:
	// over processes 92 %, across containers 75 %
	// 1200 entries, 500 frames, of web-1 100 its own
	// /lib/libc.so.6: 900 entries
}

func TestClassesSumToEntries(t *testing.T) {
	for seed := range uint64(500) {
		c, groups := random(rand.New(rand.NewPCG(seed, 2)))
		n := census.Of(c, groups, census.Options{})
		check := func(what string, a census.Tally) {
			if a.Entries != a.Classes.Sum()+a.Zero+a.Device+a.Swapped || a.Classes.Sum() != a.Across.Sum() ||
				c.Flags && a.Classes.Sum() != a.Active+a.Inactive+a.Unlisted || a.Across.Groupable > a.Groupable {
				t.Errorf("seed %d: %s does not sum up: %+v", seed, what, a)
			}
		}
		check("all", n.All)
		var files, mapped uint64
		for _, f := range n.Files {
			check(f.Path, f.Tally)
			files += f.Tally.Entries
		}
		for i := range c.Spaces {
			for _, r := range c.Spaces[i].Runs {
				if c.Spaces[i].Mappings[r.Mapping].File == "" {
					continue
				}
				for _, e := range r.Entries {
					mapped += count(e&(pagetable.Present|pagetable.Swapped) != 0)
				}
			}
		}
		if files != mapped {
			t.Errorf("seed %d: the files have %d entries, and %d are in mappings of files", seed, files, mapped)
		}
		for i, g := range n.Groups {
			if check(g.Name, g.Tally); g.OwnFrames > g.Frames.Mapped || g.Frames.Mapped > n.Frames.Mapped {
				t.Errorf("seed %d: group %d owns %d frames of its %d of %d", seed, i, g.OwnFrames, g.Frames.Mapped, n.Frames.Mapped)
			}
		}
	}
}

func TestOrderDoesNotMatter(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		c, groups := random(r)
		want := census.Of(c, groups, census.Options{})
		// Processes in another order, and groups numbered anew.
		number := r.Perm(len(groups))
		renamed := make([]string, len(groups))
		for i, k := range number {
			renamed[k] = groups[i]
		}
		for i := range c.Spaces {
			c.Spaces[i].Group = number[c.Spaces[i].Group]
		}
		r.Shuffle(len(c.Spaces), func(i, j int) { c.Spaces[i], c.Spaces[j] = c.Spaces[j], c.Spaces[i] })
		got := census.Of(c, renamed, census.Options{})
		for _, n := range []*census.Count{got, want} {
			for i := range n.Processes {
				n.Processes[i].Group = 0
			}
			slices.SortFunc(n.Processes, func(a, b census.ProcessCount) int { return a.PID - b.PID })
			slices.SortFunc(n.Groups, func(a, b census.GroupCount) int { return int(a.Name[len(a.Name)-1]) - int(b.Name[len(b.Name)-1]) })
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: in another order (+):\n%s", seed, diff)
		}
	}
}

func TestOneProcessHasNothingGroupable(t *testing.T) {
	for seed := range uint64(200) {
		c, groups := random(rand.New(rand.NewPCG(seed, 4)))
		for i := range c.Spaces {
			alone := *c
			alone.Spaces = c.Spaces[i : i+1]
			n := census.Of(&alone, groups, census.Options{})
			if a := n.All; a.Groupable+a.Across.Groupable+a.ZeroGroupable+n.Tables.Equal+n.Tables.Bound() != 0 || a.Across.SharedFrame != 0 {
				t.Fatalf("seed %d: a process alone shares: %+v", seed, a)
			}
		}
	}
}

func TestCopyMakesAllGroupable(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		c, groups := random(r)
		if len(c.Spaces) == 0 {
			continue
		}
		one := c.Spaces[0]
		other := one
		other.PID++
		c.Spaces = []pagetable.Space{one, other}
		n := census.Of(c, groups, census.Options{})
		if n.All.SharedFrame+n.All.Exclusive != 0 || n.All.Groupable != n.All.Classes.Sum() || n.All.ZeroGroupable != n.All.Zero {
			t.Fatalf("seed %d: twice the same process is not all groupable: %+v", seed, n.All)
		}
		if n.All.Across.Groupable+n.All.Across.SharedFrame+n.Tables.EqualAcross != 0 {
			t.Fatalf("seed %d: one group has something in common with others: %+v", seed, n.All.Across)
		}
		if n.Tables.Equal != n.Tables.LastLevel || n.Tables.Spare*2 != n.Tables.LastLevel {
			t.Fatalf("seed %d: of twice the same tables, not one each is spare: %+v", seed, n.Tables)
		}
		c.Spaces[1].Group = len(groups) // one that nobody named
		n = census.Of(c, groups, census.Options{})
		if n.All.Across != n.All.Classes || n.Tables.EqualAcross != n.Tables.Equal || n.All.ZeroAcross != n.All.Zero {
			t.Fatalf("seed %d: across two groups it differs from over two processes: %+v", seed, n.All)
		}
		if name := n.Groups[len(groups)].Name; name != fmt.Sprintf("group %d", len(groups)) {
			t.Fatalf("the nameless group is called %q", name)
		}
	}
}

// Each container sees its image's files under a device number of its own.
func TestOneFileUnderSeveralNames(t *testing.T) {
	lib := func(path string, device, inode uint64) pagetable.Mapping {
		return pagetable.Mapping{Kind: pagetable.Library, File: path, Device: device, Inode: inode}
	}
	c := &pagetable.Census{Spaces: []pagetable.Space{
		space(1, 0, lib("/usr/lib/libc.so.6", 41, 9), 100, fill(4, 10, cached)...),
		space(2, 1, lib("/usr/lib/libc.so.6", 40, 9), 700, fill(6, 12, cached)...),
		space(3, 2, lib("/data/libc", 8, 9), 900, fill(2, 16, cached)...),
		// The same path in another image: another file.
		space(4, 3, lib("/usr/lib/libc.so.6", 42, 9), 100, fill(3, 90, cached)...),
		// A page copied on write is the process' own, and unites nothing.
		space(5, 4, lib("/usr/lib/libm.so.6", 43, 9), 100, 95|cached, 10|anon),
	}}
	n := census.Of(c, nil, census.Options{})
	type file struct {
		path                   string
		device                 uint64
		names                  int
		frames, entries, anons uint64
	}
	var got []file
	for _, f := range n.Files {
		got = append(got, file{f.Path, f.Device, f.Names, f.Frames, f.Tally.Entries, f.Tally.Anonymous})
	}
	want := []file{
		{"/data/libc", 8, 3, 8, 12, 0},
		{"/usr/lib/libc.so.6", 42, 1, 3, 3, 0},
		{"/usr/lib/libm.so.6", 43, 1, 1, 2, 1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("files\n\t%+v, want\n\t%+v", got, want)
	}
	n = census.Of(c, nil, census.Options{Files: 1})
	if len(n.Files) != 1 || n.OtherFiles.Files != 2 || n.OtherFiles.Frames != 4 || n.OtherFiles.Tally.Entries != 5 {
		t.Errorf("of three files, one listed, the others are %+v", n.OtherFiles)
	}
}

func TestTables(t *testing.T) {
	data := pagetable.Mapping{Kind: pagetable.FileData, File: "/data", Shared: true}
	writable := data
	writable.Write = true
	const at = 512 * 5
	whole := fill(512, 4000, cached)
	for _, c := range []struct {
		name   string
		spaces []pagetable.Space
		want   census.TableCount
	}{
		{"alone", []pagetable.Space{space(1, 0, data, at, whole...)}, census.TableCount{LastLevel: 1, HugeFiles: 1}},
		{
			"equal in three processes of two containers",
			[]pagetable.Space{space(1, 0, data, at, whole...), space(2, 0, data, at, whole...), space(3, 1, data, at, whole...)},
			census.TableCount{
				LastLevel: 3, HugeFiles: 3, Equal: 3, EqualAcross: 3, Spare: 2, SpareAcross: 2,
				Groupable: 3 * 512, GroupableAcross: 3 * 512, Sets: 512, SetsAcross: 512,
			},
		},
		{
			"accessed by one: equal all the same",
			[]pagetable.Space{space(1, 0, data, at, whole...), space(2, 0, data, at, fill(512, 4000, cached|pagetable.Accessed|pagetable.Dirty)...)},
			census.TableCount{LastLevel: 2, HugeFiles: 2, Equal: 2, Spare: 1, Groupable: 1024, Sets: 512},
		},
		{
			"another permission",
			[]pagetable.Space{space(1, 0, data, at, whole...), space(2, 0, writable, at, whole...)},
			census.TableCount{LastLevel: 2, HugeFiles: 2, Groupable: 1024, Sets: 512},
		},
		{
			"one page less",
			[]pagetable.Space{space(1, 0, data, at, whole...), space(2, 0, data, at, whole[:511]...)},
			census.TableCount{LastLevel: 2, HugeFiles: 1, Groupable: 1022, Sets: 511},
		},
		{
			"at another address",
			[]pagetable.Space{space(1, 0, data, at, whole...), space(2, 0, data, at+512, whole...)},
			census.TableCount{LastLevel: 2, HugeFiles: 2},
		},
		{
			"across the bound of two tables, where no huge page fits",
			[]pagetable.Space{space(1, 0, data, at+256, whole...)},
			census.TableCount{LastLevel: 2},
		},
		{
			"huge already: no table",
			[]pagetable.Space{space(1, 0, data, at, fill(512, 4096, cached|pagetable.Huge)...), space(2, 1, data, at, fill(512, 4096, cached|pagetable.Huge)...)},
			census.TableCount{},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := census.Of(&pagetable.Census{Spaces: c.spaces}, nil, census.Options{})
			processes := uint64(len(c.spaces))
			c.want.Pages = census.TablePages{PTE: processes, PMD: processes, PUD: processes, Known: true}
			if diff := cmp.Diff(c.want, n.Tables); diff != "" {
				t.Error(diff)
			}
			if got, want := n.Tables.Bytes(), processes*3*4096; got != want {
				t.Errorf("%d bytes of tables, want %d", got, want)
			}
		})
	}
}

// A file whose pages lie unevenly to 2 MiB of addresses has no use for huge pages.
func TestHugeFilesNeedTheirPlace(t *testing.T) {
	m := pagetable.Mapping{File: "/data", Offset: 4096}
	s := space(1, 0, m, 1024, fill(1024, 4000, cached)...)
	s.Mappings[0].Offset = pagetable.PageSize
	for offset, want := range map[uint64]uint64{0: 2, 4096: 0, 2 << 20: 2} {
		s.Mappings[0].Offset = offset
		n := census.Of(&pagetable.Census{Spaces: []pagetable.Space{s}}, nil, census.Options{})
		if n.Tables.HugeFiles != want || n.Tables.HugeFileEntries() != want*511 {
			t.Errorf("at offset %d, huge pages would take the place of %d tables, want %d", offset, n.Tables.HugeFiles, want)
		}
	}
}

func TestKSMSaved(t *testing.T) {
	m := pagetable.Mapping{Kind: pagetable.Anonymous, Write: true}
	merged := anon | pagetable.KSM
	c := &pagetable.Census{Flags: true, Spaces: []pagetable.Space{
		space(1, 0, m, 10, 5|merged, 5|merged, 6|merged), space(2, 1, m, 99, 5|merged, 7|anon),
	}}
	if n := census.Of(c, nil, census.Options{}); n.KSMSaved() != 2*4096 || n.Frames.KSM != 2 || n.All.AnonymousExclusive != 2 {
		t.Errorf("saved %d bytes by %d merged frames; %d could be", n.KSMSaved(), n.Frames.KSM, n.All.AnonymousExclusive)
	}
}

// S1 did not distinguish the page of zeros from others.
func TestSharesWithAndWithoutZero(t *testing.T) {
	m := pagetable.Mapping{Kind: pagetable.Anonymous}
	zero := 3 | pagetable.Present | pagetable.Zero
	c := &pagetable.Census{Spaces: []pagetable.Space{
		space(1, 0, m, 10, zero, 5|anon), space(2, 1, m, 10, zero, 6|anon),
	}}
	n := census.Of(c, nil, census.Options{})
	if a := n.All; a.Groupability() != 0 || a.GroupabilityWithZero() != 0.5 || a.AcrossWithZero() != 0.5 {
		t.Errorf("without zero %v, with it %v and %v", a.Groupability(), a.GroupabilityWithZero(), a.AcrossWithZero())
	}
	if a := n.All.ActiveShare(); !math.IsNaN(a) {
		t.Errorf("without flags, %v is said to be active", a)
	}
}

func TestJSON(t *testing.T) {
	for seed := range uint64(50) {
		c, groups := random(rand.New(rand.NewPCG(seed, 6)))
		n := census.Of(c, groups, census.Options{Files: 2})
		text, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		var back census.Count
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(n, &back); diff != "" {
			t.Fatalf("written and read (+):\n%s", diff)
		}
	}
	var k census.ByKind
	if err := json.Unmarshal([]byte(`{"attic":{}}`), &k); err == nil {
		t.Error("a kind that there is not is read")
	}
}

// crowd makes the census of many containers of one image, 100 MiB each: half of it
// the image's files, half of their own. Aligned ones have all at the same addresses.
func crowd(containers, pages int, aligned bool) *pagetable.Census {
	r := rand.New(rand.NewPCG(1, 2))
	c := &pagetable.Census{Flags: true}
	const flags = pagetable.OnList | pagetable.Active
	for i := range containers {
		base := uint64(1) << 34
		if !aligned {
			base += r.Uint64N(1 << 28)
		}
		s := pagetable.Space{PID: i, Group: i}
		own := uint64(1<<20 + i*pages)
		for at := 0; at < pages; {
			n := min(1+r.IntN(200), pages-at)
			frame, kind := uint64(at), cached|flags
			if at >= pages/2 {
				frame, kind = own+uint64(at), anon|flags
			}
			part := space(i, i, pagetable.Mapping{}, base+uint64(at), fill(n, frame, kind)...)
			part.Runs[0].Mapping = len(s.Mappings)
			s.Mappings, s.Runs = append(s.Mappings, part.Mappings[0]), append(s.Runs, part.Runs[0])
			at += n
		}
		c.Spaces = append(c.Spaces, s)
	}
	return c
}

func BenchmarkOf(b *testing.B) {
	for _, shape := range []struct {
		name       string
		containers int
		aligned    bool
	}{{"4aligned", 4, true}, {"200aligned", 200, true}, {"200randomised", 200, false}} {
		b.Run(shape.name, func(b *testing.B) {
			c := crowd(shape.containers, 25600, shape.aligned)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			b.ReportAllocs()
			for b.Loop() {
				census.Of(c, nil, census.Options{})
			}
			runtime.ReadMemStats(&after)
			entries := float64(c.Entries()) * float64(b.N)
			b.ReportMetric(entries/b.Elapsed().Seconds()/1e6, "Mentries/s")
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/entries, "B/entry")
		})
	}
}
