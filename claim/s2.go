package claim

// pinning is the source of S2.1 to S2.10.
var pinning = Paper{
	Key:   "S2",
	Name:  "GhatrehSamani et al. 2020",
	Title: "The Art of CPU-Pinning: Evaluating and Improving the Performance of Virtualization and Containerization Platforms",
	Kind:  "arXiv:2006.02055",
	Year:  2020,
	Bench: "112 cores as the host counts them (4 Xeon, 56 cores of two threads), 384 GB, two disks in RAID1, Linux 5.4, Docker 19.03, QEMU 2.11 with KVM; 20 runs (web: 6), means with 95 % intervals in pictures.",
}

// In this file BM is bare metal, VM a virtual machine, CN a container on bare
// metal and VMCN one in a VM, as there; vanilla is a CPU quota, pinned a cpuset.

var s2 = []Claim{
	{
		ID: "S2.1", Paper: pinning, Study: "platforms", Command: []string{"tare", "platforms", "--workload", "ffmpeg"},
		Short: "for computing, pinning helps containers and not VMs",
		Says:  "A program that only computes loses a factor of two or more in a virtual machine of any size, pinned or not; a container inside one loses more, the less the larger it is; a pinned container on bare metal loses least of all, and pinning helps there alone.",
		Published: []Figure{
			atLeast("VM over BM", 2, "times"), exactly("VMCN over BM, greatest", 4, "times"), exactly("VMCN over BM, least", 1, "times"),
		},
		Remark:        "Video transcoding on 2, 4, 8 and 16 cores.",
		Inconsistency: "VMCN is said to fall to 1 times bare metal while the VM stays at 2 times or more, and both are said to meet at 16 cores. Nor is it told which CPU the guest was shown: a default model lacks vector instructions, which may make such a factor by themselves. Bare metal got its size by booting with fewer CPUs, the others by quota or cpuset.",
		HowJudged:     "Run time over bare metal's of the same size, paired within blocks. Confirmed where at every size of whole CPUs VM lies wholly at 2 times or above, and at every one at which vanilla and pinned are granted different CPUs, of which there must be one, pinned CN lies below vanilla CN and below VM, intervals apart, and pinned VM is equivalent to vanilla VM within 5 %; refuted where VM lies wholly below 2 times or pinning the VM gains wholly more than 5 %. Inconclusive where no VM with hardware support ran; the CPU that the guest is shown is named, and what only one model of it was tried with is qualified.",
		Limits:        []Figure{atLeast("VM over BM", 2, "times"), exactly("pinning does nothing", 5, "%")},
	},
	{
		ID: "S2.2", Paper: pinning, Study: "platforms", Command: []string{"tare", "platforms", "--workload", "mpi-search"},
		Short:     "for communicating ranks containers cost more than VMs",
		Says:      "Ranks that communicate more than they compute lose most in containers on bare metal, less in containers inside a VM, and least in a VM alone, which is on a par with bare metal from 8 cores on; the gap shrinks with more cores while its ratio stays.",
		Published: []Figure{exactly("cores from which VM is as BM", 8, "")},
		Remark:    "Times are in a picture, for 2 to 64 cores.",
		HowJudged: "Run time over bare metal's by size of whole CPUs. Confirmed where at every one VMCN lies above VM and CN above VMCN, intervals apart, and VM is within 5 % of bare metal from 8 cores on; refuted where CN lies wholly below VM, or below VMCN, at most sizes. Inconclusive on hosts of fewer than 8 cores, or without a VM with hardware support.",
		Limits:    []Figure{exactly("on a par", 5, "%"), atLeast("cores", 8, "")},
	},
	{
		ID: "S2.3", Paper: pinning, Study: "platforms", Command: []string{"tare", "platforms", "--workload", "wordpress"},
		Short:         "for a web site vanilla containers cost most, pinned least",
		Says:          "A web site loses most in small vanilla containers, twice bare metal's time on 2 cores and ever less on more; pinned containers lose least; containers in a VM lose a little less than the VM alone, and a pinned VM less than a vanilla one.",
		Published:     []Figure{exactly("vanilla CN over BM, 2 cores", 2, "times")},
		Remark:        "1,000 requests at once; other ratios are in a picture.",
		Inconsistency: "With vanilla containers at 2 times bare metal and 2.4 times the VM (S2.5), the VM on 2 cores would be faster than bare metal, which the rest of the text denies.",
		HowJudged:     "Mean response time over bare metal's of the same size, paired within blocks. Confirmed where on the smallest size vanilla CN is the highest and pinned CN the lowest of all, intervals apart, vanilla CN's ratio falls with size, and at every size VMCN lies wholly below VM and pinned VM wholly below vanilla VM; refuted where vanilla CN is wholly below 1.2 times bare metal on 2 cores of more that a quota may move among, or pinned CN not the lowest. Qualified where only the containers are as claimed: the cost does not fall, the machines' part does not hold, or no VM with hardware support ran.",
		Limits:        []Figure{atLeast("vanilla CN over BM, 2 cores", 1.2, "times")},
	},
	{
		ID: "S2.4", Paper: pinning, Study: "platforms", Command: []string{"tare", "platforms", "--workload", "cassandra"},
		Short:         "pinned, a busy database is faster than on bare metal",
		Says:          "A database under heavy load loses a factor of 3.5 or more in small vanilla containers; up to 16 cores every pinned platform is faster than bare metal, the pinned container most; from 32 cores on pinning changes nothing, and platforms with a VM lose to bare metal.",
		Published:     []Figure{atLeast("vanilla CN over BM", 3.5, "times"), exactly("cores up to which pinned beats BM", 16, ""), exactly("cores from which pinning does nothing", 32, "")},
		Remark:        "100 threads send 1,000 operations within a second, one in four a write; ratios are in a picture.",
		Inconsistency: "The 2-core machine thrashed and was left out, yet S2.5 gives a ratio for it.",
		HowJudged:     "Mean response time over bare metal's of the same size, paired within blocks. Confirmed where vanilla CN lies wholly above 3.5 times on the smallest size; at up to 16 cores pinned CN, VM and VMCN lie wholly below bare metal, and pinned CN below the others, intervals apart; and from 32 cores pinning is equivalent to none within 5 % on each platform, and VM and VMCN lie wholly above bare metal. Refuted where pinned CN lies wholly above bare metal at up to 16 cores, or vanilla CN wholly below 1.2 times it. Qualified where only the containers of up to 16 cores are as claimed: sizes or virtual machines were not measured, or differ.",
		Limits: []Figure{
			atLeast("vanilla CN over BM", 3.5, "times"), atLeast("vanilla CN over BM, at the least", 1.2, "times"), exactly("cores", 16, ""),
			exactly("cores from which pinning does nothing", 32, ""), exactly("pinning does nothing", 5, "%"),
		},
	},
	{
		ID: "S2.5", Paper: pinning, Study: "platforms", Command: []string{"tare", "platforms", "--cpus", "0.5,1,1.5,2"},
		Short:         "a platform's cost is its type's plus its size's",
		Says:          "What a platform costs has two parts: one of its type, whose ratio is the same at all sizes and which pinning does not touch, and one of its size, which only vanilla containers have, which shrinks as they get more cores, and which pinning removes.",
		Published:     []Figure{exactly("vanilla CN over VM, WordPress, 2 cores", 2.4, "times"), exactly("vanilla CN over VM, Cassandra, 2 cores", 3.7, "times")},
		Inconsistency: "3.7 times is given for Cassandra on 2 cores, a size at which its results were left out (S2.4); and 2.4 times for WordPress does not go with its 2 times bare metal (S2.3).",
		HowJudged:     "The ratios of each workload over sizes, fitted with and without a term for size, of which each unit is a cost that grows as the share of the host shrinks; four sizes at the least. What size costs the smallest of a platform decides. Confirmed where that is equivalent to nothing within 5 % for VM and pinned CN, and wholly more than 2 % for vanilla CN, in every workload of the run: that an interval merely holds 0 is no evidence, for it may be a wide one. Refuted where it is wholly less than 2 % for vanilla CN in every workload, or wholly more than 5 % for pinned CN in every; qualified where vanilla CN has it and the others, or other workloads of the run, were not measured at four sizes; what would refute is inconclusive there. Those that were fitted are named.",
		Limits:        []Figure{exactly("no effect of size", 2, "%"), exactly("constant over sizes", 5, "%")},
	},
	{
		ID: "S2.6", Paper: pinning, Study: "platforms", Command: []string{"tare", "platforms", "--host-cpus", "1,2", "--disruptive"},
		Short:         "the same container costs more on a larger host",
		Says:          "A container of 16 cores loses more on a host that has many more cores than on one that has just these; pinning makes no difference to that.",
		Published:     []Figure{exactly("small host, container's share", 1, "of the cores"), exactly("large host, container's share", 0.14, "of the cores")},
		Remark:        "Times are in a picture; two hosts of 16 and 112 cores.",
		Inconsistency: "What counts as 112 cores are the threads of 56, and the container's share takes a thread for a core.",
		HowJudged:     "Overhead of one container's size while the rest of the host's CPUs are on line against off line (--disruptive), each over bare metal on as many CPUs of the same host, paired within blocks. Confirmed where the overhead is larger with more CPUs on line, with its interval, and pinned against vanilla there within 2 %; refuted where it is equivalent within 2 %; qualified where it is larger and pinning does make a difference, or was not told.",
		Limits:        []Figure{exactly("smallest effect", 2, "%")},
	},
	{
		ID: "S2.7", Paper: pinning, Study: "platforms", Command: []string{"tare", "platforms"},
		Short: "how large a share of the host a container should have",
		Says:  "The cost of size vanishes once a container has a certain share of the host's cores: a small one for computing, twice that for input and output, four times that for very much of it.",
		Published: []Figure{
			between("computing", 0.07, 0.14, "of the cores"), between("input and output", 0.14, 0.28, "of the cores"), between("much input and output", 0.28, 0.57, "of the cores"),
		},
		Remark:        "8 to 16, 16 to 32 and 32 to 64 of 112 cores.",
		Inconsistency: "The shares are of 112 threads on 56 cores, and are read from one host's pictures.",
		HowJudged:     "The least share from which on vanilla CN is within 10 % of bare metal, by workload: by the measured ratios it lies between the largest share that costs wholly more and the least from which on every one costs wholly less. Qualified where the order of the three kinds is as published, these spans lying apart; refuted where two of them lie apart the other way round; never confirmed, for a span is as wide as the sizes lie apart, and the share that the size term gives, which stands beside it, has an interval that held the truth in as few as none of the runs of a simulator (docs/platforms-model.md). Inconclusive on hosts of fewer than 8 cores, which have too few shares to try.",
		Limits:        []Figure{exactly("vanished", 10, "%"), atLeast("cores", 8, "")},
	},
	{
		ID: "S2.8", Paper: pinning, Study: "platforms", Command: []string{"tare", "platforms", "--tasks", "one,many"},
		Short:     "many small processes cost a container more than one",
		Says:      "The same work costs a container more, against bare metal, when it is cut into many processes that run side by side.",
		Published: []Figure{exactly("one process, clip", 30, "s"), exactly("thirty processes, clip of each", 1, "s")},
		Remark:    "Times are in a picture; on 16 cores.",
		HowJudged: "Overhead over bare metal of thirty clips at once against that of one clip of their length, paired within blocks. Confirmed where the overhead of the many lies wholly above nothing and exceeds that of the one by more than 2 points, wholly; refuted where the difference lies wholly below 2 points. Inconclusive where the container has all CPUs of the host, of which S2 gave it 16 of 112: there a quota leaves nothing to move among.",
		Limits:    []Figure{exactly("smallest effect", 2, "points")},
	},
	{
		ID: "S2.9", Paper: pinning, Study: "platforms", Command: []string{"tare", "platforms", "--workload", "ffmpeg"},
		Short:     "migrations and accounting explain the cost of size",
		Says:      "What small vanilla containers lose goes into moving their threads from core to core and into accounting for the CPU time of their cgroup, which suspends them.",
		Remark:    "No figures: read from distributions of time on and off the CPU, with stacks.",
		HowJudged: "What a vanilla container loses against the same one pinned, on the smallest size at which the two can differ, parted in CPU time and time that was waited for: no one can time a cold cache, but what moves and accounting cost is CPU time, and what throttling takes is waited for. Confirmed where CPU time is more than 50 % of what is lost, with the interval, and vanilla is moved wholly more often; refuted where wholly less; inconclusive where nothing is lost that could be explained. Migrations, throttled periods and the samples in the scheduler's accounting stand beside it.",
		Limits:    []Figure{atLeast("explained", 50, "%")},
	},
	{
		ID: "S2.9b", Paper: pinning, Study: "platforms", Command: []string{"tare", "platforms", "--workload", "wordpress"},
		Short:     "input and output cost more where cores change",
		Says:      "Each web request waits for interrupts and may go on on another core than before; a container with a small share of the host does so more often, and pays for cold caches.",
		Published: []Figure{atLeast("interrupts a web request", 3, "")},
		HowJudged: "Wake-ups on another core than the last a request, and interrupts a request, for vanilla against pinned containers by share of the host. Qualified, and the judgement says by what, where the vanilla container changes cores wholly more often at every size that tells, and wholly has 3 interrupts or more a request; whether the more so the smaller its share is told beside it; inconclusive with fewer interrupts; never confirmed outright, for the probe begins with the service, whose start is counted with its requests; refuted where the vanilla container wholly does not change cores more often.",
		Limits:    []Figure{atLeast("interrupts a web request", 3, "")},
	},
	{
		ID: "S2.10", Paper: pinning, Study: "platforms", Command: []string{"tare", "platforms"},
		Short:     "five rules for choosing platform, size and pinning",
		Says:      "No vanilla containers of one or two cores; for computing, pinned containers; no pinning of VMs that compute; for input and output that cannot be pinned, containers in VMs; and the shares of S2.7.",
		Remark:    "Rules, drawn from S2.1 to S2.8.",
		HowJudged: "Each rule by what it has one choose, not by the claims that it was drawn from, of which each says more than that: vanilla against pinned containers of up to 2 CPUs; for computing, a pinned container against whatever else contains; pinned VM against vanilla VM, within S2.1's 5 %; a container in a VM against one on the host, both vanilla, for what does input and output; the fifth by S2.7. A rule stands where it holds somewhere and nowhere not, and is contradicted where it holds nowhere; emulated VMs are no evidence. Confirmed where all 5 stand, refuted where the evidence is against 3 or more, qualified in between, with the rules that stand; inconclusive where fewer than 3 could be judged.",
		Limits:    []Figure{exactly("rules", 5, ""), exactly("majority", 3, "")},
	},
}
