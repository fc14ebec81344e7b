package media

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func newBudget(t *testing.T, o BudgetOptions) *Budget {
	t.Helper()
	b, err := NewBudget(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(t, BudgetOptions{Rate: 1000, Burst: 500})
		began := time.Now()
		for _, c := range []struct {
			bytes int64
			at    time.Duration
		}{
			{500, 0},
			{100, 100 * time.Millisecond},
			{2000, 600 * time.Millisecond}, // more than a burst, once the bucket is full
			{1, 2101 * time.Millisecond},   // and paid for then
		} {
			if err := b.Take(t.Context(), c.bytes); err != nil {
				t.Fatal(err)
			}
			if at := time.Since(began); at < c.at || at > c.at+time.Millisecond {
				t.Errorf("%d bytes at %v, want %v", c.bytes, at, c.at)
			}
		}
		b.Return(400)
		at := time.Now()
		if err := b.Take(t.Context(), 400); err != nil || time.Since(at) != 0 {
			t.Errorf("what was given back is had after %v (%v)", time.Since(at), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := b.Take(ctx, 400); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if s := b.State(); s.Written != 2601 {
			t.Errorf("%+v", s)
		}
	})
}

func TestDailyBudget(t *testing.T) {
	now := time.Date(2026, 3, 1, 23, 59, 0, 0, time.UTC)
	b := newBudget(t, BudgetOptions{Daily: 100, Now: func() time.Time { return now }})
	if err := b.Take(t.Context(), 90); err != nil {
		t.Fatal(err)
	}
	var spent *Spent
	if err := b.Take(t.Context(), 20); !errors.As(err, &spent) || !spent.Until.Equal(now.Add(time.Minute)) || spent.Written != 90 {
		t.Errorf("%v", err)
	}
	now = now.Add(-48 * time.Hour)
	if err := b.Take(t.Context(), 20); !errors.As(err, &spent) {
		t.Errorf("a calendar that was set back: %v", err)
	}
	now = now.Add(48*time.Hour + time.Minute)
	if err := b.Take(t.Context(), 20); err != nil {
		t.Errorf("the next day: %v", err)
	}
	if s := b.State(); s.Day != "2026-03-02" || s.Written != 20 || s.Total != 110 {
		t.Errorf("%+v", s)
	}
}

// What the kernel counted takes the place of what was taken.
func TestWrittenIsWhatTheKernelCounts(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	counted, failing := int64(5000), error(nil)
	b := newBudget(t, BudgetOptions{Now: func() time.Time { return now }, Written: func() (int64, error) { return counted, failing }})
	for _, c := range []struct {
		name                string
		take, write, within int64
		want                int64
	}{
		{"what is taken is not told before it is counted", 100, 40, 0, 0},
		{"then what was written", 0, 0, 2, 40},
		{"with what the kernel wrote of its own accord", 10, 200, 2, 250}, // 40, 10 taken, 200 more
		{"which includes what was taken", 0, 0, 2, 240},
	} {
		now = now.Add(time.Duration(c.within) * time.Second)
		if err := b.Take(t.Context(), c.take); err != nil {
			t.Fatal(err)
		}
		if c.name == "with what the kernel wrote of its own accord" {
			if s := b.State(); s.Written != 40 {
				t.Errorf("%s: %+v at first", c.name, s)
			}
			counted += c.write
			continue
		}
		counted += c.write
		if s := b.State(); s.Written != c.want {
			t.Errorf("%s: %+v, want %d", c.name, s, c.want)
		}
	}
	// But it counts against the day's: the kernel is asked once a second.
	b.Set(0, 300)
	if err := b.Take(t.Context(), 50); err != nil {
		t.Fatal(err)
	}
	if spent := new(Spent); !errors.As(b.Take(t.Context(), 20), &spent) {
		t.Error("more is taken than the day has")
	}
	failing, now = errors.New("no count"), now.Add(2*time.Second)
	if s := b.State(); !errors.Is(s.Problem, failing) || s.Written != 290 {
		t.Errorf("%+v, want what was taken besides", s)
	}
}

// What was written across midnight is no new day's in whole, and not forgotten either.
func TestWrittenAcrossMidnight(t *testing.T) {
	now := time.Date(2026, 3, 1, 20, 0, 0, 0, time.UTC)
	counted, failing := int64(0), error(nil)
	b := newBudget(t, BudgetOptions{Daily: 1000, Now: func() time.Time { return now }, Written: func() (int64, error) { return counted, failing }})
	if err := b.Take(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	now, counted = now.Add(6*time.Hour), 700 // 100 as they were taken, and 600 in six hours
	if s := b.State(); s.Day != "2026-03-02" || s.Written != 200 || s.Total != 700 {
		t.Errorf("two hours after midnight %+v, want a third of 600 today", s)
	}
	if spent := new(Spent); !errors.As(b.Take(t.Context(), 801), &spent) || spent.Written != 200 {
		t.Errorf("more is taken than is left of the day: %+v", spent)
	}
	now, counted = now.Add(22*time.Hour), 900 // to the moment at midnight
	if s := b.State(); s.Day != "2026-03-03" || s.Written != 0 || s.Total != 900 {
		t.Errorf("at midnight %+v", s)
	}
	for range 2 { // a look before midnight, and one soon after it
		now, counted = now.Add(24*time.Hour-time.Second), counted+100
		b.State()
		now, counted = now.Add(time.Second), counted+10
	}
	if s := b.State(); s.Day != "2026-03-05" || s.Written != 0 || s.Total != 1120 {
		t.Errorf("seen a second before midnight %+v", s)
	}
	failing = errors.New("no count")
	now, counted = now.Add(25*time.Hour), counted+500
	if s := b.State(); s.Day != "2026-03-06" || s.Written != 0 || !errors.Is(s.Problem, failing) {
		t.Errorf("not counted %+v", s)
	}
	now, failing = now.Add(24*time.Hour), nil // 49 hours, one of which is today's
	if s := b.State(); s.Day != "2026-03-07" || s.Written != 10 || s.Total != 1620 || s.Problem != nil {
		t.Errorf("counted after two midnights %+v", s)
	}
	now, counted = now.Add(-2*time.Hour), counted+50 // a calendar that is set back
	if s := b.State(); s.Day != "2026-03-06" || s.Written != 60 || s.Total != 1670 {
		t.Errorf("set back %+v", s)
	}
}

// What the kernel wrote last is in the account that an orderly end leaves.
func TestCloseCounts(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	counted := int64(5000)
	o := BudgetOptions{
		File: filepath.Join(t.TempDir(), "written"), Now: func() time.Time { return now },
		Written: func() (int64, error) { return counted, nil },
	}
	for n, within := range []time.Duration{time.Minute, 0} {
		b := newBudget(t, o)
		if err := b.Take(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		now, counted = now.Add(within), counted+40
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if s := newBudget(t, o).State(); s.Written != int64(n+1)*40 || s.Total != s.Written {
			t.Errorf("ended %v after: %+v, want 40 and not what was taken", within, s)
		}
	}
}

// A restart forgets nothing: not after an orderly end, not after none.
func TestBudgetIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "written")
	now := time.Date(2026, 3, 1, 18, 0, 0, 0, time.UTC)
	o := BudgetOptions{Daily: 1 << 30, File: file, Now: func() time.Time { return now }}
	b := newBudget(t, o)
	if err := b.Take(t.Context(), 100<<20); err != nil {
		t.Fatal(err)
	}
	if s := newBudget(t, o).State(); s.Written < 100<<20 || s.Written > 100<<20+step {
		t.Errorf("after it was killed: %+v", s)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = newBudget(t, o)
	if s := b.State(); s.Written != 100<<20 || s.Total != 100<<20 || s.Problem != nil {
		t.Errorf("after its end: %+v", s)
	}
	now = now.Add(24 * time.Hour)
	if s := newBudget(t, o).State(); s.Written != 0 || s.Total != 100<<20 {
		t.Errorf("the next day: %+v", s)
	}
	for _, text := range []string{"", "{", `{"day":"2026-03-01","written_bytes":-1,"total_bytes":0}`, `{"day":"never"}`, strings.Repeat("x", 1<<16)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var corrupt *Corrupt
		s := newBudget(t, o).State()
		if !errors.As(s.Problem, &corrupt) || s.Written != 1<<30*18/24 {
			t.Errorf("of %.20q: %+v, want three quarters of the day's", text, s)
		}
		if had, err := os.ReadFile(corrupt.Aside); string(had) != text {
			t.Errorf("%.20q is kept as %.20q (%v)", text, had, err)
		}
		if s := newBudget(t, o).State(); s.Problem != nil || s.Written != 1<<30*18/24 {
			t.Errorf("then: %+v", s)
		}
	}
}

// What cannot be kept is said, and counts on.
func TestBudgetThatCannotBeKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b := newBudget(t, BudgetOptions{File: filepath.Join(dir, "written")})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := b.Take(t.Context(), 2*step); err != nil {
		t.Fatal(err)
	}
	if s := b.State(); !errors.Is(s.Problem, fs.ErrNotExist) || s.Written != 2*step {
		t.Errorf("%+v", s)
	}
	if _, err := NewBudget(BudgetOptions{File: filepath.Join(dir, "written")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("begun there: %v", err)
	}
	if _, err := NewBudget(BudgetOptions{Rate: -1}); err == nil {
		t.Error("a rate below 0")
	}
}

func TestSetBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(t, BudgetOptions{})
		if err := b.Take(t.Context(), 1<<30); err != nil {
			t.Fatal(err)
		}
		b.Set(1000, 1<<40)
		began := time.Now()
		if err := b.Take(t.Context(), 1000); err != nil || time.Since(began) < 999*time.Millisecond {
			t.Errorf("taken after %v (%v)", time.Since(began), err)
		}
		if s := b.State(); s.Rate != 1000 || s.Daily != 1<<40 || s.Written != 1<<30+1000 {
			t.Errorf("%+v", s)
		}
	})
}

func FuzzParseLedger(f *testing.F) {
	f.Add([]byte(`{"day":"2026-03-01","written_bytes":1,"total_bytes":2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := parseLedger(b)
		if err != nil {
			return
		}
		file := filepath.Join(t.TempDir(), "ledger")
		if err := writeLedger(file, l); err != nil {
			t.Fatal(err)
		}
		if back, err := readLedger(file); back != l || err != nil {
			t.Errorf("%+v came back as %+v, %v", l, back, err)
		}
	})
}

// What could not be counted, or kept, is told for as long as that is so, and no longer: the next count
// has all of it.
func TestProblemIsOver(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	counted, failing := int64(0), error(nil)
	dir := filepath.Join(t.TempDir(), "made later")
	b := newBudget(t, BudgetOptions{Now: func() time.Time { return now }, Written: func() (int64, error) { return counted, failing }})
	now, counted, failing = now.Add(time.Minute), 70, errors.New("no count")
	if s := b.State(); !errors.Is(s.Problem, failing) {
		t.Errorf("%+v, want that it could not be counted", s)
	}
	if s := b.State(); !errors.Is(s.Problem, failing) {
		t.Errorf("%+v within the second", s)
	}
	now, failing = now.Add(time.Minute), nil
	if s := b.State(); s.Problem != nil || s.Written != 70 {
		t.Errorf("%+v, want what was written and no problem", s)
	}
	b.o.File = filepath.Join(dir, "written")
	now, counted = now.Add(time.Minute), counted+step
	if s := b.State(); s.Problem == nil {
		t.Errorf("%+v of a file that cannot be written", s)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	now, counted = now.Add(time.Minute), counted+2*step
	if s := b.State(); s.Problem != nil || s.Written != counted {
		t.Errorf("%+v of one that can be again, want %d", s, counted)
	}
}
