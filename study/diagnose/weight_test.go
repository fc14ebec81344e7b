package diagnose

import (
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"tare/stats"
)

// batch is how many requests one printed line of [serve] is of.
const batch = 1000

// serve sends requests one after another to a service of a process of its own, over TCP, and prints how
// long each batch took. Both work for some microseconds a request, and block in between, as a database
// under a closed load does.
func serve() {
	fmt.Fprintln(os.Stderr, serving())
	os.Exit(1)
}

func serving() error {
	if os.Getenv(servedVariable) != "" {
		l, err := net.FileListener(os.NewFile(3, "listener"))
		if err != nil {
			return err
		}
		c, err := l.Accept()
		if err != nil {
			return err
		}
		return reply(c)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	service := exec.Command("/proc/self/exe")
	service.Env, service.ExtraFiles = append(os.Environ(), servedVariable+"=1"), []*os.File{f}
	if err := service.Start(); err != nil {
		return err
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	for request := make([]byte, 64); ; {
		began := time.Now()
		for range batch {
			if _, err := c.Write(request); err != nil {
				return err
			}
			if _, err := io.ReadFull(c, request); err != nil {
				return err
			}
		}
		fmt.Println(time.Since(began).Nanoseconds())
	}
}

// servedVariable is set for the service's process.
const servedVariable = "TARE_TEST_DIAGNOSE_SERVED"

func reply(c net.Conn) error {
	for request, sum := make([]byte, 64), uint64(1); ; {
		if _, err := io.ReadFull(c, request); err != nil {
			return err
		}
		for n := range uint64(10_000) {
			sum = sum*31 + n
		}
		request[0] = byte(sum)
		if _, err := c.Write(request); err != nil {
			return err
		}
	}
}

// BenchmarkWeight has a program on one CPU, which is diagnosed and is not in turns. It reports by how much
// its CPU time a request, and its time a request, are longer meanwhile, in percent with 95 % intervals over
// the pairs. A fifth of the time of diagnose reads counters alone:
//
//	TARE_PAIRS=20 go test -run none -bench Weight -benchtime 1x ./study/diagnose
func BenchmarkWeight(b *testing.B) {
	pairs := 10
	if text := os.Getenv("TARE_PAIRS"); text != "" {
		var err error
		if pairs, err = strconv.Atoi(text); err != nil || pairs < 2 {
			b.Fatalf("TARE_PAIRS=%s: want 2 or more", text)
		}
	}
	const span = 10 * time.Second // as by default
	p := &planted{name: "serving", program: "serve"}
	p.limits.CPUs = "0"
	all := plant(b, p)
	// figures are the CPU time and the time of a request, in seconds, while a function runs.
	figures := func(during func()) (cpu, took float64) {
		p.mu.Lock()
		p.took = nil
		p.mu.Unlock()
		before, err := p.group.CPUUse()
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		during()
		span := time.Since(began)
		after, err := p.group.CPUUse()
		if err != nil {
			b.Fatal(err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.took) == 0 {
			b.Fatal("no request was answered")
		}
		for _, of := range p.took {
			took += of.Seconds() / batch / float64(len(p.took))
		}
		return (after.CPU - before.CPU).Seconds() / (span.Seconds() / took), took
	}
	for b.Loop() {
		var logsOfCPU, logsOfTime []float64
		requests := 0.
		for n := range pairs {
			var cpu, took, watchedCPU, watchedTook float64
			both := []func(){
				func() { cpu, took = figures(func() { time.Sleep(span) }) },
				func() { watchedCPU, watchedTook = figures(func() { watched(b, all, span) }) },
			}
			both[n%2]()
			both[1-n%2]()
			logsOfCPU, logsOfTime = append(logsOfCPU, math.Log(watchedCPU/cpu)), append(logsOfTime, math.Log(watchedTook/took))
			requests += 1 / took / float64(pairs)
		}
		for unit, values := range map[string][]float64{"cpu": logsOfCPU, "time": logsOfTime} {
			e := stats.Mean(values, 0.95, 1)
			b.ReportMetric(100*(math.Exp(e.Value)-1), "%"+unit)
			b.ReportMetric(100*(math.Exp(e.Interval.Low)-1), "%"+unit+"-from")
			b.ReportMetric(100*(math.Exp(e.Interval.High)-1), "%"+unit+"-to")
		}
		b.ReportMetric(requests, "requests/s")
	}
}
