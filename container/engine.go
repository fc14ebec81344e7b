package container

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/moby/client"
)

// The labels that Kubernetes leaves on what it has run, with either engine.
const (
	labelPod       = "io.kubernetes.pod.name"
	labelPodUID    = "io.kubernetes.pod.uid"
	labelNamespace = "io.kubernetes.pod.namespace"
	labelContainer = "io.kubernetes.container.name"
	// sandboxName is what cri-dockerd calls the container that holds a pod's namespaces.
	sandboxName = "POD"
)

// kubernetes names what Kubernetes runs: namespace/pod/container, and
// namespace/pod for the container that holds the pod's namespaces. Labels that
// Kubernetes would not give are somebody else's.
func kubernetes(labels map[string]string) (name string, ok bool) {
	parts := []string{labels[labelNamespace], labels[labelPod]}
	if c := labels[labelContainer]; c != "" && c != sandboxName {
		parts = append(parts, c)
	}
	isOther := func(part string) bool { return !plainName.MatchString(part) }
	return strings.Join(parts, "/"), !slices.ContainsFunc(parts, isOther)
}

// reach reports whether somebody listens at the socket: nil where there is no
// socket, since then there is no engine to ask.
func (f *Finder) reach(ctx context.Context, engine Engine, socket string) (listens bool, note *Note) {
	conn, err := connect(ctx, socket)
	switch {
	case err == nil:
		return true, noteOf(engine, socket, conn.Close(), f)
	case errors.Is(err, syscall.ENOENT):
		return false, nil
	}
	return false, noteOf(engine, socket, err, f)
}

// noteOf says why an engine could not say, and what mends it; nil of no error.
func noteOf(engine Engine, socket string, err error, f *Finder) *Note {
	if err == nil {
		return nil
	}
	n := &Note{Engine: engine, Socket: socket}
	var old *tooOld
	switch {
	case errors.As(err, &old):
		n.What = fmt.Sprintf("speaks version %s of the API, and tare requires %s", old.version, client.MinAPIVersion)
		n.Mend = "update it to Docker Engine 19.03 or podman 3.0; its containers are known by their control groups alone"
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM), strings.Contains(err.Error(), "permission denied"):
		n.What, n.Mend = "lets only others ask", "run as root, or join the socket's group"
	case errors.Is(err, syscall.ECONNREFUSED):
		n.What, n.Mend = "does not run", fmt.Sprintf("start it (systemctl start %s), or remove the socket that it left", engine)
	case errors.Is(err, context.DeadlineExceeded), strings.Contains(err.Error(), "DeadlineExceeded"):
		n.What = fmt.Sprintf("has not answered for %s", f.patience)
		n.Mend = fmt.Sprintf("look what ails it (journalctl -u %s); its containers are known by their control groups alone", engine)
	default:
		n.What = "answers with an error: " + strings.Join(strings.Fields(err.Error()), " ")
		n.Mend = "its containers are known by their control groups alone"
	}
	return n
}
