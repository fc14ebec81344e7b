package workload

import (
	"context"
	"fmt"
	"strconv"

	"tare/image"
)

// files is file operations, each timed inside the container by a program of ours
// (programs/files), as S4 did: writes to an open file, openings, new files, walks.
type files struct{}

func (files) Name() string    { return "files" }
func (files) Summary() string { return "file operations, each timed by a program inside" }
func (files) Source() Source  { return Source{Recipe: "files"} }

// Bounds of what one trial does.
const (
	mostFileSize  = 64 << 20
	mostFileCount = 10_000_000
)

func (files) Params() []Param {
	return []Param{
		{"operation", "write", "write: to an open file; open: one that is there, for reading; create: new files; walk: a tree, as ls -R does"},
		{"size", "4096", "bytes of one write, 1 to " + strconv.Itoa(mostFileSize)},
		{"sync", "none", "none: each write is handed to the kernel, as by flush() of Python; fsync: and brought to the disk"},
		{"count", auto, "operations, 1 to " + strconv.Itoa(mostFileCount) + "; auto: some tenths of a second's"},
	}
}

// fileCounts are the numbers of operations that take some tenths of a second.
var fileCounts = map[string]int64{"write": 20_000, "fsync": 200, "open": 50_000, "create": 5000, "walk": 20}

// plan gives the program's arguments.
func (files) plan(p Params) (args []string, err error) {
	operation, err := p.oneOf("operation", "write", "open", "create", "walk")
	if err != nil {
		return nil, err
	}
	size, err := p.whole("size", 1, mostFileSize)
	if err != nil {
		return nil, err
	}
	sync, err := p.oneOf("sync", "none", "fsync")
	if err != nil {
		return nil, err
	}
	count, err := p.wholeOrAuto("count", 1, mostFileCount)
	if err != nil {
		return nil, err
	}
	if count == 0 {
		kind := operation
		if operation == "write" && sync == "fsync" {
			kind = sync
		}
		// Large writes take their time by their bytes.
		count = fileCounts[kind]
		if kind == "write" {
			count = max(1, min(count, (512<<20)/size))
		}
	}
	args = []string{image.FilesProgram, operation, "--count", strconv.FormatInt(count, 10)}
	switch operation {
	case "write":
		return append(args, "--dir", image.FilesData, "--size", strconv.FormatInt(size, 10), "--sync", sync), nil
	case "open":
		return append(args, "--file", image.FilesShelved, "--mode", "read"), nil
	case "create":
		return append(args, "--dir", image.FilesData), nil
	default:
		return append(args, "--dir", image.FilesTree), nil
	}
}

func (w files) Program(p Params) (Program, error) {
	args, err := w.plan(p)
	if err != nil {
		return Program{}, err
	}
	size, _ := strconv.ParseInt(p["size"], 10, 64) // whole, as the plan has found
	data := image.FilesData
	if p["operation"] == "open" {
		data = image.FilesShelf
	}
	return Program{Args: args, Data: []string{data}, MemoryNeed: 4<<20 + size}, nil
}

func (files) Metrics(Params) []Metric {
	return []Metric{
		{Name: "time", Unit: "ns", Better: Lower, Primary: true, Doc: "one operation, by the program's own clock: the mean of the middle half"},
		{Name: "mean", Unit: "ns", Better: Lower, Doc: "one operation, the mean of all"},
		{Name: "longest", Unit: "ns", Better: Lower, Doc: "the longest of a trial"},
		wallMetric(false), cpuMetric(false),
	}
}

func (w files) Drive(ctx context.Context, t Trial) error {
	exit, err := finish(ctx, t)
	if err != nil {
		return err
	}
	stdout, _ := t.Output()
	times, err := ParseFileTimes(stdout)
	if err != nil {
		return err
	}
	if len(times.Series) != 1 || times.Series[0].Operation != t.Params()["operation"] {
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
