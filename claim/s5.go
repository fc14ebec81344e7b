package claim

// storage is the source of S5.1 to S5.3.
var storage = Paper{
	Key:   "S5",
	Name:  "Saikia 2020",
	Title: "Measuring the IO Overhead of Container Technology (Docker)",
	Kind:  "project report",
	Year:  2020,
	Bench: "6 cores (i7-9750H), 16 GB, NVMe of 3.5 and 3.3 GB/s, ext4, Docker 19.03, containers in the root cgroup; STREAM and HACC-IO five times, Redis once a cell, the platforms one after the other.",
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
		Remark:        "The program touches no storage: volume and bind mount are the same to it, so that a difference can only come from noise or from the order of the runs.",
		Inconsistency: "A difference between volume and bind mount is reported for a program that uses neither; the five published repetitions give 0.36 % and 0.72 % for copying with one process, and were run platform by platform. Containers are faster than the host with 2 M elements, which is put down to the cache or to the scheduler; their 46 MB are four times the cache.",
		HowJudged:     "Bandwidth of copy, scale, add and triad against bare metal, paired within blocks, at sizes beyond the last-level cache. Confirmed where all four ratios lie wholly within 2 % of 1; refuted where any lies wholly outside; each platform by itself, so that all must confirm, and one refutes. Volume against bind mount is the negative control: where it separates them by more than that, nothing is decided.",
		Limits:        []Figure{exactly("smallest effect", 2, "%")},
	},
	{
		ID: "S5.2", Paper: storage, Study: "io", Command: []string{"tare", "io", "haccio"},
		Quick: []string{"tare", "io", "haccio", "--ranks", "1", "--particles", "1e6", "--storage", "volume,bind"},
		Short: "checkpoints lose a few percent, most on bind mounts",
		Says:  "Writing and reading checkpoints through a volume or a bind mount costs a few percent against the host's own directory, the bind mount more than the volume, reads more than writes.",
		Published: []Figure{
			between("overhead, read, volume", 1, 3.5, "%"), between("overhead, read, bind mount", 3, 10, "%"),
			exactly("overhead, write, volume", 1, "%"), exactly("overhead, write, bind mount", 3.3, "%"),
			exactly("read of the device", 3.5, "GB/s"), exactly("write of the device", 3.3, "GB/s"),
		},
		Inconsistency: "The published reads run at 9.5 to 10 GB/s on a device of 3.5 GB/s: they came from the page cache, and the device was not measured. 15.2 GB are given as 14.15 GB, which they are in GiB. Reads are said to peak with one process and writes with two, and writes to behave as reads for larger sizes: two processes are better for small writes alone.",
		HowJudged:     "Read and write rates against bare metal, paired within blocks, with the page cache dropped between write and read and without; what was in it all the same is not taken for the disk's, and more ranks than CPUs decide nothing. Confirmed where every overhead lies wholly below 10 % and that of the bind mount above that of the volume, for writes and for reads, intervals apart; refuted where bind mount and volume are equivalent within 2 %, where for writes or for reads the volume's overhead lies above the bind mount's, intervals apart, or where any overhead lies wholly above 10 %. Qualified where only writes or only reads are as claimed, and the others are equivalent, or where it holds from the page cache alone or the disk alone. Inconclusive where the level of the disk itself, by fio in the same blocks, is not known, or less well than the effect.",
		Limits:        []Figure{atMost("overhead", 10, "%"), exactly("smallest effect", 2, "%")},
	},
	{
		ID: "S5.3", Paper: storage, Study: "io", Command: []string{"tare", "io", "redis"},
		Quick: []string{"tare", "io", "redis", "--command", "get", "--payload", "3", "--appendonly", "no", "--storage", "volume", "--network", "host,bridge"},
		Short: "the faster Redis answers, the more a container loses",
		Says:  "Redis loses more in a container the more requests it answers a second: small values and pipelining make the loss large, large values make it small.",
		Published: append([]Figure{
			between("overhead, GET of 3 bytes, volume", 5, 27, "%"), between("overhead, GET of 3 bytes, bind mount", 7, 33, "%"),
			between("overhead, MSET of 1000 bytes", 2, 4, "%"), exactly("requests a second with pipeline 10", 5, "times"),
		}, grid("%", ioThreads,
			row{"change in the data, GET of 3 bytes, pipeline 10, volume", []float64{-8.4, -5.1, -13.0, -27.6}},
			row{"change in the data, GET of 3 bytes, pipeline 10, bind mount", []float64{-7.2, -9.3, -30.7, -33.9}},
			row{"change in the data, GET of 3 bytes, no pipeline, volume", []float64{17.3, -5.2, 0.1, -5.0}},
		)...),
		Remark:        "Without persistence the program touches no storage: volume and bind mount are negative controls here too.",
		Inconsistency: "Pipelines of 1, 3 and 5 in the text are 1, 5 and 10 in its data; the data, one run a cell, have containers faster than the host by 17 % in a cell that the text counts as slower. Nearly all of its runs without a pipeline end on the tick of 250 ms by which the load program with threads ends.",
		HowJudged:     "The overhead on requests a second against bare metal, paired within blocks, over pipelines 1 to 10, values of 3 and 1000 bytes. Confirmed where the cost of one request, in microseconds, is the same at all rates (within 2 % of the request's time) and the percentage grows with the rate, intervals apart; refuted where the percentage does not grow, or where a kind of request that is answered more slowly than the fastest loses more, intervals apart; qualified where the network, not storage, accounts for it.",
		Limits:        []Figure{exactly("smallest effect", 2, "%")},
	},
}
