// Package place is what the studies of input and output share (S5's, Measuring the
// IO Overhead of Container Technology): where a program runs and its data lie, the
// cells of an experiment that are compared within, and the negative control.
//
// A cell is a workload with its parameters (a number of elements, ranks, a payload),
// and is a group of its own in a run: its baseline is bare metal, and its other
// conditions are places. Where a program touches no storage, a volume and a bind
// mount are the same to it: what is found between them is not theirs, but the
// procedure's.
package place

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"tare/lab"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/kit"
)

// Study is the studies' name, in the store.
const Study = "io"

// Paper is S5 at its first mention in a part of a page.
const Paper = "S5 (published study of input and output)"

// The studies.
const (
	Stream = "stream"
	Haccio = "haccio"
	Redis  = "redis"
)

// Factors of the conditions of all these studies. What was measured elsewhere and
// imported carries the same ones.
const (
	FactorOf      = "io"      // which of the studies
	FactorStorage = "storage" // Bare, or a platform.Storage
	FactorNetwork = "network" // a platform.Network; absent where it is not known
	FactorEngine  = "engine"  // the platform's name; absent where it is not known
	FactorFloor   = "floor"   // the program that shows what the device gives: "fio"
)

// FurtherEngines are those that S5 asks for as further work; a host need have neither.
var FurtherEngines = []string{"docker:rootless", "docker:swarm"}

// Bare is bare metal for a storage: a plain directory.
const Bare = "bare"

// Place is where a program runs and its data lie.
type Place struct {
	Platform string
	Storage  platform.Storage
	Network  platform.Network
	// AnyCPU is set where the platform cannot pin a program: it runs on all CPUs.
	AnyCPU bool
}

// Metal is bare metal.
var Metal = Place{Platform: Bare}

// Setting grants what the base grants, in the place.
func (p Place) Setting(base platform.Setting) platform.Setting {
	if p.AnyCPU {
		base.CPUSet = ""
	}
	base.Storage, base.Network = p.Storage, p.Network
	return base.Normal()
}

// Label names a place among others: "bare", "docker volume", "docker bind bridge".
func (p Place) Label() string {
	words := []string{p.Platform}
	if p.Platform != Bare {
		words = append(words, string(cmp.Or(p.Storage, platform.StorageLayer)))
	} else if p.Storage != "" && p.Storage != platform.StorageLayer {
		words = append(words, string(p.Storage))
	}
	if p.Network != "" && p.Network != platform.NetworkHost {
		words = append(words, string(p.Network))
	}
	return strings.Join(words, " ")
}

// Factors are the place's, as these studies' conditions have them.
func (p Place) Factors(of string) map[string]string {
	f := map[string]string{
		FactorOf: of, FactorStorage: Bare, FactorEngine: p.Platform,
		FactorNetwork: string(cmp.Or(p.Network, platform.NetworkHost)),
	}
	if p.Platform != Bare {
		f[FactorStorage] = string(cmp.Or(p.Storage, platform.StorageLayer))
	} else if p.Storage == platform.StorageTmpfs {
		f[FactorStorage] = string(p.Storage)
	}
	return f
}

// Cell is a factor and its level, in the order in which a group is named by them.
type Cell struct{ Factor, Level string }

// Group names the group of a cell: "stream[elements=1000000,processes=2]".
func Group(of string, cells ...Cell) string {
	parts := make([]string, len(cells))
	for i, c := range cells {
		parts[i] = c.Factor + "=" + c.Level
	}
	if len(parts) == 0 {
		return of
	}
	return of + "[" + strings.Join(parts, ",") + "]"
}

// Number is a whole level of a factor; 0 where a condition has none.
func Number(c record.Condition, factor string) int64 {
	n, err := strconv.ParseInt(c.Factors[factor], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Of names the study of a run; empty where it is none of these.
var Of = kit.NamedBy(FactorOf)

// Repeats is the word for the repetitions of a run.
func Repeats(run record.Run) string {
	if run.Plan.Imported != nil {
		return "repetitions"
	}
	return "blocks"
}

// Unknown is the answer of a run that has too few blocks: "what" is not known.
func Unknown(what string, run record.Run) string {
	return what + " is not known yet: an interval requires three " + Repeats(run) + "."
}

// Percent is an estimate in percent with its interval: "5.8 % (5.1 to 6.4)".
func Percent(e stats.Estimate, scale float64) string { return withUnit(e, scale, " %") }

// Micros is an estimate in microseconds with its interval.
func Micros(e stats.Estimate) string { return withUnit(e, 1, " µs") }

func withUnit(e stats.Estimate, scale float64, unit string) string {
	value, interval, known := strings.Cut(report.Said(e, scale), " (")
	if known {
		unit += " ("
	}
	return value + unit + interval
}

// Blocks is a number of blocks in words. Those of an imported run are repetitions: nothing
// says that they were made together.
func Blocks(run record.Run, n int) string {
	noun := strings.TrimSuffix(Repeats(run), "s")
	if n == 0 {
		return "no common " + noun
	}
	return report.Counted(n, noun)
}

// Host is what a design must know of the machine.
type Host struct {
	kit.Host
	// Server and Load are where a service runs, and where its load and tare do.
	Server, Load []int
}

// Mark marks a design as one of these studies'.
func Mark(of string, d lab.Design) lab.Design {
	d.Study = Study
	for i := range d.Groups {
		for j := range d.Groups[i].Conditions {
			c := &d.Groups[i].Conditions[j]
			if c.Factors == nil {
				c.Factors = map[string]string{}
			}
			c.Factors[FactorOf] = of
		}
	}
	return d
}

// Conditions are a group of a run, as the run has them.
type Conditions struct {
	Workload string
	All      []record.Condition
}

// Groups gives a run's groups of one of these studies, in its order.
func Groups(run record.Run, of string) []Conditions {
	var groups []Conditions
	for _, c := range run.Conditions {
		if c.Factors[FactorOf] != of {
			continue
		}
		at := slices.IndexFunc(groups, func(g Conditions) bool { return g.Workload == c.Workload })
		if at < 0 {
			at = len(groups)
			groups = append(groups, Conditions{Workload: c.Workload})
		}
		groups[at].All = append(groups[at].All, c)
	}
	return groups
}

// Baseline is the condition that the others are set against.
func (g Conditions) Baseline() (record.Condition, bool) {
	i := slices.IndexFunc(g.All, func(c record.Condition) bool { return c.Baseline })
	if i < 0 {
		return record.Condition{}, false
	}
	return g.All[i], true
}

// Stored gives the conditions on a storage that are no floors, those of the host's
// network first.
func (g Conditions) Stored(storage string) []record.Condition {
	var all []record.Condition
	for _, c := range g.All {
		if c.Factors[FactorStorage] == storage && c.Factors[FactorFloor] == "" {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b record.Condition) int { return cmp.Compare(bridged(a), bridged(b)) })
	return all
}

func bridged(c record.Condition) int {
	if n := c.Factors[FactorNetwork]; n != "" && n != string(platform.NetworkHost) {
		return 1
	}
	return 0
}
