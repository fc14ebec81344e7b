package container

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tare/kernel/cgroup"
	"tare/kernel/procfs"
)

// host is a host's control groups and processes, written to a directory.
type host struct {
	layout cgroup.Layout
	proc   procfs.FS
}

// The hierarchies of hosts, as the kernel orders them.
var (
	unified = []cgroup.Hierarchy{{Version: 2, Root: "/", Controllers: []string{"cpu", "memory"}}}
	legacy  = []cgroup.Hierarchy{
		{Version: 1, Root: "/", Controllers: []string{"cpu", "cpuacct"}},
		{Version: 1, Root: "/", Controllers: []string{"memory"}},
		{Version: 1, Root: "/", Name: "systemd"},
	}
)

// hybrid is version 2 without controllers beside version 1.
var hybrid = []cgroup.Hierarchy{{Version: 1, Root: "/", Controllers: []string{"memory"}}, {Version: 2, Root: "/"}}

// newHost makes one. groups are lines "PATH PID PID...": the first process of a
// group began the others. Every hierarchy has all groups.
func newHost(t *testing.T, hierarchies []cgroup.Hierarchy, groups string) host {
	t.Helper()
	dir := t.TempDir()
	h := host{proc: procfs.FS(filepath.Join(dir, "proc"))}
	for i, one := range hierarchies {
		one.Mount = filepath.Join(dir, "cgroup", strconv.Itoa(i))
		h.layout.Hierarchies = append(h.layout.Hierarchies, one)
		write(t, filepath.Join(one.Mount, "cgroup.procs"), "1\n2\n")
	}
	for line := range strings.Lines(groups) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		path, pids := words[0], words[1:]
		for _, one := range h.layout.Hierarchies {
			write(t, filepath.Join(one.Mount, path, "cgroup.procs"), strings.Join(pids, "\n")+"\n")
		}
		for i, pid := range pids {
			parent := "1"
			if i > 0 {
				parent = pids[0]
			}
			h.process(t, pid, parent, path)
		}
	}
	return h
}

func (h host) process(t *testing.T, pid, parent, path string) {
	t.Helper()
	write(t, filepath.Join(string(h.proc), pid, "stat"),
		fmt.Sprintf("%s (sleep) S %s 0 0 0 0 0 0 0 0 0 0 0 0 0 20 0 1 0 %s 0 0\n", pid, parent, pid))
	var in strings.Builder
	for i, one := range h.layout.Hierarchies {
		fmt.Fprintf(&in, "%s%s\n", membership(i, one), path)
	}
	write(t, filepath.Join(string(h.proc), pid, "cgroup"), in.String())
}

// membership is what stands before the path in /proc/PID/cgroup.
func membership(i int, h cgroup.Hierarchy) string {
	switch {
	case h.Version == 2:
		return "0::"
	case h.Name != "":
		return fmt.Sprintf("%d:name=%s:", i+1, h.Name)
	}
	return fmt.Sprintf("%d:%s:", i+1, strings.Join(h.Controllers, ","))
}

// at runs a process, begun by the first one, in a group of its own choice in each hierarchy.
func (h host) at(t *testing.T, pid string, paths ...string) {
	t.Helper()
	h.process(t, pid, "1", "/")
	var in strings.Builder
	for i, one := range h.layout.Hierarchies {
		file := filepath.Join(one.Mount, paths[i], "cgroup.procs")
		others, _ := os.ReadFile(file) // there are none in a new group
		write(t, file, string(others)+pid+"\n")
		fmt.Fprintf(&in, "%s%s\n", membership(i, one), paths[i])
	}
	write(t, filepath.Join(string(h.proc), pid, "cgroup"), in.String())
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// finder asks the engines at the sockets, and none that this host has.
func (h host) finder(docker ...string) *Finder {
	if docker == nil {
		docker = []string{}
	}
	return Open(Options{Docker: docker, Containerd: []string{}, CRIO: []string{}, Proc: h.proc, Layout: &h.layout})
}

// answer is what a fake engine says of one container.
type answer struct {
	id, name, image string
	pid             int // 0: it says nothing when it is asked
	labels          map[string]string
}

// engine is a fake one that speaks as much of Docker's API as is asked; its socket.
func engine(t *testing.T, component string, containers ...answer) string {
	t.Helper()
	socket, listener := listen(t)
	mux := http.NewServeMux()
	say := func(pattern string, v any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Api-Version", "1.44")
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(v); err != nil {
				t.Error(err)
			}
		})
	}
	say("/_ping", "OK")
	say("/{v}/version", map[string]any{"Version": "1", "ApiVersion": "1.44", "MinAPIVersion": "1.24", "Components": []map[string]string{{"Name": component, "Version": "1"}}})
	list := []map[string]any{}
	for _, c := range containers {
		list = append(list, map[string]any{
			"Id": c.id, "Names": []string{"/other/link", "/" + c.name}, "Image": c.image, "ImageID": "sha256:" + c.image, "Labels": c.labels, "State": "running",
		})
		if c.pid != 0 {
			say("/{v}/containers/"+c.id+"/json", map[string]any{"Id": c.id, "State": map[string]any{"Pid": c.pid, "Running": true}})
		} else {
			mux.HandleFunc("/{v}/containers/"+c.id+"/json", func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, `{"message":"its lock is held"}`, http.StatusInternalServerError)
			})
		}
	}
	say("/{v}/containers/json", list)
	server := &http.Server{Handler: mux}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return socket
}

// listen listens at a socket of the test's own. Its name is short: the kernel takes 107 bytes.
func listen(t *testing.T) (string, net.Listener) {
	t.Helper()
	dir, err := os.MkdirTemp("", "tare-container-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	socket := filepath.Join(dir, "engine.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	return socket, l
}
