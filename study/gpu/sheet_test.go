package gpu

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"tare/claim"
	programs "tare/programs/gpu"
	"tare/record"
	"tare/report"
)

// rendered is a page as a screen shows it, and as HTML.
func rendered(t *testing.T, s report.Sheet) (screen, html string) {
	t.Helper()
	var a, b bytes.Buffer
	if err := report.SheetTerminal(&a, s, report.TerminalOptions{Width: 120}); err != nil {
		t.Fatal(err)
	}
	if err := report.SheetHTML(&b, s); err != nil {
		t.Fatal(err)
	}
	return a.String(), b.String()
}

// everything has a level for whatever a page shows.
func everything(c record.Condition, metric string) float64 {
	l := loses{1, 1.07, 1.12, 1.12}
	if v := l.level(c, metric); v > 0 {
		return v
	}
	switch metric {
	case "outside", "iterate", "step", "to-device-rate", "from-device-rate", "bandwidth", "flops", metricKernelTime, metricLoads, metricSlowest:
		return 2
	case metricOverlap:
		return 90
	}
	return 0
}

func TestSheet(t *testing.T) {
	m := makeRun(t, 3, func(o *Options) {
		o.Share, o.Memories, o.Torch = []int{2}, []string{Pageable, Pinned}, true
		o.Subjects = o.Subjects[1:2]
		o.Host.Found.Torch = &Torch{Root: "/torch-of-a-test", Python: "/usr/bin/python3"}
	}, "docker").fill(everything)
	for i := range m.run.Trials {
		m.run.Trials[i].Attachments = []record.Attachment{{Name: AttachmentResult}}
	}
	attached := func(int64, string) ([]byte, error) {
		return json.Marshal(synthetic([]string{"/gpu/exact/stencil", "--each-kernel"}))
	}
	judgements, err := claim.Settle(m.run, Judge(m.run))
	if err != nil {
		t.Fatal(err)
	}
	s := Study.Sheet(m.run, attached, judgements)
	screen, html := rendered(t, s)
	for _, want := range []string{
		"In docker, CUDA programs take 7.", "Time from launch to end", "Phases of a run", "Extra time of compilation, allocation", "Kernels and API calls", "Time of other builds",
		"Kernels against the limits of the device", "stencil: step", "1600 ", "multiply-adds", "Rate of copies", "Several programs on one device", "PyTorch", "Cost of the activity probe", "What to set", "build for", "S1.13", "S1.14", "S1.15",
		"synthetic device, compute capability 9.0", "stencil: ptx cold", "Conditions and caches",
	} {
		if want == "build for" {
			want = "build images for the devices"
		}
		if !strings.Contains(screen, want) {
			t.Errorf("the screen does not say %q", want)
		}
		if !strings.Contains(html, strings.ReplaceAll(want, "'", "&#39;")) && !strings.Contains(html, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if t.Failed() {
		t.Log(screen)
	}
	if next := Study.NextOf(m.run); next != "tare claims S1" {
		t.Errorf("next %s", next)
	}
	rendered(t, Study.Interim(m.run))
}

// A kernel that was disturbed in a block is compared with the limits in the others alone.
func TestLimitsOfDisturbedBlocks(t *testing.T) {
	m := makeRun(t, 3, func(o *Options) { o.Subjects = []string{programs.Stencil} }).fill(everything)
	timed := readRun(m.run).timed[0].all[0]
	for i := range m.run.Trials {
		trial := &m.run.Trials[i]
		trial.Attachments = []record.Attachment{{Name: AttachmentResult}}
		if trial.Condition == timed.ID && trial.Block == 2 {
			trial.Taint = []string{"steal 7.1 %"}
		}
	}
	r := readRun(m.run)
	r.attached = func(int64, string) ([]byte, error) {
		return json.Marshal(synthetic([]string{"/gpu/exact/stencil", "--each-kernel"}))
	}
	each := r.each(timed, r.peaks())
	if len(each) == 0 {
		t.Fatal("no kernel")
	}
	for _, k := range each {
		if blocks := slices.Sorted(maps.Keys(k.seconds)); !slices.Equal(blocks, []int{1, 3}) {
			t.Errorf("%s: blocks %v", k.name, blocks)
		}
	}
}

// Nothing is shown of what was not measured, and an attachment that cannot be read costs
// its line alone.
func TestSheetOfLittle(t *testing.T) {
	m := makeRun(t, 0, nil, "docker").fill(everything)
	s := Study.Sheet(m.run, func(int64, string) ([]byte, error) { return nil, errors.New("gone") }, nil)
	rendered(t, s)
	if !strings.Contains(s.Answer, "is not known yet") || len(s.Parts) != 0 {
		t.Errorf("%s; %d parts", s.Answer, len(s.Parts))
	}
	if s := Study.Sheet(record.Run{Study: Name}, nil, nil); s.Answer != "Nothing was measured." {
		t.Errorf("%s", s.Answer)
	}
	alone := makeRun(t, 3, func(o *Options) { o.Platforms = []string{Bare}; o.Subjects = o.Subjects[1:2] }).fill(everything)
	s = Study.Sheet(alone.run, nil, nil)
	screen, _ := rendered(t, s)
	if !strings.Contains(s.Answer, "No container ran beside bare metal: the cost of a container is unknown. PTX with a cold cache takes 2.0") || strings.Contains(screen, "longer, %") {
		t.Errorf("%s\n%s", s.Answer, screen)
	}
}
