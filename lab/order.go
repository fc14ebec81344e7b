package lab

import (
	"hash/fnv"
	"math/rand/v2"
)

// slot is one place in a block.
type slot struct {
	condition int // index into the group's conditions
	replicate int // 1 for the baseline's second execution
}

// order draws the order of one block: every condition once, the baseline
// twice unless the group has it once. It depends on nothing but its arguments, so that a run that is
// resumed continues as it would have gone on.
func order(g Group, seed int64, block, attempt int) []slot {
	var slots []slot
	for i, c := range g.Conditions {
		slots = append(slots, slot{condition: i})
		if c.Baseline && !g.Once {
			slots = append(slots, slot{condition: i, replicate: 1})
		}
	}
	r := rand.New(rand.NewPCG(mixed(seed, g.Workload), uint64(block)<<8|uint64(attempt)))
	r.Shuffle(len(slots), func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
	// Which of the baseline's two executions is called the first is the order's
	// to say, so that A/A compares earlier with later without a preference.
	replicate := 0
	for i := range slots {
		if g.Conditions[slots[i].condition].Baseline {
			slots[i].replicate = replicate
			replicate++
		}
	}
	return slots
}

// mixed is a run's seed for one group.
func mixed(seed int64, group string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(group))
	return uint64(seed) ^ h.Sum64()
}

// trialSeed is what the trials of one block draw from, each the same.
func trialSeed(seed int64, group string, block, attempt int) uint64 {
	// The third word only separates this use of a seed from the order's.
	return rand.NewPCG(mixed(seed, group), 0x747269616c<<24|uint64(block)<<8|uint64(attempt)).Uint64()
}
