package pages

import (
	"slices"
	"strings"

	"tare/overhead"
	"tare/record"
	"tare/stats"
)

// reading is a run as the judge and the page of this study read it.
type reading struct{ overhead.Reading }

func read(run record.Run) reading { return reading{overhead.Read(run)} }

// application is one of S1's, with what stands for it here.
type application struct {
	group      string // of ours: a workload with the parameters set
	published  string // its name in S1's figures
	service    bool   // has a steady state
	sequential bool   // walks its data in order: S1's figures of duplicated faults divide applications by it
	standIn    string // what it is where it is not what S1 ran
}

// applications are S1's, in its table's order.
var applications = []application{
	{group: "multimodel", service: true, published: "ArangoDB", standIn: "ArcadeDB for ArangoDB"},
	{group: "mapstore", service: true, published: "MongoDB", standIn: "a store of our own on LMDB for MongoDB"},
	{group: "httpd[access=serial]", service: true, published: "httpd", sequential: true},
	{group: "pagerank", service: true, published: "Graphchi", standIn: "PageRank of our own for Graphchi's"},
	{group: "fio", published: "FIO", service: true},
	{group: "hashing[access=dense]", published: "hashing dense", sequential: true},
	{group: "hashing[access=sparse]", published: "hashing sparse", sequential: true},
	{group: "uri-parser[access=dense]", published: "URI parser dense", sequential: true},
	{group: "uri-parser[access=sparse]", published: "URI parser sparse", sequential: true},
}

// of gives the application that a group of conditions is. Parameters that do not
// make the application (the size of its data) are passed over.
func applicationOf(group string) (application, bool) {
	name, params, _ := strings.Cut(strings.TrimSuffix(group, "]"), "[")
	for _, a := range applications {
		own, wanted, _ := strings.Cut(strings.TrimSuffix(a.group, "]"), "[")
		if own == name && (wanted == "" || slices.Contains(strings.Split(params, ","), wanted)) {
			return a, true
		}
	}
	return application{}, false
}

// found is one of S1's applications in a run.
type subject struct {
	application
	record.Condition
}

// set is what of its parameters was set besides those that make it the
// application, as "FIO with rate=200"; empty where nothing was.
func (f subject) set() string {
	_, params, _ := strings.Cut(strings.TrimSuffix(f.Workload, "]"), "[")
	_, own, _ := strings.Cut(strings.TrimSuffix(f.group, "]"), "[")
	more := slices.DeleteFunc(strings.Split(params, ","), func(p string) bool { return p == "" || p == own })
	if len(more) == 0 {
		return ""
	}
	return f.published + " with " + strings.Join(more, ", ")
}

// judged gives S1's applications, with address randomisation as S1 assumed it
// (off), or, where that was not measured, as it was.
func (r reading) judged() (all []subject, aslr string) {
	for _, level := range []string{aslrOff, aslrOn} {
		for _, c := range r.Run.Conditions {
			if a, ok := applicationOf(c.Workload); ok && c.Factors[factorASLR] == level {
				all = append(all, subject{a, c})
			}
		}
		if len(all) > 0 {
			return all, level
		}
	}
	return nil, ""
}

// mean is the mean over applications of a metric, over the blocks that all of
// those which have it share; of are those which have it.
func (r reading) mean(over []subject, value func(subject) map[int]float64) (e stats.Estimate, of []subject) {
	sums, counts := map[int]float64{}, map[int]int{}
	for _, f := range over {
		blocks := value(f)
		if len(blocks) == 0 {
			continue
		}
		of = append(of, f)
		for block, v := range blocks {
			sums[block] += v
			counts[block]++
		}
	}
	means := map[int]float64{}
	for block, sum := range sums {
		if counts[block] == len(of) {
			means[block] = sum / float64(len(of))
		}
	}
	if len(means) == 0 {
		return stats.Absent(r.Report.Level), of
	}
	return settled(r.Mean(means)), of
}

// settled gives an estimate of something counted that came out the same in
// every one of three blocks or more the interval that it has: none is made of a
// spread of nothing, since of a time that would be chance; of a count it is not.
func settled(e stats.Estimate) stats.Estimate {
	const fewest = 3
	if !e.Known() && e.N >= fewest && e.Value == e.Value {
		e.Interval.Low, e.Interval.High = e.Value, e.Value
	}
	return e
}

// metric is a metric's values by block, of a condition.
func (r reading) metric(name string) func(subject) map[int]float64 {
	return func(f subject) map[int]float64 { return r.PerBlock(f.Condition, name) }
}

// growth is how much larger a metric is in the steady state than at the start,
// in its own unit, by block.
func (r reading) growth(name string) func(subject) map[int]float64 {
	return func(f subject) map[int]float64 {
		before, after := r.PerBlock(f.Condition, atMoment(start, name)), r.PerBlock(f.Condition, atMoment(steady, name))
		grown := map[int]float64{}
		for block, v := range after {
			if b, ok := before[block]; ok {
				grown[block] = v - b
			}
		}
		return grown
	}
}

// services are those that have a steady state.
func services(of []subject) []subject {
	return slices.DeleteFunc(slices.Clone(of), func(f subject) bool { return !f.service })
}

// has reports whether a condition has a value of a metric.
func (r reading) has(c record.Condition, metric string) bool {
	v := r.Value(c, metric).Value
	return v == v
}

// atMoment is a metric of a census at a moment.
func atMoment(at moment, name string) string { return string(at) + "-" + name }

// generationsNote is what a page says of such a kernel.
const generationsNote = "generations: this kernel sorts pages into generations, not onto an active and an inactive list. " +
	"Active is what a page's flag says, which such a kernel hardly uses"

// generations reports whether the kernel sorts pages into generations, and not onto an
// active and an inactive list.
func generations(h record.Host) bool { return h.Generations != "" && h.Generations != "0x0000" }
