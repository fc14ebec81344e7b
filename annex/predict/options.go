package predict

import (
	"fmt"
	"time"
)

// Options say how to predict. The zero value is ready for use.
type Options struct {
	// Bursts is on how many of the last activations the record rests, up to 4; 0 is 4.
	Bursts int
	// Horizon is the longest time between activations that is told from longer ones; 0 is
	// four hours, as in Serverless in the Wild.
	Horizon time.Duration
	// Threshold is the precision below which a predictor is not listened to; 0 is one half.
	Threshold float64
	// Margin is by how much its precision has to exceed Threshold until it is listened to
	// again; 0 is 0.1.
	Margin float64
	// Pages is the most pages of the record, which takes about three bytes of each; 0 is 4
	// million: 16 GiB.
	Pages int
	// Follow is the time within which a container follows another; 0 is 5 s.
	Follow time.Duration
}

// Check says what is wrong with the options; nil where nothing is.
func (o Options) Check() error {
	switch {
	case o.Bursts < 0 || o.Bursts > patternBits:
		return fmt.Errorf("a record of %d bursts: want 1 to %d", o.Bursts, patternBits)
	case o.Horizon < 0:
		return fmt.Errorf("a horizon of %v: want it above 0", o.Horizon)
	case !(o.Threshold >= 0 && o.Margin >= 0 && o.Threshold+o.Margin <= 1):
		return fmt.Errorf("a threshold of %g with a margin of %g: want both from 0, and 1 at most together", o.Threshold, o.Margin)
	case o.Pages < 0:
		return fmt.Errorf("a record of %d pages: want 1 at least", o.Pages)
	case o.Follow < 0:
		return fmt.Errorf("containers that follow within %v: want it above 0", o.Follow)
	}
	return nil
}

// complete fills in what is not said. What [Options.Check] refuses falls back too.
func (o Options) complete() Options {
	if o.Check() != nil {
		o = Options{}
	}
	or(&o.Bursts, patternBits)
	or(&o.Horizon, 4*time.Hour)
	or(&o.Threshold, 0.5)
	or(&o.Margin, 0.1)
	or(&o.Pages, 1<<22)
	or(&o.Follow, 5*time.Second)
	return o
}

func or[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}
