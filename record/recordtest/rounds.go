// Package recordtest makes runs whose truth is known, for the tests of what reads runs.
package recordtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/platform"
	"tare/record"
	"tare/workload"
)

// Rounds is a run of Redis that was measured by rounds of slices, on bare metal and under
// other conditions. Its values are drawn with the seed.
type Rounds struct {
	Seed           uint64
	Rounds, Strips int // strips of each part in a round; every sixth has one at half of the rate beside it
	Conditions     []Effect
	Noise          float64 // standard deviation of the log of a slice
	Launch         float64 // of an instance
	// Tainted tells which strips are; nil is none.
	Tainted func(round, strip int) bool
	// Later is by what factor a slice in the second half of its strip is faster; 0 is 1.
	Later float64
}

// Effect is what a condition changes: ratios to bare metal.
type Effect struct {
	Platform          string
	Rate, CPU, Load   float64 // 0 is 1
	Stalls, StallCost float64 // share of slices that stall, and by what factor they are slower
}

// The levels on bare metal.
const (
	getRate  = 98_000 // per second
	getCPU   = 8.4    // microseconds
	loadCPU  = 3.1
	slice    = 40 * time.Millisecond
	halfPart = "get@half"
)

// Metrics are those of a Rounds.
func Metrics() []workload.Metric {
	return []workload.Metric{
		{Name: "get", Unit: "requests/s", Better: workload.Higher, Primary: true, Part: "get", Figure: workload.FigureRate, Doc: "throughput of GET in a closed loop"},
		{Name: "get-cpu", Unit: "us", Better: workload.Lower, Primary: true, Part: "get", Figure: workload.FigureCPU,
			Doc: "CPU time of a request of GET: of the program, and of what serves its container"},
		{Name: "get-p99", Unit: "us", Better: workload.Lower, Quantile: 0.99, Part: halfPart, Figure: workload.FigureLatency,
			Doc: "latency of GET from the intended moment, at half of the saturated rate"},
	}
}

// Run makes the run.
func (r Rounds) Run() record.Run {
	random := rand.New(rand.NewPCG(r.Seed, 2))
	started := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	run := record.Run{
		ID:       "weigh-20260102-150405-7f3a",
		Study:    "weigh",
		Command:  []string{"/usr/local/bin/tare", "weigh", "redis"},
		Version:  "0.1.0",
		Seed:     int64(r.Seed),
		Started:  started,
		Finished: started.Add(2 * time.Minute),
		Status:   record.Complete,
		Plan: record.Plan{
			SmallestEffect: 0.02,
			Level:          0.95,
			Budget:         2 * time.Minute,
			Design:         record.DesignRounds,
			Rounds: map[string]record.RoundPlan{
				"redis": {
					Slice:       slice,
					Settle:      4 * time.Millisecond,
					Warm:        200 * time.Millisecond,
					Strips:      r.Strips,
					Pilot:       1,
					Long:        time.Second,
					CostOfStrip: 150 * time.Millisecond,
					CostOfRound: 2 * time.Second,
					Rate:        map[string]float64{"get": getRate},
				},
			},
		},
		Host: record.Host{
			Hostname: "scales",
			Kernel:   "6.18.5",
			OS:       "Debian GNU/Linux 12",
			Arch:     "amd64",
			CPUModel: "Example CPU 8 v2",
			CPUs:     2,
			Memory:   24 << 30,
			Cgroup:   "v1",
			Virtual:  "kvm",
		},
	}
	conditions := append([]Effect{{Platform: "bare"}}, r.Conditions...)
	for i, c := range conditions {
		run.Conditions = append(run.Conditions, record.Condition{
			ID:       "redis@" + c.Platform,
			Label:    c.Platform,
			Workload: "redis",
			Platform: c.Platform,
			Version:  c.Platform + " 1.0",
			Baseline: i == 0,
			Params:   workload.Params{"clients": "50"},
			Metrics:  Metrics(),
			Image:    "sha256:00",
			ImageRef: "redis",
			InForce:  &platform.InForce{CPUSet: "0-1"},
		})
	}
	for round := 1; round <= r.Rounds; round++ {
		r.add(&run, conditions, round, random)
	}
	return run
}

// add adds a round.
func (r Rounds) add(run *record.Run, conditions []Effect, round int, random *rand.Rand) {
	type instance struct {
		effect Effect
		trial  *record.Trial
		launch float64
	}
	var all []instance
	for i, c := range append([]Effect{conditions[0]}, conditions...) {
		replicate := 0
		if i == 0 {
			replicate = 1
		}
		all = append(all, instance{effect: c, launch: r.Launch * random.NormFloat64(), trial: &record.Trial{
			ID:         int64(len(run.Trials) + i + 1),
			Condition:  "redis@" + c.Platform,
			Workload:   "redis",
			Block:      round,
			Attempt:    1,
			Position:   i,
			Replicate:  replicate,
			Started:    run.Started.Add(time.Duration(round) * 10 * time.Second),
			Elapsed:    10 * time.Second,
			Covariates: map[string]float64{"launch_s": 0.1},
		}})
	}
	previous, number := "", 0
	for i := range r.Strips {
		for _, part := range []string{"get", halfPart} {
			if part == halfPart && i%6 != 5 {
				continue
			}
			number++
			var taint []string
			if r.Tainted != nil && r.Tainted(round, number) {
				taint = []string{"steal 7.1 % of the host's CPU time"}
			}
			shared := 0.02 * random.NormFloat64()
			for position, at := range random.Perm(len(all)) {
				in := all[at]
				log := shared + in.launch + r.Noise*random.NormFloat64()
				if random.Float64() < in.effect.Stalls {
					log -= math.Log(in.effect.StallCost)
				}
				if 2*position >= len(all) && r.Later != 0 {
					log += math.Log(r.Later)
				}
				rate := getRate * orOne(in.effect.Rate) * math.Exp(log)
				if part == halfPart {
					rate = getRate / 2
				}
				window := slice - slice/20
				worked := rate * slice.Seconds()
				noisy := func(log float64) float64 { return math.Exp(log + r.Noise/2*random.NormFloat64()) }
				one := record.Slice{
					Strip: number, Position: position, Previous: previous, Part: part,
					Started: in.trial.Started.Add(time.Duration(number) * time.Second / 10),
					Window:  window, Amount: rate * window.Seconds(), Worked: worked, Taint: taint,
					CPU:  microseconds(worked * getCPU * orOne(in.effect.CPU) * noisy(-shared/2-in.launch/2)),
					Load: microseconds(worked * loadCPU * orOne(in.effect.Load) * noisy(0))}
				if part == halfPart {
					one.Histogram = latencies(random, 80/orOne(in.effect.Rate))
				}
				in.trial.Slices = append(in.trial.Slices, one)
				previous = in.trial.Condition
			}
		}
	}
	if round%5 == 0 {
		for i, control := range []string{
			record.ControlAlone, record.ControlAlone, record.ControlLong, record.ControlLong,
		} {
			rate := getRate * math.Exp(all[1].launch+r.Noise*random.NormFloat64())
			all[1].trial.Slices = append(
				all[1].trial.Slices,
				record.Slice{
					Strip:   i + 1,
					Part:    "get",
					Control: control,
					Started: all[1].trial.Started,
					Window:  slice,
					Amount:  rate * slice.Seconds(),
					Worked:  rate * slice.Seconds(),
					CPU:     microseconds(rate * slice.Seconds() * getCPU),
					Load:    -1,
				},
			)
		}
	}
	for _, in := range all {
		run.Trials = append(run.Trials, *in.trial)
	}
}

func orOne(v float64) float64 {
	if v == 0 {
		return 1
	}
	return v
}

func microseconds(v float64) time.Duration { return time.Duration(v * float64(time.Microsecond)) }

// latencies are exponential above a floor, in microseconds.
func latencies(random *rand.Rand, mean float64) record.Histogram {
	h := hdrhistogram.New(1, 10_000_000, 2)
	for range 300 {
		if err := h.RecordValue(1 + int64(mean*(1+random.ExpFloat64()))); err != nil {
			panic(fmt.Sprintf("latencies: %v", err)) // out of a range that holds them all
		}
	}
	encoded, err := record.EncodeHistogram(h)
	if err != nil {
		panic(fmt.Sprintf("latencies: %v", err))
	}
	return encoded
}
