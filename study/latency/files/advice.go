package files

import (
	"fmt"

	"tare/advise"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/kit"
)

// Advice is what a run recommends, with its evidence. The rules are S4's. Each is
// given where the run shows that it helps on this host.
func Advice(run record.Run) []advise.Advice {
	r := read(run).together(4) // each rule rests on one ratio
	var all []advise.Advice
	for _, rule := range []func() (advise.Advice, bool){r.keepOpen, r.addNotModify, r.fewLayers, r.writeElsewhere} {
		if a, ok := rule(); ok && a.Holds() {
			all = append(all, a)
		}
	}
	return all
}

// worthIt is the least that advice must change: a fifth, S4's own measure.
const worthIt = 1.2

// keepOpen: an opening costs more in the layer than a write does.
func (r reading) keepOpen() (advise.Advice, bool) {
	bind, layer, ok := r.pair(Open)
	if !ok {
		return advise.Advice{}, false
	}
	ratio := r.against(bind, layer, open)
	if !ratio.Known() || ratio.Interval.Low < worthIt {
		return advise.Advice{}, false
	}
	return advise.Advice{
		Rule: "keep-files-open", Source: "S4", Set: "keep files open, or put them in a mounted directory (--volume)",
		Setting: advise.DataVolume,
		For:     "programs that open files of the image often",
		Evidence: []advise.Evidence{
			kit.Evidence(r.Run, "opening in the layer, against a mounted directory", "times", ratio, bind, layer),
			kit.Evidence(r.Run, "one opening in the layer", "us", scaled(r.Value(layer, open), perMicro), layer),
		},
	}, true
}

// addNotModify: the first opening for writing copies the file.
func (r reading) addNotModify() (advise.Advice, bool) {
	_, layer, ok := r.pair(CopyUp)
	if !ok {
		return advise.Advice{}, false
	}
	_, largest := copyUpEnds()
	first, second := firstOpen+"-"+label(largest), secondOpen+"-"+label(largest)
	ratio := r.growth(layer, second, first)
	if !ratio.Known() || ratio.Interval.Low < worthIt {
		return advise.Advice{}, false
	}
	return advise.Advice{
		Rule: "add-not-modify", Source: "S4", Set: "add files rather than modify those of the image; put modified files in a volume",
		Setting: advise.DataVolume,
		For:     "programs that write to large files of their image",
		Evidence: []advise.Evidence{
			kit.Evidence(r.Run, "first opening of "+bytesText(largest)+" for writing", "ms", scaled(r.Value(layer, first), perMilli), layer),
			kit.Evidence(r.Run, "first opening, against the second", "times", ratio, layer),
		},
	}, true
}

// fewLayers: each hidden copy of a directory makes a walk longer, and flattening
// removes them.
func (r reading) fewLayers() (advise.Advice, bool) {
	walks := r.byLayers(Walk, false)
	if len(walks) < 2 {
		return advise.Advice{}, false
	}
	one, most := walks[0], walks[len(walks)-1]
	ratio := r.against(one, most, walk)
	if !ratio.Known() || ratio.Interval.Low < worthIt {
		return advise.Advice{}, false
	}
	a := advise.Advice{
		Rule:   "few-layers",
		Source: "S4",
		Set:    "put each directory into one layer only; flatten an image with many layers (docker export, docker import)",
		For:    "programs that walk directories of the image",
		Unless: "images share layers with others",
		Evidence: []advise.Evidence{
			kit.Evidence(
				r.Run,
				fmt.Sprintf("walk over a tree in %s, against one layer", report.Counted(layers(most), "layer")),
				"times",
				ratio,
				one,
				most,
			),
		},
	}
	if flat := r.byLayers(Walk, true); len(flat) > 0 {
		of := flat[len(flat)-1]
		if back := r.against(one, of, walk); back.Known() {
			a.Evidence = append(a.Evidence, kit.Evidence(r.Run, "walk after flattening, against one layer", "times", back, one, of))
		}
	}
	return a, true
}

// writeElsewhere: small writes cost more in the layer. S4 found no difference.
func (r reading) writeElsewhere() (advise.Advice, bool) {
	bind, layer, ok := r.pair(Write)
	sizes := r.sizes(flushed)
	if !ok || len(sizes) == 0 {
		return advise.Advice{}, false
	}
	metric := flushed + "-" + label(sizes[0])
	ratio := r.against(bind, layer, metric)
	if !ratio.Known() || ratio.Interval.Low < worthIt {
		return advise.Advice{}, false
	}
	return advise.Advice{
		Rule: "batch-writes", Source: "tare", Set: "write more at a time, or to a volume",
		Setting: advise.DataVolume,
		For:     "programs that write little at a time to files in the layer",
		Evidence: []advise.Evidence{
			kit.Evidence(r.Run, "write of "+bytesText(sizes[0])+" in the layer, against a mounted directory", "times", ratio, bind, layer),
		},
	}, true
}

func scaled(e stats.Estimate, by float64) stats.Estimate {
	e.Value *= by
	e.Interval.Low, e.Interval.High = e.Interval.Low*by, e.Interval.High*by
	return e
}
