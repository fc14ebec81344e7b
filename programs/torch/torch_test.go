package torch_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"tare/programs/torch"
)

func example() torch.Result {
	return torch.Result{
		Schema: torch.Schema, Task: "training", Steps: 2, Warmup: 1, Batch: 8, Seed: 7, Device: "a device", Version: "2.1", CUDA: "12.1",
		Seconds: torch.Seconds{Import: 1, Start: 2, Warmup: 0.5, Iterate: 0.25, Steps: []float64{0.125, 0.125}}, FirstLoss: 2.3, LastLoss: 1,
	}
}

func printed(t testing.TB, r torch.Result) []byte {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

func TestParse(t *testing.T) {
	r, err := torch.Parse(printed(t, example()))
	if err != nil || r.Seconds.Steps[1] != 0.125 || r.Task != "training" {
		t.Errorf("%+v, %v", r, err)
	}
	for what, change := range map[string]func(*torch.Result){
		"a schema":       func(r *torch.Result) { r.Schema = 2 },
		"a task":         func(r *torch.Result) { r.Task = "dreaming" },
		"a missing step": func(r *torch.Result) { r.Seconds.Steps = r.Seconds.Steps[:1] },
		"a time":         func(r *torch.Result) { r.Seconds.Start = -1 },
		"a device":       func(r *torch.Result) { r.Device = "" },
	} {
		r := example()
		change(&r)
		if _, err := torch.Parse(printed(t, r)); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := torch.Parse(append(printed(t, example()), printed(t, example())...)); err == nil {
		t.Error("two results are read as one")
	}
}

// What is read reads the same when it is printed again.
func FuzzParse(f *testing.F) {
	f.Add(printed(f, example()))
	f.Add([]byte(`{"schema":1}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := torch.Parse(text)
		if err != nil {
			return
		}
		if _, err := torch.Parse(printed(t, r)); err != nil {
			t.Fatalf("read once, and not again: %v", err)
		}
	})
}

// The program compiles, and where PyTorch is not installed it says so; where it is, its
// result is one that is read, on the CPU.
func TestProgram(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 here")
	}
	run := func(args ...string) (stdout, stderr string, code int) {
		cmd := exec.Command(python, append([]string{"-"}, args...)...)
		var out, said bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(torch.Program), &out, &said
		_ = cmd.Run() // its status says all
		return out.String(), said.String(), cmd.ProcessState.ExitCode()
	}
	if _, said, code := run("--steps", "0"); code != 2 || !strings.Contains(said, "--steps 0: want 1 to 100000") {
		t.Errorf("%d: %s", code, said)
	}
	out, said, code := run("--device", "cpu", "--steps", "3", "--warmup", "1", "--batch", "4", "--seed", "7")
	switch {
	case code == 3:
		if strings.Count(said, "\n") != 1 || !strings.Contains(said, "PyTorch is not installed") {
			t.Errorf("%s", said)
		}
	case code != 0:
		t.Errorf("%d: %s", code, said)
	default:
		if r, err := torch.Parse([]byte(out)); err != nil || r.Steps != 3 || r.Device != "cpu" {
			t.Errorf("%+v, %v", r, err)
		}
	}
}
