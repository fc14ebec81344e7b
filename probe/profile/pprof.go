package profile

import (
	"time"

	pprof "github.com/google/pprof/profile"

	"tare/kernel/clock"
	"tare/probe/breakdown"
)

// Profile gives the recording in pprof's form, for `go tool pprof`: samples and
// the CPU time that they stand for, with the labels component, group, comm and
// side, by which pprof can filter and split (-tagfocus, -tagroot). Kernel
// functions stand inside the user functions that called for them.
//
// Stacks hold functions and no addresses: what was mapped where differs from
// process to process.
func (r *Recording) Profile() (*pprof.Profile, error) {
	b := &builder{
		profile: &pprof.Profile{
			SampleType: []*pprof.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
			PeriodType: &pprof.ValueType{Type: "cpu", Unit: "nanoseconds"},
			Period:     int64(time.Second) / int64(r.Hertz),
			// The clock of samples has no date.
			TimeNanos:         time.Now().Add(r.Begin - clock.Monotonic()).UnixNano(),
			DurationNanos:     int64(r.Elapsed()),
			DefaultSampleType: "cpu",
			Comments:          r.Cautions,
		},
		locations: map[called]*pprof.Location{},
	}
	b.user = b.mapping("[user]")
	b.kernel = b.mapping("[kernel]")
	classify := breakdown.NewClassifier()
	for _, s := range r.Stacks() {
		nanoseconds := s.Weight * float64(time.Second)
		cell := classify.Cell(&s)
		side := "user"
		if s.InKernel() {
			side = "kernel"
		}
		b.profile.Sample = append(b.profile.Sample, &pprof.Sample{
			Location: b.stack(s),
			Value:    []int64{int64(nanoseconds/float64(b.profile.Period) + 0.5), int64(nanoseconds + 0.5)},
			Label: map[string][]string{
				"component": {string(cell.Component)}, "group": {string(cell.Group)}, "comm": {s.Process.Comm}, "side": {side},
			},
			NumLabel: map[string][]int64{"pid": {int64(s.Process.PID)}},
		})
	}
	return b.profile, b.profile.CheckValid()
}

// builder gives each function one place in the profile.
type builder struct {
	profile      *pprof.Profile
	user, kernel *pprof.Mapping
	locations    map[called]*pprof.Location
}

type called struct {
	mapping *pprof.Mapping
	name    string
}

func (b *builder) mapping(file string) *pprof.Mapping {
	m := &pprof.Mapping{ID: uint64(len(b.profile.Mapping) + 1), File: file, HasFunctions: true}
	b.profile.Mapping = append(b.profile.Mapping, m)
	return m
}

// stack is innermost first, as pprof has it. A sample without a single function
// (a process that was seen in user code which is mapped from nowhere) is of its
// process.
func (b *builder) stack(s breakdown.Stack) []*pprof.Location {
	locations := make([]*pprof.Location, 0, len(s.Kernel)+len(s.User))
	for _, name := range s.Kernel {
		locations = append(locations, b.location(b.kernel, name))
	}
	for _, name := range s.User {
		locations = append(locations, b.location(b.user, name))
	}
	if len(locations) == 0 {
		locations = append(locations, b.location(b.user, "["+s.Process.Comm+"]"))
	}
	return locations
}

func (b *builder) location(m *pprof.Mapping, name string) *pprof.Location {
	k := called{m, name}
	if l := b.locations[k]; l != nil {
		return l
	}
	f := &pprof.Function{ID: uint64(len(b.profile.Function) + 1), Name: name, SystemName: name, Filename: m.File}
	l := &pprof.Location{ID: uint64(len(b.profile.Location) + 1), Mapping: m, Line: []pprof.Line{{Function: f}}}
	b.profile.Function = append(b.profile.Function, f)
	b.profile.Location = append(b.profile.Location, l)
	b.locations[k] = l
	return l
}
