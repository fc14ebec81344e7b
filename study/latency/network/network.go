// Package network asks what the way to a container costs a service's latency:
// S4's experiment on network isolation (The Impact of Docker Containers on
// Service Latency, section 3.5), and the ways that S4 left out.
//
// A service receives or sends messages of several sizes. Its client stands in
// one of two places, each with a baseline of its own in which the service's
// container has the host's network:
//
//	apart   a network namespace behind a pair of devices, as another machine
//	        would be but for the wire: host against nat (a published port) and
//	        bridge (the container's own address)
//	here    on the host itself: host over loopback against proxy (a published port
//	        through the engine's userland proxy, which loopback alone leads to)
//	        and container (a client in a second container on the same bridge)
//
// Every message size of a trial is asked for from one launch, in an order that a
// block's seed draws, and set against the baseline's of the same size in the same
// block. To the differences a line is fitted in each block, a fixed part and a
// part for each byte: whether the cost is one of a trip or one of its bytes is
// then a matter of intervals.
//
// A kilobyte is 1000 bytes, as for a wire; S4 names SPECweb2009 for its sizes
// and does not say. S4's client was on a second machine; here it shares the
// host, whose kernel does the client's half of the work on the same CPUs.
package network

// The ways to a service.
const (
	Host      = "host"      // the host's own network: the baseline
	NAT       = "nat"       // a published port, by the host's address translation
	Bridge    = "bridge"    // the container's own address, through bridge and filter
	Proxy     = "proxy"     // a published port, by the engine's userland proxy
	Container = "container" // from another container on the same bridge
)

// Paths lists those that are set against the baseline, in the order in which people
// see them.
var Paths = []string{NAT, Bridge, Proxy, Container}

// Directions, by what the service does.
const (
	Receive = "receive"
	Send    = "send"
)

// Directions lists them.
var Directions = []string{Receive, Send}

// Connections.
const (
	Kept = "kept" // one for all requests
	New  = "new"  // one for each request, whose making is part of its latency
)

// Connections lists them.
var Connections = []string{Kept, New}

// The places that a client stands in.
const (
	apart = "apart"
	here  = "here"
)

// Experiment is what the conditions of this study have for the factor of that name.
const Experiment = "network"

// Factors of this study's conditions.
const (
	factorExperiment = "experiment"
	factorPath       = "path"
	factorDirection  = "direction"
	factorConnection = "connection"
	factorClient     = "client"
	factorSizes      = "sizes" // in bytes: "1000,10000"
	factorServer     = "server"
	factorBy         = "by" // the client's language
)

// Covariates: what the devices carried in a trial, of which the way is known.
const (
	clientCarried  = "client_link_bytes"
	serviceCarried = "service_link_bytes"
)

// The parameters of a service that this study sets.
const (
	paramCall       = "call"
	paramSize       = "size"
	paramConnection = "connection"
)

// engine is the platform that publishes ports.
const engine = "docker"

// Bounds of a message, in bytes.
const (
	LeastSize    = 1
	GreatestSize = 16 << 20
)
