package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"tare/image"
	"tare/kernel/host"
	"tare/kernel/process"
	"tare/lab"
	"tare/overhead"
	"tare/platform"
	"tare/platform/bare"
	"tare/record"
	"tare/study/kit"
	"tare/study/weigh"
	"tare/terminal"
	"tare/workload"
)

// place is where runs go that no command line can ask for.
type place struct {
	bench   *bench
	session *lab.Session
	store   *record.Store
	images  *image.Store
}

// opened has f work with the host's lock held.
func (b *bench) opened(ctx context.Context, f func(*place) error) (err error) {
	p := &place{bench: b}
	if p.session, _, err = lab.OpenSession(ctx, lab.LockPath, b.home, "resolution"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.session.Close()) }()
	if p.store, err = record.Open(filepath.Join(b.home, storeFile)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.store.Close()) }()
	if p.images, err = image.OpenStore(filepath.Join(b.home, "images"),
		func(line string) { terminal.Fprintln(os.Stderr, " ", line) }); err != nil {
		return err
	}
	return f(p)
}

// run weighs a subject on bare metal by rounds. roots are the images of its sources; a
// source that is none of them is a recipe's.
func (p *place) run(
	ctx context.Context, s weigh.Subject, alone bool, budget time.Duration, seed int64,
	roots map[workload.Source]image.Image,
) (record.Run, overhead.Report, error) {
	var run record.Run
	cpus, err := process.Affinity()
	if err != nil {
		return run, overhead.Report{}, err
	}
	facts := host.Read("/")
	d, err := weigh.Design(weigh.Options{
		Subjects: []weigh.Subject{s}, Platforms: []string{bare.Bare}, Alone: alone, Seed: seed,
		Plan: record.Plan{
			Design: record.DesignRounds, Budget: budget, SmallestEffect: weigh.DefaultSmallestEffect, Level: level,
		},
		Host: kit.Host{
			CPUs: cpus, Memory: facts.Memory, Platform: p.session.Platforms,
			Check: func(of platform.Platform) error { return of.Check(ctx) },
		},
	})
	if err != nil {
		return run, overhead.Report{}, err
	}
	l := lab.Lab{
		Store: p.store, Platforms: p.session.Platforms,
		Image: func(ctx context.Context, src workload.Source) (image.Image, error) {
			if img, ok := roots[src]; ok {
				return img, nil
			}
			return p.images.Recipe(ctx, src.Recipe)
		},
		Generate: func(ctx context.Context, img image.Image, netns string, args []string) ([]byte, error) {
			return bare.Generate(ctx, bare.GeneratorSpec{
				Options: bare.Options{StateDir: p.bench.home, Ledger: p.session.Ledger},
				Name:    p.name("load"), Image: img, Args: args, NetNS: netns,
			})
		},
		Watch: func(e lab.Event) {
			if e.Kind == lab.Warned || e.Kind == lab.Blocked {
				terminal.Fprintf(os.Stderr, "  %s %d %s\n", e.Group, e.Block, e.Text)
			}
		},
	}
	run, err = l.Run(ctx, d, record.Run{
		ID: record.NewID("weigh", time.Now(), uint16(seed)), Command: os.Args, Version: p.bench.commit,
		Started: time.Now(), Status: record.Running,
		Host: record.Host{
			Hostname: facts.Hostname, Kernel: facts.Kernel, OS: facts.OS, Arch: facts.Arch, CPUModel: facts.CPUModel,
			CPUs: facts.CPUs, SMT: facts.SMT, Governor: facts.Governor, Memory: facts.Memory, Swap: facts.Swap,
			Cgroup: facts.Cgroup, Virtual: facts.Virtual, LSM: facts.LSM,
		},
	})
	if err != nil {
		return run, overhead.Report{}, err
	}
	rep := overhead.Analyse(run, overhead.Options{})
	if len(rep.Groups) == 0 || rep.Groups[0].Blocks == 0 {
		return run, rep, errNoRun
	}
	return run, rep, nil
}

func (p *place) name(of string) string {
	return platform.Unique(of)
}

// aaJobs measure bare metal against itself, with no third instance beside it. Redis has one
// command: warming up to two takes so long that five rounds do not fit into the time.
func (b *bench) aaJobs(name string, n int) []job {
	jobs := make([]job, b.times(n))
	for i := range jobs {
		jobs[i] = job{name + " against itself", func(ctx context.Context, seed int64) (runs []string, found result, err error) {
			err = b.opened(ctx, func(p *place) error {
				var params map[string]string
				if name == "redis" {
					params = planted
				}
				run, rep, err := p.against(ctx, name, params, 20*time.Second, seed)
				if err != nil {
					return err
				}
				runs, found = []string{run.ID}, resultOf(run, rep)
				return nil
			})
			return runs, found, err
		}}
	}
	return jobs
}

// against measures a workload against itself.
func (p *place) against(
	ctx context.Context, name string, params map[string]string, budget time.Duration, seed int64,
) (record.Run, overhead.Report, error) {
	w, err := workload.Lookup(name)
	if err != nil {
		return record.Run{}, overhead.Report{}, err
	}
	return p.run(ctx, weigh.Subject{Workload: w, Params: params}, true, budget, seed, nil)
}

// recordingsDir is where the simulation of coverage looks for recordings.
var recordingsDir = filepath.Join("stats", "coverage", "testdata")

// recording is what a run is recorded for.
type recording struct {
	name  string
	speed func(record.Trial, record.Slice) float64 // of a time or a cost, its inverse; NaN: not measured
}

func rateOf(part string) func(record.Trial, record.Slice) float64 {
	return func(_ record.Trial, s record.Slice) float64 {
		if s.Part != part || s.Window <= 0 {
			return math.NaN()
		}
		return s.Amount / s.Window.Seconds()
	}
}

func perCPUSecond(part string) func(record.Trial, record.Slice) float64 {
	return func(_ record.Trial, s record.Slice) float64 {
		if s.Part != part || s.CPU <= 0 {
			return math.NaN()
		}
		return s.Worked / s.CPU.Seconds()
	}
}

// sampleOf is the mean of a metric's samples in an execution.
func sampleOf(metric string) func(record.Trial, record.Slice) float64 {
	return func(t record.Trial, _ record.Slice) float64 {
		var sum, n float64
		for _, s := range t.Samples {
			if s.Metric == metric {
				sum, n = sum+s.Value, n+1
			}
		}
		return sum / n
	}
}

func inverse(of func(record.Trial, record.Slice) float64) func(record.Trial, record.Slice) float64 {
	return func(t record.Trial, s record.Slice) float64 { return 1 / of(t, s) }
}

func (b *bench) recordingJobs() []job {
	var jobs []job
	for _, of := range []struct {
		workload string
		params   map[string]string
		kept     []recording
	}{
		{"redis", planted, []recording{{"redis-get", rateOf("get")}, {"redis-get-cpu", perCPUSecond("get")}}},
		{"ffmpeg", nil, []recording{{"ffmpeg-elapsed", inverse(sampleOf("elapsed"))}}},
		{"stream", nil, []recording{{"stream-triad", rateOf("triad")}}},
	} {
		jobs = append(jobs, job{of.workload + " against itself", func(
			ctx context.Context, seed int64,
		) (runs []string, found result, err error) {
			err = b.opened(ctx, func(p *place) error {
				run, rep, err := p.against(ctx, of.workload, of.params, b.lasting(time.Minute, 20*time.Second), seed)
				if err != nil {
					return err
				}
				runs, found = []string{run.ID}, resultOf(run, rep)
				dir := recordingsDir
				if b.short {
					dir = filepath.Dir(b.results.path)
				}
				for _, r := range of.kept {
					path := filepath.Join(dir, "slices-"+r.name+".csv")
					n, err := writeRecording(path, speedsOf(run, r.speed, b.short))
					if err != nil {
						return err
					}
					found.Notes = append(found.Notes, fmt.Sprintf("%s: %d strips", path, n))
				}
				return nil
			})
			return runs, found, err
		}})
	}
	return jobs
}

// stripSpeeds holds the logarithms of the speeds of the baseline's instances in a strip.
type stripSpeeds struct {
	round, strip  int
	first, second float64
}

// speedsOf gives those of all strips of a run; of tainted ones only where they are asked for.
func speedsOf(run record.Run, speed func(record.Trial, record.Slice) float64, tainted bool) []stripSpeeds {
	type at struct{ round, strip int }
	pairs := map[at][2]float64{}
	for _, t := range run.Trials {
		if t.Block < 1 || t.Replicate > 1 {
			continue
		}
		for _, s := range t.Slices {
			v := speed(t, s)
			if s.Control != "" || len(s.Taint) > 0 && !tainted || !(v > 0) || math.IsInf(v, 1) {
				continue
			}
			pair := pairs[at{t.Block, s.Strip}]
			pair[t.Replicate] = v
			pairs[at{t.Block, s.Strip}] = pair
		}
	}
	var all []stripSpeeds
	inOrder := func(a, b at) int { return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.strip, b.strip)) }
	for _, k := range slices.SortedFunc(maps.Keys(pairs), inOrder) {
		if pair := pairs[k]; pair[0] > 0 && pair[1] > 0 {
			all = append(all, stripSpeeds{k.round, k.strip, math.Log(pair[0]), math.Log(pair[1])})
		}
	}
	return all
}

// writeRecording writes them in the form that stats/coverage/testdata/README.md describes.
func writeRecording(path string, strips []stripSpeeds) (n int, err error) {
	if len(strips) == 0 {
		return 0, fmt.Errorf("%s: no strip that is untainted has both instances: a quieter host would give some", path)
	}
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := csv.NewWriter(f)
	rows := [][]string{{"round", "strip", "first", "second"}}
	// Six decimals tell speeds apart that differ by a millionth.
	written := func(log float64) string { return strconv.FormatFloat(log, 'f', 6, 64) }
	for _, s := range strips {
		rows = append(rows, []string{strconv.Itoa(s.round), strconv.Itoa(s.strip), written(s.first), written(s.second)})
	}
	return len(strips), w.WriteAll(rows)
}
