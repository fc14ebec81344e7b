package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"tare/annex"
	"tare/annex/synthetic"
)

// Fleet is what is to be planned: so many containers in the proportions of a mix, on hosts
// that are all alike.
type Fleet struct {
	// Containers are those that are not critical; each host has the critical ones of the mix beside them.
	Containers int
	Host       Host
	// P99 is what requests of critical containers may take; in a mix that has none, what
	// bursts of the others may be delayed by.
	P99 time.Duration
	// Grain is how many pages are simulated as one, which makes it faster by as much: memory,
	// containers and costs are taken in such extents, and a container's pages then leave and
	// come by them. 1 is none.
	Grain int
	// Sample is how many of the hosts are run, each with a draw of its own, once it is known how
	// many there are; 0 is DefaultSample, and all where there are fewer.
	Sample int
	// Tell, unless nil, is told what a plan is at, by one goroutine at a time.
	Tell func(Progress)
}

// Progress is what a plan is at. How long it takes is not known: numbers of containers are
// tried by bisection, and those that a host does not bear end early.
type Progress struct {
	Policy string
	// Trying is how many containers a host is tried with. Bears is the most that it was found to
	// bear so far, and Fails the least that it was not; 0 is that there was none.
	Trying, Bears, Fails int
	// Ran of Hosts is how many hosts were run, once it is known what one bears; Hosts is 0
	// before.
	Ran, Hosts int
}

// DefaultSample is how many hosts of a fleet are run: of a fleet in which one host in ten is
// above what was asked for, 32 show none once in thirty times.
const DefaultSample = 32

// Planned is what a policy makes of a fleet.
type Planned struct {
	Policy string `json:"policy"`
	// PerHost is the most containers that a host was found to bear; 0 is that it does not bear one.
	PerHost int `json:"containers_per_host"`
	Hosts   int `json:"hosts"`
	// Ran is how many of the hosts were run, each with another draw of the mix. P99 is the median
	// of theirs, and Worst that of the worst; Over counts those above what was asked for.
	Ran   int           `json:"hosts_run"`
	P99   time.Duration `json:"p99_ns"`
	Worst time.Duration `json:"worst_p99_ns"`
	Over  int           `json:"hosts_over"`
}

// grain bounds what is simulated as one: 2 MiB.
const mostGrain = 512

// Check tells what is wrong with a fleet.
func (f Fleet) Check() error {
	switch {
	case f.Containers < 1 || f.Containers > 10_000:
		return fmt.Errorf("a fleet of %d containers: want 1 to 10000", f.Containers)
	case f.P99 <= 0:
		return fmt.Errorf("a p99 of %v: want more than 0", f.P99)
	case f.Sample < 0:
		return fmt.Errorf("a sample of %d hosts: want 1 or more", f.Sample)
	case f.Grain < 1 || f.Grain > mostGrain:
		return fmt.Errorf("a grain of %d pages: want 1 to %d", f.Grain, mostGrain)
	}
	return f.Host.Check()
}

// draws are how many hosts have to bear a number of containers, each with a draw of its own.
const draws = 3

// Plan finds by bisection how many containers of a mix hosts bear under a policy, in each of three
// draws of it, and then runs a sample of the fleet's hosts, each with a seed of its own, the
// last and least full one only where all are run. Bisection takes more containers to be no better
// than fewer.
func Plan(ctx context.Context, m synthetic.Mix, f Fleet, policy func(memory int64) Policy) (Planned, error) {
	if err := f.Check(); err != nil {
		return Planned{}, err
	}
	if err := m.Check(); err != nil {
		return Planned{}, err
	}
	if len(m.Groups) == 0 || m.Containers(annex.Critical) == total(m) {
		return Planned{}, errors.New("the mix has critical containers only: add what is to be planned")
	}
	host := f.Host
	host.Medium = host.Medium.Grain(f.Grain)
	host.Memory /= int64(f.Grain)
	host.Swap /= int64(f.Grain)
	m = coarse(m, f.Grain)
	p := policy(host.Memory)
	tell := func(at Progress) {
		if at.Policy = p.Name; f.Tell != nil {
			f.Tell(at)
		}
	}
	// Where it is asked only whether it is within what is good, what is worse is not run to its end.
	p99 := func(n int, seed uint64, whole bool) (time.Duration, error) {
		one := scale(m, n)
		one.Seed = seed
		if pages(one) > (host.Memory+host.Swap)/annex.PageSize {
			return math.MaxInt64, nil
		}
		from, err := synthetic.Make(one)
		if err != nil {
			return 0, err
		}
		var b *bar
		if !whole {
			if b, err = newBar(ctx, one, host.Warm, f.P99); err != nil {
				return 0, err
			}
		}
		r, err := runTo(ctx, host, from, p, b)
		var full *Full
		switch {
		case errors.Is(err, errMissed), errors.As(err, &full):
			return math.MaxInt64, nil
		case err != nil:
			return 0, err
		case m.Containers(annex.Critical) > 0:
			return r.Critical.P99, nil
		}
		return r.Delays.P99, nil
	}
	low, high := 0, f.Containers+1
	for n := 1; high-low > 1; {
		at := Progress{Trying: n, Bears: low}
		if high <= f.Containers {
			at.Fails = high
		}
		tell(at)
		bears := true
		for i := 0; i < draws && bears; i++ {
			took, err := p99(n, m.Seed+uint64(i), false)
			if err != nil {
				return Planned{}, err
			}
			bears = took <= f.P99
		}
		if bears {
			low = n
		} else {
			high = n
		}
		if n = (low + high) / 2; high > f.Containers {
			n = min(2*low, f.Containers)
		}
	}
	plan := Planned{Policy: p.Name, PerHost: low}
	if low == 0 {
		return plan, nil
	}
	plan.Hosts = (f.Containers + low - 1) / low
	if f.Sample == 0 {
		f.Sample = DefaultSample
	}
	plan.Ran = min(plan.Hosts, f.Sample)
	var telling sync.Mutex
	ran := Progress{Bears: low, Hosts: plan.Ran}
	tell(ran)
	all, err := hosts(plan.Ran, func(i int) (time.Duration, error) {
		took, err := p99(min(low, f.Containers-i*low), m.Seed+uint64(i), true)
		telling.Lock()
		defer telling.Unlock()
		ran.Ran++
		tell(ran)
		return took, err
	})
	if err != nil {
		return Planned{}, err
	}
	slices.Sort(all)
	plan.P99, plan.Worst = all[len(all)/2], all[len(all)-1]
	for _, d := range all {
		if d > f.P99 {
			plan.Over++
		}
	}
	return plan, nil
}

// hosts runs all of them, several at a time; what comes out does not depend on which is when.
func hosts(n int, run func(i int) (time.Duration, error)) ([]time.Duration, error) {
	all, errs := make([]time.Duration, n), make([]error, n)
	next := make(chan int)
	var wait sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wait.Go(func() {
			for i := range next {
				all[i], errs[i] = run(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
	return all, errors.Join(errs...)
}

// pages are those of all containers of a mix, each of which is touched once.
func pages(m synthetic.Mix) (n int64) {
	for _, g := range m.Groups {
		n += int64(g.Count) * int64(g.Pages)
	}
	return n
}

func total(m synthetic.Mix) (n int) {
	for _, g := range m.Groups {
		n += g.Count
	}
	return n
}

// coarse is the mix in extents of n pages. A burst's time stays what it was.
func coarse(m synthetic.Mix, n int) synthetic.Mix {
	m.Groups = slices.Clone(m.Groups)
	for i := range m.Groups {
		g := &m.Groups[i]
		g.Pages = max(1, g.Pages/n)
		if g.Kind != synthetic.Serving {
			g.PageTime = synthetic.Duration(
				cmp.Or(time.Duration(g.PageTime), synthetic.DefaultPageTime) * time.Duration(n),
			)
		}
	}
	return m
}

// scale is the mix with n containers that are not critical, in the same proportions: what is
// left over goes to those that miss most.
func scale(m synthetic.Mix, n int) synthetic.Mix {
	all := total(m) - m.Containers(annex.Critical)
	m.Groups = slices.Clone(m.Groups)
	type part struct {
		group, over int
	}
	var parts []part
	left := n
	for i := range m.Groups {
		g := &m.Groups[i]
		if g.Class == annex.Critical {
			continue
		}
		parts = append(parts, part{i, g.Count * n % all})
		g.Count = g.Count * n / all
		left -= g.Count
	}
	slices.SortStableFunc(parts, func(a, b part) int { return b.over - a.over })
	for _, p := range parts[:left] {
		m.Groups[p.group].Count++
	}
	return m
}
