package sched

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"tare/probe/bpf"
)

var needs = bpf.Needs{Probe: "tracing of the scheduler", Linux: "5.11"}

// attachment is loaded programs, attached, and their maps.
type attachment struct {
	collection *ebpf.Collection
	links      bpf.Links
}

// attach loads the programs named, with what they need, and attaches them in
// their order. set is called before with what is to be loaded.
func attach(programs []string, set func(*ebpf.CollectionSpec, *btf.Spec) error) (*attachment, error) {
	kernel, err := needs.Check()
	if err != nil {
		return nil, err
	}
	spec, err := loadObject()
	if err != nil {
		return nil, fmt.Errorf("read the BPF programs: %w", err)
	}
	bpf.Keep(spec, programs)
	if err := set(spec, kernel); err != nil {
		return nil, err
	}
	a := &attachment{}
	if a.collection, err = needs.Load(spec); err != nil {
		return nil, err
	}
	if a.links, err = needs.Attach(a.collection, programs); err != nil {
		a.collection.Close()
		return nil, err
	}
	return a, nil
}

// setState informs programs whether sched_switch hands over the state of the one switched out.
func setState(spec *ebpf.CollectionSpec, kernel *btf.Spec) error {
	hasState, err := needs.SwitchHasState(kernel)
	if err != nil {
		return err
	}
	return spec.Variables[objectVarSwitchHasState].Set(hasState)
}

// lost counts events that the programs could not report: those that found no
// room, and those of a program that came upon itself on the same CPU.
func (a *attachment) lost() (uint64, error) {
	var n uint64
	if v := a.collection.Variables[objectVarLost]; v != nil {
		if err := v.Get(&n); err != nil {
			return 0, fmt.Errorf("read the count of lost events: %w", err)
		}
	}
	for name, p := range a.collection.Programs {
		stats, err := p.Stats()
		if err != nil {
			return 0, fmt.Errorf("read the statistics of %s: %w", name, err)
		}
		n += stats.RecursionMisses
	}
	return n, nil
}

// detach ends the programs' observing. Their maps can still be read.
func (a *attachment) detach() error {
	err := a.links.Close()
	a.links = nil
	return err
}

func (a *attachment) close() error {
	err := a.detach()
	a.collection.Close()
	return err
}
