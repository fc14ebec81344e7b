package image

import (
	"sync"
	"time"
)

// Step is something slow that is done for an image, and how far it is.
type Step struct {
	What     string
	Done, Of int // packages; Of is 0 where nothing is counted
	Took     time.Duration
}

// stepEvery is how often [Store.OnStep] is called.
const stepEvery = time.Second

// step says that something slow begins, and how far it is until ended is called. done counts what is
// done of so many; of 0 nothing is counted.
func (s *Store) step(what string, of int, done func() int) (ended func()) {
	s.progress(what)
	if s.OnStep == nil {
		return func() {}
	}
	began, over := time.Now(), make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		tick := time.NewTicker(stepEvery)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			one := Step{What: what, Of: of, Took: time.Since(began)}
			if of > 0 {
				one.Done = done()
			}
			s.OnStep(one)
		}
	})
	return func() { close(over); telling.Wait() }
}
