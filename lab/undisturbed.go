package lab

import (
	"fmt"

	"tare/kernel/accounting"
)

// StepsRepeated is the covariate that counts, in a trial of many steps, how often one
// was done again for something foreign. Where it follows a condition, what disturbs is
// no stranger but an effect.
const StepsRepeated = "steps_repeated"

// StepAttempts bounds how often a step that is to be undisturbed is made in all.
const StepAttempts = maxTries

// Undisturbed brackets a step with the host's accounts until it finds it undisturbed,
// within the bound that trials have. Of attempts that were done again nothing is kept.
func (b *workbench) Undisturbed(step func() error) error {
	b.steps++
	part := fmt.Sprintf("step %d", b.steps)
	attempts := StepAttempts
	if b.WarmUp() {
		attempts = 1
	}
	for attempt := 1; ; attempt++ {
		if err := b.Measuring(); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
		seen, err := b.observed()
		if err != nil {
			return err
		}
		taint := b.r.taint(seen, b.condition, b.result.Block, part)
		if len(taint) == 0 || attempt == attempts {
			b.mu.Lock()
			defer b.mu.Unlock()
			note(seen, taint, b.result)
			return nil
		}
		b.Tally(StepsRepeated, 1)
		b.Tell("disturbed, done again: " + taint[0])
	}
}

// observed ends an observation.
func (b *workbench) observed() (accounting.Interval, error) {
	b.observing = false
	b.watch.meet(b.ctx, b.r.platforms)
	return b.watch.end(b.ctx)
}
