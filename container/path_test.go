package container

import (
	"strings"
	"testing"
)

const (
	hexA = "3f2a9c0de1b44f6788aa0b1c2d3e4f5061728394a5b6c7d8e9f0011223344556"
	hexB = "a0b1c2d3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccddeeff"
	uid  = "0d8a1f3c-5e7b-4c29-9a10-6f2e4b8c7d15"
)

func TestParsePath(t *testing.T) {
	systemdUID := strings.ReplaceAll(uid, "-", "_")
	for _, c := range []struct {
		path   string
		engine Engine // empty: no container's
		id     string
		name   string
		own    string // the container's own group, where it is not the path
		pod    string
	}{
		{path: "/docker/" + hexA, engine: Docker, id: hexA},
		{path: "/system.slice/docker-" + hexA + ".scope", engine: Docker, id: hexA},
		{
			path: "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + hexA + ".scope/init.scope",
			own:  "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + hexA + ".scope", engine: Docker, id: hexA,
		},
		{path: "/docker/" + hexA + "/docker/" + hexB, own: "/docker/" + hexA, engine: Docker, id: hexA}, // the outer one
		{path: "/machine.slice/libpod-" + hexA + ".scope/container", own: "/machine.slice/libpod-" + hexA + ".scope", engine: Podman, id: hexA},
		{path: "/libpod_parent/libpod-" + hexA, engine: Podman, id: hexA},
		{path: "/machine.slice/libpod-conmon-" + hexA + ".scope"},
		{path: "/kubepods/burstable/pod" + uid + "/" + hexA, engine: Kubernetes, id: hexA, pod: uid},
		{path: "/kubepods/pod" + strings.ReplaceAll(uid, "-", "") + "/" + hexA, engine: Kubernetes, id: hexA, pod: strings.ReplaceAll(uid, "-", "")},
		{
			path:   "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + systemdUID + ".slice/cri-containerd-" + hexA + ".scope",
			engine: Kubernetes, id: hexA, pod: uid,
		},
		{path: "/kubepods.slice/kubepods-pod" + systemdUID + ".slice/crio-" + hexA + ".scope", engine: Kubernetes, id: hexA, pod: uid},
		{path: "/kubepods.slice/kubepods-pod" + systemdUID + ".slice/crio-conmon-" + hexA + ".scope"},
		{
			path:   "/system.slice/kubepods-besteffort-pod" + systemdUID + ".slice:cri-containerd:" + hexA,
			engine: Kubernetes, id: hexA, pod: uid,
		},
		{path: "/system.slice:docker:" + hexA, engine: Docker, id: hexA},
		{path: "/kubepods/burstable/pod" + uid},
		{path: "/system.slice/nerdctl-" + hexA + ".scope", engine: Containerd, id: hexA},
		{path: "/default/" + hexA, engine: Cgroup, id: hexA},
		{path: "/tare/redis-1", engine: Cgroup, id: "redis-1", name: "redis-1"},
		{path: "/tare/redis-1.keeper"},
		{path: "/tare"},
		{path: "/somebody/tare/redis-1"},
		{path: "/lxc/web/init.scope", own: "/lxc/web", engine: Cgroup, id: "web", name: "web"},
		{path: "/lxc.payload.web", engine: Cgroup, id: "web", name: "web"},
		{path: "/lxc.monitor.web"},
		{path: "/machine.slice/systemd-nspawn@web.service/payload", own: "/machine.slice/systemd-nspawn@web.service", engine: Cgroup, id: "web", name: "web"},
		{path: "/"},
		{path: ""},
		{path: "/lxc.payload.--all", engine: Cgroup, id: "--all", name: "/lxc.payload.--all"}, // no flag
		{path: "/lxc/pid:1", engine: Cgroup, id: "pid:1", name: "/lxc/pid:1"},                 // no process
		{
			path: "/system.slice/docker-" + hexA + ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" + systemdUID + ".slice/cri-containerd-" + hexB + ".scope",
			own:  "/system.slice/docker-" + hexA + ".scope", engine: Docker, id: hexA, // kind in docker
		},
		{path: "/kubepods-besteffort-pod" + systemdUID + ".slice:cri-containerd:" + hexA, engine: Kubernetes, id: hexA, pod: uid},
		{
			path: "/kubepods.slice/kubepods-pod" + systemdUID + ".slice/crio-" + hexA + ".scope/container",
			own:  "/kubepods.slice/kubepods-pod" + systemdUID + ".slice/crio-" + hexA + ".scope", engine: Kubernetes, id: hexA, pod: uid,
		},
		{path: "/machine.slice/libpod-payload-" + hexA, engine: Podman, id: hexA},
		{
			path: "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + hexA + ".scope/container",
			own:  "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + hexA + ".scope", engine: Podman, id: hexA,
		},
		{path: "/lxc.payload.c1/system.slice/docker-" + hexA + ".scope", own: "/lxc.payload.c1", engine: Cgroup, id: "c1", name: "c1"},
		{path: `/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-firefox\x2dw-2504.scope`},
		{path: "/nomad.slice/share.slice/" + uid + ".web.scope"},
		{path: "/ecs/" + hexA[:32] + "/" + hexA[:32] + "-500000001"},
		{path: `/system.slice/system-backup\x2dprune.slice/backup-prune@data.service`},
		{path: "/my.slice/my-foo.slice/my-foo-group.slice"},
		{path: "/system.slice/docker-" + strings.Repeat("z", 64) + ".scope"},
		{path: "/a b/*?[x]"},
		{path: "/init.scope"},
		{path: "/system.slice/ssh.service"},
		{path: "/user.slice/user-0.slice/session-1.scope"},
		{path: "/docker"},
		{path: "/docker/buildkit"},
		{path: "/docker/" + hexA[:63]},
		{path: "/docker/" + strings.ToUpper(hexA)},
	} {
		got, ok := ParsePath(c.path)
		want := Owner{Engine: c.engine, ID: c.id, Name: c.name, Pod: c.pod, Path: c.own}
		if c.engine == "" {
			want = Owner{}
		} else {
			if want.Name == "" {
				want.Name = c.id[:shortLength]
			}
			if want.Path == "" {
				want.Path = c.path
			}
		}
		if got != want || ok != (c.engine != "") {
			t.Errorf("ParsePath(%q)\n\t= %+v, %t, want\n\t  %+v", c.path, got, ok, want)
		}
	}
}

func FuzzParsePath(f *testing.F) {
	for _, seed := range []string{
		"/docker/" + hexA, "/system.slice/docker-" + hexB + ".scope/x", "/kubepods/pod" + uid + "/" + hexA, "//lxc//web/..",
		"/a:b:" + hexA, "/tare/x", "/systemd-nspawn@.service", "/lxc.payload.",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		o, ok := ParsePath(name)
		if !ok {
			if o != (Owner{}) {
				t.Errorf("no container's, and %+v", o)
			}
			return
		}
		if o.Engine == "" || o.ID == "" || o.Name == "" || o.Name != o.Path && !plainName.MatchString(o.Name) || !strings.HasPrefix(o.Path, "/") {
			t.Errorf("%q belongs to %+v, which lacks something", name, o)
		}
		// The own group is a container's, and the same one's.
		if again, ok := ParsePath(o.Path); !ok || again != o {
			t.Errorf("%q belongs to %+v, whose own group to %+v", name, o, again)
		}
	})
}
