package agent

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"tare/platform"
)

// talker is a platform whose programs print at once, and which ends none before all of
// that has been taken or refused, as those do that copy what a process prints.
type talker struct {
	inert
	launched chan *speech
}

func (t talker) Launch(_ context.Context, s platform.Spec) (platform.Instance, error) {
	p := speak(s)
	t.launched <- p
	return p, nil
}

type speech struct {
	platform.Instance // which nobody asks for more
	said              chan error
	over              chan struct{}
}

func speak(s platform.Spec) *speech {
	p := &speech{said: make(chan error, 1), over: make(chan struct{})}
	go func() {
		defer close(p.over)
		_, err := s.Stdout.Write([]byte("hello\n"))
		p.said <- err
	}()
	return p
}

func (p *speech) Stop(ctx context.Context) error {
	select {
	case <-p.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *speech) Wait(ctx context.Context) (platform.Exit, error) {
	return platform.Exit{}, p.Stop(ctx)
}

// unheard is a visit with a program whose client died before it came for the output.
func unheard(t *testing.T) (*visit, *speech) {
	t.Helper()
	i := newResident(talker{}, spec{Name: "unheard", Stdout: true})
	program := speak(i.spec)
	i.inst = program
	return &visit{server: &Server{}, instances: map[string]*resident{"1": i}, prepared: map[string]platform.Platform{}}, program
}

// What nobody has come for keeps neither the end of a visit nor a stop waiting.
func TestOutputThatNobodyReadsHoldsNothingUp(t *testing.T) {
	for name, ends := range map[string]func(*visit, context.Context) error{
		"end":  (*visit).end,
		"stop": func(v *visit, ctx context.Context) error { _, err := v.stop(ctx, instanced{"1"}); return err },
	} {
		t.Run(name, func(t *testing.T) {
			v, program := unheard(t)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := ends(v, ctx); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := <-program.said; !errors.Is(err, platform.ErrGone) {
				t.Errorf("who printed got %v, want what wraps ErrGone", err)
			}
			if len(v.instances) != 0 {
				t.Error("the instance is still known")
			}
		})
	}
}

// A program is launched once its output has who takes it, and not where its client goes
// before.
func TestLaunchWaitsForReaders(t *testing.T) {
	p := talker{launched: make(chan *speech, 1)}
	i := newResident(p, spec{Name: "heard", Stdout: true})
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if err := i.heard(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("its client has gone: %v", err)
	}

	s := &Server{Version: "1", ImageDir: t.TempDir(), Platforms: func(string) (platform.Platform, error) { return p, nil }}
	s.images.attached = map[string]string{"": "/"} // the root of the image, which nobody reads
	v := &visit{server: s, instances: map[string]*resident{}, prepared: map[string]platform.Platform{}}
	v.greeted.Store(true)
	v.instances["1"] = i
	launch := make(chan error, 1)
	go func() { _, err := v.launch(t.Context(), instanced{"1"}); launch <- err }()
	select {
	case err := <-launch:
		t.Fatalf("launched, and nobody reads: %v", err)
	case <-p.launched:
		t.Fatal("launched, and nobody reads")
	case <-time.After(50 * time.Millisecond): // that nothing happens makes no event
	}
	printed := httptest.NewRecorder()
	fetched := make(chan struct{})
	go func() {
		defer close(fetched)
		v.handler().ServeHTTP(printed, httptest.NewRequest("GET", "/v1/output?id=1&of=stdout", nil))
	}()
	if err := <-launch; err != nil {
		t.Fatal(err)
	}
	if _, err := v.stop(t.Context(), instanced{"1"}); err != nil {
		t.Fatal(err)
	}
	<-fetched
	if got := printed.Body.String(); got != "hello\n" {
		t.Errorf("printed %q", got)
	}
}
