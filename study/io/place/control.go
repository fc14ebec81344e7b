package place

import (
	"fmt"
	"math"
	"strings"

	"tare/overhead"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// Control is one comparison of a volume with a bind mount for a program that
// uses neither: a difference comes from the method or from chance.
type Control struct {
	Workload     string
	Volume, Bind record.Condition
	Metric       string
	Ratio        stats.Estimate // of the bind mount's value to the volume's
}

// where names the engine and the network of a comparison.
func (c Control) where() string {
	var words []string
	for _, factor := range []string{FactorEngine, FactorNetwork} {
		if level := c.Volume.Factors[factor]; level != "" && level != string(platform.NetworkHost) {
			words = append(words, level)
		}
	}
	return strings.Join(words, " ")
}

// Controls compares volume and bind mount in every cell, metric by metric, each
// engine and network apart.
func Controls(r overhead.Reading, groups []Conditions, metrics func(record.Condition) []string) []Control {
	var all []Control
	for _, g := range groups {
		for _, volume := range g.Stored(string(platform.StorageVolume)) {
			for _, bind := range g.Stored(string(platform.StorageBind)) {
				if volume.Factors[FactorEngine] != bind.Factors[FactorEngine] ||
					volume.Factors[FactorNetwork] != bind.Factors[FactorNetwork] {
					continue
				}
				for _, m := range metrics(volume) {
					ratio := r.Ratio(r.PerBlock(volume, m), r.PerBlock(bind, m))
					if ratio.Value == ratio.Value {
						all = append(all, Control{g.Workload, volume, bind, m, ratio})
					}
				}
			}
		}
	}
	return all
}

// count gives the number of controls that have an interval, and how many of those do not
// hold 1. Of intervals of 95 %, one in twenty misses.
func count(controls []Control) (intervals, missed int) {
	for _, c := range controls {
		if !c.Ratio.Known() {
			continue
		}
		intervals++
		if c.Ratio.Interval.Low > 1 || c.Ratio.Interval.High < 1 {
			missed++
		}
	}
	return intervals, missed
}

// checked says whether the controls found a difference where there is none.
func checked(controls []Control) string {
	const alike = "The program touches no storage, so volume and bind mount should not differ. "
	intervals, missed := count(controls)
	switch chance := 0.05 * float64(intervals); {
	case intervals == 0:
		return "Volume and bind mount were not both measured three times: nothing checks the method."
	case missed == 0:
		return alike + fmt.Sprintf("None of %d intervals shows a difference.", intervals)
	case float64(missed) <= chance+2*math.Sqrt(0.95*chance):
		return alike + fmt.Sprintf("%d of %d intervals show a difference, no more than chance explains.", missed, intervals)
	}
	return alike + fmt.Sprintf("Yet %d of %d intervals show a difference: doubt other differences of this size.", missed, intervals)
}

// ControlPart is the table of the controls; nil where there are none.
func ControlPart(controls []Control) []report.Part {
	if len(controls) == 0 {
		return nil
	}
	t := report.Table{
		Title:   "Negative control: bind mount against volume",
		Note:    checked(controls),
		Method:  "Ratio: the bind mount's value divided by the volume's.",
		Columns: []report.Column{{Head: "cell"}, {Head: "place"}, {Head: "metric"}, {Head: "ratio", Number: true}},
	}
	for _, c := range controls {
		t.Rows = append(t.Rows, []report.Cell{
			{Text: c.Workload}, {Text: c.where()}, {Text: c.Metric}, report.Estimated(c.Ratio, 1),
		})
	}
	return []report.Part{t}
}
