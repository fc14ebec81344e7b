package daemon

import (
	"cmp"
	"time"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/data"
	"tare/annex/predict"
)

// warmUp is how long all pages of a newly found container stay in memory. 0 takes the default of
// package data, 5 s. Tests set less.
var warmUp time.Duration

// policy is what a configuration comes to for data management.
func policy(c config.Config) data.Policy {
	// There 0 is the default of whatever it is: here it is none, for which the least stands.
	const leastShare = 1e-9
	options := predict.Options{
		Threshold: cmp.Or(c.Predictors.Threshold, leastShare),
		Margin:    min(0.1, 1-c.Predictors.Threshold),
	}
	p := data.Policy{
		Headroom: data.Headroom{
			Low: c.Memory.Headroom, High: c.Memory.High, Reserve: cmp.Or(c.Memory.Reserve, 1),
			SwapReserve: cmp.Or(c.Memory.SwapReserve, -1),
		},
		Ages: data.Ages{
			PromotionRate: c.Cold.PromotionRate, Working: c.Cold.Working, ColdLeast: c.Cold.After, WarmUp: warmUp,
		},
		Brake: data.Brake{
			ElasticLimit:  c.Pressure.Elastic,
			CriticalLimit: c.Pressure.Critical,
			Window:        c.Pressure.Window,
		},
		Probes:   data.Probes{ProbeCPU: cmp.Or(c.Activity.ProbeCPU, 1), ProbePages: c.Activity.ProbePages},
		Prefetch: data.Prefetch{Lead: cmp.Or(c.Prefetch.Lead, time.Millisecond), MapPrecision: c.Prefetch.MapPrecision},
		Predict:  options,
	}
	all := config.Predictors{Record: true, Intervals: true, Followers: true, Threshold: c.Predictors.Threshold}
	if c.Predictors != all {
		p.Predictor = func() data.Predictor { return &switched{predict.New(options), c.Predictors} }
	}
	if !c.Predictors.Followers {
		p.Chain = nobody{}
	}
	return p
}

// switched is a predictor of which some kinds are switched off: they go on learning, and
// are not listened to.
type switched struct {
	*predict.Context
	on config.Predictors
}

func (s *switched) Next(now annex.Moment) (f predict.Forecast, ok bool) {
	if !s.on.Intervals {
		return f, false
	}
	return s.Context.Next(now)
}

func (s *switched) Pages() []predict.Ranked {
	if !s.on.Record {
		return nil
	}
	return s.Context.Pages()
}

func (s *switched) Scores() []predict.Score {
	scores := s.Context.Scores()
	for i := range scores {
		scores[i].On = scores[i].On && s.on.On(scores[i].Kind)
	}
	return scores
}

// nobody is a chain in which no container follows another.
type nobody struct{}

func (nobody) Began(annex.ID, annex.Moment)          {}
func (nobody) Followers(annex.ID) []predict.Follower { return nil }
func (nobody) Forget(annex.ID)                       {}
