package bpf

import (
	"os"
	"os/exec"
	"testing"

	"github.com/cilium/ebpf"

	"tare/kernel/process"
)

func TestFollowedProcesses(t *testing.T) {
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	followed := map[int32]int32{int32(os.Getpid()): 0, int32(ended.Process.Pid): 1}
	all, err := Identify(followed)
	if err != nil || len(all) != 1 || all[0].PID != os.Getpid() || len(followed) != 1 {
		t.Fatalf("identified %v, of which are followed %v, %v: want this process", all, followed, err)
	}
	if os.Geteuid() != 0 {
		t.Skip("making a BPF map requires root")
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 4})
	if err != nil {
		t.Skip(err)
	}
	defer m.Close()
	another := process.Identity{PID: os.Getppid(), StartTicks: 1} // whose id was another's
	for _, id := range append(all, another) {
		if err := m.Put(int32(id.PID), int32(0)); err != nil {
			t.Fatal(err)
		}
	}
	gone := process.Identity{PID: ended.Process.Pid, StartTicks: 1} // which a program has taken out already
	if err := ForgetEnded(m, append(all, another, gone)); err != nil {
		t.Fatal(err)
	}
	var target int32
	if err := m.Lookup(int32(os.Getpid()), &target); err != nil {
		t.Errorf("a process that goes on is forgotten: %v", err)
	}
	if err := m.Lookup(int32(os.Getppid()), &target); err == nil {
		t.Error("a process that has the id of one that ended is followed")
	}
}
