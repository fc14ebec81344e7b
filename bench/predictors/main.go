// Command predictors measures what each predictor of the memory extension adds: it runs recorded
// traces and synthetic mixes through the simulator with all predictors, and with each one of them
// switched off. What nobody misses has no place in the extension.
//
// The simulator is deterministic, but what it simulates is not smooth: one page more or less may
// change all that comes after. So mixes are drawn with several seeds, and a trace is run on hosts
// of several sizes, and a predictor counts as missed by an input only where most of them say so.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare/annex"
	"tare/annex/data"
	"tare/annex/predict"
	"tare/annex/simulate"
	"tare/annex/synthetic"
	"tare/annex/trace"
	"tare/terminal"
)

// missed is by how much waits for pages, or the tail of critical requests, must grow without a
// predictor for it to be missed; mostly is in what share of an input's variants. A predictor earns
// its place where a recorded trace misses it, or two kinds of synthetic containers do, and no
// recorded trace is better off without it by as much.
const (
	missed = 0.05
	mostly = 0.6
)

const mebibyte = 1 << 20

func main() {
	traces := flag.String("traces", filepath.Join("bench", "predictors", "traces"), "directory of recorded traces (*.trace)")
	flag.Parse()
	if flag.NArg() > 0 {
		terminal.Fprintf(os.Stderr, "predictors: %q: the directory of traces is named by -traces\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := run(context.Background(), os.Stdout, *traces); err != nil {
		terminal.Fprintln(os.Stderr, "predictors:", err)
		os.Exit(1)
	}
}

// variant is one run of an input: a seed of a mix, or a host's memory for a trace.
type variant struct {
	host simulate.Host
	open func() (trace.Source, io.Closer, error)
}

// input is a trace, or a kind of synthetic containers.
type input struct {
	name     string
	variants []variant
}

func run(ctx context.Context, out io.Writer, traces string) error {
	medium, err := simulate.Preset("file")
	if err != nil {
		return err
	}
	inputs := synthetics(medium)
	recorded, err := recordings(traces, medium)
	if err != nil {
		return err
	}
	out = terminal.To(out)
	misses := map[predict.Kind][]string{}
	fmt.Fprintf(out, "%-22s %9s %9s", "input", "waits", "p99, ms")
	for _, k := range predict.Kinds {
		fmt.Fprintf(out, "  %-24s", "without "+string(k))
	}
	fmt.Fprintln(out)
	for _, in := range slices.Concat(recorded, inputs) {
		with, err := in.simulate(ctx, "")
		if err != nil {
			return fmt.Errorf("%s: %w", in.name, err)
		}
		middle := with[len(with)/2]
		fmt.Fprintf(out, "%-22s %9d %9.2f", in.name, middle.waits, middle.tail.Seconds()*1e3)
		for _, k := range predict.Kinds {
			without, err := in.simulate(ctx, k)
			if err != nil {
				return fmt.Errorf("%s without %s: %w", in.name, k, err)
			}
			waits, tails, says := compare(with, without)
			fmt.Fprintf(out, "  %-24s", fmt.Sprintf("%+.0f %% %+.0f %% %s", waits, tails, says))
			if says != "" {
				misses[k] = append(misses[k], says+" "+in.name)
			}
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out)
	for _, k := range predict.Kinds {
		fmt.Fprintf(out, "%s: %s\n", k, cmp.Or(strings.Join(misses[k], ", "), "nothing changes without it"))
	}
	return nil
}

// found is what a run comes to.
type found struct {
	waits int // uses of pages that waited for the device
	tail  time.Duration
}

// simulate runs all variants without one predictor.
func (in input) simulate(ctx context.Context, without predict.Kind) (all []found, err error) {
	for _, v := range in.variants {
		p := simulate.Policies(v.host.Memory)[3]
		p.Manage = func() simulate.Manager { return managed(v.host.Memory, without) }
		from, closer, err := v.open()
		if err != nil {
			return nil, err
		}
		report, err := simulate.Run(ctx, v.host, from, p)
		if closer != nil {
			_ = closer.Close()
		}
		if err != nil {
			return nil, err
		}
		tail := report.Critical.P99
		if report.Critical.Count == 0 {
			tail = report.Delays.P99
		}
		all = append(all, found{report.Demand + report.Late, tail})
	}
	return all, nil
}

// managed is data management as the simulator's own policy has it, without one predictor.
func managed(memory int64, without predict.Kind) *data.Manager {
	low := memory / 16 / annex.PageSize * annex.PageSize
	pages := int(low / annex.PageSize)
	p := data.Policy{Headroom: data.Headroom{Low: low}, Flow: data.Flow{
		MostLeaving: min(2048, max(pages, 1)),
		MostComing:  min(8192, max(2*pages, 1)),
		Piece:       min(512, max(pages/4, 1)),
	}}
	p.Predictor = func() data.Predictor { return &partial{predict.New(predict.Options{}), without} }
	if without == predict.Followers {
		p.Chain = alone{}
	}
	return data.New(p)
}

// partial is a predictor of which one kind is switched off.
type partial struct {
	*predict.Context
	without predict.Kind
}

func (p *partial) Next(now annex.Moment) (f predict.Forecast, ok bool) {
	if p.without == predict.Intervals {
		return f, false
	}
	return p.Context.Next(now)
}

func (p *partial) Pages() []predict.Ranked {
	if p.without == predict.Record {
		return nil
	}
	return p.Context.Pages()
}

// alone is a chain in which no container follows another.
type alone struct{}

func (alone) Began(annex.ID, annex.Moment)          {}
func (alone) Followers(annex.ID) []predict.Follower { return nil }
func (alone) Forget(annex.ID)                       {}

// compare gives the median changes in percent, and whether the predictor is missed ("missed by"),
// or in the way ("harms").
func compare(with, without []found) (waits, tails float64, says string) {
	var w, t []float64
	worse, better := 0, 0
	for i := range with {
		dw := change(float64(with[i].waits), float64(without[i].waits))
		dt := change(with[i].tail.Seconds(), without[i].tail.Seconds())
		w, t = append(w, dw), append(t, dt)
		if dw >= missed || dt >= missed {
			worse++
		}
		if dw <= -missed || dt <= -missed {
			better++
		}
	}
	slices.Sort(w)
	slices.Sort(t)
	switch enough := mostly * float64(len(with)); {
	case float64(worse) >= enough && float64(better) < enough:
		says = "missed by"
	case float64(better) >= enough && float64(worse) < enough:
		says = "harms"
	}
	return 100 * w[len(w)/2], 100 * t[len(t)/2], says
}

func change(with, without float64) float64 {
	if with == 0 && without == 0 {
		return 0
	}
	return without/max(with, 1e-9) - 1
}

// synthetics are the kinds of containers, thirty of each beside a critical one, with five seeds.
func synthetics(medium simulate.Medium) (all []input) {
	for _, kind := range synthetic.Kinds {
		if kind == synthetic.Serving {
			continue
		}
		in := input{name: string(kind)}
		for seed := range uint64(5) {
			mix := synthetic.Mix{
				Seed:     seed + 1,
				Duration: synthetic.Duration(120 * time.Second),
				Groups: []synthetic.Group{
					{
						Name:  "critical",
						Kind:  synthetic.Serving,
						Class: annex.Critical,
						Count: 1,
						Pages: 80 * mebibyte / annex.PageSize,
						Every: synthetic.Duration(time.Second / 300),
					},
					{
						Name:  "idle",
						Kind:  kind,
						Class: annex.Elastic,
						Count: 30,
						Pages: 16 * mebibyte / annex.PageSize,
						Every: synthetic.Duration(12 * time.Second),
					},
				},
			}
			in.variants = append(in.variants, variant{
				simulate.Host{Memory: 256 * mebibyte, Swap: 768 * mebibyte, Medium: medium, Warm: 60 * time.Second},
				func() (trace.Source, io.Closer, error) {
					from, err := synthetic.Make(mix)
					return from, nil, err
				}})
		}
		all = append(all, in)
	}
	return all
}

// recordings are the traces of a directory, each on hosts of several sizes.
func recordings(dir string, medium simulate.Medium) (all []input, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.trace"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no traces (*.trace) in %s: run this in the repository's root, or name their directory by -traces", dir)
	}
	for _, file := range files {
		in := input{name: strings.TrimSuffix(filepath.Base(file), ".trace")}
		footprint, lasts, err := extent(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, share := range []int64{40, 50, 60, 70, 80} {
			in.variants = append(in.variants, variant{
				simulate.Host{Memory: footprint * share / 100, Swap: 4 * footprint, Medium: medium, Warm: lasts / 3},
				func() (trace.Source, io.Closer, error) { return open(file) }})
		}
		all = append(all, in)
	}
	return all, nil
}

func open(file string) (trace.Source, io.Closer, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	from, err := trace.NewReader(f)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return from, f, nil
}

// extent is how much memory the containers of a trace have together, in bytes, as far as it was
// touched or scanned, and how long the trace lasts.
func extent(file string) (footprint int64, lasts time.Duration, err error) {
	from, closer, err := open(file)
	if err != nil {
		return 0, 0, err
	}
	defer closer.Close()
	type page struct {
		container int
		space     annex.Space
		page      annex.Page
	}
	pages := map[page]bool{}
	var first, last annex.Moment
	began := false
	for {
		e, err := from.Next()
		if err == io.EOF {
			return int64(len(pages)) * annex.PageSize, last.Since(first), nil
		}
		if err != nil {
			return 0, 0, err
		}
		if !began {
			first, began = e.At, true
		}
		last = e.At
		for _, p := range e.Pages {
			pages[page{e.Container, e.Space, p}] = true
		}
		for _, s := range e.Stretches {
			at := s.First
			for _, r := range s.Runs {
				for range r.Pages {
					if r.State.Has(annex.Present) || r.State.Has(annex.Swapped) {
						pages[page{e.Container, e.Space, at}] = true
					}
					at++
				}
			}
		}
	}
}
