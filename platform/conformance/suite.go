// Package conformance holds what every platform must do, as one suite of
// tests that each runs in a few lines:
//
//	func TestConformance(t *testing.T) {
//		state := conformance.OpenDir(t)
//		conformance.Run(t, func(t *testing.T, l platform.Ledger) platform.Platform {
//			return bare.New(bare.Options{StateDir: state, Ledger: l})
//		}, conformance.Image(t))
//	}
//
// Settings that a platform refuses as *platform.Unsupported are passed over;
// those that it takes must be in force, by the kernel's own word. A platform
// that is a [platform.Creator] is tested as one, too. After each test the host
// is searched for what the instance left.
//
// The suite knows nothing of how a platform works, and measures nothing.
package conformance

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/image"
	"tare/platform"
)

// bound is how long any one step may take before the suite gives it up; a
// passing step takes a small part of it.
const bound = 2 * time.Minute

type suite struct {
	newPlatform func(*testing.T, platform.Ledger) platform.Platform
	image       image.Image
	traits      []Trait
}

// Trait is a way in which a platform is what it is, and no fault of its: the
// suite then asks for that, instead of what the others have.
type Trait string

const (
	// HostNetworkApart: what the engine calls the host's network is a namespace of
	// its own, in which nothing can be served to the host.
	HostNetworkApart Trait = "the engine's host network is a namespace of its own"
	// NoControlGroups: the program is in no control group that is its own.
	NoControlGroups Trait = "no control groups"
	// LedgerAcross: the platform's ledger is kept by another process, whose errors come
	// over as their text.
	LedgerAcross Trait = "the ledger is another process'"
	// OtherKernel: programs run in a machine of their own, whose kernel is Linux with
	// control groups of version 2 and which is there before the program and after it. Nothing
	// of a program is to be found on this host, so that what is asked of this host's kernel
	// elsewhere is asked of the program, or of the platform; and what a crash leaves is
	// the machine, which its own tests remove.
	OtherKernel Trait = "the programs' kernel is another"
	// LimitsOfNode: another than tare decides on limits of open files and core files, and on
	// oom_score_adj, which differs by setting.
	LimitsOfNode Trait = "limits of processes are the node's"
	// AddedToImage: variables and groups come to those of the image, whose variables have an order of
	// their own. To take a variable away is refused, as are names that are no words.
	AddedToImage Trait = "variables and groups come to the image's"
	// OutputOfRunning: of much output, the runtime may lose what is on its way when the program ends.
	OutputOfRunning Trait = "the last of much output may be lost at the program's end"
	// LayerOfImage: the container's layer has no other directories than the image.
	LayerOfImage Trait = "the layer has the image's directories alone"
)

func (s suite) has(t Trait) bool { return slices.Contains(s.traits, t) }

// Run tests a platform. newPlatform makes one over a ledger; called again, it
// must give a platform with the same state directory, as the next invocation
// of a program that crashed would have.
func Run(
	t *testing.T,
	newPlatform func(t *testing.T, ledger platform.Ledger) platform.Platform,
	img image.Image,
	traits ...Trait,
) {
	s := suite{newPlatform, img, traits}
	if err := newPlatform(t, &book{t: t}).Check(t.Context()); err != nil {
		var missing *platform.Missing
		if !errors.As(err, &missing) {
			t.Fatalf("Check must say what is missing as a *platform.Missing, not %T: %v", err, err)
		}
		t.Skip(err)
	}
	before := len(children())
	t.Cleanup(func() {
		// Machines are kept for the next program, and their platform's own tests see to it
		// that they go.
		if now := children(); len(now) > before && !s.has(OtherKernel) {
			t.Errorf("this program has %d children, of which the suite left some: %v", len(now), now)
		}
	})
	tests := []test{
		{"Name", testName},
		{"PrepareTwice", testPrepareTwice},
		{"ExitStatus", testExitStatus},
		{"ElapsedHoldsNoPreparation", testElapsed},
		{"Signal", testSignal},
		{"Stop", testStop},
		{"WaitEndsWithItsContext", testWaitContext},
		{"Output", testOutput},
		{"BigOutput", testBigOutput},
		{"OutputDiscarded", testOutputDiscarded},
		{"Arguments", testArguments},
		{"NoSuchProgram", testNoSuchProgram},
		{"Surroundings", testSurroundings},
		{"ImageProcess", testImageProcess},
		{"SpecProcess", testSpecProcess},
		{"Environment", testEnvironment},
		{"WorkingDirectory", testWorkingDirectory},
		{"User", testUser},
		{"ProcessRefused", testProcessRefused},
		{"Processes", testProcesses},
		{"Network", testNetwork},
		{"SettingsInForce", testSettingsInForce},
		{"AddressRandomisation", testASLR},
		{"SettingsRefused", testSettingsRefused},
		{"Data", testData},
		{"OthersKeptOut", testOthersKeptOut},
		{"SetUserIDFromOutside", testSetUserIDFromOutside},
		{"ImageUntouched", testImageUntouched},
		{"Usage", testUsage},
		{"OutOfMemory", testOutOfMemory},
		{"Group", testGroup},
		{"Daemons", testDaemons},
		{"Concurrent", testConcurrent},
		{"LaunchCancelled", testLaunchCancelled},
		{"LedgerRefuses", testLedgerRefuses},
		{"Crash", testCrash},
		{"RemoveSparesOthers", testRemoveSparesOthers},
	}
	if _, ok := newPlatform(t, &book{t: t}).(platform.Creator); ok {
		tests = append(tests, creating...)
	}
	if _, ok := newPlatform(t, &book{t: t}).(platform.Freezer); ok {
		tests = append(tests, freezing...)
	} else {
		t.Error("it is no platform.Freezer, which says at least why it does not freeze")
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
}

// test is one of the suite's.
type test struct {
	name string
	run  func(*testing.T, suite)
}

// stage is one platform over one watched ledger, for one test.
type stage struct {
	*testing.T
	platform platform.Platform
	book     *book
	image    image.Image
	ctx      context.Context
}

// set prepares a platform; when the test ends, everything must be gone.
func (s suite) set(t *testing.T) *stage {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	t.Cleanup(cancel)
	b := &book{t: t}
	st := &stage{t, s.newPlatform(t, b), b, s.image, ctx}
	if err := st.platform.Prepare(ctx, s.image); err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	t.Cleanup(func() {
		if err := st.platform.Release(context.WithoutCancel(ctx)); err != nil {
			t.Errorf("Release: %v", err)
		}
		for _, e := range b.left() {
			t.Errorf("the ledger still has the %s %s", e.Kind, e.ID)
		}
		for _, e := range b.ever() {
			if leftOver(e) {
				t.Errorf("the %s %s is left", e.Kind, e.ID)
			}
		}
	})
	return st
}

// spec names a new instance that runs args.
func (st *stage) spec(args ...string) platform.Spec {
	name := platform.Unique("conf")
	return platform.Spec{Name: name, Image: st.image, Args: args, Env: []string{marker + "=" + name}}
}

// shell is spec for a shell script.
func (st *stage) shell(script string) platform.Spec { return st.spec("sh", "-c", script) }

// launch launches, and stops at the end of the test, after which no trace may
// be left.
func (st *stage) launch(spec platform.Spec) platform.Instance {
	st.Helper()
	inst, err := st.platform.Launch(st.ctx, spec)
	if err != nil {
		st.Fatalf("Launch %v: %v", spec.Args, err)
	}
	st.Cleanup(func() { st.stop(inst, spec.Name) })
	return inst
}

func (st *stage) stop(inst platform.Instance, name string) {
	st.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	if err := inst.Stop(ctx); err != nil {
		st.Errorf("Stop: %v", err)
	}
	st.noTraces(name)
}

func (st *stage) noTraces(name string) {
	st.Helper()
	for _, trace := range traces(name) {
		st.Errorf("left: %s", trace)
	}
}

// run launches and waits for the end.
func (st *stage) run(spec platform.Spec) (exit platform.Exit, stdout, stderr string) {
	st.Helper()
	var out, complaints bytes.Buffer
	spec.Stdout, spec.Stderr = &out, &complaints
	inst, err := st.platform.Launch(st.ctx, spec)
	if err != nil {
		st.Fatalf("Launch %v: %v", spec.Args, err)
	}
	exit = st.wait(inst)
	st.stop(inst, spec.Name)
	return exit, out.String(), complaints.String()
}

func (st *stage) wait(inst platform.Instance) platform.Exit {
	st.Helper()
	exit, err := inst.Wait(st.ctx)
	if err != nil {
		st.Fatalf("Wait: %v", err)
	}
	return exit
}

// skipUnsupported skips the test where the platform refuses the setting.
func (st *stage) skipUnsupported(s platform.Setting) {
	st.Helper()
	var unsupported *platform.Unsupported
	switch err := st.platform.Supports(s); {
	case err == nil:
	case errors.As(err, &unsupported):
		st.Skip(err)
	default:
		st.Fatalf("Supports must refuse with a *platform.Unsupported, not %T: %v", err, err)
	}
}

// lines lets a test await what a program prints.
type lines struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newLines() *lines { return &lines{changed: make(chan struct{}, 1)} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.text.Write(p)
	select {
	case l.changed <- struct{}{}:
	default:
	}
	return n, err
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) await(st *stage, want string) {
	st.Helper()
	for {
		text := l.String()
		if strings.Contains(text, want) {
			return
		}
		select {
		case <-l.changed:
		case <-st.ctx.Done():
			st.Fatalf("the program printed %q, and never %q", text, want)
		}
	}
}

var _ io.Writer = (*lines)(nil)
