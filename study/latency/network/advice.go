package network

import (
	"tare/advise"
	"tare/overhead"
	"tare/record"
	"tare/stats"
)

// worthwhile is the ratio of a small message's latency above which changing the path
// is worth it.
const worthwhile = 1.02

// Advice is what a run recommends, with its evidence. Each rule rests on the first
// direction in which it holds.
func Advice(run record.Run) []advise.Advice {
	all := together(trips(overhead.Read(run)), 3) // the fixed part, its excess over the bytes', and a small message
	var given []advise.Advice
	for _, rule := range []func([]trip) (advise.Advice, bool){batch, hostNetwork, notLoopback, keepConnections} {
		if a, ok := rule(all); ok {
			given = append(given, a)
		}
	}
	return given
}

func (t trip) evidence(says string, e stats.Estimate, unit string) advise.Evidence {
	return advise.Evidence{Run: t.Run.ID, Conditions: []string{t.base.ID, t.of.ID}, Says: says, Figure: e, Unit: unit}
}

// is reports whether a trip is of a path, over connections of a kind.
func (t trip) is(path, connection string) bool {
	return !t.null && t.path == path && t.connection == connection
}

// smallest is the level of the smallest message.
func (t trip) smallest() (level, bool) {
	if len(t.levels) == 0 {
		return level{}, false
	}
	return t.levels[0], true
}

// batch is S4's advice: larger messages pay the fixed cost less often.
func batch(all []trip) (advise.Advice, bool) {
	for _, t := range all {
		line := t.fit(median)
		excess := line.Combination(1, -float64(t.largest()))
		if !t.is(NAT, Kept) || !excess.Known() || !(line.Intercept.Interval.Low > 0) || !(excess.Interval.Low > 0) {
			continue
		}
		return advise.Advice{
			Rule: "batch-messages", Source: "S4", Set: "combine small messages into larger ones",
			For: "services behind a published port that exchange many small messages",
			Evidence: []advise.Evidence{
				t.evidence("fixed cost of a request ("+t.name()+")", line.Intercept, "us"),
				t.evidence("cost of the bytes of "+sizeText(t.largest()), line.Combination(0, float64(t.largest())), "us"),
			},
		}, true
	}
	return advise.Advice{}, false
}

// hostNetwork is for services whose messages are small and answered so fast that the
// path matters.
func hostNetwork(all []trip) (advise.Advice, bool) {
	for _, t := range all {
		small, ok := t.smallest()
		if !ok || !t.is(NAT, Kept) {
			continue
		}
		if ratio := t.ratio(small, median); ratio.Known() && ratio.Interval.Low > worthwhile {
			return advise.Advice{
				Rule: "host-network", Source: "S4", Set: "use the host's network (--network host)",
				For:    "services where microseconds of latency matter",
				Unless: "its ports or its network must be isolated from the host's", Setting: advise.HostNetwork,
				Evidence: []advise.Evidence{
					t.evidence("median of "+sizeText(small.bytes)+" through a published port, against the host's network ("+t.name()+")", ratio, "times"),
				},
			}, true
		}
	}
	return advise.Advice{}, false
}

// notLoopback keeps clients on the host away from the userland proxy.
func notLoopback(all []trip) (advise.Advice, bool) {
	for _, t := range all {
		small, ok := t.smallest()
		if !ok || !t.is(Proxy, Kept) {
			continue
		}
		if ratio := t.ratio(small, median); ratio.Known() && ratio.Interval.Low > worthwhile {
			return advise.Advice{
				Rule: "not-by-the-proxy", Source: "S4", For: "clients on the service's own host",
				Set: "connect to a published port at the bridge's address instead of 127.0.0.1, or turn off the engine's userland proxy (\"userland-proxy\": false)",
				Evidence: []advise.Evidence{
					t.evidence("median of "+sizeText(small.bytes)+" through the proxy, against the host's loopback ("+t.name()+")", ratio, "times"),
				},
			}, true
		}
	}
	return advise.Advice{}, false
}

// keepConnections compares new connections with kept ones, over the same path.
func keepConnections(all []trip) (advise.Advice, bool) {
	for _, kept := range all {
		for _, anew := range all {
			small, ok := kept.smallest()
			if !ok || !kept.is(kept.path, Kept) || !anew.is(kept.path, New) ||
				kept.direction != anew.direction || kept.place != anew.place {
				continue
			}
			same, ok := anew.at(small.bytes)
			if !ok {
				continue
			}
			ratio := kept.Ratio(small.with[median.name], same.with[median.name])
			if !ratio.Known() || !(ratio.Interval.Low > worthwhile) {
				continue
			}
			e := anew.evidence("median of "+sizeText(small.bytes)+" over new connections, against a kept one ("+kept.name()+")", ratio, "times")
			e.Conditions = []string{kept.of.ID, anew.of.ID}
			return advise.Advice{
				Rule: "keep-connections", Source: "S4", Set: "keep connections open", For: "clients that send more than one request",
				Evidence: []advise.Evidence{e},
			}, true
		}
	}
	return advise.Advice{}, false
}
