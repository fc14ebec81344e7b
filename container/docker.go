package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
)

// inspections is how many containers an engine is asked about at a time.
const inspections = 8

// askDocker asks an engine that speaks Docker's API what it runs. Of containers
// that it lists and then says nothing about, the process id is 0. At a user's socket replies
// are short, and it is asked of ids alone that engines draw.
func (f *Finder) askDocker(ctx context.Context, socket string, users bool) ([]Container, *Note) {
	named := speaks(socket)
	listens, note := f.reach(ctx, named, socket)
	if !listens || note != nil {
		return nil, note
	}
	most := int64(mostReply)
	if users {
		most = mostUsersReply
	}
	c, err := client.New(client.WithHost("unix://"+socket), client.WithDialContext(dial(socket, most)))
	if err != nil {
		return nil, noteOf(named, socket, err, f)
	}
	defer c.Close()
	engine, err := dialect(ctx, c)
	if err != nil {
		return nil, noteOf(named, socket, err, f)
	}
	list, err := c.ContainerList(ctx, client.ContainerListOptions{})
	if err != nil {
		return nil, noteOf(engine, socket, err, f)
	}
	if users {
		list.Items = slices.DeleteFunc(list.Items, func(s container.Summary) bool { return !isID(s.ID) })
	}
	found, failures := make([]*Container, len(list.Items)), make([]error, len(list.Items))
	slots := make(chan struct{}, inspections)
	var all sync.WaitGroup
	for i, s := range list.Items {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			found[i], failures[i] = inspect(ctx, c, engine, s)
		})
	}
	all.Wait()
	var containers []Container
	for _, c := range found {
		if c != nil {
			containers = append(containers, *c)
		}
	}
	failed := slices.DeleteFunc(failures, func(err error) bool { return err == nil })
	if len(failed) == 0 {
		return containers, nil
	}
	note = noteOf(engine, socket, failed[0], f)
	note.What = fmt.Sprintf("described %d of %d containers; of the others it %s", len(list.Items)-len(failed), len(list.Items), note.What)
	return containers, note
}

// speaks tells whose engine listens at a socket, by its name, for where it does not say so.
func speaks(socket string) Engine {
	if filepath.Base(socket) == "podman.sock" {
		return Podman
	}
	return Docker
}

// tooOld is an engine whose API is older than the client's least.
type tooOld struct{ version string }

func (o *tooOld) Error() string { return "API version " + o.version }

// dialect finds whose engine it is: podman's says so among its components. The error is a
// *tooOld of one that the client cannot ask.
func dialect(ctx context.Context, c *client.Client) (Engine, error) {
	ping, err := c.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	switch {
	case errdefs.IsInvalidArgument(err) && ping.APIVersion != "":
		return Docker, &tooOld{ping.APIVersion}
	case err != nil:
		return Docker, err
	}
	v, err := c.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return Docker, err
	}
	isPodman := func(c system.ComponentVersion) bool { return strings.HasPrefix(c.Name, "Podman") }
	if slices.ContainsFunc(v.Components, isPodman) {
		return Podman, nil
	}
	return Docker, nil
}

// plainName is what engines let a container be called. A user's socket may answer with any name, and one that
// begins with a hyphen is a flag in the commands that tare shows to be copied.
var plainName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// nameOr is a name that an engine reported, if it is such, or else as much of the id as engines show.
func nameOr(name, id string) string {
	if plainName.MatchString(name) {
		return name
	}
	return short(id)
}

// inspect describes one container, nil where it has ended. With an error it is as the list has it.
func inspect(ctx context.Context, c *client.Client, engine Engine, s container.Summary) (*Container, error) {
	found := &Container{
		Told:    true,
		Engine:  engine,
		ID:      s.ID,
		Name:    short(s.ID),
		Image:   s.Image,
		ImageID: s.ImageID,
		Labels:  s.Labels,
	}
	if len(s.Names) > 0 {
		// Of several names the others are links, "/web/db".
		name := strings.TrimPrefix(
			slices.MinFunc(s.Names, func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") }),
			"/",
		)
		found.Name = nameOr(name, s.ID)
	}
	if name, ok := kubernetes(s.Labels); ok {
		found.Engine, found.Name = Kubernetes, name
	}
	answer, err := c.ContainerInspect(ctx, s.ID, client.ContainerInspectOptions{})
	switch {
	case errdefs.IsNotFound(err):
		return nil, nil
	case errdefs.IsInternal(err), errdefs.IsConflict(err):
		return found, nil // it is being made or removed, and its group shows the rest
	case err != nil:
		return found, err
	case answer.Container.State == nil:
		return found, errors.New("a description without a state")
	case answer.Container.State.Pid == 0:
		return nil, nil
	}
	found.PID = answer.Container.State.Pid
	found.Kept = keptOf(&answer.Container)
	return found, nil
}

// checkInterval is that of health checks that name none.
const checkInterval = 30 * time.Second

func keptOf(c *container.InspectResponse) (k Kept) {
	if c.Config != nil && c.Config.Healthcheck != nil {
		if check := c.Config.Healthcheck; len(check.Test) > 0 && check.Test[0] != "NONE" {
			k.CheckEvery = cmp.Or(check.Interval, checkInterval)
		}
	}
	if c.HostConfig != nil {
		k.LogDriver, k.HasCPUs = c.HostConfig.LogConfig.Type, c.HostConfig.NanoCPUs > 0
		if both := c.HostConfig.MemorySwap; both > 0 {
			k.HasSwapLimit, k.Swap = true, both-c.HostConfig.Memory
		}
	}
	k.Log = c.LogPath
	if c.NetworkSettings != nil {
		for _, n := range c.NetworkSettings.Networks {
			if n != nil && n.IPAddress.IsValid() {
				k.Addresses = append(k.Addresses, n.IPAddress.String())
			}
		}
	}
	return k
}
