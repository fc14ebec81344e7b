package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"tare/kernel/accounting"
	"tare/kernel/process"
)

// Noise is how far a machine is from answering the same question the same way.
type Noise struct {
	Timer Lateness
	Loop  Repeatability
	// Steal is the share (0 to 1) of the host's CPU time, while the noise was
	// measured, that its hypervisor gave to others.
	Steal float64
	// Foreign is the share that other processes used, and Loudest the command that used most.
	Foreign float64
	Loudest string
}

// Effort is how long to look.
type Effort struct {
	Sleeps int           // of Sleep each
	Sleep  time.Duration // asked for
	Loops  int           // of about Loop each
	Loop   time.Duration
}

// Usual takes about two seconds.
var Usual = Effort{Sleeps: 1000, Sleep: time.Millisecond, Loops: 2000, Loop: 200 * time.Microsecond}

// MeasureNoise measures one kind of noise after another. Others' work at the
// same time is part of what it finds.
func MeasureNoise(ctx context.Context, e Effort) (Noise, error) {
	var n Noise
	before, err := accounting.Take("/proc")
	if err != nil {
		return n, fmt.Errorf("measure noise: %w", err)
	}
	if n.Timer, err = MeasureTimer(ctx, e.Sleeps, e.Sleep); err != nil {
		return n, err
	}
	if n.Loop, err = MeasureLoop(ctx, e.Loops, e.Loop); err != nil {
		return n, err
	}
	after, err := accounting.Take("/proc")
	if err != nil {
		return n, fmt.Errorf("measure noise: %w", err)
	}
	beside := accounting.Between(before, after, os.Getpid(), nil)
	n.Steal, n.Foreign, n.Loudest = beside.Steal, beside.Foreign, beside.Loudest
	return n, nil
}

// Lateness is by how much sleeps outlast what was asked for: the timer's, the
// scheduler's and the hypervisor's share together.
type Lateness struct {
	N             int
	P50, P99, Max time.Duration
	Histogram     []Bucket // without empty buckets at either end
}

// Bucket counts what is below UpTo and not below the bucket before.
type Bucket struct {
	UpTo  time.Duration // a power of two of microseconds
	Count int
}

// MeasureTimer sleeps n times (clock_nanosleep(2) on the monotonic clock) and
// sees how late it wakes. The thread's timer slack, by which the kernel is free
// to be late (50 us by default), is taken away first: it is no noise.
func MeasureTimer(ctx context.Context, n int, sleep time.Duration) (Lateness, error) {
	if n < 1 || sleep <= 0 {
		return Lateness{}, errors.New("measure timer: want at least one sleep, and a time to sleep")
	}
	late := make([]time.Duration, 0, n)
	err := process.OnFreshThread(func() error {
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("measure timer: prctl(PR_SET_TIMERSLACK): %w", err)
		}
		for range n {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("measure timer: %w", err)
			}
			start := time.Now()
			left := unix.NsecToTimespec(sleep.Nanoseconds())
			// A signal to the program ends a sleep early; what is left is slept then.
			for errors.Is(unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &left, &left), unix.EINTR) {
			}
			late = append(late, max(0, time.Since(start)-sleep))
		}
		return nil
	})
	if err != nil {
		return Lateness{}, err
	}
	return lateness(late), nil
}

// lateness sums up; it sorts late.
func lateness(late []time.Duration) Lateness {
	slices.Sort(late)
	l := Lateness{N: len(late), P50: quantile(late, 0.5), P99: quantile(late, 0.99), Max: late[len(late)-1]}
	at := 0
	for upTo := time.Microsecond; at < len(late); upTo *= 2 {
		count := 0
		for at+count < len(late) && (late[at+count] < upTo || upTo > math.MaxInt64/2) {
			count++
		}
		if at += count; count > 0 || len(l.Histogram) > 0 {
			l.Histogram = append(l.Histogram, Bucket{upTo, count})
		}
	}
	return l
}

// quantile of sorted values, by the nearest rank: a value that occurred.
func quantile(sorted []time.Duration, q float64) time.Duration {
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Repeatability is how alike the durations of the same work are, relative to
// their median.
type Repeatability struct {
	N        int
	Median   time.Duration
	P99, Max float64 // over the median: 1.02 is 2 % longer
	// AA is how far the medians of every other run are apart, as a share of
	// the median: the same against the same.
	AA float64
}

// MeasureLoop times the same short piece of arithmetic n times.
func MeasureLoop(ctx context.Context, n int, length time.Duration) (Repeatability, error) {
	if n < 2 || length <= 0 {
		return Repeatability{}, errors.New("measure loop: want at least two loops, and a length")
	}
	took := make([]time.Duration, n)
	err := process.OnFreshThread(func() error {
		turns := calibrate(length)
		for i := range took {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("measure loop: %w", err)
			}
			start := time.Now()
			spin(turns)
			took[i] = time.Since(start)
		}
		return nil
	})
	if err != nil {
		return Repeatability{}, err
	}
	return repeatability(took), nil
}

// calibrate finds how many turns take about that long, from the fastest of a
// few tries: a slow one was disturbed.
func calibrate(length time.Duration) int {
	turns := 1 << 10
	for {
		fastest := time.Duration(math.MaxInt64)
		for range 5 {
			start := time.Now()
			spin(turns)
			fastest = min(fastest, time.Since(start))
		}
		if fastest >= length/4 || turns >= 1<<40 {
			return max(1, int(float64(turns)*float64(length)/float64(max(fastest, 1))))
		}
		turns *= 2
	}
}

// sink keeps the compiler from leaving the loop out.
var sink uint64

//go:noinline
func spin(turns int) {
	x := sink | 1
	for range turns {
		// Each turn waits for the one before, so that its time is the
		// latency of a multiplication and an addition.
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink = x
}

func repeatability(took []time.Duration) Repeatability {
	var halves [2][]time.Duration
	for i, d := range took {
		halves[i%2] = append(halves[i%2], d)
	}
	sorted := slices.Sorted(slices.Values(took))
	r := Repeatability{N: len(took), Median: quantile(sorted, 0.5)}
	if r.Median <= 0 {
		return r
	}
	over := func(d time.Duration) float64 { return float64(d) / float64(r.Median) }
	r.P99, r.Max = over(quantile(sorted, 0.99)), over(sorted[len(sorted)-1])
	slices.Sort(halves[0])
	slices.Sort(halves[1])
	r.AA = math.Abs(over(quantile(halves[0], 0.5) - quantile(halves[1], 0.5)))
	return r
}
