package claim

// density is the source of S3.1 and S3.2.
var density = Paper{
	Key:   "S3",
	Name:  "Rellermeyer et al. 2018",
	Title: "Container Density Improvements with Dynamic Memory Extension using NAND Flash",
	Kind:  "APSys '18",
	Year:  2018,
	Bench: "2 sockets (Xeon E5-2660 v3), 256 GiB, Linux 3.10, Docker 17.03, swap on a disk of its own, no OOM killer; one rising sequence of neighbours, repeated.",
}

var s3 = []Claim{
	{
		ID: "S3.1", Paper: density, Study: "density", Command: []string{"tare", "density"},
		Quick: []string{"tare", "density", "--neighbours", "1,13"},
		Short: "idle neighbours alone ruin a critical service's tail",
		Says:  "A critical service suffers from the mere presence of neighbours whose memory does not fit beside it, though all of them together ask for no more work than one did: its throughput falls by half once memory is overcommitted, and its slowest requests, not its usual ones, take a thousand times as long; how fast the swap device is hardly matters.",
		Published: []Figure{
			exactly("neighbours until throughput falls", 19, ""), exactly("neighbours until it thrashes", 33, ""), exactly("neighbours at most", 49, ""),
			about("throughput lost", 50, "%"), about("mean latency", 2, "times"), about("greatest latency", 1000, "times"),
			exactly("a neighbour's memory", 34, "GiB"), exactly("host memory", 256, "GiB"),
		},
		Remark:        "The p95 hardly moves and the p99 leaps, in pictures. 19 neighbours of 34 GiB on 256 GiB are 2.5 times the memory, 33 are 4.4 times, 49 are 6.5 times.",
		Inconsistency: "The text has the neighbours' client pause for 150 ms; its published script pauses for 150 µs, runs 25 client threads and drops the page cache at each step.",
		HowJudged: "Throughput, p95, p99 and maximum of the critical service at each number of neighbours against the fewest, with which all memory fits, at constant total load, by memory asked for over memory granted; each within its sweep. " +
			"Confirmed where throughput has lost more than 25 %, wholly, at an overcommitment of at most 4.4 times and at the next number of neighbours as well (one of two dozen steps would be beyond its interval by chance; the last step of all counts where a change is told at all), " +
			"and there the p99 has grown by a larger factor than the p95, intervals apart, on each swap device tried; refuted where it loses less than 2 %, wholly, at 6.5 times, of which 5 % may be wanting, as programs hold not quite what they are asked to. " +
			"Qualified where the swap device decides, where throughput falls only beyond 4.4 times, or where the p95 grows by more than the p99, intervals apart. What was stopped before a fall was told decides nothing.",
		Limits: []Figure{
			exactly("throughput lost", 25, "%"), exactly("smallest effect", 2, "%"),
			atMost("overcommitted at the fall", 4.4, "times"), exactly("overcommitted at the end", 6.5, "times"), atMost("wanting at the end", 5, "%"),
		},
	},
	{
		ID: "S3.2", Paper: density, Study: "density", Command: []string{"tare", "density", "--extend", "none,annex"},
		Quick: []string{"tare", "density", "--neighbours", "1,13", "--extend", "none,annex"},
		Short: "with memory extension, twice the density, unharmed",
		Says:  "With memory extended by a predictor that moves pages before they are asked for, the critical service keeps its throughput and its usual latency at more than twice as many neighbours; the price is a small constant loss of throughput and a slightly longer tail.",
		Published: []Figure{
			exactly("neighbours without a fall", 49, ""), about("throughput lost to the extension", 10, "%"),
			atLeast("density gained", 2, "times"), exactly("flash", 2, "TiB"),
		},
		Remark:        "The p90 and p95 stay as they were, the p99 and the maximum rise a little, in pictures.",
		Inconsistency: "12 modules of 128 GiB are given as 2 TiB, and as eight times the DRAM; they are 1.5 TiB, six times.",
		HowJudged: "The greatest overcommitment without harm to the critical service, with the extension over without it, in the same blocks; its interval reaches from the last unharmed steps to the next ones. " +
			"Without harm is, against fewest neighbours, a throughput, p90 and p95 within 10 %, a p99 of at most 2 times and a maximum of at most 10 times, or within the A/A spread of each where that is wider: what two executions of the step with fewest neighbours in one block differ by; and no failed requests besides. " +
			"Confirmed where that ratio lies wholly at 2 times or above, and with fewest neighbours throughput loses wholly at most 15 % to the extension and the four latencies lie wholly within the same limits of those without it; refuted where the ratio lies wholly below 2 times. " +
			"Qualified where the ratio is reached and wholly more than 15 % are lost, or a latency lies wholly beyond its limit, or where swap devices or neighbours differ in it. Sweeps without harm to their end bound the density from below: without the extension they decide nothing, with it they refute nothing.",
		Limits: []Figure{
			exactly("as before", 10, "%"), atMost("p99, a little higher", 2, "times"), atMost("maximum, a little higher", 10, "times"),
			atLeast("density gained", 2, "times"), atMost("throughput lost to the extension", 15, "%"),
		},
	},
}
