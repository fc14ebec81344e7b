package workload

import "sync"

// worked keeps what a reference has worked out: it is the same for every trial of a
// program, and for every copy of it, and a second time would only take the CPU from
// what is measured next. The zero value is ready; any goroutine may use it.
type worked[K comparable, V any] struct {
	mu  sync.Mutex
	out map[K]func() V
}

// get gives what work makes of key, and has it work once.
func (w *worked[K, V]) get(key K, work func() V) V {
	w.mu.Lock()
	if w.out == nil {
		w.out = map[K]func() V{}
	}
	once, ok := w.out[key]
	if !ok {
		once = sync.OnceValue(work)
		w.out[key] = once
	}
	w.mu.Unlock()
	return once()
}
