package files

import (
	"fmt"
	"math"
	"strings"

	"tare/claim"
	"tare/image"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// Answer is what a run found, in a sentence.
func Answer(run record.Run) string {
	r := read(run).together(4) // writes, openings, walks, and walks of what was flattened
	var told []string
	say := func(e stats.Estimate, format string, args ...any) {
		if e.Value == e.Value {
			told = append(told, fmt.Sprintf(format, append(args, report.Said(e, 1))...))
		}
	}
	if bind, layer, ok := r.pair(Write); ok {
		say(r.against(bind, layer, flushed), "a write to an open file takes %s times in the layer what it takes in a mounted directory")
	}
	if bind, layer, ok := r.pair(Open); ok {
		say(r.against(bind, layer, open), "an opening %s times")
	}
	if _, layer, ok := r.pair(CopyUp); ok {
		_, largest := copyUpEnds()
		if v := r.Value(layer, firstOpen+"-"+label(largest)); v.Value == v.Value {
			told = append(told, fmt.Sprintf("the first opening for writing of %s copies it, in %s ms", bytesText(largest), report.Said(v, perMilli)))
		}
	}
	if walks := r.byLayers(Walk, false); len(walks) > 1 {
		most := walks[len(walks)-1]
		say(r.against(walks[0], most, walk), "a walk over %d hidden layers takes %s times one's", layers(most)-1)
		if flat := r.byLayers(Walk, true); len(flat) > 0 {
			say(r.against(walks[0], flat[len(flat)-1], walk), "flattened %s times")
		}
	}
	if len(told) == 0 {
		return "Nothing was measured."
	}
	text := strings.Join(told, "; ") + "."
	return strings.ToUpper(text[:1]) + text[1:]
}

// pair is an experiment's condition in the mounted directory, and that in the layer.
func (r reading) pair(experiment string) (bind, layer record.Condition, ok bool) {
	bind, hasBind := r.stored(experiment, string(platform.StorageBind))
	layer, hasLayer := r.stored(experiment, string(platform.StorageLayer))
	return bind, layer, hasBind && hasLayer
}

// Parts are the tables and charts of a run.
func Parts(run record.Run) []report.Part {
	r := read(run)
	var parts []report.Part
	for _, part := range []func() []report.Part{r.writes, r.opens, r.copyUps, r.walks, r.flattenings} {
		parts = append(parts, part()...)
	}
	if len(parts) > 0 {
		parts = append(parts, r.since())
	}
	return parts
}

// placeText is where a condition's files lie.
func placeText(c record.Condition) string {
	switch c.Factors[factorStorage] {
	case bare:
		return "bare metal"
	case string(platform.StorageBind):
		return "mounted directory"
	case string(platform.StorageTmpfs):
		return "tmpfs"
	case string(platform.StorageVolume):
		return "volume"
	}
	if n := layers(c); n > 0 {
		return "layer, " + report.Counted(n, "layer")
	}
	return "layer"
}

// writes are S4.5's: a table for each way of flushing.
func (r reading) writes() []report.Part {
	conditions := r.of(Write)
	var parts []report.Part
	for _, way := range []struct{ how, title, note string }{
		{flushed, "Writes to an open file, handed to the kernel", "What flush() of Python does, and S4 did. "},
		{synced, "Writes to an open file, each brought to the disk by fsync", "What S4 said that it did. "},
	} {
		t := report.Table{
			Title: way.title + ", us",
			Note: way.note + "The mean of the middle half of a trial's writes, and its interval over blocks; ratio: the layer against the mounted directory. The file grows by each write, and is cut when it is large. " +
				"S4 (figure 3.7, without figures): no difference at any size.",
			Columns: []report.Column{{Head: "size"}},
		}
		for _, c := range conditions {
			t.Columns = append(t.Columns, report.Column{Head: placeText(c), Number: true, Optional: c.Factors[factorStorage] != string(platform.StorageBind) && c.Factors[factorStorage] != string(platform.StorageLayer)})
		}
		bind, layer, paired := r.pair(Write)
		if paired {
			t.Columns = append(t.Columns, report.Column{Head: "ratio", Number: true}, report.Column{Head: "of the p99", Number: true, Optional: true})
		}
		row := func(name, metric string) {
			cells := []report.Cell{{Text: name}}
			for _, c := range conditions {
				cells = append(cells, report.Estimated(r.Value(c, metric), perMicro))
			}
			if paired {
				cells = append(cells, report.Estimated(r.against(bind, layer, metric), 1), report.Estimated(r.Row(layer, metric+p99).Ratio, 1))
			}
			t.Rows = append(t.Rows, cells)
		}
		sizes := r.sizes(way.how)
		for _, size := range sizes {
			row(bytesText(size), way.how+"-"+label(size))
		}
		if len(sizes) > 1 {
			row("geometric mean", way.how)
		}
		if r.measured(conditions, way.how) {
			parts = append(parts, t)
		}
	}
	return parts
}

// measured tells whether some condition has a figure.
func (r reading) measured(conditions []record.Condition, metric string) bool {
	for _, c := range conditions {
		if v := r.Value(c, metric); v.Value == v.Value {
			return true
		}
	}
	return false
}

// opens is S4.6's first half.
func (r reading) opens() []report.Part {
	conditions := r.of(Open)
	if !r.measured(conditions, open) {
		return nil
	}
	bind, _ := r.stored(Open, string(platform.StorageBind))
	t := report.Table{
		Title: "Openings, us",
		Note: "Of one file that is there before the container, for reading, again and again: the mean of the middle half, and ratio of the mounted directory's. First: the first opening of a container's life, in which the file is found. " +
			"For writing: when the file is copied up already. New file: made and closed. S4 (figure 3.8, without figures): over 20 % slower in the layer.",
		Columns: []report.Column{{Head: "where"}, {Head: "opening", Number: true}, {Head: "ratio", Number: true}, {Head: "mean", Number: true, Optional: true}, {Head: "p99", Number: true, Optional: true},
			{Head: "first", Number: true}, {Head: "for writing", Number: true, Optional: true}, {Head: "new file", Number: true}},
	}
	for _, c := range conditions {
		ratio := report.Cell{Text: "baseline", Tone: report.Faint}
		if c.ID != bind.ID {
			ratio = report.Estimated(r.against(bind, c, open), 1)
		}
		t.Rows = append(t.Rows, []report.Cell{{Text: placeText(c)}, report.Estimated(r.Value(c, open), perMicro), ratio,
			report.Estimated(r.Value(c, open+mean), perMicro), report.Estimated(r.Value(c, open+p99), perMicro), report.Estimated(r.Value(c, openFirst), perMicro),
			report.Estimated(r.Value(c, openWrite), perMicro), report.Estimated(r.Value(c, create), perMicro)})
	}
	return []report.Part{t}
}

// copyUps is S4.6's second half.
func (r reading) copyUps() []report.Part {
	bind, layer, ok := r.pair(CopyUp)
	_, largest := copyUpEnds()
	if !ok || !r.measured([]record.Condition{bind, layer}, firstOpen+"-"+label(largest)) {
		return nil
	}
	t := report.Table{
		Title: "The first opening for writing, us",
		Note: "In the layer the whole file is copied to the uppermost layer before the opening returns; its first write finds it there, and so does the second opening. Geometric means over the files of a size, each opened once in a container's life. " +
			"S4 says in words: the larger the file, the longer.",
		Columns: []report.Column{{Head: "size"}, {Head: "layer", Number: true}, {Head: "mounted directory", Number: true}, {Head: "copied, MB/s", Number: true, Optional: true},
			{Head: "first write", Number: true, Optional: true}, {Head: "second opening", Number: true}},
	}
	chart := report.Chart{
		Title: "The first opening for writing against the file's size", X: report.Axis{Label: "file", Unit: "KB", Log: true}, Y: report.Axis{Label: "opening", Unit: "us", Log: true},
	}
	lines := []report.Series{{Name: "layer, first", Group: "layer"}, {Name: "layer, second", Group: "layer", Dashed: true}, {Name: "mounted directory, first", Group: "bind"}}
	for _, size := range image.FilesLowerSizes {
		name := label(size.Bytes)
		first, there, second := r.Value(layer, firstOpen+"-"+name), r.Value(bind, firstOpen+"-"+name), r.Value(layer, secondOpen+"-"+name)
		// What the opening of a copied file itself takes is no copying.
		speed := float64(size.Bytes) / (first.Value - second.Value) * 1e3
		t.Rows = append(t.Rows, []report.Cell{{Text: bytesText(size.Bytes)}, report.Estimated(first, perMicro), report.Estimated(there, perMicro), report.Measured(speed),
			report.Estimated(r.Value(layer, firstWrite+"-"+name), perMicro), report.Estimated(second, perMicro)})
		at := float64(size.Bytes) / (1 << 10)
		chart.X.Ticks = append(chart.X.Ticks, at)
		for i, e := range []stats.Estimate{first, second, there} {
			if e.Value == e.Value {
				lines[i].Points = append(lines[i].Points, report.At(at, e, perMicro))
			}
		}
	}
	chart.Series = lines
	return []report.Part{t, chart}
}

// walks is S4.7's.
func (r reading) walks() []report.Part {
	walks, flat := r.byLayers(Walk, false), r.byLayers(Walk, true)
	if len(walks) == 0 || !r.measured(walks, walk) {
		return nil
	}
	one := walks[0]
	t := report.Table{
		Title: "Walks over a tree that every layer has, ms",
		Note: fmt.Sprintf("As ls -R goes: %d directories opened and read, %d files, in the uppermost layer's copy; all below is hidden. The mean of the middle half of a trial's walks, and against one layer; the first walk, which stands apart, looks every directory up in all layers. "+
			"S4 (figure 3.9, without figures): nearly a straight line from 1 to 32 layers, means of 100 walks.", image.FilesTreeDirectories+1, image.FilesTreeFiles),
		Columns: []report.Column{{Head: "image"}, {Head: "walk", Number: true}, {Head: "ratio", Number: true}, {Head: "mean", Number: true, Optional: true}, {Head: "first", Number: true, Optional: true},
			{Head: "us an entry and layer", Number: true, Optional: true}},
	}
	row := func(name string, c record.Condition, of int) {
		ratio := report.Cell{Text: "baseline", Tone: report.Faint}
		if c.ID != one.ID {
			ratio = report.Estimated(r.against(one, c, walk), 1)
		}
		t.Rows = append(t.Rows, []report.Cell{{Text: name}, report.Estimated(r.Value(c, walk), perMilli), ratio, report.Estimated(r.Value(c, walk+mean), perMilli),
			report.Estimated(r.Value(c, walkFirst), perMilli), report.Measured(r.Value(c, walk).Value * perMicro / float64(entries*of))})
	}
	chart := report.Chart{Title: "A walk against the number of layers", X: report.Axis{Label: "layers with the tree"}, Y: report.Axis{Label: "walk", Unit: "ms"}}
	layered := report.Series{Name: "walk", Group: "layers"}
	for _, c := range walks {
		row(report.Counted(layers(c), "layer"), c, layers(c))
		if v := r.Value(c, walk); v.Value == v.Value {
			layered.Points = append(layered.Points, report.At(float64(layers(c)), v, perMilli))
		}
	}
	chart.Series = append(chart.Series, layered)
	if line := r.line(walks); line.Slope.Value == line.Slope.Value {
		fit := report.Series{Name: "line", Group: "layers", Dashed: true}
		for _, c := range []record.Condition{one, walks[len(walks)-1]} {
			at := float64(layers(c))
			fit.Points = append(fit.Points, report.Point{X: at, Y: (line.Intercept.Value + at*line.Slope.Value) * perMilli})
		}
		chart.Series = append(chart.Series, fit)
		chart.Note = fmt.Sprintf("Fitted in each block: %s ms and %s ms a layer; the line leaves %s %% of the variance between numbers of layers.",
			report.Said(line.Intercept, perMilli), report.Said(line.Slope, perMilli), report.Said(line.Left, 100))
	}
	flattened := report.Series{Name: "flattened", Group: "flattened"}
	for _, c := range flat {
		row("flattened from "+report.Counted(layers(c), "layer"), c, 1)
		if v := r.Value(c, walk); v.Value == v.Value {
			flattened.Points = append(flattened.Points, report.At(float64(layers(c)), v, perMilli))
		}
	}
	if len(flattened.Points) > 0 {
		chart.Series = append(chart.Series, flattened)
	}
	if c, ok := r.stored(Walk, bare); ok {
		row("bare metal", c, 1)
	}
	parts := []report.Part{t}
	if len(layered.Points) > 1 {
		parts = append(parts, chart)
	}
	return parts
}

// flattenings is S4.8's, with what was published beside it.
func (r reading) flattenings() []report.Part {
	flat := r.byLayers(Walk, true)
	if !r.measured(flat, flattening) {
		return nil
	}
	published := func(name string) report.Cell {
		c, err := claim.Lookup("S4.8")
		if err != nil {
			panic(err)
		}
		f, ok := c.Figure(name)
		if !ok {
			panic("claim S4.8 publishes no " + name)
		}
		return report.Cell{Text: f.Text(), Tone: report.Faint}
	}
	bytes := func(v float64) report.Cell {
		if math.IsNaN(v) {
			return report.Absent()
		}
		return report.Cell{Text: fmt.Sprintf("%.1f MB", v/1e6)}
	}
	t := report.Table{
		Title:   "Flattening",
		Note:    "A container's files, exported and imported as an image of one layer; sizes are the engine's own account. The making of the container is not in the time, nor is the loading of the image. S4's image was Ubuntu and a tree of Linux' sources.",
		Columns: []report.Column{{Head: "image"}, {Head: "layers before", Number: true, Optional: true}, {Head: "size before", Number: true}, {Head: "size after", Number: true}, {Head: "layers after", Number: true, Optional: true}, {Head: "time, s", Number: true}},
	}
	for _, c := range flat {
		t.Rows = append(t.Rows, []report.Cell{{Text: report.Counted(layers(c), "layer")}, report.Measured(r.covariate(c, layersBefore)), bytes(r.covariate(c, bytesBefore)), bytes(r.covariate(c, bytesAfter)),
			report.Measured(r.covariate(c, layersAfter)), report.Estimated(r.Value(c, flattening), 1)})
	}
	t.Rows = append(t.Rows,
		[]report.Cell{{Text: "S4, 32 layers", Tone: report.Faint}, report.Absent(), published("size, 32 layers"), published("size, flattened"), report.Absent(), published("time to flatten")},
		[]report.Cell{{Text: "S4, 1 layer", Tone: report.Faint}, report.Absent(), published("size, one layer"), report.Absent(), report.Absent(), published("time to flatten")})
	return []report.Part{t}
}

// since says what is other than where the claims were made.
func (r reading) since() report.Prose {
	layered := "The engine does not tell by what it keeps layers; S4's were AUFS. "
	if d := r.driver(); d != "" {
		layered = "Layers are " + d + " here; S4's were AUFS, which the kernel never took in and Docker has given up. "
	}
	return report.Prose{
		Title: "What has changed since, and what is other here",
		Text: layered + "Overlay finds a name once and keeps what it found, so that a second opening does not search the layers again; a directory that several layers have is merged anew each time that it is opened and read. " +
			"A file is copied whole on its first opening for writing, as by AUFS; where the file system below can share blocks between files (reflinks of XFS and Btrfs) the kernel does that instead, and the time hardly grows.\n\n" +
			"What is read is in the host's page cache, and each trial has a container of its own. The program is in C, where S4's was in Python, whose own time stood in each operation and made ratios smaller. " +
			fmt.Sprintf("The tree has %d files in %d directories; S4's was of 53.9 MB. Python's flush() only hands what is written to the kernel; both that and fsync() are measured.", image.FilesTreeFiles, image.FilesTreeDirectories),
	}
}
