package lab

import (
	"errors"

	"tare/platform"
	"tare/workload"
)

// loopback is where the host's own clients reach what serves in the host's network.
const loopback = "127.0.0.1"

// ListensAt is the address at which a service is to listen, for clients on this host: a
// service in the host's network listens on loopback alone, so that nobody else on the
// network reaches it. On any other network, and under another kernel, it is empty: there
// clients come by an address that is known only once the service runs.
func ListensAt(on platform.Platform, s platform.Setting) string {
	if s.Network != "" && s.Network != platform.NetworkHost {
		return ""
	}
	if _, another := on.(platform.Boxing); another {
		return ""
	}
	return loopback
}

// ProgramAt is [workload.At]. A program whose address cannot be set listens where the workload
// has it by itself. A port that cannot be set is an error.
func ProgramAt(w workload.Workload, p workload.Params, at workload.Place) (workload.Program, workload.Params, error) {
	program, placed, err := workload.At(w, p, at)
	if unplaceable := (*workload.Unplaceable)(nil); !errors.As(err, &unplaceable) || at.Listen == "" {
		return program, placed, err
	}
	at.Listen = ""
	return workload.At(w, p, at)
}

// ProgramOf is a condition's program where it is launched by itself, and the parameters by
// which its workload finds it.
func ProgramOf(c Condition, on platform.Platform) (workload.Program, workload.Params, error) {
	return ProgramAt(c.Program, c.Params, workload.Place{Listen: ListensAt(on, c.Setting)})
}
