package gpu

import (
	"fmt"

	"tare/advise"
	"tare/record"
	"tare/stats"
	"tare/study/kit"
)

// worthIt is the least ratio that advice must rest on.
const worthIt = 1.05

// Advice is what a run recommends.
func Advice(run record.Run) []advise.Advice { return readRun(run).advice() }

// advice is what a run recommends for building and running CUDA programs, with its evidence.
func (r reading) advice() []advise.Advice {
	if r.emulated() {
		return nil
	}
	r = r.together(3 + max(1, len(r.shared))) // each rule rests on one ratio, but for that of sharing
	var all []advise.Advice
	for _, rule := range []func() (advise.Advice, bool){
		r.buildForTheDevice, r.keepTheCache, r.pinWhatIsCopied, r.doNotShare,
	} {
		if a, ok := rule(); ok && a.Holds() {
			all = append(all, a)
		}
	}
	return all
}

// where is the platform that advice is given for: the first container, else the baseline.
func (r reading) where() string {
	if containers := r.containers(); len(containers) > 0 {
		return containers[0]
	}
	return r.base()
}

// evidence is a ratio over all subjects that have both conditions.
func (r reading) evidence(says string, a, b pick, metric string) advise.Evidence {
	e := advise.Evidence{Run: r.Run.ID, Says: says, Figure: r.ratio(r.subjects, a, b, metric), Unit: "times"}
	for _, s := range having(r.subjects, a, b) {
		from, _ := s.find(a)
		to, _ := s.find(b)
		e.Conditions = append(e.Conditions, from.ID, to.ID)
	}
	return e
}

// worthwhile reports whether a ratio is established to be large enough for advice.
func worthwhile(e stats.Estimate) bool { return e.Known() && e.Interval.Low > worthIt }

// buildForTheDevice: PTX costs its compilation at each start with a cold cache, in a
// container as elsewhere.
func (r reading) buildForTheDevice() (advise.Advice, bool) {
	on := r.where()
	e := r.evidence(fmt.Sprintf("time from launch to end on %s, PTX with a cold cache against exact code", on),
		pick{platform: on, cell: exact}, pick{platform: on, cell: ptxCold}, "wall")
	return advise.Advice{
		Rule: "build-for-the-device", Source: "S1",
		Set: "build images for the devices that they run on (nvcc -gencode arch=compute_XX,code=sm_XX), and add PTX for later devices",
		For: "CUDA programs that start often, or in fresh containers", Evidence: []advise.Evidence{e},
	}, worthwhile(e.Figure)
}

// keepTheCache: a container's own layer takes the cache of compiled PTX with it when it goes.
func (r reading) keepTheCache() (advise.Advice, bool) {
	on := r.where()
	e := r.evidence(fmt.Sprintf("time from launch to end on %s, a cold cache of compiled PTX against a warm one", on),
		pick{platform: on, cell: ptxWarm}, pick{platform: on, cell: ptxCold}, "wall")
	return advise.Advice{
		Rule: "keep-the-jit-cache", Source: "tare", Set: "put CUDA_CACHE_PATH in a volume that outlives the container",
		For: "CUDA programs whose code is compiled when they start", Unless: "they are built for the exact device",
		Evidence: []advise.Evidence{e},
	}, worthwhile(e.Figure)
}

// pinWhatIsCopied: page-locked memory is copied faster, and containers may lock it.
func (r reading) pinWhatIsCopied() (advise.Advice, bool) {
	on := r.where()
	e := r.evidence("rate of copies to the device on "+on+", from pinned memory against pageable",
		pick{platform: on, cell: exact}, pick{platform: on, cell: pinned}, "to-device-rate")
	return advise.Advice{
		Rule: "pin-what-is-copied", Source: "tare", Set: "use pinned memory (cudaMallocHost) for what is copied often",
		For: "CUDA programs that copy much", Unless: "it is copied once: pinning takes time too",
		Evidence: []advise.Evidence{e},
	}, worthwhile(e.Figure)
}

// doNotShare: a device that containers share takes them in turns.
func (r reading) doNotShare() (advise.Advice, bool) {
	on := r.where()
	for _, s := range r.shared {
		alone, ok := s.with(on, 1)
		two, found := s.with(on, 2)
		if !ok || !found {
			continue
		}
		e := kit.Evidence(r.Run, "timed part of each "+s.name+" on "+on+", two at once against alone", "times",
			r.Ratio(r.PerBlock(alone, "iterate"), r.PerBlock(two, "iterate")), alone, two)
		if worthwhile(e.Figure) {
			return advise.Advice{
				Rule: "one-container-a-device", Source: "tare",
				Set: "give a busy container a device of its own, or an instance of one (MIG)",
				For: "CUDA programs that keep a device busy", Evidence: []advise.Evidence{e},
			}, true
		}
	}
	return advise.Advice{}, false
}

// with finds a subject's condition of so many at once.
func (s subject) with(platform string, n int) (record.Condition, bool) {
	for _, c := range s.all {
		if c.Platform == platform && c.Factors[FactorShare] == number(n) {
			return c, true
		}
	}
	return record.Condition{}, false
}
