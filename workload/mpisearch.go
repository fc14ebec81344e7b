package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"tare/image"
)

// mpiSearch is S2's MPI_Search: the first rank hands out an array, all look for a
// number in it, and what they found goes back, again and again. What is found is held
// to what was planted, which follows from the seed that the program drew.
type mpiSearch struct{ workloadOf[searchPlan] }

func (mpiSearch) Name() string { return "mpi-search" }
func (mpiSearch) Summary() string {
	return "communication-bound: search for numbers in an array on the ranks of an MPI program"
}
func (mpiSearch) Source() Source { return Source{Recipe: "mpi"} }

// searchPlan is what a search is asked for.
type searchPlan struct {
	exchange
	elements int64
	seed     int64 // negative: drawn
}

func (plan searchPlan) parse(from *parameters) searchPlan {
	plan.exchange = from.exchange(500_000)
	plan.elements = from.whole("elements", 256, 1, 1<<28,
		"of the array, 4 bytes each, over all ranks, 1 to 2^28: how much is computed in a round")
	plan.seed = from.wholeOr("seed", random, -1, 0, math.MaxInt64,
		"of what is planted: random (drawn in each trial), or 0 to 2^63-1")
	return plan
}

func (plan searchPlan) program() Program {
	// The whole, and the parts of all ranks.
	return plan.start(image.MPISearchProgram(plan.library.name), 2*4*plan.elements,
		"--elements", strconv.FormatInt(plan.elements, 10), "--seed", plan.seedText())
}

func (plan searchPlan) seedText() string {
	if plan.seed < 0 {
		return random
	}
	return strconv.FormatInt(plan.seed, 10)
}

func (plan searchPlan) drive(ctx context.Context, t Trial) error {
	return plan.await(ctx, t, mpiSearch{}.Name(), plan.check)
}

// searched is what a search prints of its findings.
type searched struct {
	Elements int64
	Seed     *uint64
	Hits     int64
	Checksum uint64
}

// check holds what was found to what was planted.
func (s searchPlan) check(line []byte) error {
	var o searched
	if err := json.Unmarshal(line, &o); err != nil {
		return err
	}
	switch {
	case o.Elements != s.elements:
		return fmt.Errorf("%d elements, want %d: not valid", o.Elements, s.elements)
	case o.Seed == nil || s.seed >= 0 && *o.Seed != uint64(s.seed):
		return fmt.Errorf("it does not have the seed %s: not valid", s.seedText())
	}
	if hits, checksum := plantedBy(*o.Seed, s.elements, s.rounds); o.Hits != hits || o.Checksum != checksum {
		return fmt.Errorf("%d hits with checksum %d, where %d with %d were planted: not valid", o.Hits, o.Checksum, hits, checksum)
	}
	return nil
}

// mostPlanted is how often a number is planted at most.
const mostPlanted = 3

// planting is what programs/mpi/search.c plants in a round.
func planting(seed uint64, elements, round int64) (wanted int32, places []int64) {
	s := splitmix(mix(seed ^ mix(uint64(round)+1)))
	draw := func() uint64 {
		s += 0x9e3779b97f4a7c15
		return mix(uint64(s))
	}
	wanted = int32(draw()>>33) | 1
	for range draw() % (mostPlanted + 1) {
		places = append(places, int64(draw()%uint64(elements)))
	}
	return wanted, places
}

// plantedBy is what is right of all rounds: how many hits there are, and the checksum of
// each round's hits and first place, without searching for them.
func plantedBy(seed uint64, elements, rounds int64) (hits int64, sum uint64) {
	fold := foldStart
	for round := range rounds {
		_, places := planting(seed, elements, round)
		first, distinct := int64(math.MaxInt64), int64(0)
		for i, at := range places {
			first = min(first, at)
			distinct++
			for _, before := range places[:i] {
				if before == at { // planted twice, and there once
					distinct--
					break
				}
			}
		}
		hits += distinct
		fold.fold(uint64(distinct))
		fold.fold(uint64(first))
	}
	return hits, uint64(fold)
}
