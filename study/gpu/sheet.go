package gpu

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"tare/advise"
	programs "tare/programs/gpu"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/kit"
)

// Study is what the command and the page need of it. With attachments a page names the device
// as the programs saw it.
var Study = kit.Alone(kit.Member{
	Title: "tare gpu", Judge: Judge, Page: page, SoFar: soFar, NextOf: next,
	Note: "S1 had a GTX 1050, CUDA 8 and Docker 18.06, and programs of Rodinia and Parboil; ours are of the same kinds. Shares and ratios are judged, not times.",
})

func page(run record.Run, attached kit.Attachments) report.Sheet {
	r := readRun(run)
	return report.Sheet{
		Answer: r.answer(), Together: report.HoldTogether, Facts: r.facts(attached), Banners: r.banners(),
		Parts: append(r.parts(), advise.Part(r.advice())...), Weight: kit.OwnTime(r.Reading, ""),
	}
}

func soFar(run record.Run) report.Sheet {
	r := readRun(only(run, "wall", "total", "kernels"))
	return report.Sheet{Answer: r.answer(), Parts: r.endToEndTable()}
}

// next proposes what to run after a run.
func next(run record.Run) string {
	r := readRun(only(run))
	if len(r.subjects) > 0 && len(r.containers()) > 0 && len(r.shared) == 0 {
		return "tare gpu --share 1,2,4,8"
	}
	return "tare claims S1"
}

// answer is the sentence that the reader came for.
func (r reading) answer() string {
	c, ok := r.firstCell()
	containers := r.containers()
	switch {
	case r.emulated():
		return "These programs ran on a CPU, for a test: none of their times mean anything."
	case !ok && len(r.shared) == 0:
		return "Nothing was measured."
	case !ok:
		return r.sharedAnswer()
	case len(containers) == 0:
		if e := r.ratio(r.subjects, pick{platform: r.base(), cell: exact}, pick{platform: r.base(), cell: ptxCold}, "wall"); known(e) {
			return fmt.Sprintf("No container ran beside %s; there PTX with a cold cache takes %s times as long from launch to end as code for the exact device.", r.base(), report.Said(e, 1))
		}
		return fmt.Sprintf("No container ran beside %s: what containing a CUDA program costs cannot be told here.", r.base())
	}
	on := containers[0]
	r = r.together(3)
	all, inside, kernels := r.slower(r.subjects, on, c, "wall"), r.slower(r.subjects, on, c, "total"), r.slower(r.subjects, on, c, "kernels")
	if !all.Known() {
		return fmt.Sprintf("What %s costs a CUDA program cannot be told yet: an interval takes three blocks.", on)
	}
	text := fmt.Sprintf("In %s a CUDA program takes %s %% longer from launch to end than on %s", on, report.Said(all, 1), r.base())
	if inside.Known() {
		text += fmt.Sprintf(", %s %% from its main on", report.Said(inside, 1))
	}
	if kernels.Known() {
		text += fmt.Sprintf(", and its kernels %s %%", report.Said(kernels, 1))
	}
	return text + "."
}

func (r reading) sharedAnswer() string {
	s, on := r.shared[0], r.where()
	alone, ok := s.with(on, 1)
	for n := 2; ok && n <= MostShare; n++ {
		if c, found := s.with(on, n); found {
			e := r.Ratio(r.PerBlock(alone, "iterate"), r.PerBlock(c, "iterate"))
			if known(e) {
				return fmt.Sprintf("With %d at once on one device, %s takes %s times as long on %s as alone.", n, s.name, report.Said(e, 1), on)
			}
		}
	}
	return "Nothing was measured."
}

// device is the one that the programs ran on, by the first result that can be read.
func (r reading) device(attached kit.Attachments) (result programs.Result, ok bool) {
	for _, t := range r.Run.Trials {
		if t.Error != "" {
			continue
		}
		text, err := attached.Of(t, AttachmentResult)
		if err == nil && json.Unmarshal(text, &result) == nil && result.Device.Name != "" {
			return result, true
		}
	}
	return programs.Result{}, false
}

func (r reading) facts(attached kit.Attachments) []string {
	var own []string
	if of, ok := r.device(attached); ok {
		d := of.Device
		text := fmt.Sprintf("device: %s, compute capability %s, %d multiprocessors, %.0f GiB", d.Name, d.ComputeCapability, d.Multiprocessors, float64(d.MemoryBytes)/(1<<30))
		if d.MIG {
			text += ", an instance of a divided device (MIG)"
		}
		if d.ComputeMode != "" && d.ComputeMode != "default" {
			text += ", compute mode " + d.ComputeMode
		}
		own = []string{text, fmt.Sprintf("CUDA: %s of the driver, %s of the programs", of.Versions.Driver, of.Versions.Runtime)}
	}
	var names []string
	for _, s := range slices.Concat(r.subjects, r.shared, r.torch) {
		names = append(names, s.name)
	}
	return kit.Facts(r.Reading, "workload: "+strings.Join(kit.Once(names), ", "), own...)
}

func (r reading) banners() []string {
	var more []string
	if r.emulated() {
		more = append(more, "emulated: the programs ran on a CPU, for a test; no figure here is of a device")
	}
	return report.RunBanners(r.Reading, more...)
}

func (r reading) parts() []report.Part {
	var parts []report.Part
	for _, part := range []func() []report.Part{r.endToEndTable, r.phaseBars, r.callTable, r.splitTable, r.buildTable, r.limitTable, r.memoryTable, r.sharedTable, r.torchTable, r.probeTable} {
		parts = append(parts, part()...)
	}
	if len(parts) > 0 {
		parts = append(parts, r.about())
	}
	return parts
}

// rowName names a subject in a cell.
func rowName(s subject, c cell) report.Cell { return report.Cell{Text: s.name + ": " + c.text()} }

// measuredAny tells whether any estimate has a value.
func measuredAny(all ...stats.Estimate) bool { return slices.ContainsFunc(all, known) }

// endToEndTable sets every container against the baseline.
func (r reading) endToEndTable() []report.Part {
	t := report.Table{
		Title:   "From launch to end",
		Note:    "Longer: against " + r.base() + " in the same cell and the same blocks; negative is shorter. From main on: by the program's own clock, without the container's start and end. Cells: which code the binary holds (exact: for this device; ptx: compiled by the driver), the driver's cache, and the host's memory where that is pinned.",
		Columns: []report.Column{{Head: "program: cell"}, {Head: r.base() + ", s", Number: true}},
	}
	containers := r.containers()
	for _, name := range containers {
		t.Columns = append(t.Columns, report.Column{Head: name + " longer, %", Number: true}, report.Column{Head: "from main on, %", Number: true, Optional: true})
	}
	for _, s := range r.subjects {
		for _, c := range r.cells() {
			base := r.level([]subject{s}, pick{platform: r.base(), cell: c}, "wall")
			row, any := []report.Cell{rowName(s, c), report.Estimated(base, 1)}, known(base)
			for _, name := range containers {
				wall, total := r.slower([]subject{s}, name, c, "wall"), r.slower([]subject{s}, name, c, "total")
				any = any || measuredAny(wall, total)
				row = append(row, report.Estimated(wall, 1), report.Estimated(total, 1))
			}
			if any {
				t.Rows = append(t.Rows, row)
			}
		}
	}
	return report.Filled(t)
}

// phases are what a bar is made of.
var phases = []struct{ name, metric string }{
	{"outside of main", "outside"}, {"context", "start"}, {"loading kernels", "module"}, {"host's memory", "host-memory"}, {"input", "prepare"}, {"cudaMalloc", "allocate"},
	{"to device", "to-device"}, {"warming up", "warmup"}, {"kernels and waiting", "iterate"}, {"from device", "from-device"}, {"cudaFree", "free"}, {"context's end", "end"},
}

// phaseBars show where the time goes, of exact code and of PTX with a cold cache.
func (r reading) phaseBars() []report.Part {
	b := report.Bars{
		Title: "Where the time goes", Unit: "ms",
		Note: "Phases by the program's own clock, one after another; outside of main is what the launch to the end has besides: the container's start and end, the linker.",
	}
	for _, s := range r.subjects {
		for _, c := range []cell{exact, ptxCold} {
			for _, name := range append([]string{r.base()}, r.containers()...) {
				bar := report.Bar{Label: s.name + ": " + c.text() + ", " + name}
				for _, p := range phases {
					if e := r.level([]subject{s}, pick{platform: name, cell: c}, p.metric); known(e) {
						seg := report.Segment{Name: p.name, Value: 1e3 * e.Value, Faint: p.metric == "outside"}
						if e.Known() {
							seg.Low, seg.High = 1e3*e.Interval.Low, 1e3*e.Interval.High
						}
						bar.Segments = append(bar.Segments, seg)
					}
				}
				if len(bar.Segments) > 0 {
					b.Rows = append(b.Rows, bar)
				}
			}
		}
	}
	return report.Filled(b)
}

// callTable sets the calls of a container against those of the baseline.
func (r reading) callTable() []report.Part {
	t := report.Table{
		Title: "Compilation, allocation, copies: longer than on " + r.base() + ", %",
		Note:  "By the program's own clock. Loading is that of all kernels: with PTX and a cold cache their compilation. The device's kernels are by its own events.",
		Columns: []report.Column{{Head: "program: cell, where"}, {Head: "loading", Number: true}, {Head: "cudaMalloc", Number: true}, {Head: "to device", Number: true},
			{Head: "from device", Number: true}, {Head: "kernels", Number: true}, {Head: "context", Number: true, Optional: true}},
	}
	for _, s := range r.subjects {
		for _, c := range r.cells() {
			for _, name := range r.containers() {
				row, any := []report.Cell{{Text: s.name + ": " + c.text() + ", " + name}}, false
				for _, metric := range []string{"module", "allocate", "to-device", "from-device", "kernels", "start"} {
					e := r.slower([]subject{s}, name, c, metric)
					any = any || known(e)
					row = append(row, report.Estimated(e, 1))
				}
				if any {
					t.Rows = append(t.Rows, row)
				}
			}
		}
	}
	return report.Filled(t)
}

// splitTable shows the parts of kernels and calls, by the probe.
func (r reading) splitTable() []report.Part {
	t := report.Table{
		Title: "Kernels and calls of the API, by the activity probe",
		Note: "As S1.13 has it: the sum of all kernels' times and that of all calls', each over both together, though they overlap in time. Compiling is CUPTI's, where it tells; " +
			"loading is modules, linking and first launches. Trials under the probe are compared with one another alone.",
		Columns: []report.Column{{Head: "program: cell, where"}, {Head: "kernels, %", Number: true}, {Head: "calls, %", Number: true}, {Head: "kernels, ms", Number: true}, {Head: "calls, ms", Number: true},
			{Head: "loading, ms", Number: true}, {Head: "compiling, ms", Number: true}, {Head: "cudaMalloc, ms", Number: true, Optional: true}, {Head: "lost", Number: true, Optional: true}},
	}
	for _, s := range r.subjects {
		for _, c := range r.cells() {
			for _, name := range append([]string{r.base()}, r.containers()...) {
				p := pick{name, c, true}
				of, ok := s.find(p)
				if !ok || !known(r.Value(of, metricAPITime)) {
					continue
				}
				row := []report.Cell{{Text: s.name + ": " + c.text() + ", " + name}, report.Estimated(r.Value(of, metricKernelShare), 1), report.Estimated(r.Value(of, metricAPIShare), 1)}
				for _, metric := range []string{metricKernelTime, metricAPITime, metricLoads, metricCompile, metricMalloc} {
					row = append(row, report.Estimated(r.Value(of, metric), 1e3))
				}
				t.Rows = append(t.Rows, append(row, report.Estimated(r.Value(of, metricLost), 1)))
			}
		}
	}
	return report.Filled(t)
}

// buildTable sets the builds and caches against exact code, on every platform.
func (r reading) buildTable() []report.Part {
	t := report.Table{
		Title:   "What the build costs: times as long from launch to end as exact code",
		Note:    "On the same platform, in the same blocks, over all programs that have both.",
		Columns: []report.Column{{Head: "build and cache"}},
	}
	names := append([]string{r.base()}, r.containers()...)
	for _, name := range names {
		t.Columns = append(t.Columns, report.Column{Head: name, Number: true})
	}
	for _, c := range r.cells() {
		if c.memory != Pageable || c == exact {
			continue
		}
		row, any := []report.Cell{{Text: c.text()}}, false
		for _, name := range names {
			e := r.ratio(r.subjects, pick{platform: name, cell: exact}, pick{platform: name, cell: c}, "wall")
			any = any || known(e)
			row = append(row, report.Estimated(e, 1))
		}
		if any {
			t.Rows = append(t.Rows, row)
		}
	}
	return report.Filled(t)
}

// limitTable shows how near kernels are to what the device does.
func (r reading) limitTable() []report.Part {
	if len(r.limits) == 0 {
		return nil
	}
	of := r.limits[0]
	t := report.Table{
		Title: "Kernels against the device's own limits",
		Note: fmt.Sprintf("Measured beside them in every block by the same manner: a copy in memory %s GB/s, triad %s GB/s, fused multiply-adds of 32-bit floats %s TFLOP/s, one empty launch after another %s us. "+
			"Bytes and operations are those that the algorithm needs, and no more.",
			report.Said(r.Value(of, metricCopy), 1e-9), report.Said(r.Value(of, metricTriad), 1e-9), report.Said(r.Value(of, metricFMA), 1e-12), report.Said(r.Value(of, metricLaunch), 1e6)),
		Columns: []report.Column{{Head: "program"}, {Head: "GB/s", Number: true}, {Head: "GFLOP/s", Number: true}, {Head: "of the limit, %", Number: true}, {Head: "the limit"}},
	}
	c, ok := r.firstCell()
	for _, s := range r.subjects {
		p := pick{platform: r.base(), cell: c}
		share, name := r.share(s, p)
		if !ok || !known(share) {
			continue
		}
		t.Rows = append(t.Rows, []report.Cell{{Text: s.name}, report.Estimated(r.level([]subject{s}, p, "bandwidth"), 1e-9), report.Estimated(r.level([]subject{s}, p, "flops"), 1e-9), report.Estimated(share, 100), {Text: name}})
	}
	return report.Filled(t)
}

// memoryTable sets pinned memory against pageable.
func (r reading) memoryTable() []report.Part {
	t := report.Table{
		Title:   "Copies from and to pinned memory, and pageable",
		Note:    "Rates in GB/s, exact code.",
		Columns: []report.Column{{Head: "program, where"}, {Head: "to, pageable", Number: true}, {Head: "to, pinned", Number: true}, {Head: "from, pageable", Number: true}, {Head: "from, pinned", Number: true}},
	}
	for _, s := range r.subjects {
		for _, name := range append([]string{r.base()}, r.containers()...) {
			row, any := []report.Cell{{Text: s.name + ", " + name}}, false
			for _, metric := range []string{"to-device-rate", "from-device-rate"} {
				for _, c := range []cell{exact, pinned} {
					e := r.level([]subject{s}, pick{platform: name, cell: c}, metric)
					any = any || known(e) && c == pinned
					row = append(row, report.Estimated(e, 1e-9))
				}
			}
			if any {
				t.Rows = append(t.Rows, row)
			}
		}
	}
	return report.Filled(t)
}

// sharedTable shows what several at once do to each.
func (r reading) sharedTable() []report.Part {
	t := report.Table{
		Title: "Several with one device",
		Note: "Timed part: each one's timed repetitions, as its own host's side saw them, against alone on the same platform. A device that is taken in turns has N times as long for N. " +
			"At once: for how much of their timed parts all ran; what is below 100 % flatters.",
		Columns: []report.Column{{Head: "program, where"}, {Head: "at once", Number: true}, {Head: "timed part, times", Number: true}, {Head: "launch to end, times", Number: true}, {Head: "all at once, %", Number: true}},
	}
	for _, s := range r.shared {
		for _, name := range append([]string{r.base()}, r.containers()...) {
			alone, ok := s.with(name, 1)
			if !ok {
				continue
			}
			for _, c := range s.all {
				if c.Platform != name {
					continue
				}
				timed, wall := r.Ratio(r.PerBlock(alone, "iterate"), r.PerBlock(c, "iterate")), r.Ratio(r.PerBlock(alone, "wall"), r.PerBlock(c, "wall"))
				if c.ID != alone.ID && !measuredAny(timed, wall) {
					continue
				}
				row := []report.Cell{{Text: s.name + ", " + name}, {Text: c.Factors[FactorShare]}, report.Estimated(timed, 1), report.Estimated(wall, 1), report.Estimated(r.Value(c, metricOverlap), 1)}
				if c.ID == alone.ID {
					row[2], row[3] = report.Cell{Text: "alone", Tone: report.Faint}, report.Cell{Text: "alone", Tone: report.Faint}
				}
				t.Rows = append(t.Rows, row)
			}
		}
	}
	return report.Filled(t)
}

// torchTable sets PyTorch's steps in containers against the baseline's.
func (r reading) torchTable() []report.Part {
	t := report.Table{
		Title:   "PyTorch: a small convolutional network",
		Note:    "A step by the device's events; importing PyTorch and making the context by the host's clock. Longer: against " + r.base() + ", %.",
		Columns: []report.Column{{Head: "task, where"}, {Head: "step, ms", Number: true}, {Head: "longer, %", Number: true}, {Head: "launch to end, s", Number: true}, {Head: "longer, %", Number: true}, {Head: "import, s", Number: true, Optional: true}},
	}
	for _, s := range r.torch {
		for _, c := range s.all {
			step, wall := r.Value(c, "step"), r.Value(c, "wall")
			if !measuredAny(step, wall) {
				continue
			}
			row := []report.Cell{{Text: s.name + ", " + c.Platform}, report.Estimated(step, 1e3), {Text: "baseline", Tone: report.Faint}, report.Estimated(wall, 1), {Text: "baseline", Tone: report.Faint}, report.Estimated(r.Value(c, "import"), 1)}
			if i := slices.IndexFunc(s.all, func(b record.Condition) bool { return b.Baseline }); i >= 0 && !c.Baseline {
				row[2] = report.Estimated(r.Ratio(r.PerBlock(s.all[i], "step"), r.PerBlock(c, "step")).PercentMore(), 1)
				row[4] = report.Estimated(r.Ratio(r.PerBlock(s.all[i], "wall"), r.PerBlock(c, "wall")).PercentMore(), 1)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return report.Filled(t)
}

// probeTable shows what looking costs.
func (r reading) probeTable() []report.Part {
	t := report.Table{
		Title:   "What the activity probe costs",
		Note:    "Times as long from launch to end under the probe as without, on the same platform and in the same blocks. No other table mixes the two.",
		Columns: []report.Column{{Head: "program: cell, where"}, {Head: "times", Number: true}},
	}
	for _, s := range r.subjects {
		for _, c := range r.cells() {
			for _, name := range append([]string{r.base()}, r.containers()...) {
				if e := r.ratio([]subject{s}, pick{platform: name, cell: c}, pick{name, c, true}, "wall"); known(e) {
					t.Rows = append(t.Rows, []report.Cell{{Text: s.name + ": " + c.text() + ", " + name}, report.Estimated(e, 1)})
				}
			}
		}
	}
	return report.Filled(t)
}

func (r reading) about() report.Prose {
	text := "Bare metal and containers run the same binaries from the same root, are given the same device nodes and the driver's same libraries, and write to the same file system of the host; the seed is the same within a block. tare holds the devices open meanwhile, so that the driver keeps them initialized between programs. " +
		"With a cold cache each trial has an empty directory of its own for compiled PTX (CUDA_CACHE_PATH); with a warm one the same program ran once before, untimed, in the same place. Trials of the warm-up block are small and compare their results with a reference on the CPU."
	if r.base() == Direct {
		text += "\n\nHere programs were started directly, by this host's own files, since neither roots nor groups can be made: nothing is set against that."
	}
	return report.Prose{Title: "What is measured", Text: text}
}
