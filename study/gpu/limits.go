package gpu

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	programs "tare/programs/gpu"
	"tare/record"
	"tare/report"
	"tare/stats"
)

// peak is what the device does at most, in one block.
type peak struct{ copy, fma float64 } // bytes and floating point operations per second

// takes are the times that work takes at the device's limits: its bytes at the rate of a copy, and its operations
// at that of fused multiply-adds. The longer is the least that a kernel takes (the roofline model: Williams,
// Waterman and Patterson, CACM 52(4), 2009).
func (p peak) takes(k programs.Kernel) (moving, computing float64) {
	return k.Bytes / p.copy, k.Flops / p.fma
}

// peaks are the device's limits by block.
func (r reading) peaks() map[int]peak {
	if len(r.limits) == 0 {
		return nil
	}
	all := map[int]peak{}
	fma := r.PerBlock(r.limits[0], metricFMA)
	for block, rate := range r.PerBlock(r.limits[0], metricCopy) {
		if fma[block] > 0 && rate > 0 {
			all[block] = peak{copy: rate, fma: fma[block]}
		}
	}
	return all
}

// results are what a condition's program printed, by block: of a block's trials the last. Blocks that were
// disturbed are left out, as they are of every metric.
func (r reading) results(c record.Condition) map[int]programs.Result {
	all, counted := map[int]programs.Result{}, r.PerBlock(c, "kernels")
	for _, t := range r.Trials(c) {
		if _, ok := counted[t.Block]; !ok {
			continue
		}
		var result programs.Result
		text, err := r.attached.Of(t, AttachmentResult)
		if err == nil && text != nil && json.Unmarshal(text, &result) == nil {
			all[t.Block] = result
		}
	}
	return all
}

// kernelTimes are one kernel's figures by block, or those of a program's kernels together.
type kernelTimes struct {
	name              string
	seconds, least    map[int]float64 // that they took, and that their work takes at the limits
	moving, computing float64         // of least, what each limit makes it, over all blocks
}

func newKernelTimes(name string) *kernelTimes {
	return &kernelTimes{name: name, seconds: map[int]float64{}, least: map[int]float64{}}
}

func (k *kernelTimes) add(block int, p peak, of programs.Kernel) {
	moving, computing := p.takes(of)
	k.least[block] += max(moving, computing)
	k.moving += moving
	k.computing += computing
}

// limit is that by which the work takes longer.
func (k *kernelTimes) limit() string {
	if k.computing > k.moving {
		return "multiply-adds"
	}
	return "copy in memory"
}

// whole are the kernels of a program together, while no launch is timed by itself.
func (r reading) whole(s subject, peaks map[int]peak) *kernelTimes {
	all := newKernelTimes("all kernels")
	cell, _ := r.firstCell()
	c, ok := s.find(pick{platform: r.base(), cell: cell})
	if !ok {
		return all
	}
	for block, result := range r.results(c) {
		if p, ok := peaks[block]; ok {
			for _, k := range result.Kernels.Each {
				all.add(block, p, k)
			}
			all.seconds[block] = result.Kernels.Seconds
		}
	}
	return all
}

// each are the kernels of a program one by one, in their order.
func (r reading) each(c record.Condition, peaks map[int]peak) []*kernelTimes {
	var all []*kernelTimes
	named := map[string]*kernelTimes{}
	results := r.results(c)
	for _, block := range slices.Sorted(maps.Keys(results)) {
		p, ok := peaks[block]
		if !ok {
			continue
		}
		for _, k := range results[block].Kernels.Each {
			if k.Launches == 0 || k.Seconds == nil {
				continue
			}
			if named[k.Name] == nil {
				named[k.Name] = newKernelTimes(k.Name)
				all = append(all, named[k.Name])
			}
			named[k.Name].add(block, p, k)
			named[k.Name].seconds[block] = *k.Seconds
		}
	}
	return all
}

// smallPart is the share of a program's time below which a kernel has no row.
const smallPart = 0.01

// limitTable compares kernels with the limits of the device.
func (r reading) limitTable() []report.Part {
	peaks := r.peaks()
	if len(peaks) == 0 {
		return nil
	}
	of := r.limits[0]
	t := report.Table{
		Title: "Kernels against the limits of the device",
		Note: fmt.Sprintf("Limits: copy in memory %s GB/s; triad %s GB/s; fused multiply-adds of 32-bit floats %s TFLOP/s; empty launch %s µs. ",
			report.Said(r.Value(of, metricCopy), 1e-9), report.Said(r.Value(of, metricTriad), 1e-9),
			report.Said(r.Value(of, metricFMA), 1e-12), report.Said(r.Value(of, metricLaunch), 1e6)) +
			"Share of limit: the time that a kernel's work takes at the limit, over the time that it took. " +
			"It can exceed 100 % where data stays in the device's cache.",
		Method: "The limits are measured in every block, in the same way as the kernels. " +
			"A kernel's limit is that by which its work takes longer (roofline model). " +
			"Bytes and operations are those that the algorithm needs, and no more. " +
			"Single kernels are timed in trials of their own; those with less than 1 % of the time have no row.",
		Columns: []report.Column{
			{Head: "program: kernel"}, {Head: "part of time, %", Number: true},
			{Head: "share of limit, %", Number: true}, {Head: "limit"},
		},
	}
	row := func(program string, k *kernelTimes, part stats.Estimate) {
		share := r.Ratio(k.seconds, k.least)
		if !known(share) {
			return
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: program + ": " + k.name}, report.Estimated(part, 100), report.Estimated(share, 100), {Text: k.limit()},
		})
	}
	for _, s := range r.subjects {
		row(s.name, r.whole(s, peaks), unmeasured)
		for _, of := range r.timed {
			if of.name != s.name {
				continue
			}
			each, sums := r.each(of.all[0], peaks), map[int]float64{}
			for _, k := range each {
				for block, v := range k.seconds {
					sums[block] += v
				}
			}
			for _, k := range each {
				if part := r.Ratio(sums, k.seconds); part.Value >= smallPart {
					row(s.name, k, part)
				}
			}
		}
	}
	return report.Filled(t)
}
