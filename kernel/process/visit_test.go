package process_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"tare/kernel/process"
)

func TestVisitCPUs(t *testing.T) {
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	var cpus []int
	for cpu := range 1024 {
		if before.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	if err := process.VisitCPUs(cpus); err != nil {
		t.Error(err)
	}
	if err := process.VisitCPUs([]int{1023}); err == nil && !before.IsSet(1023) {
		t.Error("visited a CPU that this host does not have")
	}
	var after unix.CPUSet
	if err := unix.SchedGetaffinity(0, &after); err != nil || after != before {
		t.Errorf("the caller's own CPUs are %v afterwards (%v), were %v", after, err, before)
	}
}
