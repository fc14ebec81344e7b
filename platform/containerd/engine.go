package containerd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"tare/kernel/accounting"
	"tare/kernel/process"
	"tare/kernel/procfs"
)

// shimCommand is how the kernel names a shim's process: it cuts names at 15 bytes.
const shimCommand = "containerd-shim"

// EnginePIDs lists containerd's own processes, at best: the daemon, and the
// shims of our containers. Their CPU time is caused by us where no other user
// of containerd is active.
func (p *Platform) EnginePIDs(ctx context.Context) []int {
	var pids []int
	if daemon, err := p.daemon(ctx); err == nil && daemon != 0 {
		pids = append(pids, daemon)
	}
	if ctx.Err() != nil {
		return nil
	}
	all, err := accounting.Take("/proc")
	if err != nil {
		return pids
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(slices.Values(append(pids, shims(all, namespace, func(id string) bool {
		_, ours := p.live[id]
		// A shim that has ended and waits to be reaped has no arguments any more,
		// and holds all that its container used. It is one of the moment: ours,
		// where we have containers.
		return ours || id == "" && len(p.live) > 0
	})...)))
}

// Serving lists containerd and the shim of a container that others have made in the namespace.
func (p *Platform) Serving(ctx context.Context, id string) ([]int, error) {
	daemon, err := p.daemon(ctx)
	if err != nil {
		return nil, err
	}
	all, err := accounting.Take("/proc")
	return append(shims(all, p.namespace, func(other string) bool { return other == id }), daemon), err
}

// shims lists those shims among the host's processes that serve a container of
// the namespace with such an id, or with none where they have ended; and those
// that are about to start one.
func shims(all accounting.Snapshot, namespace string, of func(id string) bool) []int {
	var pids []int
	for pid, running := range all.Processes {
		if running.Command != shimCommand {
			continue
		}
		process := procfs.Host.Process(pid)
		args, err := process.Args()
		if err != nil || !process.Runs(0, []string{shimCommand}) {
			continue // it ended meanwhile, or only has a shim's name
		}
		if id, ok := shimServes(args, namespace); (ok || len(args) == 0) && of(id) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// shimServes reads a shim's arguments: "-namespace tare -id redis-1 -address ...".
func shimServes(args []string, namespace string) (id string, ours bool) {
	value := func(flag string) string {
		if at := slices.Index(args, flag); at >= 0 && at+1 < len(args) {
			return args[at+1]
		}
		return ""
	}
	id = value("-id")
	return id, id != "" && value("-namespace") == namespace
}

// daemon is the process that listens at containerd's socket; 0 where it is none
// of this process namespace. containerd 1.6 does not tell it itself.
func (p *Platform) daemon(ctx context.Context) (pid int, err error) {
	if err := p.connect(ctx); err != nil {
		return 0, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", p.address)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("containerd's %s is no Unix socket", p.address)
	}
	return process.Peer(socket)
}

// enter counts a container in, leave out.
func (p *Platform) enter(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live[id] = struct{}{}
}

func (p *Platform) leave(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.live, id)
}
