package keyvalue

import (
	"slices"

	"tare/advise"
	"tare/platform"
	"tare/record"
	"tare/stats"
	"tare/study/kit"
)

// Advice is what a run recommends, with its evidence. Each is given only where the run shows
// that it pays here.
func Advice(run record.Run) []advise.Advice {
	r := read(run)
	candidates := 3 // networks, the proxy, pipelines
	for _, c := range r.persistent {
		candidates += len(c.places)
	}
	r = r.together(candidates)
	var all []advise.Advice
	for _, rule := range []func() (advise.Advice, bool){r.hostNetwork, r.noProxy, r.pipelines, r.fileInVolume} {
		if a, ok := rule(); ok && a.Holds() {
			all = append(all, a)
		}
	}
	return all
}

// The least that advice must change: a twentieth of the rate for a setting, a fifth for
// another client.
const (
	worthASetting = 1.05
	worthAChange  = 1.2
)

// against is the rate in b against that in a.
func (r reading) against(c cell, a, b record.Condition) stats.Estimate {
	return r.Ratio(r.PerBlock(a, c.metric), r.PerBlock(b, c.metric))
}

// fastest is the reference cell of the highest rate that has two places which differ
// in their network alone.
func (r reading) fastest(slower, faster platform.Network) (c cell, a, b record.Condition, ok bool) {
	reference := r.reference()
	slices.Reverse(reference)
	for _, c := range reference {
		for _, p := range c.places {
			s := spotOf(p)
			if s.network != string(slower) {
				continue
			}
			s.network = string(faster)
			if other, ok := c.at(s); ok {
				return c, p, other, true
			}
		}
	}
	return c, a, b, false
}

// hostNetwork: the bridge takes its part of every request.
func (r reading) hostNetwork() (advise.Advice, bool) {
	c, bridged, host, ok := r.fastest(platform.NetworkBridge, platform.NetworkHost)
	if !ok {
		return advise.Advice{}, false
	}
	ratio := r.against(c, bridged, host)
	if !ratio.Known() || ratio.Interval.Low < worthASetting {
		return advise.Advice{}, false
	}
	more := r.difference(r.times(c, host), r.times(c, bridged))
	return advise.Advice{
		Rule: "host-network", Source: "tare", Set: "give it the host's network (--network host)",
		For: "services that answer many small requests", Unless: "its ports must be separate from the host's or another container's",
		Setting: advise.HostNetwork,
		Evidence: []advise.Evidence{
			kit.Evidence(r.Run, "requests per second on the host's network against the bridge, "+c.name(), "times", ratio, bridged, host),
			kit.Evidence(r.Run, "time that the bridge adds to a request", "us", more, bridged, host),
		},
	}, true
}

// noProxy: the userland proxy copies every byte once more.
func (r reading) noProxy() (advise.Advice, bool) {
	c, proxied, direct, ok := r.fastest(platform.NetworkProxy, platform.NetworkBridge)
	if !ok {
		return advise.Advice{}, false
	}
	ratio := r.against(c, proxied, direct)
	if !ratio.Known() || ratio.Interval.Low < worthAChange {
		return advise.Advice{}, false
	}
	return advise.Advice{
		Rule: "no-userland-proxy", Source: "tare",
		Set: "reach it at the container's own address, or by another than loopback; or start the engine with --userland-proxy=false",
		For: "clients on the host that reach a published port at 127.0.0.1",
		Evidence: []advise.Evidence{kit.Evidence(r.Run,
			"requests per second at the container's own address against the userland proxy, "+c.name(), "times", ratio, proxied, direct)},
	}, true
}

// pipelines: what a batch costs is shared.
func (r reading) pipelines() (advise.Advice, bool) {
	reference := r.reference()
	lengths := levels(reference, func(c cell) int64 { return c.pipeline })
	if len(lengths) < 2 {
		return advise.Advice{}, false
	}
	one, ok := find(reference, figureCommand, least(reference, func(c cell) int64 { return c.payload }), lengths[0])
	many, has := find(reference, figureCommand, one.payload, lengths[len(lengths)-1])
	if !ok || !has {
		return advise.Advice{}, false
	}
	// In a container, where there is most to share.
	for _, p := range one.places {
		other, ok := many.at(spotOf(p))
		if !ok || !spotOf(p).bridged() {
			continue
		}
		ratio := r.Ratio(r.PerBlock(p, one.metric), r.PerBlock(other, many.metric))
		if !ratio.Known() || ratio.Interval.Low < worthAChange {
			return advise.Advice{}, false
		}
		return advise.Advice{
			Rule: "pipeline", Source: "S5", Set: "send requests in pipelines",
			For: "clients that have several requests at once",
			Evidence: []advise.Evidence{kit.Evidence(r.Run,
				many.name()+" against "+one.name()+", in a container", "times", ratio, p, other)},
		}, true
	}
	return advise.Advice{}, false
}

// fileInVolume: an append-only file in the layer is slower than in a volume.
func (r reading) fileInVolume() (advise.Advice, bool) {
	for _, c := range r.persistent {
		for _, p := range c.places {
			s := spotOf(p)
			if s.storage != string(platform.StorageLayer) {
				continue
			}
			s.storage = string(platform.StorageVolume)
			volume, ok := c.at(s)
			if !ok {
				continue
			}
			ratio := r.against(c, p, volume)
			if !ratio.Known() || ratio.Interval.Low < worthASetting {
				continue
			}
			return advise.Advice{
				Rule: "file-in-volume", Source: "tare", Set: "put the append-only file into a volume (--volume)", Setting: advise.DataVolume,
				For: "databases that sync their writes to the disk",
				Evidence: []advise.Evidence{kit.Evidence(r.Run,
					"requests per second with the file in a volume against the layer, appendonly="+c.appendOnly, "times", ratio, p, volume)},
			}, true
		}
	}
	return advise.Advice{}, false
}
