package workload

import (
	"context"
	"fmt"
	"time"
)

// streamPasses is the drive of a stream that passes over its arrays on demand.
const streamPasses = "passes"

func (streamPlan) drives() ([]Drive, error) {
	return []Drive{{Name: streamPasses, Least: 1}}, nil
}

func (streamPlan) sliceMetrics() []Metric {
	var all []Metric
	for _, m := range streamMetrics("") {
		for _, kernel := range streamKernels {
			if m.Name == kernel {
				m.Part, m.Figure, m.Doc = kernel, FigureRate, kernel+"; bytes over the time of all passes"
				all = append(all, m)
			}
		}
	}
	return all
}

// ready waits until the program has laid out its arrays and done one pass.
func (plan streamPlan) ready(ctx context.Context, t Trial) error {
	c, err := plan.connect(ctx, t)
	if err != nil {
		return err
	}
	return c.close()
}

func (plan streamPlan) slices(ctx context.Context, t Trial, _ uint64) (Slicer, error) {
	c, err := plan.connect(ctx, t)
	if err != nil {
		return nil, err
	}
	return streamSlicer{c}, nil
}

// streamSlicer asks for passes one by one, each of which the program times itself.
type streamSlicer struct{ client *streamClient }

func (s streamSlicer) Close() error { return s.client.close() }

func (s streamSlicer) Load(ctx context.Context, w Stretch) ([]Measured, error) {
	bytes, seconds := map[string]float64{}, map[string]float64{}
	passes := 0.0
	for began := time.Now(); passes == 0 || time.Since(began) < w.Duration; passes++ {
		one, err := s.client.pass(ctx, 1)
		if err != nil {
			return nil, err
		}
		for _, k := range one[0].Kernels {
			bytes[k.Kernel] += float64(k.Bytes)
			seconds[k.Kernel] += k.Seconds
		}
	}
	all := make([]Measured, len(streamKernels))
	for i, kernel := range streamKernels {
		window := time.Duration(seconds[kernel] * float64(time.Second))
		if window <= 0 {
			return nil, fmt.Errorf("kernel %s took no time: raise elements", kernel)
		}
		all[i] = Measured{Part: kernel, Window: window, Amount: bytes[kernel], Worked: passes, Load: -1}
	}
	return all, nil
}

var _ Sliced = stream{}
