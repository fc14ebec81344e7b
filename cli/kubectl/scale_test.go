package kubectl

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"tare/cli"
	"tare/nodes"
	"tare/record"
)

// observedTo has this test be kubectl-tare, and write to a file what the program took.
const observedTo = "TARE_TEST_OBSERVED_TO"

func TestMain(m *testing.M) {
	if to := os.Getenv(observedTo); to != "" {
		os.Exit(observed(to))
	}
	os.Exit(m.Run())
}

// program is what kubectl-tare took.
type program struct {
	Goroutines int64 // the most at once
	Memory     int64 // the most at once, bytes
}

// observed runs the program on this process's command line.
func observed(to string) int {
	var most atomic.Int64
	go func() {
		for range time.Tick(10 * time.Millisecond) {
			most.Store(max(most.Load(), int64(runtime.NumGoroutine())))
		}
	}()
	code := Main(os.Args)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	var peak int64
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "VmHWM: %d kB", &peak)
	}
	text, _ := json.Marshal(program{most.Load(), peak << 10})
	if err := os.WriteFile(to, text, 0o600); err != nil {
		panic(err)
	}
	return code
}

// What a study over many nodes asks of the API server, of the network and of who follows it: at most
// one connection and one megabyte a node, and a load that does not grow faster than the nodes.
func TestManyNodes(t *testing.T) {
	count := 20
	if os.Getenv("TARE_TEST_ALL") != "" {
		count = 1000
	}
	c := startMany(t, count)
	home, observation := t.TempDir(), filepath.Join(t.TempDir(), "observed")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "weigh", "redis", "--platform", "bare,docker", "--yes",
		"--nodes", "pool=bench", "--node-image", "tare.local/kubectl-tare@sha256:"+noDigest, "--kubeconfig", c.kubeconfig)
	cmd.Env = append(os.Environ(), "TARE_HOME="+home, observedTo+"="+observation)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	began := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v:\n%.10000s", err, &said)
	}
	took := time.Since(began)
	for _, want := range []string{fmt.Sprintf("%d of %d nodes fetched", count, count), fmt.Sprintf("and %d more\n", count-10)} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("want %q: %.10000s", want, &said)
		}
	}
	var p program
	text, err := os.ReadFile(observation)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	store, err := os.Stat(cli.StorePath(home))
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	requests := 0
	for _, n := range c.requests {
		requests += n
	}
	fetching := c.lastAcknowledgement.Sub(c.firstFetch)
	perNode := func(n int64) int64 { return n / int64(count) }
	t.Logf("%d nodes, %d conditions each, a run of %d bytes", count, conditions, len(c.run))
	t.Logf("requests: %v", c.requests)
	t.Logf("a node: %.2f requests, %d bytes in all, %d bytes of its run, %d bytes of the store",
		float64(requests)/float64(count), perNode(c.bytes.Load()), perNode(c.sent), perNode(store.Size()))
	t.Logf("at once: %d connections, %d to one node, %d goroutines, %d bytes of memory",
		c.mostOpen, c.mostOfNode, p.Goroutines, p.Memory)
	t.Logf("wall %v, of which fetching %v; CPU time %v", took, fetching, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	if c.mostOfNode != 1 {
		t.Errorf("a node had %d connections at once, want 1", c.mostOfNode)
	}
	if most := int64(1_000_000); perNode(c.bytes.Load()) > most {
		t.Errorf("%d bytes a node, want %d at most", perNode(c.bytes.Load()), most)
	}
	for what, most := range map[string]int{
		"GET pods": 2, "GET nodes": 2, "PATCH configmaps": 1, "DELETE configmaps": 1,
		"POST leases": count, "GET leases": count, "DELETE leases": count,
		"GET jobs": count, "PATCH jobs": count, "GET pods exec": 2 * count,
	} {
		if n := c.requests[what]; n == 0 || n > most {
			t.Errorf("%d requests %s, want %d at most", n, what, most)
		}
	}
	if most := int64(512_000_000); p.Memory > most {
		t.Errorf("%d bytes of memory, want %d at most", p.Memory, most)
	}
	if most := 16; c.mostOpen > most {
		t.Errorf("%d connections at once, want %d at most", c.mostOpen, most)
	}
}

// conditions is how many a node's run has.
const conditions = 20

// latencies of the simulated cluster.
const (
	ofRequest  = 5 * time.Millisecond
	ofExec     = 100 * time.Millisecond
	ofPodState = 300 * time.Millisecond
)

// many is an API server of many nodes, as far as kubectl-tare asks it. The pods go through the states of
// real ones. All nodes have measured at the same moment, which is the worst. Each gives the same recorded run.
type many struct {
	*testing.T
	kubeconfig string
	names      []string
	run        []byte // the store of placeholder's run
	bytes      atomic.Int64

	mu                              sync.Mutex
	requests                        map[string]int
	sent                            int64 // of runs
	opened, open, mostOpen          int   // connections
	ofNode                          map[string]int
	mostOfNode                      int
	firstFetch, lastAcknowledgement time.Time

	leases  map[string]*coordinationv1.Lease
	pods    map[string]*corev1.Pod
	measure int // pods that do
	done    chan struct{}
	log     [][]byte      // events of the watch; a resource version is a place in it
	more    chan struct{} // closed when log grows
}

// placeholder has the lengths of the study and of the nodes that are to come.
var placeholder = record.Part{Study: "weigh-00000000-000000-0000", Node: nodeName(0)}

func nodeName(i int) string { return fmt.Sprintf("ip-10-0-0-0.node-%05d.example", i) }

func startMany(t *testing.T, count int) *many {
	t.Helper()
	c := &many{
		T: t, run: recorded(t), requests: map[string]int{}, ofNode: map[string]int{},
		leases: map[string]*coordinationv1.Lease{}, pods: map[string]*corev1.Pod{},
		done: make(chan struct{}), more: make(chan struct{}),
	}
	for i := range count {
		c.names = append(c.names, nodeName(i+1))
	}
	mux := http.NewServeMux()
	for what, serve := range map[string]func(http.ResponseWriter, *http.Request){
		"GET /api/v1/nodes": c.listNodes,
		"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews":          c.allow,
		"PATCH /api/v1/namespaces/default/pods/{name}":                         c.admit,
		"GET /api/v1/namespaces/default/configmaps":                            c.listParents,
		"PATCH /api/v1/namespaces/default/configmaps/{name}":                   c.makeParent,
		"DELETE /api/v1/namespaces/default/configmaps/{name}":                  c.succeed,
		"POST /apis/coordination.k8s.io/v1/namespaces/default/leases":          c.makeLease,
		"GET /apis/coordination.k8s.io/v1/namespaces/default/leases/{name}":    c.readLease,
		"DELETE /apis/coordination.k8s.io/v1/namespaces/default/leases/{name}": c.succeed,
		"GET /apis/batch/v1/namespaces/default/jobs/{name}":                    c.noJob,
		"PATCH /apis/batch/v1/namespaces/default/jobs/{name}":                  c.makeJob,
		"GET /api/v1/namespaces/default/pods":                                  c.listPods,
		"GET /api/v1/namespaces/default/pods/{name}/exec":                      c.exec,
	} {
		mux.HandleFunc(what, c.counted(what, serve))
	}
	server := httptest.NewUnstartedServer(mux)
	server.EnableHTTP2 = true
	server.Listener = counting{server.Listener, &c.bytes}
	server.Config.ConnState = c.connection
	server.StartTLS()
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c.kubeconfig = filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: '" + server.URL +
		"', certificate-authority-data: " + base64.StdEncoding.EncodeToString(authority) +
		"}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: t}}]\n"
	if err := os.WriteFile(c.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// recorded is a store with a run of Redis on this project's host, its conditions twice, as
// placeholder's.
func recorded(t *testing.T) []byte {
	t.Helper()
	packed, err := os.Open("../../docs/pictures/run.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	text, err := io.ReadAll(unzip(t, packed))
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(t.TempDir(), "recorded.db")
	if err := os.WriteFile(source, text, 0o600); err != nil {
		t.Fatal(err)
	}
	from := openStore(t, source)
	run, err := from.Run(record.Latest)
	if err != nil {
		t.Fatal(err)
	}
	const again = ",network=host"
	run.ID, run.Plan.Part = placeholder.ID(), &placeholder
	for _, condition := range slices.Clone(run.Conditions) {
		condition.ID += again
		run.Conditions = append(run.Conditions, condition)
	}
	for _, trial := range slices.Clone(run.Trials) {
		trial.Condition += again
		run.Trials = append(run.Trials, trial)
	}
	if len(run.Conditions) != conditions {
		t.Fatalf("%d conditions, want %d", len(run.Conditions), conditions)
	}
	whole := openStore(t, filepath.Join(t.TempDir(), "whole.db"))
	if err := whole.Import(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if err := whole.Finish(run.ID, record.Complete, run.Reason); err != nil {
		t.Fatal(err)
	}
	var exported bytes.Buffer
	if err := nodes.Export(t.Context(), whole, placeholder, &exported); err != nil {
		t.Fatal(err)
	}
	if _, err := exported.ReadBytes('\n'); err != nil { // the node's time
		t.Fatal(err)
	}
	store, err := io.ReadAll(unzip(t, &exported))
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func unzip(t *testing.T, from io.Reader) io.Reader {
	t.Helper()
	r, err := gzip.NewReader(from)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func openStore(t *testing.T, path string) *record.Store {
	t.Helper()
	store, err := record.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// counting counts the bytes of all connections.
type counting struct {
	net.Listener
	bytes *atomic.Int64
}

func (l counting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return countingConn{conn, l.bytes}, err
}

type countingConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

func (c countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

func (c *many) connection(_ net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.opened++
		c.open++
		c.mostOpen = max(c.mostOpen, c.open)
	case http.StateClosed:
		c.open--
	}
}

// counted counts requests by verb and resource, and takes as long as an API server.
func (c *many) counted(pattern string, serve http.HandlerFunc) http.HandlerFunc {
	verb, path, _ := strings.Cut(pattern, " ")
	_, kind, _ := strings.Cut(strings.TrimSuffix(path, "/{name}"), "v1/")
	kind = strings.TrimPrefix(kind, "namespaces/default/")
	kind = strings.ReplaceAll(kind, "/{name}/", " ")
	return func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.requests[verb+" "+kind]++
		c.mu.Unlock()
		time.Sleep(ofRequest)
		serve(w, r)
	}
}

func (c *many) answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(object); err != nil {
		c.Log(err)
	}
}

// read reads what the client sends: JSON, or protocol buffers, in which it would have the answers, too. In
// JSON they are longer.
func read[T any, O interface {
	*T
	apiruntime.Object
}](c *many, r *http.Request) O {
	object := O(new(T))
	text, err := io.ReadAll(r.Body)
	if err == nil {
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(text, nil, object)
	}
	if err != nil {
		c.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
	return object
}

func (c *many) succeed(w http.ResponseWriter, _ *http.Request) {
	c.answer(w, http.StatusOK, metav1.Status{TypeMeta: kind("v1", "Status"), Status: metav1.StatusSuccess})
}

func kind(version, name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: name}
}

// listNodes gives nodes with as many images as the kubelet reports.
func (c *many) listNodes(w http.ResponseWriter, _ *http.Request) {
	list := corev1.NodeList{TypeMeta: kind("v1", "NodeList")}
	for _, name := range c.names {
		node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{"pool": "bench"}}}
		node.Status.NodeInfo.OperatingSystem, node.Status.NodeInfo.Architecture = "linux", "amd64"
		node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi")}
		for i := range 50 {
			image := fmt.Sprintf("registry.example/namespace/repository-%02d", i)
			node.Status.Images = append(node.Status.Images, corev1.ContainerImage{
				Names: []string{image + "@sha256:" + strings.Repeat("0", 64), image + ":v1.2.3"}, SizeBytes: 123_456_789,
			})
		}
		list.Items = append(list.Items, node)
	}
	c.answer(w, http.StatusOK, list)
}

func (c *many) allow(w http.ResponseWriter, r *http.Request) {
	review := read[authorizationv1.SelfSubjectAccessReview](c, r)
	review.Status.Allowed = true
	c.answer(w, http.StatusCreated, review)
}

func (c *many) admit(w http.ResponseWriter, r *http.Request) {
	c.answer(w, http.StatusOK, read[corev1.Pod](c, r))
}

func (c *many) listParents(w http.ResponseWriter, _ *http.Request) {
	c.answer(w, http.StatusOK, corev1.ConfigMapList{TypeMeta: kind("v1", "ConfigMapList")})
}

func (c *many) makeParent(w http.ResponseWriter, r *http.Request) {
	parent := read[corev1.ConfigMap](c, r)
	parent.UID = "parent"
	c.answer(w, http.StatusOK, parent)
}

func (c *many) makeLease(w http.ResponseWriter, r *http.Request) {
	lease := read[coordinationv1.Lease](c, r)
	lease.TypeMeta, lease.UID = kind("coordination.k8s.io/v1", "Lease"), types.UID(lease.Name)
	c.mu.Lock()
	c.leases[lease.Name] = lease
	c.mu.Unlock()
	c.answer(w, http.StatusCreated, lease)
}

func (c *many) readLease(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer(w, http.StatusOK, c.leases[r.PathValue("name")])
}

func (c *many) noJob(w http.ResponseWriter, _ *http.Request) {
	c.answer(w, http.StatusNotFound, metav1.Status{
		TypeMeta: kind("v1", "Status"), Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
	})
}

// makeJob makes a Job's pod, and has it go through its states.
func (c *many) makeJob(w http.ResponseWriter, r *http.Request) {
	job := read[batchv1.Job](c, r)
	c.answer(w, http.StatusOK, job)
	pod := &corev1.Pod{
		TypeMeta: kind("v1", "Pod"), ObjectMeta: job.Spec.Template.ObjectMeta, Spec: job.Spec.Template.Spec,
	}
	pod.Name, pod.Namespace, pod.UID = job.Name+"-x7k2q", "default", types.UID(job.Name)
	pod.CreationTimestamp = metav1.Now()
	pod.OwnerReferences = job.OwnerReferences
	pod.Status.Phase = corev1.PodPending
	c.publish("ADDED", pod, func(*corev1.Pod) {})
	go c.live(pod)
}

func (c *many) live(pod *corev1.Pod) {
	state := func(change func(*corev1.Pod)) {
		time.Sleep(ofPodState)
		c.publish("MODIFIED", pod, change)
	}
	waits := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: metav1.Now()}}
	container := func(c corev1.Container, s corev1.ContainerState) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: c.Name, Image: c.Image, ImageID: c.Image, State: s}}
	}
	measures, keeps := pod.Spec.InitContainers[0], pod.Spec.Containers[0]
	state(func(pod *corev1.Pod) {
		pod.Spec.NodeName = pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	})
	state(func(pod *corev1.Pod) {
		pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = container(measures, waits), container(keeps, waits)
	})
	state(func(pod *corev1.Pod) { pod.Status.InitContainerStatuses = container(measures, runs) })
	c.mu.Lock()
	if c.measure++; c.measure == len(c.names) {
		close(c.done)
	}
	c.mu.Unlock()
	select {
	case <-c.done:
	case <-c.Context().Done():
		return
	}
	state(func(pod *corev1.Pod) { pod.Status.InitContainerStatuses = container(measures, ended) })
	state(func(pod *corev1.Pod) {
		pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodRunning, container(keeps, runs)
	})
}

// publish changes a pod, and tells those who watch.
func (c *many) publish(event string, pod *corev1.Pod, change func(*corev1.Pod)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(pod)
	pod.ResourceVersion = strconv.Itoa(len(c.log) + 1)
	pod.ManagedFields = nil
	text, err := json.Marshal(pod)
	var object map[string]any
	if err == nil {
		err = json.Unmarshal(text, &object)
	}
	if err != nil {
		c.Error(err)
		return
	}
	for manager, part := range map[string]string{"kube-controller-manager": "spec", "kubelet": "status"} {
		fields, _ := json.Marshal(managed(object[part]))
		pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: fields},
		})
	}
	if text, err = json.Marshal(map[string]any{"type": event, "object": pod}); err != nil {
		c.Error(err)
		return
	}
	c.pods[pod.Name] = pod
	c.log = append(c.log, append(text, '\n'))
	close(c.more)
	c.more = make(chan struct{})
}

// managed has the names of an object's fields, as the API server lists them for who set them.
func managed(object any) map[string]any {
	fields := map[string]any{}
	switch object := object.(type) {
	case map[string]any:
		for name, value := range object {
			fields["f:"+name] = managed(value)
		}
	case []any:
		for i, value := range object {
			fields["k:"+strconv.Itoa(i)] = managed(value)
		}
	}
	return fields
}

// listPods lists pods, or watches them.
func (c *many) listPods(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") == "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		list := corev1.PodList{TypeMeta: kind("v1", "PodList")}
		list.ResourceVersion = strconv.Itoa(len(c.log))
		for _, pod := range c.pods {
			list.Items = append(list.Items, *pod)
		}
		c.answer(w, http.StatusOK, list)
		return
	}
	at, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		c.Errorf("watches from %v", err)
	}
	w.Header().Set("Content-Type", "application/json")
	for {
		c.mu.Lock()
		news, more := c.log[at:], c.more
		c.mu.Unlock()
		for _, event := range news {
			if _, err := w.Write(event); err != nil {
				return
			}
		}
		at += len(news)
		w.(http.Flusher).Flush()
		select {
		case <-more:
		case <-r.Context().Done():
			return
		}
	}
}

// exec answers as kubectl-tare in a node's pod.
func (c *many) exec(w http.ResponseWriter, r *http.Request) {
	command := r.URL.Query()["command"]
	part := record.Part{Study: command[4], Node: command[6]}
	upgrader := websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		c.Error(err)
		return
	}
	c.mu.Lock()
	c.ofNode[part.Node]++
	c.mostOfNode = max(c.mostOfNode, c.ofNode[part.Node])
	if c.firstFetch.IsZero() {
		c.firstFetch = time.Now()
	}
	c.mu.Unlock()
	defer func() {
		conn.Close()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ofNode[part.Node]--
		c.open-- // a connection that was taken over is not reported any more
		if command[2] == "acknowledge" {
			c.lastAcknowledgement = time.Now()
		}
	}()
	time.Sleep(ofExec)
	const stdout, failure = 1, 3
	send := func(channel byte, p []byte) {
		if err := conn.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, p...)); err != nil {
			c.Error(err)
		}
	}
	if command[2] == "export" {
		run := bytes.ReplaceAll(c.run, []byte(placeholder.Study), []byte(part.Study))
		run = bytes.ReplaceAll(run, []byte(placeholder.Node), []byte(part.Node))
		var packed bytes.Buffer
		fmt.Fprintln(&packed, time.Now().Format(time.RFC3339Nano))
		zip := gzip.NewWriter(&packed)
		_, _ = zip.Write(run) // to memory
		_ = zip.Close()
		c.mu.Lock()
		c.sent += int64(packed.Len())
		c.mu.Unlock()
		for part := range slices.Chunk(packed.Bytes(), 32<<10) {
			send(stdout, part)
		}
	}
	status, _ := json.Marshal(metav1.Status{Status: metav1.StatusSuccess})
	send(failure, status)
	_ = conn.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
	_, _, _ = conn.ReadMessage() // until the other end has closed, too
}
