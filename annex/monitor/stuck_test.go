package monitor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"tare/annex"
	"tare/kernel/cgroup"
	"tare/probe/pagetable"
)

// taker finds nobody, and may wait before it says so.
type taker struct {
	asked   chan struct{} // nil, or told when it is asked
	answers chan struct{} // nil, or waited for
	closed  *atomic.Int64
}

func (*taker) Name() string { return "a test's" }

func (k *taker) Take(context.Context, []pagetable.Process, bool) (*pagetable.Census, error) {
	if k.answers != nil {
		k.asked <- struct{}{}
		<-k.answers
	}
	return &pagetable.Census{}, nil
}

func (k *taker) Close() error { k.closed.Add(1); return nil }

// silent is a source that tells nothing.
type silent struct{}

func (silent) watch(*container) error   { return nil }
func (silent) unwatch(*container) error { return nil }
func (silent) keepsWaiting() bool       { return false }
func (silent) counts() (Counts, error)  { return Counts{}, nil }
func (silent) close() error             { return nil }

// While one scan does not come back others are made, by another reader, of which one is kept
// in the end.
func TestScansBesideOneThatIsStuck(t *testing.T) {
	root := t.TempDir()
	watched := map[annex.ID]*container{}
	for _, id := range []annex.ID{"stuck", "other"} {
		if err := os.Mkdir(filepath.Join(root, string(id)), 0o755); err != nil {
			t.Fatal(err)
		}
		h := cgroup.Hierarchy{Version: 1, Controllers: []string{"memory"}, Mount: root, Root: "/"}
		watched[id] = &container{id: id, place: cgroup.Place{Hierarchy: h, Path: "/" + string(id)}}
	}
	var opened, closed atomic.Int64
	stuck := &taker{asked: make(chan struct{}), answers: make(chan struct{}), closed: &closed}
	m := &Monitor{
		closing: make(chan struct{}), watched: watched, source: silent{}, idle: &reader{taker: stuck},
		another: func() (pagetable.Taker, error) { opened.Add(1); return &taker{closed: &closed}, nil },
	}
	ended := make(chan error, 1)
	go func() {
		_, err := m.Scan(t.Context(), "stuck")
		ended <- err
	}()
	<-stuck.asked
	for range 3 {
		if _, err := m.Scan(t.Context(), "other"); err != nil {
			t.Fatal(err)
		}
	}
	if opened.Load() != 1 || closed.Load() != 0 || m.Cost("other").At == 0 {
		t.Errorf("beside one that is stuck %d readers were opened and %d closed, want one that is kept; %+v", opened.Load(), closed.Load(), m.Cost("other"))
	}
	close(stuck.answers)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if closed.Load() != 1 {
		t.Errorf("%d readers were closed when both were free, want 1", closed.Load())
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if closed.Load() != 2 {
		t.Errorf("%d readers of 2 are closed in the end", closed.Load())
	}
	if _, err := m.Scan(t.Context(), "other"); !errors.Is(err, ErrClosed) {
		t.Errorf("scan when closed: %v", err)
	}
}

// What cannot be opened beside one that is stuck fails that scan alone.
func TestNoOtherReader(t *testing.T) {
	root := t.TempDir()
	h := cgroup.Hierarchy{Version: 1, Controllers: []string{"memory"}, Mount: root, Root: "/"}
	if err := os.Mkdir(filepath.Join(root, "one"), 0o755); err != nil {
		t.Fatal(err)
	}
	var closed atomic.Int64
	full := errors.New("no room")
	kept := &reader{taker: &taker{closed: &closed}}
	m := &Monitor{
		closing: make(chan struct{}), source: silent{}, another: func() (pagetable.Taker, error) { return nil, full },
		watched: map[annex.ID]*container{"one": {id: "one", place: cgroup.Place{Hierarchy: h, Path: "/one"}}},
	}
	if _, err := m.Scan(t.Context(), "one"); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	m.idle = kept
	if _, err := m.Scan(t.Context(), "one"); err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil || closed.Load() != 1 {
		t.Errorf("%v; %d closed", err, closed.Load())
	}
}
