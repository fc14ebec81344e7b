package lab

import (
	"fmt"
	"strings"

	"tare/platform"
	"tare/platform/vm"
	"tare/record"
)

// BootCovariate begins the names of the covariates that tell, in seconds, what the boot
// of a machine took for which a trial waited: its phases in order ("boot/3/kernel"), all
// of it (BootReady), and how far the machine's clock was off the host's (BootClock).
const (
	BootCovariate = "boot/"
	BootReady     = BootCovariate + "ready"
	BootClock     = BootCovariate + "clock"
)

// booting is a platform whose machines boot when they are first needed.
type booting interface{ Boots() []vm.Boot }

// booted keeps with a trial what the machines took that were booted for it.
func (r *runner) booted(p platform.Platform, c Condition, result *record.Trial) {
	b, ok := p.(booting)
	if !ok {
		return
	}
	for _, boot := range b.Boots() {
		key := boot.Machine + " " + boot.Started.String()
		if r.boots[key] {
			continue
		}
		r.boots[key] = true
		phases := make([]string, len(boot.Phases))
		for i, phase := range boot.Phases {
			result.Covariates[fmt.Sprintf("%s%d/%s", BootCovariate, i+1, phase.Name)] = phase.Took.Seconds()
			phases[i] = fmt.Sprintf("%s %.2f", phase.Name, phase.Took.Seconds())
		}
		result.Covariates[BootReady] = boot.Ready.Seconds()
		result.Covariates[BootClock] = boot.Clock.Offset.Seconds()
		r.lab.tell(Event{Kind: Preparing, Group: c.Workload, Condition: c.ID,
			Text: fmt.Sprintf("%s has booted in %.2f s: %s", boot.Machine, boot.Ready.Seconds(), strings.Join(phases, ", "))})
		for _, note := range boot.Notes {
			r.lab.tell(Event{Kind: Warned, Group: c.Workload, Condition: c.ID, Text: boot.Machine + ": " + note})
		}
	}
}
