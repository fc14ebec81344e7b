package workload

import (
	"context"
	"path"
	"slices"
	"strings"
)

// FromCommand makes a batch workload of a program: its whole time from launch
// to end, and its CPU time. What the program leaves open is the image's own.
func FromCommand(program Program, source Source) Workload {
	return command{program: program, source: source}
}

type command struct {
	program Program
	source  Source
}

// words are those of the command line that the program names itself.
func (c command) words() []string { return slices.Concat(c.program.Args, c.program.Command) }

// Name is the program's, or the image's, without what a name may not hold.
func (c command) Name() string {
	of := c.source.Recipe + c.source.Archive + c.source.Rootfs + c.source.Image
	if words := c.words(); len(words) > 0 {
		of = words[0]
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
	words := c.words()
	if len(words) == 0 {
		return "the image's own command, from launch to end"
	}
	return strings.Join(words, " ") + ", from launch to end"
}

func (c command) Params() []Param                 { return nil }
func (c command) Source() Source                  { return c.source }
func (c command) Program(Params) (Program, error) { return c.program, nil }
func (c command) Metrics(Params) []Metric         { return []Metric{wallMetric(true), cpuMetric(true)} }
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
		Doc: "from the request to launch, on bare metal from the execution, to the program's end"}
}

func cpuMetric(primary bool) Metric {
	return Metric{Name: "cpu", Unit: "s", Better: Lower, Primary: primary, Doc: "user and system time of all its processes"}
}
