package causes

import (
	"math"
	"os"
	"strconv"
	"testing"
	"time"
)

// trip is the CPU time that a trip takes of two processes that send each other a byte:
// what others on the host do meanwhile is not in it, and what the kernel does within
// their switches and wakings is.
func trip(t testing.TB, o *Options, path string, trips int, cpus [2]int, work int) time.Duration {
	t.Helper()
	p := start(t, path, "trips", strconv.Itoa(trips), strconv.Itoa(cpus[0]), strconv.Itoa(cpus[1]), strconv.Itoa(work))
	if o != nil {
		w := watch(t, Target{PIDs: []int{p.Process.Pid}}, *o)
		defer func() { stop(t, w) }()
	}
	p.say(t)
	p.line(t)
	p.in.Close()
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	// The other process was waited for, so that its time is in here too.
	return (p.ProcessState.UserTime() + p.ProcessState.SystemTime()) / time.Duration(trips)
}

// BenchmarkWeight has trips with and without the probe in turns, and reports the ratio
// of their CPU times with its 95 % interval over the pairs (of logarithms, by the normal
// quantile: there are dozens), and the switches that a second of CPU time has:
//
//	TARE_PAIRS=40 go test -run none -bench Weight -benchtime 1x ./probe/causes
func BenchmarkWeight(b *testing.B) {
	path := loadProgram(b)
	pairs := 20
	if n, err := strconv.Atoi(os.Getenv("TARE_PAIRS")); err == nil && n > 1 {
		pairs = n
	}
	for _, c := range []struct {
		name  string
		cpus  [2]int
		trips int
		work  int
		o     Options
	}{
		{"one CPU", [2]int{0, 0}, 50_000, 0, Options{}},
		{"one CPU, computing in between", [2]int{0, 0}, 40_000, 2000, Options{}},
		{"one CPU, computing in between, sampled", [2]int{0, 0}, 40_000, 2000, Options{Accounting: true}},
		{"one CPU, computing in between, stacks", [2]int{0, 0}, 40_000, 2000, Options{Stacks: true}},
		{"two CPUs", [2]int{0, 1}, 10_000, 0, Options{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			if c.cpus[1] > 0 {
				needCPUs(b, 2)
			}
			for b.Loop() {
				var sum, squares, alone float64
				for range pairs {
					without, with := trip(b, nil, path, c.trips, c.cpus, c.work), trip(b, &c.o, path, c.trips, c.cpus, c.work)
					d := math.Log(float64(with) / float64(without))
					sum += d
					squares += d * d
					alone += float64(without)
				}
				n := float64(pairs)
				mean := sum / n
				half := 1.96 * math.Sqrt(max(0, squares/n-mean*mean)/(n-1))
				alone /= n
				b.ReportMetric(100*(math.Exp(mean)-1), "%weight")
				b.ReportMetric(100*(math.Exp(mean-half)-1), "%from")
				b.ReportMetric(100*(math.Exp(mean+half)-1), "%to")
				b.ReportMetric(2e9/alone, "switches/cpu-s")
			}
		})
	}
}
