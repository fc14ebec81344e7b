package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"time"

	"tare/overhead"
	"tare/record"
	"tare/stats"
	"tare/workload"
)

// The values of lines of the part overhead. A share is of one CPU. By rounds the generator
// is tare itself, and how much it used is known within bounds.
const (
	valueShareLeast  = "tare_share_rounds_least"
	valueShareMost   = "tare_share_rounds_most"
	valueShareBlocks = "tare_share_blocks"
)

// generatorMetric is the generator's CPU time for a request, as a ratio to redis-benchmark's.
const generatorMetric = "generator-cpu"

func (b *bench) overheadJobs() []job {
	jobs := []job{{"the generator beside redis-benchmark", func(ctx context.Context, seed int64) (runs []string, found result, err error) {
		err = b.opened(ctx, func(p *place) error {
			found, err = p.generators(ctx, b.times(20), seed)
			return err
		})
		return nil, found, err
	}}}
	for i := range b.times(3) {
		jobs = append(jobs, job{"tare itself by each design", func(ctx context.Context, seed int64) (runs []string, found result, err error) {
			found.Values = map[string]overhead.Number{}
			designs := []string{record.DesignRounds, record.DesignBlocks}
			if i%2 == 1 {
				designs[0], designs[1] = designs[1], designs[0]
			}
			for _, design := range designs {
				began := time.Now()
				run, _, used, err := b.weigh(ctx, seed, "redis", "--design", design, "--platform", "bare,docker", "--explain=false",
					"--precision", "0.001%", "--budget", b.lasting(time.Minute, 20*time.Second).String())
				if err != nil {
					return nil, found, err
				}
				elapsed := time.Since(began)
				share := func(of time.Duration) overhead.Number {
					return overhead.Number(max(0, of).Seconds() / elapsed.Seconds())
				}
				if design == record.DesignRounds {
					least, most := generatorTime(run)
					found.Values[valueShareLeast], found.Values[valueShareMost] = share(used-most), share(used-least)
				} else {
					found.Values[valueShareBlocks] = share(used)
				}
				runs = append(runs, run.ID)
			}
			return runs, found, nil
		}})
	}
	return jobs
}

// generatorTime bounds the CPU time of tare's load generator in a run by rounds. The least
// is that of the slices, and by their rate that of settling and of warming up in rounds that
// count. The most has every instance of the pilot warmed up as long as the slowest.
func generatorTime(run record.Run) (least, most time.Duration) {
	var pilot time.Duration
	for _, c := range run.Conditions {
		plan, ok := run.Plan.Rounds[c.Workload]
		if !ok {
			continue
		}
		for _, t := range run.Trials {
			if t.Condition != c.ID {
				continue
			}
			parts := map[string]float64{} // CPU time of the generator for a second of load
			for _, s := range t.Slices {
				if s.Load <= 0 || s.Window <= 0 {
					continue
				}
				a := s.Load.Seconds() / s.Window.Seconds()
				least += s.Load + time.Duration(a*float64(plan.Settle))
				if s.Control == "" {
					parts[s.Part] = a
				}
			}
			for part, a := range parts {
				_, closed := plan.Rate[part]
				switch warm := time.Duration(a * float64(plan.Warm)); {
				case closed && t.Block > 0:
					least += warm
				case closed:
					pilot += warm
				}
			}
		}
	}
	return least, least + pilot
}

// generators loads one server by tare's generator and by redis-benchmark, by which it is
// loaded in blocks, in turn: their CPU time for a request.
func (p *place) generators(ctx context.Context, pairs int, seed int64) (found result, err error) {
	img, err := p.images.Recipe(ctx, "redis")
	if err != nil {
		return found, err
	}
	s, err := p.serve(ctx, img, planted)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, s.inst.Stop(context.WithoutCancel(ctx))) }()
	slicer, err := s.program.Slices(ctx, s, uint64(seed))
	if err != nil {
		return found, err
	}
	defer slicer.Close()
	ours := func() (float64, error) {
		all, err := slicer.Load(
			ctx,
			workload.Stretch{Drive: plantedCommand, Duration: time.Second, Ramp: 50 * time.Millisecond},
		)
		if err != nil {
			return 0, err
		}
		return all[0].Load.Seconds() / all[0].Worked, nil
	}
	const requests = 80_000
	hostname, port, err := net.SplitHostPort(s.Address(6379))
	if err != nil {
		return found, err
	}
	theirs := func() (float64, error) {
		cmd := exec.CommandContext(ctx, "chroot", img.Root, "/usr/bin/redis-benchmark", "-h", hostname, "-p", port,
			"-t", plantedCommand, "-n", strconv.Itoa(requests), "-c", s.params["clients"], "-d", s.params["payload"], "-q")
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("redis-benchmark: %w: %s", err, out)
		}
		return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds() / requests, nil
	}
	draw := rand.New(rand.NewPCG(uint64(seed), 0x67656e))
	var seconds [2][]float64
	for range max(pairs, 2) {
		for _, i := range draw.Perm(2) {
			v, err := []func() (float64, error){theirs, ours}[i]()
			if err != nil {
				return found, err
			}
			seconds[i] = append(seconds[i], v)
		}
	}
	found.Figures = []figure{
		figure{Workload: "redis", Metric: generatorMetric, Kind: kindRatio}.of(
			stats.PairedRatio(seconds[0], seconds[1], level, seed),
		),
	}
	found.Values = map[string]overhead.Number{}
	for i, name := range []string{"redis_benchmark_us", "generator_us"} {
		found.Values[name] = overhead.Number(1e6 * stats.GeometricMean(seconds[i], level, seed).Value)
	}
	return found, nil
}
