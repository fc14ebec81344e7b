package k8s

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	eventsapi "github.com/containerd/containerd/api/services/events/v1"
	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	versionapi "github.com/containerd/containerd/api/services/version/v1"
	tasktypes "github.com/containerd/containerd/api/types/task"

	"github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/api/types"
	"github.com/containerd/containerd/v2/pkg/filters"
	"github.com/containerd/typeurl/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"tare/kernel/process"
	"tare/platform"
	"tare/platform/conformance"
	"tare/platform/containerd"
)

// fakeNode is a kubelet with its containerd, which runs nothing: it takes manifests, and reports what
// they report of a program that prints a line and ends with status 3.
type fakeNode struct {
	versionapi.UnimplementedVersionServer
	containersapi.UnimplementedContainersServer
	eventsapi.UnimplementedEventsServer
	t    *testing.T
	dir  string
	deaf atomic.Bool // to manifests

	mu         sync.Mutex
	containers map[string]map[string]string // labels, by id
	running    map[string]bool
	listeners  []chan *types.Envelope
}

func startFake(t *testing.T) (*fakeNode, *Platform, *book) {
	t.Helper()
	f := &fakeNode{t: t, dir: conformance.OpenDir(t), containers: map[string]map[string]string{}, running: map[string]bool{}}
	for _, name := range []string{"manifests", "logs"} {
		if err := os.Mkdir(filepath.Join(f.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	socket, err := net.Listen("unix", filepath.Join(f.dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	versionapi.RegisterVersionServer(server, f)
	containersapi.RegisterContainersServer(server, f)
	tasksapi.RegisterTasksServer(server, tasks{of: f})
	eventsapi.RegisterEventsServer(server, f)
	go server.Serve(socket)
	t.Cleanup(server.Stop)
	go f.work(t.Context())

	self, err := process.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	ledger := &book{}
	p := New(Options{StateDir: t.TempDir(), Ledger: ledger})
	p.node = &node{self, kubeletConfig{
		StaticPods: filepath.Join(f.dir, "manifests"), PodLogs: filepath.Join(f.dir, "logs"), Endpoint: socket.Addr().String(),
	}}
	p.engine = containerd.NewShared(containerd.Options{Address: p.node.Endpoint}, Name, namespace)
	p.feed = newFeed(p.engine)
	if err := p.feed.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "the listener", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.listeners) == 1
	})
	return f, p, ledger
}

func (f *fakeNode) Version(context.Context, *emptypb.Empty) (*versionapi.VersionResponse, error) {
	return &versionapi.VersionResponse{Version: "1.6.20"}, nil
}

func (f *fakeNode) container(id string) *containersapi.Container {
	return &containersapi.Container{ID: id, Labels: f.containers[id], Runtime: &containersapi.Container_Runtime{Name: "io.containerd.runc.v2"}}
}

func (f *fakeNode) Get(_ context.Context, r *containersapi.GetContainerRequest) (*containersapi.GetContainerResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &containersapi.GetContainerResponse{Container: f.container(r.ID)}, nil
}

func (f *fakeNode) List(_ context.Context, r *containersapi.ListContainersRequest) (*containersapi.ListContainersResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	filter, err := filters.ParseAll(r.Filters...)
	if err != nil {
		return nil, err
	}
	answer := &containersapi.ListContainersResponse{}
	for id, labels := range f.containers {
		matches := filter.Match(filters.AdapterFunc(func(path []string) (string, bool) {
			value, ok := labels[strings.Join(path[1:], ".")]
			return value, ok && path[0] == "labels"
		}))
		if matches {
			answer.Containers = append(answer.Containers, f.container(id))
		}
	}
	return answer, nil
}

// tasks has the methods for tasks, of which Get is another than that for containers.
type tasks struct {
	tasksapi.UnimplementedTasksServer
	of *fakeNode
}

func (t tasks) Get(_ context.Context, r *tasksapi.GetRequest) (*tasksapi.GetResponse, error) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	if !t.of.running[r.ContainerID] {
		return nil, status.Error(codes.NotFound, "no task")
	}
	return &tasksapi.GetResponse{Process: &tasktypes.Process{ID: r.ContainerID, Pid: 1, Status: tasktypes.Status_RUNNING}}, nil
}

func (f *fakeNode) Subscribe(r *eventsapi.SubscribeRequest, to eventsapi.Events_SubscribeServer) error {
	filter, err := filters.ParseAll(r.Filters...)
	if err != nil {
		return err
	}
	ch := make(chan *types.Envelope, 100)
	f.mu.Lock()
	f.listeners = append(f.listeners, ch)
	f.mu.Unlock()
	for {
		select {
		case e := <-ch:
			of := filters.AdapterFunc(func(path []string) (string, bool) { return e.Namespace, path[0] == "namespace" })
			if !filter.Match(of) {
				continue
			}
			if err := to.Send(e); err != nil {
				return err
			}
		case <-to.Context().Done():
			return nil
		}
	}
}

func (f *fakeNode) publish(event any) {
	packed, err := typeurl.MarshalAnyToProto(event)
	if err != nil {
		f.t.Error(err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ch := range f.listeners {
		for _, ns := range []string{"moby", namespace} {
			ch <- &types.Envelope{Namespace: ns, Timestamp: timestamppb.Now(), Event: packed}
		}
	}
}

// work takes manifests that come and go, in the manner of a kubelet.
func (f *fakeNode) work(ctx context.Context) {
	pods := map[string]string{} // uid by file
	for ctx.Err() == nil {
		files, _ := filepath.Glob(filepath.Join(f.dir, "manifests", "[^.]*"))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if _, known := pods[file]; known || f.deaf.Load() || err != nil {
				continue
			}
			var pod struct{ Metadata struct{ UID string } }
			if err := json.Unmarshal(text, &pod); err != nil {
				f.t.Error(err)
			}
			pods[file] = pod.Metadata.UID
			f.runPod(pod.Metadata.UID)
		}
		for file, uid := range pods {
			if !slices.Contains(files, file) {
				f.mu.Lock()
				delete(f.running, "s-"+uid)
				f.mu.Unlock()
				delete(pods, file)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
}

func (f *fakeNode) runPod(uid string) {
	logs := filepath.Join(f.dir, "logs", "default_p-node_"+uid, containerName)
	err := os.MkdirAll(logs, 0o755)
	if err != nil {
		f.t.Error(err)
	}
	log, err := os.Create(filepath.Join(logs, "0.log"))
	if err != nil {
		f.t.Error(err)
	}
	defer log.Close()
	sandbox, program := "s-"+uid, "c-"+uid
	for id, kind := range map[string]string{sandbox: "sandbox", program: "container", "other": "container"} {
		f.mu.Lock()
		f.containers[id] = map[string]string{labelUID: uid, labelKind: kind}
		if id == "other" {
			f.containers[id][labelUID] = id
		}
		f.running[id] = id != program
		f.mu.Unlock()
	}
	const gone = 1<<31 - 2 // no process has that id
	f.publish(&events.ContainerCreate{ID: sandbox})
	f.publish(&events.TaskStart{ContainerID: sandbox, Pid: gone})
	f.publish(&events.ContainerCreate{ID: "other"})
	f.publish(&events.TaskStart{ContainerID: "other", Pid: gone})
	f.publish(&events.ContainerCreate{ID: program})
	f.publish(&events.TaskStart{ContainerID: program, Pid: gone})
	f.publish(&events.TaskExit{ContainerID: program, ID: program, Pid: gone, ExitStatus: 3, ExitedAt: timestamppb.Now()})
	f.publish(&events.TaskDelete{ContainerID: program})
	if _, err := log.WriteString(moment + "stdout F over\n"); err != nil {
		f.t.Error(err)
	}
}

// A pod's whole life, on a kubelet that runs nothing.
func TestLife(t *testing.T) {
	img := conformance.Image(t)
	f, p, ledger := startFake(t)
	var out text
	spec := platform.Spec{Name: "p", Image: img, Args: []string{"sh", "-c", "echo over; exit 3"}, Stdout: &out}
	c, err := p.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(p.node.StaticPods)
	if err != nil || len(entries) != 1 || entries[0].Name() != ".tare-p.json" {
		t.Errorf("at rest the kubelet's directory has %v, %v", entries, err)
	}
	if _, err := p.Create(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "tare clean") {
		t.Errorf("the same name again: %v", err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if phases := c.(platform.Phased).Phases(); len(phases) < 4 {
		t.Errorf("phases %v", phases)
	}
	await(t, "its output, before the instance is asked for", func() bool { return out.String() == "over\n" })
	inst, err := c.Instance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := inst.Wait(t.Context()); err != nil || exit.Code != 3 || exit.Elapsed <= 0 || out.String() != "over\n" {
		t.Errorf("%+v, %v, output %q", exit, err, out.String())
	}
	if got := p.feed.sandboxes(); !slices.Equal(got, []string{"s-" + c.ID()}) {
		t.Errorf("sandboxes %v", got)
	}
	if err := inst.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	f.mu.Lock()
	if f.running["s-"+c.ID()] {
		t.Error("stopped, and the sandbox runs")
	}
	f.mu.Unlock()
	if entries, err := os.ReadDir(p.node.StaticPods); err != nil || len(entries) > 0 || len(ledger.open) > 0 {
		t.Errorf("left: %v, %v, in the ledger %v", entries, err, ledger.open)
	}
	if p.feed.close(); p.feed.stop != nil {
		t.Error("closed, and it listens")
	}
}

// What another one removes after a crash: a pod at rest, and one that runs.
func TestRemoveAfterCrash(t *testing.T) {
	img := conformance.Image(t)
	f, p, ledger := startFake(t)
	for _, starts := range []bool{false, true} {
		c, err := p.Create(t.Context(), platform.Spec{Name: "p", Image: img, Args: []string{"true"}})
		if err != nil {
			t.Fatal(err)
		}
		if starts {
			if err := c.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		left := slices.Clone(ledger.open)
		if len(left) != 2 {
			t.Errorf("the ledger has %v, want a directory and a pod", left)
		}
		for _, e := range slices.Backward(left) {
			for range 2 {
				if err := p.Remove(t.Context(), *e); err != nil {
					t.Errorf("%s: %v", e.Kind, err)
				}
			}
		}
		f.mu.Lock()
		if f.running["s-"+c.ID()] {
			t.Error("removed, and the sandbox runs")
		}
		f.mu.Unlock()
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A kubelet that does nothing is named, with what to look at; and nothing is left.
func TestStartIsStuck(t *testing.T) {
	img := conformance.Image(t)
	f, p, ledger := startFake(t)
	f.deaf.Store(true)
	p.engine.Requests().Patience = 50 * time.Millisecond
	_, err := p.Launch(t.Context(), platform.Spec{Name: "p", Image: img, Args: []string{"true"}})
	if err == nil || !strings.Contains(err.Error(), "journalctl -u kubelet") || len(ledger.open) > 0 {
		t.Errorf("%v; the ledger has %v", err, ledger.open)
	}
	for _, spec := range []platform.Spec{
		{Group: "box-1"}, {Data: []string{"/nowhere"}}, {Setting: platform.Setting{CPUSet: "0"}},
		{Edits: platform.Edits{Mounts: []platform.Mount{{Source: "/", Target: "/host"}}}},
	} {
		spec.Name, spec.Image, spec.Args = "p", img, []string{"true"}
		_, err := p.Create(t.Context(), spec)
		unsupported := new(platform.Unsupported)
		if isData := len(spec.Data) > 0; err == nil || errors.As(err, &unsupported) == isData || len(ledger.open) > 0 {
			t.Errorf("%+v: %v", spec, err)
		}
	}
}
