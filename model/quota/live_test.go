package quota

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/kernel/accounting"
	"tare/kernel/cgroup"
)

// stage is where a real service and its client stand, each on a CPU of its own.
type stage struct {
	program string
	layout  cgroup.Group
	loops   int
	kernel  Kernel
	n       int // of the groups made
}

// mostShares is the kernel's greatest weight.
const mostShares = 262144

func newStage(t *testing.T, demand time.Duration) *stage {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("control groups take root")
	}
	if runtime.NumCPU() < 2 {
		t.Skip("service and client take a CPU each, and this host has one")
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler: apt-get install gcc libc6-dev")
	}
	program := filepath.Join(t.TempDir(), "service")
	if out, err := exec.Command(cc, "-O1", "-pthread", "-o", program, "testdata/service.c", "-lm").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := exec.LookPath("chrt"); err != nil {
		t.Skip("no chrt: apt-get install util-linux")
	}
	l, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	// Only where the test needs a say.
	var g cgroup.Group
	for _, p := range l.At(fmt.Sprintf("/tare-quota-%d", os.Getpid())).Places {
		if p.Has("cpu") || p.Has("cpuset") || p.Has("cpuacct") {
			g.Places = append(g.Places, p)
		}
	}
	// Others' work on the same CPUs waits, as far as weights can have it.
	s := &stage{program: program, layout: g, kernel: hostKernel(t)}
	s.group(t, g, cgroup.Limits{Shares: mostShares})
	for _, controller := range []string{"cpu", "cpuset"} {
		if _, ok := g.For(controller); !ok {
			t.Skipf("no control group hierarchy carries the %s controller", controller)
		}
	}
	// Two points, for a request has work besides its turns.
	const few, many = 1000, 100_000
	s.loops = few
	least := s.measure(t, Bandwidth{}, Arrival{}, 2000).demand
	s.loops = many
	most := s.measure(t, Bandwidth{}, Arrival{}, 2000).demand
	s.loops = max(few+int(float64(many-few)*float64(demand-least)/float64(most-least)), 1)
	return s
}

// hostKernel reads what it can, as a caller of this package does.
func hostKernel(t *testing.T) Kernel {
	k := DefaultKernel
	if b, err := os.ReadFile("/proc/sys/kernel/sched_cfs_bandwidth_slice_us"); err == nil {
		if micros, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			k.Slice = time.Duration(micros) * time.Microsecond
		}
	}
	if out, err := exec.Command("zcat", "/proc/config.gz").Output(); err == nil {
		if tick, err := ParseTick(bytes.NewReader(out)); err == nil {
			k.Tick = tick
		}
	}
	return k
}

// measured is what the kernel made of a load.
type measured struct {
	latency    *hdrhistogram.Histogram
	demand     time.Duration
	use        cgroup.Use
	elapsed    time.Duration
	throughput float64
	foreign    float64 // share of the host's time that others took
}

func (m measured) throttled() float64 {
	return 100 * float64(m.use.Throttled) / math.Max(float64(m.use.Periods), 1)
}

// measure loads the service once, in groups of its own.
func (s *stage) measure(t *testing.T, b Bandwidth, a Arrival, requests int) measured {
	t.Helper()
	s.n++
	service := s.group(t, s.layout.Child(fmt.Sprintf("service-%d", s.n)), cgroup.Limits{CPUs: "1", Shares: mostShares, Bandwidth: cgroup.Bandwidth(b)})
	// The client is held to its CPU alone, so that it may be of the real-time
	// class: what is late there would be taken for the service's.
	var alone cgroup.Group
	if p, ok := s.layout.For("cpuset"); ok {
		alone.Places = append(alone.Places, p)
	}
	client := s.group(t, alone.Child(fmt.Sprintf("client-%d", s.n)), cgroup.Limits{CPUs: "0"})
	tasks := max(a.Connections, 1)
	interval, seed := 0., 0
	if a.Rate > 0 {
		interval = 1e9 / a.Rate
		if a.Poisson {
			seed = s.n
		}
	}
	serve := exec.Command(s.program, "serve", strconv.Itoa(tasks), strconv.Itoa(s.loops))
	// The client waits for a byte that this test sends, so that both are in their
	// groups before the first request. Its tasks have its class.
	each := requests / tasks
	ask := exec.Command("sh", "-c", `read go && exec chrt -f 10 "$@"`, "sh", s.program, "ask", strconv.Itoa(tasks),
		strconv.Itoa(each), strconv.FormatFloat(interval, 'f', 0, 64), strconv.Itoa(seed))
	begin := pipe(t)
	var took bytes.Buffer
	ask.Stdin, ask.Stderr = begin[0], &took
	passed := []*os.File{begin[0]}
	for range tasks {
		requestsOut, answersIn := pipe(t), pipe(t)
		serve.ExtraFiles = append(serve.ExtraFiles, requestsOut[0], answersIn[1])
		ask.ExtraFiles = append(ask.ExtraFiles, answersIn[0], requestsOut[1])
		passed = append(passed, requestsOut[0], requestsOut[1], answersIn[0], answersIn[1])
	}
	start(t, serve, service)
	start(t, ask, client)
	for _, f := range passed {
		f.Close()
	}
	before, err := accounting.Take("/proc")
	if err != nil {
		t.Fatal(err)
	}
	use, err := service.Use()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := begin[1].WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	if err := ask.Wait(); err != nil {
		t.Fatalf("client: %v", err)
	}
	m := measured{elapsed: time.Since(began)}
	after, err := service.Use()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Wait(); err != nil {
		t.Fatalf("service: %v", err)
	}
	if now, err := accounting.Take("/proc"); err == nil {
		iv := accounting.Between(before, now, os.Getpid(), nil)
		m.foreign = iv.Foreign + iv.Steal
	}
	m.use = cgroup.Use{CPU: after.CPU - use.CPU, Periods: after.Periods - use.Periods, Throttled: after.Throttled - use.Throttled, ThrottledTime: after.ThrottledTime - use.ThrottledTime}
	requests = each * tasks
	m.demand = m.use.CPU / time.Duration(requests)
	m.latency = newHistogram()
	for scan := bufio.NewScanner(&took); scan.Scan(); {
		nanos, err := strconv.ParseInt(scan.Text(), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.latency.RecordValue((nanos + 500) / 1000); err != nil {
			t.Fatal(err)
		}
	}
	m.throughput = float64(requests) / m.elapsed.Seconds()
	return m
}

func pipe(t *testing.T) [2]*os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return [2]*os.File{r, w}
}

// group makes a group that is gone with the test.
func (s *stage) group(t *testing.T, g cgroup.Group, l cgroup.Limits) cgroup.Group {
	t.Helper()
	t.Cleanup(func() {
		if err := g.Kill(context.Background()); err != nil {
			t.Error(err)
		}
		if err := g.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := g.Create("cpu", "cpuset"); err != nil {
		t.Skipf("no control group can be made: %v", err)
	}
	if err := g.Apply(l); err != nil {
		t.Fatal(err)
	}
	return g
}

// start starts a command and puts it into a group. It waits for its pipe there.
func start(t *testing.T, cmd *exec.Cmd, g cgroup.Group) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, file := range g.ProcessFiles() {
		if err := os.WriteFile(file, []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// known is the service as a caller knows it: a task for each connection.
func (m measured) known() Service {
	return Service{Demand: Demand{Mean: m.demand}, Base: m.latency, CPUs: 1}
}

// TestThePredictionIsWhatTheKernelDoes compares the model with the kernel of this
// host: closed loop and open, below the demand and above it. The bounds are those
// that tare promises; around the demand itself, where the smallest change of either
// decides, nothing is promised. What else runs on the host moves a measured p99 away
// from any prediction, and no other program moves it there, so that one agreement
// among the steady tries is asked for: a wrong model agrees in none.
func TestThePredictionIsWhatTheKernelDoes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute of a quiet host")
	}
	const (
		cliff  = 0.2
		noise  = 0.1 // of the host's CPU time, by others
		wanted = 3
		tries  = 5
		length = 600 * time.Millisecond
	)
	for _, demand := range []time.Duration{100 * time.Microsecond, 400 * time.Microsecond} {
		s := newStage(t, demand)
		for _, c := range []struct {
			name    string
			arrival Arrival
			period  time.Duration
			shares  []float64 // quota over period, as multiples of the demand's
		}{
			{"closed", Arrival{}, 10 * time.Millisecond, []float64{0.3, 0.6, 1.5}},
			{"closed, 16 tasks", Arrival{Connections: 16}, 20 * time.Millisecond, []float64{0.2, 0.35}},
			{"open", Arrival{Rate: 0.3 / demand.Seconds(), Poisson: true}, 10 * time.Millisecond, []float64{1.5}},
		} {
			for _, share := range c.shares {
				t.Run(fmt.Sprintf("%v/%s/%g of the demand", demand, c.name, share), func(t *testing.T) {
					var tried []string
					agreed := false
					for try := 0; try < tries && !agreed; try++ {
						rate := 1 / demand.Seconds() * 0.6
						if c.arrival.Rate > 0 {
							rate = c.arrival.Rate
						}
						requests := int(length.Seconds() * rate)
						base := s.measure(t, Bandwidth{}, c.arrival, requests)
						if base.foreign > noise {
							continue
						}
						load, err := Load(base.known(), c.arrival)
						if err != nil {
							t.Fatal(err)
						}
						b := Bandwidth{Quota: max(time.Duration(share*load*float64(c.period)).Round(time.Microsecond), MinQuota), Period: c.period}
						if of := float64(b.Quota) / float64(c.period) / load; math.Abs(of-1) < cliff {
							t.Skipf("a quota of %v is within the cliff", b.Quota)
						}
						m := s.measure(t, b, c.arrival, requests)
						// What is not steady without a quota cannot be predicted with one.
						again := s.measure(t, Bandwidth{}, c.arrival, requests)
						t.Logf("others used %.0f, %.0f and %.0f %% of the CPUs; p99 %d µs without a quota, %d µs with %v, %d µs without again", 100*base.foreign, 100*m.foreign, 100*again.foreign,
							base.latency.ValueAtQuantile(99), m.latency.ValueAtQuantile(99), b.Quota, again.latency.ValueAtQuantile(99))
						steady := near(float64(base.latency.ValueAtQuantile(99)), float64(again.latency.ValueAtQuantile(99)))
						if !steady || max(m.foreign, again.foreign) > noise {
							continue
						}
						p, err := Predict(base.known(), c.arrival, b, Options{Requests: requests, Kernel: s.kernel})
						if err != nil {
							t.Fatal(err)
						}
						found := float64(m.latency.ValueAtQuantile(99))
						agreed = near(p.P99.Value, found) && math.Abs(p.ThrottledPeriods.Value-m.throttled()) <= 15
						tried = append(tried, fmt.Sprintf("p99 predicted %.0f µs, found %.0f µs; throttled %.0f %% and %.0f %% of the periods", p.P99.Value, found, p.ThrottledPeriods.Value, m.throttled()))
						t.Log(tried[len(tried)-1])
					}
					if agreed {
						return
					}
					if len(tried) < wanted {
						t.Skipf("the service was not steady, or others used more than %.0f %% of the CPUs in all but %d of %d tries", 100*noise, len(tried), tries)
					}
					t.Errorf("no prediction is what the kernel did:\n%s", strings.Join(tried, "\n"))
				})
			}
		}
	}
}

// near reports whether a p99 in microseconds is as near to another as is promised.
func near(a, b float64) bool { return math.Abs(a-b) <= max(0.15*b, 200) }
