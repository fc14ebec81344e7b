package diagnose

import (
	"fmt"
	"time"

	"tare/report"
)

// What one packet costs more by a container's devices, the bridge and address translation than by
// the host's network: half of what docs/results/latency.md has of a round trip by port mapping,
// which is a packet each way. Seven to nine microseconds a trip, with an interval of 3 to 15.
const (
	eachPacket     = 4 * time.Microsecond
	eachPacketLow  = 1500 * time.Nanosecond
	eachPacketHigh = 7500 * time.Nanosecond
)

// packetRate is how many packets a second went through the container's own network devices.
func packetRate(f *Facts) float64 { return float64(f.Used.Packets) / max(f.Span.Seconds(), 1e-9) }

// translated finds a network of its own that costs by its packet rate. Where the userland proxy
// passes the packets on, that is the finding ([proxy]). An engine that knows no address of
// the container gives no sign of a bridge.
func translated(_ *Host, f *Facts) []Finding {
	perSecond := packetRate(f)
	cost := Cost{Rate: perSecond * eachPacket.Seconds(), Each: eachPacket, Events: perSecond}
	isBridged := f.InKernel.OwnNet && len(f.Container.Kept.Addresses) > 0
	if !isBridged || cost.Rate < leastEngine || rate(f.Engine.Proxy, f.Span) >= leastEngine {
		return nil
	}
	one := finding(f.Container, Translation, cost)
	one.Based = Estimated
	one.Says = fmt.Sprintf("its bridge and address translation pass %s packets/s", report.Rounded(perSecond, 3))
	one.Evidence = []Fact{
		packetFact(f),
		{"each costs more", fmt.Sprintf("%s (%s to %s)", short(eachPacket), short(eachPacketLow), short(eachPacketHigh)), "docs/results/latency.md, another host"},
	}
	one.Set = []Remedy{{Says: "the host's network", Command: "--network host"}}
	return []Finding{one}
}

func packetFact(f *Facts) Fact {
	return Fact{"packets", fmt.Sprintf("%d in %s", f.Used.Packets, short(f.Span)), "/proc/PID/net/dev"}
}
