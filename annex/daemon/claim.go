package daemon

import (
	"errors"
	"fmt"
	"sync"

	"tare/annex/bound"
)

// claims is the directory of claims on what is defended. Tests have another.
var claims = bound.ClaimDirectory

// claimed is what a daemon that manages has to itself: two of them, with whatever state
// directories, would undo what each other does. One that observes is in nobody's way.
type claimed struct {
	of *bound.Bound

	mu   sync.Mutex
	held *bound.Claim // nil is none yet
}

// take takes it, where it is not taken. The error is a [*Conflict] where another daemon has
// it.
func (c *claimed) take() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held != nil {
		return nil
	}
	held, err := c.of.Claim(claims)
	if other := new(bound.Claimed); errors.As(err, &other) {
		what := "the host's memory"
		if other.Group != "" {
			what = "the memory of " + other.Group
		}
		return &Conflict{"another annexd", "defends " + what + " and holds the lock of " + other.Lock, "end that one first"}
	}
	if err != nil {
		return fmt.Errorf("claim of what is defended: %w", err)
	}
	c.held = held
	return nil
}

func (c *claimed) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.held
	c.held = nil
	return held.Close()
}
