package docker

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/kernel/accounting"
	"tare/kernel/cgroup"
	"tare/kernel/procfs"
	"tare/platform"
)

// daemons are an engine's processes that serve all of its containers.
var daemons = []string{"dockerd", "containerd", "docker-containe", "podman"}

// keepers are those that serve one container each. The kernel cuts names at 15 bytes.
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
	return p.servants(ctx, all, ours)
}

// servants lists, of all processes, the engine's daemons and those that keep a container
// which one of the words names.
func (p *Platform) servants(ctx context.Context, all accounting.Snapshot, ours []string) []int {
	served := func(int) bool { return true }
	common := daemons
	if p.name == NameRootless {
		common = slices.Concat(daemons, rootlessDaemons)
		served = p.ofUser(ctx)
	}
	var pids []int
	for pid, process := range all.Processes {
		switch {
		case slices.Contains(common, process.Command):
			if served(pid) {
				pids = append(pids, pid)
			}
		case slices.Contains(keepers, process.Command):
			line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
			if err != nil {
				continue // it ended meanwhile
			}
			args := arguments(line)
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

// ofUser recognises the processes of the user of a rootless engine.
func (p *Platform) ofUser(ctx context.Context) func(pid int) bool {
	uid := -1
	if daemon, err := p.daemon(ctx); err == nil {
		if status, err := procfs.Host.Process(daemon).Status(); err == nil {
			uid = status.UID
		}
	}
	return func(pid int) bool {
		status, err := procfs.Host.Process(pid).Status()
		return err == nil && uid > 0 && status.UID == uid
	}
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

// arguments splits a /proc/PID/cmdline.
func arguments(line []byte) []string {
	return strings.FieldsFunc(string(line), func(r rune) bool { return r == 0 })
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
