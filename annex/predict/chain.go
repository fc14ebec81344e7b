package predict

import (
	"cmp"
	"math"
	"slices"
	"time"

	"tare/annex"
)

// Chain tells which containers wake after another has: a request goes through several. It
// counts, for each that woke, which others did so within a time, and believes those that do
// more often than by chance.
type Chain struct {
	options Options
	gate    gate
	meter   meter
	of      map[annex.ID]*link
	recent  []waking // within the time, the earliest first
}

// Follower is a container that wakes after another.
type Follower struct {
	ID annex.ID
	// Within is the time in which it did nine times of ten.
	Within time.Duration
	// Probability is how often it did.
	Probability float64
}

// link is what is known of a container.
type link struct {
	woke      float64 // how often, fading
	last      annex.Moment
	gap       float64 // mean seconds between its own wakings, fading; 0 is unknown
	followers []following
}

// following is a container that followed it.
type following struct {
	id     annex.ID
	count  float64 // how often, fading as woke does
	delays [8]time.Duration
	known  int
	next   int
}

// waking is a container that woke, which others may follow.
type waking struct {
	id        annex.ID
	at        annex.Moment
	followed  []annex.ID // at most once each
	predicted []annex.ID // who have not come yet
}

const (
	linkKeep      = 0.95
	mostFollowers = 8
	// mostRecent bounds the wakings that are looked back upon, where all wake at once.
	mostRecent = 64
	// fewestLinks is how often one has to have followed.
	fewestLinks = 2.5
	chainHalve  = 256
)

// NewChain gives a chain of which nothing is known. Options that Check refuses are as if none
// were given.
func NewChain(o Options) *Chain {
	o = o.complete()
	c := &Chain{options: o, gate: gate{o.Threshold, o.Margin}, of: map[annex.ID]*link{}}
	c.meter.enough = 8
	return c
}

// Began tells that a container woke.
func (c *Chain) Began(id annex.ID, at annex.Moment) {
	c.expire(at)
	predicted := false
	for i := range c.recent {
		predicted = c.follows(&c.recent[i], id, at) || predicted
	}
	c.meter.event(predicted)
	l := c.of[id]
	if l == nil {
		l = &link{}
		c.of[id] = l
	} else if gap := at.Since(l.last).Seconds(); l.gap == 0 {
		l.gap = gap
	} else {
		l.gap += (gap - l.gap) / 8
	}
	l.last = at
	l.woke = l.woke*linkKeep + 1
	kept := l.followers[:0]
	for _, f := range l.followers {
		if f.count *= linkKeep; f.count > 0.1 {
			kept = append(kept, f)
		}
	}
	l.followers = kept
	w := waking{id: id, at: at}
	for _, f := range c.likely(id) {
		w.predicted = append(w.predicted, f.ID)
	}
	if len(c.recent) == mostRecent {
		c.decide(c.recent[0])
		c.recent = slices.Delete(c.recent, 0, 1)
	}
	c.recent = append(c.recent, w)
	c.meter.judge(c.gate)
	c.meter.halve(chainHalve)
}

// follows counts that a container woke after another had; true where that was predicted.
func (c *Chain) follows(w *waking, id annex.ID, at annex.Moment) bool {
	if w.id == id || slices.Contains(w.followed, id) {
		return false
	}
	w.followed = append(w.followed, id)
	if l := c.of[w.id]; l != nil {
		l.follow(id, at.Since(w.at))
	}
	i := slices.Index(w.predicted, id)
	if i < 0 {
		return false
	}
	w.predicted = slices.Delete(w.predicted, i, i+1)
	c.meter.prediction(1, true)
	c.meter.leads.add(at.Since(w.at))
	return true
}

func (l *link) follow(id annex.ID, after time.Duration) {
	i := slices.IndexFunc(l.followers, func(f following) bool { return f.id == id })
	if i < 0 && len(l.followers) < mostFollowers {
		i = len(l.followers)
		l.followers = append(l.followers, following{id: id})
	}
	if i < 0 {
		// The rarest wears away.
		rarest := 0
		for k := range l.followers {
			if l.followers[k].count < l.followers[rarest].count {
				rarest = k
			}
		}
		if f := &l.followers[rarest]; f.count > 1 {
			f.count--
			return
		}
		i = rarest
		l.followers[i] = following{id: id}
	}
	f := &l.followers[i]
	f.count++
	f.delays[f.next] = after
	f.next = (f.next + 1) % len(f.delays)
	f.known = min(f.known+1, len(f.delays))
}

// within is the longest of the last delays but one, where there are many.
func (f *following) within() time.Duration {
	sorted := slices.Sorted(slices.Values(f.delays[:f.known]))
	if len(sorted) == len(f.delays) {
		return sorted[len(sorted)-2]
	}
	return sorted[len(sorted)-1]
}

// expire decides the predictions whose time is over.
func (c *Chain) expire(now annex.Moment) {
	n := 0
	for n < len(c.recent) && now.Since(c.recent[n].at) > c.options.Follow {
		c.decide(c.recent[n])
		n++
	}
	c.recent = slices.Delete(c.recent, 0, n)
}

func (c *Chain) decide(w waking) { c.meter.prediction(float64(len(w.predicted)), false) }

// byChance tells whether one that wakes on average each gap seconds would come as soon and
// as surely after anything: one that wakes each second follows everyone. It says something
// only where it comes within half of its own gap, and fails to at most half as often as one
// would that wakes whenever it likes.
func byChance(probability, within, gap float64) bool {
	return gap > 0 && (within >= gap/2 || 1-probability > math.Exp(-within/gap)/2)
}

// likely are the followers that are likely enough, and more so than by chance.
func (c *Chain) likely(id annex.ID) []Follower {
	l := c.of[id]
	if l == nil {
		return nil
	}
	var all []Follower
	for i := range l.followers {
		f := &l.followers[i]
		p := min(1, share(f.count, l.woke))
		if f.count < fewestLinks || p < c.options.Threshold {
			continue
		}
		within := f.within()
		if other := c.of[f.id]; other != nil && byChance(p, within.Seconds(), other.gap) {
			continue
		}
		all = append(all, Follower{ID: f.id, Within: within, Probability: p})
	}
	slices.SortFunc(all, func(a, b Follower) int {
		return cmp.Or(cmp.Compare(b.Probability, a.Probability), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// Followers are the containers that are expected to wake after one has, the likeliest first.
// There are none while the chain is not listened to.
func (c *Chain) Followers(id annex.ID) []Follower {
	if c.meter.shut {
		return nil
	}
	return c.likely(id)
}

// Forget drops what is known of a container that is no more.
func (c *Chain) Forget(id annex.ID) {
	delete(c.of, id)
	is := func(other annex.ID) bool { return other == id }
	for _, l := range c.of {
		l.followers = slices.DeleteFunc(l.followers, func(f following) bool { return f.id == id })
	}
	c.recent = slices.DeleteFunc(c.recent, func(w waking) bool { return w.id == id })
	for i := range c.recent {
		c.recent[i].predicted = slices.DeleteFunc(c.recent[i].predicted, is)
	}
}

// Scores is the chain's.
func (c *Chain) Scores() []Score { return []Score{c.meter.score(Followers)} }
