package predict

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/load"
	"tare/model/quota"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/study/latency/service"
	"tare/workload"
)

const period = 10 * time.Millisecond

// made is a run whose measured figures are the model's own, another seed's, but
// for what a test changes: what must be said of it is known.
type made struct {
	t      *testing.T
	run    record.Run
	blocks int
}

func makeRun(t *testing.T) *made {
	return &made{t, record.Run{ID: "latency-1", Study: service.Study, Status: record.Complete, Seed: 1, Plan: record.Plan{Level: 0.95, SmallestEffect: 0.02}}, 3}
}

// offered is what the made conditions' parameters say.
func offered(c record.Condition) (workload.Offered, error) {
	if c.Params["rate"] == "closed" {
		return workload.Offered{Connections: 1}, nil
	}
	return workload.Offered{Rate: 2000, Arrival: load.Poisson, Connections: 4}, nil
}

func latencies(micros int64) *hdrhistogram.Histogram {
	h := load.NewHistogram()
	for i := range int64(2000) {
		_ = h.RecordValue(micros*95/100 + micros*i/20_000)
	}
	return h
}

// sweep adds a service: its condition without a quota, and others with one, whose
// latencies are times what the model says.
func (m *made) sweep(name, rate string, demand time.Duration, base int64, times float64, quotas ...time.Duration) {
	m.t.Helper()
	known := quota.Service{Demand: quota.Demand{Mean: demand}, Base: latencies(base)}
	o, _ := offered(record.Condition{Params: workload.Params{"rate": rate}})
	arrival := quota.Arrival{Rate: o.Rate, Poisson: o.Rate > 0, Connections: o.Connections}
	for i, q := range append([]time.Duration{0}, quotas...) {
		s := platform.Setting{CPUSet: "1"}
		if q > 0 {
			s.CPUs, s.CPUPeriod = float64(q)/float64(period), period
		}
		c := record.Condition{
			ID: fmt.Sprintf("%s@%v", name, q), Label: q.String(), Workload: name, Platform: "docker", Setting: s, Baseline: q == 0,
			Params: workload.Params{"rate": rate}, Factors: map[string]string{"experiment": "quota"}, Metrics: service.Metrics(),
		}
		if q > 0 {
			c.Factors["quota"] = q.String()
		}
		m.run.Conditions = append(m.run.Conditions, c)
		for block := 1; block <= m.blocks; block++ {
			p, err := quota.Predict(known, arrival, quota.Bandwidth{Quota: q, Period: period}, quota.Options{Requests: 20_000, Reruns: 1, Seed: uint64(1000*i + block)})
			if err != nil {
				m.t.Fatal(err)
			}
			h := p.Latency
			if q == 0 {
				h = latencies(base)
			} else if times != 1 {
				h = scaled(h, times)
			}
			encoded, err := record.EncodeHistogram(h)
			if err != nil {
				m.t.Fatal(err)
			}
			m.run.Trials = append(m.run.Trials, record.Trial{
				ID: int64(len(m.run.Trials) + 1), Condition: c.ID, Workload: name, Block: block, Attempt: 1,
				Samples: []record.Sample{
					{Metric: service.Demand, Value: float64(demand.Microseconds()) * (1 + 0.001*float64(block-2))}, {Metric: service.Mean, Value: h.Mean()},
					{Metric: service.Stalled, Value: p.Stalled.Value}, {Metric: service.ThrottledShare, Value: p.ThrottledPeriods.Value},
				},
				Histograms: map[string]record.Histogram{service.Latency: encoded},
				Covariates: map[string]float64{service.Requests: 20_000},
			})
		}
	}
}

func scaled(h *hdrhistogram.Histogram, times float64) *hdrhistogram.Histogram {
	to := load.NewHistogram()
	for _, bar := range h.Distribution() {
		_ = to.RecordValues(int64(float64(bar.To)*times), bar.Count)
	}
	return to
}

func (m *made) from(o Options) Result {
	m.t.Helper()
	if o.Offered == nil {
		o.Offered = offered
	}
	r, err := From(m.run, o)
	if err != nil {
		m.t.Fatal(err)
	}
	return r
}

var quotas = []time.Duration{1000 * time.Microsecond, 2000 * time.Microsecond, 3000 * time.Microsecond, 5000 * time.Microsecond, 7000 * time.Microsecond}

func TestEachServiceIsPredictedFromItsOwnCondition(t *testing.T) {
	m := makeRun(t)
	m.sweep("thrift[quota]", "closed", 100*time.Microsecond, 240, 1, quotas...)
	m.sweep("thrift[open]", "open", 100*time.Microsecond, 240, 1, quotas[1:]...)
	// Not where the quota is little more than a request's work: there the tail hangs
	// on the phases, of which three blocks have but three.
	m.sweep("httpd[quota]", "closed", 700*time.Microsecond, 1500, 1, quotas[1:]...)
	r := m.from(Options{})
	if len(r.Services) != 3 {
		t.Fatalf("%d services, want 3", len(r.Services))
	}
	for i, want := range []struct {
		name   string
		load   float64
		closed bool
	}{{"thrift[quota]", 100. / 240, true}, {"thrift[open]", 0.2, false}, {"httpd[quota]", 700. / 1500, true}} {
		s := r.Services[i]
		if s.Name != want.name || math.Abs(s.Load-want.load) > 0.01 || (s.Arrival.Rate == 0) != want.closed {
			t.Errorf("%s: load %.3f, %+v", s.Name, s.Load, s.Arrival)
		}
		if kept, of := s.Tally(); of < 2 || kept != of {
			for _, row := range s.Rows {
				t.Logf("%v %+v", row.Bandwidth, row.P99)
			}
			t.Errorf("%s: %d of %d kept what is promised, of a kernel that is the model", s.Name, kept, of)
		}
		e, ok := s.Edge(period)
		if !ok || !e.Kept() {
			t.Errorf("%s: the cliff is at %+v", s.Name, e)
		}
	}
	if text := r.Answer(); !strings.Contains(text, "thrift (open loop, 2000 requests/s, Poisson arrivals)") {
		t.Error(text)
	}
}

// What was measured with a quota must not reach the prediction.
func TestThePredictionHasNotSeenWhatItPredicts(t *testing.T) {
	one, other := makeRun(t), makeRun(t)
	one.sweep("thrift[quota]", "closed", 100*time.Microsecond, 240, 1, quotas...)
	other.sweep("thrift[quota]", "closed", 100*time.Microsecond, 240, 3, quotas...)
	a, b := one.from(Options{}).Services[0], other.from(Options{}).Services[0]
	for i := range a.Rows {
		if a.Rows[i].P99.Predicted != b.Rows[i].P99.Predicted {
			t.Errorf("%v: predicted %v, and %v where the measured ones differ", a.Rows[i].Bandwidth, a.Rows[i].P99.Predicted, b.Rows[i].P99.Predicted)
		}
		if a.Rows[i].P99.Measured.Value*2 > b.Rows[i].P99.Measured.Value {
			t.Errorf("%v: the measured ones do not differ", a.Rows[i].Bandwidth)
		}
	}
}

func TestAWrongPredictionIsSaidToBeWrong(t *testing.T) {
	m := makeRun(t)
	m.sweep("thrift[quota]", "closed", 100*time.Microsecond, 240, 3, quotas...)
	r := m.from(Options{})
	if kept, of := r.Services[0].Tally(); kept != 0 || of == 0 {
		t.Errorf("%d of %d kept, three times off", kept, of)
	}
	if text := words(r.Parts()); !strings.Contains(text, "wrong") || strings.Contains(text, "right\n") {
		t.Error(text)
	}
	if e, ok := r.Services[0].Edge(period); !ok || e.Kept() || e.Measured != len(e.Quotas) {
		t.Errorf("the cliff is at %+v", e)
	}
}

// words are a table's cells, a line each.
func words(parts []report.Part) string {
	var b strings.Builder
	for _, part := range parts {
		if t, ok := part.(report.Table); ok {
			for _, row := range t.Rows {
				for _, cell := range row {
					fmt.Fprintln(&b, cell.Text)
				}
			}
		}
	}
	return b.String()
}

func TestWhatIsAskedIsPredictedWithoutMeasurement(t *testing.T) {
	m := makeRun(t)
	m.sweep("thrift[quota]", "closed", 100*time.Microsecond, 240, 1)
	asked := quota.Bandwidth{Quota: 2 * time.Millisecond, Period: period}
	r := m.from(Options{Asked: []quota.Bandwidth{asked}, Wanted: time.Millisecond})
	s := r.Services[0]
	if len(s.Rows) != 1 || s.Rows[0].Bandwidth != asked || s.Rows[0].Found || s.Rows[0].P99.Known() {
		t.Fatalf("%+v", s.Rows)
	}
	if len(s.Smallest) != 2 || s.Smallest[0].None != nil || s.Smallest[0].Quota < 3*time.Millisecond {
		t.Errorf("%+v", s.Smallest)
	}
	if text := r.Answer(); !strings.Contains(text, "should keep the p99 of thrift (closed loop)") {
		t.Error(text)
	}
	for _, part := range r.Parts() {
		if table, ok := part.(report.Table); ok {
			for _, row := range table.Rows {
				if len(row) != len(table.Columns) {
					t.Errorf("%s: %d cells of %d columns", table.Title, len(row), len(table.Columns))
				}
			}
		}
	}
	// What no quota can keep.
	r = m.from(Options{Wanted: 100 * time.Microsecond})
	if text := r.Answer(); !strings.Contains(text, "no quota keeps a p99 of 100µs") {
		t.Error(text)
	}
}

func TestAConditionThatDiffersOtherwiseIsNoSibling(t *testing.T) {
	m := makeRun(t)
	m.sweep("thrift[quota]", "closed", 100*time.Microsecond, 240, 1, quotas[0], quotas[1], quotas[3])
	m.run.Conditions[1].Setting.Network = platform.NetworkBridge
	m.run.Conditions[2].Factors["experiment"] = "neighbour"
	s := m.from(Options{}).Services[0]
	if len(s.Rows) != 1 || s.Rows[0].Bandwidth.Quota != quotas[3] {
		t.Errorf("%d rows: %+v", len(s.Rows), s.Rows)
	}
}

func TestNothingToPredictFrom(t *testing.T) {
	m := makeRun(t)
	m.sweep("thrift[shares]", "closed", 100*time.Microsecond, 240, 1)
	var nothing *Nothing
	for name, run := range map[string]record.Run{"empty": {}, "no quota and nothing asked": m.run} {
		if _, err := From(run, Options{Offered: offered}); !errors.As(err, &nothing) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHostKernel(t *testing.T) {
	plant := func(name string, data []byte) string {
		root := t.TempDir()
		for file, data := range map[string][]byte{name: data, "proc/sys/kernel/osrelease": []byte("6.1.0-9\n"), "proc/sys/kernel/sched_cfs_bandwidth_slice_us": []byte("3000\n")} {
			path := filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return root
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	fmt.Fprintln(w, "CONFIG_HZ=1000")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := quota.Kernel{Tick: time.Millisecond, Slice: 3 * time.Millisecond}
	for name, root := range map[string]string{
		"the kernel's own": plant("proc/config.gz", packed.Bytes()),
		"beside it":        plant("boot/config-6.1.0-9", []byte("CONFIG_HZ=1000\n")),
	} {
		if k, notes := HostKernel(root); k != want || len(notes) > 0 {
			t.Errorf("%s: %+v, %v", name, k, notes)
		}
	}
	for name, root := range map[string]string{"nothing": t.TempDir(), "damaged": plant("proc/config.gz", []byte("?"))} {
		if k, notes := HostKernel(root); k.Tick != quota.DefaultKernel.Tick || len(notes) == 0 {
			t.Errorf("%s: %+v, %v", name, k, notes)
		}
	}
}
