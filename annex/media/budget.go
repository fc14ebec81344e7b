package media

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// BudgetOptions are the bounds of writing. Each may be left out.
type BudgetOptions struct {
	Area  string // what is written to, in texts; empty is swap
	Rate  int64  // bytes a second
	Burst int64  // bytes that may be written at once after a pause; 0 is a second's worth
	Daily int64  // bytes a day (UTC)
	// File keeps what was written today, so that a restart does not forget it.
	File string
	// Written counts the bytes that the kernel has written to swap since it booted, for
	// whomever: pages that go to swap a second time unchanged are not written again, and
	// those that the kernel evicts of its own accord are. Without it, what is taken counts.
	Written func() (int64, error)
	// Now is the calendar's time; nil is time.Now.
	Now func() time.Time
}

// Budget bounds how much is written: by second as a token bucket, and by day. It may
// be used from several goroutines.
type Budget struct {
	o BudgetOptions

	mu     sync.Mutex
	tokens float64
	filled time.Time // when tokens was reckoned
	ledger ledger
	// counted is what Written gave last, when the calendar stood at countedAt, and taken what was
	// taken since. It was asked last at asked.
	counted   int64
	countedAt time.Time
	asked     time.Time
	taken     int64
	kept      int64 // what the file says was written today
	// Why the account is not exact: the file was none, which holds for the day; the kernel's count
	// was not to be had, or the file not to be written, the last time.
	lost, uncounted, unkept error
}

// Spent says that a day's budget is used up.
type Spent struct {
	Area           string
	Daily, Written int64
	Until          time.Time // when the next day begins
}

func (s *Spent) Error() string {
	return fmt.Sprintf("%d MiB were written to %s today, of %d MiB that its tier allows: nothing more leaves for it before %s: raise write_daily or endurance, if the device bears it, or put a device of more endurance to use",
		s.Written>>20, cmp.Or(s.Area, "swap"), s.Daily>>20, s.Until.Format(time.RFC3339))
}

// NewBudget opens the account. A file that is not there is made; one that cannot be read
// as an account is put aside, and of today's budget that part counts as spent which of the
// day is past: [State.Problem] tells.
func NewBudget(o BudgetOptions) (*Budget, error) {
	if o.Rate < 0 || o.Burst < 0 || o.Daily < 0 {
		return nil, fmt.Errorf("a budget of %d bytes a second, %d at once and %d a day: none may be below 0", o.Rate, o.Burst, o.Daily)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Burst == 0 {
		o.Burst = o.Rate
	}
	now := o.Now()
	b := &Budget{o: o, tokens: float64(o.Burst), filled: now, ledger: ledger{Day: day(now)}}
	if o.File != "" {
		if err := b.load(now); err != nil {
			return nil, err
		}
	}
	if o.Written != nil {
		counted, err := o.Written()
		if err != nil {
			return nil, fmt.Errorf("what was written to swap: %w", err)
		}
		b.counted, b.countedAt, b.asked = counted, now.Round(0), now
	}
	b.turn(now)
	return b, nil
}

func (b *Budget) load(now time.Time) error {
	had, err := readLedger(b.o.File)
	var corrupt *Corrupt
	switch {
	case errors.As(err, &corrupt):
		passed := now.UTC().Sub(now.UTC().Truncate(24 * time.Hour))
		b.ledger.Written = int64(float64(b.o.Daily) * passed.Hours() / 24)
		b.ledger.Total = b.ledger.Written
		b.lost = corrupt
	case err != nil:
		return err
	case had != (ledger{}):
		b.ledger = had
	}
	return b.keep()
}

// Take waits until so many bytes may be written by the second's bound and takes them of
// the day's: the error is a [*Spent], or ctx's. More than a burst is let through once the
// bucket is full, and paid for afterwards.
func (b *Budget) Take(ctx context.Context, bytes int64) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		wait, err := b.try(bytes)
		if err != nil || wait == 0 {
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

func (b *Budget) try(bytes int64) (wait time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.o.Now()
	b.account(now, false)
	if b.o.Daily > 0 && b.ledger.Written+bytes > b.o.Daily {
		return 0, &Spent{b.o.Area, b.o.Daily, b.ledger.Written, now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)}
	}
	if b.o.Rate > 0 {
		if passed := now.Sub(b.filled); passed > 0 {
			b.tokens = min(float64(b.o.Burst), b.tokens+passed.Seconds()*float64(b.o.Rate))
		}
		b.filled = now
		if short := min(float64(bytes), float64(b.o.Burst)) - b.tokens; short > 0 {
			return max(time.Duration(short/float64(b.o.Rate)*float64(time.Second)), time.Microsecond), nil
		}
		b.tokens -= float64(bytes)
	}
	b.charge(bytes)
	b.taken += bytes
	return 0, nil
}

// Return gives back what was taken and not written.
func (b *Budget) Return(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(float64(b.o.Burst), b.tokens+float64(bytes))
	b.charge(-min(bytes, b.taken))
	b.taken = max(0, b.taken-bytes)
}

// account brings the ledger up to now: what the kernel has counted, and a new day where one
// has begun. The kernel is asked once a second, when a day has begun, and at once if it is to.
func (b *Budget) account(now time.Time, atOnce bool) {
	since := b.countedAt
	written, err := b.settle(now, atOnce || day(now) != b.ledger.Day)
	today := ofToday(written, since, now.Round(0))
	b.charge(written - today)
	b.turn(now)
	b.charge(today)
	b.uncounted = err
}

// ofToday is that part of what was written between two times of the calendar which counts for
// the day of the second, as if all of it had come evenly.
func ofToday(written int64, since, now time.Time) int64 {
	began := now.UTC().Truncate(24 * time.Hour)
	if written <= 0 || !since.Before(began) {
		return written
	}
	return int64(float64(written) * (float64(now.Sub(began)) / float64(now.Sub(since))))
}

// settle has what the kernel counted take the place of what was taken since it last reported, and
// tells how much more that is. The error is that of the last time that the kernel was asked.
func (b *Budget) settle(now time.Time, atOnce bool) (more int64, err error) {
	if b.o.Written == nil || !atOnce && now.Sub(b.asked) < time.Second && !now.Before(b.asked) {
		return 0, b.uncounted
	}
	b.asked = now
	counted, err := b.o.Written()
	if err != nil {
		return 0, fmt.Errorf("what was written to swap: %w", err)
	}
	more = max(0, counted-b.counted) - b.taken
	b.counted, b.countedAt, b.taken = counted, now.Round(0), 0
	return more, nil
}

// turn begins a new day. A calendar that was set back begins none: what was written on
// the day that it now is, or on one that never came, stays written.
func (b *Budget) turn(now time.Time) {
	today := day(now)
	if today > b.ledger.Day {
		b.ledger.Written, b.kept, b.lost = 0, 0, nil
	}
	if today != b.ledger.Day {
		b.ledger.Day = today
		b.charge(0)
	}
}

// charge adds to what was written, and sees to it that the file says no less: it is
// written a step ahead, so that a program that is killed forgets nothing, and counts a step
// too much at most.
func (b *Budget) charge(bytes int64) {
	b.ledger.Written = max(0, b.ledger.Written+bytes)
	b.ledger.Total = max(0, b.ledger.Total+bytes)
	if b.o.File == "" || b.ledger.Written <= b.kept && b.kept > 0 {
		return
	}
	ahead := b.ledger
	ahead.Written += step
	ahead.Total += step
	b.unkept = writeLedger(b.o.File, ahead) // and a step later it is tried again
	b.kept = ahead.Written
}

// keep writes what was written as it is.
func (b *Budget) keep() error {
	b.kept = b.ledger.Written
	return writeLedger(b.o.File, b.ledger)
}

// step is how far ahead the file is written: some seconds of eviction, so that a file
// written with every step costs nothing.
const step = 16 << 20

// State is how a budget stands.
type State struct {
	Day     string // "2006-01-02", UTC
	Written int64  // on that day, as far as the kernel has counted it
	Total   int64  // since the account was begun
	Daily   int64  // 0 is no bound
	Rate    int64  // likewise
	Problem error  // why the account is not exact
}

// State tells it.
func (b *Budget) State() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.o.Now()
	b.account(now, false)
	s := State{
		Day:     b.ledger.Day,
		Written: b.ledger.Written,
		Total:   b.ledger.Total,
		Daily:   b.o.Daily,
		Rate:    b.o.Rate,
		Problem: cmp.Or(b.lost, b.uncounted, b.unkept),
	}
	if b.o.Written != nil && s.Problem == nil {
		// What was taken need not be written: pages whose place in swap holds what they do are not.
		s.Written, s.Total = max(0, s.Written-b.taken), max(0, s.Total-b.taken)
	}
	return s
}

// Set changes the bounds, as when a configuration is read anew; the account goes on, and
// a burst is a second's worth.
func (b *Budget) Set(rate, daily int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.o.Rate, b.o.Burst, b.o.Daily = rate, rate, daily
	b.tokens = min(b.tokens, float64(rate))
	b.filled = b.o.Now()
}

// Close writes the account as it stands.
func (b *Budget) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.o.File == "" {
		return nil
	}
	b.account(b.o.Now(), true)
	return b.keep()
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
