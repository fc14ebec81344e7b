package workload

import "math/bits"

// part is some of the objects, as large a share of each kind: a working set that stays,
// and lies scattered among what nobody asks for.
type part []kindPart

// kindPart is the part of one kind.
type kindPart struct {
	first, number int64 // of a round's objects, those of the kind
	asked         int64 // how many of all of them
	order         shuffle
}

// part draws it. Of each kind there is one at least.
func (o objects) part(seed uint64) part {
	var all part
	first := int64(0)
	for _, kind := range objectKinds {
		every := o.rounds * kind.number
		all = append(all, kindPart{
			first: first, number: kind.number, asked: max(1, (every*o.asked+50)/100),
			order: shuffle{uint64(every), mix(seed) ^ uint64(first)},
		})
		first += kind.number
	}
	return all
}

func (p part) count() (n int64) {
	for _, kind := range p {
		n += kind.asked
	}
	return n
}

// object is the k-th of the part, from 0.
func (p part) object(k int64) int64 {
	for _, kind := range p {
		if k < kind.asked {
			at := int64(kind.order.at(uint64(k)))
			return at/kind.number*objectsInRound + kind.first + at%kind.number
		}
		k -= kind.asked
	}
	panic("workload: an object beyond the part that is asked for")
}

// shuffle is a permutation of the numbers below of, which takes no memory however many
// there are: a Feistel network over the next even number of bits, gone through until it
// comes by one of them (Black and Rogaway, Ciphers with Arbitrary Finite Domains, 2002).
type shuffle struct{ of, key uint64 }

const shuffleRounds = 4

func (s shuffle) at(n uint64) uint64 {
	half := (bits.Len64(s.of-1) + 1) / 2
	mask := uint64(1)<<half - 1
	for {
		left, right := n>>half, n&mask
		for round := range uint64(shuffleRounds) {
			left, right = right, left^mix(mix(s.key+round)^right)&mask
		}
		if n = left<<half | right; n < s.of {
			return n
		}
	}
}
