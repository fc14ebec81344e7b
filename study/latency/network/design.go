package network

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/lab"
	"tare/platform"
	"tare/record"
	"tare/study/kit"
	"tare/study/latency/service"
	"tare/workload"
)

// Options are what the user asked for.
type Options struct {
	// Service is a Loader with the parameters call, size and connection: thrift.
	Service     workload.Subject
	Sizes       []int    // of messages, in bytes
	Directions  []string // Receive, Send
	Connections []string // Kept, New
	// Paths are compared with the host's own network, which is always measured.
	Paths    []string
	Duration time.Duration // of each load
	Count    int           // of requests in each load at most; 0: by Duration alone
	// Base holds for every condition but for its network: the service's CPU among others.
	Base platform.Setting
	// ClientCPUs are where the load runs; empty is anywhere.
	ClientCPUs []int
	Client     Client

	Plan record.Plan
	Seed int64
	Host kit.Host
}

// Client is a place apart, made before the run; the zero Client is none yet, with
// which a design can be shown and not run.
type Client struct {
	NetNS string // the file that keeps its network namespace
	// Dial connects from it.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Host is where the host is reached from it.
	Host netip.Addr
}

// The shortest load of which a median is worth having, and the longest that is not
// a mistake.
const (
	LeastDuration    = 50 * time.Millisecond
	GreatestDuration = time.Hour
)

// Design makes the design. Usage errors are *kit.Usage; a platform that the host
// lacks is a *platform.Missing.
func Design(o Options) (lab.Design, error) {
	d := lab.Design{Study: service.Study, Seed: o.Seed, Plan: o.Plan}
	loader, err := o.check()
	if err != nil {
		return d, err
	}
	on, err := o.Host.Platform(engine)
	if err != nil {
		return d, &kit.Usage{Text: err.Error()}
	}
	if err := o.Host.Check(on); err != nil {
		return d, fmt.Errorf("publishing ports requires an engine: %w", err)
	}
	d.Plan.Notes = append(slices.Clone(d.Plan.Notes), o.notes()...)
	for _, connection := range o.Connections {
		for _, direction := range o.Directions {
			for _, place := range []string{apart, here} {
				g, err := o.group(loader, on, group{connection: connection, direction: direction, place: place})
				if err != nil {
					return d, err
				}
				if len(g.Conditions) > 1 {
					d.Groups = append(d.Groups, g)
				}
			}
		}
	}
	if err := d.Validate(); err != nil {
		return d, &kit.Usage{Text: err.Error()}
	}
	return d, nil
}

// check refuses what cannot be measured.
func (o Options) check() (workload.Loader, error) {
	switch {
	case o.Service.Workload == nil:
		return nil, kit.Usagef("no service: name one, such as thrift")
	case len(o.Sizes) == 0:
		return nil, kit.Usagef("--size: want at least one")
	case o.Duration < LeastDuration || o.Duration > GreatestDuration:
		return nil, kit.Usagef("--duration %v: want %v to %v", o.Duration, LeastDuration, GreatestDuration)
	case o.Count < 0:
		return nil, kit.Usagef("--count %d: want 0 (no limit) or more", o.Count)
	}
	loader, ok := o.Service.Workload.(workload.Loader)
	if !ok {
		return nil, kit.Usagef("tare cannot load %s after its start: choose a service that `tare workloads` lists", o.Service.Workload.Name())
	}
	for _, s := range o.Sizes {
		if s < LeastSize || s > GreatestSize {
			return nil, kit.Usagef("--size of %d bytes: want %d to %d", s, LeastSize, GreatestSize)
		}
	}
	for _, of := range []struct {
		flag       string
		given, all []string
	}{{"--path", o.Paths, Paths}, {"--direction", o.Directions, Directions}, {"--connection", o.Connections, Connections}} {
		if len(of.given) == 0 {
			return nil, kit.Usagef("%s: want some of %s", of.flag, strings.Join(of.all, ", "))
		}
		for i, v := range of.given {
			if !slices.Contains(of.all, v) {
				return nil, kit.Usagef("%s %s: want some of %s", of.flag, v, strings.Join(of.all, ", "))
			}
			if slices.Contains(of.given[:i], v) {
				return nil, kit.Usagef("%s %s is given twice: give it once", of.flag, v)
			}
		}
	}
	if seen := slices.Sorted(slices.Values(o.Sizes)); len(slices.Compact(seen)) != len(o.Sizes) {
		return nil, kit.Usagef("--size: give each size once")
	}
	if o.Base.Network != "" {
		return nil, kit.Usagef("--network %s: this study compares networks: choose them with --path", o.Base.Network)
	}
	if why := o.Base.Contradiction(o.Host.CPUs); why != "" {
		return nil, kit.Usagef("%s", why)
	}
	return loader, o.separate()
}

// separate refuses a client on the service's CPUs, where there are others.
func (o Options) separate() error {
	both := o.shared()
	if len(both) == 0 || len(o.Host.CPUs) < 2 {
		return nil
	}
	return kit.Usagef("cpuset-cpus=%s: the load runs on CPU %s too, and would take CPU time from the service: leave it a CPU of its own (this host has %s)",
		o.Base.CPUSet, platform.FormatCPUList(both), platform.FormatCPUList(o.Host.CPUs))
}

// shared are the CPUs that both the service and the load were given by name.
func (o Options) shared() []int {
	set, err := platform.ParseCPUList(o.Base.CPUSet)
	if err != nil {
		return nil // refused as a contradiction
	}
	return slices.DeleteFunc(set, func(c int) bool { return !slices.Contains(o.ClientCPUs, c) })
}

// notes state what is confounded.
func (o Options) notes() []string {
	notes := []string{"the client shares the host with the service: the kernel's work for it, bridge and filter included, runs on the host's CPUs; S4 had a second machine"}
	switch {
	case len(o.Host.CPUs) < 2:
		notes = append(notes, "one CPU: client and service share it, and the cost of every path includes the switches between them")
	case o.Base.CPUSet == "" || len(o.ClientCPUs) == 0:
		notes = append(notes, "client and service have no CPUs of their own: where the scheduler puts them affects every figure")
	}
	return notes
}

// group is what a group's conditions share.
type group struct{ connection, direction, place string }

// way is how a path is measured.
type way struct {
	path    string
	place   string // of the client
	network platform.Network
}

// ways lists them by place, each place's baseline first.
var ways = []way{
	{Host, apart, platform.NetworkHost},
	{NAT, apart, platform.NetworkNAT},
	// Published too: the engine's filter blocks all other ports from other networks.
	{Bridge, apart, platform.NetworkNAT},
	{Host, here, platform.NetworkHost},
	{Proxy, here, platform.NetworkProxy},
	{Container, here, platform.NetworkBridge},
}

func (o Options) group(loader workload.Loader, on platform.Platform, of group) (g lab.Group, err error) {
	subject := o.Service
	wanted := maps.Clone(subject.Params)
	if wanted == nil {
		wanted = map[string]string{}
	}
	wanted[paramCall], wanted[paramConnection] = of.direction, of.connection
	wanted["duration"] = o.Duration.String()
	if o.Count > 0 {
		wanted["count"] = strconv.Itoa(o.Count)
	}
	var params workload.Params
	loads := make([]service.Load, len(o.Sizes))
	for i, size := range o.Sizes {
		one := maps.Clone(wanted)
		one[paramSize] = strconv.Itoa(size)
		resolved, err := workload.Resolve(subject.Workload, one)
		if err != nil {
			return g, &kit.Usage{Text: err.Error()}
		}
		if _, err := subject.Workload.Program(resolved); err != nil {
			return g, &kit.Usage{Text: err.Error()}
		}
		if i == 0 {
			params = resolved
		}
		loads[i] = loadOf(size)
	}
	g.Workload = nameOf(subject, of)
	for _, w := range ways {
		if w.place != of.place || w.path != Host && !slices.Contains(o.Paths, w.path) {
			continue
		}
		setting := o.Base
		setting.Network = w.network
		if err := on.Supports(setting); err != nil {
			return g, fmt.Errorf("platform %s: %w", engine, err)
		}
		t := trial{way: w, client: o.Client, loader: loader, loads: loads, least: slices.Min(o.Sizes)}
		g.Conditions = append(g.Conditions, lab.Condition{
			Condition: record.Condition{
				ID:       g.Workload + "@" + w.path,
				Label:    w.label(),
				Workload: g.Workload,
				Params:   params,
				Platform: engine,
				Setting:  setting.Normal(),
				Baseline: w.path == Host,
				Metrics:  service.LoadMetrics(loads),
				Factors: map[string]string{
					factorExperiment: Experiment, factorPath: w.path, factorDirection: of.direction,
					factorConnection: of.connection, factorClient: of.place,
					factorSizes: formatSizes(o.Sizes), factorServer: params["server"], factorBy: params["client"],
				},
			},
			Program: subject.Workload, Source: subject.Image(), Procedure: t.run,
			Limit: time.Minute + time.Duration(len(loads))*(2*o.longest()+patience),
			Takes: assumedTrial + time.Duration(len(loads))*(o.expected()+assumedLoad),
		})
	}
	return g, nil
}

// patience is how much longer than planned a load may take before it counts as hung.
const patience = 20 * time.Second

func (w way) label() string {
	if w.path == Host && w.place == here {
		return "host over loopback"
	}
	return w.path
}

// loadOf is the load by messages of a size.
func loadOf(size int) service.Load {
	bytes := strconv.Itoa(size)
	return service.Load{Name: bytes + "B", Params: workload.Params{paramSize: bytes}}
}

// nameOf is a group's name: the service with what was set of it, and what the
// group's conditions share.
func nameOf(s workload.Subject, of group) string {
	parts := []string{Experiment, of.direction, of.connection, of.place}
	for _, name := range slices.Sorted(maps.Keys(s.Params)) {
		parts = append(parts, name+"="+s.Params[name])
	}
	return s.Workload.Name() + "[" + strings.Join(parts, ",") + "]"
}

// Assumed times, by which a pass is estimated: what a trial takes besides its loads,
// and a load besides its duration. They were measured with Docker on two CPUs and a
// client in Python.
const (
	assumedTrial = 1200 * time.Millisecond
	assumedLoad  = 120 * time.Millisecond
)

// spanOf is how long so many requests take, by S4's own round trip and some.
func spanOf(requests int) time.Duration { return time.Duration(requests) * 300 * time.Microsecond }

// expected is how long a load is expected to take.
func (o Options) expected() time.Duration {
	if o.Count > 0 {
		return min(o.Duration, spanOf(o.Count))
	}
	return o.Duration
}

// longest is how long a load may take.
func (o Options) longest() time.Duration {
	if o.Count > 0 {
		return min(o.Duration, max(10*spanOf(o.Count), time.Second))
	}
	return o.Duration
}
