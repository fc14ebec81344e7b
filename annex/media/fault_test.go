package media

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"tare/annex"
	"tare/kernel/swap"
	"tare/kernel/swap/swaptest"
)

// between calls f once, between two chunks of a request.
func between(chunk int, f func()) Brake {
	n := 0
	return func(annex.Request) Verdict {
		if n++; n == chunk {
			f()
		}
		return Proceed
	}
}

// stepOf is how many pages of a file are moved between two looks at the brake.
func stepOf(op annex.Op) int {
	pages := traits[File].Chunk
	if op == annex.Map {
		pages *= mapChunks
	}
	return pages
}

// operations are those that a live test does in turn.
var operations = []annex.Op{annex.Evict, annex.Fetch, annex.Map}

// A program that dies in the midst of a request ends it, and keeps no other.
func TestDiesMidway(t *testing.T) {
	m := onFile(t, 64<<20)
	for _, op := range operations {
		t.Run(op.String(), func(t *testing.T) {
			h, lives := startHolder(t, testPages), startHolder(t, testPages/4)
			if op != annex.Evict {
				evictAll(t, m, h, lives)
			}
			k := newKernel(t, Options{Medium: m, Brake: between(8, h.end)})
			r := k.Do(t.Context(), annex.Request{Op: op, Runs: append(h.all(), lives.all()...)})
			if !errors.Is(r.Err, ErrGone) || !near(r.Moved, 7*stepOf(op)+testPages/4) {
				t.Errorf("%+v", r)
			}
			lives.tell(t, "check", 0, lives.pages)
			if _, err := Open(h.space); !errors.Is(err, ErrGone) {
				t.Errorf("opened once more: %v", err)
			}
		})
	}
}

func evictAll(t *testing.T, m Medium, holders ...*holder) {
	t.Helper()
	k := newKernel(t, Options{Medium: m})
	for _, h := range holders {
		if r := k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: h.all()}); r.Err != nil || !near(r.Moved, h.pages) {
			t.Fatalf("%+v", r)
		}
	}
}

// What is unmapped meanwhile is passed by, and all the rest is moved.
func TestUnmapsMidway(t *testing.T) {
	m := onFile(t, 64<<20)
	for _, op := range operations {
		t.Run(op.String(), func(t *testing.T) {
			h := startHolder(t, testPages)
			if op != annex.Evict {
				evictAll(t, m, h)
			}
			const part = testPages / segments
			// By then, the first part has been moved in part, and the fifth not yet.
			steps := part * 3 / 4 / stepOf(op)
			rest := part - steps*stepOf(op)
			k := newKernel(t, Options{Medium: m, Brake: between(steps+1, func() {
				h.tell(t, "unmap", 0, 1)
				h.tell(t, "unmap", 4*part, 1)
			})})
			r := k.Do(t.Context(), annex.Request{Op: op, Runs: h.all()})
			if r.Err != nil || r.Stopped || !near(r.Moved, testPages-part-rest) || !near(r.Skipped, part+rest) {
				t.Errorf("%+v", r)
			}
			h.tell(t, "check", 0, testPages)
		})
	}
}

// Where swap is full, what does not fit stays and is told; what is fetched is as it was.
func TestSwapIsFull(t *testing.T) {
	m := onFile(t, 4<<20)
	areas, err := swap.Host{}.Areas()
	if err != nil || len(areas) > 1 {
		t.Skipf("pages would go elsewhere: %v, %v", areas, err)
	}
	k := newKernel(t, Options{Medium: m})
	h := startHolder(t, testPages)
	r := k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: h.all()})
	var full *Full
	if !errors.As(r.Err, &full) || r.Moved == 0 || r.Moved > 4<<20/annex.PageSize {
		t.Errorf("%+v", r)
	}
	if r := k.Do(t.Context(), annex.Request{Op: annex.Map, Runs: h.all()}); r.Err != nil {
		t.Errorf("%+v", r)
	}
	h.tell(t, "check", 0, testPages)
}

// On a device that takes seconds for what another does at once programs get every byte, in the
// midst of what is asked too, and what is asked ends between two steps when it is to.
func TestSlowDevice(t *testing.T) {
	needs(t)
	const rate, half = 4 << 20, testPages / 2
	m := of(t, swaptest.Slow(t, "media", 64<<20, rate))
	h, group := grouped(t, "slow", testPages)
	whole := newKernel(t, Options{Medium: m, Slow: time.Minute})
	for _, op := range operations {
		t.Run(op.String(), func(t *testing.T) {
			h.tell(t, "write", 0, testPages)
			if op != annex.Evict {
				out(t, whole, h, group, nil)
			}
			began := time.Now()
			ctx, stop := context.WithCancel(t.Context())
			k := newKernel(t, Options{Medium: m, Slow: time.Minute, Brake: between(4, func() {
				h.tell(t, "check", half, half) // to which it has not come
				stop()
			})})
			r := k.Do(ctx, annex.Request{Op: op, Runs: h.all()})
			if r.Err != nil || !r.Stopped || r.Moved == 0 || r.Moved > half {
				t.Errorf("%+v", r)
			}
			r = whole.Do(t.Context(), annex.Request{Op: op, Runs: h.all()})
			if r.Err != nil || r.Stopped || !near(r.Moved+r.Skipped, testPages) {
				t.Errorf("once more: %+v", r)
			}
			written := writing(t, group)
			h.tell(t, "check", 0, testPages)
			// A second's worth may pass at once.
			took, least := time.Since(began), time.Second*testPages*annex.PageSize/rate/8
			if slow := op == annex.Evict && written > 0 || op != annex.Evict && took > least; !slow {
				t.Errorf("%d bytes are being written, and it took %v: the device is not slow", written, took)
			}
		})
	}
}

// A process that executes another program has other memory, under the same name.
func TestExecutesAnother(t *testing.T) {
	m := onFile(t, 64<<20)
	k := newKernel(t, Options{Medium: m})
	h := start(t, exec.Command("/bin/sh", "-c", `read go && exec "$0"`, os.Args[0]), testPages)
	// Of the shell, whatever it has there: held open from now on.
	if r := k.Do(t.Context(), annex.Request{Op: annex.Fetch, Runs: []annex.Run{{Space: h.space, First: 1 << 20, Pages: 1}}}); r.Err != nil {
		t.Fatalf("%+v", r)
	}
	if _, err := io.WriteString(h.in, "\n"); err != nil {
		t.Fatal(err)
	}
	h.locate(t)
	if r := k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: h.all()}); !errors.Is(r.Err, ErrGone) || r.Moved != 0 {
		t.Errorf("what was asked of the program before: %+v", r)
	}
	if r := k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: h.all()}); r.Err != nil || !near(r.Moved, testPages) {
		t.Errorf("of the one now: %+v", r)
	}
	h.tell(t, "check", 0, testPages)
}

func TestAnotherProcessOfThatID(t *testing.T) {
	needs(t)
	h := startHolder(t, segments)
	former := h.space
	former.Started--
	if _, err := Open(former); !errors.Is(err, ErrGone) {
		t.Errorf("opened: %v", err)
	}
}

// Whatever is asked at once, while the program reads and writes, no byte of it changes.
func TestMovesUnderUse(t *testing.T) {
	m := onZRAM(t, 64<<20)
	k := newKernel(t, Options{Medium: m, Fetches: 2})
	h := startHolder(t, testPages)
	done := make(chan struct{})
	var moving sync.WaitGroup
	for i, op := range operations {
		draw := rand.New(rand.NewPCG(1, uint64(i)))
		moving.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				var runs []annex.Run
				for range 32 {
					runs = append(runs, h.run(draw.IntN(testPages/16)*16, 1+draw.IntN(16)))
				}
				if r := k.Do(t.Context(), annex.Request{Op: op, Runs: runs}); r.Err != nil || r.Moved+r.Skipped > r.Asked {
					t.Errorf("%+v", r)
					return
				}
			}
		})
	}
	for range 10 {
		h.tell(t, "check", 0, testPages)
		h.tell(t, "write", 0, testPages)
	}
	close(done)
	moving.Wait()
	h.tell(t, "check", 0, testPages)
	a := k.Account()
	if a.Evicted == 0 || a.Mapped == 0 || a.Failed > 0 {
		t.Errorf("%+v", a)
	}
}

// moverEnv has the test binary move pages of a program until it is killed.
const moverEnv = "TARE_MEDIA_TEST_MOVE"

// moving is what it is told.
type moving struct {
	Path string // of the swap area
	Runs []annex.Run
}

func moveForEver(text string) error {
	var what moving
	if err := json.Unmarshal([]byte(text), &what); err != nil {
		return err
	}
	a, ok, err := swap.Host{}.Area(what.Path)
	if err != nil || !ok {
		return fmt.Errorf("%s is not in use (%w)", what.Path, err)
	}
	k, err := NewKernel(Options{Medium: Of(swap.Host{}, a)})
	if err != nil {
		return err
	}
	ctx := context.Background()
	for {
		for _, op := range operations {
			fmt.Println(op)
			if r := k.Do(ctx, annex.Request{Op: op, Runs: what.Runs}); r.Err != nil {
				return r.Err
			}
		}
	}
}

// A mover that is killed in the midst of anything leaves no program without a byte.
func TestMoverIsKilled(t *testing.T) {
	m := onZRAM(t, 64<<20)
	h := startHolder(t, testPages)
	text, err := json.Marshal(moving{m.Name(), h.all()})
	if err != nil {
		t.Fatal(err)
	}
	for i, op := range operations {
		for _, after := range []time.Duration{0, 3 * time.Millisecond} {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), moverEnv+"="+string(text))
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			told := bufio.NewScanner(out)
			for told.Scan() && told.Text() != op.String() {
			}
			time.Sleep(after) // into it: no event tells how far it is
			if err := cmd.Process.Kill(); err != nil {
				t.Errorf("%s: it had ended: %v", operations[i], err)
			}
			_ = cmd.Wait()
			h.tell(t, "check", 0, testPages)
			h.tell(t, "write", 0, testPages)
		}
	}
}
