package container

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
)

// crioGroup begins the name of a group that CRI-O made for a container.
const crioGroup = "crio-"

// askCRIO asks CRI-O about containers whose groups it named. Its HTTP interface describes a
// container by its id (GET /containers/ID), and lists none.
func (f *Finder) askCRIO(ctx context.Context, socket string, groups []group) ([]reported, *Note) {
	var ids []string
	for _, g := range groups {
		if strings.HasPrefix(path.Base(g.owner.Path), crioGroup) {
			ids = append(ids, g.owner.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.patience)
	defer cancel()
	listens, note := f.reach(ctx, CRIO, socket)
	if !listens || note != nil {
		return nil, note
	}
	transport := &http.Transport{DialContext: dial(socket, mostReply), DisableCompression: true}
	defer transport.CloseIdleConnections()
	var mu sync.Mutex
	var found []reported
	var failed error
	slots := make(chan struct{}, inspections)
	var all sync.WaitGroup
	for _, id := range ids {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			c, isThere, err := inspectCRIO(ctx, &http.Client{Transport: transport}, id)
			mu.Lock()
			defer mu.Unlock()
			failed = cmp.Or(failed, err)
			if isThere {
				found = append(found, reported{c, false})
			}
		})
	}
	all.Wait()
	return found, noteOf(CRIO, socket, failed, f)
}

// inspectCRIO describes one container; it is not there where CRI-O does not know it.
func inspectCRIO(ctx context.Context, client *http.Client, id string) (c Container, isThere bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://crio/containers/"+id, nil)
	if err != nil {
		return c, false, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return c, false, err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusNotFound:
		return c, false, nil
	case http.StatusOK:
	default:
		return c, false, fmt.Errorf("HTTP status %s", answer.Status)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return c, false, err
	}
	c, err = parseCRIO(body, id)
	return c, err == nil, err
}

// parseCRIO reads what CRI-O answers of a container (ContainerInfo in its pkg/types).
func parseCRIO(body []byte, id string) (Container, error) {
	var is struct {
		Name     string            `json:"name"`
		PID      int               `json:"pid"`
		Image    string            `json:"image"`
		ImageRef string            `json:"image_ref"`
		Labels   map[string]string `json:"labels"`
	}
	if err := json.Unmarshal(body, &is); err != nil {
		return Container{}, fmt.Errorf("container %s: %w", short(id), err)
	}
	if is.PID < 0 {
		return Container{}, fmt.Errorf("container %s: process %d", short(id), is.PID)
	}
	name, ok := kubernetes(is.Labels)
	if !ok {
		name = nameOr(is.Name, id)
	}
	return Container{
		Told: true, Engine: Kubernetes, ID: id, Name: name,
		Image: is.Image, ImageID: is.ImageRef, Labels: is.Labels, PID: is.PID,
	}, nil
}
