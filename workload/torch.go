package workload

import (
	"context"
	"fmt"
	"strconv"

	"tare/programs/torch"
)

// TorchProgram is where a root has the program that PyTorch runs.
const TorchProgram = "/torch/cnn.py"

// FromTorch makes a workload of PyTorch where it is installed already: root is a root
// file system with the program at [TorchProgram], python the interpreter's path inside.
// It is not among those of [All]: tare brings no PyTorch.
func FromTorch(root, python string) Workload { return torchStep{root, python} }

// torchStep is a training step, or inference, of a small network by PyTorch.
type torchStep struct{ root, python string }

func (torchStep) Name() string { return "torch" }
func (torchStep) Summary() string {
	return "training steps or inference of a small convolutional network by PyTorch, on a GPU"
}
func (w torchStep) Source() Source { return Source{Rootfs: w.root} }

func (w torchStep) Params() []Param { return declared(w.parse) }

type torchPlan struct {
	task                       string
	steps, warmup, batch, seed int64
}

func (torchStep) parse(from *parameters) torchPlan {
	return torchPlan{
		task:   from.word("task", "training", "training or inference", torch.Tasks...),
		steps:  from.whole("steps", 100, 1, 100000, "timed steps, RANGE"),
		warmup: from.whole("warmup", 10, 0, 1000, "steps before them, RANGE"),
		batch:  from.whole("batch", 256, 1, 65536, "images a step, RANGE"),
		seed:   from.whole("seed", 1, 0, 1<<53-1, "of input and weights, 0 to 2^53-1"),
	}
}

func (w torchStep) Program(p Params) (Program, error) {
	plan, err := parsed(p, w.parse)
	if err != nil {
		return Program{}, err
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return Program{Args: []string{w.python, TorchProgram, "--task", plan.task, "--steps", number(plan.steps),
		"--warmup", number(plan.warmup), "--batch", number(plan.batch), "--seed", number(plan.seed)}}, nil
}

func (torchStep) Metrics(Params) []Metric {
	return []Metric{
		{Name: "step", Unit: "s", Better: Lower, Primary: true, Doc: "one step, by the device's events: the mean of a trial's"},
		wallMetric(true),
		{Name: "import", Unit: "s", Better: Lower, Doc: "from main until PyTorch was imported"},
		{Name: "start", Unit: "s", Better: Lower, Doc: "making the context, the network and its input"},
		{Name: "iterate", Unit: "s", Better: Lower, Doc: "all timed steps, as the host saw them"},
		cpuMetric(false),
	}
}

func (w torchStep) Drive(ctx context.Context, t Trial) error {
	plan, err := parsed(t.Params(), w.parse)
	if err != nil {
		return err
	}
	exit, err := finish(ctx, t)
	if err != nil {
		return err
	}
	stdout, _ := t.Output()
	r, err := torch.Parse(stdout)
	if err != nil {
		return err
	}
	if r.Task != plan.task || int64(r.Steps) != plan.steps || int64(r.Batch) != plan.batch {
		return fmt.Errorf("PyTorch did %d steps of %s with %d images, which is not what was asked for", r.Steps, r.Task, r.Batch)
	}
	sum := 0.0
	for _, s := range r.Seconds.Steps {
		sum += s
	}
	for metric, v := range map[string]float64{
		"step": sum / float64(r.Steps), "wall": exit.Elapsed.Seconds(), "import": r.Seconds.Import, "start": r.Seconds.Start,
		"iterate": r.Seconds.Iterate, "cpu": exit.CPU.Seconds(),
	} {
		if v > 0 {
			t.Record(metric, v)
		}
	}
	return nil
}
