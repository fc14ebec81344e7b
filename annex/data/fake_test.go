package data

import (
	"tare/annex"
	"tare/annex/predict"
)

// fakePredictor says what a test wants, and notes what was reported to it.
type fakePredictor struct {
	record   []predict.Ranked
	forecast predict.Forecast
	expects  bool
	scores   []predict.Score

	began, ended          []annex.Moment
	touched               []annex.Fault
	brought, mapped, left int
	lost, interrupted     int
	forgot                []annex.Space
	gone                  []annex.Run
}

func (t *fakePredictor) Began(at annex.Moment)                 { t.began = append(t.began, at) }
func (t *fakePredictor) Touched(faults []annex.Fault)          { t.touched = append(t.touched, faults...) }
func (t *fakePredictor) Ended(at annex.Moment)                 { t.ended = append(t.ended, at) }
func (t *fakePredictor) Pages() []predict.Ranked               { return append([]predict.Ranked(nil), t.record...) }
func (t *fakePredictor) Scores() []predict.Score               { return t.scores }
func (t *fakePredictor) Mapped(r []annex.Run)                  { t.mapped += annex.Count(r) }
func (t *fakePredictor) Left(r []annex.Run)                    { t.left += annex.Count(r) }
func (t *fakePredictor) Gone(r []annex.Run)                    { t.gone = append(t.gone, r...) }
func (t *fakePredictor) Forget(s annex.Space)                  { t.forgot = append(t.forgot, s) }
func (t *fakePredictor) Lost()                                 { t.lost++ }
func (t *fakePredictor) Interrupted()                          { t.interrupted++ }
func (t *fakePredictor) Size() int64                           { return 0 }
func (t *fakePredictor) Brought(r []annex.Run, _ annex.Moment) { t.brought += annex.Count(r) }
func (t *fakePredictor) Next(now annex.Moment) (predict.Forecast, bool) {
	f := t.forecast
	return predict.Forecast{Earliest: max(f.Earliest, now), Likely: max(f.Likely, now), Latest: max(f.Latest, now)}, t.expects
}

// chained is a chain that is told.
type chained map[annex.ID][]predict.Follower

func (c chained) Began(annex.ID, annex.Moment)             {}
func (c chained) Followers(id annex.ID) []predict.Follower { return c[id] }

func (c chained) Forget(annex.ID) {}
