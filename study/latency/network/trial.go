package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"tare/kernel/netns"
	"tare/lab"
	"tare/load"
	"tare/platform"
	"tare/study/latency/service"
	"tare/workload"
)

// trial is how a condition's trials go.
type trial struct {
	way
	client Client
	loader workload.Loader
	loads  []service.Load
	least  int // bytes of the smallest message
}

func (t trial) run(ctx context.Context, b lab.Bench) (err error) {
	s := service.Trial{Workload: t.loader, Loads: t.loads}
	seen := crossing{least: t.least}
	switch {
	case t.place == apart:
		if t.client.NetNS == "" || t.client.Dial == nil || !t.client.Host.IsValid() {
			return errors.New("the client has no network namespace: it is made before the run")
		}
		s.Client = service.Client{NetNS: t.client.NetNS, Dial: t.client.Dial, Address: t.address()}
		if t.path == Host {
			s.Client.Listen = t.client.Host.String()
		}
		seen.client = t.client.NetNS
	case t.path == Container:
		second, end, failed := t.second(ctx, b)
		if failed != nil {
			return fmt.Errorf("the client's container: %w", failed)
		}
		defer func() { err = errors.Join(err, end()) }()
		s.Client = service.Client{NetNS: second, Dial: netns.Dialer(second)}
		seen.client = second
	}
	s.Beside = func(_ context.Context, _ lab.Bench, of platform.Instance) (func() error, error) {
		if t.path == Host {
			return nil, nil // it has no devices of its own
		}
		file, err := namespaceOf(of)
		seen.service = file
		return nil, err
	}
	s.Begin = seen.watch
	return s.Run(ctx, b)
}

// address gives where a client apart reaches the service; nil is the instance's own
// address.
func (t trial) address() func(platform.Instance, int) string {
	switch t.path {
	case Host:
		return func(_ platform.Instance, port int) string { return at(t.client.Host, port) }
	case Bridge:
		return func(of platform.Instance, port int) string {
			file, err := namespaceOf(of)
			if err != nil {
				return "" // no address to connect to: the service has ended
			}
			own, err := netns.Addresses(file)
			if err != nil || len(own) == 0 {
				return ""
			}
			return at(own[0], port)
		}
	}
	return nil
}

func at(a netip.Addr, port int) string { return netip.AddrPortFrom(a, uint16(port)).String() }

// stopLimit bounds the removal of the client's container, which goes on when the
// run is interrupted.
const stopLimit = time.Minute

// second starts a container whose network the client uses. It runs the same program,
// which receives no requests. It returns the file of its network namespace.
func (t trial) second(ctx context.Context, b lab.Bench) (file string, end func() error, err error) {
	c := b.Condition()
	program, err := t.loader.Program(c.Params)
	if err != nil {
		return "", nil, err
	}
	spec, err := lab.SpecOf(b.Name(), b.Image(), program, c)
	if err != nil {
		return "", nil, err
	}
	instance, err := b.Platform().Launch(ctx, spec)
	if err != nil {
		return "", nil, err
	}
	end = func() error {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		return instance.Stop(stopping)
	}
	if file, err = namespaceOf(instance); err == nil {
		err = netns.SparePorts(file)
	}
	if err != nil {
		return "", nil, errors.Join(err, end())
	}
	return file, end, nil
}

// namespaceOf is the file of an instance's network namespace.
func namespaceOf(of platform.Instance) (string, error) {
	processes, err := of.Processes()
	if err != nil {
		return "", err
	}
	if len(processes) == 0 {
		return "", errors.New("it has ended: no process is left whose network could be read")
	}
	return fmt.Sprintf("/proc/%d/ns/net", processes[0]), nil
}

// crossing watches the devices that a load must pass. An empty file stands for a
// device that the path lacks.
type crossing struct {
	client, service string // files of network namespaces
	least           int    // bytes of each message
}

// watch counts what the devices carry during a load. It refuses a load that took
// another path: its latency would be that path's.
func (c *crossing) watch(_ context.Context, b lab.Bench) (func(load.Result) error, error) {
	type link struct{ whose, file, covariate string }
	var links []link
	if c.client != "" {
		links = append(links, link{"client", c.client, clientCarried})
	}
	if c.service != "" {
		links = append(links, link{"service", c.service, serviceCarried})
	}
	before := make([]uint64, len(links))
	for i, l := range links {
		var err error
		if before[i], err = netns.Carried(l.file); err != nil {
			return nil, fmt.Errorf("the %s's devices: %w", l.whose, err)
		}
	}
	return func(r load.Result) error {
		for i, l := range links {
			after, err := netns.Carried(l.file)
			if err != nil {
				return fmt.Errorf("the %s's devices: %w", l.whose, err)
			}
			carried := after - before[i]
			if wanted := uint64(r.Requests) * uint64(c.least); carried < wanted {
				return fmt.Errorf("the load bypassed the %s's devices: they carried %d bytes, its %d requests have at least %d", l.whose, carried, r.Requests, wanted)
			}
			b.Tally(l.covariate, float64(carried))
		}
		return nil
	}, nil
}
