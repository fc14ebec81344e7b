package network

import (
	"tare/advise"
	"tare/overhead"
	"tare/record"
	"tare/stats"
)

// worthwhile is the least share of a small message's time by which a way is worth
// being changed.
const worthwhile = 1.02

// Advice is what a run recommends, with what it rests on. Of the directions it
// takes the first that a rule holds in.
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

// is tells whether a trip is of a path, over connections of a kind.
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

// batch is S4's: what is paid by the trip is paid less often by larger messages.
func batch(all []trip) (advise.Advice, bool) {
	for _, t := range all {
		line := t.fit(median)
		excess := line.Combination(1, -float64(t.largest()))
		if !t.is(NAT, Kept) || !excess.Known() || !(line.Intercept.Interval.Low > 0) || !(excess.Interval.Low > 0) {
			continue
		}
		return advise.Advice{
			Rule: "batch-messages", Source: "S4", Set: "gather small messages into larger ones", For: "services behind a published port that exchange many of them",
			Evidence: []advise.Evidence{
				t.evidence("what a trip costs, whatever it carries ("+t.name()+")", line.Intercept, "us"),
				t.evidence("what the bytes of "+sizeText(t.largest())+" cost besides", line.Combination(0, float64(t.largest())), "us"),
			},
		}, true
	}
	return advise.Advice{}, false
}

// hostNetwork is for those whose messages are so small, and so soon answered, that
// the way counts.
func hostNetwork(all []trip) (advise.Advice, bool) {
	for _, t := range all {
		small, ok := t.smallest()
		if !ok || !t.is(NAT, Kept) {
			continue
		}
		if ratio := t.ratio(small, median); ratio.Known() && ratio.Interval.Low > worthwhile {
			return advise.Advice{
				Rule: "host-network", Source: "S4", Set: "give it the host's network (--network host)", For: "services whose answers are awaited by the microsecond",
				Unless:   "its ports must not be the host's, or its network must be kept apart",
				Evidence: []advise.Evidence{t.evidence("the median of "+sizeText(small.bytes)+" by a published port against the host's ("+t.name()+")", ratio, "times")},
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
				Rule: "not-by-the-proxy", Source: "S4", Set: "reach a published port at the bridge's address and not at 127.0.0.1, or turn the engine's userland proxy off (\"userland-proxy\": false)",
				For:      "clients on the service's own host",
				Evidence: []advise.Evidence{t.evidence("the median of "+sizeText(small.bytes)+" by the proxy against the host's loopback ("+t.name()+")", ratio, "times")},
			}, true
		}
	}
	return advise.Advice{}, false
}

// keepConnections sets connections made anew against one that is kept, by the same
// way.
func keepConnections(all []trip) (advise.Advice, bool) {
	for _, kept := range all {
		for _, anew := range all {
			small, ok := kept.smallest()
			if !ok || !kept.is(kept.path, Kept) || !anew.is(kept.path, New) || kept.direction != anew.direction || kept.place != anew.place {
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
			e := anew.evidence("the median of "+sizeText(small.bytes)+" over a new connection each against one that is kept ("+kept.name()+")", ratio, "times")
			e.Conditions = []string{kept.of.ID, anew.of.ID}
			return advise.Advice{Rule: "keep-connections", Source: "S4", Set: "keep connections open", For: "clients that ask more than once", Evidence: []advise.Evidence{e}}, true
		}
	}
	return advise.Advice{}, false
}
