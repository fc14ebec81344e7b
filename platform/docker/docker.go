// Package docker runs programs through a container engine that speaks Docker's
// Engine API: Docker itself, or podman's service socket.
//
// Three platforms are here: docker itself, docker:rootless ([NewRootless]) and
// docker:swarm ([Swarm]). What follows is of the first; the others say where they
// differ.
//
// A program is launched as `docker run` launches it: create, attach, wait for
// the next exit, start; a container may lie at rest before the start, which is
// the engine's one request and nothing of ours. Nothing is ever pulled: images come from their archive,
// and the ones that were loaded are removed again. What an engine adds of its
// own accord (an init, a restart policy, a health check, environment) is turned
// off or set as everywhere else, so that what is left of the difference is the
// engine.
//
// # What the engine decides
//
//   - Memory: only the limit is set. Where swap is accounted, the engine then
//     allows as much swap again, as `docker run --memory` does.
//   - tmpfs: mounted nosuid, nodev, noexec, mode 1777, as by `docker run --tmpfs`.
//   - podman adds TERM and container=podman to the environment, and has no
//     userland proxy: bridge:proxy is refused there.
//   - Volumes that the image itself declares become anonymous volumes at those
//     directories; they go with the container.
//
// # Which way a published port takes
//
// A port published by Docker has two ways in. Docker's rule in the nat table
//
//	-A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER
//
// rewrites (DNAT) connections to any local address but loopback, so a client
// on the host that dials the bridge's gateway address never meets the proxy,
// and one that dials 127.0.0.1 always does: "bridge:nat" publishes on the
// former and "bridge:proxy" on the latter. The tests hold a connection open
// either way and count the sockets of the docker-proxy process.
//
// Figures come from the engine (exit status, addresses) and from the kernel
// (what is in force, usage); the package computes none.
package docker

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"tare/platform"
	"tare/platform/engine"
)

// The names that select the platforms of this package.
const (
	Name         = "docker"
	NameRootless = "docker:rootless"
	NameSwarm    = "docker:swarm"
)

// Options say which engine, and where to keep what is made beside it.
type Options struct {
	// Host is the engine's address as DOCKER_HOST has it; empty means
	// DOCKER_HOST, or the default socket.
	Host string
	// StateDir holds the directories that are bound into containers.
	StateDir string
	Ledger   platform.Ledger // nil enters things nowhere
}

// Platform is an engine. It implements [platform.Creator].
type Platform struct {
	name      string
	client    *client.Client
	clientErr error // of a malformed Host, or of none to be found; Check returns it
	stateDir  string
	ledger    platform.Ledger
	requests  engine.Requests

	mu     sync.Mutex
	info   *system.Info
	images map[string]func()      // reference to ledger's done, for those that Prepare loaded
	live   map[*instance]struct{} // created, or being so, and not yet stopped
	made   map[string]bool        // names of what this process entered in the ledger, or found
	load   sync.Mutex             // one image at a time: the engine's disk is the bottleneck
}

var _ platform.Creator = (*Platform)(nil)

// New makes the platform. It does not talk to the engine: Check does.
func New(o Options) *Platform { return newPlatform(Name, o) }

func newPlatform(name string, o Options) *Platform {
	p := &Platform{
		name: name,
		// For each engine its own: they run as different users.
		stateDir: filepath.Join(o.StateDir, strings.ReplaceAll(name, ":", "-")),
		ledger:   o.Ledger,
		images:   map[string]func(){},
		live:     map[*instance]struct{}{},
		made:     map[string]bool{},
	}
	p.requests.Patience, p.requests.Brief = engine.UsualPatience, engine.UsualBrief
	p.requests.Ping, p.requests.Engine, p.requests.Explain = p.ping, p.address, p.explain
	if p.ledger == nil {
		p.ledger = unlisted{}
	}
	options := []client.Opt{client.FromEnv}
	if o.Host != "" {
		options = append(options, client.WithHost(o.Host))
	}
	if socket, is := strings.CutPrefix(o.Host, "unix://"); is && name == NameRootless {
		options = append(options, client.WithDialContext(dialBounded(socket)))
	}
	p.client, p.clientErr = client.New(options...)
	if p.clientErr == nil {
		p.clientErr = onThisHost(p.client.DaemonHost())
	}
	return p
}

// unlisted is a ledger that keeps nothing.
type unlisted struct{}

func (unlisted) Add(platform.Entry) (func(), error) { return func() {}, nil }

// onThisHost refuses engines elsewhere: their processes are out of reach of
// the kernel that we read from.
func onThisHost(host string) error {
	u, err := url.Parse(host)
	if err != nil {
		return fmt.Errorf("DOCKER_HOST %q is not an address: %w", host, err)
	}
	switch {
	case u.Scheme == "unix":
		return nil
	case u.Scheme == "tcp" && (u.Hostname() == "127.0.0.1" || u.Hostname() == "::1" || u.Hostname() == "localhost"):
		return nil
	}
	return fmt.Errorf("the engine at %s is on another machine", host)
}

// Name implements [platform.Platform].
func (p *Platform) Name() string { return p.name }

// Check asks whether an engine on this host answers. The error is a
// *platform.Missing.
func (p *Platform) Check(ctx context.Context) error {
	if p.clientErr != nil {
		if missing := new(platform.Missing); errors.As(p.clientErr, &missing) {
			return missing
		}
		if p.name == NameRootless {
			return &platform.Missing{What: p.clientErr.Error(), Mend: "unset " + rootlessHost + ", or give it the socket of a rootless engine (unix:///run/user/1000/docker.sock)"}
		}
		return &platform.Missing{What: p.clientErr.Error(), Mend: "unset DOCKER_HOST, or give it a socket of this host (unix:///var/run/docker.sock)"}
	}
	info, err := p.engine(ctx)
	if err != nil {
		return p.missing(err)
	}
	if info.OSType != "" && info.OSType != "linux" {
		return &platform.Missing{What: "the engine at " + p.client.DaemonHost() + " runs " + info.OSType + " containers", Mend: "point DOCKER_HOST at one that runs Linux containers"}
	}
	if ours, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil && info.KernelVersion != "" {
		if release := strings.TrimSpace(string(ours)); release != info.KernelVersion {
			return &platform.Missing{
				What: fmt.Sprintf("the engine at %s runs on another kernel (%s, here %s)", p.client.DaemonHost(), info.KernelVersion, release),
				Mend: "run tare where the engine runs, or point DOCKER_HOST at an engine of this host",
			}
		}
	}
	return p.checkKind(info)
}

// missing turns the error of a first request into what to do about it.
func (p *Platform) missing(err error) error {
	if missing := new(platform.Missing); errors.As(err, &missing) {
		return missing
	}
	host := p.client.DaemonHost()
	path, local := strings.CutPrefix(host, "unix://")
	install, start, look := "apt-get install docker.io", "systemctl start docker, or dockerd &", "journalctl -u docker"
	if filepath.Base(path) == "podman.sock" {
		install, start, look = "apt-get install podman", "systemctl start podman.socket", "journalctl -u podman"
	}
	if local {
		_, serr := os.Stat(path)
		switch {
		case p.name == NameRootless:
			return &platform.Missing{What: "no rootless Docker engine answers at " + path, Mend: "start it as its user (dockerd-rootless.sh), or name another's socket by " + rootlessHost}
		case errors.Is(serr, os.ErrNotExist):
			mend := fmt.Sprintf("install one (%s) and start it (%s)", install, start)
			if _, perr := os.Stat("/run/podman/podman.sock"); perr == nil {
				mend = "set DOCKER_HOST=unix:///run/podman/podman.sock to use podman's"
			}
			return &platform.Missing{What: "no Docker engine answers at " + path, Mend: mend}
		case strings.Contains(err.Error(), "permission denied"):
			return &platform.Missing{What: "no permission for the Docker engine at " + path, Mend: "run as root, or join the socket's group (usermod -aG docker $USER)"}
		}
		host = path
	}
	if errors.Is(err, platform.ErrGone) || client.IsErrConnectionFailed(err) {
		return &platform.Missing{What: "no Docker engine answers at " + host, Mend: fmt.Sprintf("start it (%s), or look what ails it (%s)", start, look)}
	}
	return &platform.Missing{What: "the Docker engine at " + host + " answers with an error", Mend: err.Error()}
}

// engine asks the engine about itself, once.
func (p *Platform) engine(ctx context.Context) (*system.Info, error) {
	if p.clientErr != nil {
		return nil, p.clientErr
	}
	p.mu.Lock()
	info := p.info
	p.mu.Unlock()
	if info != nil {
		return info, nil
	}
	err := p.introduce(ctx, "ask the engine whether it answers", func(ctx context.Context) error {
		ping, err := p.client.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
		if errdefs.IsInvalidArgument(err) && ping.APIVersion != "" {
			return &platform.Missing{
				What: fmt.Sprintf("the engine at %s speaks version %s of the API, and tare requires %s", p.client.DaemonHost(), ping.APIVersion, client.MinAPIVersion),
				Mend: "update it to Docker Engine 19.03 or podman 3.0",
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	err = p.call(ctx, "ask the engine about itself", func(ctx context.Context) error {
		answer, err := p.client.Info(ctx, client.InfoOptions{})
		if err == nil {
			info = &answer.Info
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.info = info
	p.mu.Unlock()
	return info, nil
}

// Version says what implements the platform: "Docker 20.10.24, containerd
// 1.6.20, runc 1.1.5".
func (p *Platform) Version(ctx context.Context) string {
	if p.clientErr != nil {
		return ""
	}
	var v client.ServerVersionResult
	err := p.introduce(ctx, "ask the engine for its version", func(ctx context.Context) (err error) {
		v, err = p.client.ServerVersion(ctx, client.ServerVersionOptions{})
		return err
	})
	if err != nil {
		return ""
	}
	var parts []string
	for _, c := range v.Components {
		name := c.Name
		switch {
		case name == "Engine":
			name = "Docker"
		case name == "Podman Engine":
			name = "podman"
		case name == "containerd", name == "runc", name == "crun":
		case name == "rootlesskit", name == "slirp4netns": // which newer rootless engines name
		case strings.HasPrefix(name, "OCI Runtime"):
			name = strings.Trim(strings.TrimPrefix(name, "OCI Runtime"), " ()")
		default:
			continue // docker-init and the like take no part
		}
		parts = append(parts, strings.TrimSpace(name+" "+upstream(name, c.Version)))
	}
	if len(parts) == 0 {
		parts = append(parts, strings.TrimSpace("Docker "+upstream("Docker", v.Version)))
	}
	if _, kind, ok := strings.Cut(p.name, ":"); ok {
		parts = append(parts, kind)
	}
	return strings.Join(parts, ", ")
}

// upstream cuts a distribution's suffix, and what a program says besides: "20.10.24+dfsg1" is 20.10.24, and
// "crun version 1.8.1", with more lines, is 1.8.1, as podman has it.
func upstream(name, version string) string {
	version, _, _ = strings.Cut(strings.TrimSpace(version), "\n")
	version = strings.TrimPrefix(version, name+" version ")
	if i := strings.IndexAny(version, "+~"); i > 0 {
		return version[:i]
	}
	return version
}
