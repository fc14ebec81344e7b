package cli

import (
	"context"

	"tare/kernel/host"
	"tare/lab"
	"tare/record"
)

// fingerprint is the host as a run of this design finds it.
func (m *measuring) fingerprint(d lab.Design) record.Host {
	h := hostRecord(host.Read("/"))
	if fs, err := host.FileSystem(m.dir); err == nil {
		h.FS = fs
	}
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			if _, known := h.Versions[c.Platform]; known {
				continue
			}
			if p, err := m.session.Platforms(c.Platform); err == nil {
				if v := p.Version(context.Background()); v != "" {
					h.Versions[c.Platform] = v
				}
			}
		}
	}
	return h
}

func hostRecord(f host.Facts) record.Host {
	return record.Host{
		Hostname: f.Hostname, Machine: f.Machine, Kernel: f.Kernel, OS: f.OS, Arch: f.Arch,
		CPUModel: f.CPUModel, CPUs: f.CPUs, SMT: f.SMT, Governor: f.Governor,
		Memory: f.Memory, Swap: f.Swap, Cgroup: f.Cgroup, THP: f.THP, Generations: f.Generations, KSM: f.KSM,
		Virtual: f.Virtual, LSM: f.LSM, Mitigated: f.Mitigations, CmdLine: f.CommandLine,
		Versions: map[string]string{},
	}
}
