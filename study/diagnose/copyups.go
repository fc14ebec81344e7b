package diagnose

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"time"

	"tare/kernel/overlay"
)

// leastCopied is how much must have been copied up, in bytes, to be worth a line
// for itself.
const leastCopied = 16 << 20

// copyUps finds files of the image that are opened for writing: the overlay first copies the
// whole file into the container's own layer, and writes it to the disk. It counts files that
// were made in that layer within the watch and have the attribute of a copy, so that new files
// and later writes are not among them.
//
// The time is that of the threads that copied, on a CPU and off it. Off it, it is recorded only
// where files were copied up before that recording began: otherwise the cost is a bound from
// below.
func copyUps(_ *Host, f *Facts) []Finding {
	k := &f.InKernel
	var sum int64
	for _, c := range k.Copied {
		sum += c.Bytes
	}
	used := k.Sampled.time(float64(k.Sampled.CopiedUp))
	cost := Cost{Rate: rate(used, f.Watched) + rate(k.Blocked, k.BlockedIn)}
	if len(k.Copied) == 0 || sum < leastCopied && cost.Rate < leastInKernel {
		return nil
	}
	cost.Events = float64(len(k.Copied)) / f.Span.Seconds()
	cost.Each = time.Duration(cost.Rate / cost.Events * float64(time.Second))
	largest := slices.MaxFunc(k.Copied, func(a, b overlay.Copied) int { return cmp.Compare(a.Bytes, b.Bytes) })
	one := finding(f.Container, CopyUps, cost)
	one.Says = fmt.Sprintf("copies %s/s of its image to write to them", bytes(int64(float64(sum)/f.Span.Seconds())))
	blocked := Fact{"waited for the disk meanwhile", "not measured: the cost is at least what is stated", "sched_switch"}
	if k.BlockedIn > 0 {
		blocked.Value = short(k.Blocked) + " in " + short(k.BlockedIn)
	} else {
		one.Based = Estimated
	}
	files := fmt.Sprintf("%d of %s in %s", len(k.Copied), bytes(sum), short(f.Span))
	if !k.LookedAtAll {
		files += ", of the first that were looked at"
	}
	one.Evidence = []Fact{
		{"files copied up", files, "trusted.overlay.origin and birth time, in the upper layer"},
		{"the largest", fmt.Sprintf("%s of %s", largest.Path, bytes(largest.Bytes)), "upper layer"},
		sampled("copying, on a CPU", f, float64(k.Sampled.CopiedUp)), blocked,
	}
	dir := path.Dir(largest.Path)
	one.Set = []Remedy{
		volumeFor(f.Container, dir, "a volume for "+dir+", which is filled once"),
		{Says: "new files instead of writes to those of the image"},
	}
	return []Finding{one}
}
