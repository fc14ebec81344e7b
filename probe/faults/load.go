package faults

import (
	"fmt"

	"github.com/cilium/ebpf"

	"tare/probe/bpf"
)

var needs = bpf.Needs{Probe: "recording of page faults", Linux: "6.1", Types: []bpf.Type{
	{Name: "btf_trace_page_fault_user", Mend: "an x86-64 kernel with CONFIG_TRACEPOINTS"},
	{Name: "maple_range_64", Mend: "Linux 6.1 or later, which keeps mappings in a maple tree"},
}}

// load gives the kernel the programs named, with what they need.
func load(programs []string, set func(*ebpf.CollectionSpec) error) (*ebpf.Collection, error) {
	spec, err := loadObject()
	if err != nil {
		return nil, fmt.Errorf("read the BPF programs: %w", err)
	}
	if err := set(spec); err != nil {
		return nil, err
	}
	bpf.Keep(spec, programs)
	return needs.Load(spec)
}
