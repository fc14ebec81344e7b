package k8s

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"syscall"
	"time"

	"tare/platform"
)

// Service is a Service of Kubernetes. It selects pods of its namespace whose label [ServiceLabel] has its name.
type Service struct {
	Network   platform.Network `json:"network"` // NetworkClusterIP or NetworkNodePort
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	Address   string           `json:"address"` // where a client on this node reaches it
	Ports     []int            `json:"ports"`   // the first leads to the pod's port of the name PortName(0), and so on
}

// ServiceLabel is the label of pods that a Service selects.
const ServiceLabel = "tare/service"

// PortName is the name of a program's port, by its place in platform.Spec.Ports.
func PortName(place int) string { return "port-" + strconv.Itoa(place) }

// Provide gives the platform the Services that were made for this node's pods. Each leads to one pod at a time. Only
// who may ask the API server makes Services.
func (p *Platform) Provide(all []Service) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.services = all
}

// serve takes a Service for the pod, where the setting names one. The pod that had it before is out of it then.
func (l *launch) serve(ctx context.Context) error {
	network := l.spec.Setting.Network
	if network != platform.NetworkClusterIP && network != platform.NetworkNodePort {
		return nil
	}
	service, err := l.take(network, len(l.spec.Ports))
	if err != nil {
		return err
	}
	l.ways.service = service
	return service.awaitEmpty(ctx, l.engine.Requests().Patience)
}

// take takes a Service that no other pod has.
func (l *launch) take(network platform.Network, ports int) (*Service, error) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	made := 0
	for i := range l.p.services {
		s := &l.p.services[i]
		if s.Network != network || len(s.Ports) < ports {
			continue
		}
		if made++; l.p.serving[s] == nil {
			l.p.serving[s] = l
			return s, nil
		}
	}
	return nil, fmt.Errorf("network=%s: no Service for %d ports is free on this node, of %d that were made", network, ports, made)
}

// give gives the pod's Service back, if it has one still.
func (l *launch) give() {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if s := l.ways.service; s != nil && l.p.serving[s] == l {
		delete(l.p.serving, s)
	}
}

// at is where a client on this node reaches one of the ports.
func (s *Service) at(place int) string {
	return net.JoinHostPort(s.Address, strconv.Itoa(s.Ports[place]))
}

// awaitEmpty waits until the Service leads to no pod: an earlier one leaves it a moment after its end. The node
// turns its clients away then, at once: by a reset or an ICMP message (kube-proxy's iptables), or by an error of
// connect (Cilium's bpf_sock.c). The address of a pod that is gone is unreachable, too, after some seconds.
func (s *Service) awaitEmpty(ctx context.Context, patience time.Duration) error {
	const looks, soon, apart = 2, 500 * time.Millisecond, 50 * time.Millisecond
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for empty := 0; ; {
		asked := time.Now()
		c, err := new(net.Dialer).DialContext(bounded, "tcp", s.at(0))
		if err == nil {
			_ = c.Close()
		}
		isTurnedAway := slices.ContainsFunc([]error{syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.EPERM},
			func(by error) bool { return errors.Is(err, by) })
		if empty++; !isTurnedAway || time.Since(asked) > soon {
			empty = 0
		}
		if empty == looks {
			return nil
		}
		select {
		case <-bounded.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("service %s at %s still leads to a pod after %v (%v)", s.Name, s.at(0), patience, err)
		case <-time.After(apart):
		}
	}
}
