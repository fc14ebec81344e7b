package platform

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// CheckPorts refuses a spec whose ports are served already, for a platform that
// shares the host's network: the load would reach somebody else's program.
func (s Spec) CheckPorts() error {
	for _, port := range s.Ports {
		l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(port)))
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
