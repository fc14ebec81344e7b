package memory

import (
	"context"
	"os"
	"time"
)

// Warmth is how long memory took to be touched, newly mapped, once and once more.
// Where the first time is far slower than the second, the memory was cold: on a
// virtual host the hypervisor backs a page when it is first touched, at many times
// the price of a page that it has backed.
type Warmth struct {
	Bytes        int64
	First, Again time.Duration
}

// FirstRate is the bytes a second of the first time; 0 where nothing was touched.
func (w Warmth) FirstRate() float64 { return rate(w.Bytes, w.First) }

// AgainRate is that of the second time.
func (w Warmth) AgainRate() float64 { return rate(w.Bytes, w.Again) }

func rate(bytes int64, in time.Duration) float64 {
	if in <= 0 {
		return 0
	}
	return float64(bytes) / in.Seconds()
}

// warmStep is how much is touched between two looks at whether to go on.
const warmStep = 64 << 20

// Warm touches so many bytes of anonymous memory, whole pages, and frees them; and
// does so again, to see how cold they were. They are all mapped at a time, so that no
// page is met twice, and lie among the host's free ones afterwards, those which are
// given out first. room, where not nil, is asked before each step of 64 MiB whether
// the host has room for it: where not, fewer are touched. The error is the context's
// end, or that nothing could be mapped.
func Warm(ctx context.Context, bytes int64, room func(step int64) bool) (Warmth, error) {
	w := Warmth{Bytes: bytes / int64(os.Getpagesize()) * int64(os.Getpagesize())}
	for _, took := range []*time.Duration{&w.First, &w.Again} {
		if w.Bytes <= 0 {
			return Warmth{}, context.Cause(ctx)
		}
		touched, in, err := touch(ctx, w.Bytes, room)
		if err != nil {
			return Warmth{}, err
		}
		*took = in
		if touched < w.Bytes && took == &w.Again {
			// The host filled up in between; the rates are of what each time touched.
			w.First = time.Duration(float64(w.First) * float64(touched) / float64(w.Bytes))
		}
		w.Bytes = touched
	}
	return w, nil
}

// touch maps memory, writes to each of its pages, which took so long, and frees it.
func touch(
	ctx context.Context,
	bytes int64,
	room func(step int64) bool,
) (touched int64, took time.Duration, err error) {
	m, err := MapAnonymous(int(bytes))
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		if cerr := m.Close(); err == nil {
			err = cerr
		}
	}()
	page := int64(os.Getpagesize())
	began := time.Now()
	for touched < bytes {
		if ctx.Err() != nil {
			return touched, time.Since(began), context.Cause(ctx)
		}
		step := min(warmStep, bytes-touched)
		if room != nil && !room(step) {
			break
		}
		for end := touched + step; touched < end; touched += page {
			m.Bytes()[touched] = 1 // the kernel has written zeros to all of it
		}
	}
	return touched, time.Since(began), nil
}
