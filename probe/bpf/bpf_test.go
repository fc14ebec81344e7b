package bpf

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"tare/kernel/cgroup"
	"tare/probe"
)

var needs = Needs{Probe: "probe of a test", Linux: "5.11"}

func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		err     error
		missing bool
		says    string
	}{
		{fmt.Errorf("load program: %w (MEMLOCK may be too low, consider rlimit.RemoveMemlock)", syscall.EPERM), true, "CAP_BPF"},
		{fmt.Errorf("map create: %w", ebpf.ErrNotSupported), true, "Linux 5.11"},
		{fmt.Errorf("field of task_struct: %w", btf.ErrNotFound), true, "Linux 5.11"},
		{fmt.Errorf("program on_switch: %w", &ebpf.VerifierError{Cause: syscall.EACCES, Log: []string{"R1 is bad"}}), false, "R1 is bad"},
		{fmt.Errorf("map create: %w (MEMLOCK may be too low)", syscall.ENOMEM), false, "cannot allocate memory"},
	} {
		err := needs.Refusal("load", c.err)
		var missing *probe.Missing
		if errors.As(err, &missing) != c.missing || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "MEMLOCK") {
			t.Errorf("%v is reported as %v", c.err, err)
		}
	}
}

// What an older kernel's verifier does not know is the kernel's lack.
func TestRefusalByAnOlderVerifier(t *testing.T) {
	refused := fmt.Errorf("program on_switch: %w", &ebpf.VerifierError{Cause: syscall.EINVAL, Log: []string{"BPF_STX uses reserved fields"}})
	for linux, old := range map[string]bool{"4.1": false, "250.1": true, "": false} {
		var missing *probe.Missing
		err := Needs{Probe: "probe of a test", Linux: linux}.Refusal("load", refused)
		if errors.As(err, &missing) != old || !strings.Contains(err.Error(), "reserved fields") {
			t.Errorf("by programs for Linux %q: %v", linux, err)
		}
	}
}

func TestCheckNamesATypeThatTheKernelHasNot(t *testing.T) {
	n := needs
	if _, err := n.Check(); err != nil {
		t.Skip(err)
	}
	n.Types = []Type{{"task_struct", "a kernel"}, {"tare_has_no_such_type", "another kernel"}}
	_, err := n.Check()
	missing := new(probe.Missing)
	if !errors.As(err, &missing) || missing.Mend != "another kernel" || !strings.Contains(missing.What, "tare_has_no_such_type") {
		t.Errorf("%v", err)
	}
}

// Who shares the kernel's types reads them once, however often others share them beside, and keeps none after.
func TestShare(t *testing.T) {
	read := func() *btf.Spec {
		t.Helper()
		types, err := needs.Check()
		if err != nil {
			t.Skip(err)
		}
		return types
	}
	first, second := Share(), Share()
	types := read()
	if first(); read() != types {
		t.Error("the types are read again while somebody shares them")
	}
	first() // again, which is nothing
	if read() != types {
		t.Error("what is released twice is taken from another")
	}
	if second(); shared.cache != nil || read() == types {
		t.Error("types are kept though nobody shares them")
	}
}

// Each mounted hierarchy has one place, under whatever directory it is met.
func TestHierarchies(t *testing.T) {
	kernel, err := needs.Check()
	if err != nil {
		t.Skip(err)
	}
	h, err := NewHierarchies(kernel)
	if err != nil {
		t.Skip(err)
	}
	for _, of := range h.Layout.Hierarchies {
		if len(h.Subsystems) == MostHierarchies {
			break
		}
		g, err := h.Locate(of.Mount)
		if err != nil {
			if of.Version == 2 || len(of.Controllers) > 0 {
				t.Errorf("%s: %v", of.Mount, err)
			}
			continue
		}
		again, err := h.Locate(of.Mount)
		if err != nil || again != g || (h.Subsystems[g.Hierarchy] == -1) != (of.Version == 2) {
			t.Errorf("%s: %+v, and again %+v, %v, of %v", of.Mount, g, again, err, h.Subsystems)
		}
	}
	for _, none := range []string{"/", "/etc/passwd", "/sys/fs/cgroup/tare-is-not-here"} {
		if g, err := h.Locate(none); err == nil {
			t.Errorf("%s is the group %+v", none, g)
		}
	}
	if _, err := h.Use(&cgroup.Hierarchy{Version: 1, Controllers: []string{"name=none"}}); err == nil {
		t.Error("a hierarchy without a controller is in use")
	}
}
