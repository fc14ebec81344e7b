package platform

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
)

// portGrace is how long a port is waited for that is served: whoever did may just be ending.
const portGrace = time.Second

// CheckPorts refuses a spec whose ports are served already, for a platform that
// shares the host's network: the load would reach somebody else's program.
func (s Spec) CheckPorts() error {
	until := time.Now().Add(portGrace)
	for _, port := range s.Ports {
		at := net.JoinHostPort("", strconv.Itoa(port))
		l, err := net.Listen("tcp", at)
		for errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(until) {
			time.Sleep(portGrace / 20)
			l, err = net.Listen("tcp", at)
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("port %d is served by another program on this host: stop it, or choose another port", port)
		}
		if err != nil {
			return fmt.Errorf("port %d: %w", port, err)
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
}
