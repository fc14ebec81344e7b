package workload

import (
	"context"
	"fmt"
	"math"
	"strconv"
)

// fioSync is a disk floor for what writes little at a time and waits for the disk
// each time, as Redis does with appendfsync=always: fio appends to one file and
// brings each write to the disk. Nothing that appends so can be faster there.
type fioSync struct{ workloadOf[fioSyncPlan] }

func (fioSync) Name() string    { return "fio-sync" }
func (fioSync) Summary() string { return "appends to a file, each brought to the disk: a disk floor" }
func (fioSync) Source() Source  { return Source{Recipe: "fio"} }

const fioProgram = "/usr/bin/fio"

// The calls that bring a write to the disk.
const (
	callFdatasync = "fdatasync"
	callFsync     = "fsync"
)

type fioSyncPlan struct {
	size, syncs int64
	call        string
}

func (plan fioSyncPlan) parse(from *parameters) fioSyncPlan {
	plan.size = from.whole("size", 4096, 1, 16<<20, "bytes of one write, RANGE")
	plan.syncs = from.whole("syncs", 300, 10, 1e6, "writes, each brought to the disk, 10 to 10^6")
	plan.call = from.word("call", callFdatasync, "fdatasync (which Redis uses), or fsync", callFdatasync, callFsync)
	return plan
}

func (plan fioSyncPlan) program() Program {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return Program{
		// The file grows with each write, as a log does: laid out beforehand, it would
		// have no new size to bring to the disk.
		Args: []string{fioProgram, "--name=sync", "--ioengine=sync", "--rw=write", "--bs=" + number(plan.size),
			"--number_ios=" + number(plan.syncs), "--size=" + number(plan.syncs*plan.size), "--" + plan.call + "=1",
			"--fallocate=none", "--file_append=1", "--filename=/data/file", "--eta=never", "--output-format=json"},
		Dir: "/data", Data: []string{"/data"}, MemoryNeed: 32<<20 + plan.size, DiskNeed: plan.syncs * plan.size,
		Needs: []string{fioProgram},
	}
}

func (fioSyncPlan) metrics() []Metric {
	return []Metric{
		{Name: "syncs", Unit: "syncs/s", Better: Higher, Primary: true, Doc: "writes brought to the disk, over the time that writing and syncing took"},
		{Name: "sync", Unit: "us", Better: Lower, Doc: "mean of bringing a write to the disk"},
		{Name: "write", Unit: "us", Better: Lower, Doc: "mean of handing it to the kernel"},
	}
}

func (plan fioSyncPlan) drive(ctx context.Context, t Trial) error {
	if _, err := finish(ctx, t); err != nil {
		return err
	}
	stdout, _ := t.Output()
	o, err := parseFioSync(stdout, plan.syncs)
	if err != nil {
		return fmt.Errorf("output of fio: %w; its end: %s", err, ending(stdout))
	}
	// By the means and not by fio's rate, whose clock has milliseconds: memory syncs
	// a thousand times in one.
	const perMicro = 1e-3 // of fio's nanoseconds
	t.Record("syncs", 1e9/(o.write+o.sync))
	t.Record("sync", o.sync*perMicro)
	t.Record("write", o.write*perMicro)
	return nil
}

// fioSyncs are the means of one write and of bringing it to the disk, in nanoseconds.
type fioSyncs struct{ write, sync float64 }

func parseFioSync(output []byte, syncs int64) (fioSyncs, error) {
	type times struct {
		Mean float64 `json:"mean"`
		N    int64
	}
	job, err := oneFioJob[struct {
		Error int
		Write struct {
			Count   int64 `json:"total_ios"`
			Short   int64 `json:"short_ios"`
			Dropped int64 `json:"drop_ios"`
			Latency times `json:"clat_ns"`
		}
		Sync struct {
			Latency times `json:"lat_ns"`
		}
	}](output)
	if err != nil {
		return fioSyncs{}, err
	}
	w, s := job.Write, job.Sync.Latency
	switch {
	case job.Error != 0:
		return fioSyncs{}, fmt.Errorf("fio ended with error %d: not valid", job.Error)
	case w.Short != 0 || w.Dropped != 0:
		return fioSyncs{}, fmt.Errorf("%d writes were short and %d dropped: not valid", w.Short, w.Dropped)
	case w.Count != syncs || w.Latency.N != w.Count:
		return fioSyncs{}, fmt.Errorf("fio wrote %d times of %d, and timed %d: not valid", w.Count, syncs, w.Latency.N)
	case s.N < w.Count-1 || s.N > w.Count: // it leaves the last write to the closing
		return fioSyncs{}, fmt.Errorf("%d of %d writes were brought to the disk: not valid", s.N, w.Count)
	}
	for _, v := range []float64{w.Latency.Mean, s.Mean} {
		if !(v > 0) || math.IsInf(v, 0) {
			return fioSyncs{}, fmt.Errorf("a mean of %v ns cannot be", v)
		}
	}
	return fioSyncs{w.Latency.Mean, s.Mean}, nil
}
