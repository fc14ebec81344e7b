package container

import (
	"context"
	"slices"
	"strings"
	"sync"

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
	listens, note := f.reach(ctx, Docker, socket)
	if !listens || note != nil {
		return nil, note
	}
	most := int64(mostReply)
	if users {
		most = mostUsersReply
	}
	c, err := client.New(client.WithHost("unix://"+socket), client.WithDialContext(dial(socket, most)))
	if err != nil {
		return nil, noteOf(Docker, socket, err, f)
	}
	defer c.Close()
	engine, err := f.dialect(ctx, c)
	if err != nil {
		return nil, noteOf(Docker, socket, err, f)
	}
	bounded, cancel := context.WithTimeout(ctx, f.patience)
	defer cancel()
	list, err := c.ContainerList(bounded, client.ContainerListOptions{})
	if err != nil {
		return nil, noteOf(engine, socket, err, f)
	}
	if users {
		list.Items = slices.DeleteFunc(list.Items, func(s container.Summary) bool { return !isID(s.ID) })
	}
	found := make([]*Container, len(list.Items))
	slots := make(chan struct{}, inspections)
	var all sync.WaitGroup
	for i, s := range list.Items {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			found[i] = f.inspect(ctx, c, engine, s)
		})
	}
	all.Wait()
	var containers []Container
	for _, c := range found {
		if c != nil {
			containers = append(containers, *c)
		}
	}
	return containers, noteOf(engine, socket, ctx.Err(), f)
}

// dialect tells whose engine it is: podman's says so among its components.
func (f *Finder) dialect(ctx context.Context, c *client.Client) (Engine, error) {
	ctx, cancel := context.WithTimeout(ctx, f.patience)
	defer cancel()
	v, err := c.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return Docker, err
	}
	if slices.ContainsFunc(v.Components, func(c system.ComponentVersion) bool { return strings.HasPrefix(c.Name, "Podman") }) {
		return Podman, nil
	}
	return Docker, nil
}

// inspect describes one container, nil where it has ended.
func (f *Finder) inspect(ctx context.Context, c *client.Client, engine Engine, s container.Summary) *Container {
	found := &Container{Told: true, Engine: engine, ID: s.ID, Name: short(s.ID), Image: s.Image, ImageID: s.ImageID, Labels: s.Labels}
	if len(s.Names) > 0 {
		// Of several names the others are links, "/web/db".
		found.Name = strings.TrimPrefix(slices.MinFunc(s.Names, func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") }), "/")
	}
	if name, ok := kubernetes(s.Labels); ok {
		found.Engine, found.Name = Kubernetes, name
	}
	ctx, cancel := context.WithTimeout(ctx, f.patience)
	defer cancel()
	answer, err := c.ContainerInspect(ctx, s.ID, client.ContainerInspectOptions{})
	switch {
	case errdefs.IsNotFound(err):
		return nil
	case err != nil || answer.Container.State == nil:
		return found
	case answer.Container.State.Pid == 0:
		return nil
	}
	found.PID = answer.Container.State.Pid
	return found
}
