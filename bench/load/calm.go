package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"tare/kernel/accounting"
)

// What the host may do beside a repetition: others' share of all its CPU time,
// and what its hypervisor gives to others.
const (
	mostForeign = 0.02
	mostSteal   = 0.01
)

// calm repeats a measurement during which the host did something else, whatever
// came of it, for as long as the bench has patience.
func (b *bench) calm(ctx context.Context, measure func() error) error {
	for {
		before, err := accounting.Take("/proc")
		if err != nil {
			return err
		}
		if err := measure(); err != nil {
			return err
		}
		after, err := accounting.Take("/proc")
		if err != nil {
			return err
		}
		host := accounting.Between(before, after, os.Getpid(), nil)
		if host.Foreign <= mostForeign && host.Steal <= mostSteal {
			b.undisturbed++
			return nil
		}
		if b.patience -= host.Elapsed + pause; b.patience < 0 {
			b.disturbed++
			return nil
		}
		b.repeated++
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// pause is how long a busy host is left alone.
const pause = 100 * time.Millisecond

// surroundings says what calm came to.
func (b *bench) surroundings() string {
	return fmt.Sprintf("%d measurements counted; %d more were repeated, because others used above %g %% of the host's CPU time or its hypervisor took above %g %%; %d of those counted were disturbed still",
		b.undisturbed+b.disturbed, b.repeated, 100*mostForeign, 100*mostSteal, b.disturbed)
}
