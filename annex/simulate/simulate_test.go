package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tare/annex"
	"tare/annex/data"
	"tare/annex/predict"
	"tare/annex/synthetic"
	"tare/annex/trace"
)

var update = flag.Bool("update", false, "write the golden files anew")

const mebibyte = 1 << 20

func file(t testing.TB) Medium {
	t.Helper()
	m, err := Preset("file")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// box is a host at 2.2 times overcommit, in a quarter of the pages of the one on which the
// media were measured.
func box(t testing.TB, kind synthetic.Kind) (Host, synthetic.Mix) {
	return Host{Memory: 256 * mebibyte, Swap: 768 * mebibyte, Medium: file(t), Warm: 60 * time.Second},
		synthetic.Mix{Seed: 1, Duration: synthetic.Duration(120 * time.Second), Groups: []synthetic.Group{
			{Name: "critical", Kind: synthetic.Serving, Class: annex.Critical, Count: 1, Pages: 80 * mebibyte / annex.PageSize, Every: synthetic.Duration(time.Second / 300)},
			{Name: "idle", Kind: kind, Class: annex.Elastic, Count: 30, Pages: 16 * mebibyte / annex.PageSize, Every: synthetic.Duration(12 * time.Second)},
		}}
}

func run(t testing.TB, h Host, from trace.Source, p Policy) *Report {
	t.Helper()
	r, err := Run(context.Background(), h, from, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func made(t testing.TB, m synthetic.Mix) trace.Source {
	t.Helper()
	from, err := synthetic.Make(m)
	if err != nil {
		t.Fatal(err)
	}
	return from
}

// TestGolden holds the reports of all policies over all kinds to the byte: a change of
// data, predict or of the model shows here. go test -update has the file written anew.
func TestGolden(t *testing.T) {
	t.Parallel()
	path := filepath.Join("testdata", "reports.json")
	var got strings.Builder
	e := json.NewEncoder(&got)
	for _, kind := range []synthetic.Kind{synthetic.Poisson, synthetic.Drifting, synthetic.Forked} {
		h, m := box(t, kind)
		for _, p := range Policies(h.Memory) {
			if err := e.Encode(struct {
				Kind synthetic.Kind
				*Report
			}{kind, run(t, h, made(t, m), p)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got.String()); d != "" {
		t.Error(d)
	}
}

func TestAnnexHelpsPeriodicBursts(t *testing.T) {
	t.Parallel()
	h, m := box(t, synthetic.Periodic)
	by := map[string]*Report{}
	for _, p := range Policies(h.Memory) {
		by[p.Name] = run(t, h, made(t, m), p)
	}
	stock, protected, annex := by["stock"], by["protected"], by["annex"]
	if annex.Critical.P99 >= stock.Critical.P99 || annex.Critical.P99 > protected.Critical.P99 {
		t.Errorf("critical p99 %v, stock %v, protected %v", annex.Critical.P99, stock.Critical.P99, protected.Critical.P99)
	}
	if annex.Delays.P50*5 > protected.Delays.P50 {
		t.Errorf("bursts are delayed by %v, protected by %v", annex.Delays.P50, protected.Delays.P50)
	}
}

func TestWhatFitsHasNoFaults(t *testing.T) {
	t.Parallel()
	h, m := box(t, synthetic.Collected)
	h.Memory = m.Bytes() + m.Bytes()/8 // beside what headroom keeps
	for _, p := range Policies(h.Memory) {
		r := run(t, h, made(t, m), p)
		if r.Demand+r.Late+r.Minor+r.In+r.Out+r.Reclaims != 0 || r.Delays.Most != 0 {
			t.Errorf("%s: %+v", p.Name, r)
		}
	}
}

// script is a trace given event by event.
type script struct {
	header trace.Header
	events func() (trace.Event, bool)
}

func (s *script) Header() trace.Header { return s.header }
func (s *script) Next() (trace.Event, error) {
	e, ok := s.events()
	if !ok {
		return e, io.EOF
	}
	return e, nil
}

func oneContainer(class annex.Class) trace.Header {
	return trace.Header{PageSize: annex.PageSize, Containers: []trace.Container{{ID: "a", Class: class}}}
}

// TestMissesAreThoseOfChe compares the misses of a least-recently-used memory under
// independent references with the approximation of Che, Tung and Wang (2002): page i is in memory
// with probability 1-exp(-p_i T), where T makes these sum to the memory.
func TestMissesAreThoseOfChe(t *testing.T) {
	t.Parallel()
	const pages, held, requests = 2000, 500, 400_000
	weights, sum := make([]float64, pages), 0.0
	for i := range weights {
		weights[i] = 1 / math.Pow(float64(i+1), 0.8)
		sum += weights[i]
	}
	cumulative, at := make([]float64, pages), 0.0
	for i := range weights {
		weights[i] /= sum
		at += weights[i]
		cumulative[i] = at
	}
	present := func(T float64) (in, miss float64) {
		for _, p := range weights {
			absent := math.Exp(-p * T)
			in += 1 - absent
			miss += p * absent
		}
		return in, miss
	}
	low, high := 0.0, 1e7
	for range 100 {
		if in, _ := present((low + high) / 2); in < held {
			low = (low + high) / 2
		} else {
			high = (low + high) / 2
		}
	}
	_, want := present(low)

	random, n := uint64(1), -1
	from := &script{oneContainer(annex.Elastic), func() (trace.Event, bool) {
		n++
		random = random*6364136223846793005 + 1442695040888963407
		u := float64(random>>11) / (1 << 53)
		page := 0
		for l, r := 0, pages-1; l < r; {
			if mid := (l + r) / 2; cumulative[mid] < u {
				l = mid + 1
				page = l
			} else {
				r = mid
				page = r
			}
		}
		return trace.Event{Kind: trace.Requested, At: annex.Moment(n) * annex.Moment(time.Millisecond), CPU: time.Microsecond, Pages: []annex.Page{annex.Page(page)}}, n < requests
	}}
	// A batch leaves at a time, so that between none and one batch less one are free.
	r := run(t, Host{Memory: (held + reclaimBatch/2) * annex.PageSize, Swap: pages * 2 * annex.PageSize, Medium: file(t), Warm: 100 * time.Second}, from, Policy{})
	got := float64(r.Demand) / float64(r.Touches)
	if math.Abs(got-want) > 0.01 {
		t.Errorf("%.4f of the uses missed, %.4f by the approximation", got, want)
	}
}

// TestTheDeviceQueuesAsMD1 has containers fault at Poisson moments on a device that takes a
// constant time: the mean wait is that of Pollaczek and Khinchine, rho s / (2 (1 - rho)).
func TestTheDeviceQueuesAsMD1(t *testing.T) {
	t.Parallel()
	const rho, n = 0.7, 200_000
	medium := file(t)
	w := &world{host: Host{Medium: medium}}
	w.device.world = w
	service := micros(medium.Demand)
	random := uint64(7)
	var waited time.Duration
	var arrive func()
	served := 0
	arrive = func() {
		came := w.now
		w.device.do(job{begin: func() time.Duration { waited += w.now.Since(came); return service }, done: func() { served++ }}, true)
		random = random*6364136223846793005 + 1442695040888963407
		u := (float64(random>>11) + 0.5) / (1 << 53)
		w.at(w.now.After(time.Duration(-math.Log(u)*float64(service)/rho)), arrive)
	}
	arrive()
	for w.open = true; served < n; {
		w.step()
	}
	got, want := float64(waited)/n, rho*float64(service)/(2*(1-rho))
	if math.Abs(got/want-1) > 0.03 {
		t.Errorf("waited %.1f us in the mean, by the formula %.1f us", got/1000, want/1000)
	}
}

// oracle knows when its container wakes next, and that it touches all its pages.
type oracle struct {
	data.Predictor
	wakes []annex.Moment
	run   annex.Run
}

func (o *oracle) Next(now annex.Moment) (predict.Forecast, bool) {
	for _, at := range o.wakes {
		if at > now {
			return predict.Forecast{Earliest: at, Likely: at, Latest: at}, true
		}
	}
	return predict.Forecast{}, false
}
func (o *oracle) Pages() []predict.Ranked { return []predict.Ranked{{Run: o.run, Certain: true}} }

// What is left is of an activation for which data finds no room: whoever could make it has
// just been fetched itself.
func TestAnOracleHasHardlyAnyDemandFaults(t *testing.T) {
	t.Parallel()
	const pages = 2048
	m := synthetic.Mix{Seed: 5, Duration: synthetic.Duration(200 * time.Second), Groups: []synthetic.Group{
		{Name: "idle", Kind: synthetic.Periodic, Class: annex.Elastic, Count: 6, Pages: pages, Working: 1, PageTime: synthetic.Duration(20 * time.Microsecond), Every: synthetic.Duration(30 * time.Second)}}}
	wakes := map[int][]annex.Moment{}
	first := annex.Moment(-1)
	for from := made(t, m); ; {
		e, err := from.Next()
		if err != nil {
			break
		}
		if first < 0 {
			first = e.At
		}
		e.At += origin - first
		if e.Kind == trace.Woke {
			wakes[e.Container] = append(wakes[e.Container], e.At)
		}
	}
	h := Host{Memory: 5 * pages * annex.PageSize, Swap: 100 * mebibyte, Medium: file(t), Warm: 60 * time.Second}
	started := -1
	order := startOrder(t, m)
	p := Policy{Name: "oracle", Kernel: Kernel{Protected: true}, Manage: func() Manager {
		return data.New(data.Policy{Headroom: data.Headroom{Low: h.Memory / 16}, Predictor: func() data.Predictor {
			started++
			i := order[started]
			return &oracle{predict.New(predict.Options{}), wakes[i], annex.Run{Space: annex.Space{PID: int32(i + 1), Started: 1}, First: 1 << 20, Pages: pages}}
		}})
	}}
	r := run(t, h, made(t, m), p)
	stock := run(t, h, made(t, m), Policies(h.Memory)[0])
	if stock.Demand < 1000 {
		t.Fatalf("stock has %d demand faults: nothing is tried", stock.Demand)
	}
	if 50*(r.Demand+r.Late) > stock.Demand {
		t.Errorf("%d demand faults, %d late ones; stock has %d", r.Demand, r.Late, stock.Demand)
	}
}

// startOrder is the order in which containers start, in which a manager is told of them.
func startOrder(t *testing.T, m synthetic.Mix) (order []int) {
	for from := made(t, m); ; {
		e, err := from.Next()
		if err != nil {
			return order
		}
		if e.Kind == trace.Started {
			order = append(order, e.Container)
		}
	}
}

func TestFullIsSaid(t *testing.T) {
	h, m := box(t, synthetic.Periodic)
	h.Swap = 10 * mebibyte
	for _, p := range Policies(h.Memory) {
		_, err := Run(context.Background(), h, made(t, m), p)
		var full *Full
		if !errors.As(err, &full) || !full.Swap {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

func TestSharedPagesDoNotLeaveByRequest(t *testing.T) {
	h, m := box(t, synthetic.Forked)
	w := newWorld(h.withDefaults(), made(t, m), Policies(h.Memory)[3])
	for w.err == nil && w.step() {
	}
	if w.err != nil {
		t.Fatal(w.err)
	}
	n := 0
	for i := range w.memory.pages {
		if w.memory.pages[i].flags&shared != 0 {
			n++
		}
	}
	if want := 30 * m.Groups[1].Pages / 2; n != want {
		t.Errorf("%d pages are shared, want %d", n, want)
	}
}

// TestTheBooksBalance checks the books at the end: what is in memory is what is counted.
func TestTheBooksBalance(t *testing.T) {
	t.Parallel()
	for _, kind := range []synthetic.Kind{synthetic.Heavy, synthetic.Scanning, synthetic.Collected, synthetic.Probed} {
		h, m := box(t, kind)
		m.Duration /= 4
		for _, p := range Policies(h.Memory) {
			w := newWorld(h.withDefaults(), made(t, m), p)
			for w.err == nil && w.step() {
			}
			in, out := 0, 0
			for _, pg := range w.memory.pages[2:] {
				if pg.flags&resident != 0 {
					in++
				} else if pg.place == none && pg.flags != 0 {
					t.Fatalf("%s, %s: page %d is nowhere", kind, p.Name, pg.number)
				}
				if pg.place != none {
					out++
				}
			}
			if in != w.memory.used || out != w.memory.taken || in > w.memory.limit {
				t.Errorf("%s, %s: %d pages in memory of %d counted and %d there are; %d in swap of %d counted", kind, p.Name, in, w.memory.used, w.memory.limit, out, w.memory.taken)
			}
		}
	}
}

// FuzzParseMedium: a medium that is read has passed its check.
func FuzzParseMedium(f *testing.F) {
	f.Add(`{"name":"nvme","demand_us":90,"minor_us":1,"contiguous_us":1,"short_us":4,"scattered_us":12,"write_us":3}`)
	f.Add(`{"demand_us":1e400}`)
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := ParseMedium(strings.NewReader(text)); err == nil && m.Check() != nil {
			t.Errorf("%q is read as %+v", text, m)
		}
	})
}
