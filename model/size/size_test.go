package size

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"tare/stats"
)

// points of a platform that costs platform at the whole host, and size for each unit
// of g, without scatter.
func points(g Form, platform, size float64, cpus ...float64) []Point {
	var all []Point
	for _, n := range cpus {
		p := Point{Workload: "video", CPUs: n, HostCPUs: 112, Tasks: 16, SE: 0.01, N: 20}
		p.Log = platform + size*g.At(p.CHR())
		all = append(all, p)
	}
	return all
}

func holds(e stats.Estimate, v float64) bool { return e.Interval.Low <= v && v <= e.Interval.High }

func TestFitSeparatesTypeFromSize(t *testing.T) {
	for _, g := range Forms {
		all := points(g, 0.2, 0.1, 2, 4, 8, 16, 32, 64, 112)
		f, err := Fit(all, Options{Form: g})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(f.Platform.Value-0.2) > 1e-9 || math.Abs(f.Size.Value-0.1) > 1e-9 || !(f.Size.Interval.Low > 0) {
			t.Errorf("%s: platform %+v and size %+v, want 0.2 and 0.1", g, f.Platform, f.Size)
		}
		share, err := LeastShare(f, 0.1)
		if want := g.share(math.Log(1.1) / 0.1); err != nil || math.Abs(share.Value-want) > 1e-9 {
			t.Errorf("%s: least share %+v, %v; want %v", g, share, err, want)
		}
		if c, err := Compare(all, Options{Form: g}); err != nil || !(c.Slope.Interval.Low > 0) {
			t.Errorf("%s: %+v, %v: want a cost that shrinks with the share", g, c.Slope, err)
		}
	}
}

// A factor that is the same at every size is the platform's alone.
func TestFactorMovesPlatformAlone(t *testing.T) {
	all := points(Logarithmic, 0.1, 0.05, 2, 4, 8, 16, 112)
	all[1].Log += 0.02
	one, err := Fit(all, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i].Log += math.Log(3)
	}
	three, err := Fit(all, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(three.Platform.Value-one.Platform.Value-math.Log(3)) > 1e-9 || math.Abs(three.Size.Value-one.Size.Value) > 1e-9 || one.Form != three.Form {
		t.Errorf("platform %v and %v, size %v and %v", one.Platform.Value, three.Platform.Value, one.Size.Value, three.Size.Value)
	}
}

func TestTooFewSizes(t *testing.T) {
	f, err := Fit(points(Logarithmic, 0.1, 0, 1, 56, 112), Options{})
	var not *NotIdentifiable
	if err != nil || !errors.As(f.Identifiable(Size), &not) || not.Have != 3 || not.Need != 4 || f.Size.Known() {
		t.Errorf("three sizes: %v, %v", err, f.Identifiable(Size))
	}
	if math.Abs(f.Platform.Value-0.1) > 1e-9 {
		t.Errorf("three sizes that agree: platform %+v, want 0.1", f.Platform)
	}
	if _, err := Fit(points(Logarithmic, 0.1, 0.2, 1, 56, 112), Options{}); !errors.As(err, &not) || not.Term != Platform {
		t.Errorf("three sizes that do not agree: %v", err)
	}
	if _, err := f.Predict(Point{Workload: "video", CPUs: 4, HostCPUs: 112, Tasks: 16}); !errors.As(err, &not) {
		t.Errorf("prediction without a size term: %v", err)
	}
	// A cost of size, and no size near the whole host.
	f, err = Fit(points(Logarithmic, 0.1, 0.2, 2, 4, 8, 16), Options{})
	if err != nil || !errors.As(f.Identifiable(Platform), &not) || f.Platform.Known() || !f.Size.Known() {
		t.Errorf("no size near the host's: %v, %v", err, f.Identifiable(Platform))
	}
}

func TestPredictRefuses(t *testing.T) {
	f, err := Fit(points(Reciprocal, 0.1, 0.01, 2, 4, 8, 16, 112), Options{})
	if err != nil {
		t.Fatal(err)
	}
	at := Point{Workload: "video", CPUs: 6, HostCPUs: 112, Tasks: 16}
	if e, err := f.Predict(at); err != nil || !holds(e, 0.1+0.01*Reciprocal.At(at.CHR())) {
		t.Errorf("between the sizes: %+v, %v", e, err)
	}
	at.CPUs = 0.5
	var far *OutOfReach
	if _, err := f.Predict(at); !errors.As(err, &far) {
		t.Errorf("a quarter of the least size: %v", err)
	}
	at.Workload, at.CPUs = "web", 8
	var unknown *UnknownWorkload
	if _, err := f.Predict(at); !errors.As(err, &unknown) {
		t.Errorf("another workload: %v", err)
	}
}

func TestPooledWorkloads(t *testing.T) {
	var all []Point
	for i, w := range []struct {
		name             string
		intensity, tasks float64
	}{{"video", 0, 1}, {"clips", 0, 512}, {"web", 2, 1}, {"database", 4, 512}} {
		for _, p := range points(Logarithmic, 0.1*float64(i), 0, 2, 8, 32, 112) {
			p.Workload, p.Intensity, p.Tasks = w.name, w.intensity, w.tasks
			p.Log += Logarithmic.At(p.CHR()) * (0.02 + 0.03*p.Intensity + 0.01*p.crowding())
			all = append(all, p)
		}
	}
	f, err := Fit(all, Options{Form: Logarithmic})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ have, want float64 }{
		"size": {f.Size.Value, 0.02}, "io": {f.IO.Value, 0.03}, "tasks": {f.Tasks.Value, 0.01},
		"platform": {f.Platform.Value, 0.15}, "database": {f.Workloads["database"].Value, 0.3},
	} {
		if math.Abs(c.have-c.want) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, c.have, c.want)
		}
	}
}

// The intervals hold what they claim, with few sizes and few blocks, with scatter
// between sizes and without; and of no cost of size they claim one seldom enough.
func TestCoverage(t *testing.T) {
	const runs, spread = 300, 0.03
	for _, sizes := range [][]float64{{2, 8, 32, 112}, {1, 2, 4, 8, 16, 32, 64, 112}} {
		for _, blocks := range []int{3, 20} {
			for _, between := range []float64{0, 1, 3} {
				random := rand.New(rand.NewPCG(1, 2))
				tau := between * spread / math.Sqrt(float64(blocks))
				var platform, size, predicted, found int
				for range runs {
					var all, none []Point
					for _, n := range sizes {
						p := Point{CPUs: n, HostCPUs: 112, Tasks: 1}
						off := tau * random.NormFloat64()
						p = drawn(random, p, 0.1+0.05*Logarithmic.At(p.CHR())+off, spread, blocks)
						all = append(all, p)
						p.Log -= 0.05 * Logarithmic.At(p.CHR())
						none = append(none, p)
					}
					f, err := Fit(all, Options{Form: Logarithmic})
					if err != nil {
						t.Fatal(err)
					}
					without, err := Fit(none, Options{Form: Logarithmic})
					if err != nil {
						t.Fatal(err)
					}
					q := Point{CPUs: 6, HostCPUs: 112, Tasks: 1}
					e, err := f.Predict(q)
					if err != nil {
						t.Fatal(err)
					}
					for to, held := range map[*int]bool{&platform: holds(f.Platform, 0.1), &size: holds(f.Size, 0.05), &found: !holds(without.Size, 0), &predicted: holds(e, 0.1+0.05*Logarithmic.At(q.CHR())+tau*random.NormFloat64())} {
						if held {
							*to++
						}
					}
				}
				for what, n := range map[string]int{"platform": platform, "size": size, "prediction": predicted, "no size": runs - found} {
					// Three standard errors below 94 %.
					if float64(n) < runs*0.94-3*math.Sqrt(runs*0.94*0.06) {
						t.Errorf("%d sizes, %d blocks, %g errors between: %s held in %d of %d", len(sizes), blocks, between, what, n, runs)
					}
				}
			}
		}
	}
}

func FuzzFit(f *testing.F) {
	f.Add([]byte{}, 0.95)
	seed := make([]byte, 0, 5*48)
	for i := range 5 {
		for _, v := range []float64{float64(int(2) << i), 112, 0.1, 16, 0.2, 0.01} {
			seed = binary.LittleEndian.AppendUint64(seed, math.Float64bits(v))
		}
	}
	f.Add(seed, 0.95)
	f.Fuzz(func(t *testing.T, raw []byte, level float64) {
		var all []Point
		next := func() float64 {
			v := math.Float64frombits(binary.LittleEndian.Uint64(raw))
			raw = raw[8:]
			return v
		}
		for len(raw) >= 48 && len(all) < 12 {
			all = append(all, Point{CPUs: next(), HostCPUs: int(next()), Intensity: next(), Tasks: next(), Log: next(), SE: next(), N: 5})
		}
		fitted, err := Fit(all, Options{Level: level})
		if err != nil {
			return
		}
		for _, c := range []struct {
			term Term
			e    stats.Estimate
		}{{Platform, fitted.Platform}, {Size, fitted.Size}, {IO, fitted.IO}, {Tasks, fitted.Tasks}} {
			if fitted.Identifiable(c.term) == nil && !c.e.Known() && len(c.e.Warnings) == 0 {
				t.Errorf("%s is identifiable and %+v", c.term, c.e)
			}
		}
	})
}
