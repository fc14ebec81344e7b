package docker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/swarm"
	"github.com/moby/moby/api/types/system"

	"tare/platform"
)

const fakeManager = `{"OSType":"linux","CgroupDriver":"cgroupfs","DefaultRuntime":"runc","Swarm":{"NodeID":"node1","LocalNodeState":"active","ControlAvailable":true}}`

// fakeSwarm answers as the manager of a swarm of one, whose tasks do what a test
// says; the rest is the fake engine's.
type fakeSwarm struct {
	*fakeEngine
	platform *Swarm
	ledger   *notebook

	mu      sync.Mutex
	spec    *swarm.ServiceSpec // of the service that exists
	removed bool               // whether a service was
	task    swarm.TaskStatus   // of its task
	happens []string           // to the task's container, once the service is there
	created chan struct{}      // closed when it is
}

func newFakeSwarm(t *testing.T, about string) *fakeSwarm {
	t.Helper()
	f := &fakeSwarm{created: make(chan struct{})}
	engine, p, ledger := newFakeEngine(t, map[string]func(http.ResponseWriter, *http.Request){stepInfo: info(about)})
	f.fakeEngine, f.ledger = engine, ledger
	p.name = NameSwarm
	f.platform = &Swarm{p}
	engine.Config.Handler = http.HandlerFunc(f.serve)
	return f
}

func (f *fakeSwarm) serve(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	switch {
	case strings.HasSuffix(path, "/events"):
		w.Header().Set("Content-Type", "application/json")
		w.(http.Flusher).Flush()
		select {
		case <-f.created:
		case <-r.Context().Done():
			return
		}
		for _, action := range f.happens {
			fmt.Fprintf(w, `{"Type":"container","Action":%q,"Actor":{"ID":%q,"Attributes":{"exitCode":"3"}},"timeNano":%d}`+"\n", action, f.id, time.Now().Add(time.Minute).UnixNano()) // no attachment is later
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	case strings.HasSuffix(path, "/services/create"):
		body, _ := io.ReadAll(r.Body)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.spec = new(swarm.ServiceSpec)
		if err := json.Unmarshal(body, f.spec); err != nil {
			refuse(http.StatusBadRequest, err.Error())(w, r)
			return
		}
		f.fakeEngine.mu.Lock()
		f.mark = f.spec.Labels[labelLedger] // the container comes with the service
		f.fakeEngine.mu.Unlock()
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"ID":"service1"}`)
		close(f.created)
	case strings.Contains(path, "/services/"):
		f.mu.Lock()
		defer f.mu.Unlock()
		switch {
		case f.spec == nil:
			refuse(http.StatusNotFound, "no such service")(w, r)
		case r.Method == http.MethodDelete:
			f.spec, f.removed = nil, true
		default:
			_ = json.NewEncoder(w).Encode(swarm.Service{ID: "service1", Spec: *f.spec})
		}
	case strings.HasSuffix(path, "/tasks"):
		f.mu.Lock()
		defer f.mu.Unlock()
		tasks := []swarm.Task{{ID: "another's", ServiceID: "service2", Status: swarm.TaskStatus{State: swarm.TaskStateFailed, Err: "not ours"}}}
		if f.spec != nil {
			tasks = append(tasks, swarm.Task{ID: "task1", ServiceID: "service1", Status: f.task})
		}
		_ = json.NewEncoder(w).Encode(tasks)
	case strings.HasSuffix(path, "/containers/json"):
		fmt.Fprint(w, `[]`)
	case strings.Contains(path, "/images/"):
		fmt.Fprint(w, `{"Id":"sha256:`+strings.Repeat("ab", 32)+`"}`)
	default:
		f.fakeEngine.ServeHTTP(w, r)
	}
}

func TestFakeSwarmLaunches(t *testing.T) {
	f := newFakeSwarm(t, fakeManager)
	f.happens = []string{"create", "attach", "start", "die"}
	if err := f.platform.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	var stdout strings.Builder
	spec := fakeSpec(t)
	spec.Stdout = &stdout
	inst, err := f.platform.Launch(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, inst); exit.Code != 3 || exit.Elapsed <= 0 || stdout.String() != "hello" {
		t.Errorf("%+v, output %q", exit, stdout.String())
	}
	if open := f.ledger.open(); len(open) != 1 || open[0].Kind != kindService || open[0].Platform != NameSwarm {
		t.Errorf("in the ledger: %v, want the service", open)
	}
	f.fakeEngine.mu.Lock()
	f.mark = "" // the container goes with the service
	f.fakeEngine.mu.Unlock()
	if err := inst.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if left := f.ledger.open(); len(left) > 0 || !f.removed {
		t.Errorf("left in the ledger: %v; service removed: %v", left, f.removed)
	}
}

// A task that never runs makes no event; what the swarm says of it is reported.
func TestSwarmTaskThatFails(t *testing.T) {
	for state, task := range map[string]swarm.TaskStatus{
		"rejected": {State: swarm.TaskStateRejected, Err: "invalid mount config\nfor type \"bind\""},
		"failed":   {State: swarm.TaskStateFailed, Err: "starting container failed: exec: \"true\": not found"},
		"pending":  {State: swarm.TaskStatePending, Message: "no suitable node (insufficient resources on 1 node)"},
	} {
		t.Run(state, func(t *testing.T) {
			f := newFakeSwarm(t, fakeManager)
			f.task = task
			_, err := f.platform.Launch(t.Context(), fakeSpec(t))
			want := oneLine(errors.New(task.Err + task.Message))
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "start true") {
				t.Errorf("Launch: %v, want what failed and %q", err, want)
			}
			if left := f.ledger.open(); len(left) > 0 || !f.removed {
				t.Errorf("left in the ledger: %v; service removed: %v", left, f.removed)
			}
		})
	}
}

// A container that was started before it was attached to is not the last word:
// nothing of its output is handed on, and the service is made anew.
func TestSwarmAttachesLate(t *testing.T) {
	f := newFakeSwarm(t, fakeManager)
	f.happens = []string{"start"} // after which nobody knows when it was made
	spec := fakeSpec(t)
	var stdout strings.Builder
	spec.Stdout = &stdout
	i := newInstance(f.platform.engine, spec, platform.Process{}, &system.Info{})
	i.id = f.id
	a, err := i.attachToTask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.settle(i, a.at.Add(-time.Millisecond)); !errors.Is(err, errLate) {
		t.Errorf("started before: %v, want errLate", err)
	}
	if stdout.Len() > 0 || i.Output != nil {
		t.Errorf("the output of one that was late is handed on: %q", stdout.String())
	}
	if a, err = i.attachToTask(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.settle(i, a.at.Add(time.Millisecond)); err != nil {
		t.Errorf("started after: %v", err)
	}
	<-i.Output.Done()
	i.HangUp()
	if stdout.String() != "hello" {
		t.Errorf("output %q", stdout.String())
	}
}

func TestCheckWantsAManager(t *testing.T) {
	for about, mend := range map[string]string{
		fakeManager: "",
		`{"OSType":"linux","Swarm":{"LocalNodeState":"inactive"}}`: "docker swarm init",
		`{"OSType":"linux"}`: "docker swarm init",
		`{"OSType":"linux","Swarm":{"LocalNodeState":"locked"}}`:  "docker swarm unlock",
		`{"OSType":"linux","Swarm":{"LocalNodeState":"pending"}}`: "docker swarm init",
		`{"OSType":"linux","Swarm":{"LocalNodeState":"active"}}`:  "docker node promote",
	} {
		f := newFakeSwarm(t, about)
		err := f.platform.Check(t.Context())
		missing := new(platform.Missing)
		if mend == "" && err != nil || mend != "" && (!errors.As(err, &missing) || !strings.Contains(missing.Mend, mend)) {
			t.Errorf("%s: %v, want %q", about, err, mend)
		}
	}
}

func TestOlder(t *testing.T) {
	for version, want := range map[string]bool{"1.40": true, "1.41": false, "1.9": true, "1.100": false, "2.0": false, "0.99": true, "": false, "next": false} {
		if got := older(version, ulimitsSince); got != want {
			t.Errorf("%q is older: %v", version, got)
		}
	}
}

// A service asks for what the container of the same spec would have, of this
// node, once.
func TestServiceSpecification(t *testing.T) {
	spec := fakeSpec(t)
	spec.Env = []string{"A={{.Node.ID}}", "HOME=/elsewhere"}
	spec.Dir = "/srv"
	spec.Setting = platform.Setting{CPUs: 0.5, Memory: 64 << 20, Network: platform.NetworkNAT, LogDriver: "local"}
	spec.Ports = []int{80}
	spec.User = "7:8"
	process, err := spec.Process()
	if err != nil {
		t.Fatal(err)
	}
	process.User.Groups = append(process.User.Groups, 9)
	i := newInstance(New(Options{}), spec, process, &system.Info{Swarm: swarm.Info{NodeID: "node1"}})
	mounts := []mount.Mount{{Type: mount.TypeTmpfs, Target: "/data"}}
	s, err := i.service("sha256:abc", mounts)
	if err != nil {
		t.Fatal(err)
	}
	task, program := s.TaskTemplate, s.TaskTemplate.ContainerSpec
	switch {
	case *s.Mode.Replicated.Replicas != 1 || task.RestartPolicy.Condition != swarm.RestartPolicyConditionNone:
		t.Errorf("%+v under %+v, want one that is not started again", s.Mode, task.RestartPolicy)
	case !slices.Equal(task.Placement.Constraints, []string{"node.id==node1"}):
		t.Errorf("placed by %v", task.Placement.Constraints)
	case task.Resources.Limits.NanoCPUs != 5e8 || task.Resources.Limits.MemoryBytes != 64<<20 || task.Resources.Reservations != nil:
		t.Errorf("resources %+v", task.Resources)
	case program.Image != "sha256:abc" || !slices.Equal(program.Command, spec.Args) || len(program.Args) > 0 || program.Dir != "/srv" || program.User != "7:8" || !slices.Equal(program.Groups, []string{"9"}):
		t.Errorf("runs %v %v of %s in %s as %s %v", program.Command, program.Args, program.Image, program.Dir, program.User, program.Groups)
	case !slices.Contains(program.Env, `A={{"{{"}}.Node.ID}}`) || !slices.Contains(program.Env, "HOME=/elsewhere"):
		t.Errorf("environment %q", program.Env)
	case program.Labels[labelLedger] != i.mark || s.Labels[labelLedger] != i.mark || s.Name != i.Container:
		t.Errorf("labels %v and %v of %s", s.Labels, program.Labels, s.Name)
	case len(program.Mounts) != 1 || task.LogDriver.Name != "local" || len(task.Networks) != 0:
		t.Errorf("mounts %v, log %v, networks %v", program.Mounts, task.LogDriver, task.Networks)
	case len(s.EndpointSpec.Ports) != 1 || s.EndpointSpec.Ports[0].TargetPort != 80 || s.EndpointSpec.Ports[0].PublishMode != swarm.PortConfigPublishModeIngress:
		t.Errorf("ports %+v", s.EndpointSpec)
	}
	for network, want := range map[platform.Network]string{"": "host", platform.NetworkHost: "host", platform.NetworkBridge: "bridge"} {
		i.Spec.Setting = platform.Setting{Network: network}
		s, err := i.service("sha256:abc", nil)
		if err != nil || len(s.TaskTemplate.Networks) != 1 || s.TaskTemplate.Networks[0].Target != want || s.EndpointSpec != nil || s.TaskTemplate.Resources != nil {
			t.Errorf("network %q: %+v, %v", network, s, err)
		}
	}
}

func TestPublishedThroughTheMesh(t *testing.T) {
	at := publishedAt(netip.MustParseAddr("172.18.0.1"), []swarm.PortConfig{{TargetPort: 80, PublishedPort: 30000}, {TargetPort: 81}})
	if len(at) != 1 || at[80] != "172.18.0.1:30000" {
		t.Errorf("%v", at)
	}
}

// An engine that has left its swarm has no service to remove, and no reason to
// keep it in the ledger.
func TestRemoveAfterTheSwarmIsLeft(t *testing.T) {
	f := newFakeSwarm(t, `{"OSType":"linux","Swarm":{"LocalNodeState":"inactive"}}`)
	inner := f.Config.Handler
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/services/") {
			refuse(http.StatusServiceUnavailable, "This node is not a swarm manager.")(w, r)
			return
		}
		inner.ServeHTTP(w, r)
	})
	entry := platform.Entry{Platform: NameSwarm, Kind: kindService, ID: "tare-fake", Attrs: map[string]string{labelLedger: "a-mark"}}
	if err := f.platform.Remove(t.Context(), entry); err != nil {
		t.Error(err)
	}
}

// A service of the name that is another's is left alone.
func TestRemoveSparesAnothersService(t *testing.T) {
	f := newFakeSwarm(t, fakeManager)
	f.spec = &swarm.ServiceSpec{Annotations: swarm.Annotations{Name: "tare-fake", Labels: map[string]string{labelLedger: "another"}}}
	entry := platform.Entry{Platform: NameSwarm, Kind: kindService, ID: "tare-fake", Attrs: map[string]string{labelLedger: "a-mark"}}
	if err := f.platform.Remove(t.Context(), entry); err != nil || f.removed {
		t.Errorf("removed: %v, %v", f.removed, err)
	}
}
