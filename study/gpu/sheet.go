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
	Title: "tare gpu", Judge: Judge, Advice: Advice, Page: page, SoFar: soFar, NextOf: next,
	Note: "S1 (published study of container start-up and sharing) used a GTX 1050, CUDA 8, Docker 18.06, and programs of Rodinia and Parboil. " +
		"Our programs are of the same kinds. Shares and ratios are judged, not times.",
})

func page(run record.Run, attached kit.Attachments) report.Sheet {
	r := readRun(run)
	r.attached = attached
	return report.Sheet{
		Answer: r.answer(), Together: report.HoldTogether, Facts: r.facts(), Banners: r.banners(),
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
		return "These programs ran on a CPU, for a test: their times mean nothing."
	case !ok && len(r.shared) == 0:
		return "Nothing was measured."
	case !ok:
		return r.sharedAnswer()
	case len(containers) == 0:
		text := "No container ran beside " + r.baseline() + ": the cost of a container is unknown."
		e := r.ratio(r.subjects, pick{platform: r.base(), cell: exact}, pick{platform: r.base(), cell: ptxCold}, "wall")
		if known(e) {
			text += fmt.Sprintf(" PTX with a cold cache takes %s times as long from launch to end as code for the exact device.",
				report.Said(e, 1))
		}
		return text
	}
	on := containers[0]
	r = r.together(3)
	all, inside := r.slower(r.subjects, on, c, "wall"), r.slower(r.subjects, on, c, "total")
	kernels := r.slower(r.subjects, on, c, "kernels")
	if !all.Known() {
		return fmt.Sprintf("The cost of %s for a CUDA program is not known yet: an interval requires three blocks.", on)
	}
	text := fmt.Sprintf("In %s, CUDA programs take %s %% longer from launch to end than on %s.", on, report.Said(all, 1), r.baseline())
	var parts []string
	if inside.Known() {
		parts = append(parts, "from the program's main on, "+report.Said(inside, 1)+" %")
	}
	if kernels.Known() {
		parts = append(parts, "its kernels alone, "+report.Said(kernels, 1)+" %")
	}
	if len(parts) > 0 {
		text += " " + kit.Sentence(strings.Join(parts, "; "))
	}
	return text
}

// baseline is the baseline's platform in a sentence.
func (r reading) baseline() string {
	if r.base() == Bare {
		return "bare metal"
	}
	return r.base()
}

func (r reading) sharedAnswer() string {
	s, on := r.shared[0], r.where()
	alone, ok := s.with(on, 1)
	for n := 2; ok && n <= MostShare; n++ {
		if c, found := s.with(on, n); found {
			e := r.Ratio(r.PerBlock(alone, "iterate"), r.PerBlock(c, "iterate"))
			if known(e) {
				return fmt.Sprintf("With %d programs at once on one device, each %s takes %s times as long as alone (on %s).",
					n, s.name, report.Said(e, 1), on)
			}
		}
	}
	return "Nothing was measured."
}

// device is the one that the programs ran on, by the first result that can be read.
func (r reading) device() (result programs.Result, ok bool) {
	for _, t := range r.Run.Trials {
		if t.Error != "" {
			continue
		}
		text, err := r.attached.Of(t, AttachmentResult)
		if err == nil && json.Unmarshal(text, &result) == nil && result.Device.Name != "" {
			return result, true
		}
	}
	return programs.Result{}, false
}

func (r reading) facts() []string {
	var own []string
	if of, ok := r.device(); ok {
		d := of.Device
		text := fmt.Sprintf("device: %s, compute capability %s, %d multiprocessors, %.0f GiB",
			d.Name, d.ComputeCapability, d.Multiprocessors, float64(d.MemoryBytes)/(1<<30))
		if d.MIG {
			text += ", an instance of a divided device (MIG)"
		}
		if d.ComputeMode != "" && d.ComputeMode != "default" {
			text += ", compute mode " + d.ComputeMode
		}
		own = []string{text, fmt.Sprintf("CUDA: driver %s, programs %s", of.Versions.Driver, of.Versions.Runtime)}
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
		more = append(more, "emulated: the programs ran on a CPU, for a test. No figure here is of a device")
	}
	return report.RunBanners(r.Reading, more...)
}

func (r reading) parts() []report.Part {
	var parts []report.Part
	for _, part := range []func() []report.Part{
		r.phaseBars, r.endToEndTable, r.callTable, r.splitTable, r.buildTable, r.limitTable, r.memoryTable,
		r.sharedTable,
		r.torchTable, r.probeTable,
	} {
		parts = append(parts, part()...)
	}
	if len(parts) > 0 {
		parts = append(parts, r.about())
	}
	return parts
}

// rowName names a subject in a cell.
func rowName(s subject, c cell) report.Cell { return report.Cell{Text: s.name + ": " + c.text()} }

// measuredAny reports whether any estimate has a value.
func measuredAny(all ...stats.Estimate) bool { return slices.ContainsFunc(all, known) }

// endToEndTable compares every container with the baseline.
func (r reading) endToEndTable() []report.Part {
	t := report.Table{
		Title: "Time from launch to end",
		Note:  cellsNote,
		Method: "Conditions are compared in the same blocks. From main on is by the program's own clock. " +
			"The cache is the driver's, of compiled PTX.",
		Columns: []report.Column{{Head: "program: code"}, {Head: r.base() + ", s", Number: true}},
	}
	containers := r.containers()
	if len(containers) > 0 {
		t.Note = "Longer: against " + r.base() + "; negative is shorter. From main on: without the container's start and end. " + cellsNote
	}
	for _, name := range containers {
		t.Columns = append(t.Columns,
			report.Column{Head: name + " longer, %", Number: true},
			report.Column{Head: name + " from main on, longer, %", Number: true, Optional: true})
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

// cellsNote explains the names of cells.
const cellsNote = "Code: exact is for this device, ptx is compiled by the driver, with a cold or a warm cache."

// phases are the segments of a bar.
var phases = []struct{ name, metric string }{
	{"outside of main", "outside"}, {"context", "start"}, {"loading kernels", "module"}, {"host's memory", "host-memory"},
	{"input", "prepare"}, {"cudaMalloc", "allocate"}, {"to device", "to-device"}, {"warming up", "warmup"},
	{"kernels and waiting", "iterate"}, {"from device", "from-device"}, {"cudaFree", "free"}, {"context's end", "end"},
}

// phaseBars show where the time goes, of exact code and of PTX with a cold cache.
func (r reading) phaseBars() []report.Part {
	b := report.Bars{
		Title: "Phases of a run", Unit: "ms",
		Note:   "Outside of main are the container's start and end, and the linker.",
		Method: "Phases follow one another, by the program's own clock. Outside of main is the rest of the time from launch to end.",
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

// callTable compares the calls in a container with those on the baseline.
func (r reading) callTable() []report.Part {
	t := report.Table{
		Title:  "Extra time of compilation, allocation, copies and kernels against " + r.base() + ", %",
		Note:   "Loading: of all kernels. With PTX and a cold cache this is their compilation.",
		Method: "By the program's own clock; kernels by the device's events.",
		Columns: []report.Column{
			{Head: "program: code, platform"}, {Head: "loading", Number: true}, {Head: "cudaMalloc", Number: true},
			{Head: "to device", Number: true}, {Head: "from device", Number: true}, {Head: "kernels", Number: true},
			{Head: "context", Number: true, Optional: true},
		},
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
		Title: "Kernels and API calls, by the activity probe",
		Note:  "Shares are of the sum of all kernels' and all calls' times, as in claim S1.13. Kernels and calls overlap in time.",
		Method: "Compiling is as CUPTI reports it, where it does. Loading is modules, linking and first launches. " +
			"Trials under the probe are compared only with one another.",
		Columns: []report.Column{
			{Head: "program: code, platform"}, {Head: "kernels, %", Number: true}, {Head: "calls, %", Number: true},
			{Head: "kernels, ms", Number: true}, {Head: "calls, ms", Number: true}, {Head: "loading, ms", Number: true},
			{Head: "compiling, ms", Number: true}, {Head: "cudaMalloc, ms", Number: true, Optional: true},
			{Head: "lost", Number: true, Optional: true},
		},
	}
	for _, s := range r.subjects {
		for _, c := range r.cells() {
			for _, name := range append([]string{r.base()}, r.containers()...) {
				p := pick{name, c, true}
				of, ok := s.find(p)
				if !ok || !known(r.Value(of, metricAPITime)) {
					continue
				}
				row := []report.Cell{
					{Text: s.name + ": " + c.text() + ", " + name},
					report.Estimated(r.Value(of, metricKernelShare), 1),
					report.Estimated(r.Value(of, metricAPIShare), 1),
				}
				for _, metric := range []string{metricKernelTime, metricAPITime, metricLoads, metricCompile,
					metricMalloc} {
					row = append(row, report.Estimated(r.Value(of, metric), 1e3))
				}
				t.Rows = append(t.Rows, append(row, report.Estimated(r.Value(of, metricLost), 1)))
			}
		}
	}
	return report.Filled(t)
}

// buildTable compares builds and caches with exact code, on every platform.
func (r reading) buildTable() []report.Part {
	t := report.Table{
		Title:   "Time of other builds, as a multiple of exact code",
		Note:    "Time from launch to end, over that of exact code on the same platform.",
		Method:  "In the same blocks, over all programs that have both.",
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

// memoryTable compares pinned memory with pageable.
func (r reading) memoryTable() []report.Part {
	t := report.Table{
		Title:  "Rate of copies with pinned and pageable memory, GB/s",
		Method: "Exact code.",
		Columns: []report.Column{
			{Head: "program, platform"}, {Head: "to device, pageable", Number: true}, {Head: "to device, pinned", Number: true},
			{Head: "from device, pageable", Number: true}, {Head: "from device, pinned", Number: true},
		},
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

// sharedTable shows the time of each of several programs at once.
func (r reading) sharedTable() []report.Part {
	t := report.Table{
		Title: "Several programs on one device",
		Note: "Times are multiples of those of one program alone on the same platform. On a device that serves N programs in turns, each takes N times as long. " +
			"Overlap: the part of the timed repetitions in which all ran. Below 100 %, times are too low.",
		Method: "Timed part: each program's timed repetitions, by its own clock.",
		Columns: []report.Column{
			{Head: "program, platform"}, {Head: "programs", Number: true}, {Head: "timed part, times", Number: true},
			{Head: "launch to end, times", Number: true}, {Head: "overlap, %", Number: true},
		},
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
				timed := r.Ratio(r.PerBlock(alone, "iterate"), r.PerBlock(c, "iterate"))
				wall := r.Ratio(r.PerBlock(alone, "wall"), r.PerBlock(c, "wall"))
				if c.ID != alone.ID && !measuredAny(timed, wall) {
					continue
				}
				row := []report.Cell{
					{Text: s.name + ", " + name}, {Text: c.Factors[FactorShare]}, report.Estimated(timed, 1),
					report.Estimated(wall, 1), report.Estimated(r.Value(c, metricOverlap), 1),
				}
				if c.ID == alone.ID {
					row[2] = report.Cell{Text: "alone", Tone: report.Faint}
					row[3] = row[2]
				}
				t.Rows = append(t.Rows, row)
			}
		}
	}
	return report.Filled(t)
}

// torchTable compares PyTorch's steps in containers with the baseline's.
func (r reading) torchTable() []report.Part {
	t := report.Table{
		Title:  "PyTorch: a small convolutional network",
		Note:   "Longer: against " + r.base() + ".",
		Method: "Steps are timed by the device's events; importing PyTorch and making the context by the host's clock.",
		Columns: []report.Column{
			{Head: "task, platform"}, {Head: "step, ms", Number: true}, {Head: "step longer, %", Number: true},
			{Head: "launch to end, s", Number: true}, {Head: "launch to end longer, %", Number: true},
			{Head: "import, s", Number: true, Optional: true},
		},
	}
	for _, s := range r.torch {
		for _, c := range s.all {
			step, wall := r.Value(c, "step"), r.Value(c, "wall")
			if !measuredAny(step, wall) {
				continue
			}
			baseline := report.Cell{Text: "baseline", Tone: report.Faint}
			row := []report.Cell{
				{Text: s.name + ", " + c.Platform}, report.Estimated(step, 1e3), baseline,
				report.Estimated(wall, 1), baseline, report.Estimated(r.Value(c, "import"), 1),
			}
			i := slices.IndexFunc(s.all, func(b record.Condition) bool { return b.Baseline })
			if i >= 0 && !c.Baseline {
				row[2] = report.Estimated(r.Ratio(r.PerBlock(s.all[i], "step"), r.PerBlock(c, "step")).PercentMore(), 1)
				row[4] = report.Estimated(r.Ratio(r.PerBlock(s.all[i], "wall"), r.PerBlock(c, "wall")).PercentMore(), 1)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return report.Filled(t)
}

// probeTable shows the cost of the probe.
func (r reading) probeTable() []report.Part {
	t := report.Table{
		Title:   "Cost of the activity probe",
		Note:    "Time from launch to end under the probe, as a multiple of that without. No other table mixes the two.",
		Method:  "On the same platform, in the same blocks.",
		Columns: []report.Column{{Head: "program: code, platform"}, {Head: "time, multiple", Number: true}},
	}
	for _, s := range r.subjects {
		for _, c := range r.cells() {
			for _, name := range append([]string{r.base()}, r.containers()...) {
				e := r.ratio([]subject{s}, pick{platform: name, cell: c}, pick{name, c, true}, "wall")
				if known(e) {
					t.Rows = append(t.Rows, []report.Cell{
						{Text: s.name + ": " + c.text() + ", " + name}, report.Estimated(e, 1),
					})
				}
			}
		}
	}
	return report.Filled(t)
}

func (r reading) about() report.Prose {
	text := "All platforms run the same binaries from the same root, with the same device nodes and driver libraries. " +
		"They write to the same file system of the host, and have the same seed within a block. " +
		"tare holds the devices open, so that the driver keeps them initialized between programs.\n\n" +
		"With a cold cache, each trial has an empty directory for compiled PTX (CUDA_CACHE_PATH). " +
		"With a warm cache, the same program ran once before, untimed, with the same directory. " +
		"Trials of the warm-up block are small, and compare their results with a reference on the CPU."
	if r.base() == Direct {
		text += "\n\nThis host can make neither roots nor control groups: programs were started directly, from the host's own files. " +
			"There is no platform to compare."
	}
	return report.Prose{Title: "Conditions and caches", Text: text}
}
