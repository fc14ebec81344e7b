package container

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Whose a control group is, for names as engines, systemd, schedulers and people give them.
var owners = []struct {
	path, engine, name string // no engine: nobody's that is known
	unprivileged       bool
}{
	{path: "/system.slice/docker-" + hexA + ".scope", engine: "docker"},
	{path: "/docker/" + hexA, engine: "docker"},
	{path: "/docker/" + hexA + "/docker/" + hexB, engine: "docker"},
	// Kubernetes' node in a container.
	{path: "/system.slice/docker-" + hexA + ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod5a.slice/cri-containerd-" + hexB + ".scope", engine: "docker"},
	{path: "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0d8a1f3c_5e7b_4c29_9a10_6f2e4b8c7d15.slice/cri-containerd-" + hexA + ".scope", engine: "kubernetes"},
	{path: "/kubepods-besteffort-pod0d8a1f3c_5e7b_4c29_9a10_6f2e4b8c7d15.slice:cri-containerd:" + hexA, engine: "kubernetes"},
	{path: "/kubepods.slice/kubepods-pod0d8a1f3c_5e7b_4c29_9a10_6f2e4b8c7d15.slice/crio-" + hexA + ".scope/container", engine: "kubernetes"},
	{path: "/kubepods.slice/kubepods-pod0d8a1f3c_5e7b_4c29_9a10_6f2e4b8c7d15.slice/crio-conmon-" + hexA + ".scope"},
	{path: "/machine.slice/libpod-" + hexA + ".scope/container", engine: "podman"},
	{path: "/machine.slice/libpod-payload-" + hexA, engine: "podman"},
	{path: "/machine.slice/libpod-conmon-" + hexA + ".scope"},
	{path: "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + hexA + ".scope/container", engine: "podman", unprivileged: true},
	{path: "/user.slice/user-0.slice/user@0.service/user.slice/libpod-" + hexA + ".scope", engine: "podman"},
	{path: `/user.slice/user-1000.slice/user@1000.service/app.slice/app-org.example.viewer\x2dbeta-7.scope`, unprivileged: true},
	{path: "/nomad.slice/share.slice/0d8a1f3c-5e7b-4c29-9a10-6f2e4b8c7d15.web.scope"},
	{path: "/ecs/" + hexA[:32] + "/" + hexA[:32] + "-7"},
	{path: `/system.slice/system-dump\x2drotate.slice/dump-rotate@var.service`},
	{path: "/a.slice/a-b.slice/a-b-c.slice"},
	{path: "/lxc.payload.c1/system.slice/docker-" + hexA + ".scope", engine: "cgroup", name: "c1"},
	{path: "/system.slice/docker-web.scope"},
	{path: "/a b/*?[x]"},
}

// Each is found as its own, or by its path alone where it is nobody's, whether users may have
// named it among it.
func TestOwners(t *testing.T) {
	for _, hierarchies := range [][]int{{0}, {1}, {0, 1}} {
		for _, c := range owners {
			h := newHost(t, hybrid, "")
			paths := []string{"/", "/"}
			for _, i := range hierarchies {
				paths[i] = c.path
			}
			h.at(t, "100", paths...)
			all, _, err := h.finder().All(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c.engine == "" {
				if len(all) > 0 {
					t.Errorf("%s is found as %q", c.path, names(all))
				}
				one, ok, err := h.finder().Group(c.path)
				if err != nil || !ok || one.Engine != Cgroup || one.Name != c.path || one.PID != 100 || one.Unprivileged != c.unprivileged {
					t.Errorf("by its path %s is %+v, %t, %v", c.path, one, ok, err)
				}
				continue
			}
			name := c.name
			if name == "" {
				name = hexA[:shortLength]
			}
			if got, want := names(all), []string{c.engine + " " + name}; !slices.Equal(got, want) || all[0].Unprivileged != c.unprivileged || len(all[0].Groups) != len(hierarchies) {
				t.Errorf("%s in hierarchies %d is found as %q (%+v), want %q", c.path, hierarchies, got, all, want)
			}
		}
	}
}

// Processes that are found by one name in one hierarchy and by another in the other are of one
// container: of that which holds the others'.
func TestOneContainerInTwoHierarchies(t *testing.T) {
	for _, c := range []struct {
		what      string
		processes [][2]string // where each is, in memory and in version 2
		reported  []answer
		want      []string
		count     int // of the first one's processes
	}{
		{"by both drivers' names", [][2]string{{"/docker/" + hexA, "/system.slice/docker-" + hexA + ".scope"}}, nil, []string{"docker " + hexA[:12]}, 1},
		{"of two ids", [][2]string{{"/docker/" + hexA, "/lxc.payload.web"}}, nil, []string{"cgroup web"}, 1},
		{
			"one inside the other", [][2]string{{"/lxc.payload.web", "/docker/" + hexA}, {"/lxc.payload.web", "/docker/" + hexB}, {"/lxc.payload.web", "/"}},
			nil, []string{"cgroup web"}, 3,
		},
		{
			"an engine reported it", [][2]string{{"/docker/" + hexA, "/lxc.payload.web"}},
			[]answer{{id: hexA, name: "db", image: "redis:7", pid: 100}}, []string{"docker db"}, 1,
		},
		{
			"beside another of the name", [][2]string{{"/docker/" + hexA, "/"}, {"/lxc/db", "/lxc/db"}},
			[]answer{{id: hexA, name: "db", image: "redis:7", pid: 100}}, []string{"docker db", "cgroup db"}, 1,
		},
		{
			"one reported that lies in another", [][2]string{{"/docker/" + hexA, "/"}, {"/docker/" + hexA + "/docker/" + hexB, "/"}},
			[]answer{{id: hexA, name: "node", pid: 100}, {id: hexB, name: "pod", pid: 101}}, []string{"docker node", "docker pod"}, 1,
		},
	} {
		h := newHost(t, hybrid, "")
		for i, paths := range c.processes {
			h.at(t, strconv.Itoa(100+i), paths[:]...)
		}
		var sockets []string
		if c.reported != nil {
			sockets = []string{engine(t, "Engine", c.reported...)}
		}
		all, _, err := h.finder(sockets...).All(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := names(all); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(c.want))) {
			t.Errorf("%s: found %q, want %q", c.what, got, c.want)
			continue
		}
		of := map[int]string{}
		for _, one := range all {
			pids, err := one.processes(h.proc)
			if err != nil {
				t.Fatal(err)
			}
			for _, pid := range pids {
				if other, is := of[pid]; is {
					t.Errorf("%s: process %d is of %s and of %s", c.what, pid, other, one.Name)
				}
				of[pid] = one.Name
			}
			if got := fmt.Sprintf("%s %s", one.Engine, one.Name); got == c.want[0] && len(pids) != c.count {
				t.Errorf("%s: %s has the processes %d, want %d of them", c.what, got, pids, c.count)
			}
		}
	}
}

// A container's groups are those that are its own, by whatever paths; one that it shares is none.
func TestGroups(t *testing.T) {
	h := newHost(t, hybrid, "")
	memory, two := h.layout.Hierarchies[0].Mount, h.layout.Hierarchies[1].Mount
	h.at(t, "100", "/docker/"+hexA, "/system.slice/docker-"+hexA+".scope/init")
	h.at(t, "200", "/docker/"+hexB, "/user.slice/session-1.scope")
	f := h.finder(engine(t, "Engine", answer{id: hexA, name: "both", pid: 100}, answer{id: hexB, name: "one", pid: 200}))
	for name, want := range map[string][]string{
		"both": {filepath.Join(two, "system.slice/docker-"+hexA+".scope"), filepath.Join(memory, "docker", hexA)},
		"one":  {filepath.Join(memory, "docker", hexB)},
	} {
		one, err := f.Find(t.Context(), name)
		if err != nil || !slices.Equal(one.Groups, want) || one.Cgroup != want[0] {
			t.Errorf("%s: %v, in %s, with the groups\n\t%s, want\n\t%s", name, err, one.Cgroup, strings.Join(one.Groups, " "), strings.Join(want, " "))
		}
	}
}
