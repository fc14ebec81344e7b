package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"tare/lab"
	"tare/platform"
	"tare/study/io/keyvalue"
	"tare/study/io/place"
)

// redisFlags are what the user asked for of `tare io redis`.
type redisFlags struct {
	studyFlags
	platforms  []string
	commands   []string
	payloads   []int
	pipelines  []int
	threads    []int
	ioThreads  []int
	clients    int
	requests   int
	appendOnly []string
	storages   []string
	networks   []string
	syncs      int
	cross      bool
}

func ioRedis() (*cobra.Command, *subStudy) {
	f := &redisFlags{}
	byDefault := keyvalue.Default()
	cmd := &cobra.Command{
		Use:   "redis [flags]",
		Short: "Redis over storage and network: what a container adds to a request",
		Long: `Redis runs redis-benchmark's tests against Redis on bare metal and in containers, for
each place of its data and each network. Storage is crossed with the host's network
and the engine's bridge in the same blocks. So the loss is assigned to storage or
network, in microseconds per request. A model of that cost is fitted, and tested on
requests that it was not fitted on.

Without persistence Redis touches no storage: volume against bind mount then checks
the method. With an append-only file, fio shows what the disk itself gives in each
place.`,
		Example: `  tare io redis --quick
  tare io redis --command get,set,mset --pipeline 1,3,10
  tare io redis --appendonly always --storage volume,bind
  tare io redis --io-threads 1,2 --threads 0,24`,
		Args: noArguments(""),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.platforms, "platform", byDefault.Platforms, "platforms of the containers, compared with bare metal; --full adds docker:rootless and docker:swarm")
	flags.StringSliceVar(&f.commands, "command", nil, "tests of redis-benchmark: get, set, mset, hset, lrange_100 and others (default "+
		strings.Join(byDefault.Commands, ",")+")")
	flags.IntSliceVar(&f.payloads, "payload", nil, "bytes of a value (default 3,1000)")
	flags.IntSliceVar(&f.pipelines, "pipeline", nil, "requests that a client sends at once (default 1,10)")
	flags.IntVar(&f.clients, "clients", byDefault.Clients, "connections")
	flags.IntSliceVar(&f.threads, "threads", nil, "threads of the load program, 0 for none (default 0)")
	flags.IntSliceVar(&f.ioThreads, "io-threads", nil, "io-threads of the server (default 1)")
	flags.IntVar(&f.requests, "requests", 0, "requests of each command in a trial (default: for about half a second)")
	flags.StringSliceVar(&f.appendOnly, "appendonly", nil, "persistence: no, everysec, always (default no,always)")
	flags.StringSliceVar(&f.storages, "storage", nil, "places of its data: layer, volume, bind, tmpfs (default all; tmpfs only with persistence)")
	flags.StringSliceVar(&f.networks, "network", nil, "networks: host, bridge, bridge:proxy, bridge:nat (default all)")
	flags.IntVar(&f.syncs, "syncs", byDefault.Syncs, "writes by which fio measures the disk")
	flags.BoolVar(&f.cross, "cross", false, "every combination of the levels (default: payloads and pipelines crossed, the others one at a time, io-threads under the most --threads)")
	f.register(cmd, "about a minute: GET at two rates, volume and bind, host and bridge",
		"the published grid (S5), with 1,000,000 requests of each command: days", []string{"cpuset-cpus"})
	return cmd, &subStudy{name: place.Redis, flags: &f.studyFlags, design: f.design}
}

func (f *redisFlags) design(cmd *cobra.Command, _ []string, host studyHost) (lab.Design, error) {
	changed := cmd.Flags().Changed
	o, plan, err := begin(&f.studyFlags, changed, keyvalue.Default, keyvalue.Quick, keyvalue.Full)
	if err != nil {
		return lab.Design{}, err
	}
	o.Plan, o.Seed = plan, f.seed
	given(changed, "payload", f.payloads, &o.Payloads)
	given(changed, "pipeline", f.pipelines, &o.Pipelines)
	given(changed, "threads", f.threads, &o.Threads)
	given(changed, "io-threads", f.ioThreads, &o.IOThreads)
	given(changed, "clients", f.clients, &o.Clients)
	given(changed, "requests", f.requests, &o.Requests)
	given(changed, "syncs", f.syncs, &o.Syncs)
	if changed("requests") && f.requests < 1 {
		return lab.Design{}, usageError("--requests %d: want 1 or more", f.requests)
	}
	given(changed, "command", f.commands, &o.Commands)
	given(changed, "appendonly", f.appendOnly, &o.AppendOnly)
	o.Storages = levelsOf(changed("storage"), f.storages, o.Storages)
	o.Networks = levelsOf(changed("network"), f.networks, o.Networks)
	o.Cross = o.Cross || f.cross
	given(changed, "platform", f.platforms, &o.Platforms)
	if o.Platforms, err = fullNames(o.Platforms, lab.CanonicalPlatform); err != nil {
		return lab.Design{}, err
	}
	f.serverCPUs(o, host)
	if o.Base, err = f.places(&host); err != nil {
		return lab.Design{}, err
	}
	o.Host = ioHost(host)
	return keyvalue.Design(o)
}

// serverCPUs gives the server a CPU for each of its io-threads, but at most half, unless the
// user names CPUs. It sets the flag, from which the load's CPUs are found.
func (f *redisFlags) serverCPUs(o keyvalue.Options, host studyHost) {
	set := f.settings["cpuset-cpus"]
	if *set != "" {
		return
	}
	most := 1
	for _, n := range o.IOThreads {
		most = max(most, n)
	}
	n := max(1, min(most, len(host.CPUs)/2))
	*set = platform.FormatCPUList(host.CPUs[len(host.CPUs)-n:])
}

// levelsOf are those that the user gave of a setting that is compared, or the default
// ones.
func levelsOf[T ~string](given bool, from []string, byDefault []T) []T {
	if !given {
		return byDefault
	}
	var levels []T
	for _, v := range from {
		levels = append(levels, T(strings.TrimSpace(v)))
	}
	return levels
}
