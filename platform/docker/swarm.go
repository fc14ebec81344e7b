package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/swarm"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"tare/image"
	"tare/platform"
	"tare/platform/engine"
)

// Swarm is an engine's swarm: each program is a service of one replica, which
// the orchestrator schedules onto this node. What is followed, read back and
// measured is the task's container.
//
// It implements [platform.Platform], and no [platform.Creator]: a service has no
// state between nothing and running. What orchestration takes (scheduling,
// dispatching, the making of the container) is in the instance's Elapsed, which
// begins when the engine is asked for the service, and in nothing else.
//
// tare makes no engine join a swarm, nor leave one.
//
// # What the swarm decides
//
//   - A task's image is named by its id, which no node looks for in a registry.
//   - A task's container is in the engine's own control group, since a service
//     cannot name another's.
//   - The task starts its container by itself, some hundredth of a second after
//     it has made it. Output is attached to in between; where that came too late
//     the service is made anew, as the beginning would be lost. (A log would have
//     it, but not its bytes: it replaces what is no UTF-8.)
//   - Data directories that the image lacks are added to it beforehand, as one
//     more layer: a service has no step between creation and start.
//   - bridge:nat publishes through the routing mesh, on every address of the node.
type Swarm struct {
	engine *Platform
}

var _ platform.Platform = (*Swarm)(nil)

// NewSwarm makes the platform. It does not talk to the engine: Check does.
func NewSwarm(o Options) *Swarm { return &Swarm{newPlatform(NameSwarm, o)} }

// Name implements [platform.Platform].
func (s *Swarm) Name() string { return s.engine.Name() }

// ulimitsSince is the version of the Engine API in which a service can set the
// limits that all of tare's programs run under: Docker 20.10's.
const ulimitsSince = "1.41"

// Check asks whether the engine on this host manages a swarm. The error is a
// *platform.Missing.
func (s *Swarm) Check(ctx context.Context) error {
	s.engine.forget() // a swarm comes and goes
	if err := s.engine.Check(ctx); err != nil {
		return err
	}
	info, err := s.engine.engine(ctx)
	if err != nil {
		return s.engine.missing(err)
	}
	if missing := manages(info); missing != nil {
		return missing
	}
	var ping client.PingResult
	err = s.engine.call(ctx, "ping", func(ctx context.Context) (err error) {
		ping, err = s.engine.client.Ping(ctx, client.PingOptions{})
		return err
	})
	if err != nil {
		return s.engine.missing(err)
	}
	if older(ping.APIVersion, ulimitsSince) {
		return &platform.Missing{
			What: "the engine's API " + ping.APIVersion + " sets no limits of open files for a service",
			Mend: "install Docker 20.10 or newer, whose API is " + ulimitsSince,
		}
	}
	return nil
}

// manages says what is missing of an engine that knows services.
func manages(info *system.Info) *platform.Missing {
	switch state := info.Swarm.LocalNodeState; {
	case state == swarm.LocalNodeStateLocked:
		return &platform.Missing{What: "the engine's swarm is locked", Mend: "docker swarm unlock"}
	case state != swarm.LocalNodeStateActive:
		why := "the engine is in no swarm"
		if state != "" && state != swarm.LocalNodeStateInactive {
			why = "the engine's swarm is not active, but " + string(state)
		}
		return &platform.Missing{What: why, Mend: "docker swarm init"}
	case !info.Swarm.ControlAvailable:
		return &platform.Missing{What: "the engine is a worker of its swarm, which takes no services", Mend: "docker node promote it, on a manager, or run tare on a manager"}
	}
	return nil
}

// older compares versions of the Engine API, "1.41"; one that is unknown is
// not older.
func older(version, than string) bool {
	number := func(v string) (major, minor int, ok bool) {
		one, two, _ := strings.Cut(v, ".")
		major, err := strconv.Atoi(one)
		minor, err2 := strconv.Atoi(two)
		return major, minor, err == nil && err2 == nil
	}
	major, minor, ok := number(version)
	wantMajor, wantMinor, _ := number(than)
	return ok && (major < wantMajor || major == wantMajor && minor < wantMinor)
}

// forget asks the engine about itself anew, the next time.
func (p *Platform) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info = nil
}

// ipvs is there where the kernel has what the routing mesh balances by.
const ipvs = "/proc/net/ip_vs"

// Supports implements [platform.Platform]: a service's specification has fewer
// words than a container's.
func (s *Swarm) Supports(setting platform.Setting) error {
	if err := s.engine.Supports(setting); err != nil {
		return err
	}
	const inService = "a service's specification has no such field; docker has it"
	switch {
	case setting.Normal().CPUPeriod != 0:
		return s.engine.unsupported("cpu-period", "a service's CPU limit is over the period of 100 ms; docker has others")
	case setting.CPUShares != 0:
		return s.engine.unsupported("cpu-shares", inService)
	case setting.CPUSet != "":
		return s.engine.unsupported("cpuset-cpus", inService)
	case setting.Runtime != "":
		return s.engine.unsupported("runtime="+setting.Runtime, inService+"; or make it the engine's \"default-runtime\"")
	case setting.GPU != "" && setting.GPU != platform.NoGPU:
		return s.engine.unsupported("gpu="+setting.GPU, inService)
	case setting.Seccomp == "unconfined":
		return s.engine.unsupported("seccomp=unconfined", inService)
	case setting.LSM == "unconfined":
		return s.engine.unsupported("lsm=unconfined", inService)
	}
	switch setting.Network {
	case platform.NetworkNone:
		return s.engine.unsupported("network=none", "a task can be on the networks host and bridge of its node, and has no other without a link")
	case platform.NetworkProxy:
		return s.engine.unsupported("network=bridge:proxy", "a service's port is published through the routing mesh (bridge:nat)")
	case platform.NetworkNAT:
		if _, err := os.Stat(ipvs); errors.Is(err, os.ErrNotExist) {
			return s.engine.unsupported("network=bridge:nat", "this kernel has no IPVS, by which the routing mesh forwards: modprobe ip_vs, and restart the engine")
		}
	}
	return nil
}

// Prepare implements [platform.Platform].
func (s *Swarm) Prepare(ctx context.Context, img image.Image) error {
	return s.engine.Prepare(ctx, img)
}

// Release implements [platform.Platform].
func (s *Swarm) Release(ctx context.Context) error { return s.engine.Release(ctx) }

// Remove implements [platform.Platform].
func (s *Swarm) Remove(ctx context.Context, e platform.Entry) error { return s.engine.Remove(ctx, e) }

// Version implements [platform.Platform].
func (s *Swarm) Version(ctx context.Context) string { return s.engine.Version(ctx) }

// EnginePIDs lists the engine's own processes, at best, as a platform's does.
func (s *Swarm) EnginePIDs(ctx context.Context) []int { return s.engine.EnginePIDs(ctx) }

// Export gives an image that the engine holds, as [Platform.Export].
func (s *Swarm) Export(ctx context.Context, reference string) (io.ReadCloser, error) {
	return s.engine.Export(ctx, reference)
}

// Launch implements [platform.Platform].
func (s *Swarm) Launch(ctx context.Context, spec platform.Spec) (_ platform.Instance, err error) {
	if err := s.Supports(spec.Setting); err != nil {
		return nil, err
	}
	if spec.Group != "" {
		return nil, s.Groups(ctx)
	}
	if err := spec.RefuseEdits(NameSwarm, "a service's specification has no such field; docker has it"); err != nil {
		return nil, err
	}
	info, err := s.engine.engine(ctx)
	if err != nil {
		return nil, err
	}
	if missing := manages(info); missing != nil {
		return nil, missing
	}
	if err := s.engine.suits(spec.Setting, info); err != nil {
		return nil, err
	}
	program, err := spec.Process()
	if err != nil {
		return nil, err
	}
	for range attempts {
		var inst platform.Instance
		if inst, err = s.engine.launchService(ctx, spec, program, info); !errors.Is(err, errLate) {
			return inst, err
		}
	}
	return nil, err
}

// attempts is how often a service is made whose container cannot be attached to
// in time: the engine answers no attachment while it starts the container, and it
// has sometimes begun to when the making of it is reported.
const attempts = 10

// launchService launches once; the error wraps errLate where only that failed.
func (p *Platform) launchService(
	ctx context.Context,
	spec platform.Spec,
	program platform.Process,
	info *system.Info,
) (_ platform.Instance, err error) {
	i := newInstance(p, spec, program, info)
	p.enter(i)
	defer func() {
		if err != nil {
			// The caller's context may be what ended it; removal has its own time.
			cleared := i.clear(context.WithoutCancel(ctx))
			if cleared != nil && errors.Is(err, errLate) {
				err = cleared // with something left, it is not done again
			} else {
				err = errors.Join(err, cleared)
			}
		}
	}()
	imageID, err := p.furnished(ctx, spec)
	if err != nil {
		return nil, err
	}
	mounts, err := i.layData(ctx)
	if err != nil {
		return nil, err
	}
	service, err := i.service(imageID, mounts)
	if err != nil {
		return nil, err
	}
	if err := i.runService(ctx, service); err != nil {
		return nil, err
	}
	return i.takeTask(ctx)
}

// furnished gives the id of the image that the spec's program is to see, its data
// directories among it.
func (p *Platform) furnished(ctx context.Context, spec platform.Spec) (id string, err error) {
	reference := spec.Image.Reference
	if s := spec.Setting.Storage; s == "" || s == platform.StorageLayer {
		missing, err := missingIn(spec.Image.Root, spec.Data)
		if err != nil {
			return "", err
		}
		if len(missing) > 0 {
			if reference, err = p.withDirectories(ctx, spec.Image, missing); err != nil {
				return "", err
			}
		}
	}
	err = p.call(ctx, "look for image "+reference, func(ctx context.Context) error {
		answer, err := p.client.ImageInspect(ctx, reference)
		id = answer.ID
		return err
	})
	if gone(err) {
		return "", &engine.Error{Doing: "launch", Message: fmt.Sprintf("the engine has no image %s; it was not prepared, or somebody removed it (docker image prune)", reference), Err: err}
	}
	return id, err
}
