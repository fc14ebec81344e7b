package workload

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"tare/image"
)

// haccio is S5's checkpoint of a cosmological simulation, by a program of ours on
// MPI (programs/haccio): every rank writes its particles, field by field, and reads
// them back. Its rates are HACC-IO's: the bytes of all over the slowest rank's time
// from before the opening of its file until after the closing.
type haccio struct{ workloadOf[haccioPlan] }

func (haccio) Name() string { return "haccio" }
func (haccio) Summary() string {
	return "checkpoints: particles written and read back by the ranks of an MPI program"
}
func (haccio) Source() Source { return Source{Recipe: "haccio"} }

type haccioPlan struct{ checkpoint }

func (c haccioPlan) parse(from *parameters) haccioPlan { return haccioPlan{c.checkpoint.parse(from)} }

func (c haccioPlan) program() Program {
	args := []string{
		image.HaccioProgram, "--dir", image.HaccioData, "--particles", strconv.FormatInt(c.particles, 10),
		"--api", c.api, "--layout", c.layout, "--cache", c.cache, "--sync", c.sync,
		"--buffer", strconv.FormatInt(c.buffer, 10), "--header", strconv.FormatInt(c.header, 10), "--seed", strconv.FormatInt(c.seed, 10),
	}
	return Program{
		Args: mpiCommand(c.ranks, args...),
		Env:  mpiEnvironment,
		Dir:  image.HaccioData,
		Data: []string{image.HaccioData},
		// Each rank has its share in memory once: it reads to where it has written from.
		MemoryNeed: c.ranks*c.room() + mpiMemory(c.ranks),
		DiskNeed:   c.ranks * c.room(),
		Needs:      []string{image.MPIExec, image.HaccioProgram},
	}
}

func (haccioPlan) metrics() []Metric {
	return append(checkpointMetrics(),
		Metric{Name: "open-time", Unit: "s", Better: Lower, Doc: "the longest that a rank took to make and open its file, of write-time"},
		Metric{Name: "sync-time", Unit: "s", Better: Lower, Doc: "the longest that a rank took for fsync, of write-time"},
		Metric{Name: "cached", Unit: "ratio", Better: Lower, Doc: "of the files' pages, how many were in the page cache when reading began"},
		Metric{Name: "write-span", Unit: "s", Better: Lower, Doc: "from the first rank's beginning to write to the last one's end: longer than write-time where ranks wait for a CPU to begin"},
		Metric{Name: "read-span", Unit: "s", Better: Lower, Doc: "the same of reading"},
		wallMetric(false), cpuMetric(false),
	)
}

func (c haccioPlan) drive(ctx context.Context, t Trial) error {
	exit, err := finish(ctx, t)
	if err != nil {
		return err
	}
	stdout, _ := t.Output()
	write, read, err := parseHaccio(stdout, c.checkpoint)
	if err != nil {
		return fmt.Errorf("output of haccio: %w; its end: %s", err, ending(stdout))
	}
	t.Record("write", float64(c.bytes())/write.Seconds)
	t.Record("read", float64(c.bytes())/read.Seconds)
	t.Record("write-time", write.Seconds)
	t.Record("read-time", read.Seconds)
	t.Record("open-time", write.Open)
	t.Record("sync-time", write.Sync)
	t.Record("cached", *read.Cached)
	t.Record("write-span", write.Span)
	t.Record("read-span", read.Span)
	t.Record("wall", exit.Elapsed.Seconds())
	if exit.CPU >= 0 {
		t.Record("cpu", exit.CPU.Seconds())
	}
	return nil
}

// haccioPhase is one line of the program's output.
type haccioPhase struct {
	Phase     string
	Ranks     int64
	Particles int64
	Bytes     int64
	Seconds   float64  // of the slowest rank; the others each of the rank that is slowest in it
	Span      float64  `json:"span_seconds"` // from the first rank's beginning to the last one's end
	Open      float64  `json:"open_seconds"`
	Transfer  float64  `json:"transfer_seconds"`
	Sync      float64  `json:"sync_seconds"`
	Close     float64  `json:"close_seconds"`
	Cached    *float64 // of a read
	Verified  bool     // of a read
}

// parseHaccio reads the program's output: a write and a read of just what was asked
// for, the read verified.
func parseHaccio(output []byte, c checkpoint) (write, read haccioPhase, err error) {
	var phases []haccioPhase
	lines := bufio.NewScanner(bytes.NewReader(output))
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var p haccioPhase
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return write, read, fmt.Errorf("line %d: %w", n, err)
		}
		if err := p.check(c); err != nil {
			return write, read, fmt.Errorf("line %d: %w", n, err)
		}
		phases = append(phases, p)
	}
	if err := lines.Err(); err != nil {
		return write, read, err
	}
	if len(phases) != 2 || phases[0].Phase != "write" || phases[1].Phase != "read" {
		return write, read, fmt.Errorf("%d phases, want a write and a read", len(phases))
	}
	write, read = phases[0], phases[1]
	switch {
	case !read.Verified:
		return write, read, errors.New("what was read was not compared with what was written: not valid")
	case read.Cached == nil || !(*read.Cached >= 0 && *read.Cached <= 1):
		return write, read, errors.New("the share of pages in the page cache is none")
	}
	return write, read, nil
}

func (p haccioPhase) check(c checkpoint) error {
	if p.Ranks != c.ranks || p.Particles != c.particles || p.Bytes != c.bytes() {
		return fmt.Errorf("%d bytes of %d ranks with %d particles each, want %d of %d with %d: not valid",
			p.Bytes, p.Ranks, p.Particles, c.bytes(), c.ranks, c.particles)
	}
	if !(p.Seconds > 0) || math.IsInf(p.Seconds, 0) {
		return fmt.Errorf("a time of %v s cannot be", p.Seconds)
	}
	// The last digits are rounded.
	if !(p.Span >= p.Seconds-1e-8) || math.IsInf(p.Span, 0) {
		return fmt.Errorf("a span of %v s around %v s cannot be", p.Span, p.Seconds)
	}
	for _, part := range []float64{p.Open, p.Transfer, p.Sync, p.Close} {
		// Each is some rank's, and no longer than the slowest rank's whole.
		if !(part >= 0 && part <= p.Seconds) {
			return fmt.Errorf("a step of %v s within %v s cannot be", part, p.Seconds)
		}
	}
	return nil
}
