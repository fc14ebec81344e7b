package census_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tare/census"
	"tare/probe/pagetable"
)

// one is an entry in a plain list, as the reference goes through it.
type one struct {
	space, group int
	page         uint64
	run          *pagetable.Run
	e            pagetable.Entry
}

func list(c *pagetable.Census) (all []one) {
	for i := range c.Spaces {
		s := &c.Spaces[i]
		for r := range s.Runs {
			for k, e := range s.Runs[r].Entries {
				if e&(pagetable.Present|pagetable.Swapped) != 0 {
					all = append(all, one{i, s.Group, s.Runs[r].Page + uint64(k), &s.Runs[r], e})
				}
			}
		}
	}
	return all
}

func (o one) framed() bool {
	return o.e.Has(pagetable.Present) && o.e&(pagetable.Zero|pagetable.NoFrame) == 0
}

// reference counts by comparing every entry with every other.
func reference(c *pagetable.Census, groups int) *census.Count {
	out := &census.Count{Flags: c.Flags, Groups: make([]census.GroupCount, groups), Processes: []census.ProcessCount{}}
	all := list(c)
	for i := range c.Spaces {
		s := &c.Spaces[i]
		out.Processes = append(out.Processes, census.ProcessCount{PID: s.PID, Command: s.Command, Group: s.Group})
		out.Groups[s.Group].Processes++
	}
	type pair struct {
		page  uint64
		frame uint64
	}
	sets, setsAcross := map[pair]bool{}, map[pair]bool{}
	frames, merged := map[uint64]bool{}, map[uint64]bool{}
	holders := map[uint64]map[int]bool{}
	for i, a := range all {
		t := census.Tally{Entries: 1}
		var groupable, across, mapped, there bool
		for k, b := range all {
			zeros := a.e.Has(pagetable.Present|pagetable.Zero) && b.e.Has(pagetable.Present|pagetable.Zero)
			if i == k || a.e.Frame() != b.e.Frame() || !zeros && !(a.framed() && b.framed()) {
				continue
			}
			mapped = true
			there = there || a.group != b.group
			if a.page == b.page && a.space != b.space {
				groupable = true
				across = across || a.group != b.group
			}
		}
		class := func(c *census.Classes, same, mapped bool) {
			switch {
			case same:
				c.Groupable = 1
			case mapped:
				c.SharedFrame = 1
			default:
				c.Exclusive = 1
			}
		}
		is := func(f pagetable.Entry) uint64 { return count(a.e.Has(f)) }
		switch {
		case a.e.Has(pagetable.Swapped):
			t.Swapped = 1
		case a.e.Has(pagetable.Zero):
			t.Zero, t.ZeroGroupable, t.ZeroAcross = 1, count(groupable), count(across)
		case a.e.Has(pagetable.NoFrame):
			t.Device = 1
		default:
			class(&t.Classes, groupable, mapped)
			class(&t.Across, across, there)
			t.Huge = is(pagetable.Huge)
			t.HugeGroupable, t.HugeAcross = t.Huge*t.Groupable, t.Huge*t.Across.Groupable
			t.Anonymous = is(pagetable.Anon)
			t.AnonymousExclusive = t.Anonymous * t.Exclusive
			if c.Flags {
				t.THP, t.LargeFolio, t.KSM, t.Referenced = is(pagetable.THP|pagetable.Anon), is(pagetable.Large), is(pagetable.KSM), is(pagetable.Referenced)
				t.THPGroupable = t.THP * t.Groupable
				switch {
				case a.e.Has(pagetable.Unevictable):
					t.Unlisted = 1
				case a.e.Has(pagetable.Active):
					t.Active = 1
				case a.e.Has(pagetable.OnList):
					t.Inactive = 1
				default:
					t.Unlisted = 1
				}
				t.ActiveGroupable, t.ActiveAcross = t.Active*t.Groupable, t.Active*t.Across.Groupable
				t.HugeActive, t.THPActive = t.Huge*t.Active, t.THP*t.Active
			}
			f := a.e.Frame()
			frames[f] = true
			if a.e.Has(pagetable.KSM) {
				merged[f] = true
			}
			if holders[f] == nil {
				holders[f] = map[int]bool{}
			}
			holders[f][a.group] = true
			if groupable && !a.e.Has(pagetable.Huge) {
				out.Tables.Groupable++
				sets[pair{a.page, f}] = true
				if across {
					out.Tables.GroupableAcross++
					setsAcross[pair{a.page, f}] = true
				}
			}
		}
		kind := c.Spaces[a.space].Mappings[a.run.Mapping].Kind
		for _, to := range []*census.Tally{
			&out.All, &out.Kinds[kind], &out.Groups[a.group].Tally, &out.Groups[a.group].Kinds[kind], &out.Processes[a.space].Tally,
		} {
			to.Add(&t)
		}
	}
	out.Frames = census.Frames{Mapped: uint64(len(frames)), KSM: uint64(len(merged))}
	for f, groups := range holders {
		for g := range groups {
			out.Groups[g].Frames.Mapped++
			out.Groups[g].Frames.KSM += count(merged[f])
			out.Groups[g].OwnFrames += count(len(groups) == 1)
		}
	}
	out.Tables.Sets, out.Tables.SetsAcross = uint64(len(sets)), uint64(len(setsAcross))
	referenceTables(c, &out.Tables)
	return out
}

// referenceTables writes each table out and compares the texts.
func referenceTables(c *pagetable.Census, out *census.TableCount) {
	type held struct{ tables, groups map[int]int }
	type slot struct {
		number uint64
		text   string
	}
	all := map[slot]*held{}
	private := map[slot]bool{}
	for i := range c.Spaces {
		texts, privates := map[uint64][]byte{}, map[uint64]bool{}
		for _, o := range list(&pagetable.Census{Spaces: c.Spaces[i : i+1]}) {
			if o.e.Has(pagetable.Huge) {
				continue
			}
			m := c.Spaces[i].Mappings[o.run.Mapping]
			number := o.page / 512
			bits := o.e & (pagetable.Frames | pagetable.Present | pagetable.Swapped | pagetable.Writable | pagetable.Zero | pagetable.NoFrame)
			texts[number] = append(texts[number], []byte(asText(o.page, bits, m))...)
			privates[number] = privates[number] || m.Write && !m.Shared
		}
		for number, text := range texts {
			k := slot{number, string(text)}
			if all[k] == nil {
				all[k] = &held{map[int]int{}, map[int]int{}}
			}
			all[k].tables[i]++
			all[k].groups[c.Spaces[i].Group]++
			private[k] = privates[number]
			out.LastLevel++
		}
	}
	for k, h := range all {
		n := uint64(len(h.tables))
		if n < 2 {
			continue
		}
		out.Equal += n
		out.Spare += n - 1
		if private[k] {
			out.Private += n - 1
		}
		if len(h.groups) > 1 {
			out.EqualAcross += n
			out.SpareAcross += n - 1
		}
	}
}

func count(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// same compares all but the files, which have tests of their own.
func same(t testing.TB, got, want *census.Count) {
	t.Helper()
	g, w := *got, *want
	for _, c := range []*census.Count{&g, &w} {
		c.Files, c.OtherFiles = nil, census.OtherFiles{}
		c.Tables.Pages, c.Tables.HugeFiles = census.TablePages{}, 0
	}
	for i := range w.Groups {
		w.Groups[i].Name = g.Groups[i].Name
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("by comparing each with each (-) and counted (+):\n%s", diff)
	}
}

func TestCountsAsComparingEachWithEach(t *testing.T) {
	var met census.Count
	for seed := range uint64(1500) {
		c, groups := random(rand.New(rand.NewPCG(seed, 1)))
		got := census.Of(c, groups, census.Options{})
		same(t, got, reference(c, len(groups)))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		met.All.Add(&got.All)
		met.Tables.EqualAcross += got.Tables.EqualAcross
		met.Tables.Private += got.Tables.Private
	}
	// The random censuses are worth something only if everything happens in them.
	a := met.All
	for name, n := range map[string]uint64{
		"groupable": a.Groupable, "shared": a.SharedFrame, "exclusive": a.Exclusive,
		"across groupable": a.Across.Groupable, "across shared": a.Across.SharedFrame, "zero across": a.ZeroAcross,
		"zero": a.Zero - a.ZeroGroupable, "huge across": a.HugeAcross, "active across": a.ActiveAcross, "KSM": a.KSM,
		"swapped": a.Swapped, "device": a.Device, "equal tables": met.Tables.EqualAcross, "private ones": met.Tables.Private,
	} {
		if n == 0 {
			t.Errorf("no random census had %s", name)
		}
	}
}

// A server with hundreds of workers has hundreds of entries at each page.
func TestManyProcessesAtOnePage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	c := &pagetable.Census{}
	for i := range 300 {
		entries := make([]pagetable.Entry, 3)
		for k := range entries {
			entries[k] = anon | pagetable.Entry(r.IntN(40*(k+1)))
		}
		c.Spaces = append(c.Spaces, space(i, i%3, pagetable.Mapping{Kind: pagetable.Heap, Write: true}, 1000, entries...))
	}
	same(t, census.Of(c, nil, census.Options{}), reference(c, 3))
}

func FuzzCount(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, seed*31)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		c, groups := random(rand.New(rand.NewPCG(a, b)))
		same(t, census.Of(c, groups, census.Options{}), reference(c, len(groups)))
	})
}

func asText(page uint64, e pagetable.Entry, m pagetable.Mapping) string {
	return fmt.Sprintf("%x:%x:%t:%t:%t ", page, uint64(e), m.Write, m.Execute, m.Shared)
}
