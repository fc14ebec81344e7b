package density

import (
	"reflect"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/lab/labtest"
	"tare/platform"
	"tare/record"
)

// latencies gives a histogram of microseconds.
func latencies(values ...int64) *hdrhistogram.Histogram {
	h := hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 3)
	for _, v := range values {
		_ = h.RecordValue(v)
	}
	return h
}

func TestStepsComeBack(t *testing.T) {
	steps := []Step{
		{
			Neighbours: 1, Overcommit: 0.5, Asked: 1 << 40, Elapsed: 3 * time.Second, SwapIn: 7, Pool: 9,
			Open:    Served{Rate: 299.5, Requests: 3000, Failed: 1, Latency: latencies(100, 2000, 30000)},
			Closed:  Served{Rate: 1e4, Requests: 5, Latency: latencies(1)},
			Classes: map[platform.Class]ClassAccounts{platform.Critical: {Resident: 5, Some: time.Millisecond}, platform.Idle: {Swapped: 1 << 33}},
		},
		{Neighbours: 3, Overcommit: 1.5, Stop: "it thrashes", Absent: map[string]string{"device_read_bytes": "no device"}},
	}
	bench := labtest.NewBench(nil)
	if err := keep(bench, steps); err != nil {
		t.Fatal(err)
	}
	trial := record.Trial{ID: 4, Covariates: bench.Covariates, Histograms: map[string]record.Histogram{}}
	for name, h := range bench.Histograms {
		text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			t.Fatal(err)
		}
		trial.Histograms[name] = record.Histogram(text)
	}
	trial.Covariates["launch_s"] = 3 // of the lab
	back, err := stepsOf(trial)
	if err != nil {
		t.Fatal(err)
	}
	if len(back) != 2 || back[1].Stop != stoppedText || back[0].Stop != "" {
		t.Fatalf("%+v", back)
	}
	if got := back[0].Open.Latency; got.TotalCount() != 3 || got.ValueAtQuantile(50) != latencies(2000).Max() {
		t.Errorf("latencies came back as %d values, median %d", got.TotalCount(), got.ValueAtQuantile(50))
	}
	for i := range steps {
		for _, served := range steps[i].loads() {
			served.Latency = nil
		}
		for _, served := range back[i].loads() {
			served.Latency = nil
		}
	}
	steps[1].Stop, steps[1].Absent = stoppedText, nil // texts are the attachment's
	if !reflect.DeepEqual(back, steps) {
		t.Errorf("came back as\n%+v, want\n%+v", back, steps)
	}
	if a := bench.Attached[AttachmentSteps]; len(a.Data) == 0 {
		t.Error("the whole is not attached")
	}
	trial.Histograms["1/open"] = "what is none"
	if _, err := stepsOf(trial); err == nil {
		t.Error("a histogram that is none was read")
	}
}
