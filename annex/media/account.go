package media

import "tare/annex"

// Account is what a [Kernel] has done since it was made. Pages, unless said otherwise.
type Account struct {
	Requests, Stopped, Failed int64 // requests
	Evicted, Fetched, Mapped  int64
	Skipped                   int64
	Bridged                   int64 // brought along, so that two runs were one
	LeftBehind                int64 // calls from which the kernel did not come back in time, ever
	Stuck                     int   // those of them that it still keeps
	Spaces                    int   // held open
}

// Account tells it.
func (k *Kernel) Account() Account {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.account
	a.Stuck, a.Spaces = k.stuck, len(k.spaces)
	return a
}

func (k *Kernel) count(d *doing) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := &k.account
	a.Requests++
	if d.result.Stopped {
		a.Stopped++
	}
	if d.result.Err != nil {
		a.Failed++
	}
	switch d.r.Op {
	case annex.Evict:
		a.Evicted += int64(d.result.Moved)
	case annex.Fetch:
		a.Fetched += int64(d.result.Moved)
	case annex.Map:
		a.Mapped += int64(d.result.Moved)
	}
	a.Skipped += int64(d.result.Skipped)
	a.Bridged += int64(d.bridged)
}
