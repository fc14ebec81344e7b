package claim

// storage is the source of S5.1 to S5.3.
var storage = Paper{
	Key:   "S5",
	Name:  "Saikia 2020",
	Title: "Measuring the IO Overhead of Container Technology (Docker)",
	Kind:  "project report",
	Year:  2020,
	Bench: "6 cores (i7-9750H), 16 GB, NVMe of 3.5 and 3.3 GB/s, ext4, Docker 19.03, containers in the root cgroup. STREAM and HACC-IO ran five times, Redis once a cell. The platforms ran one after the other.",
}

// The published data of redis-benchmark, over these numbers of io-threads.
var ioThreads = []string{"1 io-thread", "2 io-threads", "4 io-threads", "8 io-threads"}

var s5 = []Claim{
	{
		ID: "S5.1", Paper: storage, Study: "io", Command: []string{"tare", "io", "stream"},
		Quick: []string{"tare", "io", "stream", "--processes", "1", "--storage", "volume", "--repetitions", "5"},
		Short: "memory bandwidth in a container is the machine's own",
		Says:  "A container reaches the memory bandwidth of bare metal to within a percent or two.",
		Published: []Figure{
			between("overhead, volume, 50 M elements", 0.5, 0.7, "%"), between("overhead, bind mount, 50 M elements", 1, 1.5, "%"),
		},
		Remark:        "The program touches no storage: volume and bind mount are the same to it. So a difference can only come from noise or from the order of the runs.",
		Inconsistency: "A difference between volume and bind mount is reported for a program that uses neither. The five published repetitions give 0.36 % and 0.72 % for copying with one process, and were run platform by platform. With 2 M elements containers are faster than the host, which is attributed to the cache or to the scheduler. Their 46 MB are four times the cache.",
		HowJudged:     "Bandwidth of copy, scale, add and triad against bare metal, paired within blocks, at sizes beyond the last-level cache. Cells with more processes than CPUs decide nothing. Confirmed where all four ratios lie wholly within 2 % of 1, on every platform. Refuted where any lies wholly outside, on any platform. Inconclusive where the negative control, volume against bind mount, separates them wholly by more than 2 %.",
		Limits:        []Figure{exactly("smallest effect", 2, "%")},
	},
	{
		ID: "S5.2", Paper: storage, Study: "io", Command: []string{"tare", "io", "haccio"},
		Quick: []string{"tare", "io", "haccio", "--ranks", "1", "--particles", "1e6", "--storage", "volume,bind"},
		Short: "checkpoints lose a few percent, most on bind mounts",
		Says:  "Writing and reading checkpoints through a volume or a bind mount costs a few percent against the host's own directory. The bind mount costs more than the volume, and reads more than writes.",
		Published: []Figure{
			between("overhead, read, volume", 1, 3.5, "%"), between("overhead, read, bind mount", 3, 10, "%"),
			exactly("overhead, write, volume", 1, "%"), exactly("overhead, write, bind mount", 3.3, "%"),
			exactly("read of the device", 3.5, "GB/s"), exactly("write of the device", 3.3, "GB/s"),
		},
		Inconsistency: "The published reads run at 9.5 to 10 GB/s on a device of 3.5 GB/s. They came from the page cache, and the device was not measured. 15.2 GB are given as 14.15 GB, which they are in GiB. Reads are said to peak with one process and writes with two. For larger sizes writes are said to behave as reads: two processes are better for small writes alone.",
		HowJudged:     "Read and write rates against bare metal, paired within blocks, from the page cache and from the disk. For the disk the cache is dropped or bypassed. Cells with more ranks than CPUs decide nothing. Reads that found the page cache all the same are not counted for the disk. Confirmed where in both every overhead lies wholly below 10 %. The bind mount must also lose more than the volume, for writes and for reads, intervals apart. Refuted where any overhead lies wholly above 10 %, or bind mount and volume are equivalent within 2 % for writes and reads. Refuted also where for writes or for reads the volume loses more than the bind mount, intervals apart. Qualified where only writes or only reads are as claimed, and the others are equivalent. Qualified also where it holds from the page cache alone, or from the disk alone, even if the other is refuted. Inconclusive where fio's level of the disk itself, in the same blocks, is unknown or known less well than the effect. Inconclusive also where volume or bind mount lies on another disk than bare metal, or every block was disturbed.",
		Limits:        []Figure{atMost("overhead", 10, "%"), exactly("smallest effect", 2, "%")},
	},
	{
		ID: "S5.3", Paper: storage, Study: "io", Command: []string{"tare", "io", "redis"},
		Quick: []string{"tare", "io", "redis", "--command", "get", "--payload", "3", "--appendonly", "no", "--storage", "volume", "--network", "host,bridge"},
		Short: "the faster Redis answers, the more a container loses",
		Says:  "Redis loses more in a container the more requests it answers a second. Small values and pipelining make the loss large. Large values make it small.",
		Published: append([]Figure{
			between("overhead, GET of 3 bytes, volume", 5, 27, "%"), between("overhead, GET of 3 bytes, bind mount", 7, 33, "%"),
			between("overhead, MSET of 1000 bytes", 2, 4, "%"), exactly("requests a second with pipeline 10", 5, "times"),
		}, grid("%", ioThreads,
			row{"change in the data, GET of 3 bytes, pipeline 10, volume", []float64{-8.4, -5.1, -13.0, -27.6}},
			row{"change in the data, GET of 3 bytes, pipeline 10, bind mount", []float64{-7.2, -9.3, -30.7, -33.9}},
			row{"change in the data, GET of 3 bytes, no pipeline, volume", []float64{17.3, -5.2, 0.1, -5.0}},
		)...),
		Remark:        "Without persistence the program touches no storage: volume and bind mount are negative controls here too.",
		Inconsistency: "Pipelines of 1, 3 and 5 in the text are 1, 5 and 10 in its data. The data have one run a cell. In a cell that the text counts as slower, containers are faster than the host by 17 %. Nearly all of its runs without a pipeline end on the tick of 250 ms by which the load program with threads ends.",
		HowJudged:     "The overhead on requests a second against bare metal, paired within blocks, over pipelines 1 to 10, values of 3 and 1000 bytes. Containers on the host's network decide. Confirmed where the percentage grows with the rate, intervals apart, and the cost of one request, in microseconds, is the same at all rates. The same means within 2 % of the request's time. Refuted where the percentage does not grow. Then the fastest kind of request loses wholly less than 2 %, or wholly less than 2 points more than the slowest. Refuted also where a kind of request that is answered more slowly than the fastest loses more, intervals apart. Qualified where the network, not storage, accounts for the loss, or where no container used the host's network. Qualified also where the percentage grows but the cost of one request is not the same. A run without S5's smallest and largest values and pipelines is qualified at best.",
		Limits:        []Figure{exactly("smallest effect", 2, "%")},
	},
}
