package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"tare/image"
)

// fio is S1's reader: random reads of a file that is mapped into memory. Its
// figures are those that fio prints itself.
type fio struct{ workloadOf[fioPlan] }

func (fio) Name() string    { return "fio" }
func (fio) Summary() string { return "random reads of a memory-mapped file" }
func (fio) Source() Source  { return Source{Recipe: "fio"} }
func (fio) dataInImage()    {}

// fio's engine maps a file as a whole up to this size, in MiB, and in windows above.
const mostFioData = 1024

// fioBlock is how much is read at once.
const fioBlock = 4096

type fioPlan struct {
	mebibytes, reads int64
	rate             int64 // reads per second; 0: unlimited
	seed             int64 // 0: drawn
	held             bool
}

func (plan fioPlan) parse(from *parameters) fioPlan {
	const there = image.FioData
	plan.mebibytes = from.whole("data", there, 1, mostFioData, fmt.Sprintf("MiB of the file, RANGE; "+
		"%d, as S1 had, is in an image of its own; another above %d is written in /data first, and comes from the disk",
		image.LargeData, there))
	plan.reads = from.whole("reads", 1_000_000, 1, 1e9,
		"of 4 KiB, 1 to 10^9; each block once in random order, then anew from a new mapping")
	plan.rate = from.wholeOr("rate", unlimited, 0, 1, 1e9, "reads per second, 1 to 10^9, such as the 200 of a disk "+
		"that S1's file came from; or unlimited: as fast as it goes")
	if seed := from.text("seed", "1", "of the order, 1 to 10^9; random: drawn anew by each fio"); seed != random {
		var ok bool
		if plan.seed, ok = wholeWithin(seed, 1, 1e9); !ok {
			from.refuse("seed", random+", or a whole number from 1 to 10^9")
		}
	}
	plan.held = from.until(untilExit, "exit: it ends with its reads; signal: it reads until it is stopped, to be watched")
	return plan
}

func (plan fioPlan) program() Program {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	// What is in the page cache stays there: no condition begins with another's.
	args := []string{"/usr/bin/fio", "--name=read", "--ioengine=mmap", "--rw=randread", "--bs=" + number(fioBlock),
		"--size=" + number(plan.mebibytes) + "m", "--invalidate=0"}
	if plan.seed == 0 {
		args = append(args, "--randrepeat=0")
	} else {
		args = append(args, "--randseed="+number(plan.seed))
	}
	if plan.rate > 0 {
		args = append(args, "--rate_iops="+number(plan.rate))
	}

	if !made(plan.mebibytes, image.FioData) {
		args = append(args, "--filename=/file", "--readonly", "--allow_file_create=0")
	} else {
		args = append(args, "--filename=/data/file")
	}
	if plan.held {
		// Fio tells as often as it can in which state its job is, and begins a line a second.
		args = append(args, "--time_based", "--runtime=3650d", "--eta=always", "--eta-newline=1s", "--eta-interval=250ms")
	} else {
		// Bounded by the number alone.
		args = append(args, "--number_ios="+number(plan.reads), "--io_size="+number((plan.reads+1)*fioBlock),
			"--eta=never", "--output-format=json")
	}
	// The file itself is page cache, which the kernel can take back.
	return Program{Args: args, Dir: "/data", Data: []string{"/data"}, MemoryNeed: 32 << 20, Service: plan.held}
}

func (fioPlan) metrics() []Metric {
	return []Metric{
		{Name: "iops", Unit: "reads/s", Better: Higher, Primary: true, Doc: "reads of 4 KiB over the time that they took, by fio's own clock"},
		{Name: "bandwidth", Unit: "B/s", Better: Higher, Doc: "bytes read over that"},
		{Name: "latency", Unit: "s", Better: Lower, Doc: "mean of all reads, page faults included"},
		{Name: "faults", Unit: "faults", Better: Lower, Count: true, Doc: "page faults that the kernel counted for the reading process"},
		{Name: "wall", Unit: "s", Better: Lower, Doc: "from the request to launch to the end, fio's own preparation and what the platform took included"},
		{Name: "cpu", Unit: "s", Better: Lower, Doc: "user and system time of fio's processes"},
	}
}

func (plan fioPlan) drive(ctx context.Context, t Trial) error {
	if plan.held {
		return unweighable(fio{}.Name())
	}
	exit, err := finish(ctx, t)
	if err != nil {
		return err
	}
	stdout, _ := t.Output()
	o, err := parseFio(stdout)
	if err != nil {
		return fmt.Errorf("output of fio: %w; its end: %s", err, ending(stdout))
	}
	if o.Read.Count != plan.reads {
		return fmt.Errorf("fio read %d times of %d: not valid", o.Read.Count, plan.reads)
	}
	t.Record("iops", o.Read.IOPS)
	t.Record("bandwidth", o.Read.Bandwidth)
	t.Record("latency", o.Read.Latency.Mean*1e-9)
	t.Record("faults", float64(o.Minor+o.Major))
	t.Record("wall", exit.Elapsed.Seconds())
	if exit.CPU >= 0 {
		t.Record("cpu", exit.CPU.Seconds())
	}
	return nil
}

// fioJob is what fio says of its one job.
type fioJob struct {
	Error int
	Minor int64 `json:"minf"`
	Major int64 `json:"majf"`
	Read  struct {
		Count     int64   `json:"total_ios"`
		Short     int64   `json:"short_ios"`
		Dropped   int64   `json:"drop_ios"`
		IOPS      float64 `json:"iops"`
		Bandwidth float64 `json:"bw_bytes"`
		Latency   struct {
			Mean float64 `json:"mean"`
			N    int64
		} `json:"clat_ns"`
	}
}

// fioJobs reads fio's JSON, before which it may have said other things, such as
// that it lays out a file. J is what is wanted of each of its jobs.
func fioJobs[J any](output []byte) ([]J, error) {
	if at := bytes.Index(output, []byte("{\n")); at > 0 {
		output = output[at:]
	}
	var document struct{ Jobs []J }
	err := json.Unmarshal(output, &document)
	return document.Jobs, err
}

// oneFioJob is fioJobs where there is to be one.
func oneFioJob[J any](output []byte) (J, error) {
	jobs, err := fioJobs[J](output)
	if err == nil && len(jobs) != 1 {
		err = fmt.Errorf("%d jobs, want one", len(jobs))
	}
	if err != nil {
		var none J
		return none, err
	}
	return jobs[0], nil
}

// parseFio reads what fio says of reads.
func parseFio(output []byte) (fioJob, error) {
	job, err := oneFioJob[fioJob](output)
	if err != nil {
		return job, err
	}
	r := job.Read
	switch {
	case job.Error != 0:
		return job, fmt.Errorf("fio ended with error %d: not valid", job.Error)
	case r.Short != 0 || r.Dropped != 0:
		return job, fmt.Errorf("%d reads were short and %d dropped: not valid", r.Short, r.Dropped)
	case r.Count <= 0 || r.Latency.N != r.Count || job.Minor < 0 || job.Major < 0:
		return job, fmt.Errorf("%d reads of which %d were timed, with %d and %d faults, cannot be", r.Count, r.Latency.N, job.Minor, job.Major)
	}
	for _, v := range []float64{r.IOPS, r.Bandwidth, r.Latency.Mean} {
		if !(v > 0) || math.IsInf(v, 0) {
			return job, fmt.Errorf("a rate or a mean of %v cannot be", v)
		}
	}
	return job, nil
}

var _ Sustainer = fio{}

// Sustained has fio read on, each in an order of its own.
func (fio) Sustained() (p Params, steady bool) {
	return Params{"until": untilSignal, "seed": random}, true
}

// Listens tells that fio's own word is what is waited for.
func (fio) Listens() bool { return true }

// Ready waits until fio says that its job runs with its file open: "Jobs: 1 (f=1)".
// Before, it says "(f=0)", or what it lays out. Fio says so half a second or a
// second after its first read, by when it has been through a small file that
// is in memory, unless a rate holds it back.
func (w fio) Ready(ctx context.Context, t Trial) error {
	return whileServing(ctx, t, func(ctx context.Context) error {
		return awaitReady(ctx, workWithin, "fio says that its job runs", func(context.Context) error {
			stdout, _ := t.Output()
			if !fioRuns(stdout) {
				return fmt.Errorf("it has said: %s", ending(stdout))
			}
			return nil
		})
	})
}

// fioRuns tells whether fio has said that its job is at work.
func fioRuns(output []byte) bool { return bytes.Contains(output, []byte("Jobs: 1 (f=1)")) }

// Sustain waits: fio draws its order itself.
func (fio) Sustain(ctx context.Context, t Trial, _ uint64) error { return untilDone(ctx, t) }
