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
	"strings"
	"sync"
	"syscall"
	"testing"

	"tare/kernel/cgroup"
	"tare/kernel/swap"
	"tare/platform"
)

// A crash is this program, started again, which makes a box and is killed with SIGKILL:
// at each entry in its ledger, just before the thing is made, and with the box in use.
// What its ledger lists is then removed by another, and everything is as it was found.

// victimVariable holds a victim's orders.
const victimVariable = "TARE_TEST_VICTIM"

type victimOrders struct {
	State, Ledger string
	Spec          platform.BoxSpec
	Extender      string // the extension's program, where the box has one
	DieAtEntry    int    // from 1; 0 never
	DieInUse      bool   // once more is in it than its memory
}

func (o victimOrders) planned() bool { return o.DieAtEntry > 0 || o.DieInUse }

// fileLedger writes a line for each entry ("+") and each crossing out ("-").
type fileLedger struct {
	dieAt int
	mu    sync.Mutex
	file  *os.File
	n     int
}

func (l *fileLedger) write(sign string, e platform.Entry) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(l.file, "%s%s\n", sign, b)
	return err
}

func (l *fileLedger) Add(e platform.Entry) (func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.write("+", e); err != nil {
		return nil, err
	}
	if l.n++; l.n == l.dieAt {
		die()
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		_ = l.write("-", e)
	}, nil
}

// die kills this program, which takes a moment.
func die() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}

// victim is the program that crashes.
func victim(text string) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	var o victimOrders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fail(err)
	}
	file, err := os.OpenFile(o.Ledger, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fail(err)
	}
	b, err := New(Options{StateDir: o.State, Ledger: &fileLedger{dieAt: o.DieAtEntry, file: file}, Disruptive: true, Extender: o.Extender}).Make(context.Background(), o.Spec)
	if err != nil {
		return fail(err)
	}
	if o.DieInUse {
		if err := o.use(b); err != nil {
			return fail(err)
		}
		die()
	}
	if err := b.Remove(context.Background()); err != nil {
		return fail(err)
	}
	return 0
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
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, victimVariable) }), occupantVariable+"="+string(orders))
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

// openEntries reads what a ledger has not crossed out, in order.
func openEntries(file string) (open []platform.Entry, entered int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	for scan := bufio.NewScanner(f); scan.Scan(); {
		var e platform.Entry
		if err := json.Unmarshal(scan.Bytes()[1:], &e); err != nil {
			return nil, 0, err
		}
		if scan.Bytes()[0] == '+' {
			entered++
			open = append(open, e)
			continue
		}
		open = slices.DeleteFunc(open, func(x platform.Entry) bool { return x.Kind == e.Kind && x.ID == e.ID })
	}
	return open, entered, nil
}

const saidSuffix = ".said"

// crash runs a victim to its end.
func crash(t *testing.T, o victimOrders) error {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), victimVariable+"="+string(text))
	said, err := os.Create(o.Ledger + saidSuffix)
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	cmd.Stderr = said // a file: what the victim started outlives it
	return cmd.Run()
}

// clearLedger removes what a ledger has not crossed out.
func clearLedger(t *testing.T, state, ledger string) {
	t.Helper()
	open, _, err := openEntries(ledger)
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
				err := crash(t, o)
				var exit *exec.ExitError
				if planned := o.planned(); planned != errors.As(err, &exit) || planned && exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					text, _ := os.ReadFile(o.Ledger + saidSuffix)
					t.Fatalf("the victim ended with %v: %s", err, text)
				}
				open, entered, err := openEntries(o.Ledger)
				if err != nil {
					t.Fatal(err)
				}
				if !o.planned() && len(open) > 0 {
					t.Errorf("a box that was removed has left %+v in the ledger", open)
				}
				if o.DieInUse && surroundings(t, state, s) == found {
					t.Error("killed while its box was in use, it left nothing: this tests nothing")
				}
				clearLedger(t, state, o.Ledger)
				if left := surroundings(t, state, s); left != found {
					t.Errorf("killed at entry %d of %d:\nfound:\n%s\nleft:\n%s", o.DieAtEntry, entered, found, left)
				} else if err := os.Remove(o.Ledger); err != nil {
					t.Error(err)
				}
				return entered
			}
			entries := once(victimOrders{})
			for n := range entries {
				once(victimOrders{DieAtEntry: n + 1})
			}
			once(victimOrders{DieInUse: true})
		})
	}
}
