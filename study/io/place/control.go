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
// touches neither: whatever differs is the procedure's.
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
				if volume.Factors[FactorEngine] != bind.Factors[FactorEngine] || volume.Factors[FactorNetwork] != bind.Factors[FactorNetwork] {
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

// Verdict of the controls: how many have an interval, and how many of those do not
// hold 1. Of intervals of 95 %, one in twenty misses.
func Verdict(controls []Control) (told, missed int) {
	for _, c := range controls {
		if !c.Ratio.Known() {
			continue
		}
		told++
		if c.Ratio.Interval.Low > 1 || c.Ratio.Interval.High < 1 {
			missed++
		}
	}
	return told, missed
}

// Checked says in a sentence what the controls say of the procedure.
func Checked(controls []Control) string {
	told, missed := Verdict(controls)
	switch {
	case told == 0:
		return "Volume and bind mount were not both measured three times: nothing checks the procedure."
	case missed == 0:
		return fmt.Sprintf("The program touches no storage, so that volume and bind mount must not differ: none of %d intervals says that they do.", told)
	case float64(missed) <= 0.05*float64(told)+2*math.Sqrt(0.05*0.95*float64(told)):
		return fmt.Sprintf("The program touches no storage, so that volume and bind mount must not differ: %d of %d intervals say that they do, as many as chance has.", missed, told)
	}
	return fmt.Sprintf("The program touches no storage, and yet %d of %d intervals say that volume and bind mount differ: the procedure or the host separates what is equal, and other differences of this size are to be doubted.", missed, told)
}

// ControlPart is the table of the controls; nil where there are none.
func ControlPart(controls []Control) []report.Part {
	if len(controls) == 0 {
		return nil
	}
	t := report.Table{
		Title:   "Negative control: bind mount against volume",
		Note:    Checked(controls),
		Columns: []report.Column{{Head: "cell"}, {Head: "where"}, {Head: "metric"}, {Head: "ratio", Number: true}},
	}
	for _, c := range controls {
		t.Rows = append(t.Rows, []report.Cell{{Text: c.Workload}, {Text: c.where()}, {Text: c.Metric}, report.Estimated(c.Ratio, 1)})
	}
	return []report.Part{t}
}
