package media

import (
	"maps"
	"sync"

	"tare/annex"
	"tare/kernel/swap"
)

// Writes divides what the kernel writes to swap, for whomever, among the areas in use. A device has
// a count of its own. Below a file others write too: what went to swap and to no device counts for
// the file that is being filled at the time, the first that has room; with one file that is exact.
type Writes struct {
	host  swap.Host
	inUse func() Together

	mu    sync.Mutex
	begun bool
	all   int64            // that the kernel counted, last
	of    map[string]int64 // by area
}

// NewWrites counts from its first answer on.
func NewWrites(host swap.Host, inUse func() Together) *Writes {
	return &Writes{host: host, inUse: inUse, of: map[string]int64{}}
}

// To is how many bytes were written to an area, for [BudgetOptions.Written]. Of one that is not in
// use it stays what it was.
func (w *Writes) To(area string) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stat, err := w.host.VMStat()
	if err != nil {
		return 0, err
	}
	all := stat.PSwpOut * annex.PageSize
	files := all - w.all
	media, of := w.inUse(), map[string]int64{} // nothing is taken note of before all have reported
	for _, m := range media {
		if m.Kind() == File {
			continue
		}
		c, err := m.Counters()
		if err != nil {
			return 0, err
		}
		if before, known := w.of[m.Name()]; known {
			files -= max(0, c.Written-before) // less is another device of that name
		}
		of[m.Name()] = c.Written
	}
	maps.Copy(w.of, of)
	if m := media.filled(File); m != nil && w.begun {
		w.of[m.Name()] += max(0, files)
	}
	w.all, w.begun = all, true
	return w.of[area], nil
}

// filled is the medium of a kind that the next pages of those go to: the first that has room, or
// the last.
func (t Together) filled(kind Kind) (last Medium) {
	for _, m := range t {
		if m.Kind() != kind {
			continue
		}
		last = m
		if room, err := m.Room(); err == nil && room.Free >= annex.PageSize {
			return m
		}
	}
	return last
}
