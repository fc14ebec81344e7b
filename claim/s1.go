package claim

// characterization is the source of S1.1 to S1.15.
var characterization = Paper{
	Key:   "S1",
	Name:  "Darbaz 2018",
	Title: "Characterization of Containers in Emerging Applications: Microservices, FaaS and GPUs",
	Kind:  "master's thesis, University of Illinois",
	Year:  2018,
	Bench: "24 cores in 2 sockets (Xeon E5-2650 v4), 64 GB, Linux 4.4, Docker 17.06; for the GPU, 4 cores (i7-4790), GTX 1050, Linux 4.8, Docker 18.06, CUDA 8. How often each was measured is not told.",
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

var s1 = []Claim{
	{
		ID: "S1.1", Paper: characterization, Study: "startup",
		Command: []string{"tare", "startup", "--platform", "docker", "--rate", "1,2,4,8"},
		Short:   "the more starts a second, the slower; the tail most",
		Says:    "When containers are started at a growing rate, a start takes longer on average, though by a smaller factor than the rate grows; the 95th percentile grows by a larger factor than the mean.",
		Published: []Figure{
			exactly("mean, 1 a second", 0.68, "s"), exactly("p95, 1 a second", 0.78, "s"),
			exactly("mean, 4 a second", 1.55, "s"), exactly("p95, 4 a second", 2.24, "s"),
			exactly("mean, 8 a second", 2.65, "s"), exactly("p95, 8 a second", 4.59, "s"),
		},
		Remark:    "2 starts a second were run too; their figures stand in a picture only. That the engine takes starts one after another is given as the cause.",
		HowJudged: "The engine's answer at the highest rate against that at the lowest, of the rates that the engine keeps up with. Confirmed where the growth of the mean lies wholly above 1 times and below the growth of the rate, and the growth of the p95 divided by that of the mean wholly above 1 times; refuted where any of the three lies wholly on the other side. Qualified where fewer rates could be kept up with than were asked, or starts failed: beyond the knee latency grows for as long as one goes on starting, and says nothing of a rate. By one application, where S1 has the mean of its own, it is qualified at best, and refutes nothing. Seconds are shown and not judged.",
		Limits:    []Figure{exactly("no growth", 1, "times")},
	},
	{
		ID: "S1.2", Paper: characterization, Study: "startup",
		Command: []string{"tare", "startup", "--platform", "docker", "--rate", "8", "--workload", "empty,redis,httpd,docstore,uri-parser,hashing"},
		Short:   "applications start alike, but for the document database",
		Says:    "At the highest rate most applications take about as long to start as one another; the document database, which maps its storage into memory, stands out. What makes the difference is the image's size, what the program does before it serves, and how it launches processes.",
		Remark:  "In a picture only, at 8 starts a second.",
		HowJudged: "Each application's mean time to the engine's answer against the median of all, at the highest rate that all are kept up with. Confirmed where every application but the document database lies within 20 % of that median, with its interval, and the database wholly above it; refuted where another lies wholly outside the 20 %, or the database within. " +
			"Qualified where another document database stood in for MongoDB, inconclusive where none was among them. Size, layers and time to readiness are set beside it as covariates.",
		Limits: []Figure{exactly("alike", 20, "%")},
	},
	{
		ID: "S1.3", Paper: characterization, Study: "startup",
		Command:   []string{"tare", "startup", "--platform", "docker", "--rate", "1,2,4,8", "--profile"},
		Short:     "more than half of a start's CPU time is the kernel's",
		Says:      "Of the time spent on CPUs while containers come up, the kernel takes more than the engine, its libraries and runtimes and the application together.",
		Published: []Figure{exactly("kernel", 56.94, "%"), exactly("user", 43.06, "%")},
		HowJudged: "The share of samples in kernel mode among all but the idle task's, the instrument's own and those of programs that have no part in the starts, sampled on the whole system while starts run. Confirmed where the interval of the mean over applications lies wholly above 50 % and so does each application's, refuted where the mean lies wholly below. Qualified where only the mean does, or by fewer than three applications, which refute nothing, or programs that stand in for S1's.",
		Limits:    []Figure{exactly("half", 50, "%")},
	},
	{
		ID: "S1.4", Paper: characterization, Study: "startup",
		Command: []string{"tare", "startup", "--platform", "docker", "--rate", "1,2,4,8", "--profile"},
		Short:   "memory and process set-up, and Go's heap, make 40 %",
		Says:    "Two groups of functions explain about two fifths of a start: in the kernel, setting up memory and processes (copying page ranges, handling faults, unmapping them again); in Go programs, allocating memory and collecting it.",
		Published: []Figure{
			exactly("kernel memory and process start", 19.85, "%"),
			exactly("Go allocation and collection", 21.8, "%"),
			exactly("both groups", 41.65, "%"),
			about("both groups, in the conclusion", 40, "%"),
		},
		HowJudged: "The two groups' share of the samples of S1.3, by the table of functions that the study prints with it. Means over applications decide. Confirmed where the interval of their sum lies within 5 points of 41.65 % and each group wholly has at least half of its published share; qualified where only the sum does, or by fewer than three applications, which refute nothing, or programs that stand in for S1's; refuted where the sum lies wholly outside. Inconclusive where more than 10 % of samples fall in no group.",
		Limits:    []Figure{exactly("distance", 5, "points"), atMost("unassigned", 10, "%")},
	},
	{
		ID: "S1.5", Paper: characterization, Study: "pages", Command: []string{"tare", "pages"},
		Short: "half of all page-table entries are doubled at start",
		Says:  "Just after the start, in four containers of one image on one core, about half of all page-table entries map the same page to the same frame in more than one process. A web server with many workers has most such entries; a program that has yet to touch its mapped file has least.",
		Published: []Figure{
			exactly("groupable, mean", 53, "%"), exactly("groupable, httpd", 76.3, "%"), exactly("groupable, FIO", 2.63, "%"),
		},
		Remark:    "Counted over processes, so that one web server's own workers count. We count over processes, as there, and over containers.",
		HowJudged: "The mean share over the applications, counted over processes. Confirmed where its interval lies wholly above 45 % and httpd has the largest and FIO the smallest share; qualified where the mean is as claimed but another application has the largest or the smallest share, or it holds over processes and not over containers; refuted where the mean lies wholly below 45 %.",
		Limits:    []Figure{atLeast("groupable", 45, "%")},
	},
	{
		ID: "S1.6", Paper: characterization, Study: "pages", Command: []string{"tare", "pages"},
		Short: "entries are shared more after two minutes of service",
		Says:  "After two minutes of work the share of doubled entries has grown in services, most where mapped data is served as it is; a program that buffers what it reads keeps most entries to itself.",
		Published: []Figure{
			exactly("groupable, mean", 63.7, "%"), exactly("exclusive, MongoDB", 2, "%"),
			exactly("groupable, FIO", 55.3, "%"), exactly("exclusive, Graphchi", 74.7, "%"),
		},
		Remark:        "Services only: functions have ended by then.",
		Inconsistency: "The conclusion speaks of up to 97 % groupable entries, where 2 % exclusive ones in MongoDB make it 98 %.",
		HowJudged:     "The share after two minutes less the share after the start, paired by container. Confirmed where the mean difference lies wholly above 0 points and Graphchi keeps more than 50 % exclusive; qualified where only the former holds, or the services had worked for less than two minutes; refuted where the difference lies wholly below 0 points.",
		Limits:        []Figure{exactly("no change", 0, "points"), atLeast("exclusive, Graphchi", 50, "%")},
	},
	{
		ID: "S1.7", Paper: characterization, Study: "pages", Command: []string{"tare", "pages"},
		Short: "most pages in use are mapped more than once",
		Says:  "The share of mapped pages that the kernel holds for active grows from the start to the steady state, and most of the active ones are doubled entries.",
		Published: []Figure{
			exactly("active at start", 52.4, "%"), exactly("active in steady state", 71.9, "%"), exactly("active and groupable, of all entries", 59.86, "%"),
		},
		Inconsistency: "The abstract gives 59.86 % as the share of duplicated entries; the body has it for entries that are active and groupable, of services in the steady state, and 53 % and 63.7 % for groupable ones.",
		HowJudged:     "Active entries by the kernel's list of active pages. Confirmed where the steady share exceeds that at the start with its interval, and more than 50 % of active entries are groupable; refuted where either lies wholly on the other side. Qualified where the services had worked for less than two minutes, and on kernels that keep generations instead of two lists: there the youngest generations stand for active.",
		Limits:        []Figure{atLeast("groupable among active", 50, "%")},
	},
	{
		ID: "S1.8", Paper: characterization, Study: "pages", Command: []string{"tare", "pages"},
		Short:     "huge pages hardly occur, and never where pages are shared",
		Says:      "Transparent huge pages cover next to none of the active pages, and none that is mapped by several processes, since they are made for anonymous memory only.",
		Published: []Figure{atMost("huge among active, Graphchi", 0.07, "%"), exactly("huge among groupable", 0, "%")},
		HowJudged: "Active entries that lie in transparent huge pages, by application. Confirmed where none has more than 1 % and no groupable entry is huge, while the kernel's setting of huge pages is always; refuted where any has wholly more, under whatever setting. Inconclusive under another setting, by which only memory that asks for them can be huge: that there are none shows nothing then.",
		Limits:    []Figure{atMost("huge among active", 1, "%")},
	},
	{
		ID: "S1.9", Paper: characterization, Study: "pages", Command: []string{"tare", "pages"},
		Short: "a third of page faults are taken by several containers",
		Says:  "Containers of one image take many page faults on the very pages on which another of them faulted; those that walk their data in the same order take most of them twice, those that pick at random few.",
		Published: []Figure{
			exactly("duplicated, mean", 35.74, "%"),
			between("duplicated, databases, FIO and Graphchi", 10.87, 21.42, "%"),
			between("duplicated, httpd and functions", 51.38, 55.68, "%"),
		},
		Remark:        "Services were watched for 10 seconds, functions for their whole life. The databases were asked by a hot spot, as the text has it; the table of the mix gives the access as uniform.",
		Inconsistency: "The conclusion speaks of up to 54 % duplicated faults, where the analysis has 55.68 %.",
		HowJudged:     "Faults of each application on pairs of page and frame on which another container faulted too. httpd is asked for its files one after the other, as S1 has it. Confirmed where every sequential application has a larger share than every random one, intervals apart, and the mean lies wholly above 25 %; refuted where the order is reversed or the mean wholly below 25 %.",
		Limits:        []Figure{atLeast("duplicated, mean", 25, "%")},
	},
	{
		ID: "S1.10", Paper: characterization, Study: "pages", Command: []string{"tare", "pages"},
		Short:     "fifteen page faults in a million instructions",
		Says:      "Containerised applications take in the order of fifteen page faults in a million instructions; a web server that passes new data on with little work takes most.",
		Published: []Figure{exactly("mean", 15.07, "faults per 10^6 instructions"), exactly("httpd", 47.32, "faults per 10^6 instructions")},
		HowJudged: "Faults against retired instructions of the same span. Confirmed where the mean lies within a factor of 2 of the published one and httpd has the highest rate; refuted where httpd wholly has not, or the mean is wholly further away. Inconclusive on hosts whose processor counts no instructions for us.",
		Limits:    []Figure{exactly("factor", 2, "times")},
	},
	{
		ID: "S1.11", Paper: characterization, Study: "pages", Command: []string{"tare", "pages"},
		Short:         "which types of page faults an application takes",
		Says:          "What kinds of faults an application takes follows from how it uses memory: services fault on reads of mapped files and on fresh anonymous memory, a program that buffers on anonymous memory, one that writes a shared mapping on that; functions take a third of theirs on write-protected pages; nothing is swapped.",
		Published:     faultTable,
		Remark:        "Where there is no entry yet, a fault is anonymous (of anonymous memory), read (of a file), copy-on-write (a write to a file mapped privately) or shared (a write to a shared mapping). Where there is one, it is swap (the page is elsewhere) or write-protect (a write that the entry forbids).",
		Inconsistency: "The text gives shared faults as 40.14 %, which the table has for anonymous ones (shared: 9.95 %).",
		HowJudged:     "Each application's shares by type. Confirmed where each has the same most frequent type as published and every mean share lies wholly within 10 points of the published one; qualified where the most frequent types agree and the shares do not, or where other programs stand in for S1's; refuted where more than half of the applications have another most frequent type.",
		Limits:        []Figure{exactly("distance", 10, "points")},
	},
	{
		ID: "S1.12", Paper: characterization, Study: "pages", Command: []string{"tare", "pages"},
		Short:     "hardly any fault breaks the sharing by copying",
		Says:      "Faults that copy a page on its first write are so few that the sharing between containers outlives the program's work.",
		Published: []Figure{exactly("copy-on-write, mean", 1.30, "%")},
		Remark:    "It leaves out the write-protect faults (17.67 % of all), of which some copy a page too: we give the figure with and without these.",
		HowJudged: "The mean share of faults that end in a private copy of a page. Confirmed where it lies wholly below 5 % with write-protect faults that copied included; qualified where only without them; refuted where it lies wholly above 5 % without them.",
		Limits:    []Figure{atMost("copying", 5, "%")},
	},
	{
		ID: "S1.13", Paper: characterization, Study: "gpu", Command: []string{"tare", "gpu"},
		Short: "GPU kernels take the same share of time in a container",
		Says:  "A CUDA program divides its time between kernels and calls of the API in the same proportion in a container as without one: kernels run at the device's own speed.",
		Published: []Figure{
			exactly("kernels, native", 25.85, "%"), exactly("API, native", 74.15, "%"),
			exactly("kernels, container", 25.32, "%"), exactly("API, container", 74.68, "%"),
		},
		HowJudged: "The share that kernels have of the time of kernels and calls, by the activity probe, in a container less on bare metal, paired within blocks, by application and over all. Confirmed where the interval of the mean over all lies wholly within 2 points of 0, refuted where wholly beyond; qualified where it lies wholly beyond for some application. Inconclusive without the probe. The time of kernels stands beside it and decides nothing.",
		Limits:    []Figure{exactly("smallest effect", 2, "points")},
	},
	{
		ID: "S1.14", Paper: characterization, Study: "gpu", Command: []string{"tare", "gpu"},
		Short: "a GPU program takes 7 % longer in a container",
		Says:  "From start to end a GPU program is a few percent slower in a container, between a few and a tenth by application.",
		Published: []Figure{
			exactly("slower, mean", 7, "%"), exactly("slower, stencil", 3.4, "%"), exactly("slower, particle filter", 10.8, "%"),
		},
		Inconsistency: "The conclusion gives 11.9 % for end to end, which the analysis has for just-in-time compilation; end to end it has 7 %.",
		HowJudged:     "Whole run time in a container against bare metal, paired within blocks. Confirmed where the mean overhead's interval lies between 2 % and 12 %; refuted where it lies wholly outside.",
		Limits:        []Figure{between("slower, mean", 2, 12, "%")},
	},
	{
		ID: "S1.15", Paper: characterization, Study: "gpu", Command: []string{"tare", "gpu"},
		Short: "the loss is compilation for the device at run time",
		Says:  "What a GPU program loses in a container it loses while its code is compiled for the device at run time; allocation costs more too but is a sliver of the run, and copies cost the same. So one should build for the exact device.",
		Published: []Figure{
			exactly("compilation, overhead, mean", 11.9, "%"), exactly("compilation, overhead, LeNet", 9.4, "%"), exactly("compilation, overhead, stencil", 13.1, "%"),
			exactly("allocation, overhead", 12.2, "%"), atMost("allocation, of the run", 1.2, "%"),
			exactly("copy, overhead, mean", 1.4, "%"), between("copy, overhead", -3.3, 7.1, "%"),
		},
		Inconsistency: "The conclusion gives the 11.9 % of compilation as the whole run's loss, which the analysis has at 7 %. Both were measured with PTX for the exact device, which the conclusion recommends against that loss; that other builds lose more was not measured.",
		HowJudged:     "The end-to-end overhead with code for the exact device, with PTX left to the driver and a cold cache, and with a warm one. Confirmed where the overhead with PTX and a cold cache exceeds that with exact code with its interval, and exact code is within 2 % of bare metal; refuted where compilation takes no longer in a container (its ratio wholly within 2 % of 1).",
		Limits:        []Figure{exactly("smallest effect", 2, "%")},
	},
}
