package platforms

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"tare/lab"
	"tare/lab/labtest"
	"tare/platform"
	"tare/probe"
	"tare/probe/causes"
)

// program is an instance of this process.
type program struct {
	platform.Instance // nil: what is not overridden is not called

	pids []int
	err  error
}

func (p program) Processes() ([]int, error) { return p.pids, p.err }

// far is one under another kernel.
type far struct {
	program
	seen causes.Reading
	err  error
}

func (f far) Watch(context.Context, causes.Options) (platform.Watch, error) {
	return farWatch{f.seen}, f.err
}

type farWatch struct{ seen causes.Reading }

func (w farWatch) Stop(context.Context) (causes.Reading, error) { return w.seen, nil }

type watcher struct{ seen causes.Reading }

func (w watcher) Stop() (causes.Reading, error) { return w.seen, nil }

var reading1 = causes.Reading{
	Span: 2 * time.Second, CPUTime: time.Second, Migrations: 7, Wakeups: 30,
	Burst:      causes.Distribution{Count: 10, Sum: time.Second},
	Interrupts: causes.Interrupts{Hard: 3, Soft: 4, Wakeups: 5, Elsewhere: 2},
	Throttling: causes.Throttling{Periods: 20, Throttled: 5, Time: 100 * time.Millisecond},
	Absent:     []causes.Absence{{Part: "accounting", Reason: "a test's"}},
}

func TestWhatWasSeenIsKept(t *testing.T) {
	self := program{pids: []int{1}}
	here := func(target causes.Target, o causes.Options) (Watcher, error) {
		if !slices.Equal(target.PIDs, self.pids) || !o.Weigh {
			t.Errorf("watched %+v with %+v", target, o)
		}
		return watcher{reading1}, nil
	}
	nobody := func(causes.Target, causes.Options) (Watcher, error) {
		t.Error("a program of another kernel was watched from this one")
		return nil, errors.New("no such program")
	}
	for name, c := range map[string]struct {
		inst  platform.Instance
		start func(causes.Target, causes.Options) (Watcher, error)
	}{"here": {self, here}, "far": {far{seen: reading1}, nobody}} {
		bench := labtest.NewBench(nil)
		end, err := watching(c.start)(t.Context(), bench, c.inst)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := end(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for cov, want := range map[string]float64{covCPU: 1, covMigrations: 7, covBurst: 0.1, covCut: 5, covElsewhere: 2, covThrottled: 0.1} {
			if got, ok := bench.Covariates[cov]; !ok || got != want {
				t.Errorf("%s: %s is %g, want %g", name, cov, got, want)
			}
		}
		if _, recorded := bench.Covariates[covSamples]; recorded {
			t.Errorf("%s: what was absent is recorded", name)
		}
		var whole causes.Reading
		if err := json.Unmarshal(bench.Attached[AttachmentCauses].Data, &whole); err != nil || whole.Migrations != 7 || len(whole.Absent) != 1 {
			t.Errorf("%s: attached %+v (%v)", name, whole, err)
		}
	}
}

// What a kernel cannot watch is absent, and no reason to give a run up; nor is a program
// that has ended before it could be watched. What fails otherwise is an error.
func TestWhatCannotBeWatched(t *testing.T) {
	missing := &probe.Missing{Probe: "causes", What: "no BTF", Mend: "another kernel"}
	failing := func(err error) func(causes.Target, causes.Options) (Watcher, error) {
		return func(causes.Target, causes.Options) (Watcher, error) { return nil, err }
	}
	for name, c := range map[string]struct {
		inst   platform.Instance
		start  error
		passes bool
	}{
		"missing here":  {program{pids: []int{1}}, missing, true},
		"missing there": {far{err: missing}, nil, true},
		"ended":         {program{err: platform.ErrGone}, nil, true},
		"ended unseen":  {program{}, nil, true},
		"failed":        {program{pids: []int{1}}, errors.New("events were lost"), false},
	} {
		bench := labtest.NewBench(nil)
		end, err := watching(failing(c.start))(t.Context(), bench, c.inst)
		if (err == nil) != c.passes {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err == nil {
			if err := end(t.Context()); err != nil || len(bench.Covariates) != 0 {
				t.Errorf("%s: %v, %v", name, err, bench.Covariates)
			}
		}
	}
}

func TestBothWatchesEnd(t *testing.T) {
	var order []string
	named := func(name string, fail bool) lab.Watch {
		return func(context.Context, lab.Bench, platform.Instance) (func(context.Context) error, error) {
			if fail {
				return nil, errors.New("cannot")
			}
			order = append(order, name)
			return func(context.Context) error { order = append(order, "end "+name); return nil }, nil
		}
	}
	end, err := both(named("a", false), named("b", false))(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := end(t.Context()); err != nil || !slices.Equal(order, []string{"a", "b", "end b", "end a"}) {
		t.Errorf("%v (%v)", order, err)
	}
	order = nil
	if _, err := both(named("a", false), named("b", true))(t.Context(), nil, nil); err == nil || !slices.Equal(order, []string{"a", "end a"}) {
		t.Errorf("where the second fails: %v (%v)", order, err)
	}
	if both(nil, nil) != nil {
		t.Error("two of none are one")
	}
}

// Stacks weigh too much where times are compared: they are the warm-up's.
func TestStacksAreTheWarmUps(t *testing.T) {
	for _, warm := range []bool{true, false} {
		bench := labtest.NewBench(nil)
		bench.Warm = warm
		var here causes.Options
		start := func(_ causes.Target, o causes.Options) (Watcher, error) {
			here = o
			return watcher{reading1}, nil
		}
		there := &farOptions{}
		for _, inst := range []platform.Instance{program{pids: []int{1}}, there} {
			if _, err := watching(start)(t.Context(), bench, inst); err != nil {
				t.Fatal(err)
			}
		}
		for where, o := range map[string]causes.Options{"here": here, "there": there.asked} {
			if o.Stacks != warm || !o.Accounting || !o.Weigh {
				t.Errorf("%s, in the warm-up %v: watched with %+v", where, warm, o)
			}
		}
	}
}

// farOptions keeps what it is asked for.
type farOptions struct {
	program
	asked causes.Options
}

func (f *farOptions) Watch(_ context.Context, o causes.Options) (platform.Watch, error) {
	f.asked = o
	return farWatch{}, nil
}
