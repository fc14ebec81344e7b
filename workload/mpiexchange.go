package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"tare/image"
)

// What S2's two programs on MPI have in common (programs/mpi): many small exchanges
// between the ranks and little to compute between them, timed inside by MPI's clock.

// exchange is what both are asked for.
type exchange struct {
	library   mpiLibrary
	processes int64 // 0: as many as CPUs are granted
	rounds    int64
}

const mostRounds = 1_000_000_000

func (from *parameters) exchange(rounds int64) (e exchange) {
	e.processes = from.wholeOr("processes", auto, 0, 1, mostRanks,
		"ranks: auto (as many as CPUs are granted, as the program sees that), or RANGE; more than CPUs take turns")
	e.rounds = from.whole("rounds", rounds, 1, mostRounds, "exchanges, RANGE: how long it runs")
	e.library = openMPI
	if from.word("library", openMPI.name, openMPI.name+" (S2's) or "+mpich.name, openMPI.name, mpich.name) == mpich.name {
		e.library = mpich
	}
	return e
}

// start starts one of the two. Memory is what it takes besides the library, whose
// launcher and ranks took 15 MiB (Open MPI) and 9 (MPICH) by one rank, 60 and 70 by sixteen.
func (e exchange) start(name string, memory int64, args ...string) Program {
	args = append([]string{name, "--rounds", strconv.FormatInt(e.rounds, 10)}, args...)
	p := Program{Env: e.library.environment, Needs: []string{e.library.launcher[0], name}}
	ranks := e.processes
	if ranks > 0 {
		p.Args = e.library.command(strconv.FormatInt(ranks, 10), args...)
	} else {
		p.Args = append([]string{image.GrantedProgram}, e.library.command("{}", args...)...)
		p.Needs = append(p.Needs, image.GrantedProgram)
		ranks = 1 // at least
	}
	p.MemoryNeed = 24<<20 + ranks*6<<20 + memory
	return p
}

func (exchange) metrics() []Metric {
	return []Metric{
		{Name: "elapsed", Unit: "s", Better: Lower, Primary: true, Doc: "from when all ranks have begun to when all are done, by MPI's clock"},
		{Name: "round", Unit: "us", Better: Lower, Doc: "the same, of one round"},
		{Name: "communication", Unit: "ratio", Better: Lower, Doc: "of the ranks' time, how much they were in calls of MPI, waiting for each other included"},
		{Name: "ranks", Unit: "ranks", Better: Higher, Count: true, Doc: "that there were"},
		{Name: "crowded", Unit: "runs", Better: Lower, Count: true, Doc: "1 where there were more ranks than CPUs, so that those that waited gave way"},
		wallMetric(false), cpuMetric(false),
	}
}

// await waits for the program's end and records what it printed of its exchanges; the
// rest is for check to judge.
func (e exchange) await(ctx context.Context, t Trial, name string, check func(line []byte) error) error {
	exit, err := finish(ctx, t)
	if err != nil {
		return err
	}
	stdout, _ := t.Output()
	line := bytes.TrimSpace(stdout)
	o, err := e.read(line, name)
	if err == nil {
		err = check(line)
	}
	if err != nil {
		return fmt.Errorf("output of %s: %w; its end: %s", name, err, ending(stdout))
	}
	t.Record("elapsed", o.Seconds[0])
	t.Record("round", o.Seconds[0]/float64(e.rounds)*1e6)
	t.Record("communication", o.communication())
	t.Record("ranks", float64(o.Ranks))
	crowded := 0.0
	if o.Yields {
		crowded = 1
	}
	t.Record("crowded", crowded)
	t.Record("wall", exit.Elapsed.Seconds())
	if exit.CPU >= 0 {
		t.Record("cpu", exit.CPU.Seconds())
	}
	return nil
}

// exchanged is what both print of their exchanges.
type exchanged struct {
	Program     string
	Library     string
	Rounds      int64
	Ranks       int64
	Yields      bool
	Seconds     []float64 // of each rank, the first one's the whole
	CallSeconds []float64 `json:"call_seconds"` // of them, in MPI
	Valid       *bool
}

func (o exchanged) communication() float64 {
	var all, calls float64
	for i, s := range o.Seconds {
		all += s
		calls += o.CallSeconds[i]
	}
	return calls / all
}

// read reads the one line that either program prints, but for what is its own.
func (e exchange) read(line []byte, name string) (o exchanged, err error) {
	if err := json.Unmarshal(line, &o); err != nil {
		return o, fmt.Errorf("want one line of JSON: %w", err)
	}
	switch {
	case o.Program != name:
		return o, fmt.Errorf("it is of program %q", o.Program)
	case !strings.HasPrefix(o.Library, e.library.calls+" "):
		return o, fmt.Errorf("the library calls itself %q, want %s", o.Library, e.library.calls)
	case o.Valid == nil || !*o.Valid:
		return o, errors.New("it does not hold its own results right: not valid")
	case o.Rounds != e.rounds:
		return o, fmt.Errorf("%d rounds, want %d: not valid", o.Rounds, e.rounds)
	case o.Ranks < 1 || o.Ranks > mostRanks || e.processes > 0 && o.Ranks != e.processes:
		return o, fmt.Errorf("%d ranks, want %d: not valid", o.Ranks, e.processes)
	case int64(len(o.Seconds)) != o.Ranks || int64(len(o.CallSeconds)) != o.Ranks:
		return o, fmt.Errorf("times of %d and %d ranks, want %d", len(o.Seconds), len(o.CallSeconds), o.Ranks)
	}
	for i, s := range o.Seconds {
		if !(s > 0) || math.IsInf(s, 0) {
			return o, fmt.Errorf("rank %d took %v s, which cannot be", i, s)
		}
		// The last digits are rounded.
		if c := o.CallSeconds[i]; !(c >= 0 && c <= s*(1+1e-6)) {
			return o, fmt.Errorf("rank %d was %v s of %v in calls, which cannot be", i, c, s)
		}
	}
	return o, nil
}
