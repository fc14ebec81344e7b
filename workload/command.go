package workload

import (
	"context"
	"path"
	"slices"
	"strings"
)

// FromCommand makes a batch workload of a command: its whole time from launch
// to end, and its CPU time. With no arguments the image's own entry point and
// command run.
func FromCommand(args []string, source Source) Workload {
	return command{args: slices.Clone(args), source: source}
}

type command struct {
	args   []string
	source Source
}

// Name is the program's, or the image's, without what a name may not hold.
func (c command) Name() string {
	of := c.source.Recipe + c.source.Archive + c.source.Rootfs + c.source.Image
	if len(c.args) > 0 {
		of = c.args[0]
	}
	of, _, _ = strings.Cut(path.Base(of), ":")
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		default:
			return '-'
		}
	}, of)
	if clean = strings.Trim(clean, "-._"); clean == "" {
		return "command"
	}
	return clean
}

func (c command) Summary() string {
	if len(c.args) == 0 {
		return "the image's own command, from launch to end"
	}
	return strings.Join(c.args, " ") + ", from launch to end"
}

func (c command) Params() []Param                 { return nil }
func (c command) Source() Source                  { return c.source }
func (c command) Program(Params) (Program, error) { return Program{Args: slices.Clone(c.args)}, nil }
func (c command) Metrics(Params) []Metric         { return []Metric{wallMetric(true), cpuMetric()} }
func (c command) Drive(ctx context.Context, t Trial) error {
	exit, err := finish(ctx, t)
	if err != nil {
		return err
	}
	t.Record("wall", exit.Elapsed.Seconds())
	if exit.CPU >= 0 {
		t.Record("cpu", exit.CPU.Seconds())
	}
	return nil
}

func wallMetric(primary bool) Metric {
	return Metric{Name: "wall", Unit: "s", Better: Lower, Primary: primary,
		Doc: "from the request to launch to the program's end"}
}

func cpuMetric() Metric {
	return Metric{Name: "cpu", Unit: "s", Better: Lower, Doc: "user and system time of all its processes"}
}
