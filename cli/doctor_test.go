package cli

import (
	"bytes"
	"strings"
	"testing"

	"tare/kernel/host"
	"tare/kernel/nvidia"
	"tare/lab"
	"tare/terminal"
)

// What doctor says of a host's noise follows the limits by which blocks are disturbed.
func TestJudgementOfNoise(t *testing.T) {
	for _, c := range []struct {
		noise noise
		want  string
	}{
		{noise{Foreign: lab.ForeignLimit, Steal: lab.StealLimit}, "quiet"},
		{noise{Foreign: 0.3, Loudest: "cc1"}, "cc1 most"},
		{noise{Steal: 0.3}, "by the hypervisor"},
	} {
		if got := c.noise.judgement(); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q lacks %q", c.noise, got, c.want)
		}
	}
}

// No line is wider than a terminal, and what is said in it is all there.
func TestDoctorFitsAScreen(t *testing.T) {
	long := strings.Repeat("some words of advice ", 12)
	var out bytes.Buffer
	a := &app{out: terminal.To(&out)}
	a.printDiagnosis(diagnosis{
		Commands:  []answer{{Name: "weigh", Mend: long}},
		Platforms: []answer{{Name: "bare", OK: true}, {Name: "docker:rootless", Mend: long}},
		Abilities: []answer{{Name: "swap", Detail: "none", Mend: long}},
		Noise:     &noise{Foreign: 0.3, Loudest: strings.Repeat("cc1 ", 20)},
	})
	for _, line := range strings.Split(out.String(), "\n") {
		if terminal.Columns(line) > 80 || strings.HasSuffix(line, " ") {
			t.Errorf("%d columns: %q", terminal.Columns(line), line)
		}
	}
	if n := strings.Count(out.String(), "advice"); n != 36 {
		t.Errorf("%d of 36 words:\n%s", n, out.String())
	}
}

// Without a GPU the command that measures one cannot run.
func TestDoctorLooksForAGPU(t *testing.T) {
	before := deviceHost
	defer func() { deviceHost = before }()
	deviceHost = nvidia.Host{Root: t.TempDir()}
	for _, r := range requirements {
		if a := r.answer(host.Read("/")); r.commands == "gpu" && (a.OK || !strings.HasPrefix(a.Mend, "requires a GPU (there is no")) {
			t.Errorf("%+v", a)
		}
	}
}
