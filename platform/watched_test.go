package platform

import (
	"testing"

	"tare/kernel/cgroup"
)

// places are those of a group, by the paths in a hierarchy with the CPU controller, in
// another of version 1, and in that of version 2 that only tracks.
func places(cpu, memory, tracking string) (g cgroup.Group) {
	for _, p := range []struct {
		mount       string
		path        string
		version     int
		controllers []string
	}{{"/cg/memory", memory, 1, []string{"memory"}}, {"/cg/cpu", cpu, 1, []string{"cpu", "cpuacct"}}, {"/cg/unified", tracking, 2, nil}} {
		if p.path != "" {
			g.Places = append(g.Places, cgroup.Place{Hierarchy: cgroup.Hierarchy{Mount: p.mount, Root: "/", Version: p.version, Controllers: p.controllers}, Path: p.path})
		}
	}
	return g
}

// A group in which tare is too holds tare, and the load that it makes.
func TestTheDirectoryThatAProgramHasToItself(t *testing.T) {
	const session = "/user.slice/user-0.slice/session-3.scope"
	for name, c := range map[string]struct {
		group, ours cgroup.Group
		want        string
	}{
		"a container":                                  {places("/docker/abc", "/docker/abc", "/docker/abc"), places("/", "/", "/"), "/cg/cpu/docker/abc"},
		"a container, under systemd":                   {places("/system.slice/docker-a.scope", "", ""), places(session, session, session), "/cg/cpu/system.slice/docker-a.scope"},
		"bare metal":                                   {places("/", "/", "/tare/run-1"), places("/", "/", "/"), "/cg/unified/tare/run-1"},
		"bare metal, in a session":                     {places(session, session, "/tare/run-1"), places(session, session, session), "/cg/unified/tare/run-1"},
		"bare metal in a box":                          {places("/", "/tare/box-1/idle", "/tare/box-1/idle/run-1"), places("/", "/", "/"), "/cg/unified/tare/box-1/idle/run-1"},
		"bare metal without groups":                    {places(session, session, session), places(session, session, session), ""},
		"above tare":                                   {places("/jobs", "", ""), places("/jobs/tare", "", ""), ""},
		"beside tare, by a name that is as its begins": {places("/jobs/1", "", ""), places("/jobs/10", "", ""), "/cg/cpu/jobs/1"},
		"the parent of all":                            {places(CgroupParent, "", ""), places("/", "", ""), ""},
		"a slice":                                      {places("/user.slice", "", ""), places("/", "", ""), ""},
		"tare's path in another hierarchy":             {places("/a", "/b", ""), places("/b", "/a", ""), "/cg/cpu/a"},
	} {
		if got := ownDirectory(c.group, c.ours); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
