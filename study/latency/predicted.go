package latency

import (
	"errors"
	"strings"
	"time"

	"tare/model/quota"
	"tare/record"
	"tare/report"
	"tare/study/kit"
	"tare/study/latency/cpu"
	"tare/study/predict"
)

// predicted is the prediction for a run: for the quotas that it measured, and those
// that were requested.
func predicted(run record.Run) (predict.Result, error) {
	var o predict.Options
	for _, c := range run.Conditions {
		if !c.Baseline {
			continue
		}
		for _, f := range []struct {
			name string
			to   *time.Duration
		}{
			{cpu.FactorWanted, &o.Wanted}, {cpu.FactorSlice, &o.Kernel.Slice},
			{cpu.FactorTick, &o.Kernel.Tick}, {cpu.FactorStall, &o.Stall},
		} {
			if d, err := time.ParseDuration(c.Factors[f.name]); err == nil && d > 0 {
				*f.to = d
			}
		}
		if o.Asked != nil || c.Factors[cpu.FactorAsked] == "" {
			continue
		}
		for _, text := range strings.Split(c.Factors[cpu.FactorAsked], ",") {
			b, err := cpu.ParseBandwidth(text)
			if err != nil {
				return predict.Result{}, err
			}
			o.Asked = append(o.Asked, quota.Bandwidth{Quota: b.Quota, Period: b.Period, Burst: b.Burst})
		}
	}
	if o.Kernel.Slice == 0 {
		o.Kernel.Slice = quota.DefaultKernel.Slice
	}
	if o.Kernel.Tick == 0 {
		o.Kernel.Tick = quota.DefaultKernel.Tick
	}
	return predict.From(run, o)
}

// predictedPage is that of a run that was made for a prediction.
func predictedPage(run record.Run, _ kit.Attachments) report.Sheet {
	r, err := predicted(run)
	if err != nil {
		return report.Sheet{Answer: kit.Sentence(err.Error()), Parts: cpu.Demands(run)}
	}
	return report.Sheet{Answer: r.Answer(), Parts: append(r.Parts(), cpu.Demands(run)...)}
}

// predictedParts compare the prediction with the measurement; none where the run has
// no service without a quota.
func predictedParts(run record.Run) []report.Part {
	r, err := predicted(run)
	if nothing := new(predict.Nothing); errors.As(err, &nothing) {
		return nil
	}
	if err != nil {
		return []report.Part{report.Prose{Title: "Prediction", Text: "There is no prediction: " + err.Error() + "."}}
	}
	return r.Parts()
}
