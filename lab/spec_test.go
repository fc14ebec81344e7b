package lab

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/image"
	"tare/platform"
	"tare/record"
	"tare/workload"
)

// As `docker run` has it: arguments take the place of the command and stay behind the entry
// point; a whole command takes the place of both.
func TestSpecOf(t *testing.T) {
	both := image.Config{Entrypoint: []string{"/entry", "-x"}, Cmd: []string{"serve"}}
	for _, test := range []struct {
		config  image.Config
		program workload.Program
		want    string
	}{
		{both, workload.Program{}, "/entry -x serve"},
		{both, workload.Program{Command: []string{"report", "now"}}, "/entry -x report now"},
		{both, workload.Program{Args: []string{"/bin/sh"}}, "/bin/sh"},
		{image.Config{Cmd: []string{"serve"}}, workload.Program{Command: []string{"report"}}, "report"},
		{image.Config{Entrypoint: []string{"/entry"}}, workload.Program{}, "/entry"},
		{image.Config{}, workload.Program{}, ""},
	} {
		spec, err := SpecOf("n", image.Image{Name: "x", Config: test.config}, test.program, record.Condition{})
		if got := strings.Join(spec.Args, " "); got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%+v of %+v runs %q, %v; want %q", test.program, test.config, got, err, test.want)
		}
	}
	program := workload.Program{Args: []string{"a"}, Env: []string{"A=1"}, Dir: "/d", User: "u", Ports: []int{1}, Data: []string{"/data"}}
	spec, err := SpecOf("n", image.Image{}, program, record.Condition{Setting: platform.Setting{CPUs: 1}})
	if err != nil || spec.Name != "n" || !slices.Equal(spec.Env, program.Env) || spec.Dir != "/d" || spec.User != "u" || len(spec.Ports) != 1 || len(spec.Data) != 1 || spec.Setting.CPUs != 1 {
		t.Errorf("%+v, %v", spec, err)
	}
}

// What cannot be executed is found before the first trial.
func TestProcessOf(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "bin/serve"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	img := image.Image{Name: "x", Root: root, Config: image.Config{Cmd: []string{"serve"}, WorkingDir: "/srv", User: "7", Env: []string{"A=1"}}}
	condition := func(p workload.Program) Condition {
		return Condition{Condition: record.Condition{Workload: "w"}, Program: workload.FromCommand(p, workload.Source{})}
	}
	p, err := processOf(condition(workload.Program{}), nil, img)
	if err != nil || p == nil || p.Program != "/bin/serve" || p.Dir != "/srv" || p.User.UID != 7 || !slices.Contains(p.Env, "A=1") {
		t.Errorf("%+v, %v", p, err)
	}
	// A secret is given to the program, and is in no record.
	secret := workload.Program{Env: []string{"TOKEN=secret", "B=2"}, Unrecorded: []string{"TOKEN"}}
	if p, err := processOf(condition(secret), nil, img); err != nil || !slices.Contains(p.Env, "TOKEN=(not recorded)") || !slices.Contains(p.Env, "B=2") {
		t.Errorf("%+v, %v", p, err)
	}
	if spec, err := SpecOf("", img, secret, record.Condition{}); err != nil || !slices.Contains(spec.Env, "TOKEN=secret") {
		t.Errorf("%+v, %v", spec, err)
	}
	for _, program := range []workload.Program{{User: "absent"}, {Dir: "relative"}, {Command: []string{"absent"}}} {
		unfit := new(Unfit)
		if p, err := processOf(condition(program), nil, img); !errors.As(err, &unfit) {
			t.Errorf("%+v: %+v, %v, want an *Unfit", program, p, err)
		}
	}
}
