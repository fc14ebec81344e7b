package daemon

import (
	"fmt"
	"net/url"
	"path/filepath"
	"sync"

	"tare/annex/config"
	"tare/annex/control"
	"tare/annex/media"
	"tare/kernel/swap"
)

// tiers bounds what is written to each swap area, and keeps the account of that. While the area
// that the kernel fills may take no more, nothing leaves: where a page goes is the kernel's choice,
// by the areas' priorities.
type tiers struct {
	host   swap.Host
	areas  *areas
	writes *media.Writes
	dir    string // where the accounts lie
	config func() config.Config

	mu      sync.Mutex
	budgets map[string]*media.Budget // by area
	lost    map[string]error         // of areas whose account could not be opened
}

func newTiers(host swap.Host, a *areas, dir string, of func() config.Config) *tiers {
	return &tiers{
		host: host, areas: a, writes: media.NewWrites(host, a.inUse), dir: dir, config: of,
		budgets: map[string]*media.Budget{}, lost: map[string]error{},
	}
}

// open opens the accounts of the areas that are in use.
func (t *tiers) open() error {
	for _, m := range t.areas.inUse() {
		t.of(m.Name())
		if err := t.lost[m.Name()]; err != nil {
			return err
		}
	}
	return nil
}

// of is the budget of an area, opened when it is first asked for. One whose account cannot be kept
// counts from none.
func (t *tiers) of(area string) *media.Budget {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.budgets[area]; b != nil {
		return b
	}
	rate, daily := bounds(t.config(), area)
	o := media.BudgetOptions{
		Area: area, Rate: rate, Daily: daily, File: filepath.Join(t.dir, writtenName+"-"+url.PathEscape(area)),
		Written: func() (int64, error) { return t.writes.To(area) },
	}
	b, err := media.NewBudget(o)
	if err != nil {
		t.lost[area] = fmt.Errorf("the account of what is written to %s: %w", area, err)
		o.File, o.Written = "", nil
		if b, err = media.NewBudget(o); err != nil {
			return nil // it has no bounds that could be kept
		}
	}
	t.budgets[area] = b
	return b
}

// set has the bounds of a configuration in force.
func (t *tiers) set(c config.Config) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for area, b := range t.budgets {
		b.Set(bounds(c, area))
	}
}

// bounds are those of writing to an area.
func bounds(c config.Config, area string) (rate, daily int64) {
	for _, t := range c.Tiers {
		if t.Area == area {
			return t.WriteRate, t.Daily()
		}
	}
	return 0, 0
}

// status lists the areas in use, in the order in which the kernel fills them.
func (t *tiers) status() (all []control.Tier) {
	areas, err := t.host.Areas()
	for _, m := range t.areas.inUse() {
		one := control.Tier{Area: m.Name(), Kind: string(m.Kind()), Encrypted: encrypted(t.host, m)}
		if room, err := m.Room(); err == nil {
			one.SizeBytes, one.FreeBytes = room.Size, room.Free
		} else {
			one.Problem = err.Error()
		}
		for _, a := range areas {
			if err == nil && a.Path == m.Name() {
				one.Priority = a.Priority
			}
		}
		if b := t.of(m.Name()); b != nil {
			state := b.State()
			one.WrittenTodayBytes, one.DailyBytes, one.RateBytesPerSecond = state.Written, state.Daily, state.Rate
			if state.Problem != nil {
				one.Problem = state.Problem.Error()
			}
		}
		t.mu.Lock()
		if err := t.lost[m.Name()]; err != nil {
			one.Problem = err.Error()
		}
		t.mu.Unlock()
		all = append(all, one)
	}
	return all
}

// close writes the accounts.
func (t *tiers) close() (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.budgets {
		if closing := b.Close(); err == nil {
			err = closing
		}
	}
	return err
}
