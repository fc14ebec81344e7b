package agent_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tare/platform"
	"tare/platform/agent"
)

// crates makes boxes of nothing, and counts those that there are.
type crates struct {
	*fake
	reading platform.BoxReading
	err     error
}

func (c *crates) make(ctx context.Context, spec platform.BoxSpec) (platform.Box, error) {
	if err := c.reach(ctx, "make-box"); err != nil {
		return nil, err
	}
	if spec.Memory <= 0 {
		return nil, &platform.Missing{What: "no memory", Mend: "say how much"}
	}
	c.add(1)
	return &crate{c, spec}, nil
}

type crate struct {
	of   *crates
	spec platform.BoxSpec
}

func (c *crate) Group(class platform.Class) string { return c.spec.Name + "/" + string(class) }
func (c *crate) Read(ctx context.Context) (platform.BoxReading, error) {
	return c.of.reading, errors.Join(c.of.reach(ctx, "read-box"), c.of.err)
}
func (c *crate) Remove(context.Context) error { c.of.add(-1); return nil }

func boxing(t *testing.T, c *crates) *agent.Client {
	t.Helper()
	client, server := net.Pipe()
	return serve(t, &agent.Server{Version: version, Platforms: of(c.fake), ImageDir: t.TempDir(), Boxes: c.make}, client, server)
}

var boxOfOne = platform.BoxSpec{Name: "box-1", Kind: platform.BoxMachine, Memory: 1 << 30, Swap: platform.SwapFile, SwapSize: 3 << 30, PageCluster: -1}

// A box at the agent is read, and is in danger, as one of this host's.
func TestBoxCrosses(t *testing.T) {
	const why = "memory of the guest is full"
	made := &crates{fake: newFake(), reading: platform.BoxReading{
		At: time.Now().UTC().Round(0), Limit: 1 << 30, SwapOut: 7, Absent: map[string]string{"swap_in_pages": "no file"},
		Classes: map[platform.Class]platform.ClassReading{platform.Idle: {Swapped: 5, Some: time.Second}},
	}}
	c := boxing(t, made)
	b, err := c.Platform("fake").(platform.Boxing).Box(t.Context(), boxOfOne)
	if err != nil {
		t.Fatal(err)
	}
	for _, class := range platform.Classes {
		if got, want := b.Group(class), "box-1/"+string(class); got != want {
			t.Errorf("%s is in %q, want %q", class, got, want)
		}
	}
	got, err := b.Read(t.Context())
	if diff := cmp.Diff(made.reading, got); diff != "" || err != nil {
		t.Errorf("read %v\n%s", err, diff)
	}
	made.err = &platform.Endangered{Why: why}
	got, err = b.Read(t.Context())
	danger := new(platform.Endangered)
	if !errors.As(err, &danger) || danger.Why != why || got.SwapOut != 7 {
		t.Errorf("a box in danger: %v with %+v", err, got)
	}
	for range 2 {
		if err := b.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if left := made.left(); left != 0 {
		t.Errorf("%d boxes are left", left)
	}
	if _, err := b.Read(t.Context()); !errors.Is(err, platform.ErrGone) {
		t.Errorf("reading what was removed: %v", err)
	}
	lack := new(platform.Missing)
	if _, err := c.Box(t.Context(), platform.BoxSpec{Name: "nothing"}); !errors.As(err, &lack) || lack.Mend == "" {
		t.Errorf("a box that cannot be made: %v", err)
	}
}

// A client that goes away leaves no box, whether it has one or is having one made.
func TestBoxesEndWithTheirClient(t *testing.T) {
	for name, during := range map[string]string{"while it is there": "", "while it is made": "make-box", "while it is read": "read-box"} {
		t.Run(name, func(t *testing.T) {
			made := &crates{fake: newFake(during)}
			client, server := net.Pipe()
			served := make(chan error, 1)
			go func() {
				s := &agent.Server{Version: version, Platforms: of(made.fake), ImageDir: t.TempDir(), Boxes: made.make}
				served <- s.Serve(context.Background(), server)
			}()
			c, err := agent.Connect(t.Context(), client, version)
			if err != nil {
				t.Fatal(err)
			}
			asked := make(chan error, 1)
			go func() {
				b, err := c.Box(context.Background(), boxOfOne)
				if err == nil && during != "" {
					_, err = b.Read(context.Background())
				}
				asked <- err
			}()
			if during == "" {
				if err := <-asked; err != nil {
					t.Fatal(err)
				}
			} else {
				<-made.entered
			}
			c.Close()
			if during != "" {
				if err := <-asked; !errors.Is(err, platform.ErrGone) {
					t.Errorf("the call ended with %v, want one that wraps ErrGone", err)
				}
			}
			if err := <-served; err != nil {
				t.Errorf("Serve: %v", err)
			}
			if left := made.left(); left != 0 {
				t.Errorf("%d boxes are left at the agent", left)
			}
		})
	}
}

// A making that is given up leaves nothing, however far it had come.
func TestBoxGivenUp(t *testing.T) {
	made := &crates{fake: newFake("make-box")}
	c := boxing(t, made)
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan error, 1)
	go func() { _, err := c.Box(ctx, boxOfOne); asked <- err }()
	<-made.entered
	cancel()
	if err := <-asked; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want one that wraps context.Canceled", err)
	}
	// Made in spite of that: the caller's word may have come too late.
	close(made.hold["make-box"])
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err := c.Box(ctx, boxOfOne); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want one that wraps context.Canceled", err)
	}
	if left := made.left(); left != 0 {
		t.Errorf("%d boxes are left", left)
	}
}

func TestAgentWithoutBoxes(t *testing.T) {
	client, server := net.Pipe()
	c := serve(t, &agent.Server{Version: version, Platforms: of(newFake()), ImageDir: t.TempDir()}, client, server)
	lack := new(platform.Missing)
	if _, err := c.Box(t.Context(), boxOfOne); !errors.As(err, &lack) {
		t.Errorf("%v, want a *platform.Missing", err)
	}
}

// aloof puts no program into a group.
type aloof struct{ *fake }

func (aloof) Groups(context.Context) error {
	return &platform.Unsupported{Platform: "fake", Key: "box", Reason: "it has none"}
}

func TestGroupsCross(t *testing.T) {
	for _, p := range []platform.Platform{newFake(), aloof{newFake()}} {
		client, server := net.Pipe()
		c := serve(t, &agent.Server{Version: version, Platforms: of(p), ImageDir: t.TempDir()}, client, server)
		err := c.Platform("fake").(platform.Grouping).Groups(t.Context())
		refused := new(platform.Unsupported)
		if _, refuses := p.(platform.Grouping); refuses != errors.As(err, &refused) || refuses && refused.Platform != "fake" {
			t.Errorf("%T: %v", p, err)
		}
	}
}
