// Package record keeps what was measured: runs, conditions, trials, samples,
// histograms and the host, in one SQLite file, written as they arrive; and
// gives them out again.
//
// It computes nothing from samples (packages stats and overhead do) and prints
// nothing.
package record

import (
	"strings"
	"time"

	"tare/platform"
	"tare/workload"
)

// Run is all blocks of one invocation.
type Run struct {
	ID       string // "weigh-20260102-150405-7f3a": sortable, unique
	Study    string // "weigh"
	Command  []string
	Version  string // of tare
	Seed     int64
	Started  time.Time
	Finished time.Time // zero while it runs, or if it was killed
	Status   Status
	Reason   string // why it stopped as it did, one line
	Plan     Plan
	Host     Host

	Conditions []Condition
	Trials     []Trial // filled by Store.Run, in order of start
}

// Took is for how long a run went on, but for its pauses; 0 where it is not over.
func (r Run) Took() time.Duration {
	if r.Finished.IsZero() {
		return 0
	}
	return max(0, r.Finished.Sub(r.Started)-r.Plan.Paused)
}

// Status is how far a run came.
type Status string

// The states of a run.
const (
	Running     Status = "running"     // or killed: no live process holds it
	Complete    Status = "complete"    // every planned block, or the stop rule's word
	Interrupted Status = "interrupted" // by the user, a full disk, a killed engine; can be resumed
	Failed      Status = "failed"      // nothing comparable was measured
	Imported    Status = "imported"    // measured elsewhere
)

// Plan is how a run was to proceed; with Seed it determines every order.
type Plan struct {
	SmallestEffect float64       `json:"smallest_effect"`     // 0.02 is 2 %
	Level          float64       `json:"level"`               // of intervals: 0.95
	Blocks         int           `json:"blocks,omitempty"`    // fixed number, or 0
	Precision      float64       `json:"precision,omitempty"` // wanted half-width as a ratio (0.02), or 0
	Budget         time.Duration `json:"budget_ns,omitempty"` // for measuring, or 0
	PilotBlocks    int           `json:"pilot_blocks,omitempty"`
	// Code is the version of the code that measured (lab.Code). Runs of different ones are not
	// taken together.
	Code int `json:"code,omitempty"`
	// Design is how trials are laid out: [DesignRounds]; empty is [DesignBlocks].
	Design string `json:"design,omitempty"`
	// HostInUse tells that the host's other programs are part of what is compared: what they use
	// of its CPUs, and how long they wait for memory, is no disturbance.
	HostInUse      bool    `json:"host_in_use,omitempty"`
	FailAbove      float64 `json:"fail_above,omitempty"`       // worsening against the baseline that is not accepted (0.05), or 0
	StageTwoBlocks int     `json:"stage_two_blocks,omitempty"` // what Stein's second stage asked for
	// Targets are the blocks that the second stage asked for, by workload.
	Targets map[string]int `json:"targets,omitempty"`
	Notes   []string       `json:"notes,omitempty"` // conditions left out and why, and the like
	Ladder  bool           `json:"ladder,omitempty"`
	// Paused is for how long nothing was measured before the run was resumed, all times
	// together.
	Paused time.Duration `json:"paused_ns,omitempty"`
	// Resumed is when it was last: up to then, Paused is whole.
	Resumed time.Time `json:"resumed,omitzero"`
	// Imported says where the figures are from that were measured elsewhere; nil
	// where tare measured them.
	Imported *Import `json:"imported,omitempty"`
	// Rounds are the plans of the workloads that are measured by rounds of slices.
	Rounds map[string]RoundPlan `json:"rounds,omitempty"`
	// Blocked are the workloads that are measured by blocks, each with the reason why they
	// could not be measured by slices.
	Blocked map[string]string `json:"blocked,omitempty"`
	// Layers are the groups that were measured to find which layer of a container costs
	// what another group had found, by the name that they have as a workload.
	Layers map[string]LayerPlan `json:"layers,omitempty"`
	// Part is the study over several nodes that the run is a part of; nil of others.
	Part *Part `json:"part,omitempty"`
}

// LayerPlan is how the cost of one condition is divided among layers, on rounds that had
// no part in finding it.
type LayerPlan struct {
	Of        string `json:"of"`        // workload whose condition costs something
	Condition string `json:"condition"` // that condition
	Metric    string `json:"metric"`    // in which it costs most
	// Whole and Bare are the same condition and its baseline, in this group.
	Whole string `json:"whole"`
	Bare  string `json:"bare"`
	// Margin is the ratio-effect within which a remainder counts as nothing.
	Margin float64     `json:"margin"`
	Steps  []LayerStep `json:"steps"`
	// Absent are the layers that were not looked at, each with the reason.
	Absent []string `json:"absent,omitempty"`
}

// LayerStep compares two conditions that differ by one layer.
type LayerStep struct {
	Layer string `json:"layer"` // "the seccomp filter"
	// Without and With are the conditions.
	Without string `json:"without"`
	With    string `json:"with"`
	// Removed tells that With is the whole; else the layer is added to less than that.
	Removed bool `json:"removed,omitempty"`
}

// The designs.
const (
	// DesignRounds keeps the instances of all conditions up side by side, and loads them in
	// short slices, in turn.
	DesignRounds = "rounds"
	// DesignBlocks launches a fresh program for each trial.
	DesignBlocks = "blocks"
)

// InRounds tells whether a workload is measured by rounds of slices.
func (p Plan) InRounds(workload string) bool {
	_, blocked := p.Blocked[workload]
	return p.Design == DesignRounds && !blocked
}

// RoundPlan is how the rounds of one workload proceed. The pilot decides it for all
// conditions, before the first slice that counts.
type RoundPlan struct {
	Slice  time.Duration `json:"slice_ns,omitempty"`  // length of a slice; 0 where a slice is one execution
	Settle time.Duration `json:"settle_ns,omitempty"` // load after a thaw that is left out of the slice
	Warm   time.Duration `json:"warm_ns,omitempty"`   // load of each part after a launch, before anything counts
	Strips int           `json:"strips,omitempty"`    // in a round, of each part
	Pilot  int           `json:"pilot,omitempty"`     // rounds of the pilot
	// InPairs tells that a round has the baseline and one other condition, which take
	// turns: all together need too much memory.
	InPairs bool          `json:"in_pairs,omitempty"`
	Long    time.Duration `json:"long_ns,omitempty"` // length of the slices that are controls "long"
	// VarianceOfStrips is that of the log ratio of one strip, its correlation with its
	// neighbours included; VarianceOfRounds is what rounds add to it, and may be negative.
	// Both are the pilot's; nil: unknown.
	VarianceOfStrips *float64 `json:"variance_of_strips,omitempty"`
	VarianceOfRounds *float64 `json:"variance_of_rounds,omitempty"`
	// CostOfStrip is the time that one more strip takes; CostOfRound that of a round
	// without its strips: launches, warm-up, stops.
	CostOfStrip time.Duration `json:"cost_of_strip_ns,omitempty"`
	CostOfRound time.Duration `json:"cost_of_round_ns,omitempty"`
	// Rate is the slowest condition's rate at saturation, per second, by part.
	Rate map[string]float64 `json:"rate,omitempty"`
}

// Import is what is known of figures that were measured elsewhere.
type Import struct {
	Format  string   `json:"format"`            // "csv"
	Sources []Source `json:"sources,omitempty"` // in the order in which they were read
	// Paired says that the values of one number belong together under all conditions:
	// they were made together, or alike. Where it is false nothing pairs them, whatever
	// their numbers.
	Paired bool `json:"paired,omitempty"`
	// Unjudged says why no verdict can rest on figures that vary, as far as reading them
	// shows, and what would mend it: "not interleaved: ..."; empty where one can.
	Unjudged string `json:"unjudged,omitempty"`
	// UnjudgedOf are the conditions, by ID, whose comparisons that is about, each with its
	// reason: a word of Unjudged before a colon. Nil is all of them.
	UnjudgedOf map[string]string `json:"unjudgedOf,omitempty"`
	// FewProcesses are the conditions, by ID, whose repetitions may be of too few processes to
	// show that a count is exact: it may be the same within one process alone.
	FewProcesses []string `json:"fewProcesses,omitempty"`
	// Order is the order in which conditions were measured, as reported: "one after
	// the other"; empty where it is not.
	Order string `json:"order,omitempty"`
	// Host is the machine as reported; empty where it is not.
	Host string `json:"host,omitempty"`
}

// Reasons why no verdict can rest on figures that vary.
const (
	NotInterleaved       = "not interleaved"
	DependentRepetitions = "dependent repetitions"
)

// Why is the reason for which no verdict can rest on a condition's figures that vary; empty
// where one can.
func (i *Import) Why(condition string) string {
	if i == nil || i.Unjudged == "" {
		return ""
	}
	if i.UnjudgedOf != nil {
		return i.UnjudgedOf[condition]
	}
	why, _, _ := strings.Cut(i.Unjudged, ":")
	return why
}

// Source is a file that figures were read from.
type Source struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// Unpaired tells whether nothing pairs the values that two conditions have in a
// block: a block is then a number of a repetition and no more.
func (p Plan) Unpaired() bool { return p.Imported != nil && !p.Imported.Paired }

// Condition is platform + setting + workload parameters.
type Condition struct {
	ID       string // unique within the run, stable between runs of the same design: "redis@docker,network=bridge"
	Label    string // ID without what all conditions of the workload share: "docker network=bridge"
	Workload string
	Params   workload.Params
	Platform string
	Setting  platform.Setting
	// Factors are the levels of the study's own factors, which are neither the
	// platform's nor the program's: rate=4.
	Factors  map[string]string
	Baseline bool
	Metrics  []workload.Metric
	Image    string // digest
	ImageRef string // name for people
	Packages []string
	Version  string // of the platform: "runc 1.1.5"
	// Process is how the program is executed; nil where a study launches something else.
	Process *platform.Process
	// InForce is what the kernel reported in the first trial.
	InForce *platform.InForce
	// NotRepresentative says why figures of this condition do not carry over
	// (an emulated virtual machine); empty where they do.
	NotRepresentative string
}

// MadeAgain in place of an attempt is of a trial that was tainted and made again within its
// block: it is kept, and counts for nothing. Older runs have the whole block repeated instead,
// as another attempt.
const MadeAgain = 0

// Trial is one execution under one condition.
type Trial struct {
	ID        int64
	Condition string
	Workload  string
	Block     int // from 1; 0 is the warm-up
	Attempt   int // at the block, from 1; above 1 after an interruption; [MadeAgain]
	Position  int // within the block, from 0
	Replicate int // 0, or 1 for the baseline's second execution (A/A)
	Started   time.Time
	Elapsed   time.Duration
	Taint     []string // causes outside the experiment: "steal 7.1 %"
	Error     string   // why it yielded nothing; empty where it is valid
	Samples   []Sample
	// Histograms by name; values in microseconds.
	Histograms map[string]Histogram
	// Surroundings of the trial: load, steal, foreign CPU, launch time, and
	// what else may explain it.
	Covariates map[string]float64
	// Attachments are what the trial yielded besides numbers. Store.Run gives
	// their names and types alone; Store.Attachment gives one whole.
	Attachments []Attachment
	// Slices are what was measured on the instance, where a round launched it: in the
	// order in which they were kept.
	Slices []Slice
}

// Slice is one stretch of load on a trial's program, or the one execution of a program
// that runs to its end. A trial with slices is an instance: its Block is the round, its
// Position the place in the order of launch.
type Slice struct {
	Strip    int    // within the round, from 1
	Position int    // within the strip, from 0
	Previous string // the condition that was measured just before; empty for none
	Part     string // what it measured: "get"
	Control  string // empty; or ControlAlone or ControlLong: in no estimate
	Started  time.Time
	Window   time.Duration // in which Amount was counted; above 0
	Amount   float64       // operations, bytes or executions within Window
	CPU      time.Duration // of the program and its attendants, for Worked; negative: unknown
	Worked   float64       // operations that CPU paid for: with those of the ramp and the drain
	Load     time.Duration // CPU time of the load generator, for Worked; negative: unknown
	// Steal and Foreign are shares of the host's CPU time, 0 to 1: what the hypervisor
	// withheld, and what other programs used. Not a number: unknown.
	Steal, Foreign float64
	Taint          []string // causes outside the experiment
	// Histogram holds latencies from the intended start, in microseconds; empty where the
	// part has none.
	Histogram Histogram
}

// The controls: slices that are measured apart, to find what slicing itself changes.
const (
	ControlAlone = "alone" // the baseline with no other instance up
	ControlLong  = "long"  // the baseline with longer slices
)

// TrialSlice is a slice with the trial that it belongs to.
type TrialSlice struct {
	Trial int64
	Slice Slice
}

// Attachment is a profile, a time line, or the like: bytes for another program
// or for a page.
type Attachment struct {
	Name      string // unique within its trial: "cpu.pprof"
	MediaType string // "application/json"; as RFC 6838 has it
	Data      []byte
}

// Sample is one value of one metric.
type Sample struct {
	Metric string
	Value  float64
}

// Histogram is an HdrHistogram in its V2 compressed encoding (base64), so that
// any HdrHistogram library reads it.
type Histogram string

// Host is what is known of the machine; the fingerprint that makes two runs comparable.
type Host struct {
	Hostname string `json:"hostname"`
	Machine  string `json:"machine,omitempty"` // a hash of its /etc/machine-id
	Kernel   string `json:"kernel"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	CPUModel string `json:"cpu_model"`
	CPUs     int    `json:"cpus"`
	SMT      string `json:"smt"`
	Governor string `json:"governor"`
	Memory   int64  `json:"memory"`
	Swap     int64  `json:"swap"`
	Cgroup   string `json:"cgroup"` // "v1", "v2", "hybrid (controllers on v1)"
	THP      string `json:"thp"`
	// Generations is /sys/kernel/mm/lru_gen/enabled: pages are sorted into generations
	// unless it is empty or "0x0000".
	Generations string            `json:"lru_gen,omitempty"`
	KSM         string            `json:"ksm"`
	Virtual     string            `json:"virtual"` // hypervisor, or "none"
	LSM         string            `json:"lsm"`
	Mitigated   map[string]string `json:"mitigations"`
	Versions    map[string]string `json:"versions"` // of docker, containerd, runc, crun
	CmdLine     string            `json:"cmdline,omitempty"`
	FS          string            `json:"fs"` // file system of the state directory
}
