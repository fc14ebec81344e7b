package startup

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"slices"
	"time"

	"tare/kernel/kallsyms"
	"tare/lab"
	"tare/platform"
	"tare/platform/k8s"
	"tare/probe/sched"
	"tare/record"
	"tare/workload"
)

// phases in their order, and causes of waiting: the levels of a trace's metrics.
var (
	phases = []sched.PhaseName{
		sched.PhaseAccept, sched.PhasePrepare, sched.PhaseShim, sched.PhaseCreate, sched.PhaseInit, sched.PhaseExec,
		sched.PhaseApplication,
	}
	// podPhases are those that a kubelet's platform reports itself. Of their time it is not known what it went to.
	podPhases = k8s.Phases
	causes    = []sched.Cause{
		sched.RCU, sched.Memory, sched.Child, sched.Disk, sched.Lock, sched.Worker, sched.IPC, sched.Sleep, sched.Other,
	}
)

const (
	ofPhase   = "phase: "
	ofCause   = "waited for: "
	onCPU     = ", on CPU"
	forCPU    = ", waiting for a CPU"
	isBlocked = ", blocked"
	pathTotal = "path"
)

// traceMetrics are those of single starts that were traced: the time of each
// phase on the critical path and what it went to, means over a trial's starts.
func traceMetrics() []workload.Metric {
	micros := func(name, doc string) workload.Metric {
		return workload.Metric{Name: name, Unit: "us", Better: workload.Lower, Count: true, Doc: doc}
	}
	m := []workload.Metric{{Name: pathTotal, Unit: "us", Better: workload.Lower, Primary: true,
		Doc: "from the sending to readiness, or to the first instruction of what is no service"}}
	for _, p := range phases {
		m = append(m,
			micros(ofPhase+string(p), "time of the phase"),
			micros(ofPhase+string(p)+onCPU, "of it running"),
			micros(ofPhase+string(p)+forCPU, "of it able to run, and waiting for a CPU"),
			micros(ofPhase+string(p)+isBlocked, "of it blocked"))
	}
	for _, p := range podPhases {
		m = append(m, micros(ofPhase+p, "time of the phase"))
	}
	for _, c := range causes {
		m = append(m, micros(ofCause+string(c), "blocked on the critical path for "+string(c)))
	}
	m = append(m, micros(lostSamples, "events that were lost"))
	for _, l := range latencies {
		m = append(m, micros(l.name+"-mean", "mean time "+l.doc+", while traced"))
	}
	return append(m, workload.Metric{Name: failed, Unit: "starts", Better: workload.Lower, Count: true,
		Doc: "starts that failed"})
}

// tracing takes the single starts of one trial apart. They are traced one after
// another, by one goroutine.
type tracing struct {
	kernel   *kallsyms.Table
	seen     []traced
	reported []reported
	lost     uint64
}

// reported is a start whose phases the platform reports.
type reported struct {
	length time.Duration
	phases []platform.Phase
}

// traced is one start, taken apart.
type traced struct {
	Length   time.Duration  `json:"length_ns"`
	Phases   []tracedPhase  `json:"phases"`
	Segments []tracedMoment `json:"segments"`
}

// tracedPhase is a phase, from the sending.
type tracedPhase struct {
	Name     string                   `json:"name"`
	From     time.Duration            `json:"from_ns"`
	To       time.Duration            `json:"to_ns"`
	Running  time.Duration            `json:"running_ns"`
	Ready    time.Duration            `json:"ready_ns"`
	Blocked  time.Duration            `json:"blocked_ns"`
	Causes   map[string]time.Duration `json:"causes_ns,omitempty"`
	OnCPUsOf map[string]time.Duration `json:"components_ns,omitempty"`
}

// tracedMoment is a stretch of the critical path, from the sending.
type tracedMoment struct {
	From      time.Duration `json:"from_ns"`
	To        time.Duration `json:"to_ns"`
	Component string        `json:"component"`
	PID       int           `json:"pid"`
	TID       int           `json:"tid"`
	State     string        `json:"state"`
	Cause     string        `json:"cause,omitempty"`
	Function  string        `json:"function,omitempty"` // of the kernel, in which it waited
}

func (t *tracing) name(address uint64) string {
	if t.kernel == nil {
		return ""
	}
	if s, _, ok := t.kernel.Lookup(address); ok {
		return s.Name
	}
	return ""
}

func (t *tracing) begin(context.Context, lab.Bench) (func(*container, time.Time, timing) error, error) {
	recorder, err := sched.StartRecording()
	if err != nil {
		return nil, err
	}
	return func(c *container, origin time.Time, start timing) error {
		recording, err := recorder.Stop()
		if err != nil {
			return err
		}
		t.lost += recording.Lost
		if start.Failed != "" {
			return nil
		}
		if phased, ok := c.created.(platform.Phased); ok {
			t.reported = append(t.reported, reported{max(start.Answered, start.Ready) - start.Sent, phased.Phases()})
			return nil
		}
		if one, ok := t.takeApart(recording, c, origin, start); ok {
			t.seen = append(t.seen, one)
		}
		return nil
	}, nil
}

// takeApart finds the critical path of a start. It is false where the start's
// processes are not known (bare metal, where none names the container).
func (t *tracing) takeApart(r *sched.Recording, c *container, origin time.Time, start timing) (traced, bool) {
	marks, ok := r.Marks(c.created.ID(), c.args)
	if !ok || marks.PID == 0 {
		return traced{}, false
	}
	zero := monotonic(origin)
	marks.Sent, marks.Answered = zero+start.Sent, zero+start.Answered
	until := sched.Moment{Time: marks.Application, PID: marks.PID}
	if start.Ready >= 0 {
		marks.Ready = zero + start.Ready
		until.Time = marks.Ready
	}
	path := sched.CriticalPath(r.Events, marks.Sent, until, t.name)
	component := r.Component(os.Getpid())
	one := traced{Length: until.Time - marks.Sent}
	for _, p := range sched.Phases(path, marks, component) {
		phase := tracedPhase{
			Name: string(p.Name), From: p.From - marks.Sent, To: p.To - marks.Sent,
			Running: p.Share.Running, Ready: p.Share.Ready, Blocked: p.Share.Blocked,
			Causes: map[string]time.Duration{}, OnCPUsOf: map[string]time.Duration{},
		}
		for cause, d := range p.Causes {
			phase.Causes[string(cause)] = d
		}
		for c, share := range p.Components {
			phase.OnCPUsOf[string(c)] = share.Running
		}
		one.Phases = append(one.Phases, phase)
	}
	for _, s := range path {
		m := tracedMoment{
			From: s.From - marks.Sent, To: s.To - marks.Sent, Component: string(component(s.PID, s.From)),
			PID: s.PID, TID: s.TID, State: string(s.State), Cause: string(s.Cause),
		}
		if len(s.Stack) > 0 {
			m.Function = s.Stack[0]
		}
		one.Segments = append(one.Segments, m)
	}
	return one, len(path) > 0
}

// traceAttachment is the start of middle length of a trial.
const traceAttachment = "path.json"

func (t *tracing) done(b lab.Bench) error {
	seen := t.seen
	b.Record(lostSamples, float64(t.lost))
	recordReported(b, t.reported)
	if len(seen) == 0 {
		return nil // the host's kernel does not see what a sandbox executes
	}
	n := float64(len(seen))
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) / n }
	sums := map[string]float64{}
	for _, one := range seen {
		sums[pathTotal] += micros(one.Length)
		for _, p := range one.Phases {
			sums[ofPhase+p.Name] += micros(p.To - p.From)
			sums[ofPhase+p.Name+onCPU] += micros(p.Running)
			sums[ofPhase+p.Name+forCPU] += micros(p.Ready)
			sums[ofPhase+p.Name+isBlocked] += micros(p.Blocked)
			for cause, d := range p.Causes {
				sums[ofCause+cause] += micros(d)
			}
		}
	}
	b.Record(pathTotal, sums[pathTotal])
	for _, p := range phases {
		for _, of := range []string{"", onCPU, forCPU, isBlocked} {
			b.Record(ofPhase+string(p)+of, sums[ofPhase+string(p)+of])
		}
	}
	for _, c := range causes {
		b.Record(ofCause+string(c), sums[ofCause+string(c)])
	}
	slices.SortFunc(seen, func(a, b traced) int { return cmp.Compare(a.Length, b.Length) })
	data, err := json.Marshal(seen[len(seen)/2])
	if err != nil {
		return err
	}
	b.Attach(record.Attachment{Name: traceAttachment, MediaType: jsonType, Data: data})
	return nil
}

// recordReported records the means of phases that a platform has reported. What is left of the
// start is the application's.
func recordReported(b lab.Bench, starts []reported) {
	if len(starts) == 0 {
		return
	}
	sums := map[string]time.Duration{}
	for _, start := range starts {
		left := start.length
		for _, p := range start.phases {
			sums[p.Name] += p.Time
			left -= p.Time
		}
		sums[string(sched.PhaseApplication)] += left
		sums[pathTotal] += start.length
	}
	for name, sum := range sums {
		if name != pathTotal {
			name = ofPhase + name
		}
		b.Record(name, float64(sum)/float64(time.Microsecond)/float64(len(starts)))
	}
}

// observe fills in what a profile needs, as far as this host has it.
func (w *Watching) observe(watch *sched.Tracer) {
	w.Sample = &sampling{tracer: watch}
	kernel, err := kallsyms.Load()
	if err != nil {
		w.Notes = append(w.Notes, "waits are shown without the names of kernel functions: "+err.Error())
		kernel = nil
	}
	w.Trace = func() tracer { return &tracing{kernel: kernel} }
	w.Blocks = &blocking{tracer: watch, name: (&tracing{kernel: kernel}).name}
	w.Watch = another{}
}
