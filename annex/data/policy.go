package data

import (
	"time"

	"tare/annex"
	"tare/annex/predict"
)

// Policy is what is decided by. A zero value of any part stands for its default.
type Policy struct {
	Headroom
	Flow
	Ages
	Errors
	Brake
	Probes
	Prefetch

	// Predict says how containers are predicted. Predictor makes what predicts one container, and
	// Chain predicts which wakes after which; nil is those of package predict.
	Predict   predict.Options
	Predictor func() Predictor
	Chain     Chain
}

// Headroom is what memory and swap are kept free, in bytes.
type Headroom struct {
	// Low and High are the marks of free memory: below Low eviction begins, at High it ends. Low
	// is the headroom: with it free nobody has to reclaim. Defaults 64 MiB, and a quarter more
	// than Low.
	Low, High int64
	// Reserve is free memory that pages coming back leave alone, even those of a container
	// that is awake, but where its record has proved precise; default a quarter of Low.
	Reserve int64
	// SwapReserve is the share of all swap that is left free; default 1/64, below 0 none.
	SwapReserve float64
}

// Flow is how many pages are under way at once, and what moving one costs.
type Flow struct {
	// MostLeaving bounds how many pages may be on their way out at once, and with it how long
	// an eviction takes to stop; default 2048. MostComing bounds those on their way in;
	// default 8192. A request has at most Piece; default 512.
	MostLeaving, MostComing, Piece int
	// EvictCost and FetchCost are the times for a page that are assumed until they are
	// measured; defaults 5 and 3 us.
	EvictCost, FetchCost time.Duration
}

// Ages say from when on pages are cold.
type Ages struct {
	// Tick is the unit of the age of pages, which is kept up to 240 ticks; default 5 s.
	Tick time.Duration
	// WarmUp is how long after a container was found none of its pages leaves; default 5 s.
	WarmUp time.Duration
	// PromotionRate is the share of its working set that a container may want back from
	// among its cold pages in a minute; default 0.002. Working is the age up to which pages
	// are of the working set; default 2 min. ColdLeast is the least age of a cold page;
	// default 30 s. The threshold is the Percentile of the best ones of the last History
	// minutes; defaults 0.98 and 60.
	PromotionRate float64
	Working       time.Duration
	ColdLeast     time.Duration
	Percentile    float64
	History       int
	// Recent is the age up to which pages of an awake container stay; default 10 s.
	Recent time.Duration
	// Lifetime is how long an extent keeps its level without being used; default 1 min.
	Lifetime time.Duration
}

// Errors says when too much of what leaves is missed.
type Errors struct {
	// Quick is how soon after eviction a page is missed if that was an error; default 2 s.
	// Errors above ErrorLimit of what is evicted (default one half), of at least ErrorLeast
	// pages (default 1024), have less evicted and fetched, until they are half as many.
	// They are forgotten by half every ErrorHalfLife (default 30 s).
	Quick         time.Duration
	ErrorLimit    float64
	ErrorLeast    int
	ErrorHalfLife time.Duration
}

// Brake is how much pressure stops eviction.
type Brake struct {
	// ElasticLimit and CriticalLimit are the shares of time that tasks may wait for memory;
	// eviction is scaled down towards them, from the container itself or, with critical
	// pressure, from everyone. Defaults 0.1 and 0.01. Over Window pressure is averaged;
	// default 10 s. Critical pressure that is above its limit in one reading stops eviction
	// with that reading.
	ElasticLimit, CriticalLimit float64
	Window                      time.Duration
}

// Probes tell work from health probes.
type Probes struct {
	// A container that woke did work, and was not only asked whether it is well, if it took
	// at least ProbeCPU (default 20 ms), or as many as ProbePages of its pages had to be
	// brought in (default 128), or it is awake for ProbeTime (default 2 s).
	ProbeCPU   time.Duration
	ProbePages int
	ProbeTime  time.Duration
}

// Prefetch says when records are fetched.
type Prefetch struct {
	// First is how many faults have to fall into the record of a container that woke before
	// it is fetched (default 2), where they are half of all that it misses; otherwise eight times
	// as many. After Judged faults (default 32) fetching stops where fewer
	// than the share Proof (default one half) of them were in it.
	First, Judged int
	Proof         float64

	// Lead is how long before it is expected, beside the time that it takes, that a record
	// is fetched; default 50 ms.
	Lead time.Duration
	// Hold is how far apart the ends of a forecast may be for pages of others to make room
	// for what is expected, and how long what was fetched is then waited for; default 5 s.
	Hold time.Duration
	// Horizon is how soon an activation must be likely for its record to be fetched merely
	// since there is room; default 1 min.
	Horizon time.Duration
	// BreakEven is how many times the time that it takes to evict and fetch a container's
	// pages its sleep must at least last for that to be done; default 4.
	BreakEven float64
	// MapPrecision is the precision from which pages that are certain are mapped and not
	// only fetched; default 0.9, above 1 never. Every Verify-th time (default 4) they are
	// only fetched, so that their use is seen.
	MapPrecision float64
	Verify       int
	// FollowProbability is how probable it must be that one container wakes after another
	// for its record to be fetched; default 0.5.
	FollowProbability float64
}

func (h Headroom) low() int     { return int(h.Low / annex.PageSize) }
func (h Headroom) high() int    { return int(h.High / annex.PageSize) }
func (h Headroom) reserve() int { return int(h.Reserve / annex.PageSize) }

// Predictor tells when a container wakes and what it then touches: [predict.Context].
type Predictor interface {
	Began(at annex.Moment)
	Touched(faults []annex.Fault)
	Ended(at annex.Moment)
	Next(now annex.Moment) (predict.Forecast, bool)
	Pages() []predict.Ranked
	Scores() []predict.Score
	Brought(runs []annex.Run, at annex.Moment) // and not mapped
	Mapped(runs []annex.Run)
	Left(runs []annex.Run)
	Gone(runs []annex.Run)
	Forget(s annex.Space)
	Lost()
	Interrupted()
	Size() int64
}

// Chain tells which containers wake after one.
type Chain interface {
	Began(id annex.ID, at annex.Moment)
	Followers(id annex.ID) []predict.Follower
	Forget(id annex.ID)
}

const mebibyte = 1 << 20

func or[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

func (p Policy) withDefaults() Policy {
	or(&p.Low, 64*mebibyte)
	or(&p.High, p.Low+p.Low/4)
	p.High = max(p.High, p.Low)
	or(&p.Reserve, p.Low/4)
	or(&p.SwapReserve, 1.0/64)
	or(&p.MostLeaving, 2048)
	or(&p.MostComing, 8192)
	or(&p.Piece, 512)
	or(&p.Tick, 5*time.Second)
	or(&p.WarmUp, 5*time.Second)
	or(&p.PromotionRate, 0.002)
	or(&p.Working, 2*time.Minute)
	or(&p.ColdLeast, 30*time.Second)
	or(&p.Percentile, 0.98)
	or(&p.History, 60)
	or(&p.Recent, 10*time.Second)
	or(&p.Lifetime, time.Minute)
	or(&p.Quick, 2*time.Second)
	or(&p.ErrorLimit, 0.5)
	or(&p.ErrorLeast, 1024)
	or(&p.ErrorHalfLife, 30*time.Second)
	or(&p.ElasticLimit, 0.1)
	or(&p.CriticalLimit, 0.01)
	or(&p.Window, 10*time.Second)
	or(&p.ProbeCPU, 20*time.Millisecond)
	or(&p.ProbePages, 128)
	or(&p.ProbeTime, 2*time.Second)
	or(&p.First, 2)
	or(&p.Judged, 32)
	or(&p.Proof, 0.5)
	or(&p.Lead, 50*time.Millisecond)
	or(&p.Hold, 5*time.Second)
	or(&p.Horizon, time.Minute)
	or(&p.BreakEven, 4)
	or(&p.MapPrecision, 0.9)
	or(&p.Verify, 4)
	or(&p.FollowProbability, 0.5)
	or(&p.EvictCost, 5*time.Microsecond)
	or(&p.FetchCost, 3*time.Microsecond)
	if p.Predictor == nil {
		options := p.Predict
		p.Predictor = func() Predictor { return predict.New(options) }
	}
	return p
}

func (p Policy) chain() Chain {
	if p.Chain != nil {
		return p.Chain
	}
	return predict.NewChain(p.Predict)
}
