package claim

// density is the source of S3.1 and S3.2.
var density = Paper{
	Key:   "S3",
	Name:  "Rellermeyer et al. 2018",
	Title: "Container Density Improvements with Dynamic Memory Extension using NAND Flash",
	Kind:  "APSys '18",
	Year:  2018,
	Bench: "2 sockets (Xeon E5-2660 v3), 256 GiB, Linux 3.10, Docker 17.03. Swap was on a disk of its own, and there was no OOM killer. One rising sequence of neighbours was repeated.",
}

var s3 = []Claim{
	{
		ID: "S3.1", Paper: density, Study: "density", Command: []string{"tare", "density"},
		Quick: []string{"tare", "density", "--neighbours", "1,13"},
		Short: "idle neighbours alone ruin a critical service's tail",
		Says:  "A critical service suffers from the mere presence of neighbours whose memory does not fit beside it. All of them together ask for no more work than one did. Its throughput falls by half once memory is overcommitted. Its slowest requests, not its usual ones, take a thousand times as long. How fast the swap device is hardly matters.",
		Published: []Figure{
			exactly("neighbours until throughput falls", 19, ""), exactly("neighbours until it thrashes", 33, ""), exactly("neighbours at most", 49, ""),
			about("throughput lost", 50, "%"), about("mean latency", 2, "times"), about("greatest latency", 1000, "times"),
			exactly("a neighbour's memory", 34, "GiB"), exactly("host memory", 256, "GiB"),
		},
		Remark:        "In pictures, the p95 hardly moves and the p99 rises steeply. 19 neighbours of 34 GiB on 256 GiB are 2.5 times the memory, 33 are 4.4 times, 49 are 6.5 times.",
		Inconsistency: "The text has the neighbours' client pause for 150 ms. Its published script pauses for 150 µs, runs 25 client threads and drops the page cache at each step.",
		HowJudged:     "The critical service's throughput, p95, p99 and maximum at each number of neighbours against the fewest, within a sweep. With the fewest all memory fits, and the total load is constant. Overcommitment is the memory asked for over the memory granted. Confirmed where throughput has lost wholly more than 25 % at an overcommitment of at most 4.4 times, and at the next number of neighbours. One of two dozen steps alone would be beyond its interval by chance. The last step needs no next one where a change was found. There the p99 must also have grown by a larger factor than the p95, intervals apart, on each swap device tried. Refuted where throughput loses wholly less than 2 % at 6.5 times, on each device tried. Of the 6.5 times 5 % may be missing, since programs hold not quite the memory that they are asked to. Qualified where the swap device decides, or where throughput falls only beyond 4.4 times. Qualified also where it falls as claimed, but the p95 grows by more than the p99, intervals apart. Sweeps that ended before a fall was found decide nothing.",
		Limits: []Figure{
			exactly("throughput lost", 25, "%"), exactly("smallest effect", 2, "%"),
			atMost("overcommitted at the fall", 4.4, "times"), exactly("overcommitted at the end", 6.5, "times"), atMost("wanting at the end", 5, "%"),
		},
	},
	{
		ID: "S3.2", Paper: density, Study: "density", Command: []string{"tare", "density", "--extend", "none,annex"},
		Quick: []string{"tare", "density", "--neighbours", "1,13", "--extend", "none,annex"},
		Short: "with memory extension, twice the density, unharmed",
		Says:  "Memory is extended by a predictor that moves pages before they are asked for. The critical service then keeps its throughput and its usual latency at more than twice as many neighbours. The price is a small constant loss of throughput and a slightly longer tail.",
		Published: []Figure{
			exactly("neighbours without a fall", 49, ""), about("throughput lost to the extension", 10, "%"),
			atLeast("density gained", 2, "times"), exactly("flash", 2, "TiB"),
		},
		Remark:        "The p90 and p95 stay as they were, the p99 and the maximum rise a little, in pictures.",
		Inconsistency: "12 modules of 128 GiB are given as 2 TiB, and as eight times the DRAM. They are 1.5 TiB, six times the DRAM.",
		HowJudged:     "The greatest overcommitment without harm to the critical service, with the extension over without it, in the same blocks. The interval reaches from the last unharmed steps to the next ones. Harm is measured against the fewest neighbours. Without harm, throughput, p90 and p95 are within 10 %, the p99 at most 2 times, the maximum at most 10 times. No more requests may fail. Where the A/A spread is wider than a limit, it takes its place. It is what two executions of the step with fewest neighbours in one block differ by. Confirmed where the ratio lies wholly at 2 times or above, and with fewest neighbours throughput loses wholly at most 15 % to the extension. The four latencies must also lie wholly within the same limits of those without it. Refuted where the ratio lies wholly below 2 times. Qualified where the ratio is reached, but wholly more than 15 % are lost, or a latency lies wholly beyond its limit. Qualified also where swap devices or neighbours differ in the verdict. Sweeps without harm to their end bound the density from below. Without the extension they decide nothing, and with it they refute nothing.",
		Limits: []Figure{
			exactly("as before", 10, "%"), atMost("p99, a little higher", 2, "times"), atMost("maximum, a little higher", 10, "times"),
			atLeast("density gained", 2, "times"), atMost("throughput lost to the extension", 15, "%"),
		},
	},
}
