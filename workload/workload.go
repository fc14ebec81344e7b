// Package workload says what is weighed: a real program (or a service with
// its load), the image it lives in, its parameters, and the metrics that a
// trial of it yields. The registry holds the ones we ship; a YAML file or a
// command line makes the user's own.
//
// A workload knows nothing of platforms, settings or repetition: it is handed
// one running program ([Trial]) and drives it once.
package workload

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/image"
)

// Workload is a program that can be weighed.
type Workload interface {
	// Name is a short word: "redis".
	Name() string
	// Summary is one line for lists.
	Summary() string
	// Params are the parameters, with defaults.
	Params() []Param
	// Source says where its image comes from.
	Source() Source
	// Program says what to run. Params holds a value for every parameter; the
	// error names the parameter and what is allowed, and is the user's to mend.
	Program(p Params) (Program, error)
	// Metrics lists what a trial yields, the most important first: verdicts
	// and stopping rest on those marked Primary.
	Metrics(p Params) []Metric
	// Drive runs one trial on a program that has been launched: waits until it
	// is ready, loads it, and records each metric. It returns an error where
	// the trial is not valid; what was recorded before then is not used.
	Drive(ctx context.Context, t Trial) error
}

// Source says where a workload's image comes from. Exactly one of the first four
// fields is set.
type Source struct {
	Recipe  string // name of a recipe of package image
	Archive string // path of an OCI or docker archive
	Rootfs  string // path of a directory
	Image   string // reference known to a local engine
	// Layers above 1 ask for an image of so many layers, in which each but the
	// lowest is Repeated, a top directory of the image, once more
	// (image.Store.Layered).
	Layers   int
	Repeated string
	// Given, where not nil, are directories of the host that the image is given besides.
	Given *[]image.Given
}

// Param is a parameter of a workload.
type Param struct {
	Name    string
	Default string
	Doc     string // shape, unit, range
}

// Params are the values of a trial's parameters, by name.
type Params map[string]string

// Program is what a platform launches.
type Program struct {
	Args []string // the whole command; empty: the image's entry point, and Command after it
	// Command takes the place of the image's command; empty is the image's own.
	Command []string
	Env     []string // as platform.Spec's; over the image's, as the next two
	// Unrecorded names variables whose values are not written down, since they may be secrets.
	Unrecorded []string
	Dir        string
	User       string
	Ports      []int
	Data       []string // directories inside that it writes
	Shown      []Shown  // files and directories of the host that it reads
	// Service is true where the program runs until it is stopped; a batch
	// program ends by itself.
	Service bool
	// MemoryNeed is the least memory limit in bytes with which the program can
	// do its work; a smaller setting is refused before anything runs. 0: unknown.
	MemoryNeed int64
	// DiskNeed is what it writes below its data directories, in bytes, at most at
	// any moment; 0: little, or unknown.
	DiskNeed int64
	// Needs are the programs, by their absolute paths inside, without which the image
	// cannot run it: "/usr/bin/mpiexec". They are looked for before anything runs.
	Needs []string
}

// Shown is a file or directory of the host that a program sees inside, read-only.
type Shown struct {
	Source, Target string
	Directory      bool
}

// Record is an environment as it may be written down or shown.
func (p Program) Record(env []string) []string {
	shown := slices.Clone(env)
	for i, entry := range env {
		if name, _, set := strings.Cut(entry, "="); set && slices.Contains(p.Unrecorded, name) {
			shown[i] = name + "=(not recorded)"
		}
	}
	return shown
}

// Better is the direction of a metric.
type Better string

// The directions.
const (
	Higher Better = "higher"
	Lower  Better = "lower"
)

// Figure is what of a slice a metric is.
type Figure string

// The figures. Where a metric has none, its values are samples.
const (
	FigureRate    Figure = "rate"    // amount over window; the unit ends in "/s"
	FigureTime    Figure = "time"    // window over amount: of an execution; in "s"
	FigureCPU     Figure = "cpu"     // CPU time of an operation, or of an execution; in "us" or "s"
	FigureLatency Figure = "latency" // a quantile of the slices' histograms, from the intended start; in "us"
)

// Metric is something a trial yields: a value each trial, a histogram, or a figure of its slices.
type Metric struct {
	Name   string `json:"name"` // "get", "get-p99", "elapsed"
	Unit   string `json:"unit"` // "requests/s", "s", "B/s", "us": SI, spelled as golang.org/x/perf/benchunit does
	Better Better `json:"better"`
	Doc    string `json:"doc,omitempty"`
	// Primary metrics carry the verdict of a run.
	Primary bool `json:"primary,omitempty"`
	// Quantile, where not 0, makes the metric that quantile of the merged
	// histograms recorded under Histogram; no value of its own is recorded.
	Quantile  float64 `json:"quantile,omitempty"`
	Histogram string  `json:"histogram,omitempty"`
	// Count metrics may be zero and are compared as counts.
	Count bool `json:"count,omitempty"`
	// Part is which of the parts that slices measure it is of ("get"), and Figure is what of
	// a slice. Both are empty where it is not measured by slices.
	Part   string `json:"part,omitempty"`
	Figure Figure `json:"figure,omitempty"`
}

// counts are units of whole things, of which a program may have the same number each time,
// also for each operation ("allocs/op").
var counts = regexp.MustCompile(`^(?:B|bytes|allocs|allocations|instructions|cycles|faults|page-faults|syscalls|requests|errors|events|calls|objects|pages|lines)(?:/op)?$`)

// Counted tells whether a metric is in whole things, such as allocations, instructions or
// bytes. Of a unit that is unknown it does not: equal figures may be rounded ones.
func (m Metric) Counted() bool { return m.Count || counts.MatchString(m.Unit) }

// Exit is how a batch program ended.
type Exit struct {
	Code      int
	OOMKilled bool
	Elapsed   time.Duration
	CPU       time.Duration // user and system time of all its processes; negative where it could not be read
}

// Trial is one launched program, as its workload sees it.
type Trial interface {
	Params() Params
	// Address is where the program's port answers, seen from the host.
	Address(port int) string
	// Wait blocks until the program ends by itself.
	Wait(ctx context.Context) (Exit, error)
	// Output is what the program has printed so far, standard output and error
	// apart, at most 1 MiB of each (the end is kept).
	Output() (stdout, stderr []byte)
	// Generate runs a load program from the same image, in the load
	// generator's place, which is the same for every condition: beside the
	// host, from the image's root directory, first to die when memory ends.
	// It returns what it printed.
	Generate(ctx context.Context, args []string) (stdout []byte, err error)
	// Record keeps one value of a metric. Several values of one metric in one
	// trial are kept as they are and averaged (geometrically where all are
	// positive; counts arithmetically) for the comparison.
	Record(metric string, value float64)
	// RecordHistogram keeps a latency histogram, values in microseconds.
	RecordHistogram(name string, h *hdrhistogram.Histogram)
}
