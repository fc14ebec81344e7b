package claim

// latency is the source of S4.1 to S4.8.
var latency = Paper{
	Key:   "S4",
	Name:  "Zhang 2016",
	Title: "The Impact of Docker Containers on Service Latency",
	Kind:  "bachelor's thesis, Shanghai Jiao Tong University",
	Year:  2016,
	Bench: "two HP MicroServers (Xeon E3-1220L, 4 cores of 2.3 GHz, 4 GB), a Thrift client and server in Python. The server was alone on a core without interrupts. A run had 1,000,000 requests, and S4.1 had 10 runs.",
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
		Says:  "A service alone on its core runs in a container with CPU shares and the host's network. It answers a few percent later than on bare metal. The cost is a constant, which leaves the tail unchanged.",
		Published: []Figure{
			exactly("mean, native", 240.7, "us"), exactly("median, native", 241.0, "us"), exactly("p99, native", 278.0, "us"),
			exactly("mean, container", 255.2, "us"), exactly("median, container", 255.0, "us"), exactly("p99, container", 295.0, "us"),
		},
		Remark:    "6 % on the mean, 5.8 % on the median, 6.1 % on the p99.",
		HowJudged: "The difference from bare metal, in microseconds, of median and p99, paired within blocks. Confirmed where the median's difference lies wholly above zero and below 10 % of the native median. The p99's difference must also equal the median's, wholly within 2 % of the native p99. Refuted where the median is equivalent to bare metal's within 2 %, or loses wholly more than 10 %. Refuted also where the p99's difference exceeds the median's wholly by more than 2 % of the native p99. With another service than S4's, or another network than the host's, it is qualified at best, and nothing is refuted.",
		Limits:    []Figure{atMost("overhead", 10, "%"), exactly("smallest effect", 2, "%")},
	},
	{
		ID: "S4.2", Paper: latency, Study: "latency", Command: []string{"tare", "latency", "cpu"},
		Quick:         cpuInShort,
		Short:         "below its CPU demand a quota stalls so many requests",
		Says:          "As long as quota over period is below the service's demand for CPU time, the number of stalled requests times the quota is constant. It is the CPU time of all requests. Once the quota exceeds the demand, the long tail is gone.",
		Published:     append([]Figure{about("stalled times quota", 100, "s"), about("CPU demand", 30, "%")}, quotaTable...),
		Inconsistency: "10^8 µs over 10^6 requests are 100 µs of CPU time a request, some 40 % of a round trip of 240 µs. The paper has 30 %, read from a process monitor. At 3000 µs, still below 40 %, the product is 0.43 x 10^8.",
		HowJudged:     "Requests over a stall of 1 ms times the quota, for quotas wholly below 0.9 times the demand. The p99, for quotas wholly above 1.1 times it. The demand is the share of CPU time that the kernel accounts for without a quota. Only quotas at S4's period of 10 ms count. Confirmed where the products lie wholly within 15 % of their mean. Every p99 above the demand must also lie wholly at most 10 % above that without a quota. Refuted where a product lies wholly outside, or a p99 wholly above. Inconclusive with fewer than two quotas below the demand, or none above it. The kernel's throttle counts stand beside it. With another service than S4's, or another network than the host's, it is qualified at best, and nothing is refuted.",
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
		Says:  "Two containers that share a core by quotas disturb one another while the core is lightly used. Where it is busy the processor clocks higher, and both gain.",
		Published: []Figure{
			exactly("clock, one container", 1600, "MHz"), exactly("clock, both containers", 1955, "MHz"),
		},
		Remark:    "Times are in pictures: the multiplication gains at its largest quota, the service at quotas of 5000 and 6000 µs.",
		HowJudged: "Service latency and time of a multiplication, each with the other against alone, by quota, with the clock rate read beside them. Confirmed where at one quota either side loses and at another either gains, each wholly by more than 2 %. The clock must be wholly higher at the gain. Refuted where the clock rises wholly by more than 2 % at some quota, and both sides' intervals exclude such a gain at every quota. Inconclusive where the clock is fixed or cannot be read. With another service than S4's, or another network than the host's, it is qualified at best, and nothing is refuted.",
		Limits:    []Figure{exactly("smallest effect", 2, "%")},
	},
	{
		ID: "S4.4", Paper: latency, Study: "latency", Command: []string{"tare", "latency", "network"},
		Quick:     []string{"tare", "latency", "network", "--path", "nat", "--size", "1,10,30,50,70,100", "--duration", "120ms"},
		Short:     "a bridge costs a fixed time a trip, not a percentage",
		Says:      "Port mapping over a bridge adds a fixed time to each trip against the host's port. It is at most a tenth for small messages, and invisible at 100 KB.",
		Published: []Figure{atMost("bridge against host", 110, "%")},
		Remark:    "In pictures, for 1, 10, 30, 50, 70 and 100 KB each way.",
		HowJudged: "The difference between bridge and host, in microseconds, fitted as a fixed part and a part for each byte, by direction. Confirmed where the fixed part lies wholly above zero, and the part a byte times 100 KB is wholly less. The ratio at 1 KB must also lie wholly below 1.1. Qualified where only the ratio is wholly larger, as a faster service makes it. Refuted where the part a byte times 100 KB wholly exceeds the fixed part, in either direction. With a service or client that is not in Python, or one direction alone, it is qualified at best.",
		Limits:    []Figure{atMost("ratio at 1 KB", 1.1, "times"), exactly("largest message", 100, "KB")},
	},
	{
		ID: "S4.5", Paper: latency, Study: "latency", Command: []string{"tare", "latency", "files"},
		Quick:         filesInShort,
		Short:         "writing is as fast in the container's layer as outside",
		Says:          "Writing to an open file, flushed each time, takes as long in the container's own layer as in a directory mounted into it.",
		Published:     []Figure{about("difference", 0, "%")},
		Remark:        "In pictures, for 1 to 100 KB, 10,000 writes, 10 times.",
		Inconsistency: "The writes are said to have been forced to the disk by flush(). In Python that only hands them to the kernel, and fsync() forces them.",
		HowJudged:     "Write latency in the layer against the mounted directory, paired within blocks, flushed to the kernel and synced to the disk. Confirmed where both are equivalent within 2 %. Refuted where either lies wholly outside. Qualified where the flushed writes are equivalent, and the synced ones are undecided.",
		Limits:        []Figure{exactly("smallest effect", 2, "%")},
	},
	{
		ID: "S4.6", Paper: latency, Study: "latency", Command: []string{"tare", "latency", "files"},
		Quick:     filesInShort,
		Short:     "opening a file is far slower in the container's layer",
		Says:      "Opening a file takes much longer in the container's layers than in a mounted directory, since its layer must be found. On the first write the file is copied up as well. That takes longer the larger it is.",
		Published: []Figure{atLeast("slower", 20, "%")},
		Remark:    "The times of 1,000,000 openings are in a picture.",
		HowJudged: "Time of an opening in the layer against the mounted directory, paired within blocks, by the number of layers. Beside it stands the first opening for writing, by size. Confirmed where opening takes wholly more than 20 % longer at every number of layers. The first opening for writing must also take wholly longer for the largest size than for the smallest. Refuted where opening lies wholly below 20 % at every number, or that growth lies wholly at 1 or below. The storage driver is named: in S4 it was AUFS.",
		Limits:    []Figure{atLeast("slower", 20, "%")},
	},
	{
		ID: "S4.7", Paper: latency, Study: "latency", Command: []string{"tare", "latency", "files"},
		Quick:     filesInShort,
		Short:     "listing a directory takes longer by every layer below",
		Says:      "Walking a directory tree takes time in proportion to the number of layers that hide older copies of it. What is hidden is scanned too.",
		Published: []Figure{exactly("layers at most", 32, ""), exactly("tree", 53.9, "MB")},
		Remark:    "Times are in a picture: nearly a straight line, with means of 100 walks.",
		HowJudged: "Time of a walk over 1 to 32 layers, fitted as a straight line. Confirmed where the slope lies wholly above zero, and a line leaves wholly less than 10 % of the variance between layers. Refuted where the time at most layers is equivalent to that at one within 2 %. Qualified where it grows otherwise. With fewer layers than 32 it is qualified at best, and nothing is refuted.",
		Limits:    []Figure{atMost("variance left", 10, "%"), exactly("smallest effect", 2, "%")},
	},
	{
		ID: "S4.8", Paper: latency, Study: "latency", Command: []string{"tare", "latency", "files"},
		Quick: filesInShort,
		Short: "flattening an image restores one layer's speed",
		Says:  "An image exported and imported again has one layer, and only the visible files. It is walked as fast as an image that never had more layers. It is a fraction of the size, and making it takes seconds.",
		Published: []Figure{
			exactly("size, 32 layers", 1.911, "GB"), exactly("size, flattened", 241.6, "MB"), exactly("size, one layer", 241.8, "MB"), atMost("time to flatten", 10, "s"),
		},
		HowJudged: "Walks of the flattened image against one of a single layer, paired within blocks, its size, and the time to make it. Confirmed where the walks are equivalent within 2 %, the size lies within 2 % of one layer's, and the time wholly below 10 s. Qualified where only the time is wholly longer. Refuted where the walks lie wholly outside 2 %.",
		Limits:    []Figure{exactly("smallest effect", 2, "%"), atMost("time to flatten", 10, "s")},
	},
}
