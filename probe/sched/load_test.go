package sched

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"

	"tare/probe"
)

func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		err     error
		missing bool
		says    string
	}{
		{fmt.Errorf("load program: %w (MEMLOCK may be too low, consider rlimit.RemoveMemlock)", syscall.EPERM), true, "CAP_BPF"},
		{fmt.Errorf("map create: %w", ebpf.ErrNotSupported), true, "Linux 5.11"},
		{fmt.Errorf("program on_switch: %w", &ebpf.VerifierError{Cause: syscall.EACCES, Log: []string{"R1 is bad"}}), false, "R1 is bad"},
		{fmt.Errorf("map create: %w (MEMLOCK may be too low)", syscall.ENOMEM), false, "cannot allocate memory"},
	} {
		err := refusal("load", c.err)
		var missing *probe.Missing
		if errors.As(err, &missing) != c.missing || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "MEMLOCK") {
			t.Errorf("%v is told as %v", c.err, err)
		}
	}
}

// Whatever the instruments load is in the object, and each takes no more maps
// than it uses.
func TestPrune(t *testing.T) {
	for _, c := range []struct {
		programs []string
		maps     []string
		not      []string
	}{
		{[]string{objectProgProcessFork, objectProgProcessExec, objectProgProcessExit}, []string{objectMapEvents, objectMapExecScratch}, []string{objectMapStacks, objectMapStackScratch}},
		{recordingPrograms, []string{objectMapEvents, objectMapContexts, objectMapStackScratch}, []string{objectMapStacks, objectMapOffTimes}},
		{[]string{objectProgOffSwitch, objectProgOffWaking}, []string{objectMapStacks, objectMapOffTimes, objectMapAbsences}, []string{objectMapEvents}},
	} {
		spec, err := loadObject()
		if err != nil {
			t.Fatal(err)
		}
		prune(spec, c.programs)
		for _, name := range c.programs {
			if spec.Programs[name] == nil {
				t.Errorf("%s is not in the object", name)
			}
		}
		for _, name := range c.maps {
			if spec.Maps[name] == nil {
				t.Errorf("%q are without %s", c.programs, name)
			}
		}
		for _, name := range c.not {
			if spec.Maps[name] != nil {
				t.Errorf("%q have %s, which they do not use", c.programs, name)
			}
		}
	}
}
