package checkpoint

import (
	"fmt"

	"tare/advise"
	"tare/platform"
	"tare/record"
	"tare/stats"
)

// Advice is what a run recommends for storage, with its evidence.
func Advice(run record.Run) []advise.Advice {
	r := readRun(run)
	if r.imported() {
		return nil // nothing says that it holds here
	}
	r = r.together(2 * len(metrics) * len(r.modes()))
	var all []advise.Advice
	for _, rule := range []func() (advise.Advice, bool){r.outsideTheLayer, r.whichMount} {
		if a, ok := rule(); ok && a.Holds() {
			all = append(all, a)
		}
	}
	return all
}

// worthIt is the least that advice must change.
const worthIt = 1.05

// evidence is the ratio of two conditions' rates over the cells of a mode.
func (r reading) evidence(cells []measured, says string, a, b pick, metric string) advise.Evidence {
	e := advise.Evidence{Run: r.Run.ID, Says: says, Figure: r.ratio(cells, a, b, metric), Unit: "times"}
	for _, c := range having(cells, a, b) {
		from, _ := a(c)
		to, _ := b(c)
		e.Conditions = append(e.Conditions, from.ID, to.ID)
	}
	return e
}

// even gives a mode's cells, where all places read from the same.
func (r reading) even(m mode) []measured {
	if m.cache == uneven {
		return nil
	}
	return r.of(m)
}

// outsideTheLayer: a volume is faster than the container's own layer.
func (r reading) outsideTheLayer() (advise.Advice, bool) {
	layer, volume := on(platform.StorageLayer), on(platform.StorageVolume)
	for _, m := range r.modes() {
		cells := having(r.even(m), layer, volume)
		for _, metric := range metrics {
			e := r.evidence(cells, fmt.Sprintf("%s in a volume against the layer, %s", metric, m.text()), layer, volume, metric)
			if e.Figure.Known() && e.Figure.Interval.Low > worthIt {
				return advise.Advice{
					Rule: "checkpoints-outside-the-layer", Source: "tare",
					Set:     "put checkpoints into a volume or a mounted directory (--volume), not into the container's layer",
					Setting: advise.DataVolume,
					For:     "programs that write and read large files", Evidence: []advise.Evidence{e},
				}, true
			}
		}
	}
	return advise.Advice{}, false
}

// whichMount: volume and bind mount are the same to a checkpoint, whatever is published.
func (r reading) whichMount() (advise.Advice, bool) {
	volume, bind := on(platform.StorageVolume), on(platform.StorageBind)
	a := advise.Advice{
		Rule: "volume-or-bind-alike", Source: "tare", Set: "choose between volume and bind mount by who manages the data: neither is faster",
		For: "programs that write and read large files", Unless: "the two lie on different disks",
	}
	for _, m := range r.modes() {
		cells := having(r.even(m), volume, bind)
		for _, metric := range metrics {
			if len(cells) == 0 || m.memory {
				continue
			}
			e := r.evidence(cells, fmt.Sprintf("%s through a bind mount against a volume, %s", metric, m.text()), volume, bind, metric)
			if stats.EquivalentWithin(e.Figure, r.Report.SmallestEffect) {
				a.Evidence = append(a.Evidence, e)
			} else if smallest := r.Report.SmallestEffect; e.Figure.Known() &&
				(e.Figure.Interval.Low > 1+smallest || e.Figure.Interval.High < 1-smallest) {
				return a, false // somewhere one of them is
			}
		}
	}
	return a, len(a.Evidence) > 0
}
