package docker

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"tare/kernel/accounting"
	"tare/kernel/cgroup"
	"tare/kernel/procfs"
	"tare/platform"
)

// daemons are an engine's processes that serve all of its containers.
var daemons = []string{"dockerd", "containerd", "docker-containe", "podman"}

// keepers are those that serve one container each. Names are cut at 15 bytes, as the kernel does
// with commands.
var keepers = []string{"containerd-shim", "conmon", "docker-proxy", "rootlesskit-doc"}

// rootlessDaemons are what a rootless engine has besides: what made its
// namespaces, with a port driver in it, and what its packets go through.
var rootlessDaemons = []string{"rootlesskit", "exe", "slirp4netns", "vpnkit"}

// EnginePIDs lists the engine's own processes, at best: its daemons, and what
// it keeps beside each of our containers (the shim, the userland proxy). Their
// CPU time is caused by us where no other user of the engine is active.
func (p *Platform) EnginePIDs(ctx context.Context) []int {
	if ctx.Err() != nil {
		return nil
	}
	all, err := accounting.Take("/proc")
	if err != nil {
		return nil
	}
	p.mu.Lock()
	var ours []string
	for i := range p.live {
		ours = append(ours, i.words()...)
	}
	p.mu.Unlock()
	return p.servants(all, ours)
}

// servants lists, of all processes, the engine's daemons and those that keep a container
// which one of the words names.
func (p *Platform) servants(all accounting.Snapshot, ours []string) []int {
	common := daemons
	if p.name == NameRootless {
		common = slices.Concat(daemons, rootlessDaemons)
	}
	uid := p.user()
	var pids []int
	for pid, running := range all.Processes {
		process := procfs.Host.Process(pid)
		switch {
		case slices.Contains(common, running.Command):
			if process.Runs(uid, common) {
				pids = append(pids, pid)
			}
		case slices.Contains(keepers, running.Command):
			args, err := process.Args()
			if err != nil || !process.Runs(uid, keepers) {
				continue // it ended meanwhile, or only has a keeper's name
			}
			// One that has ended and waits to be reaped has no arguments any more, and
			// holds all that its container used. It is one of the moment: ours, where
			// we have containers.
			if len(args) == 0 && len(ours) > 0 {
				pids = append(pids, pid)
				continue
			}
			if slices.ContainsFunc(ours, func(word string) bool { return slices.Contains(args, word) }) {
				pids = append(pids, pid)
			}
		}
	}
	slices.Sort(pids)
	return pids
}

// user is the user of the engine's processes: root, or who owns a rootless engine's socket, -1 where that is nobody.
func (p *Platform) user() int {
	if p.name != NameRootless {
		return 0
	}
	socket, _ := strings.CutPrefix(p.client.DaemonHost(), "unix://")
	info, err := os.Stat(socket)
	if err != nil {
		return -1
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 {
		return int(stat.Uid)
	}
	return -1
}

// words are those of a keeper's command line that name the instance: the
// container's id, or a published port.
func (i *instance) words() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.marks
}

// known adds words that name the instance.
func (i *instance) known(words ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.marks = append(i.marks, words...)
}

// enter counts an instance in.
func (p *Platform) enter(i *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live[i] = struct{}{}
	p.made[i.Container] = true
}

// leave counts it out. With the last one goes the parent cgroup, which the
// engine makes and never removes.
func (p *Platform) leave(i *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.live, i)
	delete(p.made, i.Container)
	if len(p.live) == 0 {
		removeParent()
	}
}

// removeParent removes our parent cgroup; where other programs live in it, the
// kernel refuses, rightly. With systemd's driver it is a slice, which stays as a unit when
// it is empty: systemd stops it once its group is gone, so that nothing in it can be ended.
func removeParent() {
	layout, err := cgroup.Host()
	if err != nil {
		return
	}
	remove := func(path string) (gone bool) {
		for _, place := range layout.At(path).Places {
			gone = os.Remove(place.Dir()) == nil || gone
		}
		return gone
	}
	remove(platform.CgroupParent)
	if slice := platform.CgroupParent + ".slice"; remove(slice) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = exec.CommandContext(ctx, "systemctl", "stop", strings.TrimPrefix(slice, "/")).Run()
	}
}
