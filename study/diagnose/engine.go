package diagnose

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"tare/container"
	"tare/kernel/accounting"
	"tare/kernel/procfs"
)

const (
	// leastEngine is the CPU time in each second from which an engine's work for a container
	// is worth a line, and leastChecks the same of checks that cost more than the service.
	leastEngine = 0.01
	leastChecks = 0.002
	// leastTicks is the CPU time of an engine's processes below which nothing is said: three ticks.
	leastTicks = 30 * time.Millisecond
	// leastLog is the rate of a log, in bytes a second, from which its cost is looked at.
	leastLog = 64 << 10
)

// checks finds a health check that takes more than it is worth. Each one has the runtime
// start a process in the container: its shim waits for both, so that their CPU time is the
// shim's children's (/proc/PID/stat). The engine's daemons have their part.
func checks(_ *Host, f *Facts) []Finding {
	if f.Container.Engine == container.Kubernetes {
		return startedInPod(f)
	}
	every := f.Container.Kept.CheckEvery
	if every <= 0 || f.Span <= 0 {
		return nil
	}
	used := f.Engine.Shim + f.Engine.Daemon
	cost := Cost{Rate: rate(used, f.Span), Events: 1 / every.Seconds()}
	cost.Each = time.Duration(cost.Rate * float64(every))
	// What the check itself runs is the container's own CPU time too, so this is a bound.
	overService := used > f.Used.CPU
	if used < leastTicks || cost.Rate < leastChecks || (cost.Rate < leastEngine && !overService) {
		return nil
	}
	one := finding(f.Container, Checks, cost)
	if f.Engine.Daemon > f.Engine.Shim { // whose part is shared out
		one.Based = Estimated
	}
	one.Says = fmt.Sprintf("its health check runs every %s", short(every))
	if overService {
		one.Says += " and costs more than the service"
	}
	one.Evidence = []Fact{
		{"shim, runtime and check", short(f.Engine.Shim) + " of CPU time in " + short(f.Span), "/proc/PID/stat of the shim"},
		{"the engine's daemons", short(f.Engine.Daemon) + " of CPU time, its part", "/proc/PID/stat"},
		{"the container, with the check", short(f.Used.CPU) + " of CPU time", "cpu.stat"},
	}
	rarer := max(usualCheck, 2*every)
	one.Set = []Remedy{
		{
			Says:    "a check every " + short(rarer),
			Command: fmt.Sprintf("%s run --health-interval %s", f.Container.Engine, rarer), // a container keeps its own
			Saves:   cost.Rate * (1 - every.Seconds()/rarer.Seconds()),
		},
		{Says: "a check from outside (HTTP or TCP), which starts no process"},
	}
	return []Finding{one}
}

// startedInPod finds what the runtime starts in a pod all the time: exec probes, above all. Whether it is those, and
// in which of the pod's containers, the node does not know.
func startedInPod(f *Facts) []Finding {
	cost := Cost{Rate: rate(f.Engine.Started, f.Span)}
	if f.Engine.Started < leastTicks || cost.Rate < leastEngine {
		return nil
	}
	one := finding(f.Container, Checks, cost)
	one.Says = "starting processes in its pod takes CPU time: exec probes, kubectl exec or restarts"
	one.Evidence = []Fact{{
		"runtime and what it started", short(f.Engine.Started) + " of CPU time in " + short(f.Span), "/proc/PID/stat of the pod's shim",
	}}
	one.Set = []Remedy{
		{Says: "a periodSeconds of exec probes that is ten times as long", Saves: cost.Rate * 0.9},
		{Says: "probes by HTTP, TCP or gRPC, which start no process"},
	}
	return []Finding{one}
}

// usualCheck is the interval that engines take where none is given.
const usualCheck = 30 * time.Second

// logs finds output that the engine's daemon is busy to write down.
func logs(_ *Host, f *Facts) []Finding {
	perSecond := float64(f.Engine.LogBytes) / max(f.Span.Seconds(), 1e-9)
	cost := Cost{Rate: rate(f.Engine.Daemon, f.Span)}
	if perSecond < leastLog || cost.Rate < leastEngine {
		return nil
	}
	one := finding(f.Container, Log, cost)
	one.Based = Estimated
	one.Says = fmt.Sprintf("writes %s/s to its log (%s)", bytes(int64(perSecond)), f.Container.Kept.LogDriver)
	one.Evidence = []Fact{
		{"log", bytes(f.Engine.LogBytes) + " in " + short(f.Span), "size of the log file"},
		{"the engine's daemons", short(f.Engine.Daemon) + " of CPU time, its part", "/proc/PID/stat"},
	}
	one.Set = []Remedy{{Says: "less output, or the driver local with a bound", Command: "docker run --log-driver local --log-opt max-size=10m"}}
	return []Finding{one}
}

// proxy finds published ports that a program passes on, packet by packet.
func proxy(_ *Host, f *Facts) []Finding {
	cost := Cost{Rate: rate(f.Engine.Proxy, f.Span)}
	if cost.Rate < leastEngine {
		return nil
	}
	one := finding(f.Container, Proxy, cost)
	one.Says = "its published ports pass through docker-proxy"
	one.Evidence = []Fact{{"docker-proxy", short(f.Engine.Proxy) + " of CPU time in " + short(f.Span), "/proc/PID/stat"}, packetFact(f)}
	one.Set = []Remedy{
		{Says: "no proxy, where clients come by the host's own address", Command: `"userland-proxy": false in /etc/docker/daemon.json`},
		{Says: "the host's network", Command: "--network host"},
	}
	return []Finding{one}
}

// logSizes are the sizes of the containers' log files, by the container's id. Files that a
// user's engine names are left alone.
func logSizes(subjects []*subject) map[string]int64 {
	sizes := map[string]int64{}
	for _, s := range subjects {
		if c := s.facts.Container; !c.Unprivileged && c.Kept.Log != "" {
			if info, err := os.Lstat(c.Kept.Log); err == nil && info.Mode().IsRegular() {
				sizes[c.ID] = info.Size()
			}
		}
	}
	return sizes
}

// Programs of engines, as commands name them: cut at 15 bytes.
var (
	daemonPrograms = []string{"dockerd", "containerd"}
	shimPrograms   = []string{"containerd-shim", "conmon"}
	proxyPrograms  = []string{"docker-proxy"}
)

// engineWork gives each container what its engine's processes used between two moments. A command (comm) only
// says where to look: any program may choose one of these.
func engineWork(all []*Facts, logsBefore map[string]int64, before, after accounting.Snapshot) {
	var daemons time.Duration
	shims := shimsOf(all)
	for pid, now := range after.Processes {
		was, ok := before.Processes[pid]
		if !ok || was.Start != now.Start {
			continue
		}
		own, reaped := now.Own-was.Own, now.Reaped-was.Reaped
		switch {
		case slices.Contains(daemonPrograms, now.Command):
			if procfs.Host.Process(pid).Runs(0, daemonPrograms) {
				daemons += own // its children's are the shims' own
			}
		case slices.Contains(shimPrograms, now.Command):
			if f := servedBy(shims[pid], pid); f != nil {
				started := reaped - endedBefore(before, pid)
				f.Engine.Shim += own + started
				if now.Command != "conmon" { // which does not wait for what CRI-O starts
					f.Engine.Started += started
				}
			}
		case slices.Contains(proxyPrograms, now.Command):
			if f := proxied(all, pid); f != nil {
				f.Engine.Proxy += own
			}
		}
	}
	for _, f := range all {
		if size, ok := logsBefore[f.Container.ID]; ok {
			if info, err := os.Lstat(f.Container.Kept.Log); err == nil {
				f.Engine.LogBytes = max(0, info.Size()-size)
			}
		}
	}
	shareDaemon(all, daemons)
}

// shimsOf are the containers by the parents of their first processes: one, or the containers of a pod.
func shimsOf(all []*Facts) map[int][]*Facts {
	its := map[int][]*Facts{}
	for _, f := range all {
		if first, err := procfs.Host.Process(f.Container.PID).Stat(); err == nil {
			its[first.Parent] = append(its[first.Parent], f)
		}
	}
	return its
}

// servedBy is the container beside which a shim's work stands: of a pod's that with the least name. It is nil where
// the process is no shim.
func servedBy(its []*Facts, shim int) *Facts {
	its = slices.DeleteFunc(its, func(f *Facts) bool {
		return !procfs.Host.Process(shim).Runs(engineUser(f.Container), shimPrograms)
	})
	if len(its) == 0 {
		return nil
	}
	return slices.MinFunc(its, func(a, b *Facts) int { return cmp.Compare(a.Container.Name, b.Container.Name) })
}

// endedBefore is what a process's children had used by then that have ended since. As their parent waits for them,
// the time of their whole lives is added to its own.
func endedBefore(before accounting.Snapshot, parent int) (used time.Duration) {
	for pid, p := range before.Processes {
		if p.Parent != parent {
			continue
		}
		if now, err := procfs.Host.Process(pid).Stat(); err != nil || now.StartTicks != p.Start {
			used += p.Own + p.Reaped
		}
	}
	return used
}

// proxied finds the container whose address a docker-proxy has among its arguments.
func proxied(all []*Facts, pid int) *Facts {
	process := procfs.Host.Process(pid)
	args, err := process.Args()
	if err != nil {
		return nil
	}
	for _, f := range all {
		named := slices.ContainsFunc(args, func(arg string) bool {
			return slices.Contains(f.Container.Kept.Addresses, strings.TrimSpace(arg))
		})
		if named && process.Runs(engineUser(f.Container), proxyPrograms) {
			return f
		}
	}
	return nil
}

// engineUser is the user of a container's engine: root, but for a container that may be a user's. The parent of
// that one's first process, its shim, belongs to the user. -1 is nobody.
func engineUser(c container.Container) int {
	if !c.Unprivileged {
		return 0
	}
	first, err := procfs.Host.Process(c.PID).Stat()
	if err != nil {
		return -1
	}
	shim, err := procfs.Host.Process(first.Parent).Status()
	if err != nil {
		return -1
	}
	return shim.UID
}

// checkWork is what a check takes of the daemons, as so many bytes of log. It is assumed, and
// matters only where checks and logs are busy at once.
const checkWork = 512 << 10

// shareDaemon shares the daemons' CPU time out by what containers had them do.
func shareDaemon(all []*Facts, used time.Duration) {
	var sum float64
	work := func(f *Facts) float64 {
		w := float64(f.Engine.LogBytes)
		if every := f.Container.Kept.CheckEvery; every > 0 {
			w += checkWork * f.Span.Seconds() / every.Seconds()
		}
		return w
	}
	for _, f := range all {
		sum += work(f)
	}
	for _, f := range all {
		if sum > 0 {
			f.Engine.Daemon = time.Duration(float64(used) * work(f) / sum)
		}
	}
}
