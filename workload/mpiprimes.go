package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"tare/image"
)

// mpiPrimes is S2's Prime_MPI: the first rank tells a number, all count primes up to
// it, and the counts are added up, for numbers that double, again and again. They are
// held to a sieve's.
type mpiPrimes struct{ workloadOf[primesPlan] }

func (mpiPrimes) Name() string { return "mpi-primes" }
func (mpiPrimes) Summary() string {
	return "communication-bound: primes counted on the ranks of an MPI program"
}
func (mpiPrimes) Source() Source { return Source{Recipe: "mpi"} }

// primesPlan is what the counting is asked for.
type primesPlan struct {
	exchange
	limit int64
}

func (plan primesPlan) parse(from *parameters) primesPlan {
	plan.exchange = from.exchange(150_000)
	plan.limit = from.whole("limit", 32, 1, 1<<25-1,
		"up to which the number is doubled from 1 on, 1 to 2^25-1: how much is computed in a round")
	return plan
}

func (plan primesPlan) program() Program {
	return plan.start(image.MPIPrimesProgram(plan.library.name), 0, "--limit", strconv.FormatInt(plan.limit, 10))
}

func (plan primesPlan) drive(ctx context.Context, t Trial) error {
	return plan.await(ctx, t, mpiPrimes{}.Name(), plan.check)
}

// check holds the counts to those of a sieve.
func (s primesPlan) check(line []byte) error {
	var o struct {
		Limit  int64
		Primes []int64
	}
	if err := json.Unmarshal(line, &o); err != nil {
		return err
	}
	if o.Limit != s.limit {
		return fmt.Errorf("a limit of %d, want %d: not valid", o.Limit, s.limit)
	}
	if want := rightPrimes.get(s.limit, func() []int64 { return primesUpTo(s.limit) }); !slices.Equal(o.Primes, want) {
		return fmt.Errorf("%d primes up to 1, 2, 4, ..., where %d are right: not valid", o.Primes, want)
	}
	return nil
}

var rightPrimes worked[int64, []int64]

// primesUpTo counts the primes up to 1, 2, 4, ... and the last of these that is not
// above the limit, by the sieve of Eratosthenes.
func primesUpTo(limit int64) (counts []int64) {
	composite := make([]bool, limit+1)
	var found int64
	next := int64(1)
	for n := int64(1); n <= limit; n++ {
		if n > 1 && !composite[n] {
			found++
			for m := n * n; m <= limit; m += n {
				composite[m] = true
			}
		}
		if n == next {
			counts = append(counts, found)
			next *= 2
		}
	}
	return counts
}
