package held_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"tare/platform"
	"tare/platform/held"
)

// plot is a platform whose containers write down what is done with them.
type plot struct {
	platform.Platform
	lines                            []string
	creating, starting, holding, end error // what the steps answer
	whileStarting                    func()
}

// actor is its instances: all that is asked of one here is to stop.
type actor struct {
	platform.Instance
	p *plot
}

func (a *actor) Stop(context.Context) error {
	a.p.lines = append(a.p.lines, "stop instance")
	return nil
}

func (p *plot) Create(context.Context, platform.Spec) (platform.Created, error) {
	if p.creating != nil {
		return nil, p.creating
	}
	return held.NewCreated(held.Steps{
		ID: "it",
		Start: func(context.Context) error {
			p.lines = append(p.lines, "start")
			if p.whileStarting != nil {
				p.whileStarting()
			}
			return p.starting
		},
		Hold: func(context.Context) (platform.Instance, error) {
			p.lines = append(p.lines, "hold")
			if p.holding != nil {
				return nil, p.holding
			}
			return &actor{p: p}, nil
		},
		Clear: func(ctx context.Context) error {
			p.lines = append(p.lines, "clear")
			return errors.Join(p.end, ctx.Err())
		},
	}), nil
}

func (p *plot) expect(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(p.lines, ", "); got != want {
		t.Errorf("it went %q, want %q", got, want)
	}
	p.lines = nil
}

func TestCreatedKeepsItsOrder(t *testing.T) {
	broken := errors.New("broken")
	type step = func(context.Context, platform.Created) error
	start := func(ctx context.Context, c platform.Created) error { return c.Start(ctx) }
	hold := func(ctx context.Context, c platform.Created) error { _, err := c.Instance(ctx); return err }
	stop := func(ctx context.Context, c platform.Created) error { return c.Stop(ctx) }
	for _, test := range []struct {
		name  string
		plot  plot
		steps []step
		fail  []int // which of the steps
		went  string
	}{
		{"a whole life", plot{}, []step{start, hold, hold, stop, stop}, nil, "start, hold, stop instance, stop instance"},
		{"stopped at rest", plot{}, []step{stop, start, hold, stop}, []int{1, 2}, "clear, clear"},
		{"stopped before it was held", plot{}, []step{start, stop, hold}, []int{2}, "start, clear"},
		{"held at rest", plot{}, []step{hold, start, hold}, []int{0}, "start, hold"},
		{"started twice", plot{}, []step{start, start, hold, start, stop, start}, []int{1, 3, 5}, "start, hold, stop instance"},
		{"not to be started", plot{starting: broken}, []step{start, start, hold, stop}, []int{0, 1, 2}, "start, clear"},
		{"not to be held", plot{holding: broken}, []step{start, hold, hold, start, stop}, []int{1, 2, 3}, "start, hold, clear"},
		{"not to be removed", plot{end: broken}, []step{stop, stop, start}, []int{0, 1, 2}, "clear, clear"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := test.plot.Create(t.Context(), platform.Spec{})
			if err != nil {
				t.Fatal(err)
			}
			for n, do := range test.steps {
				if err := do(t.Context(), c); (err != nil) != slices.Contains(test.fail, n) {
					t.Errorf("step %d: %v", n, err)
				}
			}
			test.plot.expect(t, test.went)
		})
	}
}

// What comes while another step is under way waits for its end, or its own.
func TestCreatedTakesTurns(t *testing.T) {
	p := &plot{}
	c, err := p.Create(t.Context(), platform.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := make(chan error, 1)
	p.whileStarting = func() {
		if err := c.Stop(over); !errors.Is(err, context.Canceled) {
			t.Errorf("a stop whose time is over: %v", err)
		}
		go func() { stopped <- c.Stop(t.Context()) }()
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	p.expect(t, "start, clear")
}

func TestStartWhoseTimeIsOver(t *testing.T) {
	p := &plot{}
	c, err := p.Create(t.Context(), platform.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Start(over); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want one that wraps context.Canceled", err)
	}
	p.expect(t, "")
}

// A stop clears even where its time is over, and every time: it ends the program
// at least. The step knows what else of it needs time.
func TestStopWhoseTimeIsOver(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // a choice at random would be seen
		p := &plot{}
		c, err := p.Create(t.Context(), platform.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Stop(over); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want the step's own error", err)
		}
		p.expect(t, "start, clear")
	}
}

func TestLaunchIsAllStepsInOne(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		plot plot
		went string
	}{
		{plot{}, "start, hold"},
		{plot{creating: broken}, ""},
		{plot{starting: broken}, "start, clear"},
		{plot{holding: broken}, "start, hold, clear"},
	} {
		inst, err := held.Launch(t.Context(), &test.plot, platform.Spec{})
		if failed := test.plot.creating != nil || test.plot.starting != nil || test.plot.holding != nil; failed != errors.Is(err, broken) || failed != (inst == nil) {
			t.Errorf("%+v gives %v, %v", test.plot, inst, err)
		}
		test.plot.expect(t, test.went)
	}

	// Given up half-way, it is cleared in a time of its own.
	ctx, cancel := context.WithCancel(t.Context())
	p := &plot{whileStarting: cancel, starting: context.Canceled}
	if _, err := held.Launch(ctx, p, platform.Spec{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	p.expect(t, "start, clear")
	// What is left where clearing fails is reported beside why it was begun.
	left := errors.New("left over")
	if _, err := held.Launch(t.Context(), &plot{starting: broken, end: left}, platform.Spec{}); !errors.Is(err, broken) || !errors.Is(err, left) {
		t.Errorf("%v, want both reasons", err)
	}
}
