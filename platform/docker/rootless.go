package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/moby/api/types/system"

	"tare/kernel/process"
	"tare/kernel/procfs"
	"tare/platform"
	"tare/terminal"
)

// rootlessHost is the variable that names a rootless engine's address, as
// DOCKER_HOST names the other's: a run may weigh both.
const rootlessHost = "DOCKER_ROOTLESS_HOST"

// NewRootless makes the platform of an engine that runs without privileges, in a
// user namespace. Its address is the options', or DOCKER_ROOTLESS_HOST, or the
// socket in the run-time directory of the user, or of the user who ran sudo. What is at another user's socket
// may tell root anything, so it is asked only where it is named.
//
// Such an engine is another way to run the same programs, and what it cannot do
// is refused by name, or read back as it is:
//
//   - Where it has no control groups ("Cgroup Driver: none", which it has without
//     version 2 and systemd) it limits nothing, and what the program used is
//     the sum of its processes', that of those which have ended in hundredths of a
//     second; once the first has been reaped, it is known to nobody.
//   - Its host network is the namespace in which it lives itself, behind
//     slirp4netns or the like: nothing on the host reaches a port there, nor at a
//     container's own address. bridge:proxy publishes a port, through the
//     engine's port driver and its userland proxy behind that.
//   - What is bound into a container belongs to the ids that the user namespace
//     maps, and lies where its user may look.
func NewRootless(o Options) *Platform {
	if o.Host == "" {
		host, missing := findRootless(os.Getenv, "/run/user", os.Geteuid())
		if missing != nil {
			p := newPlatform(NameRootless, o)
			p.clientErr = missing
			return p
		}
		o.Host = host
	}
	return newPlatform(NameRootless, o)
}

// findRootless looks for a rootless engine's socket. users is where the users'
// run-time directories are, uid the user who asks.
func findRootless(getenv func(string) string, users string, uid int) (host string, _ *platform.Missing) {
	if host := getenv(rootlessHost); host != "" {
		return host, nil
	}
	trusted := []int{uid}
	likely := []string{filepath.Join(users, strconv.Itoa(uid), "docker.sock")}
	if dir := getenv("XDG_RUNTIME_DIR"); dir != "" {
		likely = slices.Insert(likely, 0, filepath.Join(dir, "docker.sock"))
	}
	if sudo, err := strconv.Atoi(getenv("SUDO_UID")); err == nil && sudo > 0 && uid == 0 {
		trusted = append(trusted, sudo)
		likely = append(likely, filepath.Join(users, strconv.Itoa(sudo), "docker.sock"))
	}
	all, _ := filepath.Glob(filepath.Join(users, "*", "docker.sock")) // the pattern is well formed
	var others []string
	for _, socket := range slices.Concat(likely, all) {
		owner, found := socketOwner(socket)
		if found && slices.Contains(trusted, owner) {
			return "unix://" + socket, nil
		}
		if about := socket + " of " + userName(owner); found && !slices.Contains(others, about) {
			others = append(others, about)
		}
	}
	if len(others) == 0 {
		looked := append(likely, filepath.Join(users, "*", "docker.sock"))
		return "", &platform.Missing{
			What: "no rootless Docker engine: there is no " + strings.Join(looked, ", nor "),
			Mend: "start one as an ordinary user (apt-get install uidmap rootlesskit slirp4netns, then dockerd-rootless.sh), or name its socket by " + rootlessHost + "=unix:///...",
		}
	}
	first, _, _ := strings.Cut(others[0], " of ")
	return "", &platform.Missing{
		What: "no rootless Docker engine of this user or of the one who ran sudo; there is " + strings.Join(others, ", ") + ", which is asked only where it is named",
		Mend: "name it, if its user may tell tare what it likes: " + rootlessHost + "=" + terminal.Shell("unix://"+first),
	}
}

// nobody is the owner of a socket that more than one user may have made.
const nobody = -1

// socketOwner is the user whose a socket is: it and its directory, where nobody else can put one. No link
// is followed.
func socketOwner(name string) (uid int, found bool) {
	socket, err := os.Lstat(name)
	if err != nil || socket.Mode()&fs.ModeSocket == 0 {
		return nobody, false
	}
	dir, err := os.Lstat(filepath.Dir(name))
	if err != nil {
		return nobody, false
	}
	of, above := socket.Sys().(*syscall.Stat_t), dir.Sys().(*syscall.Stat_t)
	if of.Uid != above.Uid || !dir.IsDir() || dir.Mode().Perm()&0o022 != 0 {
		return nobody, true
	}
	return int(of.Uid), true
}

// userName names a user for a message.
func userName(uid int) string {
	if uid == nobody {
		return "more than one user"
	}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return fmt.Sprintf("user %s (%d)", u.Username, uid)
	}
	return fmt.Sprintf("user %d", uid)
}

// checkKind refuses an engine of the other kind: its figures would go by the
// wrong name.
func (p *Platform) checkKind(info *system.Info) error {
	rootless := has(info, "rootless")
	switch {
	case rootless && p.name != NameRootless:
		return &platform.Missing{
			What: "the engine at " + p.client.DaemonHost() + " is a rootless one",
			Mend: "weigh it as " + NameRootless + " (" + rootlessHost + "=" + terminal.Shell(p.client.DaemonHost()) + ")",
		}
	case !rootless && p.name == NameRootless:
		return &platform.Missing{
			What: "the engine at " + p.client.DaemonHost() + " is not a rootless one",
			Mend: "weigh it as " + Name + ", or name a rootless one's socket by " + rootlessHost,
		}
	}
	return nil
}

// groupless tells an engine that puts its containers into no control groups.
func groupless(info *system.Info) bool { return info.CgroupDriver == "none" }

// supportsRootless refuses what a rootless engine cannot grant: some of it none
// can, the rest is the engine's own word. One that does not answer is Check's to
// tell of.
func (p *Platform) supportsRootless(s platform.Setting) error {
	if s.GPU != "" && s.GPU != platform.NoGPU {
		return p.unsupported("gpu="+s.GPU, "an engine without root lets a program use no node that its user may not, and its group has no rules for devices; docker has it")
	}
	switch s.Network {
	case platform.NetworkBridge, platform.NetworkNAT:
		return p.unsupported("network="+string(s.Network), "the engine's bridge is in a network namespace of its own, and nothing on the host reaches a container's address; bridge:proxy publishes the port on the host")
	}
	info, err := p.engine(context.Background())
	if err != nil {
		return nil
	}
	for _, limit := range []struct {
		key          string
		asked, given bool
	}{
		{"cpus", s.CPUs != 0, info.CPUCfsQuota},
		{"cpu-period", s.CPUPeriod != 0, info.CPUCfsPeriod},
		{"cpu-shares", s.CPUShares != 0, info.CPUShares},
		{"cpuset-cpus", s.CPUSet != "", info.CPUSet},
		{"memory", s.Memory != 0, info.MemoryLimit},
	} {
		if limit.asked && !limit.given {
			return p.unsupported(limit.key, fmt.Sprintf("the rootless engine has no such control (cgroup driver %s, version %s); it needs cgroup v2, systemd, and the controller delegated to its user",
				info.CgroupDriver, info.CgroupVersion))
		}
	}
	return nil
}

var _ platform.Reaching = (*Platform)(nil)

// Reaches implements [platform.Reaching].
func (p *Platform) Reaches(s platform.Setting) error {
	if p.name != NameRootless {
		return nil
	}
	switch s.Network {
	case "", platform.NetworkHost:
		return p.unsupported("network=host", "the rootless engine's host network is a namespace of its own, and nothing on the host reaches a port there; use bridge:proxy")
	}
	return nil
}

// reachable refuses ports that nothing on the host would reach.
func (p *Platform) reachable(spec platform.Spec) error {
	if len(spec.Ports) == 0 {
		return nil
	}
	return p.Reaches(spec.Setting)
}

// daemon finds the process of a rootless engine, by who listens on its socket.
func (p *Platform) daemon(ctx context.Context) (pid int, err error) {
	socket, local := strings.CutPrefix(p.client.DaemonHost(), "unix://")
	if !local {
		return 0, fmt.Errorf("the engine at %s is not at a Unix socket, which would tell its process", p.client.DaemonHost())
	}
	err = p.call(ctx, "find the process of the engine", func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil {
			return err
		}
		defer conn.Close()
		pid, err = process.Peer(conn.(*net.UnixConn))
		if err == nil && pid == 0 {
			err = errors.New("it is in a process namespace that is not seen from here")
		}
		return err
	})
	return pid, err
}

// kept lists the processes that the container's shim, which is of the user, has started and keeps: its
// first one. It is how a container without a control group is recognised.
func kept(uid int, id string) []int {
	return slices.DeleteFunc(everyProcess(), func(pid int) bool { return !keptBy(uid, pid, id) })
}

// keptBy reports whether the process' parent is a shim of the user that names the container.
func keptBy(uid, pid int, id string) bool {
	stat, err := procfs.Host.Process(pid).Stat()
	if err != nil || stat.Parent <= 1 {
		return false
	}
	parent := procfs.Host.Process(stat.Parent)
	args, err := parent.Args()
	return err == nil && slices.Contains(args, id) && parent.Runs(uid, keepers)
}
