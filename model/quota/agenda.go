package quota

// agenda is connections by the moment at which something happens to them: a
// binary heap. container/heap would box each of a million entries.
type agenda struct{ entries []entry }

type entry struct {
	at int64
	c  int32
}

// first is the next moment; never where there is none.
func (a *agenda) first() int64 {
	if len(a.entries) == 0 {
		return never
	}
	return a.entries[0].at
}

func (a *agenda) push(at int64, c int32) {
	a.entries = append(a.entries, entry{at, c})
	i := len(a.entries) - 1
	for i > 0 {
		up := (i - 1) / 2
		if a.entries[up].at <= a.entries[i].at {
			return
		}
		a.entries[up], a.entries[i] = a.entries[i], a.entries[up]
		i = up
	}
}

// pop takes the connection of the next moment; there is one.
func (a *agenda) pop() int32 {
	c := a.entries[0].c
	last := len(a.entries) - 1
	a.entries[0] = a.entries[last]
	a.entries = a.entries[:last]
	for i := 0; ; {
		least := i
		for _, down := range [2]int{2*i + 1, 2*i + 2} {
			if down < last && a.entries[down].at < a.entries[least].at {
				least = down
			}
		}
		if least == i {
			return c
		}
		a.entries[i], a.entries[least] = a.entries[least], a.entries[i]
		i = least
	}
}
