// Package agent carries the platform interface over a stream: a Server at one end
// has platforms, and at the other a Client's [Client.Platform] is a platform like any
// other, whose programs run where the server is. So a container in a virtual machine
// is the platform oci behind an agent that the machine has booted with.
//
// The stream is anything that carries bytes both ways, such as a virtio serial port.
// Whoever has its other end runs programs as root: it is never a network's.
// Over it runs yamux, which makes many streams of one, and over that HTTP with JSON, a
// request for each call of the interface. The protocol is described in docs/agent.md.
//
// What a program makes stands in the ledger of the agent's host, where it is made;
// on the client's host there are but listeners ([platform.Instance].Address), which
// the kernel closes with their process. When the stream ends, the server stops every
// instance of its client: nothing outlives who asked for it.
//
// It boots nothing, and decides nothing of what runs.
package agent

import (
	"fmt"
	"time"
)

// Protocol is the version of what is spoken. It changes whenever an older peer
// would misunderstand; tare's own version must be equal besides, since figures of two
// builds are not comparable.
const Protocol = 3

// Phase is one step of what it took until an agent was there to answer.
type Phase struct {
	Name string        `json:"name"`
	Took time.Duration `json:"took_ns"`
}

// Hello is what an agent says of itself and its host.
type Hello struct {
	Protocol     int     `json:"protocol"`
	Version      string  `json:"version"` // tare's
	Kernel       string  `json:"kernel"`  // release
	Architecture string  `json:"architecture"`
	CPUs         int     `json:"cpus"`   // on line
	Memory       int64   `json:"memory"` // bytes
	Cgroup       string  `json:"cgroup"` // "v1", "v2", "hybrid"; empty where none is mounted
	Phases       []Phase `json:"phases,omitempty"`
}

// Clock compares the agent's clock with the caller's.
type Clock struct {
	// Offset is what the agent's clock shows more than the caller's.
	Offset time.Duration
	// Within bounds the error of Offset: half of the least round trip.
	Within time.Duration
}

// Mismatch says that the two ends do not speak the same.
type Mismatch struct {
	Own, Peer                 string // versions of tare
	OwnProtocol, PeerProtocol int
}

func (m *Mismatch) Error() string {
	return fmt.Sprintf("the agent is tare %s (protocol %d), this is tare %s (protocol %d): run the same tare at both ends",
		m.Peer, m.PeerProtocol, m.Own, m.OwnProtocol)
}
