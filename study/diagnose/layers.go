package diagnose

import (
	"fmt"
	"time"

	"tare/container"
	"tare/report"
	"tare/terminal"
)

const (
	// leastInKernel is the time in each second from which work in the kernel is worth a line, and
	// leastSamples how many samples must have met it.
	leastInKernel = 0.01
	leastSamples  = 20
	// deepPart is the part of the cost from which the number of layers is named as its cause.
	deepPart = 0.25
)

// layers finds files of an image that are looked up and opened so often that the overlay's own
// code takes time. What the layers' file system does for the overlay would be done once without
// it, and is left out to that extent:
//
//   - A name is looked up in each layer that has the directory, and a directory is read of each
//     such layer. The part of one layer is left out. In how many the directories are, some names
//     show that the program looked up meanwhile.
//   - Each file of a layer is opened twice, and so closed twice.
//
// What a write copies up is another finding ([copyUps]).
func layers(_ *Host, f *Facts) []Finding {
	k := &f.InKernel
	own, deep := overlayWork(k)
	if !k.HasLayer || own+deep < leastSamples {
		return nil
	}
	cost := costInKernel(f, own+deep)
	if cost.Rate < leastInKernel {
		return nil
	}
	lookups, half := k.Calls.PerSecond(k.Calls.Lookups)
	inLayer := float64(k.Names.InLayer) / float64(max(1, k.Names.Count))
	does := "uses files" // how many a second is known where the names could be followed
	if cost.Events = lookups * inLayer; cost.Events > 0 {
		cost.Each = time.Duration(cost.Rate / cost.Events * float64(time.Second))
		does = fmt.Sprintf("looks up %s files/s", report.Rounded(cost.Events, 3))
	}
	one := finding(f.Container, Layers, cost)
	one.Based = Estimated
	one.Says = fmt.Sprintf("%s in %d image layers", does, len(k.Layers.Lower))
	opens, _ := k.Calls.PerSecond(k.Calls.Opens)
	one.Evidence = []Fact{
		{"layers below the container's own", fmt.Sprint(len(k.Layers.Lower)), "/proc/PID/mountinfo"},
		{"files looked up", fmt.Sprintf("%s ± %s a second, %s of them opened", report.Rounded(lookups, 3), report.Rounded(half, 2), report.Rounded(opens, 3)), "sys_enter, in windows"},
		{"of these in the image", fmt.Sprintf("%.0f %% (of %d names)", 100*inLayer, k.Names.Count), "sys_enter, mountinfo"},
		{"layers with the same directory", fmt.Sprintf("%s, mean", report.Rounded(max(k.Names.Depth, k.Names.ListedDepth), 3)), "lstat in each layer"},
		sampled("the overlay's own work", f, own),
		sampled("because of more than one layer", f, deep),
	}
	if k.Names.Most != "" {
		one.Evidence = append(one.Evidence, Fact{"most looked up in", k.Names.Most, "sys_enter, in windows"})
	}
	if saved := costInKernel(f, deep).Rate; saved >= deepPart*cost.Rate {
		one.Set = append(one.Set, Remedy{
			Says:    "an image of one layer",
			Command: flattenCommand(f.Container),
			Saves:   saved,
		})
	}
	volume := volumeFor(f.Container, k.Names.Most, "keep files open, or put them in a volume")
	volume.Saves = cost.Rate
	one.Set = append(one.Set, volume)
	return []Finding{one}
}

// overlayWork is, in samples, what the overlay itself does, and what is done because directories
// are in more than one layer.
func overlayWork(k *InKernel) (own, deep float64) {
	s, n := k.Sampled, k.Names
	lookedUp, moreLookedUp := s.LookedUp.split(n.Depth)
	listed, moreListed := s.Listed.split(n.ListedDepth)
	own, deep = float64(s.Overlay)+lookedUp+listed, moreLookedUp+moreListed
	if n.InLayer > 0 && k.Calls.Opens > 0 {
		inLayer := float64(n.InLayer) / float64(n.Count)
		areListed := float64(n.Listed) / float64(n.InLayer)
		files, directories := inLayer*(1-areListed), inLayer*areListed*max(1, n.ListedDepth)
		own += float64(s.Closed) * files / (files + directories + 1)
		deep += float64(s.Closed) * directories / (files + directories + 1)
	}
	return own, deep
}

// costInKernel is what a number of samples costs.
func costInKernel(f *Facts, samples float64) Cost {
	return Cost{Rate: rate(f.InKernel.Sampled.time(samples), f.Watched)}
}

// sampled writes a number of samples as time, with its interval of 95 %.
func sampled(name string, f *Facts, samples float64) Fact {
	s := f.InKernel.Sampled
	return Fact{
		name, fmt.Sprintf("%s ± %s in %s", short(s.time(samples)), short(s.half(samples)), short(f.Watched)),
		fmt.Sprintf("stacks, %.0f of %d samples", samples, s.All),
	}
}

func flattenCommand(c container.Container) string {
	if isEngine(c) {
		return fmt.Sprintf("%s export %s | %[1]s import - NAME", c.Engine, terminal.Shell(c.Name))
	}
	return ""
}

// volumeFor is the remedy of a volume for a directory; the root cannot be one.
func volumeFor(c container.Container, dir, says string) Remedy {
	to := Remedy{Says: says}
	switch {
	case dir == "" || dir == "/":
	case isEngine(c):
		to.Command = "--volume NAME:" + terminal.Shell(dir)
	case c.Engine == container.Kubernetes:
		to.Command = fmt.Sprintf("volumeMounts: [{name: NAME, mountPath: %s}]", terminal.Shell(dir))
	}
	return to
}
