package census_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"tare/census"
	"tare/probe/pagetable"
)

// machine is three containers: two of one image, one of another that brings the
// same library at other frames. Each has anonymous memory of its own.
func machine(pages int) (*pagetable.Census, []census.Member) {
	heap := pagetable.Mapping{Kind: pagetable.Heap, Write: true}
	lib := func(device, inode uint64) pagetable.Mapping {
		return pagetable.Mapping{Kind: pagetable.Library, File: "/lib/libc.so.6", Device: device, Inode: inode}
	}
	c := &pagetable.Census{Flags: true}
	for i := range 3 {
		m, frame, at := lib(uint64(40+i), 7), uint64(100), uint64(0)
		if i == 2 { // maps the file from its third page on, and its copy in the other image
			m, frame, at = lib(42, 9), 900, 2
		}
		m.Offset = at * pagetable.PageSize
		s := space(10+i, i, m, uint64(1000*(i+1)), fill(6, frame+at, cached)...)
		h := space(10+i, i, heap, uint64(1<<20*(i+1)), fill(pages, uint64(1<<20*(i+1)), anon)...)
		h.Runs[0].Mapping = 1
		s.Mappings, s.Runs = append(s.Mappings, h.Mappings[0]), append(s.Runs, h.Runs[0])
		c.Spaces = append(c.Spaces, s)
	}
	return c, []census.Member{{"web-1", "web"}, {"web-2", "web"}, {"db", "db"}}
}

func save(t *testing.T, c *pagetable.Census, members []census.Member, o census.SavingOptions) *census.Machine {
	t.Helper()
	m, err := census.Save(t.Context(), c, members, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSaveByImage(t *testing.T) {
	c, members := machine(10)
	m := save(t, c, members, census.SavingOptions{})
	if m.Base != nil || m.All.Contents != nil {
		t.Errorf("what nobody has read is reported: %+v, %+v", m.Base, m.All.Contents)
	}
	if m.All.Containers != 3 || m.All.Mapped != 48*4096 || m.All.Resident != 42*4096 || m.All.KSMCandidates != 30*4096 {
		t.Errorf("all: %+v", m.All)
	}
	web, db := m.Images[0], m.Images[1]
	if web.Image != "web" || !slices.Equal(web.Names, []string{"web-1", "web-2"}) || web.Containers != 2 || web.Mapped-web.Resident != 6*4096 {
		t.Errorf("web: %+v", web)
	}
	if db.Image != "db" || db.Containers != 1 || db.Mapped != db.Resident {
		t.Errorf("db: %+v", db)
	}
	if _, err := json.Marshal(m); err != nil {
		t.Error(err)
	}
}

func TestCommonBase(t *testing.T) {
	c, members := machine(1)
	asked := 0
	identify := func(answer func(census.File) (string, bool)) census.SavingOptions {
		return census.SavingOptions{Basis: "for the test", Identify: func(f census.File) (string, bool) {
			asked++
			if f.Path != "/lib/libc.so.6" || f.End-f.Start != 6*4096 {
				t.Errorf("asked for %+v", f)
			}
			return answer(f)
		}}
	}
	same := func(census.File) (string, bool) { return "same", true }
	b := save(t, c, members, identify(same)).Base
	// One image has the pages 0 to 5 of the file, the other 2 to 7: four of them twice.
	if len(b.Files) != 1 || b.Saved != 4*4096 || b.Files[0].Frames != 12 || b.Files[0].Pages != 8 || b.Files[0].Copies != 2 || b.Basis != "for the test" {
		t.Errorf("%+v", b)
	}
	if !slices.Equal(b.Files[0].Images, []string{"db", "web"}) || asked != 2 {
		t.Errorf("brought by %q, asked %d times", b.Files[0].Images, asked)
	}
	if b := save(t, c, members, identify(func(f census.File) (string, bool) { return string(rune(f.Device)), true })).Base; len(b.Files) != 0 || b.Saved != 0 {
		t.Errorf("different files of one path would be held once: %+v", b)
	}
	if b := save(t, c, members, identify(func(census.File) (string, bool) { return "", false })).Base; b.Unknown != 2 || len(b.Files) != 0 {
		t.Errorf("what could not be read: %+v", b)
	}
	asked = 0
	members[2].Image = "web" // two files of one path within an image are its own affair
	if b := save(t, c, members, identify(same)).Base; asked != 0 || len(b.Files) != 0 {
		t.Errorf("asked %d times for an image's own files: %+v", asked, b)
	}
}

// What differs in length differs, and need not be read to know it.
func TestCommonBaseReadsWhatIsAsLong(t *testing.T) {
	for _, c := range []struct {
		what           string
		length         func(census.File) (int64, bool)
		asked, unknown int
		saved          uint64
	}{
		{"as long", func(census.File) (int64, bool) { return 10, true }, 2, 0, 4 * 4096},
		{"of different lengths", func(f census.File) (int64, bool) { return int64(f.Device), true }, 0, 0, 0},
		{"of lengths unknown", func(census.File) (int64, bool) { return 0, false }, 0, 2, 0},
	} {
		asked := 0
		machine, members := machine(1)
		b := save(t, machine, members, census.SavingOptions{Length: c.length, Identify: func(census.File) (string, bool) {
			asked++
			return "same", true
		}}).Base
		if asked != c.asked || b.Unknown != c.unknown || b.Saved != c.saved {
			t.Errorf("%s: %d read, want %d: %+v", c.what, asked, c.asked, b)
		}
	}
}

// memory gives pages contents by their place: of every ten, the first holds zeros,
// the next share hold what the same place holds in every container, the others
// what nothing else does.
func memory(share uint64) func(pid int, page uint64) (uint64, bool, bool) {
	return func(pid int, page uint64) (uint64, bool, bool) {
		place := page % (1 << 20)
		switch {
		case place%10 == 0:
			return 0, true, true
		case place%10 <= share:
			return place, false, true
		}
		return page<<16 | uint64(pid), false, true
	}
}

func TestContentsRead(t *testing.T) {
	c, members := machine(100)
	m := save(t, c, members, census.SavingOptions{Contents: memory(4)})
	all := m.All.Contents
	// 30 pages of zeros; 40 places that three containers have alike; 50 that each has alone.
	if all.Candidates != 300 || all.Read != 300 || all.Zero != 30 || all.Distinct != 40+150 || !all.Complete {
		t.Errorf("%+v", all)
	}
	if want := (30.0 + 2*40) / 300; diff(all.Share.Value, want) > 1e-9 || *all.Share.Low != all.Share.Value || all.Saved() != 110*4096 {
		t.Errorf("share %+v, want %v", all.Share, want)
	}
	for _, image := range m.Images {
		if want := map[string]uint64{"web": 40 + 100, "db": 40 + 50}[image.Image]; image.Contents.Distinct != want {
			t.Errorf("%s: %+v, want %d distinct", image.Image, image.Contents, want)
		}
	}
}

func TestContentsSampled(t *testing.T) {
	c, members := machine(20000)
	covered, tried := 0, 0
	for _, share := range []uint64{0, 2, 9} {
		for seed := range uint64(20) {
			all := save(t, c, members, census.SavingOptions{Contents: memory(share), Sample: 2000, Seed: seed}).All.Contents
			if all.Complete || all.Read < 5000 || all.Read > 7000 {
				t.Fatalf("of 60000 pages %d are read, want about 6000", all.Read)
			}
			truth := 0.1 + float64(share)/10*2/3
			tried++
			if *all.Share.Low <= truth && truth <= *all.Share.High {
				covered++
			}
			if diff(all.Share.Value, truth) > 0.1 {
				t.Errorf("seed %d: share %v, and %v is true", seed, all.Share.Value, truth)
			}
		}
	}
	// Of 60 intervals of 95 %, 57 hold on average, and 50 or fewer one time in 3000.
	if covered <= 50 {
		t.Errorf("%d of %d intervals hold the truth", covered, tried)
	}
}

func TestContentsThatCannotBeRead(t *testing.T) {
	c, members := machine(10)
	m := save(t, c, members, census.SavingOptions{Contents: func(int, uint64) (uint64, bool, bool) { return 0, false, false }})
	if got := m.All.Contents; got.Failed != 30 || got.Read != 0 || got.Share != nil {
		t.Errorf("%+v", got)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err := census.Save(ctx, c, members, census.SavingOptions{Contents: memory(1)})
	if err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("cancelled, and %v", err)
	}
}

func diff(a, b float64) float64 { return max(a-b, b-a) }
