package claim

import "slices"

// characterization is the source of S1.1 to S1.15.
var characterization = Paper{
	Key:   "S1",
	Name:  "Darbaz 2018",
	Title: "Characterization of Containers in Emerging Applications: Microservices, FaaS and GPUs",
	Kind:  "master's thesis, University of Illinois",
	Year:  2018,
	Bench: "24 cores in 2 sockets (Xeon E5-2650 v4), 64 GB, Linux 4.4, Docker 17.06. The GPU host had 4 cores (i7-4790), GTX 1050, Linux 4.8, Docker 18.06, CUDA 8. The number of repetitions is not given.",
}

// The units of S1.11's table, and of figures that other claims take from it.
var (
	faultTypes = []string{"read", "copy-on-write", "shared", "anonymous", "swap", "write-protect"}

	faultTable = grid("%", faultTypes,
		row{"ArangoDB", []float64{48.164, 0.668, 0.026, 47.973, 0.000, 3.168}},
		row{"MongoDB", []float64{52.420, 0.730, 0.029, 43.477, 0.000, 3.345}},
		row{"httpd", []float64{61.598, 0.857, 0.034, 33.484, 0.000, 4.028}},
		row{"Graphchi", []float64{3.127, 0.365, 7.401, 85.166, 0.000, 3.940}},
		row{"FIO", []float64{14.652, 0.223, 81.925, 1.722, 0.000, 1.478}},
		row{"hashing dense", []float64{23.399, 2.265, 0.034, 38.473, 0.003, 35.826}},
		row{"hashing sparse", []float64{29.976, 2.081, 0.030, 34.312, 0.002, 33.599}},
		row{"URI parser dense", []float64{21.104, 2.341, 0.037, 39.771, 0.000, 36.747}},
		row{"URI parser sparse", []float64{23.930, 2.228, 0.030, 36.916, 0.000, 36.896}},
		row{"mean", []float64{30.930, 1.306, 9.950, 40.144, 0.001, 17.670}},
	)
)

// What the rules of S1.5 to S1.12 have in common: the applications without which they decide nothing, and
// in what a run may differ from S1's and still qualify a claim.
const (
	ofNine         = " Inconclusive where one of S1's nine applications was not measured."
	ofServices     = " Inconclusive where one of S1's five services was not measured."
	unlikeS1       = " Qualified at best with stand-in programs, other than 4 copies, or data sets below 500 MB."
	unlikeS1OrHuge = " Qualified at best with stand-in programs, other than 4 copies, data sets below 500 MB, or huge pages set for the trials."
	otherSpan      = " Qualified at best where services' faults were recorded for another span than S1's 10 seconds."
)

var s1 = []Claim{
	{
		ID: "S1.1", Paper: characterization, Study: "startup",
		Quick:   []string{"tare", "startup", "--platform", "docker", "--rate", "1,8", "--knee=false"},
		Command: startsOfAll,
		Short:   "the more starts a second, the slower; the tail most",
		Says:    "When containers are started at a growing rate, a start takes longer on average, by a smaller factor than the rate grows. The 95th percentile grows by a larger factor than the mean.",
		Published: []Figure{
			exactly("mean, 1 a second", 0.68, "s"), exactly("p95, 1 a second", 0.78, "s"),
			exactly("mean, 4 a second", 1.55, "s"), exactly("p95, 4 a second", 2.24, "s"),
			exactly("mean, 8 a second", 2.65, "s"), exactly("p95, 8 a second", 4.59, "s"),
		},
		Remark:    "2 starts a second were run too, but their figures are in a picture only. The paper gives as the cause that the engine takes starts one after another.",
		HowJudged: "The time to the engine's answer at the highest rate against that at the lowest, of the rates that the engine sustains. Confirmed where the mean grows wholly by more than 1.05 times, the smallest effect of interest, and wholly by less than the rate. In addition the growth of the p95, divided by that of the mean, must lie wholly above 1.05 times. Refuted where one of the three lies wholly on the other side. Qualified where the engine sustained fewer rates than were asked, or starts failed at a rate. Beyond such a rate latency grows as long as starts go on, and says nothing about the rate. Over several applications both growths are geometric means, by block. With fewer than three applications, where S1 has the mean of its own, it is qualified at best, and nothing is refuted. With programs other than S1's own it is qualified at best. Inconclusive where the engine sustains fewer than two rates. Seconds are shown and not judged.",
		Limits:    []Figure{atLeast("growth", 1.05, "times")},
	},
	{
		ID: "S1.2", Paper: characterization, Study: "startup",
		Quick:     []string{"tare", "startup", "--platform", "docker", "--rate", "4", "--knee=false", "--count", "10", "--workload", "empty,redis,httpd,docstore"},
		Command:   startsOfAll,
		Short:     "applications start alike, but for the document database",
		Says:      "At the highest rate most applications take about as long to start as one another. The document database, which maps its storage into memory, stands out. The difference comes from the image's size, what the program does before it serves, and how it launches processes.",
		Remark:    "In a picture only, at 8 starts a second.",
		HowJudged: "Each application's mean time to the engine's answer against the median of the others without the document database. The rate is the highest that the engine sustains with every application. Confirmed where every application but the document database lies wholly within 20 % of that median. The database must lie wholly more than 20 % above it. Refuted where another lies wholly outside the 20 %, or the database wholly within them or below. Qualified instead of confirmed with programs other than S1's own, such as another document database for MongoDB. Inconclusive without a document database, or where no rate is sustained with all. Size, layers and time to readiness stand beside it as covariates.",
		Limits:    []Figure{exactly("alike", 20, "%")},
	},
	{
		ID: "S1.3", Paper: characterization, Study: "startup",
		Quick:     startsInShort,
		Command:   append(slices.Clone(startsOfAll), "--profile"),
		Short:     "more than half of a start's CPU time is the kernel's",
		Says:      "The kernel takes most of the CPU time while containers start. It takes more than the engine, its libraries and runtimes and the application together.",
		Published: []Figure{exactly("kernel", 56.94, "%"), exactly("user", 43.06, "%")},
		HowJudged: "The share of samples in kernel mode, sampled on the whole system while starts run. Samples of the idle task, of the instrument and of programs without a part in the starts are left out. The rate is the highest asked that is at most one start a second for each CPU. Confirmed where the mean over applications lies wholly above 50 %, and so does each application. Refuted where the mean lies wholly below 50 %. Qualified where only the mean lies wholly above 50 %, or with programs other than S1's own. With fewer than three applications it is qualified at best, and nothing is refuted.",
		Limits:    []Figure{exactly("half", 50, "%")},
	},
	{
		ID: "S1.4", Paper: characterization, Study: "startup",
		Quick:   startsInShort,
		Command: append(slices.Clone(startsOfAll), "--profile"),
		Short:   "memory and process set-up, and Go's heap, make 40 %",
		Says:    "Two groups of functions explain about two fifths of a start. In the kernel they set up memory and processes: they copy page ranges, handle faults and unmap pages again. In Go programs they allocate memory and collect it.",
		Published: []Figure{
			exactly("kernel memory and process start", 19.85, "%"),
			exactly("Go allocation and collection", 21.8, "%"),
			exactly("both groups", 41.65, "%"),
			about("both groups, in the conclusion", 40, "%"),
		},
		HowJudged: "The two groups' share of the samples of S1.3, by the table of functions that the study prints with it. Means over applications decide. Confirmed where their sum lies wholly within 5 points of 41.65 %, and each group wholly has at least half of its published share. Qualified where only the sum does, or with programs other than S1's own. With fewer than three applications it is qualified at best, and nothing is refuted. Refuted where the sum lies wholly outside. Inconclusive where more than 10 % of samples are in no group.",
		Limits:    []Figure{exactly("distance", 5, "points"), atMost("unassigned", 10, "%")},
	},
	{
		ID: "S1.5", Paper: characterization, Study: "pages", Command: pagesAsJudged,
		Quick: pagesInShort,
		Short: "half of all page-table entries are doubled at start",
		Says:  "Four containers of one image ran on one core. Just after the start, about half of all page-table entries are doubled, or groupable. They map the same page to the same frame in more than one process. A web server with many workers has most such entries. A program that has yet to touch its mapped file has least.",
		Published: []Figure{
			exactly("groupable, mean", 53, "%"), exactly("groupable, httpd", 76.3, "%"), exactly("groupable, FIO", 2.63, "%"),
		},
		Remark:    "S1 counts over processes, so that one web server's own workers count. We count over processes as S1 does, and over containers.",
		HowJudged: "The mean share of groupable entries over the applications, counted over processes. Confirmed where it lies wholly above 45 %, httpd has the largest share and FIO the smallest, intervals apart, and it holds over containers too. Refuted where the mean lies wholly below 45 %. Qualified where the mean is as claimed, but another application has a larger share than httpd, or a smaller one than FIO, intervals apart. Qualified also where the mean over containers is not wholly above 45 %." + ofNine + unlikeS1OrHuge,
		Limits:    []Figure{atLeast("groupable", 45, "%")},
	},
	{
		ID: "S1.6", Paper: characterization, Study: "pages", Command: pagesAsJudged,
		Quick: pagesInShort,
		Short: "entries are shared more after two minutes of service",
		Says:  "After two minutes of work the share of groupable entries has grown in services, most where mapped data is served unchanged. A program that buffers what it reads keeps most entries to itself.",
		Published: []Figure{
			exactly("groupable, mean", 63.7, "%"), exactly("exclusive, MongoDB", 2, "%"),
			exactly("groupable, FIO", 55.3, "%"), exactly("exclusive, Graphchi", 74.7, "%"),
		},
		Remark:        "Services only: functions have ended by then.",
		Inconsistency: "The conclusion speaks of up to 97 % groupable entries, where 2 % exclusive ones in MongoDB make it 98 %.",
		HowJudged:     "The share of groupable entries after two minutes less the share after the start, paired within blocks. Confirmed where the mean difference lies wholly above 0 points and Graphchi keeps wholly more than 50 % exclusive. Refuted where the difference lies wholly below 0 points. Qualified where the difference is as claimed, but Graphchi keeps wholly less, or the services had worked for less than two minutes." + ofServices + unlikeS1OrHuge,
		Limits:        []Figure{exactly("no change", 0, "points"), atLeast("exclusive, Graphchi", 50, "%")},
	},
	{
		ID: "S1.7", Paper: characterization, Study: "pages", Command: pagesAsJudged,
		Quick: pagesInShort,
		Short: "most pages in use are mapped more than once",
		Says:  "The share of mapped pages that the kernel counts as active grows from the start to the steady state. Most of the active ones have groupable entries.",
		Published: []Figure{
			exactly("active at start", 52.4, "%"), exactly("active in steady state", 71.9, "%"), exactly("active and groupable, of all entries", 59.86, "%"),
		},
		Inconsistency: "The abstract gives 59.86 % as the share of duplicated entries. In the body it is the share of active and groupable entries, of services in the steady state. For groupable entries the body has 53 % and 63.7 %.",
		HowJudged:     "Active entries of services, by the kernel's list of active pages. Confirmed where their share grows wholly from the start to the steady state, and wholly more than 50 % of active entries are groupable. Refuted where either lies wholly on the other side. Qualified where the services had worked for less than two minutes. Qualified also on kernels with generations instead of two lists: there the youngest generations stand for active." + ofServices + unlikeS1OrHuge,
		Limits:        []Figure{atLeast("groupable among active", 50, "%")},
	},
	{
		ID: "S1.8", Paper: characterization, Study: "pages",
		Quick:     append(slices.Clone(pagesInShort), hugePages...),
		Command:   append(slices.Clone(pagesAsJudged), hugePages...),
		Short:     "huge pages hardly occur, and never where pages are shared",
		Says:      "Transparent huge pages cover next to none of the active pages, and none that several processes map. The reason given is that they are made for anonymous memory only.",
		Published: []Figure{atMost("huge among active, Graphchi", 0.07, "%"), exactly("huge among groupable", 0, "%")},
		HowJudged: "Active entries that lie in transparent huge pages, by application. Confirmed where none has more than 1 %, with its interval, no groupable entry is huge, and the kernel's setting is always. The option --huge-pages makes that setting for the trials. Refuted, under any setting, where an application has wholly more than 1 %, or any groupable entry is huge. Inconclusive under another setting, where only memory that asks for them can be huge: their absence then shows nothing." + ofNine + unlikeS1,
		Limits:    []Figure{atMost("huge among active", 1, "%")},
	},
	{
		ID: "S1.9", Paper: characterization, Study: "pages", Command: pagesAsJudged,
		Quick: pagesInShort,
		Short: "a third of page faults are taken by several containers",
		Says:  "Containers of one image take many page faults on pages on which another of them faulted. Those that walk their data in the same order take most faults twice. Those that pick at random take few twice.",
		Published: []Figure{
			exactly("duplicated, mean", 35.74, "%"),
			between("duplicated, databases, FIO and Graphchi", 10.87, 21.42, "%"),
			between("duplicated, httpd and functions", 51.38, 55.68, "%"),
		},
		Remark:        "Services were watched for 10 seconds, functions for their whole life. In the text the databases were asked by a hot spot. The table of the mix gives the access as uniform.",
		Inconsistency: "The conclusion speaks of up to 54 % duplicated faults, where the analysis has 55.68 %.",
		HowJudged:     "Each application's share of faults on pairs of page and frame on which another container faulted too. httpd is asked for its files one after the other, as in S1. Confirmed where every sequential application has a larger share than every random one, intervals apart, and the mean lies wholly above 25 %. Refuted where every sequential one has a smaller share than every random one, intervals apart, or the mean lies wholly below 25 %." + ofNine + unlikeS1OrHuge + otherSpan,
		Limits:        []Figure{atLeast("duplicated, mean", 25, "%")},
	},
	{
		ID: "S1.10", Paper: characterization, Study: "pages", Command: pagesAsJudged,
		Quick:     pagesInShort,
		Needs:     []Need{needsCounters},
		Short:     "fifteen page faults in a million instructions",
		Says:      "Containerised applications take on the order of fifteen page faults in a million instructions. A web server that passes new data on with little work takes most.",
		Published: []Figure{exactly("mean", 15.07, "faults per 10^6 instructions"), exactly("httpd", 47.32, "faults per 10^6 instructions")},
		HowJudged: "Faults against retired instructions of the same span. Confirmed where the mean lies wholly within a factor of 2 of the published one, and httpd has the highest rate, intervals apart. Refuted where another application has a higher rate than httpd, intervals apart, or the mean lies wholly outside the factor. Inconclusive on hosts whose processor counts no instructions for us." + ofNine + unlikeS1OrHuge + otherSpan,
		Limits:    []Figure{exactly("factor", 2, "times")},
	},
	{
		ID: "S1.11", Paper: characterization, Study: "pages", Command: pagesAsJudged,
		Quick:         pagesInShort,
		Short:         "which types of page faults an application takes",
		Says:          "The types of page faults of an application follow from how it uses memory. Services fault on reads of mapped files and on fresh anonymous memory. A program that buffers faults on anonymous memory, and one that writes a shared mapping faults on that. Functions take a third of their faults on write-protected pages. Nothing is swapped.",
		Published:     faultTable,
		Remark:        "Faults without a page-table entry have four types. They are anonymous (anonymous memory), read (a file), copy-on-write (a write to a private file mapping) or shared (a write to a shared mapping). Faults with an entry are swap (the page is elsewhere) or write-protect (the entry forbids the write).",
		Inconsistency: "The text gives shared faults as 40.14 %, which the table has for anonymous ones (shared: 9.95 %).",
		HowJudged:     "Each application's shares of faults by type. Its most frequent type is as published where it lies wholly above each type that S1 has at least 10 points lower. Confirmed where that holds of each application, and every mean share lies wholly within 10 points of the published one. Qualified where the most frequent types agree and the shares are not all within those points. Refuted where more than half of the applications have such a lower type wholly above." + ofNine + unlikeS1OrHuge + otherSpan,
		Limits:        []Figure{exactly("distance", 10, "points")},
	},
	{
		ID: "S1.12", Paper: characterization, Study: "pages", Command: pagesAsJudged,
		Quick:     pagesInShort,
		Short:     "hardly any fault breaks the sharing by copying",
		Says:      "Faults that copy a page on its first write are so few that the sharing between containers outlives the program's work.",
		Published: []Figure{exactly("copy-on-write, mean", 1.30, "%")},
		Remark:    "The figure leaves out the write-protect faults (17.67 % of all), some of which copy a page too. We give the figure with and without these.",
		HowJudged: "The mean share of faults that end in a private copy of a page. Confirmed where it lies wholly below 5 % with write-protect faults that may copy included. Qualified where it lies wholly below 5 % without them and wholly above with them. Refuted where it lies wholly above 5 % without them." + ofNine + unlikeS1OrHuge + otherSpan,
		Limits:    []Figure{atMost("copying", 5, "%")},
	},
	{
		ID: "S1.13", Paper: characterization, Study: "gpu", Command: []string{"tare", "gpu"},
		Needs: []Need{needsGPU},
		Short: "GPU kernels take the same share of time in a container",
		Says:  "A CUDA program divides its time between kernels and API calls in the same proportion in a container as without one. Kernels run at the device's own speed.",
		Published: []Figure{
			exactly("kernels, native", 25.85, "%"), exactly("API, native", 74.15, "%"),
			exactly("kernels, container", 25.32, "%"), exactly("API, container", 74.68, "%"),
		},
		HowJudged: "The kernels' share of the time of kernels and calls, by the activity probe, in a container less that on bare metal. Differences are paired within blocks, by application and over all. Code for the exact device decides, where the run has it. Confirmed where the mean over all lies wholly within 2 points of 0. Refuted where it lies wholly beyond. Qualified where the mean is as claimed, but some application lies wholly beyond. Inconclusive without the probe. The time of kernels stands beside it and decides nothing.",
		Limits:    []Figure{exactly("smallest effect", 2, "points")},
	},
	{
		ID: "S1.14", Paper: characterization, Study: "gpu", Command: []string{"tare", "gpu"},
		Needs: []Need{needsGPU},
		Short: "a GPU program takes 7 % longer in a container",
		Says:  "From start to end a GPU program is a few percent slower in a container, between a few and a tenth by application.",
		Published: []Figure{
			exactly("slower, mean", 7, "%"), exactly("slower, stencil", 3.4, "%"), exactly("slower, particle filter", 10.8, "%"),
		},
		Inconsistency: "The conclusion gives 11.9 % for end to end. In the analysis that is the figure for just-in-time compilation, and end to end it has 7 %.",
		HowJudged:     "Whole run time in a container against bare metal, paired within blocks. Code for the exact device decides, where the run has it. Confirmed where the mean overhead lies wholly between 2 % and 12 %. Refuted where it lies wholly outside.",
		Limits:        []Figure{between("slower, mean", 2, 12, "%")},
	},
	{
		ID: "S1.15", Paper: characterization, Study: "gpu", Command: []string{"tare", "gpu"},
		Needs: []Need{needsGPU},
		Short: "the loss is compilation for the device at run time",
		Says:  "What a GPU program loses in a container it loses while its code is compiled for the device at run time. Allocation costs more too, but is a small part of the run. Copies cost the same. So one should build for the exact device.",
		Published: []Figure{
			exactly("compilation, overhead, mean", 11.9, "%"), exactly("compilation, overhead, LeNet", 9.4, "%"), exactly("compilation, overhead, stencil", 13.1, "%"),
			exactly("allocation, overhead", 12.2, "%"), atMost("allocation, of the run", 1.2, "%"),
			exactly("copy, overhead, mean", 1.4, "%"), between("copy, overhead", -3.3, 7.1, "%"),
		},
		Inconsistency: "The conclusion gives the 11.9 % of compilation as the whole run's loss, for which the analysis has 7 %. Both were measured with PTX for the exact device, which the conclusion recommends against that loss. That other builds lose more was not measured.",
		HowJudged:     "The end-to-end overhead with code for the exact device, and with PTX that the driver compiles, with a cold and a warm cache. Confirmed where PTX with a cold cache wholly has the larger overhead, and exact code lies wholly within 2 % of bare metal. Qualified where only the former holds. Refuted where compilation takes no longer in a container: its ratio lies wholly within 2 % of 1. The warm cache decides nothing.",
		Limits:        []Figure{exactly("smallest effect", 2, "%")},
	},
}
