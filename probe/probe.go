// Package probe says what all probes share: what a probe lacks on a host, and
// which part of a platform a process is. The probes are the packages below it:
// observers of programs that we started or found running, built on tracepoints,
// BPF and perf events. They decide nothing and print nothing.
package probe

// Missing says that this host lacks what a probe needs. What depends on the
// probe is then absent, with this as the reason.
type Missing struct {
	Probe string // "profile"
	What  string // "perf_event_open is refused (kernel.perf_event_paranoid is 3)"
	Mend  string // the one capability, sysctl or package that mends it
}

func (m *Missing) Error() string {
	if m.Mend == "" {
		return "no " + m.Probe + ": " + m.What
	}
	return "no " + m.Probe + ": " + m.What + ": " + m.Mend
}
