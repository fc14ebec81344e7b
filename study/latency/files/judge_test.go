package files

import (
	"math"
	"strings"
	"testing"

	"tare/claim"
	"tare/image"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/study/kit/kittest"
)

func verdictOf(t *testing.T, run record.Run, id string) claim.Judgement {
	return kittest.Verdict(t, Judge, run, id)
}

var (
	inBind  = place{storage: platform.StorageBind}
	inLayer = place{storage: platform.StorageLayer}
)

func ofLayers(n int) place { return place{storage: platform.StorageLayer, layers: n} }

func flattenedFrom(n int) place {
	return place{storage: platform.StorageLayer, layers: n, flattened: true}
}

// writes are the levels of a write's metrics, of one size.
func writes(flush, sync float64) map[string]float64 {
	return map[string]float64{flushed: flush, synced: sync, flushed + "-4k": flush, synced + "-4k": sync, flushed + "-4k" + mean: flush}
}

func TestJudgeWrites(t *testing.T) {
	for name, c := range map[string]struct {
		flush, sync float64 // of the layer, where the mounted directory has 1000
		want        claim.Verdict
	}{
		// The paper contradicts itself, so that nothing is confirmed outright.
		"alike":                   {1002, 998, claim.Qualified},
		"slower by a tenth":       {1100, 1000, claim.Refuted},
		"faster, synced":          {1000, 900, claim.Refuted},
		"alike but for the sync":  {1000, 1019, claim.Qualified},
		"at the edge":             {1020, 1000, claim.Inconclusive},
		"both on the edge":        {1020, 1020, claim.Inconclusive},
		"slower, synced a little": {1050, 1020, claim.Refuted},
	} {
		m := makeRun(6)
		m.add(Write, inBind, writes(1000, 1000), nil)
		m.add(Write, inLayer, writes(c.flush, c.sync), nil)
		if got := verdictOf(t, m.run, "S4.5"); got.Verdict != c.want {
			t.Errorf("%s: %s (%s; %s), want %s", name, got.Verdict, got.Ours, got.Rests, c.want)
		}
	}
	m := makeRun(6)
	m.add(Write, inBind, writes(1000, 1000), nil)
	m.add(Write, place{metal: true}, writes(1000, 1000), nil)
	if got := verdictOf(t, m.run, "S4.5"); got.Verdict != claim.NotYetRun {
		t.Errorf("without the layer: %s", got.Verdict)
	}
	m = makeRun(1)
	m.add(Write, inBind, writes(1000, 1000), nil)
	m.add(Write, inLayer, writes(2000, 2000), nil)
	if got := verdictOf(t, m.run, "S4.5"); got.Verdict != claim.Inconclusive {
		t.Errorf("one block decided: %s", got.Verdict)
	}
}

// ups are the levels of a first opening for writing: so much a file, and a byte.
func ups(fixed, perByte float64) map[string]float64 {
	levels := map[string]float64{}
	for _, size := range image.FilesLowerSizes {
		name := label(size.Bytes)
		levels[firstOpen+"-"+name] = fixed + perByte*float64(size.Bytes)
		levels[secondOpen+"-"+name], levels[firstWrite+"-"+name] = 3000, 4000
	}
	return levels
}

func TestJudgeOpens(t *testing.T) {
	for name, c := range map[string]struct {
		one, many float64 // of the layers, where the mounted directory has 1000
		perByte   float64
		want      claim.Verdict
	}{
		"as published":                   {1500, 1600, 0.7, claim.Confirmed},
		"as fast":                        {1010, 1020, 0.7, claim.Refuted},
		"slow, and of no size":           {1500, 1600, 0, claim.Inconclusive},
		"slow, and faster the larger":    {1500, 1600, -0.01, claim.Refuted},
		"slow at many layers alone":      {1100, 1600, 0.7, claim.Inconclusive},
		"at the edge of what is claimed": {1200, 1200, 0.7, claim.Inconclusive},
	} {
		m := makeRun(6)
		opened := func(v float64) map[string]float64 { return map[string]float64{open: v, open + mean: v, create: v} }
		m.add(Open, inBind, opened(1000), nil)
		m.add(Open, ofLayers(1), opened(c.one), nil)
		m.add(Open, ofLayers(8), opened(c.many), nil)
		m.add(CopyUp, inBind, ups(200_000, 0), nil)
		m.add(CopyUp, inLayer, ups(200_000, c.perByte), nil)
		got := verdictOf(t, m.run, "S4.6")
		if got.Verdict != c.want {
			t.Errorf("%s: %s (%s; %s), want %s", name, got.Verdict, got.Ours, got.Rests, c.want)
		}
		if !strings.Contains(got.Rests, "overlay2 on extfs") {
			t.Errorf("%s: the storage driver is not named: %s", name, got.Rests)
		}
	}
}

// walked is a run whose walks take so long, by layers, and so long flattened.
func walked(blocks int, times map[int]float64, flat, seconds, after float64) record.Run {
	m := makeRun(blocks)
	for _, n := range []int{1, 2, 4, 8, 16, 32} {
		if v, ok := times[n]; ok {
			m.add(Walk, ofLayers(n), map[string]float64{walk: v, walk + mean: v, walkFirst: 2 * v}, nil)
		}
	}
	if flat > 0 {
		for _, n := range []int{1, 32} {
			m.add(Walk, flattenedFrom(n), map[string]float64{walk: flat, walk + mean: flat, flattening: seconds},
				map[string]float64{bytesBefore: 100e6 * float64(n), bytesAfter: after, layersBefore: float64(n), layersAfter: 1})
		}
	}
	return m.run
}

func proportional(most int) map[int]float64 {
	times := map[int]float64{}
	for n := 1; n <= most; n *= 2 {
		times[n] = 1e6 + 3e6*float64(n)
	}
	return times
}

func TestJudgeWalks(t *testing.T) {
	for name, c := range map[string]struct {
		times map[int]float64
		want  claim.Verdict
	}{
		"a line":                   {proportional(32), claim.Confirmed},
		"a line of fewer layers":   {proportional(8), claim.Qualified},
		"no layer counts":          {map[int]float64{1: 4e6, 2: 4e6, 4: 4e6, 8: 4e6, 16: 4e6, 32: 4e6}, claim.Refuted},
		"a step":                   {map[int]float64{1: 4e6, 2: 60e6, 4: 60e6, 8: 60e6, 16: 60e6, 32: 61e6}, claim.Qualified},
		"two numbers of layers":    {map[int]float64{1: 4e6, 32: 100e6}, claim.Inconclusive},
		"one number of layers":     {map[int]float64{1: 4e6}, claim.NotYetRun},
		"nothing to set against":   {map[int]float64{2: 4e6, 4: 8e6, 8: 16e6}, claim.NotYetRun},
		"shorter by every layer":   {map[int]float64{1: 64e6, 2: 62e6, 4: 58e6, 8: 50e6, 16: 34e6, 32: 2e6}, claim.Inconclusive},
		"alike, of fewer layers":   {map[int]float64{1: 4e6, 2: 4e6, 4: 4e6}, claim.Inconclusive},
		"a curve that still rises": {map[int]float64{1: 1e6, 2: 20e6, 4: 40e6, 8: 50e6, 16: 55e6, 32: 60e6}, claim.Qualified},
	} {
		got := verdictOf(t, walked(6, c.times, 0, 0, 0), "S4.7")
		if got.Verdict != c.want {
			t.Errorf("%s: %s (%s; %s), want %s", name, got.Verdict, got.Ours, got.Rests, c.want)
		}
	}
	if got := verdictOf(t, walked(1, proportional(32), 0, 0, 0), "S4.7"); got.Verdict != claim.Inconclusive {
		t.Errorf("one block decided: %s", got.Verdict)
	}
}

// Flattening when an image is first used is repaid by so many walks: 3 s, where each walk gains the 3 ms of
// 31 layers.
func TestFlatteningIsRepaid(t *testing.T) {
	r := read(walked(6, proportional(32), 4e6, 3, 100e6))
	flat := r.byLayers(Walk, true)
	if got, want := r.repaid(flat[len(flat)-1]), 3e9/(31*3e6); !got.Known() || math.Abs(got.Value/want-1) > 0.05 {
		t.Errorf("repaid after %+v walks, want %.1f", got, want)
	}
	slow := read(walked(6, proportional(32), 200e6, 3, 100e6))
	if got := slow.repaid(slow.byLayers(Walk, true)[1]); got.N != 0 {
		t.Errorf("a walk that gains nothing repays after %+v", got)
	}
}

func TestJudgeFlattened(t *testing.T) {
	for name, c := range map[string]struct {
		flat, seconds, after float64 // where one layer takes 4e6 ns, and has 100 MB
		want                 claim.Verdict
	}{
		"as published":      {4e6, 3, 100e6, claim.Confirmed},
		"it takes a minute": {4e6, 60, 100e6, claim.Qualified},
		"walked slower":     {5e6, 3, 100e6, claim.Refuted},
		"not as small":      {4e6, 3, 300e6, claim.Inconclusive},
		"at the edge":       {4.08e6, 3, 100e6, claim.Inconclusive},
	} {
		got := verdictOf(t, walked(6, proportional(32), c.flat, c.seconds, c.after), "S4.8")
		if got.Verdict != c.want {
			t.Errorf("%s: %s (%s; %s), want %s", name, got.Verdict, got.Ours, got.Rests, c.want)
		}
	}
	if got := verdictOf(t, walked(6, proportional(32), 0, 0, 0), "S4.8"); got.Verdict != claim.NotYetRun {
		t.Errorf("nothing was flattened: %s", got.Verdict)
	}
	// What is of the same thing as a published figure has its name and unit.
	got := verdictOf(t, walked(6, proportional(32), 4e6, 3, 100e6), "S4.8")
	of, err := claim.Lookup("S4.8")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range of.Published {
		found := false
		for _, ours := range got.Figures {
			found = found || ours.Name == f.Name && ours.Unit == f.Unit
		}
		if !found {
			t.Errorf("%s (%s) is published, and ours is not of that name", f.Name, f.Unit)
		}
	}
}

// whole is a run that has everything.
func whole() record.Run {
	m := &made{walked(4, proportional(32), 4e6, 3, 100e6), 4}
	m.add(Write, inBind, writes(1000, 50_000), nil)
	m.add(Write, inLayer, writes(1100, 51_000), nil)
	m.add(Write, place{metal: true}, writes(900, 49_000), nil)
	opened := map[string]float64{open: 1000, open + mean: 1100, openFirst: 9000, openWrite: 1200, create: 20_000}
	m.add(Open, inBind, opened, nil)
	m.add(Open, ofLayers(1), map[string]float64{open: 1500, open + mean: 1600, openFirst: 20_000, openWrite: 1700, create: 21_000}, nil)
	m.add(CopyUp, inBind, ups(1500, 0), nil)
	m.add(CopyUp, inLayer, ups(200_000, 0.7), nil)
	return m.run
}

func TestPartsShowEverything(t *testing.T) {
	run := whole()
	var titles []string
	points := 0
	for _, p := range Parts(run) {
		switch p := p.(type) {
		case report.Table:
			titles = append(titles, p.Title)
			for _, row := range p.Rows {
				if len(row) != len(p.Columns) {
					t.Errorf("%s: a row of %d cells under %d heads: %+v", p.Title, len(row), len(p.Columns), row)
				}
			}
		case report.Chart:
			titles = append(titles, p.Title)
			for _, s := range p.Series {
				points += len(s.Points)
			}
		case report.Prose:
			titles = append(titles, p.Title)
			if !strings.Contains(p.Text, "overlay2 on extfs") || !strings.Contains(p.Text, "AUFS") {
				t.Errorf("what changed is not stated: %s", p.Text)
			}
		}
	}
	want := []string{
		"Time of a write to an open file, without fsync, µs", "Time of a write to an open file, with fsync, µs", "Time to open a file, µs",
		"First opening for writing, by file size", "Time of the first opening for writing (copy-up), µs",
		"Time of a walk, by number of layers", "Time of a walk over a directory tree, ms",
		"Size of an image before and after flattening, and time to flatten it", "Differences from S4's measurements",
	}
	if got := strings.Join(titles, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("parts\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	// 3 lines of 4 sizes; 6 walks, 2 ends of their line, 2 flattened ones.
	if points != 3*4+6+2+2 {
		t.Errorf("%d points are drawn", points)
	}
	answer := Answer(run)
	for _, words := range []string{"a write takes 1.1", "an opening takes 1.5", "The first opening of a file of 16 MB for writing copies it, and takes 11.9 ", "in 32 layers takes 24.", "after flattening, 1.0"} {
		if !strings.Contains(answer, words) {
			t.Errorf("the answer does not say %q: %s", words, answer)
		}
	}
}

// A page can be made of any run, also of one that yielded nothing.
func TestPartsOfAnyRun(t *testing.T) {
	empty := whole()
	empty.Trials = nil
	for name, run := range map[string]record.Run{"without trials": empty, "without conditions": {ID: "x"}} {
		if parts := Parts(run); len(parts) != 0 {
			t.Errorf("%s: %d parts", name, len(parts))
		}
		if got := Answer(run); got != "Nothing was measured." {
			t.Errorf("%s: %s", name, got)
		}
	}
	one := walked(1, map[int]float64{1: 4e6}, 0, 0, 0)
	if parts := Parts(one); len(parts) != 2 {
		t.Errorf("of one layer: %d parts, want a table and what has changed", len(parts))
	}
}
