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

// Provided are the Services that were made for this node's pods. Each leads to one pod at a time. They are set
// before a platform is used, and then no more: only who may ask the API server makes Services.
var Provided []Service

// serve takes a Service for the pod, where the setting names one. The pod that had it before is out of it then.
func (l *launch) serve(ctx context.Context) error {
	network := l.spec.Setting.Network
	if network != platform.NetworkClusterIP && network != platform.NetworkNodePort {
		return nil
	}
	service, err := l.p.take(network, len(l.spec.Ports))
	if err != nil {
		return err
	}
	l.ways.service = service
	return service.awaitEmpty(ctx, l.engine.Requests().Patience)
}

// take takes a Service that no other pod has.
func (p *Platform) take(network platform.Network, ports int) (*Service, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	made := 0
	for i := range Provided {
		s := &Provided[i]
		if s.Network != network || len(s.Ports) < ports {
			continue
		}
		if made++; !slices.Contains(p.serving, s) {
			p.serving = append(p.serving, s)
			return s, nil
		}
	}
	return nil, fmt.Errorf("network=%s: %d Services with %d ports were made for this node's pods, and all have one",
		network, made, ports)
}

// give gives a Service back. A nil one is none.
func (p *Platform) give(s *Service) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serving = slices.DeleteFunc(p.serving, func(other *Service) bool { return other == s })
}

// at is where a client on this node reaches one of the ports.
func (s *Service) at(place int) string {
	return net.JoinHostPort(s.Address, strconv.Itoa(s.Ports[place]))
}

// awaitEmpty waits until the Service leads to no pod, when the node refuses its clients: an earlier pod leaves it a
// moment after its end.
func (s *Service) awaitEmpty(ctx context.Context, patience time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		c, err := new(net.Dialer).DialContext(bounded, "tcp", s.at(0))
		if err == nil {
			_ = c.Close()
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		select {
		case <-bounded.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("service %s at %s still leads somewhere, or nowhere at all, after %v (%v): does kube-proxy run on this node?",
				s.Name, s.at(0), patience, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
