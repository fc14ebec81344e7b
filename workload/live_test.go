package workload

import (
	"context"
	"errors"
	"testing"
)

// A service that is seen to have ended only after a request of it failed is why that
// request did.
func TestEndSeenAfterTheFailure(t *testing.T) {
	refused := errors.New("connection refused")
	tr := &trial{ended: make(chan struct{}), exit: Exit{Code: 7}}
	err := whileServing(t.Context(), tr, func(context.Context) error {
		go close(tr.ended)
		return refused
	})
	refusedAs[*Ended](t, err, "ended by itself, with status 7")

	lives := &trial{ended: make(chan struct{})}
	if err := whileServing(t.Context(), lives, func(context.Context) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("a service that lives: %v", err)
	}
}
