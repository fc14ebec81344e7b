package box

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"tare/kernel/cgroup"
	"tare/kernel/swap"
	"tare/platform"
	"tare/platform/crashtest"
)

// victimOrders are of a program that makes a box and is killed: at each entry in its ledger, and
// with the box in use.
type victimOrders struct {
	State, Ledger string
	Spec          platform.BoxSpec
	Extender      string // the extension's program, where the box has one
	crashtest.Moment
	DieInUse bool // once more is in it than its memory
}

// victim is the program that crashes.
func victim(o victimOrders) error {
	ledger, err := crashtest.Open(o.Ledger, o.Moment)
	if err != nil {
		return err
	}
	b, err := New(Options{StateDir: o.State, Ledger: ledger, Disruptive: true, Extender: o.Extender}).Make(context.Background(), o.Spec)
	if err != nil {
		return err
	}
	if o.DieInUse {
		if err := o.use(b); err != nil {
			return err
		}
		crashtest.Die()
	}
	return b.Remove(context.Background())
}

// use has a program in the box, which outlives the victim, fill more than its memory.
func (o victimOrders) use(b platform.Box) error {
	layout, err := cgroup.Host()
	if err != nil {
		return err
	}
	inner := layout.At(filepath.Join(platform.CgroupParent, b.Group(platform.Idle), "occupant"))
	if err := inner.Create(controllers(layout)...); err != nil {
		return err
	}
	orders, err := json.Marshal(occupantOrders{inner.ProcessFiles(), int(o.Spec.Memory + o.Spec.SwapSize/2), false})
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), occupantVariable+"="+string(orders))
	// It holds the other end of its own input, which so never ends.
	in, end, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.ExtraFiles = in, []*os.File{end}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	said := bufio.NewScanner(out)
	if !said.Scan() {
		return errors.New("the occupant said nothing")
	}
	return nil
}

// clearLedger removes what a ledger has not crossed out.
func clearLedger(t *testing.T, state, ledger string) {
	t.Helper()
	open, _, err := crashtest.Entries(ledger)
	if err != nil {
		t.Fatal(err)
	}
	remover := Remover(state)
	for _, e := range slices.Backward(open) {
		if e.Platform != remover.Name() {
			t.Errorf("%+v is another platform's", e)
		}
		// Twice: a clean may be killed too.
		for range 2 {
			if err := remover.Remove(t.Context(), e); err != nil {
				t.Errorf("remove %+v: %v", e, err)
			}
		}
	}
}

func TestKilledAtAnyMoment(t *testing.T) {
	extended := platform.SwapKind(platform.ExtendAnnex) // of these a swap file, too
	for _, kind := range []platform.SwapKind{platform.SwapFile, platform.SwapZRAM, platform.SwapZswap, extended} {
		t.Run(string(kind), func(t *testing.T) {
			var orders victimOrders
			if kind == extended {
				kind, orders.Extender = platform.SwapFile, faked(t, "ok")
			}
			if kind == platform.SwapZswap {
				needsOwnKernel(t)
			}
			state := stateDirectory(t)
			s := spec(t, kind)
			s.Memory = 32 << 20
			if orders.Extender != "" {
				s.Extend = platform.ExtendAnnex
			}
			s.SwapSize -= 448 << 20
			if cluster, err := (swap.Host{}).PageCluster().Read(); err == nil && kind != platform.SwapZswap && ownKernel() {
				n, err := strconv.Atoi(cluster)
				if err != nil {
					t.Fatal(err)
				}
				s.PageCluster = n + 1
			}
			if err := New(Options{StateDir: state, Disruptive: true, Extender: orders.Extender}).Check(t.Context(), s); err != nil {
				t.Skip(err)
			}
			runs := 0
			once := func(o victimOrders) int {
				t.Helper()
				runs++
				found := surroundings(t, state, s)
				o.Extender, o.State, o.Spec, o.Ledger = orders.Extender, state, s, filepath.Join(state, fmt.Sprintf("%s-%d%s", s.Name, runs, ledgerSuffix))
				planned := o.DieInUse || !o.Never()
				crashtest.Run(t, o, planned)
				open, entered, err := crashtest.Entries(o.Ledger)
				if err != nil {
					t.Fatal(err)
				}
				if !planned && len(open) > 0 {
					t.Errorf("a box that was removed has left %+v in the ledger", open)
				}
				if o.DieInUse && surroundings(t, state, s) == found {
					t.Error("killed while its box was in use, it left nothing: this tests nothing")
				}
				clearLedger(t, state, o.Ledger)
				if left := surroundings(t, state, s); left != found {
					t.Errorf("killed at entry %d of %d:\nfound:\n%s\nleft:\n%s", o.At, entered, found, left)
				} else if err := os.Remove(o.Ledger); err != nil {
					t.Error(err)
				}
				return entered
			}
			entries := once(victimOrders{})
			for n := range entries {
				once(victimOrders{Moment: crashtest.Moment{At: n + 1}})
			}
			once(victimOrders{DieInUse: true})
		})
	}
}
