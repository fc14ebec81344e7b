package bursts

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"

	"tare/probe/bpf"
)

var needs = bpf.Needs{Probe: "accounting of CPU bursts", Linux: "5.12"} // atomic operations that fetch

// load loads the programs named, with what set makes of their maps and
// variables. All maps are there, whatever programs are.
func load(programs []string, set func(*ebpf.CollectionSpec) error) (*ebpf.Collection, error) {
	spec, err := loadObject()
	if err != nil {
		return nil, fmt.Errorf("read the BPF programs: %w", err)
	}
	maps.DeleteFunc(
		spec.Programs,
		func(name string, _ *ebpf.ProgramSpec) bool { return !slices.Contains(programs, name) },
	)
	if err := set(spec); err != nil {
		return nil, err
	}
	return needs.Load(spec)
}
