package claim

// latency is the source of S4.1 to S4.8.
var latency = Paper{
	Key:   "S4",
	Name:  "Zhang 2016",
	Title: "The Impact of Docker Containers on Service Latency",
	Kind:  "bachelor's thesis, Shanghai Jiao Tong University",
	Year:  2016,
	Bench: "two HP MicroServers (Xeon E3-1220L, 4 cores of 2.3 GHz, 4 GB), a Thrift client and server in Python, the server alone on a core without interrupts; 1,000,000 requests a run, 10 runs for S4.1.",
}

// quotaTable is S4.2's, at a period of 10,000 µs.
var quotaTable = func() []Figure {
	var figures []Figure
	for _, q := range []struct {
		quota             string
		mean, median, p99 float64
		stalled           float64
	}{
		{"1000 µs", 1035.4, 307, 7556, 104996},
		{"1500 µs", 579.5, 258, 5816, 68221},
		{"2000 µs", 489.0, 281, 4765, 50187},
		{"2500 µs", 361.7, 260, 3232, 37334},
		{"3000 µs", 291.9, 259, 1741, 14273},
		{"4000 µs", 258.0, 253, 331, 39},
		{"5000 µs", 263.2, 255, 341, 0},
		{"7000 µs", 256.7, 250, 341, 0},
		{"10000 µs", 262.6, 255, 333, 0},
	} {
		figures = append(figures,
			exactly("mean, quota "+q.quota, q.mean, "us"), exactly("median, quota "+q.quota, q.median, "us"),
			exactly("p99, quota "+q.quota, q.p99, "us"), exactly("over 1 ms, quota "+q.quota, q.stalled, "of 10^6"))
	}
	return figures
}()

var s4 = []Claim{
	{
		ID: "S4.1", Paper: latency, Study: "latency", Command: []string{"tare", "latency", "cpu"},
		Quick: cpuInShort,
		Short: "CPU shares and the host's network cost a small constant",
		Says:  "A service alone on its core, in a container that has CPU shares and the host's network, answers a few percent later than on bare metal: a constant, which leaves the tail as it was.",
		Published: []Figure{
			exactly("mean, native", 240.7, "us"), exactly("median, native", 241.0, "us"), exactly("p99, native", 278.0, "us"),
			exactly("mean, container", 255.2, "us"), exactly("median, container", 255.0, "us"), exactly("p99, container", 295.0, "us"),
		},
		Remark:    "6 % on the mean, 5.8 % on the median, 6.1 % on the p99.",
		HowJudged: "The difference from bare metal, in microseconds, of median and p99, paired within blocks. Confirmed where the median's difference lies wholly above zero and below 10 % of the native median, and the p99's is equivalent to it within 2 % of the native p99; refuted where the median is equivalent to bare metal's within 2 % or loses wholly more than 10 %, or the p99 loses wholly more than the median. By another service than S4's it is qualified at best.",
		Limits:    []Figure{atMost("overhead", 10, "%"), exactly("smallest effect", 2, "%")},
	},
	{
		ID: "S4.2", Paper: latency, Study: "latency", Command: []string{"tare", "latency", "cpu"},
		Quick:         cpuInShort,
		Short:         "below its CPU demand a quota stalls so many requests",
		Says:          "As long as quota over period is below the service's demand for CPU time, the number of stalled requests times the quota is constant, being the CPU time of all requests; once the quota exceeds the demand the long tail is gone.",
		Published:     append([]Figure{about("stalled times quota", 100, "s"), about("CPU demand", 30, "%")}, quotaTable...),
		Inconsistency: "10^8 µs over 10^6 requests are 100 µs of CPU time a request, some 40 % of a round trip of 240 µs, not the 30 % that were read from a process monitor; and at 3000 µs, still below 40 %, the product is 0.43 x 10^8.",
		HowJudged:     "Requests over a stall of 1 ms times the quota, for quotas below 0.9 times the demand that the kernel accounts for without a quota; and p99 for quotas above 1.1 times it. Confirmed where the products lie within 15 % of their mean, intervals included, and every p99 above the demand within 10 % of that without a quota; refuted where a product lies wholly outside, or a p99 wholly above. The kernel's throttle counts stand beside it. By another service than S4's it is qualified at best.",
		Limits: []Figure{
			exactly("constancy", 15, "%"),
			exactly("tail as without a quota", 10, "%"),
			exactly("stall", 1, "ms"),
			exactly("below demand", 0.9, "times"),
			exactly("above demand", 1.1, "times"),
		},
	},
	{
		ID: "S4.3", Paper: latency, Study: "latency", Command: []string{"tare", "latency", "cpu"},
		Quick: cpuInShort,
		Needs: []Need{needsClock.partly("whether the clock rate is the cause")},
		Short: "a neighbour on the core harms, or helps by clock rate",
		Says:  "Two containers that share a core by quotas disturb one another while the core is lightly used; where it is busy the processor clocks higher, and both come out ahead.",
		Published: []Figure{
			exactly("clock, one container", 1600, "MHz"), exactly("clock, both containers", 1955, "MHz"),
		},
		Remark:    "Times are in pictures: the multiplication gains at its largest quota, the service at quotas of 5000 and 6000 µs.",
		HowJudged: "Service latency and time of a multiplication, each with the other against alone, over the quotas, with the clock rate read beside them. Confirmed where at one quota either side loses and at another either gains, each by more than 2 %, wholly, and the clock is higher where they gain; refuted where the clock rises and both intervals exclude a gain of 2 % at every quota. Inconclusive where the clock is fixed or cannot be read. By another service than S4's it is qualified at best.",
		Limits:    []Figure{exactly("smallest effect", 2, "%")},
	},
	{
		ID: "S4.4", Paper: latency, Study: "latency", Command: []string{"tare", "latency", "network"},
		Quick:     []string{"tare", "latency", "network", "--path", "nat", "--size", "1,10,30,50,70,100", "--duration", "120ms"},
		Short:     "a bridge costs a fixed time a trip, not a percentage",
		Says:      "Port mapping over a bridge adds a fixed time to each trip against the host's port: at most a tenth for small messages, and nothing to be seen at 100 KB.",
		Published: []Figure{atMost("bridge against host", 110, "%")},
		Remark:    "In pictures, for 1, 10, 30, 50, 70 and 100 KB each way.",
		HowJudged: "The difference between bridge and host, in microseconds, fitted as fixed part and part a byte. Confirmed where the fixed part lies wholly above zero, the part a byte times 100 KB is wholly less than the fixed part, and the ratio at 1 KB lies wholly below 1.1; qualified where only the ratio is larger, as a faster service makes it; refuted where the part a byte wholly exceeds the fixed part at 100 KB. By another service than S4's it is qualified at best.",
		Limits:    []Figure{atMost("ratio at 1 KB", 1.1, "times"), exactly("largest message", 100, "KB")},
	},
	{
		ID: "S4.5", Paper: latency, Study: "latency", Command: []string{"tare", "latency", "files"},
		Quick:         filesInShort,
		Short:         "writing is as fast in the container's layer as outside",
		Says:          "Writing to an open file, flushed each time, takes as long in the container's own layer as in a directory mounted into it.",
		Published:     []Figure{about("difference", 0, "%")},
		Remark:        "In pictures, for 1 to 100 KB, 10,000 writes, 10 times.",
		Inconsistency: "The writes are said to have been forced to the disk by flush(), which in Python only hands them to the kernel: fsync() forces them.",
		HowJudged:     "Write latency in the layer against the mounted directory, paired within blocks, flushed to the kernel and synced to the disk. Confirmed where both are equivalent within 2 %, refuted where either lies wholly outside; qualified where only the flushed writes are.",
		Limits:        []Figure{exactly("smallest effect", 2, "%")},
	},
	{
		ID: "S4.6", Paper: latency, Study: "latency", Command: []string{"tare", "latency", "files"},
		Quick:     filesInShort,
		Short:     "opening a file is far slower in the container's layer",
		Says:      "Opening a file takes much longer in the container's layers than in a mounted directory, for its layer must be found; on the first write the file is copied up as well, which takes longer the larger it is.",
		Published: []Figure{atLeast("slower", 20, "%")},
		Remark:    "The times of 1,000,000 openings are in a picture.",
		HowJudged: "Time of an opening in the layer against the mounted directory, paired within blocks, by the number of layers; and that of the first opening for writing, by size. Confirmed where opening lies wholly above 20 % at every number of layers, and the first opening for writing takes longer for the largest size than for the smallest; refuted where opening is wholly below 20 % at every number, or the growth wholly not above 1. The storage driver is named: there it was AUFS.",
		Limits:    []Figure{atLeast("slower", 20, "%")},
	},
	{
		ID: "S4.7", Paper: latency, Study: "latency", Command: []string{"tare", "latency", "files"},
		Quick:     filesInShort,
		Short:     "listing a directory takes longer by every layer below",
		Says:      "Walking a directory tree takes time in proportion to the number of layers that hide older copies of it, since what is hidden is scanned too.",
		Published: []Figure{exactly("layers at most", 32, ""), exactly("tree", 53.9, "MB")},
		Remark:    "Times are in a picture: nearly a straight line, means of 100 walks.",
		HowJudged: "Time of a walk over 1 to 32 layers, fitted as a straight line. Confirmed where the slope lies wholly above zero and a line leaves less than 10 % of the variance between layers; refuted where the time at 32 layers is equivalent to that at one within 2 %; qualified where it grows otherwise. With fewer layers than 32 it is qualified at best, and nothing is refuted.",
		Limits:    []Figure{atMost("variance left", 10, "%"), exactly("smallest effect", 2, "%")},
	},
	{
		ID: "S4.8", Paper: latency, Study: "latency", Command: []string{"tare", "latency", "files"},
		Quick: filesInShort,
		Short: "flattening an image restores one layer's speed",
		Says:  "An image exported and imported again has one layer and what is visible alone: it is walked as fast as an image that never had more, it is a fraction of the size, and making it takes seconds.",
		Published: []Figure{
			exactly("size, 32 layers", 1.911, "GB"), exactly("size, flattened", 241.6, "MB"), exactly("size, one layer", 241.8, "MB"), atMost("time to flatten", 10, "s"),
		},
		HowJudged: "Walks of the flattened image against one of a single layer, paired within blocks, its size, and the time to make it. Confirmed where the walks are equivalent within 2 %, the size is within 2 % of the single layer's, and flattening took less than 10 s; qualified where only the time is longer; refuted where the walks lie wholly outside 2 %.",
		Limits:    []Figure{exactly("smallest effect", 2, "%"), atMost("time to flatten", 10, "s")},
	},
}
