package media

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tare/annex"
	"tare/kernel/advise"
	"tare/kernel/pagemap"
)

// The entries of a page map that a fake has.
const (
	presentEntry uint64 = 1<<63 | 1<<56
	sharedEntry  uint64 = 1 << 63
	swapEntry    uint64 = 1 << 62
)

// fakeSpace is a space whose pages go where they are sent at once.
type fakeSpace struct {
	mu         sync.Mutex
	pages      map[annex.Page]uint64 // their entries
	locked     map[annex.Page]bool
	asked      [][]advise.Range // of each call
	advice     []advise.Advice
	unreadable map[annex.Page]bool
	gone       bool
	full       func() bool   // of the medium
	hang       chan struct{} // until it is closed
	refuse     error
	closed     int
	opened     int
}

// mapped stands among advice for mapping, which is none.
const mapped advise.Advice = -1

func newSpace(pages int, entry uint64) *fakeSpace {
	f := &fakeSpace{pages: map[annex.Page]uint64{}, locked: map[annex.Page]bool{}}
	for p := range pages {
		f.pages[annex.Page(p)] = entry
	}
	return f
}

func (f *fakeSpace) Give(a advise.Advice, ranges []advise.Range) ([]advise.Passed, error) {
	if f.hang != nil {
		<-f.hang
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked, f.advice = append(f.asked, ranges), append(f.advice, a)
	if f.gone {
		return nil, ErrGone
	}
	var passed []advise.Passed
	for _, r := range ranges {
		if f.refuse != nil {
			passed = append(passed, advise.Passed{Range: r, Err: f.refuse})
			continue
		}
		for at := r.Start; at < r.End(); at += annex.PageSize {
			p := annex.Page(at / annex.PageSize)
			switch {
			case f.locked[p]:
				passed = append(passed, advise.Passed{Range: advise.Range{Start: at, Length: annex.PageSize}, Err: syscall.EINVAL})
			case f.pages[p] == 0:
				passed = append(passed, advise.Passed{Range: advise.Range{Start: at, Length: annex.PageSize}, Err: syscall.ENOMEM})
			case a == advise.PageOut && f.pages[p] == presentEntry && (f.full == nil || !f.full()):
				f.pages[p] = swapEntry
			}
		}
	}
	return passed, nil
}

func (f *fakeSpace) Map(ranges []advise.Range) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advice = append(f.advice, mapped)
	read := 0
	for _, r := range ranges {
		if p := annex.Page(r.Start / annex.PageSize); !f.unreadable[p] {
			read++
		}
		for at := r.Start; at < r.End() && !f.unreadable[annex.Page(at/annex.PageSize)]; at += annex.PageSize {
			f.pages[annex.Page(at/annex.PageSize)] = presentEntry
		}
	}
	return read, nil
}

func (f *fakeSpace) Entries(first annex.Page, to []uint64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return 0, ErrGone
	}
	for i := range to {
		to[i] = f.pages[first+annex.Page(i)]
	}
	return len(to), nil
}

func (f *fakeSpace) Close() error { f.closed++; return nil }

// fakeMedium has as much room as it is given.
type fakeMedium struct {
	name    string
	traits  Traits
	room    Room
	err     error
	reading func() int
}

func (m *fakeMedium) Name() string                { return m.name }
func (m *fakeMedium) Kind() Kind                  { return File }
func (m *fakeMedium) Traits() Traits              { return m.traits }
func (m *fakeMedium) Room() (Room, error)         { return m.room, m.err }
func (m *fakeMedium) Counters() (Counters, error) { return Counters{}, nil }
func (m *fakeMedium) Reading() (int, error) {
	if m.reading == nil {
		return 0, nil
	}
	return m.reading(), nil
}

func roomy() *fakeMedium {
	return &fakeMedium{traits: Traits{Chunk: 4, Gap: 2}, room: Room{1 << 30, 1 << 30}}
}

var one, other = annex.Space{PID: 1, Started: 10}, annex.Space{PID: 2, Started: 20}

// on executes requests on fakes.
func on(t *testing.T, o Options, spaces map[annex.Space]*fakeSpace) *Kernel {
	t.Helper()
	began := time.Now()
	o.Now = func() annex.Moment { return annex.Moment(time.Since(began)) }
	o.Open = func(s annex.Space) (Target, error) {
		f, ok := spaces[s]
		if !ok {
			return nil, ErrGone
		}
		f.opened++
		return f, nil
	}
	return newKernel(t, o)
}

func run(s annex.Space, first, pages int) annex.Run {
	return annex.Run{Space: s, First: annex.Page(first), Pages: pages}
}

func pages(ranges [][]advise.Range) [][]int {
	var all [][]int
	for _, call := range ranges {
		var one []int
		for _, r := range call {
			for at := r.Start; at < r.End(); at += annex.PageSize {
				one = append(one, int(at/annex.PageSize))
			}
		}
		all = append(all, one)
	}
	return all
}

// Pages leave in the order given, chunk by chunk; each counts for what became of it.
func TestEvict(t *testing.T) {
	f := newSpace(20, presentEntry)
	f.pages[9], f.pages[2], f.pages[3] = swapEntry, sharedEntry, 0
	f.locked[16] = true
	k := on(t, Options{Medium: roomy()}, map[annex.Space]*fakeSpace{one: f})
	r := k.Do(t.Context(), annex.Request{Number: 7, ID: "c", Op: annex.Evict, Runs: []annex.Run{run(one, 8, 3), run(one, 1, 4), run(one, 15, 2), run(one, 17, 1)}})
	want := [][]int{{8, 10, 1}, {4, 15}, {16, 17}}
	if got := pages(f.asked); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("asked for %v, want %v", got, want)
	}
	if r.Number != 7 || r.ID != "c" || r.Asked != 10 || r.Moved != 6 || r.Skipped != 4 || r.Cached != 1 || r.Stopped || r.Err != nil {
		t.Errorf("%+v", r)
	}
	if a := k.Account(); a.Requests != 1 || a.Evicted != 6 || a.Skipped != 4 || a.Spaces != 1 {
		t.Errorf("%+v", a)
	}
}

// Runs that lie together are one, and so are those that lie no further apart than the
// medium thinks worth while; pages that are in memory are not asked for.
func TestFetch(t *testing.T) {
	f := newSpace(40, swapEntry)
	f.pages[1], f.pages[30] = presentEntry, 0
	m := roomy()
	m.traits.Chunk = 64
	k := on(t, Options{Medium: m}, map[annex.Space]*fakeSpace{one: f})
	r := k.Do(t.Context(), annex.Request{Op: annex.Fetch, Runs: []annex.Run{run(one, 8, 2), run(one, 0, 3), run(one, 5, 1), run(one, 30, 1), run(one, 12, 2), run(one, 13, 3)}})
	want := [][]advise.Range{{{Start: 0, Length: 16 * annex.PageSize}}}
	if !slices.EqualFunc(f.asked, want, slices.Equal) {
		t.Errorf("asked for %v, want %v", f.asked, want)
	}
	// 13 was asked for twice.
	if r.Asked != 12 || r.Moved != 9 || r.Skipped != 2 || r.Err != nil {
		t.Errorf("%+v", r)
	}
	if a := k.Account(); a.Bridged != 7 || a.Fetched != 9 {
		t.Errorf("%+v", a)
	}
}

func TestMap(t *testing.T) {
	// A chunk is asked for before the one before it is waited for.
	f := newSpace(8, swapEntry)
	k := on(t, Options{Medium: roomy()}, map[annex.Space]*fakeSpace{one: f})
	r := k.Do(t.Context(), annex.Request{Op: annex.Map, Runs: []annex.Run{run(one, 0, 8)}})
	if r.Moved != 8 || r.Err != nil || f.pages[7] != presentEntry || !slices.Equal(f.advice, []advise.Advice{advise.WillNeed, advise.WillNeed, mapped, mapped}) {
		t.Errorf("%+v; advised %v", r, f.advice)
	}
}

// What cannot be read keeps no others from being mapped, and is told.
func TestMapOfWhatCannotBeRead(t *testing.T) {
	f := newSpace(8, swapEntry)
	f.unreadable = map[annex.Page]bool{2: true}
	m := roomy()
	m.traits.Chunk = 8
	k := on(t, Options{Medium: m}, map[annex.Space]*fakeSpace{one: f})
	r := k.Do(t.Context(), annex.Request{Op: annex.Map, Runs: []annex.Run{run(one, 0, 8)}})
	if r.Moved != 7 || r.Err == nil || f.pages[7] != presentEntry {
		t.Errorf("%+v", r)
	}
}

// The brake is asked before each chunk.
func TestBrake(t *testing.T) {
	for _, c := range []struct {
		name     string
		verdicts []Verdict // the last holds on
		moved    int
		stopped  bool
	}{
		{"never", []Verdict{Proceed}, 12, false},
		{"at once", []Verdict{Stop}, 0, true},
		{"after a chunk", []Verdict{Proceed, Stop}, 4, true},
		{"for a while", []Verdict{Proceed, Wait, Wait, Proceed}, 12, false},
		{"for good", []Verdict{Proceed, Proceed, Wait}, 8, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newSpace(12, presentEntry)
				asked := 0
				brake := func(r annex.Request) Verdict {
					if r.ID != "c" {
						t.Errorf("asked of %+v", r)
					}
					asked++
					return c.verdicts[min(asked, len(c.verdicts))-1]
				}
				k := on(t, Options{Medium: roomy(), Brake: brake}, map[annex.Space]*fakeSpace{one: f})
				r := k.Do(t.Context(), annex.Request{ID: "c", Op: annex.Evict, Runs: []annex.Run{run(one, 0, 12)}})
				if r.Moved != c.moved || r.Stopped != c.stopped || r.Err != nil {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// Others go first before each call that moves something.
func TestGivingWay(t *testing.T) {
	for op, entry := range map[annex.Op]uint64{annex.Evict: presentEntry, annex.Fetch: swapEntry, annex.Map: swapEntry} {
		f := newSpace(12, entry)
		before := []int{-1} // calls when others were let go first
		k := on(t, Options{Medium: roomy(), GiveWay: func() {
			f.mu.Lock()
			before = append(before, len(f.advice))
			f.mu.Unlock()
		}}, map[annex.Space]*fakeSpace{one: f})
		r := k.Do(t.Context(), annex.Request{ID: "c", Op: op, Runs: []annex.Run{run(one, 0, 12)}})
		if r.Err != nil || len(f.advice) < 2 {
			t.Fatalf("%s: the kernel was asked %d times: %v", op, len(f.advice), r.Err)
		}
		for i := range before[1:] {
			if before[i+1] > before[i]+1 {
				t.Errorf("%s: others were let go first before the calls %d, and after more than one besides", op, before[1:])
			}
		}
		if last := before[len(before)-1]; last < len(f.advice)-1 {
			t.Errorf("%s: others were let go first before the calls %d of %d", op, before[1:], len(f.advice))
		}
	}
}

// What is not to be begun any more after others went first is not.
func TestGivingWayTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSpace(12, presentEntry)
		stop := false
		k := on(t, Options{
			Medium: roomy(), GiveWay: func() { time.Sleep(time.Second); stop = true },
			Brake: func(annex.Request) Verdict {
				if stop {
					return Stop
				}
				return Proceed
			},
		}, map[annex.Space]*fakeSpace{one: f})
		r := k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: []annex.Run{run(one, 0, 12)}})
		if r.Moved != 0 || !r.Stopped || r.Err != nil || len(f.advice) > 0 {
			t.Errorf("it was to stop meanwhile: %+v", r)
		}
		stop = false
		k = on(t, Options{Medium: roomy(), GiveWay: func() { time.Sleep(time.Second) }}, map[annex.Space]*fakeSpace{one: f})
		r = k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: []annex.Run{run(one, 0, 12)}, By: annex.Moment(time.Second)})
		if r.Moved != 0 || !r.Stopped || r.Err != nil || len(f.advice) > 0 {
			t.Errorf("its time came meanwhile: %+v", r)
		}
	})
}

// Nothing is begun after its time, be it the brake or the rate that kept it so long.
func TestBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSpace(12, presentEntry)
		budget, err := NewBudget(BudgetOptions{Rate: 4 * annex.PageSize})
		if err != nil {
			t.Fatal(err)
		}
		k := on(t, Options{Medium: roomy(), Budget: budget}, map[annex.Space]*fakeSpace{one: f})
		r := k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: []annex.Run{run(one, 0, 12)}, By: annex.Moment(1500 * time.Millisecond)})
		if r.Moved != 8 || !r.Stopped || r.Err != nil || r.Ended != annex.Moment(1500*time.Millisecond) {
			t.Errorf("%+v, want 4 pages at once and 4 a second later", r)
		}
		r = k.Do(t.Context(), annex.Request{Op: annex.Fetch, Runs: []annex.Run{run(one, 0, 12)}, By: annex.Moment(time.Second)})
		if r.Moved != 0 || !r.Stopped || r.Err != nil {
			t.Errorf("late: %+v", r)
		}
	})
}

func TestContextEnds(t *testing.T) {
	f := newSpace(12, presentEntry)
	ctx, cancel := context.WithCancel(t.Context())
	chunks := 0
	k := on(t, Options{Medium: roomy(), Brake: func(annex.Request) Verdict {
		if chunks++; chunks == 2 {
			cancel()
		}
		return Proceed
	}}, map[annex.Space]*fakeSpace{one: f})
	r := k.Do(ctx, annex.Request{Op: annex.Evict, Runs: []annex.Run{run(one, 0, 12)}})
	if !r.Stopped || r.Err != nil || r.Moved == 12 || r.Moved < 4 {
		t.Errorf("%+v", r)
	}
}

// What has gone, or is refused, keeps nothing else from being done.
func TestOneSpaceOfSeveralIsGone(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*fakeSpace)
		is    error
	}{
		{"gone", func(f *fakeSpace) { f.gone = true }, ErrGone},
		{"refused", func(f *fakeSpace) { f.refuse = syscall.EIO }, syscall.EIO},
	} {
		t.Run(c.name, func(t *testing.T) {
			dead, alive := newSpace(8, presentEntry), newSpace(8, presentEntry)
			c.spoil(dead)
			k := on(t, Options{Medium: roomy()}, map[annex.Space]*fakeSpace{one: dead, other: alive})
			r := k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: []annex.Run{run(one, 0, 3), run(other, 0, 8), run(one, 3, 5)}})
			if r.Moved != 8 || !errors.Is(r.Err, c.is) || r.Stopped {
				t.Errorf("%+v", r)
			}
			if len(r.Parts) != 2 || r.Parts[0].Moved != 0 || r.Parts[0].Gone != errors.Is(c.is, ErrGone) || r.Parts[1] != (annex.Part{Space: other, Done: 8, Moved: 8}) {
				t.Errorf("of each space is told %+v", r.Parts)
			}
			if len(dead.asked) > 1 {
				t.Errorf("asked again: %v", dead.asked)
			}
		})
	}
}

// A space that is gone is opened anew when it is asked for again: its process may have
// executed another program.
func TestGoneIsClosed(t *testing.T) {
	f := newSpace(8, presentEntry)
	k := on(t, Options{Medium: roomy()}, map[annex.Space]*fakeSpace{one: f})
	ask := func() annex.Result {
		return k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: []annex.Run{run(one, 0, 8)}})
	}
	f.gone = true
	if r := ask(); !errors.Is(r.Err, ErrGone) || f.closed != 1 {
		t.Errorf("%+v; closed %d times", r, f.closed)
	}
	f.gone = false
	if r := ask(); r.Moved != 8 || r.Err != nil || f.opened != 2 {
		t.Errorf("%+v; opened %d times", r, f.opened)
	}
	k.Forget(one)
	if f.closed != 2 || k.Account().Spaces != 0 {
		t.Errorf("forgotten: closed %d times, %+v", f.closed, k.Account())
	}
}

func TestFull(t *testing.T) {
	f := newSpace(12, presentEntry)
	m := roomy()
	f.full = func() bool {
		if m.room.Free < annex.PageSize {
			return true
		}
		m.room.Free -= annex.PageSize
		return false
	}
	m.room.Free = 6 * annex.PageSize
	k := on(t, Options{Medium: m}, map[annex.Space]*fakeSpace{one: f})
	r := k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: []annex.Run{run(one, 0, 12)}})
	var full *Full
	if r.Moved != 6 || !errors.As(r.Err, &full) {
		t.Errorf("%+v", r)
	}
	if r = k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: []annex.Run{run(one, 8, 4)}}); r.Moved != 0 || !errors.As(r.Err, &full) {
		t.Errorf("once more: %+v", r)
	}
	if r = k.Do(t.Context(), annex.Request{Op: annex.Fetch, Runs: []annex.Run{run(one, 0, 12)}}); r.Moved != 6 || r.Err != nil {
		t.Errorf("back: %+v", r)
	}
	m.err = &NotInUse{"fake"}
	if r = k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: []annex.Run{run(one, 0, 4)}}); !errors.Is(r.Err, m.err) {
		t.Errorf("taken out of use: %+v", r)
	}
}

// A process that stands still has others wait for a moment only, then for nothing; and of one
// container, and of all, only so many calls are in the kernel.
func TestHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		third := annex.Space{PID: 3, Started: 30}
		still, alive, also := newSpace(8, presentEntry), newSpace(8, presentEntry), newSpace(8, presentEntry)
		still.hang, also.hang = make(chan struct{}), make(chan struct{})
		var late []annex.ID
		o := Options{Medium: roomy(), HungEach: 1, Hung: 2, Late: func(r annex.Request) { late = append(late, r.ID) }}
		k := on(t, o, map[annex.Space]*fakeSpace{one: still, other: alive, third: also})
		var hung *Hung
		evict := func(id annex.ID, spaces ...annex.Space) annex.Result {
			r := annex.Request{ID: id, Op: annex.Evict}
			for _, s := range spaces {
				r.Runs = append(r.Runs, run(s, 0, 8))
			}
			return k.Do(t.Context(), r)
		}
		began, ended := time.Now(), make(chan struct{})
		go func() {
			defer close(ended)
			r := evict("a", one, other)
			if r.Moved != 0 || !r.Stopped || !errors.As(r.Err, &hung) || hung.Space != one || hung.After != DefaultTimeout {
				t.Errorf("%+v", r)
			}
		}()
		synctest.Wait()
		if r := evict("b", other); r.Moved != 8 || r.Err != nil || time.Since(began) != DefaultSlow {
			t.Errorf("another's, after %v: %+v", time.Since(began), r)
		}
		alive.pages = newSpace(8, presentEntry).pages
		if r := evict("b", other); r.Moved != 8 || time.Since(began) != DefaultSlow || !slices.Equal(late, []annex.ID{"a"}) {
			t.Errorf("another's next, after %v: %+v; late are %v", time.Since(began), r, late)
		}
		if r := evict("a", third); !errors.As(r.Err, &hung) || hung.After != 0 {
			t.Errorf("another space of a container with a call that is late: %+v", r)
		}
		<-ended
		if a := k.Account(); a.Stuck != 1 || a.LeftBehind != 1 || time.Since(began) != DefaultTimeout {
			t.Errorf("%+v after %v", a, time.Since(began))
		}
		evict("c", third)
		var stuck *Stuck
		if r := evict("b", other); !errors.As(r.Err, &stuck) || stuck.Calls != 2 {
			t.Errorf("with as many stuck as may be: %+v", r)
		}
		close(also.hang)
		k.Forget(one) // while it is stuck
		close(still.hang)
		synctest.Wait()
		if a := k.Account(); a.Stuck != 0 || a.Spaces != 2 || still.closed != 1 || len(k.late) != 0 {
			t.Errorf("%+v; closed %d times; late are %v", a, still.closed, k.late)
		}
		also.hang, still.hang = nil, nil
		if r := evict("a", one, other, third); r.Err != nil || still.opened != 2 {
			t.Errorf("once they are back: %+v; opened %d times", r, still.opened)
		}
	})
}

// A medium that is slow for all has only so many calls, whichever containers they are for, and calls are
// late later then.
func TestSlowMedium(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spaces, answer := map[annex.Space]*fakeSpace{}, make(chan struct{})
		late, of := 0, func(i int) annex.Space { return annex.Space{PID: int32(i), Started: 1} }
		k := on(t, Options{Medium: roomy(), Late: func(annex.Request) { late++ }}, spaces)
		var fetches sync.WaitGroup
		fetch := func(i int) annex.Result {
			r := annex.Request{ID: annex.ID(strconv.Itoa(i)), Op: annex.Fetch, Runs: []annex.Run{run(of(i), 0, 4)}}
			return k.Do(t.Context(), r)
		}
		const many = mostLate + DefaultFetches // none is left that would answer in time
		for i := 1; i <= many; i++ {
			spaces[of(i)] = newSpace(4, swapEntry)
			spaces[of(i)].hang = answer
		}
		for i := 1; i <= many; i++ {
			fetches.Go(func() { fetch(i) })
		}
		time.Sleep(DefaultTimeout / 2)
		if under := len(k.spaces); late != mostLate || under != mostLate+DefaultFetches {
			t.Errorf("%d calls are late, and %d in the kernel", late, under)
		}
		close(answer)
		fetches.Wait()
		if k.slowness() <= DefaultSlow || len(k.late) != 0 || k.waitedFor != 0 {
			t.Errorf("calls are late after %v; late are %v, %d of them waited for", k.slowness(), k.late, k.waitedFor)
		}
		for i := 1; i <= many; i++ {
			spaces[of(i)].hang = nil
			fetch(i)
		}
		if k.slowness() != DefaultSlow {
			t.Errorf("calls are late after %v once the medium answers in time", k.slowness())
		}
	})
}

// What is slow and no more loses its turn, and ends with what it has moved.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newSpace(8, presentEntry)
		slow.hang = make(chan struct{})
		time.AfterFunc(2*DefaultSlow, func() { close(slow.hang) })
		k := on(t, Options{Medium: roomy()}, map[annex.Space]*fakeSpace{one: slow})
		r := k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: []annex.Run{run(one, 0, 8)}})
		if r.Moved != 4 || !r.Stopped || r.Err != nil {
			t.Errorf("%+v: want a chunk of 4 pages moved, and the rest left off", r)
		}
		if r := k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: []annex.Run{run(one, 0, 8)}}); r.Moved != 4 || r.Stopped || r.Err != nil {
			t.Errorf("the rest: %+v", r)
		}
	})
}

// Evictions go one at a time, others several; a fetch does not wait for an eviction.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spaces := map[annex.Space]*fakeSpace{}
		for i := range 6 {
			f := newSpace(4, presentEntry)
			if i >= 2 {
				f = newSpace(4, swapEntry)
			}
			f.hang = make(chan struct{})
			spaces[annex.Space{PID: int32(i)}] = f
		}
		k := on(t, Options{Medium: roomy(), Fetches: 3}, spaces)
		var done sync.WaitGroup
		for i := range 6 {
			op := annex.Fetch
			if i < 2 {
				op = annex.Evict
			}
			s := annex.Space{PID: int32(i)}
			done.Go(func() {
				if r := k.Do(t.Context(), annex.Request{Op: op, Runs: []annex.Run{run(s, 0, 4)}}); r.Moved != 4 || r.Err != nil {
					t.Errorf("%+v", r)
				}
			})
		}
		synctest.Wait()
		if n := len(k.evicting); n != 1 {
			t.Errorf("%d evictions at once", n)
		}
		if n := len(k.fetching); n != 3 {
			t.Errorf("%d fetches at once", n)
		}
		if n := k.Account().Spaces; n != 4 {
			t.Errorf("%d are under way, want 4", n)
		}
		for _, f := range spaces {
			close(f.hang)
		}
		done.Wait()
	})
}

// As many as may be idle are held open, and the ones used last.
func TestIdleSpaces(t *testing.T) {
	spaces := map[annex.Space]*fakeSpace{}
	for i := range 5 {
		spaces[annex.Space{PID: int32(i)}] = newSpace(4, presentEntry)
	}
	k := on(t, Options{Medium: roomy(), Spaces: 2}, spaces)
	for i := range 5 {
		k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: []annex.Run{run(annex.Space{PID: int32(i)}, 0, 1)}})
	}
	for s, f := range spaces {
		if open := f.opened > f.closed; open != (s.PID >= 3) {
			t.Errorf("%s: opened %d times, closed %d", s, f.opened, f.closed)
		}
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	if r := k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: []annex.Run{run(one, 0, 1)}}); !errors.Is(r.Err, ErrClosed) {
		t.Errorf("closed: %+v", r)
	}
}

// Reads wait for a device that has many already, and not for ever.
func TestDepth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := roomy()
		m.traits = Traits{Chunk: 4, Depth: 4}
		looks := 0
		m.reading = func() int { looks++; return 100 / looks }
		f := newSpace(64, swapEntry)
		k := on(t, Options{Medium: m}, map[annex.Space]*fakeSpace{one: f})
		var runs []annex.Run
		for p := 0; p < 64; p += 2 {
			runs = append(runs, run(one, p, 1))
		}
		if r := k.Do(t.Context(), annex.Request{Op: annex.Fetch, Runs: runs}); r.Moved != 32 || r.Err != nil || looks < 26 {
			t.Errorf("%+v after %d looks", r, looks)
		}
		m.reading = func() int { return 1000 }
		if r := k.Do(t.Context(), annex.Request{Op: annex.Fetch, Runs: runs}); r.Moved != 32 || r.Err != nil {
			t.Errorf("%+v", r)
		}
	})
}

func TestPlaceOf(t *testing.T) {
	for entry, want := range map[uint64]place{
		0: nowhere, presentEntry: inMemory, sharedEntry: inMemoryOfSeveral, presentEntry | 1<<61: inMemoryOfSeveral,
		swapEntry: inSwap, swapEntry | pagemap.MarkerType: nowhere, swapEntry | pagemap.FirstSpecialType: nowhere,
	} {
		if got := placeOf(pagemap.Entry(entry)); got != want {
			t.Errorf("%#x is at %d, want %d", entry, got, want)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, m := range []Medium{nil, Together{}} {
		if _, err := NewKernel(Options{Medium: m}); !errors.Is(err, ErrNoMedium) {
			t.Errorf("%v: %v", m, err)
		}
	}
	k := on(t, Options{Medium: roomy()}, nil)
	if r := k.Do(t.Context(), annex.Request{Op: 9, Runs: []annex.Run{run(one, 0, 1)}}); r.Err == nil || r.Asked != 1 {
		t.Errorf("%+v", r)
	}
}
