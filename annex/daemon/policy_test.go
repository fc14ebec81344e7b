package daemon

import (
	"testing"
	"time"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/data"
	"tare/annex/predict"
)

// Each predictor is switched by itself: off, it says nothing, and goes on being scored.
func TestPredictorsAreSwitchedApart(t *testing.T) {
	on := config.Default().Predictors
	type told struct{ next, pages bool }
	for name, c := range map[string]struct {
		change func(*config.Predictors)
		off    predict.Kind
		want   told
	}{
		"all":          {func(*config.Predictors) {}, "", told{true, true}},
		"no record":    {func(p *config.Predictors) { p.Record = false }, predict.Record, told{true, false}},
		"no intervals": {func(p *config.Predictors) { p.Intervals = false }, predict.Intervals, told{false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			conf := config.Default()
			c.change(&conf.Predictors)
			var p data.Predictor = predict.New(predict.Options{})
			if make := policy(conf).Predictor; make != nil {
				p = make()
			} else if conf.Predictors != on {
				t.Fatal("what is switched off is listened to")
			}
			got := told{}
			const first, length = 1 << 20, annex.Page(256)
			const every = annex.Moment(10 * time.Second)
			at := every
			for range 8 {
				p.Began(at)
				for i := range length {
					p.Touched([]annex.Fault{{ID: "a", Space: theSpace, Page: first + i, At: at + 1 + annex.Moment(i), Swapped: true}})
				}
				p.Ended(at + annex.Moment(time.Second))
				p.Left([]annex.Run{{Space: theSpace, First: first, Pages: int(length)}})
				at += every
			}
			_, got.next = p.Next(at - every/2)
			got.pages = len(p.Pages()) > 0
			if got != c.want {
				t.Errorf("it tells %+v, want %+v", got, c.want)
			}
			for _, s := range p.Scores() {
				if s.Predictions == 0 || s.On == (s.Kind == c.off || !conf.Predictors.On(s.Kind)) {
					t.Errorf("%s is scored %+v", s.Kind, s)
				}
			}
		})
	}
}

// What a configuration has at 0 is none, and not what is usual.
func TestNoneIsNotTheDefault(t *testing.T) {
	conf := config.Default()
	conf.Memory.Reserve, conf.Memory.SwapReserve, conf.Activity.ProbeCPU, conf.Prefetch.Lead, conf.Predictors.Threshold = 0, 0, 0, 0, 0
	p := policy(conf)
	for name, none := range map[string]bool{
		"memory.reserve":       p.Reserve != 0 && p.Reserve < annex.PageSize,
		"memory.swap_reserve":  p.SwapReserve < 0,
		"activity.probe_cpu":   p.ProbeCPU != 0 && p.ProbeCPU <= time.Microsecond,
		"prefetch.lead":        p.Lead != 0 && p.Lead <= time.Millisecond,
		"predictors.threshold": p.Predict.Threshold != 0 && p.Predict.Threshold < 0.001 && p.Predict.Check() == nil,
	} {
		if !none {
			t.Errorf("%s of 0 comes to %+v", name, p)
		}
	}
}
