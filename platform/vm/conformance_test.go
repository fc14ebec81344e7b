package vm

import (
	"context"
	"os"
	"testing"

	"tare/platform"
	"tare/platform/conformance"
)

// fullVar asks for the suite on every engine and inner platform, which takes many minutes
// where machines are emulated.
const fullVar = "TARE_TEST_VM"

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name string
		full bool
	}{{"vm:tcg/bare", false}, {"vm:tcg/oci:runc", true}, {"vm:tcg/cgroup", true}, {"vm:tcg/oci:crun", true}} {
		t.Run(c.name, func(t *testing.T) {
			if c.full && os.Getenv(fullVar) == "" {
				t.Skip("takes minutes: " + fullVar + "=1 runs it")
			}
			conform(t, c.name)
		})
	}
}

// conform runs the suite over one pool: a machine is kept from one test to the next.
func conform(t *testing.T, name string) {
	n := parse(t, name)
	o := options(t, n.Engine)
	o.StateDir = conformance.OpenDir(t)
	pool := newPool(t, o)
	img := conformance.Image(t)
	// As long as one platform needs machines they stay.
	keeper := New(n, pool)
	skipMissing(t, keeper)
	if err := keeper.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	inst, err := keeper.Launch(t.Context(), platform.Spec{Name: "keeper", Image: img, Args: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d files of the running machine were tried as another user", conformance.OthersKeptOut(t, o.StateDir))
	if err := inst.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	conformance.Run(t, func(*testing.T, platform.Ledger) platform.Platform { return New(n, pool) }, img, conformance.OtherKernel)
	for _, b := range pool.Boots() {
		t.Logf("%s: ready after %v, %v", b.Machine, b.Ready, b.Phases)
	}
}
