package lab

import (
	"encoding/json"
	"fmt"

	"tare/kernel/cgroup"
	"tare/kernel/cpuonline"
	hostfacts "tare/kernel/host"
	"tare/kernel/hugepages"
	"tare/platform"
)

// What of the host itself is in the ledger: no platform removes it.
const (
	hostEntry    = "host"
	offlineKind  = "cpus off line"
	offlineState = "state"
	hostBoot     = "boot" // when the kernel was started
)

// switches are what takes CPUs off line, and brings them back.
type switches interface {
	Online(cpu int) (bool, error)
	Look(cpus []int) (cpuonline.State, error)
	Take(cpuonline.State) error
	Restore(cpuonline.State) error
}

// KeepOnline leaves count of these CPUs on line, the first ones, and enters in the ledger
// what brings the others back before they go. It reaches every program on the host. Where
// count is all of them it makes sure that they are on line, and changes nothing.
func KeepOnline(ledger platform.Ledger, cpus []int, count int) (restore func() error, err error) {
	if count < 1 || count > len(cpus) {
		return nil, fmt.Errorf("%d CPUs on line: this host has %d", count, len(cpus))
	}
	host, err := hotplug()
	if err != nil {
		return nil, err
	}
	return keepOnline(host, ledger, cpus[:count], cpus[count:])
}

func keepOnline(host switches, ledger platform.Ledger, stay, leave []int) (restore func() error, err error) {
	for _, cpu := range stay {
		on, err := host.Online(cpu)
		if err != nil {
			return nil, err
		}
		if !on {
			return nil, fmt.Errorf("CPU %d is off line, and is to be there; `tare clean` brings back what an earlier run has taken", cpu)
		}
	}
	if len(leave) == 0 {
		return func() error { return nil }, nil
	}
	state, err := host.Look(leave)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(state)
	if err != nil {
		return nil, err
	}
	done, err := addHostEntry(ledger, offlineKind, platform.FormatCPUList(state.Offline),
		map[string]string{offlineState: string(text)})
	if err != nil {
		return nil, err
	}
	restore = func() error {
		if err := host.Restore(state); err != nil {
			// The entry stays: it is all that is known of how they were.
			return &Unrestored{fmt.Errorf("bring CPUs %s back: %w; `tare clean` tries again", platform.FormatCPUList(state.Offline), err)}
		}
		done()
		return nil
	}
	if err := host.Take(state); err != nil {
		return nil, also(err, restore())
	}
	return restore, nil
}

// Hotplug says why a CPU of these cannot be taken off line, but for the first; nil where
// all can. It tries nothing.
func Hotplug(cpus []int) error {
	var host cpuonline.Host
	for _, cpu := range cpus[min(1, len(cpus)):] {
		if err := host.Removable(cpu); err != nil {
			return &platform.Missing{What: err.Error(), Mend: "virtual machines can be of any size: --platform vm/oci"}
		}
	}
	return nil
}

// hotplug is this host, with the cpusets that lose a CPU for good.
func hotplug() (cpuonline.Host, error) {
	layout, err := cgroup.Host()
	if err != nil {
		return cpuonline.Host{}, err
	}
	var host cpuonline.Host
	if at, ok := layout.For("cpuset"); ok && at.Version == 1 {
		host.Cpusets = append(host.Cpusets, at.Mount)
	}
	return host, nil
}

// addHostEntry enters what is about to be done to the host itself, and when the kernel was started.
func addHostEntry(ledger platform.Ledger, kind, id string, attrs map[string]string) (done func(), err error) {
	if attrs[hostBoot], err = hostfacts.BootID(); err != nil {
		return nil, err
	}
	return ledger.Add(platform.Entry{Platform: hostEntry, Kind: kind, ID: id, Attrs: attrs})
}

// removeHostEntry undoes what was done to the host itself. A start of the kernel since has undone it.
func removeHostEntry(e platform.Entry) error {
	if boot, err := hostfacts.BootID(); err != nil || e.Attrs[hostBoot] != "" && e.Attrs[hostBoot] != boot {
		return err
	}
	if e.Kind == hugePagesKind {
		return restoreHugePages(hugepages.Directory(""), e.Attrs[hugePagesFound], e.ID)
	}
	if e.Kind != offlineKind {
		return fmt.Errorf("%s %s of the host: this tare does not know how to undo it", e.Kind, e.ID)
	}
	var state cpuonline.State
	if err := json.Unmarshal([]byte(e.Attrs[offlineState]), &state); err != nil {
		return fmt.Errorf("CPUs %s of the host: the ledger does not say what they were: %w", e.ID, err)
	}
	host, err := hotplug()
	if err != nil {
		return err
	}
	return host.Restore(state)
}
