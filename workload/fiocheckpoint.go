package workload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// fioCheckpoint has fio do what haccio does: as many processes write as many bytes
// each, by calls as long, in files laid out the same, and read them back. It is the
// disk floor of a checkpoint: what the storage gives to a program without a rank to
// wait for. It takes haccio's parameters; that of the interface means nothing to it,
// which has but one.
type fioCheckpoint struct{ workloadOf[fioCheckpointPlan] }

func (fioCheckpoint) Name() string { return "fio-checkpoint" }
func (fioCheckpoint) Summary() string {
	return "checkpoints as haccio's, written and read by fio: a disk floor"
}
func (fioCheckpoint) Source() Source { return Source{Recipe: "fio"} }

// fioMostBlock bounds one call of fio's, below what the kernel takes at once.
const fioMostBlock = 1 << 30

// blocks divides a rank's share into calls of the same length. With a buffer they
// are about as long as haccio's. Without, one call has the whole share, since fio
// writes from one block of memory over and over: a small one stays in the CPU's
// caches, while a program with data to write has them in memory.
//
// Fio cannot write a share's last piece that is shorter than the others. So the
// length is chosen with which the whole differs least from the share: by less than
// a byte a call, or past the page cache half a page a call.
func (c checkpoint) blocks() (length, count int64) {
	share, unit, most := c.share(), int64(1), c.buffer
	if c.cache == cacheBypassed {
		share, unit = c.room(), directBlock
	}
	if most == 0 {
		most = fioMostBlock
	}
	off := int64(math.MaxInt64)
	least := (share + most - 1) / most
	for n := least; n <= 2*least && n < least+mostDivisions; n++ {
		l := max(unit, (share/n+unit/2)/unit*unit)
		if d := max(n*l-share, share-n*l); d < off {
			off, length, count = d, l, n
		}
	}
	return length, count
}

// mostDivisions bounds how many ways of dividing a share are looked at.
const mostDivisions = 1000

// fioMostRanks is of how many processes all that fio says fits into what is kept of
// a program's output.
const fioMostRanks = 60

type fioCheckpointPlan struct{ checkpoint }

func (plan fioCheckpointPlan) parse(from *parameters) fioCheckpointPlan {
	if plan.checkpoint = plan.checkpoint.parse(from); plan.ranks > fioMostRanks {
		from.refuse("ranks", fmt.Sprintf("at most %d processes of fio, whose output would be cut short", fioMostRanks))
	}
	return plan
}

func (c fioCheckpointPlan) program() Program {
	length, count := c.blocks()
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	args := []string{
		fioProgram, "--ioengine=psync", "--bs=" + number(length), "--size=" + number(length*count), "--numjobs=" + number(c.ranks),
		"--randseed=" + number(c.seed), "--directory=/data", "--eta=never", "--output-format=json", "--clat_percentiles=0",
		// As haccio does: a file is made when it is opened, and grows; no hint to the
		// kernel; nothing done to the data between two calls; memory from a page's
		// beginning on, without which copies out of the page cache took a third longer.
		"--create_on_open=1", "--fallocate=none", "--fadvise_hint=0", "--scramble_buffers=0", "--iomem_align=" + strconv.Itoa(directBlock),
	}
	if c.layout == layoutShared {
		args = append(args, "--filename=checkpoint", "--offset_increment="+number(length*count))
	} else {
		args = append(args, "--filename_format=checkpoint.$jobnum")
	}
	if c.cache == cacheBypassed {
		args = append(args, "--direct=1")
	}
	flag := func(on bool) string {
		if on {
			return "1"
		}
		return "0"
	}
	args = append(args, "--name=write", "--rw=write", "--invalidate=0", "--end_fsync="+flag(c.sync == syncFsync))
	if c.cache == cacheDropped {
		// Fio can bring a file to the disk only after a write to it: of its first bytes.
		args = append(args, "--name=settle", "--stonewall", "--rw=write", "--bs="+number(min(directBlock, length)), "--number_ios=1", "--invalidate=0", "--end_fsync=1")
	}
	args = append(args, "--name=read", "--stonewall",
		// Reads alone, of a job that could write: for such a one fio touches its memory beforehand.
		"--rw=rw", "--rwmixread=100", "--invalidate="+flag(c.cache == cacheDropped), "--unlink="+flag(c.layout == layoutOwn))
	if c.layout == layoutShared {
		// One removes the file, by a job that has to read of it.
		args = append(args, "--name=remove", "--stonewall", "--numjobs=1", "--rw=read", "--bs="+number(min(directBlock, length)), "--number_ios=1", "--invalidate=0", "--unlink=1")
	}
	return Program{
		Args: args, Dir: "/data", Data: []string{"/data"},
		// Each process has one block, and fio some megabytes for each.
		MemoryNeed: 32<<20 + c.ranks*(length+8<<20),
		DiskNeed:   c.ranks * length * count,
		Needs:      []string{fioProgram},
	}
}

func (fioCheckpointPlan) metrics() []Metric {
	return append(checkpointMetrics(), wallMetric(false), cpuMetric(false))
}

func (c fioCheckpointPlan) drive(ctx context.Context, t Trial) error {
	exit, err := finish(ctx, t)
	if err != nil {
		return err
	}
	stdout, _ := t.Output()
	o, err := parseFioCheckpoint(stdout, c.checkpoint)
	if err != nil {
		return fmt.Errorf("output of fio: %w; its end: %s", err, ending(stdout))
	}
	t.Record("write", float64(o.bytes)/o.write.Seconds())
	t.Record("read", float64(o.bytes)/o.read.Seconds())
	t.Record("write-time", o.write.Seconds())
	t.Record("read-time", o.read.Seconds())
	t.Record("wall", exit.Elapsed.Seconds())
	if exit.CPU >= 0 {
		t.Record("cpu", exit.CPU.Seconds())
	}
	return nil
}

// fioChecked is what fio has done: the bytes of all processes, and the slowest's times.
type fioChecked struct {
	bytes       int64
	write, read time.Duration
}

// fioTransfers are what fio says of one direction of a job.
type fioTransfers struct {
	Bytes   int64 `json:"io_bytes"`
	Count   int64 `json:"total_ios"`
	Short   int64 `json:"short_ios"`
	Dropped int64 `json:"drop_ios"`
	Runtime int64 `json:"runtime"` // ms, rounded up
	Latency struct {
		Mean float64 `json:"mean"`
		N    int64
	} `json:"lat_ns"`
}

// parseFioCheckpoint reads what fio says of a checkpoint: of each process a write and
// a read of a whole share.
func parseFioCheckpoint(output []byte, c checkpoint) (o fioChecked, err error) {
	jobs, err := fioJobs[struct {
		Name        string `json:"jobname"`
		Error       int
		Read, Write fioTransfers
	}](output)
	if err != nil {
		return o, err
	}
	length, count := c.blocks()
	seen := map[string]int64{}
	for _, job := range jobs {
		if job.Error != 0 {
			return o, fmt.Errorf("job %s of fio ended with error %d: not valid", job.Name, job.Error)
		}
		seen[job.Name]++
		switch job.Name {
		case "write":
			took, err := job.Write.took(length, count, c.sync == syncFsync)
			if err != nil {
				return o, fmt.Errorf("job write: %w", err)
			}
			o.bytes += job.Write.Bytes
			o.write = max(o.write, took)
		case "read":
			took, err := job.Read.took(length, count, false)
			if err != nil {
				return o, fmt.Errorf("job read: %w", err)
			}
			o.read = max(o.read, took)
		case "settle", "remove":
		default:
			return o, fmt.Errorf("a job %.40q that nobody asked for", job.Name)
		}
	}
	if seen["write"] != c.ranks || seen["read"] != c.ranks {
		return o, fmt.Errorf("%d writing and %d reading jobs, want %d of each", seen["write"], seen["read"], c.ranks)
	}
	return o, nil
}

// took is a job's time. Fio's clock for a job has milliseconds, in which a small
// checkpoint is done, so that it is the sum of its calls; but a sync at the end is
// only in the former, which is rounded up, by half a millisecond in the mean.
func (f fioTransfers) took(length, count int64, synced bool) (time.Duration, error) {
	switch {
	case f.Short != 0 || f.Dropped != 0:
		return 0, fmt.Errorf("%d calls were short and %d dropped: not valid", f.Short, f.Dropped)
	case f.Count != count || f.Latency.N != count || f.Bytes != length*count:
		return 0, fmt.Errorf("%d bytes by %d calls of which %d were timed, want %d by %d: not valid", f.Bytes, f.Count, f.Latency.N, length*count, count)
	}
	calls := f.Latency.Mean * float64(count)
	if !(calls >= 1 && calls < math.MaxInt64/2) || f.Runtime < 0 ||
		f.Runtime > math.MaxInt64/int64(2*time.Millisecond) {
		return 0, errors.New(
			"calls of " + strconv.FormatFloat(calls, 'g', -1, 64) + " ns in " + strconv.FormatInt(f.Runtime, 10) + " ms cannot be",
		)
	}
	took := time.Duration(calls)
	if synced {
		took = max(took, time.Duration(f.Runtime)*time.Millisecond-time.Millisecond/2)
	}
	return took, nil
}
