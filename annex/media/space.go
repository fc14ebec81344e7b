package media

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tare/annex"
)

// held is a space that is held open. Kernel.mu guards all but opening.
type held struct {
	space annex.Space
	refs  int    // of calls under way
	used  uint64 // Kernel.uses when it was last
	stuck int    // calls that the kernel keeps
	loose bool   // it is not among Kernel.spaces any more: the last call closes it

	opening sync.Mutex
	target  Target
}

// Hung says that a space is not worked on, since an earlier call for it has not come
// back: its process stands still inside the kernel with its memory locked, or its
// medium does not answer.
type Hung struct {
	Space annex.Space
	After time.Duration // where this call is the one
}

func (h *Hung) Error() string {
	if h.After > 0 {
		return fmt.Sprintf("space %s: the kernel has not come back within %v: its process may stand still inside it (state D), or swap does not answer; the kernel's log may say which", h.Space, h.After)
	}
	return fmt.Sprintf("space %s: earlier calls for its container have not come back from the kernel", h.Space)
}

// Stuck says that too many calls have not come back from the kernel for another to be
// begun.
type Stuck struct{ Calls int }

func (s *Stuck) Error() string {
	return fmt.Sprintf("%d calls have not come back from the kernel: see its log for a swap device that does not answer, or for tasks that hang", s.Calls)
}

// ErrClosed says that a [Kernel] was closed.
var ErrClosed = errors.New("media are closed")

// call calls f with a space that is held open, for as long as the kernel may take. What takes
// long has others have the request's turn. What takes longer is left behind, and until it
// comes back its space is refused, so that nobody else waits for it. f must not touch what is
// not its own.
func (d *doing) call(ctx context.Context, s annex.Space, f func(Target) (moved, error)) (moved, error) {
	k := d.k
	h, err := k.hold(d.r.ID, s)
	if err != nil {
		return moved{}, err
	}
	type answer struct {
		moved
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		target, err := h.open(k.o.Open)
		var done moved
		if err == nil {
			done, err = f(target)
		}
		k.release(h, errors.Is(err, ErrGone))
		answered <- answer{done, err}
	}()
	began := time.Now()
	slow, timer := time.NewTimer(k.slowness()), time.NewTimer(k.o.Timeout)
	defer slow.Stop()
	defer timer.Stop()
	// Who cancels waits too, and no longer than for a call that hangs: the kernel comes back from
	// most in a moment.
	for {
		select {
		case a := <-answered:
			k.cameBack(d, a.moved, time.Since(began))
			return a.moved, a.err
		case <-slow.C:
			if !d.lose(false) {
				slow.Reset(k.o.Slow)
			}
			continue
		case <-timer.C:
		}
		break
	}
	d.lose(true)
	k.leave(h)
	go func() {
		<-answered
		k.back(h, d.r.ID)
	}()
	return moved{}, &Hung{s, k.o.Timeout}
}

// mostLate is how many calls may be late, and not left behind yet, until no more turns are handed on:
// then it is the medium that is slow, for all, and with more calls it would be slower.
const mostLate = 4

// lose has others have the turn of a request of which a call is late; false is that it keeps it.
func (d *doing) lose(isLeftBehind bool) bool {
	if d.isLate {
		return true
	}
	k := d.k
	k.mu.Lock()
	if !isLeftBehind && k.waitedFor >= mostLate {
		k.mu.Unlock()
		return false
	}
	d.isLate = true
	k.late[d.r.ID]++
	k.waitedFor++
	k.mu.Unlock()
	d.yield()
	k.o.Late(d.r)
	return true
}

// slowness is after how long a call is late.
func (k *Kernel) slowness() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return max(k.o.Slow, k.slow)
}

// cameBack takes note of a call that was not left behind, and of how long it took. One that is late
// together with another container's says that the medium takes so long, and not a process that stands
// still.
func (k *Kernel) cameBack(d *doing, done moved, took time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !d.isLate {
		if done.pages > 0 && took < k.o.Slow {
			k.slow /= 2
		}
		return
	}
	if k.waitedFor > 1 && len(k.late) > 1 {
		k.slow = max(k.slow, min(2*took, k.o.Timeout/2))
	}
	k.waitedFor--
	k.onTime(d.r.ID)
}

// onTime takes away a call of those that are late; k.mu is held.
func (k *Kernel) onTime(id annex.ID) {
	if k.late[id]--; k.late[id] <= 0 {
		delete(k.late, id)
	}
}

func (h *held) open(open func(annex.Space) (Target, error)) (Target, error) {
	h.opening.Lock()
	defer h.opening.Unlock()
	if h.target == nil {
		target, err := open(h.space)
		if err != nil {
			return nil, err
		}
		h.target = target
	}
	return h.target, nil
}

// close closes what is open; no call is under way.
func (h *held) close() error {
	h.opening.Lock()
	defer h.opening.Unlock()
	if h.target == nil {
		return nil
	}
	target := h.target
	h.target = nil
	return target.Close()
}

func (k *Kernel) hold(id annex.ID, s annex.Space) (*held, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, ErrClosed
	}
	h := k.spaces[s]
	if h != nil && h.stuck > 0 || k.late[id] >= k.o.HungEach {
		return nil, &Hung{Space: s}
	}
	if k.stuck >= k.o.Hung {
		return nil, &Stuck{k.stuck}
	}
	if h == nil {
		h = &held{space: s}
		k.spaces[s] = h
	}
	h.refs++
	k.uses++
	h.used = k.uses
	return h, nil
}

func (k *Kernel) release(h *held, gone bool) {
	k.mu.Lock()
	h.refs--
	if gone {
		// It is opened anew when it is next asked for: a process that executes another
		// program has other memory.
		k.loosen(h)
	}
	closing := k.idle()
	if h.loose && h.refs == 0 {
		closing = append(closing, h)
	}
	k.mu.Unlock()
	for _, h := range closing {
		_ = h.close() // of files that were read only
	}
}

// loosen takes a space from those that are held; k.mu is held.
func (k *Kernel) loosen(h *held) {
	h.loose = true
	// While it is stuck, its name stays refused.
	if k.spaces[h.space] == h && h.stuck == 0 {
		delete(k.spaces, h.space)
	}
}

// idle takes away those that have not been used for longest, beyond as many as are to be
// held; k.mu is held.
func (k *Kernel) idle() []*held {
	var closing []*held
	for len(k.spaces) > k.o.Spaces {
		var oldest *held
		for _, h := range k.spaces {
			if h.refs == 0 && h.stuck == 0 && (oldest == nil || h.used < oldest.used) {
				oldest = h
			}
		}
		if oldest == nil {
			break
		}
		delete(k.spaces, oldest.space)
		closing = append(closing, oldest)
	}
	return closing
}

// leave counts a call that is left behind, and back one that has come back after all.
func (k *Kernel) leave(h *held) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h.stuck++
	k.stuck++
	k.waitedFor--
	k.account.LeftBehind++
}

func (k *Kernel) back(h *held, id annex.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.onTime(id)
	h.stuck--
	k.stuck--
	if h.loose {
		k.loosen(h)
	}
}

// Forget closes a space of which nothing more will be asked. It is opened again where
// something is all the same.
func (k *Kernel) Forget(s annex.Space) {
	k.mu.Lock()
	h := k.spaces[s]
	if h != nil {
		k.loosen(h)
	}
	closes := h != nil && h.refs == 0
	k.mu.Unlock()
	if closes {
		_ = h.close()
	}
}

// Close closes every space; requests fail from then on. What the kernel keeps is closed
// when it comes back.
func (k *Kernel) Close() error {
	k.mu.Lock()
	k.closed = true
	var closing []*held
	for _, h := range k.spaces {
		k.loosen(h)
		if h.refs == 0 {
			closing = append(closing, h)
		}
	}
	k.mu.Unlock()
	var errs []error
	for _, h := range closing {
		errs = append(errs, h.close())
	}
	return errors.Join(errs...)
}

func bySpace(a, b annex.Space) int {
	return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Started, b.Started))
}
