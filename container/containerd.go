package container

import (
	"context"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/namespaces"
)

// The namespaces of containerd in which others than its own clients lie.
const (
	mobyNamespace       = "moby"
	kubernetesNamespace = "k8s.io"
)

// nerdctlName is the label that holds the name given to nerdctl run.
const nerdctlName = "nerdctl/name"

// askContainerd asks containerd what runs in any of its namespaces.
func (f *Finder) askContainerd(ctx context.Context, socket string) ([]Container, *Note) {
	listens, note := f.reach(ctx, Containerd, socket)
	if !listens || note != nil {
		return nil, note
	}
	c, err := client.New(socket, client.WithTimeout(f.patience))
	if err != nil {
		return nil, noteOf(Containerd, socket, err, f)
	}
	defer c.Close()
	names, err := c.NamespaceService().List(ctx)
	if err != nil {
		return nil, noteOf(Containerd, socket, err, f)
	}
	var found []Container
	for _, name := range names {
		in, err := f.inNamespace(ctx, c, name)
		if err != nil {
			return found, noteOf(Containerd, socket, err, f)
		}
		found = append(found, in...)
	}
	return found, nil
}

// inNamespace lists what runs in one namespace.
func (f *Finder) inNamespace(ctx context.Context, c *client.Client, namespace string) ([]Container, error) {
	ctx = namespaces.WithNamespace(ctx, namespace)
	running, err := c.TaskService().List(ctx, &tasks.ListTasksRequest{})
	if err != nil || len(running.Tasks) == 0 {
		return nil, err
	}
	all, err := c.ContainerService().List(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]containers.Container{}
	for _, one := range all {
		known[one.ID] = one
	}
	digests := map[string]string{}
	var found []Container
	for _, t := range running.Tasks {
		if t.Pid == 0 || t.Status == task.Status_STOPPED || t.Status == task.Status_CREATED {
			continue
		}
		info := known[t.ID]
		one := Container{
			Engine: Containerd, ID: t.ID, Name: nameOr(info.Labels[nerdctlName], t.ID), Image: info.Image,
			Labels: info.Labels, PID: int(t.Pid), Told: namespace != mobyNamespace,
		}
		switch namespace {
		case mobyNamespace:
			one.Engine = Docker // which did not report it itself
		case kubernetesNamespace:
			one.Engine = Kubernetes
		}
		if name, ok := kubernetes(info.Labels); ok {
			one.Name = name
		}
		if _, ok := digests[info.Image]; !ok && info.Image != "" {
			// A container outlives its image's name: then there is no digest.
			if image, err := c.ImageService().Get(ctx, info.Image); err == nil {
				digests[info.Image] = image.Target.Digest.String()
			}
		}
		one.ImageID = digests[info.Image]
		found = append(found, one)
	}
	return found, nil
}
