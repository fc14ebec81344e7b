package box

import (
	"fmt"

	"tare/platform"
)

// Bounds beyond which going on is refused, fixed beforehand and the same for every
// condition.
const (
	// LowMemory is the share of the host's memory below which what it can give must not
	// fall. A run ends itself at half of that (lab.LowMemory), and loses its trial: a
	// sweep that stops before keeps it.
	LowMemory = 0.06
	// FullSwap is the share of the swap area beyond which the next page may find no
	// place, and the OOM killer is called where there was a question of time alone. The
	// kernel's clusters, and a slot kept for a page that is in memory too, make the last
	// parts of an area hard to come by.
	FullSwap = 0.95
	// OutsideStall is the share of the last moments ([stallWindow]) in which somebody
	// outside the box waited for memory while nobody inside did. A service manager that
	// ends programs for it (systemd-oomd) does so at 60 % by default.
	OutsideStall = 0.25
)

// situation is what danger is judged by.
type situation struct {
	kind             platform.BoxKind
	own              bool  // the kernel is there for the box alone
	total, available int64 // memory of the host, in bytes
	swapUsed         int64
	swapSize         int64
	memory, pool     int64   // the box's, and what of it is compressed swap's
	outside          float64 // share of time; negative where it is unknown
	criticalKilled   int64   // programs of the critical class, by the OOM killer
}

// end is why going on is refused.
type end struct {
	why    string // empty where nothing speaks against it
	within bool   // the box alone has come to its end: nobody else is in danger
}

// endangered is it for others; nil where nothing speaks against going on.
func (e end) endangered() *platform.Endangered {
	if e.why == "" {
		return nil
	}
	return &platform.Endangered{Why: e.why, Within: e.within}
}

// danger says why going on is refused. Of a box that is the machine, memory that has run
// out is what was asked for.
func danger(s situation) end {
	const percent, mib = 100, 20
	switch {
	case s.criticalKilled > 0:
		return end{"the OOM killer ended the service", true}
	case s.swapSize > 0 && float64(s.swapUsed) > FullSwap*float64(s.swapSize):
		return end{
			fmt.Sprintf("the swap area is full to %.0f %% (%d of %d MiB): the OOM killer is next", percent*float64(s.swapUsed)/float64(s.swapSize), s.swapUsed>>mib, s.swapSize>>mib),
			true,
		}
	case s.pool > s.memory-Smallest && s.pool > 0:
		return end{fmt.Sprintf("compressed swap holds %d MiB of the box's %d MiB, so that next to none is left for programs: what they hold does not compress so far", s.pool>>mib, s.memory>>mib), true}
	case s.own || s.kind == platform.BoxMachine:
		return end{}
	case s.total > 0 && float64(s.available) < LowMemory*float64(s.total):
		return end{fmt.Sprintf("the host can give %d MiB more, less than %.0f %% of its %d MiB", s.available>>mib, percent*LowMemory, s.total>>mib), false}
	case s.outside > OutsideStall:
		return end{fmt.Sprintf("programs outside the box waited for memory for %.0f %% of the time", percent*s.outside), false}
	}
	return end{}
}
