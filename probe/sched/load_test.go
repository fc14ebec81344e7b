package sched

import (
	"testing"

	"tare/probe/bpf"
)

// Whatever the instruments load is in the object, and each takes no more maps
// than it uses.
func TestKeep(t *testing.T) {
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
		bpf.Keep(spec, c.programs)
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
