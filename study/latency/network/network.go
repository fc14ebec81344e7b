// Package network measures what the network path to a container adds to a service's
// latency. It repeats S4's experiment on network isolation (The Impact of Docker
// Containers on Service Latency, section 3.5), and adds paths that S4 left out.
//
// A service receives or sends messages of several sizes. Its client runs in one of
// two places. Each has its own baseline, in which the service's container has the
// host's network:
//
//	apart   a network namespace behind a veth pair, like another machine without
//	        the wire: host against nat (a published port) and bridge (the
//	        container's own address)
//	here    on the host itself: host over loopback against proxy (a published port
//	        through the engine's userland proxy, which is reached over loopback
//	        only) and container (a client in a second container on the same bridge)
//
// One launch answers all message sizes of a trial, in an order drawn from the
// block's seed. Each size is compared with the baseline's in the same block. A line
// is fitted to the differences in each block: a fixed part, and a part per byte.
//
// A kilobyte is 1000 bytes, as for a wire. S4 refers to SPECweb2009 for its sizes
// and does not define it. S4's client was on a second machine. Here it shares the
// host, and the kernel does the client's half of the work on the same CPUs.
package network

// The paths to a service.
const (
	Host      = "host"      // the host's own network: the baseline
	NAT       = "nat"       // a published port, by the host's address translation
	Bridge    = "bridge"    // the container's own address, through bridge and filter
	Proxy     = "proxy"     // a published port, by the engine's userland proxy
	Container = "container" // from another container on the same bridge
)

// Paths lists those that are compared with the baseline, in the order of the page.
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
	New  = "new"  // one for each request; its set-up is part of the latency
)

// Connections lists them.
var Connections = []string{Kept, New}

// The places of a client.
const (
	apart = "apart"
	here  = "here"
)

// Experiment is the value of the factor of that name in this study.
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

// Covariates: what the devices carried in a trial, as evidence of the path.
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
