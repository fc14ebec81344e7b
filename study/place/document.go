package place

import (
	"time"

	"tare/kernel/cgroup"
	"tare/platform"
	"tare/probe/bursts"
	"tare/record"
	"tare/stats"
)

// Schema names the layout of what `tare place --json` writes.
const Schema = "tare-place/1"

// Document is what was seen, proposed and done. Times are in seconds where they
// are named so and in microseconds where they are named so; shares of CPU time are in CPUs.
type Document struct {
	Schema     string             `json:"schema"`
	Host       record.Host        `json:"host"`
	Began      time.Time          `json:"began"`
	Seconds    float64            `json:"seconds"`
	Thresholds ThresholdsDocument `json:"thresholds"`
	Containers []SubjectDocument  `json:"containers"`
	Healthy    bool               `json:"healthy"`
	Victims    []string           `json:"victims"`
	Culprits   []string           `json:"culprits"`
	Apart      string             `json:"not_separable,omitempty"`
	Actions    []ActionDocument   `json:"actions"`
	Trials     []TrialDocument    `json:"trials,omitempty"`
	Stopped    string             `json:"stopped,omitempty"`
	Lost       uint64             `json:"lost"`
	// Weight is what the probe's programs took, in CPUs.
	Weight float64  `json:"probe_cpus"`
	Notes  []string `json:"notes,omitempty"`
}

// ThresholdsDocument are the thresholds that were in force.
type ThresholdsDocument struct {
	IdleShare         float64 `json:"idle_cpus"`
	IdleWakeups       float64 `json:"idle_wakeups_per_second"`
	Wakeups           float64 `json:"wakeups_per_second"`
	BurstMedianMicros float64 `json:"burst_p50_us"`
	BurstP99Micros    float64 `json:"burst_p99_us"`
	LowDemand         float64 `json:"low_demand"`
	LongBurstMicros   float64 `json:"long_burst_us"`
	LongShare         float64 `json:"long_share"`
	HighDemand        float64 `json:"high_demand_cpus"`
	WaitMicros        float64 `json:"wait_p99_us"`
	WaitShare         float64 `json:"wait_share"`
	FewestWaits       uint64  `json:"fewest_waits"`
}

// SubjectDocument is one container.
type SubjectDocument struct {
	Name      string    `json:"name"`
	Engine    string    `json:"engine"`
	ID        string    `json:"id"`
	Image     string    `json:"image"`
	Behaviour Behaviour `json:"behaviour"`
	Because   string    `json:"because"`
	CPUs      string    `json:"cpus"` // that it may use, list format
	Quota     string    `json:"quota"`
	Shares    int       `json:"shares"`
	Fixed     string    `json:"cpus_fixed_because,omitempty"`

	CPUTime           float64            `json:"cpu_time_cpus"`
	Wanted            float64            `json:"wanted_cpus"`
	Wakeups           float64            `json:"wakeups_per_second"`
	Unhindered        float64            `json:"wakeups_per_second_without_waits"`
	Switches          float64            `json:"switches_per_second"`
	Voluntary         float64            `json:"voluntary_share"`
	BurstMedianMicros float64            `json:"burst_p50_us"`
	BurstP99Micros    float64            `json:"burst_p99_us"`
	LongShare         float64            `json:"long_burst_share"`
	Waits             uint64             `json:"waits"`
	WaitMedianMicros  float64            `json:"wait_p50_us"`
	WaitP99Micros     float64            `json:"wait_p99_us"`
	Behind            map[string]float64 `json:"waited_behind"`           // shares of its waiting time
	Throttled         float64            `json:"throttled_periods_share"` // while it was watched
	ThrottledTime     float64            `json:"throttled_seconds"`
}

// ActionDocument is one thing that could be done.
type ActionDocument struct {
	Kind     Kind            `json:"kind"`
	Says     string          `json:"says"`
	Reason   string          `json:"reason"`
	Changes  []cgroup.Change `json:"changes"`
	Commands []string        `json:"commands"`
	Not      string          `json:"not_applied_because,omitempty"`
}

// TrialDocument is one action that was tried.
type TrialDocument struct {
	Kind    Kind             `json:"kind"`
	Kept    bool             `json:"kept"`
	Because string           `json:"because"`
	Windows []WindowDocument `json:"windows"`
	// Wait is the ratio of the p99s of the waits, Without and With these in
	// microseconds, Others the ratio of the CPU time of those that compute.
	Wait    *EstimateDocument `json:"wait_p99_ratio"`
	Without *EstimateDocument `json:"wait_p99_without_us"`
	With    *EstimateDocument `json:"wait_p99_with_us"`
	Others  *EstimateDocument `json:"others_cpu_time_ratio"`
	Fair    float64           `json:"others_fair_share_cpus"`
	// Each is every container that it concerns, by itself.
	Each []BesideDocument `json:"each,omitempty"`
}

// BesideDocument is what a trial did to one container that it concerns.
type BesideDocument struct {
	Name    string            `json:"name"`
	Suffers bool              `json:"suffers"`
	Fair    float64           `json:"fair_share_cpus"`
	Without float64           `json:"without_cpus"`
	With    float64           `json:"with_cpus"`
	Wait    *EstimateDocument `json:"wait_p99_ratio"` // null for those that do not answer
	Harm    string            `json:"harm,omitempty"`
}

// EstimateDocument is a figure with its interval; null where it is not known.
type EstimateDocument struct {
	Value  float64 `json:"value"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Level  float64 `json:"level"`
	N      int     `json:"n"`
	Method string  `json:"method"`
}

// WindowDocument is one window.
type WindowDocument struct {
	Pair          int     `json:"pair"`
	With          bool    `json:"with"`
	Seconds       float64 `json:"seconds"`
	Waits         uint64  `json:"waits"`
	WaitP99Micros float64 `json:"wait_p99_us"`
	BehindMillis  float64 `json:"waited_behind_ms_per_second"`
	Wakeups       float64 `json:"wakeups_per_second"`
	Critical      float64 `json:"critical_cpus"`
	Others        float64 `json:"others_cpus"`
}

// NewDocument is the document of what was seen, of what could be done, and, where it
// was tried, of what came of it.
func NewDocument(w *Watched, p *Proposal, a *Applied, on record.Host) Document {
	t := w.Thresholds
	d := Document{
		Schema: Schema, Host: on, Began: w.Began.UTC(), Seconds: w.Span.Seconds(),
		Thresholds: ThresholdsDocument{
			t.IdleShare, t.IdleWakeups, t.Wakeups, micros(t.BurstMedian), micros(t.BurstP99), t.LowDemand,
			micros(t.LongBurst), t.LongShare, t.HighDemand, micros(t.Wait), t.WaitShare, t.FewestWaits,
		},
		Healthy: p.Healthy(), Victims: w.names(p.Victims), Culprits: w.names(p.Culprits), Apart: p.Apart,
		Actions: []ActionDocument{}, Lost: w.Lost, Weight: w.Weight.Time.Seconds() / w.Span.Seconds(), Notes: w.Notes,
	}
	for _, s := range w.Subjects {
		d.Containers = append(d.Containers, w.document(s))
	}
	for _, action := range p.Actions {
		ad := ActionDocument{
			Kind: action.Kind, Says: action.Says, Reason: action.Reason, Not: action.Not,
			Changes: []cgroup.Change{}, Commands: action.Commands,
		}
		for _, c := range action.Changes {
			ad.Changes = append(ad.Changes, c.Changes...)
		}
		d.Actions = append(d.Actions, ad)
	}
	if a == nil {
		return d
	}
	if a.Stopped != nil {
		d.Stopped = a.Stopped.Error()
	}
	for _, trial := range a.Trials {
		d.Trials = append(d.Trials, trial.document())
	}
	return d
}

func (w *Watched) document(s *Subject) SubjectDocument {
	e := s.Evidence
	d := SubjectDocument{
		Name:              s.Container.Name,
		Engine:            string(s.Container.Engine),
		ID:                s.Container.ID,
		Image:             s.Container.Image,
		Behaviour:         s.Behaviour,
		Because:           s.Why,
		CPUs:              list(s.CPUs),
		Quota:             s.Bandwidth.String(),
		Shares:            s.Shares,
		Fixed:             s.Bound,
		CPUTime:           e.Share,
		Wanted:            e.Wanted,
		Wakeups:           e.Wakeups,
		Unhindered:        e.Unhindered,
		Switches:          e.Switches,
		Voluntary:         e.Voluntary,
		BurstMedianMicros: micros(e.BurstMedian),
		BurstP99Micros:    micros(e.BurstP99),
		LongShare:         e.LongShare,
		Waits:             e.Waits,
		WaitMedianMicros:  micros(e.WaitMedian),
		WaitP99Micros:     micros(e.WaitP99),
		Behind:            map[string]float64{},
		Throttled:         s.Throttling.share(),
		ThrottledTime:     s.Throttling.time.Seconds(),
	}
	for i, share := range s.Behind {
		d.Behind[w.who(i)] += share
	}
	return d
}

// who names whom somebody waited behind, for scripts.
func (w *Watched) who(i int) string {
	switch i {
	case bursts.Others:
		return "others"
	case bursts.Kernel:
		return "kernel"
	case bursts.Nobody:
		return "nobody"
	case bursts.Quota:
		return "quota"
	case bursts.Unknown:
		return "unknown"
	}
	return "container:" + w.Subjects[i].Container.Name
}

func (w *Watched) names(of []int) []string {
	names := []string{}
	for _, i := range of {
		names = append(names, w.Subjects[i].Container.Name)
	}
	return names
}

func (t Trial) document() TrialDocument {
	d := TrialDocument{Kind: t.Kind, Kept: t.Kept, Because: t.Why, Windows: []WindowDocument{}, Fair: t.Fair}
	for _, w := range t.Windows {
		d.Windows = append(d.Windows, WindowDocument{
			Pair:          w.Pair + 1,
			With:          w.With,
			Seconds:       w.Span.Seconds(),
			Waits:         w.Waits.Count(),
			WaitP99Micros: micros(w.Waits.Quantile(0.99)),
			BehindMillis:  w.Behind.Seconds() * 1e3,
			Wakeups:       w.Wakeups,
			Critical:      w.Critical,
			Others:        w.Others,
		})
	}
	if t.Why != "" {
		const toMicros = 1e-3
		d.Wait, d.Others = estimate(t.Wait, 1), estimate(t.Others, 1)
		d.Without, d.With = estimate(t.Without, toMicros), estimate(t.With, toMicros)
		for _, b := range t.Each {
			bd := BesideDocument{
				Name:    b.Name,
				Suffers: b.Suffers,
				Fair:    b.Fair,
				Without: b.Without,
				With:    b.With,
				Harm:    b.Harm,
			}
			if b.Answers {
				bd.Wait = estimate(b.Wait, 1)
			}
			d.Each = append(d.Each, bd)
		}
	}
	return d
}

func estimate(e stats.Estimate, scale float64) *EstimateDocument {
	if !e.Known() {
		return nil
	}
	return &EstimateDocument{
		e.Value * scale,
		e.Interval.Low * scale,
		e.Interval.High * scale,
		e.Interval.Level,
		e.N,
		e.Method,
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func list(cpus []int) string { return platform.FormatCPUList(cpus) }
