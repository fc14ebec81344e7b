package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"tare/image"
	"tare/load"
)

// matrix is S4's neighbour of a service: two matrices of 512 x 512 doubles, multiplied
// again and again in one thread (programs/matrix), which checks each product. It lies in
// the service's image, so that both can run from one.
type matrix struct{ workloadOf[matrixPlan] }

func (matrix) Name() string    { return "matrix" }
func (matrix) Summary() string { return "multiplication of matrices in one thread: S4's neighbour" }
func (matrix) Source() Source  { return Source{Recipe: "thrift"} }

// MatrixSize is S4's: the rows, and the columns, of each matrix.
const MatrixSize = 512

// What the program takes, and what a trial's output has room for.
const (
	leastMatrix, mostMatrix = 64, 2048
	mostMultiplications     = 10_000
)

// multiplications is the histogram of their times, in microseconds.
const multiplications = "multiplication"

type matrixPlan struct{ size, count int64 }

func (plan matrixPlan) parse(from *parameters) matrixPlan {
	plan.size = from.whole("size", MatrixSize, leastMatrix, mostMatrix, "rows and columns of each matrix, RANGE")
	plan.count = from.whole("count", 50, 1, mostMultiplications, "multiplications, RANGE")
	return plan
}

func (plan matrixPlan) program() Program {
	return Program{Args: MatrixArgs(int(plan.size), int(plan.count)), MemoryNeed: 4<<20 + 3*8*plan.size*plan.size}
}

func (matrixPlan) metrics() []Metric {
	quantile := func(name string, q float64, primary bool) Metric {
		return Metric{
			Name:      name,
			Unit:      "us",
			Better:    Lower,
			Primary:   primary,
			Quantile:  q,
			Histogram: multiplications,
			Doc:       "time of a multiplication, by the program's own clock",
		}
	}
	return []Metric{
		{Name: "throughput", Unit: "multiplications/s", Better: Higher, Primary: true, Doc: "over the time of all multiplications, by the program's own clock"},
		quantile("p50", 0.5, false), quantile("p99", 0.99, false),
		{Name: "multiplication-cpu", Unit: "s", Better: Lower, Doc: "CPU time of a multiplication, by the program's own clock"},
		wallMetric(false),
		cpuMetric(false),
	}
}

func (plan matrixPlan) drive(ctx context.Context, t Trial) error {
	exit, err := finish(ctx, t)
	if err != nil {
		return err
	}
	stdout, _ := t.Output()
	times, err := MatrixTimes(stdout)
	if err != nil {
		return err
	}
	if int64(len(times)) != plan.count {
		return fmt.Errorf("matrix tells of %d multiplications, want %d: not valid", len(times), plan.count)
	}
	var wall, cpu time.Duration
	h := load.NewHistogram()
	for _, each := range times {
		wall, cpu = wall+each.Wall, cpu+each.CPU
		micros := min(each.Wall.Round(time.Microsecond).Microseconds(), h.HighestTrackableValue())
		if err := h.RecordValue(micros); err != nil {
			return fmt.Errorf("a multiplication of %v: %w", each.Wall, err)
		}
	}
	t.RecordHistogram(multiplications, h)
	t.Record("throughput", float64(plan.count)/wall.Seconds())
	t.Record("multiplication-cpu", cpu.Seconds()/float64(plan.count))
	t.Record("wall", exit.Elapsed.Seconds())
	if exit.CPU >= 0 {
		t.Record("cpu", exit.CPU.Seconds())
	}
	return nil
}

// MatrixArgs is the command that multiplies matrices of so many rows and columns, so
// many times; 0 goes on until it is stopped. It is of the image of workload thrift.
func MatrixArgs(size, count int) []string {
	return []string{image.MatrixProgram, "--size", strconv.Itoa(size), "--count", strconv.Itoa(count)}
}

// MatrixTime is what one multiplication took.
type MatrixTime struct {
	Wall time.Duration
	CPU  time.Duration // that the program had meanwhile
}

// MatrixTimes reads what the command of MatrixArgs prints, in order. What is at hand
// of a program that goes on may begin and end within a line: such a piece is passed over.
func MatrixTimes(stdout []byte) ([]MatrixTime, error) {
	if len(stdout) > 0 && stdout[0] != '{' {
		_, stdout, _ = bytes.Cut(stdout, []byte{'\n'})
	}
	var times []MatrixTime
	for {
		line, rest, whole := bytes.Cut(stdout, []byte{'\n'})
		if !whole {
			return times, nil
		}
		stdout = rest
		one, err := parseMatrixTime(line)
		if err != nil {
			return nil, fmt.Errorf("output of matrix: %w: %s", err, ending(line))
		}
		times = append(times, one)
	}
}

func parseMatrixTime(line []byte) (MatrixTime, error) {
	var printed struct {
		Wall *int64 `json:"wall_ns"`
		CPU  *int64 `json:"cpu_ns"`
	}
	if err := json.Unmarshal(line, &printed); err != nil {
		return MatrixTime{}, err
	}
	if printed.Wall == nil || printed.CPU == nil {
		return MatrixTime{}, errors.New("lacks wall_ns or cpu_ns")
	}
	one := MatrixTime{Wall: time.Duration(*printed.Wall), CPU: time.Duration(*printed.CPU)}
	if one.Wall <= 0 || one.CPU < 0 || one.Wall > mostMatrixTime || one.CPU > mostMatrixTime {
		return MatrixTime{}, fmt.Errorf("%v, of them %v of CPU time, cannot be", one.Wall, one.CPU)
	}
	return one, nil
}

// mostMatrixTime is longer than anybody multiplies.
const mostMatrixTime = 24 * time.Hour
