package workload

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// FileTimes is what the program files (programs/files) prints of the operations
// that it measured, in their order. Times are in nanoseconds.
type FileTimes struct {
	Clock  int64 `json:"clock_ns"` // the least that two readings of its clock are apart
	Series []FileSeries
}

// FileSeries is one operation's times. Of Files there are any only where each file
// was opened for writing once; of the rest, only where there are none.
type FileSeries struct {
	Operation   string // "write", "open", "create", "copyup", "walk"
	Mode        string // of open: "read", "write"
	Sync        string // of write: "none", "fsync"
	Size        int64  // of one write, bytes
	Entries     int64  // that a walk saw
	Directories int64
	First       int64 `json:"first_ns"` // of open and walk: the one before those that are counted
	Count       int64
	Sum         int64      `json:"sum_ns"`
	Min         int64      `json:"min_ns"`
	Max         int64      `json:"max_ns"`
	Bars        [][2]int64 `json:"bars_ns"` // value, within a thousandth, and count; by value
	Files       []FileOpened
}

// FileOpened is a file that was opened for writing and written to once, and opened
// once more.
type FileOpened struct {
	Size       int64 // bytes
	FirstOpen  int64 `json:"first_open_ns"`
	FirstWrite int64 `json:"first_write_ns"`
	SecondOpen int64 `json:"second_open_ns"`
}

// ParseFileTimes reads what the program prints, and refuses what cannot be.
func ParseFileTimes(output []byte) (FileTimes, error) {
	var t FileTimes
	if err := json.Unmarshal(output, &t); err != nil {
		return t, fmt.Errorf("output of files: %w; its end: %s", err, ending(output))
	}
	if len(t.Series) == 0 || t.Clock < 0 {
		return t, fmt.Errorf("output of files: it measured nothing; its end: %s", ending(output))
	}
	for i, s := range t.Series {
		if why := s.fault(); why != "" {
			return t, fmt.Errorf("output of files: series %d of %d (%.40q) %s", i+1, len(t.Series), s.Operation, why)
		}
	}
	return t, nil
}

// fault says why a series cannot be; empty where it can.
func (s FileSeries) fault() string {
	if s.Operation == "copyup" {
		if len(s.Files) == 0 {
			return "has no file"
		}
		for _, f := range s.Files {
			if f.Size < 0 || f.FirstOpen <= 0 || f.FirstWrite < 0 || f.SecondOpen <= 0 {
				return fmt.Sprintf("has a file with the times %+v", f)
			}
		}
		return ""
	}
	if s.Count <= 0 || s.Min < 0 || s.Max < s.Min || s.Sum < s.Max || s.First < 0 || s.Size < 0 || s.Entries < 0 {
		return fmt.Sprintf("has %d times from %d to %d ns, %d in all", s.Count, s.Min, s.Max, s.Sum)
	}
	left, before := s.Count, int64(-1)
	for _, bar := range s.Bars {
		if bar[0] <= before || bar[1] <= 0 || bar[1] > left {
			return "has bars that are out of order, or not of its times"
		}
		before, left = bar[0], left-bar[1]
	}
	if left != 0 {
		return fmt.Sprintf("lacks %d of its %d times", left, s.Count)
	}
	return ""
}

// Mean is the mean of all times.
func (s FileSeries) Mean() float64 { return float64(s.Sum) / float64(s.Count) }

// MiddleHalf is the mean of the middle half of the times. What a time slice or an
// interrupt adds to a few leaves it alone, as it does the median; but it is not
// bound to the steps of the clock, which are some percent of the shortest times.
func (s FileSeries) MiddleHalf() float64 {
	// Between the quarters of the count, bars in part.
	from, to := float64(s.Count)/4, 3*float64(s.Count)/4
	sum, at := 0.0, 0.0
	for _, bar := range s.Bars {
		next := at + float64(bar[1])
		if part := math.Min(next, to) - math.Max(at, from); part > 0 {
			sum += part * float64(bar[0])
		}
		at = next
	}
	return sum / (to - from)
}

// slowestKept is where the histogram ends: a minute.
const slowestKept = 60_000_000_000

// Histogram is the times in nanoseconds, to two digits.
func (s FileSeries) Histogram() *hdrhistogram.Histogram {
	h := hdrhistogram.New(1, slowestKept, 2)
	for _, bar := range s.Bars {
		// Its bounds are kept, so that it cannot fail.
		_ = h.RecordValues(max(1, min(bar[0], slowestKept)), bar[1])
	}
	return h
}
