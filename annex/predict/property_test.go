package predict

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"tare/annex"
)

// replay plays a history that bytes say, of whatever sense, and calls after each step.
func replay(data []byte, options Options, after func(*Context, annex.Moment)) *Context {
	c := New(options)
	now := annex.Moment(time.Second)
	next := func() uint64 {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return uint64(b)
	}
	space := func() annex.Space { return annex.Space{PID: int32(next() % 3), Started: 1} }
	page := func() annex.Page {
		switch n := next(); n % 4 {
		case 0:
			return annex.Page(next())
		case 1:
			return annex.Page(next() * 97)
		case 2:
			return ^annex.Page(0) - annex.Page(next())
		default:
			return annex.Page(next() << (n / 4))
		}
	}
	runs := func() []annex.Run {
		r := []annex.Run{{Space: space(), First: page(), Pages: int(next()) - 4}, {Space: space(), First: page(), Pages: int(next() << (next() % 50))}}
		return r
	}
	for len(data) > 0 {
		op := next()
		now = now.After(time.Duration(next()*next()) * time.Millisecond / 8)
		switch op % 16 {
		case 0, 1:
			c.Began(now)
		case 2, 3:
			c.Ended(now)
		case 4, 5:
			c.Lost()
		case 6, 7:
			c.Forget(space())
		case 8, 9:
			c.Left(runs())
		case 10:
			if r := runs(); next()%2 == 0 {
				c.Gone(r)
			} else {
				c.Mapped(r)
			}
		case 11:
			c.Brought(runs(), now)
		default:
			s, first, by := space(), page(), annex.Page(next()%5)
			for i := range next() % 48 {
				now = now.After(time.Microsecond)
				c.Touched([]annex.Fault{{Space: s, Page: first + annex.Page(i)*by, At: now, Swapped: op%2 == 0}})
			}
		}
		after(c, now)
	}
	return c
}

// sound checks what holds of a context whatever it was told.
func sound(t *testing.T, c *Context, now annex.Moment) {
	t.Helper()
	members, predicted := 0, 0
	for id, table := range c.tables {
		if table == nil {
			continue
		}
		if table.id != uint32(id) || table.space.tables[table.number] != table || c.spaces[table.space.id] != table.space {
			t.Fatalf("table %d is not where it is looked for", id)
		}
		n := 0
		for i := range table.member.each {
			p := table.cells[n].pattern()
			if p.touched() < 1 || p.bursts() > c.options.Bursts {
				t.Fatalf("page %d is a member with the pattern %b", i, p)
			}
			if c.record.predicted(p) {
				predicted++
			}
			n++
		}
		if n != len(table.cells) {
			t.Fatalf("%d members have %d cells", n, len(table.cells))
		}
		for w := range table.tells {
			if table.tells[w]&^table.member[w] != 0 {
				t.Fatal("a page that is no member tells")
			}
		}
		members += n
	}
	if members > c.options.Pages || len(c.burst.touches) > c.options.Pages {
		t.Fatalf("%d members and %d touches, want %d at most", members, len(c.burst.touches), c.options.Pages)
	}
	if members != c.members {
		t.Fatalf("%d members are counted as %d", members, c.members)
	}

	type at struct {
		space annex.Space
		page  annex.Page
	}
	seen := map[at]bool{}
	last := 0
	for _, r := range c.Pages() {
		if r.Run.Pages < 1 {
			t.Fatalf("a run of %d pages", r.Run.Pages)
		}
		for k := range r.Run.Pages {
			p := r.Run.First + annex.Page(k)
			if seen[at{r.Run.Space, p}] {
				t.Fatalf("page %d is named twice", p)
			}
			seen[at{r.Run.Space, p}] = true
			table := c.spaces[r.Run.Space].tables[uint64(p)/tablePages]
			cell := table.cell(int(uint64(p) % tablePages))
			if cell.code() < last {
				t.Fatalf("page %d comes after pages of a higher rank", p)
			}
			last = cell.code()
		}
	}
	if !c.record.shut && len(seen) != predicted {
		t.Fatalf("%d pages are named of %d that are expected", len(seen), predicted)
	}

	if f, ok := c.Next(now); ok && (f.Earliest < now || f.Likely < f.Earliest || f.Latest < f.Likely) {
		t.Fatalf("at %v the forecast is %v", now, f)
	}
	for _, s := range c.Scores() {
		for _, share := range []float64{s.Precision, s.Recall} {
			if !(share >= 0 && share <= 1+1e-6) || s.Lead < 0 || s.Predictions < 0 {
				t.Fatalf("a score is %+v", s)
			}
		}
	}
	if size := c.Size(); size <= 0 || size > 1<<20+int64(members+1)*600 {
		t.Fatalf("%d members take %d bytes", members, size)
	}
}

func TestContextsAreSoundWhateverTheyAreTold(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 5))
		data := make([]byte, 1500)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		options := Options{Bursts: int(seed % 5), Pages: int(seed%7) * 40}
		steps := 0
		first := replay(data, options, func(c *Context, now annex.Moment) {
			if steps++; steps%8 == 0 {
				sound(t, c, now)
			}
		})
		again := replay(data, options, func(*Context, annex.Moment) {})
		if a, b := first.Pages(), again.Pages(); !reflect.DeepEqual(a, b) {
			t.Fatalf("the same history gives %v, and %v", a, b)
		}
		if a, b := first.Scores(), again.Scores(); !reflect.DeepEqual(a, b) {
			t.Fatalf("the same history has the scores %v, and %v", a, b)
		}
	}
}

func FuzzContext(f *testing.F) {
	f.Add([]byte("began, touched, ended"))
	f.Add([]byte{0, 1, 1, 12, 1, 1, 0, 0, 7, 1, 40, 2, 9, 9, 8, 1, 1, 0, 0, 0, 44, 0, 0, 0, 0, 0, 1, 1, 0, 1, 1, 12, 1, 1, 0, 0, 7, 1, 20, 2, 1, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			t.Skip("longer than it need be")
		}
		steps := 0
		replay(data, Options{}, func(c *Context, now annex.Moment) {
			if steps++; steps%16 == 0 {
				sound(t, c, now)
			}
		})
	})
}

// The histogram says nothing that it was not told: its quantiles ascend, and lie within what
// was counted, widened by the half that stands for the next.
func TestHistogramQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for range 200 {
		h := newHistogram(3600)
		least, most := math.Inf(1), 0.0
		for range 1 + r.IntN(100) {
			v := math.Exp(8*r.Float64() - 4)
			least, most = min(least, v), max(most, v)
			h.add(v)
		}
		for _, waited := range []float64{0, least, (least + most) / 2} {
			q, ok := h.quantiles(waited, quantileShares)
			if !ok {
				continue
			}
			if q[0] > q[1] || q[1] > q[2] || q[0] < max(waited, least/2.1) || q[2] > most*2.1 {
				t.Fatalf("of times from %g to %g, after %g, the quantiles are %v", least, most, waited, q)
			}
		}
		if _, ok := h.quantiles(2.1*most, quantileShares); ok {
			t.Fatalf("it says something after %g, and the longest was %g", 2.1*most, most)
		}
	}
}

func TestTimesBeyondTheHorizonAreOnlyCounted(t *testing.T) {
	c := New(Options{Horizon: time.Minute})
	at := annex.Moment(0)
	for i := range 60 {
		if i%2 == 0 {
			at = at.After(2 * time.Second)
		} else {
			at = at.After(time.Hour)
		}
		c.Began(at)
		c.Ended(at.After(awakeFor))
	}
	for law, loss := range c.intervals.losses {
		if !(loss.sum < math.Inf(1)) {
			t.Errorf("law %d is judged for ever: %+v", law, loss)
		}
	}
	if _, ok := c.intervals.shape.quantiles(10, quantileShares); !ok {
		t.Fatal("half of the times are beyond the horizon, and it does not know of them")
	}
	if q, _ := c.intervals.shape.quantiles(10, quantileShares); !math.IsInf(q[1], 1) {
		t.Errorf("after ten seconds the next is expected after %v, want beyond the horizon", q)
	}
}

func TestFindPeriod(t *testing.T) {
	for _, c := range []struct {
		name  string
		times []float64
		want  float64
	}{
		{"none of two", []float64{10, 10}, 0},
		{"few, and exact", []float64{10, 10.1, 9.9}, 10},
		{"few, and one missed", []float64{10, 20, 10}, 10},
		{"after disorder", []float64{3, 0.4, 17, 10, 10.1, 9.9}, 10},
		{"another than before", []float64{4, 4, 4, 4, 4, 4, 4, 4, 10, 10.4, 9.8, 10, 10.2}, 10},
		{"few, and not exact", []float64{10, 10.6, 9.6, 10}, 0},
		{"each time the same", []float64{10, 10, 10, 10, 10}, 10},
		{"some missed", []float64{10, 20, 10.1, 30, 9.9, 50, 10}, 10},
		{"most missed", []float64{20, 30, 20, 20, 10, 30, 50, 20}, 10},
		{"drawn at random", []float64{3, 17, 8, 30, 1, 12, 5, 22, 41}, 0},
		{"two in turn", []float64{1, 7.4, 1, 7.4, 1, 7.4, 1, 7.4}, 0},
		{"never one alone", []float64{20, 30, 20, 20, 30, 30, 50, 20}, 0},
	} {
		if got, _ := findPeriod(c.times); math.Abs(got-c.want) > 0.05*c.want {
			t.Errorf("%s: the period of %v is %g, want %g", c.name, c.times, got, c.want)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{}, {Bursts: 1}, {Threshold: 0.9, Margin: 0.1}} {
		if err := o.Check(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []Options{{Bursts: 5}, {Bursts: -1}, {Horizon: -1}, {Threshold: math.NaN()}, {Threshold: 0.95, Margin: 0.1}, {Follow: -1}, {Pages: -1}} {
		if o.Check() == nil {
			t.Errorf("%+v is let through", o)
		}
		if got := New(o).options; got != (Options{}).complete() {
			t.Errorf("%+v makes a context with %+v", o, got)
		}
	}
}
