package claim

import "slices"

// Abilities are what of a host bears on which claims its runs can decide.
type Abilities struct {
	CPUs     int
	Counters bool // the processor counts instructions for us
	KVM      bool // virtual machines run without emulation
	GPU      bool // a CUDA program can run
	Clock    bool // the processors' clock rate can be read
}

// Need is what a host must have for its runs to decide a claim.
type Need struct {
	Host string // one that has it, in words: "a host with an NVIDIA GPU"
	// Part is what stays open without it; empty is the whole claim, for which nothing need be run then.
	Part string
	// Open tells that the verdict stays open with that part: a run shows the rest of the claim, and
	// decides nothing.
	Open bool
	met  func(Abilities) bool
}

// Unmet are the needs of a claim that a host does not meet.
func (c Claim) Unmet(on Abilities) (unmet []Need) {
	for _, n := range c.Needs {
		if !n.met(on) {
			unmet = append(unmet, n)
		}
	}
	return unmet
}

// Elsewhere names the host that could decide a claim; empty where this one can, or decides a part of it.
func (c Claim) Elsewhere(on Abilities) string {
	for _, n := range c.Unmet(on) {
		if n.Part == "" {
			return n.Host
		}
	}
	return ""
}

// Open tells whether a run on a host shows a part of a claim, and cannot decide it.
func (c Claim) Open(on Abilities) bool {
	return slices.ContainsFunc(c.Unmet(on), func(n Need) bool { return n.Open })
}

// The needs of claims. One with a part is given it by [Need.partly] or [Need.leavesOpen].
var (
	needsCounters = Need{
		Host: "a host whose processor counts instructions (a virtual machine needs a virtual PMU)",
		met:  func(on Abilities) bool { return on.Counters },
	}
	needsGPU = Need{
		Host: "a host with an NVIDIA GPU and its driver",
		met:  func(on Abilities) bool { return on.GPU },
	}
	needsClock = Need{
		Host: "a host whose clock rate can be read (no virtual machine's can)",
		met:  func(on Abilities) bool { return on.Clock },
	}
	needsKVM = Need{
		Host: "a host with KVM",
		met:  func(on Abilities) bool { return on.KVM },
	}
	needsLargerHost = Need{
		Host: "a host with more than two CPUs, or with KVM",
		met:  func(on Abilities) bool { return on.CPUs > 2 || on.KVM },
	}
	needsThreeCPUs = Need{
		Host: "a host with three CPUs or more",
		met:  func(on Abilities) bool { return on.CPUs >= 3 },
	}
	needsKVMOrEightCPUs = Need{
		Host: "a host with KVM, or with eight CPUs or more",
		met:  func(on Abilities) bool { return on.KVM || on.CPUs >= 8 },
	}
	needsEightCPUs = Need{
		Host: "a host with eight CPUs or more",
		met:  func(on Abilities) bool { return on.CPUs >= 8 },
	}
)

// partly is the need of one part of a claim, the others of which may decide it.
func (n Need) partly(part string) Need {
	n.Part = part
	return n
}

// leavesOpen is the need of a part without which a claim cannot be decided.
func (n Need) leavesOpen(part string) Need {
	n.Part, n.Open = part, true
	return n
}

// What decides several claims in short.
var (
	startsInShort = []string{"tare", "startup", "--platform", "docker", "--rate", "1,8", "--knee=false", "--profile"}
	startsOfAll   = []string{"tare", "startup", "--platform", "docker", "--rate", "1,2,4,8", "--knee=false", "--workload", "s1"}
	// S1 measured without address-space randomisation, and its claims are judged so.
	pagesAsJudged = []string{"tare", "pages", "--aslr", "off"}
	pagesInShort  = append(slices.Clone(pagesAsJudged), "--steady", "5s")
	hugePages     = []string{"--huge-pages", "always", "--disruptive"}

	transcoding = []string{
		"tare", "platforms", "--workload", "ffmpeg", "--platform", "docker", "--cpus", "0.5,1,1.5,2", "--causes", "off",
	}

	cpuInShort = []string{
		"tare", "latency", "cpu", "--quota", "1ms,2ms,4ms,7ms", "--period", "10ms", "--duration", "400ms",
	}
	filesInShort = []string{"tare", "latency", "files", "--layers", "1,4,8", "--size", "1k,30k,100k"}
)
