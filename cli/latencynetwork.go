package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/kernel/netns"
	"tare/lab"
	"tare/platform"
	"tare/platform/bare"
	"tare/platform/linked"
	"tare/study/latency"
	"tare/study/latency/network"
	"tare/workload"
)

// networkFlags are what the user asked for of `tare latency network`.
type networkFlags struct {
	studyFlags
	params      []string
	image       string
	sizes       []string
	directions  []string
	connections []string
	paths       []string
	duration    time.Duration
	requests    int64
}

func latencyNetwork() (*cobra.Command, *subStudy) {
	f := &networkFlags{}
	cmd := &cobra.Command{
		Use:   "network [SERVICE] [flags]",
		Short: "Measure what bridge, address translation and proxy add to a request",
		Long: `Network loads a service in a container over several network paths, with messages of
several sizes. It compares each path with the host's network. The client is in a
network namespace of its own behind a veth pair, so requests cross the bridge and the
address translation. The userland proxy is reached over loopback only: there the
client is on the host. The cost is fitted as a fixed part and a part per byte.

SERVICE is thrift, with parameters after a colon (server=go,client=go). The default is
server and client in Python, as in S4 (published study of service latency).`,
		Example: `  tare latency network --quick
  tare latency network thrift:server=go,client=go --path nat,bridge,proxy,container
  tare latency network --connection kept,new --size 64B,1KB,100KB`,
		ValidArgsFunction: completeWorkloads,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.paths, "path", nil, "paths to compare with the host's network: some of "+strings.Join(network.Paths, ", ")+" (default nat and container; with --quick or --full nat alone)")
	flags.StringSliceVar(&f.sizes, "size", nil, "of messages, 1B to 16MB; a number alone is in KB of 1000 bytes (default as published: 1,10,30,50,70,100; without --quick and --full also 64B,100B,200B)")
	flags.StringSliceVar(&f.directions, "direction", network.Directions, "what the service does: receive, send")
	flags.StringSliceVar(&f.connections, "connection", []string{network.Kept}, "kept, new (one for each request), or both")
	flags.DurationVar(&f.duration, "duration", 700*time.Millisecond, "length of each size's load, 50ms to 1h")
	flags.Int64Var(&f.requests, "requests", 0, "of each size's load, in place of --duration")
	flags.StringArrayVar(&f.params, "param", nil, "NAME=VALUE: parameter of the service")
	flags.StringVar(&f.image, "image", "", "image of the Docker engine or a kubelet, in place of the service's own")
	f.register(cmd, "about a minute: sizes 1, 30 and 100 KB, loads of 0.2 seconds", "the published size (S4): a million requests each, ten blocks; takes hours",
		[]string{"cpus", "cpu-shares", "cpuset-cpus", "memory", "seccomp", "lsm", "log-driver", "runtime"})
	return cmd, &subStudy{name: latency.Network, flags: &f.studyFlags, design: f.design, prepare: clientApart}
}

// clientApart makes the network namespace of the client.
func clientApart(ctx context.Context, m *measuring, on *studyHost) (undo func() error, err error) {
	client, err := linked.NewClient(ctx, linked.ClientSpec{
		StateDir: m.dir, Ledger: m.session.Ledger, Platform: bare.Bare, Name: platform.Unique("client"),
	})
	if err != nil {
		return nil, fmt.Errorf("a network namespace for the client: %w", err)
	}
	on.client = network.Client{NetNS: client.File, Dial: netns.Dialer(client.File), Host: client.Host}
	return func() error { return client.Close(ctx) }, nil
}

func (f *networkFlags) design(cmd *cobra.Command, args []string, host studyHost) (lab.Design, error) {
	changed := cmd.Flags().Changed
	o := network.Options{
		Paths: []string{network.NAT}, Directions: f.directions, Connections: f.connections,
		Duration: f.duration, Seed: f.seed, Client: host.client,
	}
	var err error
	if o.Plan, err = f.plan(changed); err != nil {
		return lab.Design{}, err
	}
	if o.Base, err = f.places(&host); err != nil {
		return lab.Design{}, err
	}
	o.ClientCPUs = host.load
	for _, text := range f.sizes {
		size, err := network.ParseSize(text)
		if err != nil {
			return lab.Design{}, err
		}
		if !slices.Contains(o.Sizes, size) {
			o.Sizes = append(o.Sizes, size)
		}
	}
	if !f.quick && !f.full {
		o.Paths = append(o.Paths, network.Container) // where small messages have a bridge at both ends
	}
	given(changed, "path", f.paths, &o.Paths)
	if published := network.Sizes(); len(o.Sizes) == 0 {
		switch {
		case f.quick:
			o.Sizes = []int{published[0], published[2], published[len(published)-1]}
		case f.full:
			o.Sizes = published
		default:
			o.Sizes = append(network.SmallSizes(), published...)
		}
	}
	if f.quick && !changed("duration") {
		o.Duration = 200 * time.Millisecond
	}
	if f.requests < 0 || changed("requests") && f.requests == 0 {
		return lab.Design{}, usageError("--requests %d: want 1 or more", f.requests)
	}
	if requests := f.requests; requests > 0 || f.full {
		if requests == 0 {
			requests = fullRequests
		}
		o.Count, o.Duration = int(requests), time.Hour
	}
	switch {
	case len(args) == 0:
		args = []string{"thrift:server=python,client=python"}
	case len(args) > 1:
		return lab.Design{}, usageError("latency network requires one service, not %d: %s", len(args), cmd.UseLine())
	}
	if name, _, _ := strings.Cut(args[0], ":"); name != "thrift" && !strings.HasSuffix(name, ".yaml") &&
		!strings.HasSuffix(name, ".yml") {
		if w, err := workload.Lookup(name); err == nil && !slices.ContainsFunc(w.Params(), func(p workload.Param) bool {
			return p.Name == "call"
		}) {
			return lab.Design{}, usageError("latency network requires a service with messages of a given size: use thrift instead of %s", name)
		}
	}
	services, err := servicesOf(args, f.params, f.image)
	if err != nil {
		return lab.Design{}, err
	}
	o.Service = services[0]
	o.Host = host.Host
	d, err := network.Design(o)
	return latency.Of(latency.Network, d), err
}
