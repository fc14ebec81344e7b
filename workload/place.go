package workload

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"strconv"
)

// Place is where one instance of a service listens.
type Place struct {
	// Port is the TCP port at which it answers. A service of several programs takes the
	// ports after it, too: up to [PlacePorts] in all. 0 leaves the ports as the parameters
	// have them.
	Port int
	// Listen is the IPv4 address at which it listens, such as "127.0.0.1"; empty is every
	// address.
	Listen string
}

// PlacePorts is how many successive ports an instance takes at most, from Place.Port on.
const PlacePorts = 3

// Unplaceable says that it cannot be set where a workload's program listens.
type Unplaceable struct {
	Workload string
	Reason   string
}

func (u *Unplaceable) Error() string {
	return "workload " + u.Workload + " has no other place: " + u.Reason
}

// Placeable is a workload of which it can be set where its program listens.
type Placeable interface {
	Workload
	// Placed gives the parameters with which Program has it listen there, and with which
	// the workload looks for it there. The error is an *Unplaceable.
	Placed(p Params, at Place) (Params, error)
}

// At is a workload's program, listening at a place, and the parameters with which the
// workload finds it there: those of its [Trial]. They are of this instance alone, and not
// for records. The error is an *[Unplaceable], or names what of the place or of the
// parameters is wrong.
func At(w Workload, p Params, place Place) (Program, Params, error) {
	if place != (Place{}) {
		if place.Port < 0 || place.Port > 65535-PlacePorts+1 {
			return Program{}, nil, fmt.Errorf("port %d of an instance: want 1 to %d, or 0", place.Port, 65535-PlacePorts+1)
		}
		if a, err := netip.ParseAddr(place.Listen); place.Listen != "" && (err != nil || !a.Is4()) {
			return Program{}, nil, fmt.Errorf("address %q of an instance: want one of IPv4, such as 127.0.0.1", place.Listen)
		}
		placeable, ok := w.(Placeable)
		if !ok {
			return Program{}, nil, &Unplaceable{w.Name(), "its program takes no address to listen at"}
		}
		var err error
		if p, err = placeable.Placed(p, place); err != nil {
			return Program{}, nil, err
		}
	}
	program, err := w.Program(p)
	return program, p, err
}

// Places tells whether both port and address can be set of a workload's program, with its
// default parameters.
func Places(w Workload) bool {
	p, err := Resolve(w, nil)
	if err != nil {
		return false
	}
	_, _, err = At(w, p, Place{Port: 1024, Listen: "127.0.0.1"})
	return err == nil
}

// The keys by which Params carry a place. They are no parameters: those have no dot.
const (
	placedPort   = "place.port"
	placedListen = "place.listen"
)

// everywhere is the address that stands for all of IPv4's.
const everywhere = "0.0.0.0"

// at gives parameters with a place. Where the workload has a parameter for the port,
// that is it.
func (p Params) at(place Place) Params {
	p = maps.Clone(p)
	if place.Port > 0 {
		key := placedPort
		if _, has := p[portParam]; has {
			key = portParam
		}
		p[key] = strconv.Itoa(place.Port)
	}
	if place.Listen != "" {
		p[placedListen] = place.Listen
	}
	return p
}

// placeable is the one method of a [Placeable] whose parameters say where it listens.
type placeable struct{}

func (placeable) Placed(p Params, at Place) (Params, error) { return p.at(at), nil }

// listening is where a program listens.
type listening struct {
	listen string // the address
	port   int
}

// where is address and port.
func (l listening) where() string { return net.JoinHostPort(l.listen, strconv.Itoa(l.port)) }

// listening reads where a program listens whose workload has no parameter for it.
func (from *parameters) listening(usual int) listening {
	return listening{from.given.listenAddress(), from.given.portOr(usual)}
}

// listeningAt reads where a program listens, its port as a parameter.
func (from *parameters) listeningAt(usual int64, help string) listening {
	return listening{from.given.listenAddress(), int(from.whole(portParam, usual, 1, 65535, help))}
}

// portOr is the port of a service that has no parameter for it.
func (p Params) portOr(usual int) int {
	if port, err := strconv.Atoi(p[placedPort]); err == nil {
		return port
	}
	return usual
}

// listenAddress is the address at which a service listens.
func (p Params) listenAddress() string {
	if a, has := p[placedListen]; has {
		return a
	}
	return everywhere
}
