package conformance

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"tare/kernel/cgroup"
	"tare/kernel/procfs"
	"tare/platform"
)

// testGroup: programs of one group share its memory and are found below it, in every
// hierarchy that tells of memory, and the group outlives them. Who has no such groups
// says so, before anything starts.
func testGroup(t *testing.T, s suite) {
	if s.has(OtherKernel) {
		t.Skip("the groups are another kernel's: boxes there are tested with the machines")
	}
	st := s.set(t)
	if g, ok := st.platform.(platform.Grouping); ok {
		if refusal := g.Groups(st.ctx); refusal != nil {
			st.refusesGroup(refusal)
			return
		}
	}
	const limit = 64 << 20
	group, box := st.makeBox(limit)

	specs := []platform.Spec{st.spec("sleep", "3600"), st.spec("sleep", "3600")}
	var launched []platform.Instance
	for _, spec := range specs {
		spec.Group = group
		inst, err := st.platform.Launch(st.ctx, spec)
		if err != nil {
			t.Fatalf("Launch in a group: %v", err)
		}
		t.Cleanup(func() { st.stop(inst, spec.Name) })
		launched = append(launched, inst)
	}
	first := st.inGroup(launched[0], box)
	second := st.inGroup(launched[1], box)
	if slices.ContainsFunc(first, func(pid int) bool { return slices.Contains(second, pid) }) {
		t.Errorf("both instances have one process: %v and %v", first, second)
	}
	force, err := launched[0].InForce()
	if err != nil {
		t.Fatal(err)
	}
	if force.Memory != limit {
		t.Errorf("memory in force is %d, want the group's %d", force.Memory, limit)
	}
	if use, err := launched[0].Usage(); err != nil || use.CPU <= 0 {
		t.Errorf("usage in a group: %+v, %v", use, err)
	}

	st.stop(launched[0], specs[0].Name)
	if pids := st.inGroup(launched[1], box); !slices.Equal(pids, second) {
		t.Errorf("with the other one's end its processes went from %v to %v", second, pids)
	}
	st.stop(launched[1], specs[1].Name)
	if !box.Exists() {
		t.Error("the group went with the last program in it")
	}

	// The limit that is met is the group's, and the program's end is reported as that.
	greedy := st.spec("tail", "/dev/zero")
	greedy.Group = group
	if exit, _, _ := st.run(greedy); exit.Code != 137 || !exit.OOMKilled {
		t.Errorf("beyond the group's memory: %+v, want code 137 by the kernel", exit)
	}
	for script, code := range map[string]int{"true": 0, "exit 3": 3} {
		modest := st.shell(script)
		modest.Group = group
		if exit, _, _ := st.run(modest); exit.Code != code || exit.OOMKilled {
			t.Errorf("%s, within the group's memory: %+v", script, exit)
		}
	}
	st.refusesOtherGroups()
}

// refusesGroup: where there are no groups, a launch into one gives what was said of them.
func (st *stage) refusesGroup(refusal error) {
	st.Helper()
	var unsupported *platform.Unsupported
	if !errors.As(refusal, &unsupported) || unsupported.Platform != st.platform.Name() || unsupported.Reason == "" {
		st.Errorf("groups are refused by %v, want a *platform.Unsupported with the reason", refusal)
	}
	spec := st.spec("true")
	spec.Group = "conf/idle"
	inst, err := st.platform.Launch(st.ctx, spec)
	if err == nil {
		st.stop(inst, spec.Name)
	}
	if !errors.As(err, &unsupported) {
		st.Errorf("Launch gives %v, want what Groups refused with", err)
	}
	st.noTraces(spec.Name)
}

// refusesOtherGroups: what leads elsewhere or is not there is refused, and nothing is made.
func (st *stage) refusesOtherGroups() {
	st.Helper()
	for _, group := range []string{"../conf", "/conf", "conf/", "conf-absent-" + st.spec().Name + "/idle"} {
		spec := st.spec("true")
		spec.Group = group
		inst, err := st.platform.Launch(st.ctx, spec)
		if err == nil {
			st.stop(inst, spec.Name)
		}
		if bad := new(platform.BadGroup); !errors.As(err, &bad) || bad.Group != group {
			st.Errorf("group %q: %v, want a *platform.BadGroup", group, err)
		}
		st.noTraces(spec.Name)
	}
}

// makeBox makes a class' group in a box of that much memory, and removes it when the test
// ends.
func (st *stage) makeBox(memory int64) (name string, group cgroup.Group) {
	st.Helper()
	if os.Geteuid() != 0 {
		st.Skip("making cgroups needs root")
	}
	layout, err := cgroup.Host()
	if err != nil {
		st.Skip(err)
	}
	box := platform.Spec{Group: st.spec().Name + "-box"}
	whole := layout.At(box.Parent())
	st.Cleanup(func() {
		if err := whole.Remove(context.WithoutCancel(st.ctx)); err != nil {
			st.Errorf("removing the box: %v", err)
		}
	})
	name = box.Group + "/idle"
	group = whole.Child("idle")
	if err := group.Create("cpu", "cpuset", "memory", "pids", "io"); err != nil {
		st.Fatal(err)
	}
	if err := whole.Apply(cgroup.Limits{Memory: memory}); err != nil {
		st.Fatal(err)
	}
	return name, group
}

// inGroup gives an instance's processes, each of which must be in the group where that has
// a say of memory and where the pressure of a group is read.
func (st *stage) inGroup(inst platform.Instance, group cgroup.Group) []int {
	st.Helper()
	pids, err := inst.Processes()
	if err != nil || len(pids) == 0 {
		st.Fatalf("processes %v, %v", pids, err)
	}
	for _, p := range group.Places {
		if p.Version == 1 && !p.Has("memory") {
			continue
		}
		in, err := cgroup.Group{Places: []cgroup.Place{p}}.Processes()
		if err != nil {
			st.Fatal(err)
		}
		for _, pid := range pids {
			if !slices.Contains(in, pid) && alive(pid) {
				st.Errorf("process %d is not in %s, which has %v", pid, p.Dir(), in)
			}
		}
	}
	return pids
}

func alive(pid int) bool {
	stat, err := procfs.Host.Process(pid).Stat()
	return err == nil && !stat.Zombie()
}
