package bursts

import (
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"tare/probe/bpf"
)

// What is read from the kernel's tables has the layout that the programs give it.
func TestLayoutsAgree(t *testing.T) {
	spec, err := loadObject()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mapName  string
		value    bool
		size     uintptr
		describe string
	}{
		{objectMapHistogramOf, true, unsafe.Sizeof(kernelHistograms{}), "histograms"},
		{objectMapCountsOf, true, unsafe.Sizeof(kernelCounts{}), "counts"},
		{objectMapThreads, true, unsafe.Sizeof(kernelThread{}), "thread"},
		{objectMapPlaces, true, unsafe.Sizeof(kernelThread{}), "thread's place"},
		{objectMapLines, true, unsafe.Sizeof(kernelLine{}), "line"},
		{objectMapAbsences, false, unsafe.Sizeof(kernelWay{}), "way"},
		{objectMapAbsences, true, unsafe.Sizeof(kernelAbsence{}), "absence"},
		{objectMapSamples, false, unsafe.Sizeof(kernelFound{}), "found"},
		{objectMapStacks, true, unsafe.Sizeof([frameRoom]uint64{}), "stack"},
		{objectMapBehinds, false, unsafe.Sizeof(kernelPair{}), "pair"},
		{objectMapBehinds, true, unsafe.Sizeof(kernelBehind{}), "behind"},
		{objectMapRoots, false, unsafe.Sizeof(bpf.Group{}), "directory"},
	} {
		m := spec.Maps[c.mapName]
		size := m.KeySize
		if c.value {
			size = m.ValueSize
		}
		if uintptr(size) != c.size {
			t.Errorf("%s has %d bytes in the programs and %d here", c.describe, size, c.size)
		}
	}
	thread, ok := spec.Maps[objectMapThreads].Value.(*btf.Struct)
	if !ok {
		t.Fatalf("a thread is %v", spec.Maps[objectMapThreads].Value)
	}
	var k kernelThread
	for name, at := range map[string]uintptr{"since": unsafe.Offsetof(k.Since), "burst": unsafe.Offsetof(k.Burst), "target": unsafe.Offsetof(k.Target), "mode": unsafe.Offsetof(k.Mode), "cpu": unsafe.Offsetof(k.CPU), "tid": unsafe.Offsetof(k.TID), "last": unsafe.Offsetof(k.Last), "user_stack": unsafe.Offsetof(k.UserStack)} {
		found := false
		for _, m := range thread.Members {
			if m.Name == name {
				found = true
				if uintptr(m.Offset.Bytes()) != at {
					t.Errorf("%s lies at %d in the programs and at %d here", name, m.Offset.Bytes(), at)
				}
			}
		}
		if !found {
			t.Errorf("the programs' thread has no %s", name)
		}
	}
}

// The kernel checks the largest program in few steps: each takes CPU time from those that are watched.
func TestCheckedInFewSteps(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs requires root")
	}
	if _, err := needs.Check(); err != nil {
		t.Skip(err)
	}
	spec, err := loadObject()
	if err != nil {
		t.Fatal(err)
	}
	bpf.Keep(spec, []string{objectProgOnSwitch})
	err = errors.Join(
		spec.Variables[objectVarHierarchies].Set(uint32(1)),
		spec.Variables[objectVarBlaming].Set(true),
		spec.Variables[objectVarLanes].Set(uint32(2)),
	)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{
		Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	const most = 60_000
	log := loaded.Programs[objectProgOnSwitch].VerifierLog
	steps, err := strconv.Atoi(regexp.MustCompile(`processed (\d+) insns`).FindStringSubmatch(log + "processed 0 insns")[1])
	if err != nil || steps > most {
		t.Errorf("%d steps, %v: want at most %d\n%s", steps, err, most, log)
	}
	t.Logf("%d steps", steps)
}

// Bursts of a second that each waited a second are added up for thousands of years.
func TestDelaysDoNotWrap(t *testing.T) {
	const century = 100 * 365 * 24 * 3600
	var g Group
	g.Counts = kernelCounts{Delays: century * 1e18 >> 40, DelaysRest: 1 << 20}.counts()
	g.Burst.sum = century * 1e9
	if got := g.Delay().Round(time.Microsecond); got != time.Second {
		t.Errorf("each second waited %v, want 1 s", got)
	}
}

func TestTargetsThatAreNone(t *testing.T) {
	if _, err := needs.Check(); err != nil {
		t.Skip(err)
	}
	for _, target := range []Target{{Name: "nothing"}, {Name: "file", Cgroup: "/etc/passwd"}, {Name: "pid", PIDs: []int{-1}}, {Name: "gone", Cgroup: "/sys/fs/cgroup/tare-is-not-here"}} {
		r, err := Start([]Target{target}, Options{})
		if err == nil {
			_, _ = r.Stop()
			t.Errorf("took the target %+v", target)
			continue
		}
		if !strings.Contains(err.Error(), target.Name) {
			t.Errorf("the error does not name the target: %v", err)
		}
	}
}
