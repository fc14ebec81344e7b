// Command load measures the load generator's own exactness, for SPECIFICATION.md,
// over the loopback against servers in a process and on a CPU of their own:
//
//   - timing: how much longer than true a closed loop's latencies are, whose
//     connection polls for its answers or sleeps for them, beside a bare exchange
//     of the same bytes without the generator;
//   - lateness: by how much an open loop sends late;
//   - stalls: the latencies of an open loop against a server that stalls at known
//     requests, beside those that the schedule and the stalls come to by
//     arithmetic.
//
// The server's own span of a request lies within what the generator records of
// it, by the same clock. What is called error is
//
//	recorded - (the server's span + the floor of the path),
//
// where the floor is the least that a bare exchange (write, poll, read; nothing
// parsed) took beyond the server's span in any repetition. Whatever is slower
// than that floor counts as the generator's error, though part of it is the
// path's; the bare exchange's own excess stands beside it.
//
// It wants two CPUs and an otherwise idle host: a measurement beside which the host
// did something else is repeated, whatever came of it. It prints what it found and
// asserts nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/kernel/host"
	"tare/kernel/process"
	"tare/stats"
	"tare/terminal"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == serveCommand {
		if err := serve(os.Args[2:]); err != nil {
			terminal.Fprintln(os.Stderr, "load: server:", err)
			os.Exit(1)
		}
		return
	}
	b := bench{}
	flag.IntVar(&b.repetitions, "repetitions", 10, "of each part; intervals are over them")
	flag.IntVar(&b.requests, "requests", 5000, "of each repetition of a closed loop")
	flag.DurationVar(&b.delay, "delay", 200*time.Microsecond, "that the server holds a request back for")
	flag.Float64Var(&b.rate, "rate", 5000, "requests a second of the open loop")
	flag.DurationVar(&b.span, "span", 2*time.Second, "of each repetition of an open loop")
	flag.IntVar(&b.client, "client", -1, "CPU of the generator; the first allowed but one, where left out")
	flag.IntVar(&b.server, "server", -1, "CPU of the servers; the last allowed, where left out")
	flag.BoolVar(&b.realtime, "realtime", true, "what polls, generator, bare exchange and servers, at real-time priority; needs root")
	flag.DurationVar(&b.patience, "patience", 5*time.Minute, "in all, for repeating what the host disturbed")
	flag.Int64Var(&b.seed, "seed", 1, "of resampling")
	flag.Usage = func() {
		terminal.Fprintln(os.Stderr, "usage: load [flags] [timing|lateness|stalls]...")
		flag.PrintDefaults()
	}
	flag.Parse()
	parts := flag.Args()
	if len(parts) == 0 {
		parts = []string{"timing", "lateness", "stalls"}
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := b.run(ctx, parts); err != nil {
		terminal.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

type bench struct {
	repetitions, requests int
	delay, span           time.Duration
	rate                  float64
	client, server        int
	realtime              bool
	seed                  int64
	patience              time.Duration

	undisturbed, repeated, disturbed int

	table *tabwriter.Writer
}

func (b *bench) run(ctx context.Context, parts []string) (err error) {
	if err := b.place(); err != nil {
		return err
	}
	restore, err := process.Confine([]int{b.client})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	fmt.Println(b.where())
	b.table = tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(b.table, "figure\tvalue, us\t95 % interval\tn")
	for _, part := range parts {
		var err error
		switch part {
		case "timing":
			err = b.timing(ctx)
		case "lateness":
			err = b.lateness(ctx)
		case "stalls":
			err = b.stalls(ctx)
		default:
			err = errors.New("no such part: want timing, lateness or stalls")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		b.table.Flush()
	}
	fmt.Println(b.surroundings())
	return nil
}

// place chooses the CPUs that were not named.
func (b *bench) place() error {
	cpus, err := process.Affinity()
	if err != nil {
		return err
	}
	if len(cpus) < 2 {
		return errors.New("one CPU: generator and server would wait for one another, and no figure would be the generator's")
	}
	if b.server < 0 {
		b.server = cpus[len(cpus)-1]
	}
	if b.client < 0 {
		b.client = cpus[len(cpus)-2]
	}
	if b.client == b.server {
		return fmt.Errorf("CPU %d for the generator and the server: name two", b.client)
	}
	if b.realtime {
		err := process.OnFreshThread(func() error { _, err := process.Punctual(); return err })
		if err != nil {
			return fmt.Errorf("%w: run as root, or with -realtime=false", err)
		}
	}
	allowed := func(c int) bool { return slices.Contains(cpus, c) }
	if unknown := slices.DeleteFunc([]int{b.client, b.server}, allowed); len(unknown) > 0 {
		return fmt.Errorf("CPUs %v are not among those that this program may use, %v", unknown, cpus)
	}
	return nil
}

func (b *bench) where() string {
	h := host.Read("/")
	return fmt.Sprintf("%s, %d CPUs, kernel %s, %s; generator on CPU %d, servers on CPU %d, %d repetitions",
		h.CPUModel, runtime.NumCPU(), h.Kernel, runtime.Version(), b.client, b.server, b.repetitions)
}

// quantiles prints quantiles of values that were recorded in nanoseconds.
func (b *bench) quantiles(
	what string,
	repetitions []*hdrhistogram.Histogram,
	less time.Duration,
	quantiles ...float64,
) {
	for _, q := range quantiles {
		e := stats.Quantile(repetitions, q, 0.95, b.seed)
		micros := func(v float64) float64 { return (v - float64(less)) / 1e3 }
		var n int64
		for _, h := range repetitions {
			n += h.TotalCount()
		}
		high := fmt.Sprintf("%.1f", micros(e.Interval.High))
		if e.Interval.High > float64(longest) {
			high = "any" // few repetitions, one of them far off
		}
		fmt.Fprintf(b.table, "%s, p%g\t%.1f\t%.1f to %s\t%d in %d\n", what, 100*q, micros(e.Value), micros(e.Interval.Low), high, n, len(repetitions))
	}
}

// longest is what the bench's histograms go up to.
const longest = 10 * time.Second

// nanoseconds makes a histogram of durations.
func nanoseconds() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(longest), 3) }

// keep records a duration; above the longest, as that.
func keep(h *hdrhistogram.Histogram, d time.Duration) {
	// Cannot fail: the value is within the range.
	_ = h.RecordValue(min(max(int64(d), 1), int64(longest)))
}
