package files

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/claim"
	"tare/image"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// Answer is the headline.
func Answer(run record.Run) string {
	r := read(run).together(4) // writes, openings, walks, and walks of what was flattened
	var sentences, slower []string
	ratio := func(e stats.Estimate, format string) {
		if e.Value == e.Value {
			slower = append(slower, fmt.Sprintf(format, report.Said(e, 1)))
		}
	}
	if bind, layer, ok := r.pair(Write); ok {
		ratio(r.against(bind, layer, flushed), "a write takes %s times as long")
	}
	if bind, layer, ok := r.pair(Open); ok {
		ratio(r.against(bind, layer, open), "an opening takes %s times as long")
	}
	if len(slower) > 0 {
		sentences = append(sentences, "In the container's layer, compared with a mounted directory, "+strings.Join(slower, " and ")+".")
	}
	if _, layer, ok := r.pair(CopyUp); ok {
		_, largest := copyUpEnds()
		if v := r.Value(layer, firstOpen+"-"+label(largest)); v.Value == v.Value {
			sentences = append(sentences, fmt.Sprintf("The first opening of a file of %s for writing copies it, and takes %s ms.",
				bytesText(largest), report.Said(v, perMilli)))
		}
	}
	if walks := r.byLayers(Walk, false); len(walks) > 1 {
		most := walks[len(walks)-1]
		if e := r.against(walks[0], most, walk); e.Value == e.Value {
			text := fmt.Sprintf("A walk over a tree in %d layers takes %s times as long as in one layer", layers(most), report.Said(e, 1))
			if flat := r.byLayers(Walk, true); len(flat) > 0 {
				if e := r.against(walks[0], flat[len(flat)-1], walk); e.Value == e.Value {
					text += fmt.Sprintf("; after flattening, %s times", report.Said(e, 1))
				}
			}
			sentences = append(sentences, text+".")
		}
	}
	if len(sentences) == 0 {
		return "Nothing was measured."
	}
	return strings.Join(sentences, " ")
}

// pair is an experiment's condition in the mounted directory, and that in the layer.
func (r reading) pair(experiment string) (bind, layer record.Condition, ok bool) {
	bind, hasBind := r.stored(experiment, string(platform.StorageBind))
	layer, hasLayer := r.stored(experiment, string(platform.StorageLayer))
	return bind, layer, hasBind && hasLayer
}

// Parts are the charts and tables of a run.
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

// writes are S4.5's: a table without fsync, and one with it.
func (r reading) writes() []report.Part {
	conditions := r.of(Write)
	var parts []report.Part
	for _, way := range []struct{ how, title, method string }{
		{flushed, "Time of a write to an open file, without fsync, µs", "The write ends in the kernel, as with flush() of Python, which S4 used. "},
		{synced, "Time of a write to an open file, with fsync, µs", "The write ends on the disk, as S4 says of its own. "},
	} {
		t := report.Table{
			Title: way.title,
			Note:  "Ratio: the layer against the mounted directory. S4 (published study of service latency) shows no difference at any size (figure 3.7).",
			Method: way.method + "A trial's value is the mean of the middle half of its writes; intervals are over blocks. " +
				"The file grows by each write, and is truncated when it is large.",
			Columns: []report.Column{{Head: "size"}},
		}
		for _, c := range conditions {
			storage := platform.Storage(c.Factors[factorStorage])
			t.Columns = append(t.Columns, report.Column{
				Head:     placeText(c),
				Number:   true,
				Optional: storage != platform.StorageBind && storage != platform.StorageLayer,
			})
		}
		bind, layer, paired := r.pair(Write)
		if paired {
			t.Columns = append(t.Columns,
				report.Column{Head: "ratio", Number: true}, report.Column{Head: "ratio of p99s", Number: true, Optional: true})
		}
		row := func(name, metric string) {
			cells := []report.Cell{{Text: name}}
			for _, c := range conditions {
				cells = append(cells, report.Estimated(r.Value(c, metric), perMicro))
			}
			if paired {
				cells = append(
					cells,
					report.Estimated(r.against(bind, layer, metric), 1),
					report.Estimated(r.Row(layer, metric+p99).Ratio, 1),
				)
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

// measured reports whether some condition has a figure.
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
		Title: "Time to open a file, µs",
		Note:  "Ratio: against the mounted directory. First: the first opening in a container. S4 says over 20 % slower in the layer (figure 3.8).",
		Method: "One file of the image is opened for reading, again and again; the value is the mean of the middle half. " +
			"Openings for writing are of a file that is copied up already. A new file is created and closed.",
		Columns: []report.Column{
			{Head: "storage"},
			{Head: "for reading", Number: true},
			{Head: "ratio", Number: true},
			{Head: "mean", Number: true, Optional: true},
			{Head: "p99", Number: true, Optional: true},
			{Head: "first", Number: true},
			{Head: "for writing", Number: true, Optional: true},
			{Head: "new file", Number: true},
		},
	}
	for _, c := range conditions {
		ratio := report.Cell{Text: "baseline", Tone: report.Faint}
		if c.ID != bind.ID {
			ratio = report.Estimated(r.against(bind, c, open), 1)
		}
		micros := func(metric string) report.Cell { return report.Estimated(r.Value(c, metric), perMicro) }
		t.Rows = append(t.Rows, []report.Cell{
			{Text: placeText(c)}, micros(open), ratio, micros(open + mean), micros(open + p99),
			micros(openFirst), micros(openWrite), micros(create),
		})
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
		Title:  "Time of the first opening for writing (copy-up), µs",
		Method: "Geometric means over the files of a size, each opened once in a container. The first write and the second opening are in the layer, after the copy.",
		Columns: []report.Column{
			{Head: "size"}, {Head: "layer", Number: true}, {Head: "mounted directory", Number: true},
			{Head: "copied, MB/s", Number: true, Optional: true}, {Head: "first write", Number: true, Optional: true},
			{Head: "second opening", Number: true},
		},
	}
	chart := report.Chart{
		Title: "First opening for writing, by file size",
		Note:  "In the layer, the whole file is copied before the first opening returns. S4 says: the larger the file, the longer.",
		X:     report.Axis{Label: "file", Unit: "KB", Log: true}, Y: report.Axis{Label: "opening", Unit: "µs", Log: true},
	}
	lines := []report.Series{
		{Name: "layer, first", Group: "layer"}, {Name: "layer, second", Group: "layer", Dashed: true},
		{Name: "mounted directory, first", Group: "bind"},
	}
	for _, size := range image.FilesLowerSizes {
		name := label(size.Bytes)
		first, second := r.Value(layer, firstOpen+"-"+name), r.Value(layer, secondOpen+"-"+name)
		there := r.Value(bind, firstOpen+"-"+name)
		// The opening itself takes as long as that of a copied file.
		speed := float64(size.Bytes) / (first.Value - second.Value) * 1e3
		t.Rows = append(t.Rows, []report.Cell{
			{Text: bytesText(size.Bytes)},
			report.Estimated(first, perMicro),
			report.Estimated(there, perMicro),
			report.Measured(speed),
			report.Estimated(r.Value(layer, firstWrite+"-"+name), perMicro),
			report.Estimated(second, perMicro),
		})
		at := float64(size.Bytes) / (1 << 10)
		chart.X.Ticks = append(chart.X.Ticks, at)
		for i, e := range []stats.Estimate{first, second, there} {
			if e.Value == e.Value {
				lines[i].Points = append(lines[i].Points, report.At(at, e, perMicro))
			}
		}
	}
	chart.Series = lines
	return []report.Part{chart, t}
}

// walks is S4.7's.
func (r reading) walks() []report.Part {
	walks, flat := r.byLayers(Walk, false), r.byLayers(Walk, true)
	if len(walks) == 0 || !r.measured(walks, walk) {
		return nil
	}
	one := walks[0]
	t := report.Table{
		Title: "Time of a walk over a directory tree, ms",
		Note:  "Ratio: against one layer. Every layer has the tree, and the uppermost hides the others. S4 shows nearly a straight line from 1 to 32 layers (figure 3.9).",
		Method: fmt.Sprintf("As ls -R: %d directories are opened and read, with %d files. The value is the mean of the middle half of a trial's walks; S4 took means of 100 walks. "+
			"The first walk looks up every directory in all layers, and is not in the other columns.", image.FilesTreeDirectories+1, image.FilesTreeFiles),
		Columns: []report.Column{
			{Head: "image"}, {Head: "walk", Number: true}, {Head: "ratio", Number: true}, {Head: "mean", Number: true, Optional: true},
			{Head: "first", Number: true, Optional: true}, {Head: "per entry and layer, µs", Number: true, Optional: true},
		},
	}
	row := func(name string, c record.Condition, of int) {
		ratio := report.Cell{Text: "baseline", Tone: report.Faint}
		if c.ID != one.ID {
			ratio = report.Estimated(r.against(one, c, walk), 1)
		}
		millis := func(metric string) report.Cell { return report.Estimated(r.Value(c, metric), perMilli) }
		t.Rows = append(t.Rows, []report.Cell{
			{Text: name}, millis(walk), ratio, millis(walk + mean), millis(walkFirst),
			report.Measured(r.Value(c, walk).Value * perMicro / float64(entries*of)),
		})
	}
	chart := report.Chart{
		Title: "Time of a walk, by number of layers",
		X:     report.Axis{Label: "layers with the tree"}, Y: report.Axis{Label: "walk", Unit: "ms"},
	}
	layered := report.Series{Name: "walk", Group: "layers"}
	for _, c := range walks {
		row(report.Counted(layers(c), "layer"), c, layers(c))
		if v := r.Value(c, walk); v.Value == v.Value {
			layered.Points = append(layered.Points, report.At(float64(layers(c)), v, perMilli))
		}
	}
	chart.Series = append(chart.Series, layered)
	if line := r.line(walks); line.Slope.Value == line.Slope.Value {
		fit := report.Series{Name: "fitted", Group: "layers", Dashed: true}
		for _, c := range []record.Condition{one, walks[len(walks)-1]} {
			at := float64(layers(c))
			fit.Points = append(
				fit.Points,
				report.Point{X: at, Y: (line.Intercept.Value + at*line.Slope.Value) * perMilli},
			)
		}
		chart.Series = append(chart.Series, fit)
		chart.Note = fmt.Sprintf("Each layer adds %s ms.", report.Said(line.Slope, perMilli))
		chart.Method = fmt.Sprintf("The line is fitted in each block; its intercept is %s ms. It leaves %s %% of the variance between numbers of layers.",
			report.Said(line.Intercept, perMilli), report.Said(line.Left, 100))
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
	if len(layered.Points) > 1 {
		return []report.Part{chart, t}
	}
	return []report.Part{t}
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
		Title: "Size of an image before and after flattening, and time to flatten it",
		Note:  "S4's image was Ubuntu and a tree of the sources of Linux.",
		Method: "A container's files are exported, and imported as an image of one layer. Sizes are those that the engine reports. The time does not include creating the container or loading the image. " +
			"Walks that repay it: the time over what a walk gains, for an image that is flattened when it is first used.",
		Columns: []report.Column{
			{Head: "image"}, {Head: "layers before", Number: true, Optional: true}, {Head: "size before", Number: true},
			{Head: "size after", Number: true}, {Head: "layers after", Number: true, Optional: true}, {Head: "time, s", Number: true},
			{Head: "walks that repay it", Number: true},
		},
	}
	for _, c := range flat {
		t.Rows = append(t.Rows, []report.Cell{
			{Text: report.Counted(layers(c), "layer")}, report.Measured(r.covariate(c, layersBefore)),
			bytes(r.covariate(c, bytesBefore)), bytes(r.covariate(c, bytesAfter)),
			report.Measured(r.covariate(c, layersAfter)), report.Estimated(r.Value(c, flattening), 1),
			report.Estimated(r.repaid(c), 1),
		})
	}
	t.Rows = append(t.Rows, []report.Cell{
		{Text: "S4, 32 layers", Tone: report.Faint}, report.Absent(), published("size, 32 layers"), published("size, flattened"),
		report.Absent(), published("time to flatten"), report.Absent(),
	}, []report.Cell{
		{Text: "S4, 1 layer", Tone: report.Faint}, report.Absent(), published("size, one layer"), report.Absent(),
		report.Absent(), published("time to flatten"), report.Absent(),
	})
	return []report.Part{t}
}

// repaid is how many walks save the time that flattening took. It is what S4 left for later: an image that
// is flattened when it is first used makes that use wait once. It is absent where a block has no saving.
func (r reading) repaid(flat record.Condition) stats.Estimate {
	all := r.byLayers(Walk, false)
	i := slices.IndexFunc(all, func(c record.Condition) bool { return layers(c) == layers(flat) })
	if i < 0 {
		return stats.Absent(r.Report.Level)
	}
	slow, fast, repaid := r.PerBlock(all[i], walk), r.PerBlock(flat, walk), map[int]float64{}
	for block, seconds := range r.PerBlock(flat, flattening) {
		saved := slow[block] - fast[block]
		if !(saved > 0) || fast[block] == 0 {
			return stats.Absent(r.Report.Level)
		}
		repaid[block] = seconds * 1e9 / saved
	}
	return r.Mean(repaid)
}

// since lists the differences from the published measurements.
func (r reading) since() report.Prose {
	driver := "The engine does not report its storage driver; S4 had AUFS. "
	if d := r.driver(); d != "" {
		driver = "The storage driver is " + d + "; S4 had AUFS, which Linux never included and Docker has removed. "
	}
	return report.Prose{
		Title: "Differences from S4's measurements",
		Text: driver + "Overlay caches the names that it has looked up, so a second opening does not search the layers again. " +
			"A directory that is in several layers is merged again each time that it is opened and read. " +
			"Both copy a file whole on its first opening for writing. Where the file system below can share blocks (reflinks of XFS and Btrfs), " +
			"the kernel does that instead, and the time hardly grows with the size.\n\n" +
			"Files that are read are in the host's page cache, and each trial has its own container. " +
			"The program is in C. S4's was in Python, whose own time is in each operation and makes ratios smaller. " +
			fmt.Sprintf("The tree has %d files in %d directories; S4's had 53.9 MB. ", image.FilesTreeFiles, image.FilesTreeDirectories) +
			"Python's flush() only passes data to the kernel; writes without and with fsync() are both measured.",
	}
}
