package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"tare/stats"
)

// startup is a sheet as a study of start-up would make it, with figures of
// the size that such a study finds.
func startup() Sheet {
	random := rand.New(rand.NewPCG(3, 4))
	engines := []struct {
		name           string
		base, capacity float64
	}{{"docker", 212, 6.1}, {"containerd", 96, 9.4}, {"oci:runc", 31, 24}, {"oci:crun", 14, 41}}
	rates := []float64{1, 2, 4, 8}

	ramp := Table{
		Title: "Start latency by rate", Note: "From the intended send to readiness. Percentiles of merged histograms; intervals resample blocks. In brackets: past the knee, not a steady state.",
		Columns: []Column{{Head: "platform"}, {Head: "rate, 1/s", Number: true}, {Head: "p50, ms", Number: true}, {Head: "p95, ms", Number: true}, {Head: "p99, ms", Number: true}, {Head: "mean, ms", Number: true, Optional: true}, {Head: "max, ms", Number: true, Optional: true}, {Head: "failed", Number: true, Optional: true}, {Head: "verdict"}},
	}
	latency := Chart{
		Title: "Start latency against rate", X: Axis{Label: "starts a second", Log: true, Ticks: rates}, Y: Axis{Label: "latency to readiness", Unit: "ms", Log: true},
		Note: "Both axes are logarithmic.",
	}
	backlog := Chart{Title: "Backlog over time at 8/s", X: Axis{Label: "time since the first start", Unit: "s"}, Y: Axis{Label: "starts in flight"}}
	for _, e := range engines {
		median, tail := Series{Name: e.name + " p50", Group: e.name}, Series{Name: e.name + " p99", Group: e.name, Dashed: true}
		for _, rate := range rates {
			load := rate / e.capacity
			p50 := e.base * (1 + 0.5*load)
			p99 := e.base * (1.5 + 2.2*load)
			past := load > 1
			if past {
				p50, p99 = p50*(1+9*(load-1)), p99*(1+14*(load-1))
			}
			median.Points = append(median.Points, Point{X: rate, Y: p50, Low: p50 * 0.95, High: p50 * 1.06, Past: past})
			tail.Points = append(tail.Points, Point{X: rate, Y: p99, Low: p99 * 0.88, High: p99 * 1.14, Past: past})
			tone, verdict, verdictTone := Plain, "steady", Good
			if past {
				tone, verdict, verdictTone = Faint, "past the knee", Bad
			}
			figure := func(v, half float64) Cell {
				text, span := readingWithin(v, v*(1-half), v*(1+half))
				return Cell{Text: text, Detail: span, Tone: tone}
			}
			failed := Cell{Text: "0"}
			if past {
				failed = Cell{Text: "3", Tone: Bad}
			}
			ramp.Rows = append(ramp.Rows, []Cell{{Text: e.name}, {Text: fmt.Sprint(rate)}, figure(p50, 0.05), figure((p50+p99)/2, 0.08), figure(p99, 0.12),
				{Text: reading(p50 * 1.1), Tone: tone}, {Text: reading(p99 * 1.6), Tone: tone}, failed, {Text: verdict, Tone: verdictTone}})
		}
		latency.Series = append(latency.Series, median, tail)
		latency.Marks = append(latency.Marks, Mark{X: min(e.capacity, 12), Low: min(e.capacity, 12) * 0.94, High: min(e.capacity, 12) * 1.06, Label: fmt.Sprintf("knee of %s: %.1f/s", e.name, e.capacity), Group: e.name})
		line := Series{Name: e.name, Group: e.name}
		inFlight := 0.0
		for i := range 240 {
			at := float64(i) / 4
			steady := 8 * e.base / 1000 * (1 + 0.3*random.Float64())
			if e.capacity < 8 {
				inFlight += (8 - e.capacity) / 4 * random.Float64() * 2
			}
			line.Points = append(line.Points, Point{X: at, Y: math.Round(steady + inFlight), Past: e.capacity < 8})
		}
		backlog.Series = append(backlog.Series, line)
	}
	latency.Marks = latency.Marks[:2]

	groups := []string{"memory and process start", "Go collector", "Go allocation", "namespaces and mounts", "network set-up", "seccomp compilation", "logging and I/O", "application"}
	byGroup := Bars{Title: "Where the CPU time goes, by function", Unit: "%", Note: "Shares of the samples that are not idle. Two groups of the published breakdown come first."}
	for i, e := range engines {
		shares := [][]float64{{21.4, 12.1, 9.3, 13.8, 14.6, 4.1, 9.9, 8.2}, {27.1, 9.0, 8.1, 18.2, 1.1, 6.0, 12.4, 11.0}, {34.5, 3.2, 5.1, 24.0, 0, 9.8, 4.1, 14.6}, {41.2, 0, 0, 28.7, 0, 5.2, 2.6, 19.1}}[i]
		bar := Bar{Label: e.name}
		rest := 100.0
		for j, g := range groups {
			if shares[j] == 0 {
				continue
			}
			bar.Segments = append(bar.Segments, Segment{Name: g, Value: shares[j], Low: shares[j] - 0.9, High: shares[j] + 1.1})
			rest -= shares[j]
		}
		bar.Segments = append(bar.Segments, Segment{Name: "unassigned", Value: rest, Faint: true})
		byGroup.Rows = append(byGroup.Rows, bar)
	}
	byComponent := Bars{Title: "CPU time of one start, by component", Unit: "ms", Rows: []Bar{{Label: "docker", Segments: []Segment{
		{Name: "dockerd", Value: 61.2, Low: 58.9, High: 63.7}, {Name: "containerd", Value: 22.9, Low: 21.3, High: 24.4}, {Name: "shim", Value: 24.8, Low: 23.1, High: 26.6},
		{Name: "runtime", Value: 41.9, Low: 40.2, High: 43.8}, {Name: "network tools", Value: 12.3, Low: 10.9, High: 13.8}, {Name: "application", Value: 18.8, Low: 18.1, High: 19.4},
		{Name: "kernel threads", Value: 9.1, Low: 7.9, High: 10.4}, {Name: "other", Value: 3.6, Faint: true}}}}}

	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	path := Timeline{
		Title: "One start, docker at 1/s: the critical path", Length: ms(212.4), Note: "The start whose latency is the median. Blocked time names what was waited for.",
		Phases: []Phase{{"engine accepts", 0, ms(3.1)}, {"engine prepares", ms(3.1), ms(71.8)}, {"shim", ms(71.8), ms(104.6)}, {"runtime create", ms(104.6), ms(158.3)}, {"init", ms(158.3), ms(171.2)}, {"exec", ms(171.2), ms(174.9)}, {"application ready", ms(174.9), ms(212.4)}},
		Lanes: []Lane{
			{"dockerd", []Span{{0, ms(3.1), Runs, "route and look-up"}, {ms(3.1), ms(11.7), Runs, ""}, {ms(11.7), ms(29.2), Waits, "waits for RCU (netns)"}, {ms(29.2), ms(33.8), Ready, ""}, {ms(33.8), ms(52.0), Runs, "veth and bridge"}, {ms(52), ms(71.8), Waits, "waits for iptables"}, {ms(71.8), ms(205), Waits, "waits for containerd (IPC)"}, {ms(205), ms(212.4), Runs, ""}}},
			{"iptables", []Span{{ms(52.4), ms(54.1), Ready, ""}, {ms(54.1), ms(60.2), Runs, ""}, {ms(60.2), ms(66.4), Waits, "waits for RCU"}, {ms(66.4), ms(71.2), Runs, ""}}},
			{"containerd", []Span{{ms(72.1), ms(80.3), Runs, "snapshot"}, {ms(80.3), ms(172.2), Waits, "waits for the shim (IPC)"}}},
			{"shim", []Span{{ms(80.9), ms(86.2), Ready, ""}, {ms(86.2), ms(104.6), Runs, "starts up"}, {ms(104.6), ms(171), Waits, "waits for runc"}}},
			{"runc", []Span{{ms(104.9), ms(109.2), Ready, ""}, {ms(109.2), ms(131.0), Runs, "reads, parses, clones"}, {ms(131), ms(139.5), Waits, "waits for RCU"}, {ms(139.5), ms(158.3), Runs, "cgroups, seccomp"}, {ms(158.3), ms(171.2), Runs, "init"}}},
			{"redis-server", []Span{{ms(174.9), ms(186.0), Runs, "ld.so"}, {ms(186), ms(190.8), Waits, "waits for the disk"}, {ms(190.8), ms(212.4), Runs, "until PING is answered"}}},
		},
	}

	judged := Judgements{Title: "Published claims", Note: "S1: Characterization of containers (2018). A verdict holds for this host.", Rows: []Judgement{
		{"S1.1", "Start latency rises with the rate, less than linearly; the tail rises faster than the mean", "mean 0.68 s at 1/s, 2.65 s at 8/s; p95 0.78 s, 4.59 s", "mean 0.23 s at 1/s, 1.02 s at 4/s (0.94 to 1.11); 8/s is past the knee (6.1/s)", "qualified", "holds below the knee; past it the latency has no limit, and a mean depends on how long it is watched", Plain},
		{"S1.2", "Applications start alike, except MongoDB", "alike but for MongoDB", "redis 212 ms, httpd 204 ms, ffmpeg 231 ms; MongoDB is not to be had here", "inconclusive", "the application that differs is not measured", Faint},
		{"S1.3", "More than half of the bring-up is spent in the kernel", "56.94 % kernel", "61.8 % (60.1 to 63.4)", "confirmed", "the whole interval lies above a half", Good},
		{"S1.4", "Two groups explain about 40 %: memory management with process start, Go collection with allocation", "19.85 % + 21.8 % = 41.65 %", "21.4 % + 21.4 % = 42.8 % (41.0 to 44.5)", "confirmed", "the paper's text says 40 %, its figure 41.65 %", Good},
	}}

	return Sheet{
		Title:  "tare startup: redis on docker, containerd, oci:runc, oci:crun",
		Answer: "Docker starts redis in 218 ms at 1/s and keeps up to 6.1 starts a second (5.7 to 6.5); containerd to 9.4; runc and crun alone are not at their end at 8.",
		Facts: []string{"workload: redis (one server, ready when it answers PING)", "blocks: 12 compared, 1 repeated for taint", "rates: 1, 2, 4, 8 starts a second, Poisson arrivals",
			"host: scales, 2 CPUs (Example CPU 8 v2), 24 GiB, kernel 6.18.5, cgroup v1, guest of kvm", "time: 21 min 4 s, 2026-01-02 15:04 UTC, seed 7"},
		Banners: []string{"past the knee: docker at 8/s does not keep up: its backlog grows for as long as it runs, so it has no mean", "tainted: 1 of 13 blocks was disturbed from outside by steal, and repeated"},
		Parts: []Part{ramp, latency, backlog, byGroup, byComponent, path, flameOf(3000), judged,
			Prose{"How this was measured", "Containers are created beforehand and started on schedule, whether or not earlier starts have ended: latency counts from the moment at which a start was due.\n\nThe knee is the highest rate whose backlog does not grow. It is searched for by bisection and stands with the interval in which the search ended."}},
		Weight: Weight{
			{What: "lateness of the generator, p99", Unit: "us", Estimate: stats.Estimate{Value: 412, Interval: stats.Interval{Low: 380, High: 460, Level: 0.95}, N: 12, Method: "bootstrap"}},
			{What: "start throughput with profiling at 1 kHz against without", Unit: "%", Difference: true, Estimate: stats.Estimate{Value: -2.1, Interval: stats.Interval{Low: -3.4, High: -0.9, Level: 0.95}, N: 12, Method: "t"}},
		},
		Next:    []string{"tare startup redis --platform docker,containerd --rate 4,5,6,7 --seed 7", "go tool pprof -http=: tare-out/startup-20260102-150405-7f3a/cpu.pb.gz"},
		Command: "tare startup redis --platform docker,containerd,oci:runc,oci:crun --rate 1,2,4,8 --arrivals poisson --profile --seed 7",
	}
}

// flameOf is a flame graph of about n frames with the names that a start has.
// The heaviest leaf always grows next, as it does where samples are many.
func flameOf(n int) Flame {
	random := rand.New(rand.NewPCG(5, 6))
	chains := map[string][]string{
		"engine":  {"net/http.(*conn).serve", "net/http.HandlerFunc.ServeHTTP", "github.com/docker/docker/api/server/router/container.(*containerRouter).postContainersStart", "github.com/docker/docker/daemon.(*Daemon).containerStart", "github.com/docker/docker/daemon.(*Daemon).initializeNetworking", "github.com/docker/libnetwork.(*sandbox).populateNetworkResources", "github.com/docker/docker/libcontainerd/remote.(*client).Start", "encoding/json.(*decodeState).object", "runtime.mallocgc", "runtime.gcBgMarkWorker", "runtime.scanobject"},
		"runtime": {"main.startContainer", "github.com/opencontainers/runc/libcontainer.(*linuxContainer).Start", "github.com/opencontainers/runc/libcontainer.(*initProcess).start", "nsexec", "seccomp_export_bpf", "db_col_transaction_start", "github.com/opencontainers/runc/libcontainer/cgroups/fs.(*manager).Apply"},
		"user":    {"main", "initServer", "_dl_relocate_object", "do_lookup_x", "aeCreateEventLoop"},
		"kernel":  {"do_syscall_64", "__x64_sys_clone3", "kernel_clone", "copy_process", "dup_mm", "copy_page_range", "exit_mmap", "unmap_page_range", "asm_exc_page_fault", "handle_mm_fault", "do_anonymous_page", "clear_page_rep", "bprm_execve", "copy_net_ns", "synchronize_rcu_expedited", "path_mount", "vfs_read"},
	}
	root := &Frame{Name: "all", Kind: "all"}
	type leaf struct {
		*Frame
		step int
	}
	var leaves []leaf
	for i, kind := range []string{"engine", "runtime", "kernel", "user"} {
		f := &Frame{Name: chains[kind][0], Kind: kind, Value: []float64{21000, 14800, 11900, 6100}[i]}
		root.Children = append(root.Children, f)
		root.Value += f.Value
		leaves = append(leaves, leaf{f, 1})
	}
	for made := 5; made < n; {
		heaviest := 0
		for i := range leaves {
			if leaves[i].Value > leaves[heaviest].Value {
				heaviest = i
			}
		}
		at := leaves[heaviest]
		leaves = append(leaves[:heaviest], leaves[heaviest+1:]...)
		rest := at.Value * (0.85 + 0.15*random.Float64())
		for share := 0.55 + 0.45*random.Float64(); rest > at.Value/50 && made < n; made++ {
			kind, step := at.Kind, at.step+random.IntN(2)
			if kind != "kernel" && random.Float64() < 0.25 {
				kind, step = "kernel", random.IntN(3)
			}
			f := &Frame{Name: chains[kind][step%len(chains[kind])], Kind: kind, Value: rest * share}
			at.Children = append(at.Children, f)
			leaves = append(leaves, leaf{f, step + 1})
			rest -= f.Value
		}
	}
	return Flame{Title: "CPU time while containers start", Unit: "samples", Note: "Kernel and user stacks at 1 kHz, all CPUs, without the idle task.", Root: root}
}
