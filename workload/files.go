package workload

import (
	"context"
	"fmt"
	"strconv"

	"tare/image"
)

// files is file operations, each timed inside the container by a program of ours
// (programs/files), as S4 did: writes to an open file, openings, new files, walks.
type files struct{ workloadOf[filesPlan] }

func (files) Name() string    { return "files" }
func (files) Summary() string { return "file operations, each timed by a program inside" }
func (files) Source() Source  { return Source{Recipe: "files"} }

// Bounds of what one trial does.
const (
	mostFileSize  = 64 << 20
	mostFileCount = 10_000_000
)

// fileCounts are the numbers of operations that take some tenths of a second.
var fileCounts = map[string]int64{"write": 20_000, "fsync": 200, "open": 50_000, "create": 5000, "walk": 20}

type filesPlan struct {
	operation, sync string
	size, count     int64
}

func (plan filesPlan) parse(from *parameters) filesPlan {
	plan.operation = from.word("operation", "write",
		"write: to an open file; open: one that is there, for reading; create: new files; walk: a tree, as ls -R does",
		"write", "open", "create", "walk")
	plan.size = from.whole("size", 4096, 1, mostFileSize, "bytes of one write, RANGE")
	plan.sync = from.word("sync", "none",
		"none: each write is handed to the kernel, as by flush() of Python; fsync: and brought to the disk", "none", "fsync")
	plan.count = from.wholeOr("count", auto, 0, 1, mostFileCount, "operations, RANGE; auto: some tenths of a second's")
	if plan.count == 0 {
		kind := plan.operation
		if plan.operation == "write" && plan.sync == "fsync" {
			kind = plan.sync
		}
		// Large writes take their time by their bytes.
		plan.count = fileCounts[kind]
		if kind == "write" {
			plan.count = max(1, min(plan.count, (512<<20)/plan.size))
		}
	}
	return plan
}

func (plan filesPlan) program() Program {
	args, data := []string{image.FilesProgram, plan.operation, "--count", strconv.FormatInt(plan.count, 10)}, image.FilesData
	switch plan.operation {
	case "write":
		args = append(args, "--dir", data, "--size", strconv.FormatInt(plan.size, 10), "--sync", plan.sync)
	case "open":
		data = image.FilesShelf
		args = append(args, "--file", image.FilesShelved, "--mode", "read")
	case "create":
		args = append(args, "--dir", data)
	default:
		args = append(args, "--dir", image.FilesTree)
	}
	return Program{Args: args, Data: []string{data}, MemoryNeed: 4<<20 + plan.size}
}

func (filesPlan) metrics() []Metric {
	return []Metric{
		{Name: "time", Unit: "ns", Better: Lower, Primary: true, Doc: "one operation, by the program's own clock: the mean of the middle half"},
		{Name: "mean", Unit: "ns", Better: Lower, Doc: "one operation, the mean of all"},
		{Name: "longest", Unit: "ns", Better: Lower, Doc: "the longest of a trial"},
		wallMetric(false), cpuMetric(false),
	}
}

func (plan filesPlan) drive(ctx context.Context, t Trial) error {
	exit, err := finish(ctx, t)
	if err != nil {
		return err
	}
	stdout, _ := t.Output()
	times, err := ParseFileTimes(stdout)
	if err != nil {
		return err
	}
	if len(times.Series) != 1 || times.Series[0].Operation != plan.operation {
		return fmt.Errorf("output of files: not the one operation that was asked for: %s", ending(stdout))
	}
	s := times.Series[0]
	t.Record("time", s.MiddleHalf())
	t.Record("mean", s.Mean())
	t.Record("longest", float64(s.Max))
	t.Record("wall", exit.Elapsed.Seconds())
	if exit.CPU >= 0 {
		t.Record("cpu", exit.CPU.Seconds())
	}
	return nil
}
