package clustertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/procfs"
)

// victimVariable has this test's program start a cluster, say so, and be killed.
const victimVariable = "TARE_TEST_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victimVariable) != "" {
		say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
		if _, err := Start(context.Background(), Options{Log: say}); err != nil {
			say("%v", err)
			os.Exit(1)
		}
		say("started")
		select {}
	}
	os.Exit(m.Run())
}

func needNodes(t *testing.T) {
	t.Helper()
	if os.Getenv("TARE_TEST_NODES") != "1" {
		t.Skip("make test-nodes runs it: it builds and starts Kubernetes")
	}
}

// TestCluster is the package's example: a cluster is started, used, disturbed and removed.
func TestCluster(t *testing.T) {
	needNodes(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Minute) // building is in it
	defer cancel()
	before := lookAtHost(t)
	c, err := Start(ctx, Options{Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	if info, err := os.Stat(c.Kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig: %v, %v; want a file that its owner alone reads", info, err)
	}
	archive := filepath.Join(t.TempDir(), "greeting.tar")
	if err := WriteImage(archive, greetingImage, busyboxProgram(), "sh", "-c", greetingScript); err != nil {
		t.Fatal(err)
	}
	for _, n := range c.Nodes {
		runGreeting(ctx, t, c, n, archive)
	}
	for _, n := range c.Nodes {
		got, err := os.ReadDir(n.Path("/var/lib/greeting"))
		if err != nil || len(got) != 1 || got[0].Name() != n.Name {
			t.Errorf("%s's own directory holds %v, %v; want what its own pod left", n.Name, got, err)
		}
	}
	loseKubelet(ctx, t, c)
	cutNode(ctx, t, c)
	if err := c.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, c.id)
	before.compare(t)
}

const (
	greetingImage  = "tare.test/greeting:1"
	greetingScript = `grep -q ":/kubepods/" /proc/self/cgroup && nc -w 5 "$KUBERNETES_SERVICE_HOST" 443 </dev/null && : > /kept/$NODE && echo "$NODE reaches the API"`
)

// runGreeting runs a Job on the node. Its pod is in the node's own control groups, reaches the API
// server by its service, and leaves a file on the node.
func runGreeting(ctx context.Context, t *testing.T, c *Cluster, n *Node, archive string) {
	t.Helper()
	began := time.Now()
	if err := n.Load(ctx, archive); err != nil {
		t.Fatal(err)
	}
	loaded := time.Now()
	name := "greeting-" + n.Name
	job := object{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": object{"name": name},
		"spec": object{"backoffLimit": 0, "template": object{"spec": object{
			"restartPolicy": "Never", "nodeSelector": object{"kubernetes.io/hostname": n.Name},
			"containers": []object{{
				"name": "greeting", "image": greetingImage, "imagePullPolicy": "Never",
				"env":          []object{{"name": "NODE", "valueFrom": object{"fieldRef": object{"fieldPath": "spec.nodeName"}}}},
				"volumeMounts": []object{{"name": "kept", "mountPath": "/kept"}},
			}},
			"volumes": []object{{"name": "kept", "hostPath": object{"path": "/var/lib/greeting", "type": "DirectoryOrCreate"}}},
		}}},
	}
	const jobs, pods = "/apis/batch/v1/namespaces/default/jobs", "/api/v1/namespaces/default/pods"
	if err := c.Call(ctx, http.MethodPost, jobs, job, nil); err != nil {
		t.Fatal(err)
	}
	waiting, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err := c.Await(waiting, jobs, "metadata.name="+name, func(object []byte) (bool, error) {
		var job struct {
			Status struct{ Succeeded, Failed int }
		}
		err := json.Unmarshal(object, &job)
		if job.Status.Failed > 0 {
			err = errors.New("it has failed")
		}
		return job.Status.Succeeded == 1, err
	})
	if err != nil {
		var all []byte
		_ = c.Call(ctx, http.MethodGet, "/api/v1/namespaces/default/events", nil, &all)
		t.Fatalf("%v\nevents: %s", err, all)
	}
	took := time.Since(loaded)
	var made struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ NodeName string }
		}
	}
	if err := c.Call(ctx, http.MethodGet, pods+"?labelSelector=job-name%3D"+name, nil, &made); err != nil {
		t.Fatal(err)
	}
	if len(made.Items) != 1 || made.Items[0].Spec.NodeName != n.Name {
		t.Fatalf("the pods of %s: %+v; want one on %s", name, made.Items, n.Name)
	}
	var said []byte
	if err := c.Call(ctx, http.MethodGet, pods+"/"+made.Items[0].Metadata.Name+"/log", nil, &said); err != nil {
		t.Fatal(err)
	}
	if want := n.Name + " reaches the API\n"; string(said) != want {
		t.Errorf("the pod says %q, want %q", said, want)
	}
	t.Logf("%s: image loaded in %v, Job done in %v", n.Name, loaded.Sub(began).Round(time.Millisecond), took.Round(time.Millisecond))
}

// cutNode takes a node's network away and gives it back. What runs there goes on.
func cutNode(ctx context.Context, t *testing.T, c *Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	n := c.Nodes[0]
	kubelet, err := n.Process("kubelet")
	if err != nil {
		t.Fatal(err)
	}
	for _, isCut := range []bool{true, false} {
		began := time.Now()
		if err := c.Cut(n, isCut); err != nil {
			t.Fatal(err)
		}
		if err := c.AwaitNode(ctx, n.Name, !isCut); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s is ready: %t, %v after its network: %t", n.Name, !isCut, time.Since(began).Round(10*time.Millisecond), !isCut)
	}
	if !kubelet.Alive() {
		t.Error("the kubelet of the node that was cut off has ended")
	}
}

// loseKubelet kills a kubelet: its node alone is no longer ready, until the kubelet is there again.
func loseKubelet(ctx context.Context, t *testing.T, c *Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	lost, other := c.Nodes[1], c.Nodes[0]
	kubelet, err := lost.Process("kubelet")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := kubelet.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitNode(ctx, lost.Name, false); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s is not ready %v after its kubelet was killed", lost.Name, time.Since(began).Round(10*time.Millisecond))
	if err := c.AwaitNode(ctx, other.Name, true); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	if err := lost.Start("kubelet"); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitNode(ctx, lost.Name, true); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s is ready %v after its kubelet was started again", lost.Name, time.Since(began).Round(10*time.Millisecond))
}

// TestKilledStarterLeavesNothing kills the starter of a cluster as it starts, and once it runs. All
// programs end by themselves then, and Clean removes the rest.
func TestKilledStarterLeavesNothing(t *testing.T) {
	needNodes(t)
	if _, err := Clean(t.Context(), StateDir); err != nil {
		t.Fatal(err)
	}
	before := lookAtHost(t)
	for _, moment := range []string{"the API server answers", "started"} {
		victim := exec.CommandContext(t.Context(), "/proc/self/exe")
		victim.Env = append(os.Environ(), victimVariable+"=1")
		out, err := victim.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() && !strings.HasPrefix(lines.Text(), moment) {
			t.Log(lines.Text())
		}
		running, err := Running(StateDir)
		if err != nil || len(running) != 1 {
			t.Errorf("clusters that run: %v, %v; want the one", running, err)
		}
		if removed, err := Clean(t.Context(), StateDir); err != nil || len(removed) > 0 {
			t.Errorf("a cluster that runs was removed: %v, %v", removed, err)
		}
		if err := victim.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = victim.Wait()
		for _, id := range running {
			awaitNoProcess(t, id)
		}
		removed, err := Clean(t.Context(), StateDir)
		if err != nil || !slices.Equal(removed, running) {
			t.Errorf("removed %v, %v; want %v", removed, err, running)
		}
		for _, id := range running {
			nothingLeft(t, id)
		}
		before.compare(t)
	}
}

// awaitNoProcess waits for the end of a cluster's processes, which nobody kills here.
func awaitNoProcess(t *testing.T, id string) {
	t.Helper()
	layout, err := cgroup.Host()
	if err != nil {
		t.Fatal(err)
	}
	for wait := time.Minute; ; wait -= 50 * time.Millisecond {
		left, err := groupOf(layout, id).Processes()
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		if wait < 0 {
			t.Fatalf("processes %v are left a minute after the starter's end", left)
		}
		time.Sleep(50 * time.Millisecond) // a group of version 1 tells nobody when it is empty
	}
}

// nothingLeft looks for everything that a cluster makes.
func nothingLeft(t *testing.T, id string) {
	t.Helper()
	layout, err := cgroup.Host()
	if err != nil {
		t.Fatal(err)
	}
	if groupOf(layout, id).Exists() {
		t.Errorf("control group %s is left", groupOf(layout, id))
	}
	if _, err := os.Stat(StateDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left (%v)", StateDir, err)
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range processes {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		// A zombie is the host's init's to reap, in its own time. One that has ended since is no process.
		if stat, err := procfs.Host.Process(pid).Stat(); err != nil || stat.Zombie() {
			continue
		}
		if groups, err := os.ReadFile(dir + "/cgroup"); err == nil && strings.Contains(string(groups), id) {
			t.Errorf("%s is left, in %s", dir, groups)
		}
		if mounts, err := os.ReadFile(dir + "/mountinfo"); err == nil && strings.Contains(string(mounts), id) {
			t.Errorf("%s has a mount of the cluster", dir)
		}
	}
}

// hostState is what of the host a cluster could change by mistake.
type hostState map[string]string

func lookAtHost(t *testing.T) hostState {
	t.Helper()
	s := hostState{}
	devices, err := os.ReadDir("/sys/class/net")
	if err != nil {
		t.Fatal(err)
	}
	s["devices"] = fmt.Sprint(devices)
	for setting := range expected {
		text, err := os.ReadFile("/proc/sys/" + setting)
		if err != nil {
			t.Fatal(err)
		}
		s[setting] = string(text)
	}
	for _, setting := range []string{"net/netfilter/nf_conntrack_max", "net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet"} {
		text, _ := os.ReadFile("/proc/sys/" + setting)
		s[setting] = string(text)
	}
	rules, err := exec.Command("iptables-save").Output()
	if err != nil {
		t.Logf("iptables-save: %v: packet filters are not compared", err)
	}
	for line := range strings.Lines(string(rules)) {
		if line, _, _ := strings.Cut(line, " ["); !strings.HasPrefix(line, "#") { // the time, and counters
			s["rules"] += strings.TrimSpace(line) + "\n"
		}
	}
	for _, dir := range []string{"/etc/cni", "/opt/cni", "/opt/containerd", "/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/usr/libexec/kubernetes"} {
		_, err := os.Stat(dir)
		s[dir] = fmt.Sprint(err == nil)
	}
	return s
}

func (s hostState) compare(t *testing.T) {
	t.Helper()
	now := lookAtHost(t)
	for what, before := range s {
		if now[what] != before {
			t.Errorf("%s of the host were\n%s\nand are\n%s", what, before, now[what])
		}
	}
}
