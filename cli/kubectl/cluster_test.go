package kubectl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"tare/platform/clustertest"
)

// onNodes are a real cluster of two nodes, and who has studies measured there.
type onNodes struct {
	*testing.T
	*clustertest.Cluster
	bin, home, image string
}

// TestStudyOnNodes: two nodes measure, and their runs come into one store. What stops one node, or who
// follows, loses nothing.
func TestStudyOnNodes(t *testing.T) {
	if os.Getenv("TARE_TEST_NODES") != "1" {
		t.Skip("make test-nodes runs it: it builds and starts Kubernetes")
	}
	o := &onNodes{T: t, bin: t.TempDir(), home: t.TempDir()}
	archive := o.makeImage()
	ctx, cancel := context.WithTimeout(t.Context(), 80*time.Minute) // building is in it
	defer cancel()
	c, err := clustertest.Start(ctx, clustertest.Options{Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	o.Cluster = c
	t.Cleanup(func() {
		if err := c.Stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	for _, n := range c.Nodes {
		if err := n.Load(ctx, archive); err != nil {
			t.Fatal(err)
		}
		o.makeRoot(n.Path(rootOnNode))
	}
	t.Run("whole", func(t *testing.T) { o.at(t).whole(ctx) })
	t.Run("pods as a platform", func(t *testing.T) { o.at(t).pods(ctx) })
	t.Run("an image of one's own", func(t *testing.T) { o.at(t).pulled(ctx) })
	t.Run("pods through Services", func(t *testing.T) { o.at(t).services(ctx) })
	t.Run("kubelet and follower killed", func(t *testing.T) { o.at(t).interrupted(ctx) })
	t.Run("drained and cut off", func(t *testing.T) { o.at(t).disrupted(ctx) })
	t.Run("rebooted", func(t *testing.T) { o.at(t).rebooted(ctx) })
	t.Run("deleted", func(t *testing.T) { o.at(t).deleted(ctx) })
	t.Run("diagnosed", func(t *testing.T) { o.at(t).diagnosed(ctx) })
	t.Run("not admitted", func(t *testing.T) { o.at(t).notAdmitted(ctx) })
	t.Run("granted", func(t *testing.T) { o.at(t).granted(ctx) })
}

func (o *onNodes) at(t *testing.T) *onNodes {
	at := *o
	at.T = t
	return &at
}

const rootOnNode = "/var/lib/tare-test/root"

// makeImage builds the programs, and the image for nodes as make image does. The image for the other
// architecture has this one's program: no node asks for it.
func (o *onNodes) makeImage() (archive string) {
	o.Helper()
	o.do("go", "build", "-o", filepath.Join(o.bin, "amd64")+"/", "tare/cmd/tare", "tare/cmd/kubectl-tare")
	if err := os.Symlink("amd64", filepath.Join(o.bin, "arm64")); err != nil {
		o.Fatal(err)
	}
	said := strings.Fields(o.do("go", "run", "../../scripts/image.go", "-nodes", "-version", "test", "-binaries", o.bin, "-out", o.bin))
	if len(said) != 2 {
		o.Fatalf("the image: %q", said)
	}
	o.image = said[1]
	return said[0]
}

// makeRoot lays out what the nodes weigh.
func (o *onNodes) makeRoot(root string) {
	o.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		o.Skip("no busybox on PATH: apt-get install busybox-static")
	}
	o.do("sh", "-c", fmt.Sprintf("mkdir -p %[1]s/bin %[1]s/www && cp %[2]s %[1]s/bin/busybox && echo page > %[1]s/www/index.html", root, busybox))
}

func (o *onNodes) do(args ...string) string {
	o.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		o.Fatalf("%q: %v\n%s", args, err, &errOut)
	}
	return string(out)
}

// command is a program of tare with the store of who follows.
func (o *onNodes) command(ctx context.Context, program string, args ...string) (cmd *exec.Cmd, out *bytes.Buffer) {
	cmd, out = exec.CommandContext(ctx, filepath.Join(o.bin, "amd64", program), args...), new(bytes.Buffer)
	cmd.Env = append(os.Environ(), "TARE_HOME="+o.home, "KUBECONFIG="+o.Kubeconfig)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

// weigh is a study of a loop that takes a while, on both nodes.
func (o *onNodes) weigh(ctx context.Context, platforms, blocks string, more ...string) (*exec.Cmd, *bytes.Buffer) {
	args := append([]string{"weigh", "--nodes", "kubernetes.io/os=linux", "--node-image", o.image}, more...)
	args = append(args, "--rootfs", rootOnNode, "--platform", platforms, "--blocks", blocks, "--yes", "--",
		"/bin/busybox", "sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	return o.command(ctx, "kubectl-tare", args...)
}

// whole: nobody disturbs the study.
func (o *onNodes) whole(ctx context.Context) {
	cmd, out := o.weigh(ctx, "bare,cgroup", "3")
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "2 of 2 nodes fetched") {
		o.Fatalf("%v:\n%s", err, out)
	}
	o.Logf("%s", out)
	o.shown(ctx, out.String(), "cgroup")
	o.nothingLeft(ctx)
}

// pods: pods of the node's kubelet are measured, and go with their manifests.
func (o *onNodes) pods(ctx context.Context) {
	cmd, out := o.weigh(ctx, "bare,k8s", "3")
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "2 of 2 nodes fetched") {
		o.Fatalf("%v:\n%s", err, out)
	}
	o.Logf("%s", out)
	o.shown(ctx, out.String(), "k8s")
	o.nothingLeft(ctx)
	for _, n := range o.Nodes {
		if left, err := os.ReadDir(n.Path(clustertest.StaticPods)); err != nil || len(left) > 0 {
			o.Errorf("manifests on %s: %v, %v", n.Name, left, err)
		}
	}
}

// pulled: the program is of an image that the kubelets have: no registry is here to pull from.
func (o *onNodes) pulled(ctx context.Context) {
	const app = "tare.test/app:1"
	archive := filepath.Join(o.TempDir(), "app.tar")
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		o.Fatal(err)
	}
	if err := clustertest.WriteImage(archive, app, busybox, "sleep", "0.1"); err != nil {
		o.Fatal(err)
	}
	for _, n := range o.Nodes {
		if err := n.Load(ctx, archive); err != nil {
			o.Fatal(err)
		}
	}
	args := []string{"weigh", "--image", app, "--nodes", "kubernetes.io/os=linux", "--node-image", o.image,
		"--platform", "bare,k8s", "--blocks", "3", "--yes"}
	cmd, out := o.command(ctx, "kubectl-tare", args...)
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "2 of 2 nodes fetched") {
		o.Fatalf("%v:\n%s", err, out)
	}
	o.shown(ctx, out.String(), "k8s")
	o.nothingLeft(ctx)
}

// services: pods are reached through Services, too. The workload's file lies with who follows alone.
func (o *onNodes) services(ctx context.Context) {
	file := filepath.Join(o.TempDir(), "web.yaml")
	text := fmt.Sprintf(`name: web
image: {rootfs: %s}
kind: service
command: [/bin/busybox, httpd, -f, -p, "${listen}:${port}", -h, /www]
ports: [8080]
load: {http: {path: /index.html, rate: 50, new_connections: true, duration: 1s}}
`, rootOnNode)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		o.Fatal(err)
	}
	cmd, out := o.command(ctx, "kubectl-tare", "weigh", "--workload", file, "--nodes", "kubernetes.io/os=linux", "--node-image", o.image,
		"--platform", "bare,k8s", "--vary", "network=bridge,bridge:clusterip,bridge:nodeport", "--design", "blocks", "--blocks", "3", "--yes")
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "2 of 2 nodes fetched") {
		o.Fatalf("%v:\n%s", err, out)
	}
	o.Logf("%s", out)
	o.shown(ctx, out.String(), "k8s")
	_, study, _ := strings.Cut(strings.TrimSpace(out.String()), "tare show ")
	show, shown := o.command(ctx, "tare", "show", study)
	if err := show.Run(); err != nil {
		o.Error(err)
	}
	for _, network := range []string{"bridge", "bridge:clusterip", "bridge:nodeport"} {
		if !strings.Contains(shown.String(), "\nk8s network="+network+" by node\n") {
			o.Errorf("there is no figure of %s", network)
		}
	}
	o.nothingLeft(ctx)
}

// shown holds that tare here knows the runs that were fetched, one by one and over the nodes, with the condition that
// was compared with bare metal.
func (o *onNodes) shown(ctx context.Context, said, condition string) {
	o.Helper()
	_, study, found := strings.Cut(said, "tare show ")
	study, _, _ = strings.Cut(study, "\n")
	if !found {
		o.Fatalf("nothing is to be shown:\n%s", said)
	}
	for _, asked := range []string{study + "-" + o.Nodes[0].Name, study + "-" + o.Nodes[1].Name, study} {
		show, out := o.command(ctx, "tare", "show", asked)
		if err := show.Run(); err != nil {
			o.Errorf("tare show %s: %v\n%s", asked, err, out)
		}
		if !strings.Contains(out.String(), "\n"+condition+" ") {
			o.Errorf("tare show %s has no row of %s:\n%s", asked, condition, out)
		}
		if asked == study {
			o.Logf("%s", out)
			for _, n := range o.Nodes {
				if !strings.Contains(out.String(), n.Name) {
					o.Errorf("%s is not in the answer", n.Name)
				}
			}
		}
	}
}

// interrupted: the kubelet of one node is killed while it measures, and so is who follows. Both go on.
func (o *onNodes) interrupted(ctx context.Context) {
	cmd, out := o.weigh(ctx, "bare,cgroup", "12")
	if err := cmd.Start(); err != nil {
		o.Fatal(err)
	}
	for _, n := range o.Nodes {
		o.awaitMeasuring(ctx, n)
	}
	kubelet, err := o.Nodes[1].Process("kubelet")
	if err != nil {
		o.Fatal(err)
	}
	if err := kubelet.Kill(ctx); err != nil {
		o.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		o.Fatal(err)
	}
	_ = cmd.Wait()
	if err := o.AwaitNode(ctx, o.Nodes[1].Name, false); err != nil {
		o.Fatal(err)
	}
	if err := o.Nodes[1].Start("kubelet"); err != nil {
		o.Fatal(err)
	}
	study := o.study(ctx)
	o.Logf("%s", out)
	resume, out := o.command(ctx, "kubectl-tare", "resume", study)
	if err := resume.Run(); err != nil || !strings.Contains(out.String(), "2 of 2 nodes fetched") {
		o.Fatalf("%v:\n%s", err, out)
	}
	o.Logf("%s", out)
	o.shown(ctx, out.String(), "cgroup")
	o.nothingLeft(ctx)
}

// disrupted: one node is drained while it measures, and is given back. The other's network is away for a while. Each
// goes on with its part.
func (o *onNodes) disrupted(ctx context.Context) {
	type object = map[string]any
	cmd, out := o.weigh(ctx, "bare,cgroup", "20")
	if err := cmd.Start(); err != nil {
		o.Fatal(err)
	}
	for _, n := range o.Nodes {
		o.awaitMeasuring(ctx, n)
	}
	drained, cut := o.Nodes[0], o.Nodes[1]
	cordon := func(isCordoned bool) {
		node := object{"apiVersion": "v1", "kind": "Node", "metadata": object{"name": drained.Name}, "spec": object{"unschedulable": isCordoned}}
		path := "/api/v1/nodes/" + drained.Name
		if err := o.Call(ctx, "PATCH", path, node, nil); err != nil {
			o.Fatal(err)
		}
	}
	cordon(true)
	study := o.study(ctx)
	for _, pod := range o.list(ctx, inDefault("pods")) {
		if !strings.HasPrefix(pod, "tare-"+study+"-0") {
			continue
		}
		eviction := object{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": object{"name": pod, "namespace": "default"}}
		if err := o.Call(ctx, "POST", inDefault("pods")+"/"+pod+"/eviction", eviction, nil); err != nil {
			o.Fatal(err)
		}
	}
	if err := o.Cut(cut, true); err != nil {
		o.Fatal(err)
	}
	if err := o.AwaitNode(ctx, cut.Name, false); err != nil {
		o.Fatal(err)
	}
	if err := o.Cut(cut, false); err != nil {
		o.Fatal(err)
	}
	cordon(false)
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "2 of 2 nodes fetched") {
		o.Fatalf("%v:\n%s", err, out)
	}
	o.Logf("%s", out)
	if !strings.Contains(out.String(), "drained") {
		o.Errorf("nothing says that %s was drained", drained.Name)
	}
	o.shown(ctx, out.String(), "cgroup")
	o.nothingLeft(ctx)
}

// rebooted: a node loses its power while it measures. After its start it goes on with what it has.
func (o *onNodes) rebooted(ctx context.Context) {
	cmd, out := o.weigh(ctx, "bare,cgroup", "20")
	if err := cmd.Start(); err != nil {
		o.Fatal(err)
	}
	for _, n := range o.Nodes {
		o.awaitMeasuring(ctx, n)
	}
	if err := o.Reboot(ctx, o.Nodes[0]); err != nil {
		o.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "2 of 2 nodes fetched") {
		o.Fatalf("%v:\n%s", err, out)
	}
	o.Logf("%s", out)
	if !strings.Contains(out.String(), "restarted") {
		o.Errorf("nothing says that %s was restarted", o.Nodes[0].Name)
	}
	o.shown(ctx, out.String(), "cgroup")
	o.nothingLeft(ctx)
}

// deleted: a study whose object is deleted goes from the cluster, and from the nodes.
func (o *onNodes) deleted(ctx context.Context) {
	cmd, out := o.weigh(ctx, "bare,cgroup", "40")
	if err := cmd.Start(); err != nil {
		o.Fatal(err)
	}
	for _, n := range o.Nodes {
		o.awaitMeasuring(ctx, n)
	}
	if err := o.Call(ctx, "DELETE", inDefault("configmaps")+"/tare-"+o.study(ctx), nil, nil); err != nil {
		o.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		o.Errorf("who follows is content:\n%s", out)
	}
	o.Logf("%s", out)
	o.nothingLeft(ctx)
}

// diagnosed: a Deployment has a pod on each node, which their quota throttles. Both nodes say so, and one command ends it.
func (o *onNodes) diagnosed(ctx context.Context) {
	type object = map[string]any
	labels := map[string]string{"app": "web"}
	web := object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": "web"}, "spec": object{
		"replicas": 2, "selector": object{"matchLabels": labels}, "template": object{
			"metadata": object{"labels": labels}, "spec": object{
				"terminationGracePeriodSeconds": 0,
				"topologySpreadConstraints": []object{{
					"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
					"labelSelector": object{"matchLabels": labels},
				}},
				"containers": []object{{
					"name": "app", "image": clustertest.Busybox, "imagePullPolicy": "Never",
					"command":   []string{"/bin/busybox", "sh", "-c", "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.3; done"},
					"resources": object{"limits": object{"cpu": "50m"}},
				}, {
					"name": "probed", "image": clustertest.Busybox, "imagePullPolicy": "Never",
					"command":       []string{"/bin/busybox", "sleep", "1h"},
					"livenessProbe": object{"exec": object{"command": []string{"/bin/busybox", "true"}}, "periodSeconds": 1},
				}},
			}},
	}}
	const deployments = "/apis/apps/v1/namespaces/default/deployments"
	if err := o.Call(ctx, "POST", deployments, web, nil); err != nil {
		o.Fatal(err)
	}
	defer func() {
		if err := o.Call(ctx, "DELETE", deployments+"/web", nil, nil); err != nil {
			o.Error(err)
		}
	}()
	err := o.Await(ctx, deployments, "metadata.name=web", func(text []byte) (bool, error) {
		var is struct{ Status struct{ ReadyReplicas int } }
		err := json.Unmarshal(text, &is)
		return is.Status.ReadyReplicas == 2, err
	})
	if err != nil {
		o.Fatal(err)
	}
	for _, asked := range [][]string{{"deployment/web"}, {"--node", o.Nodes[0].Name}} {
		args := append([]string{"diagnose", "--for", "5s", "--node-image", o.image}, asked...)
		cmd, out := o.command(ctx, "kubectl-tare", args...)
		if err := cmd.Run(); err != nil {
			o.Errorf("%q: %v", asked, err)
		}
		o.Logf("%s", out)
		wanted := []string{"used up its quota", "exec probes", "kubectl patch -n default deployment web", o.Nodes[0].Name}
		if len(asked) == 1 {
			wanted = append(wanted, o.Nodes[1].Name)
		}
		for _, want := range wanted {
			if !strings.Contains(out.String(), want) {
				o.Errorf("%q does not say %q", asked, want)
			}
		}
	}
	o.nothingLeft(ctx)
}

// notAdmitted: a namespace that admits no such pods gets one line, and no object.
func (o *onNodes) notAdmitted(ctx context.Context) {
	namespace := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
		"name": "restricted", "labels": map[string]string{"pod-security.kubernetes.io/enforce": "baseline"},
	}}
	if err := o.Call(ctx, "POST", "/api/v1/namespaces", namespace, nil); err != nil {
		o.Fatal(err)
	}
	weigh, weighed := o.weigh(ctx, "bare,cgroup", "3", "-n", "restricted")
	diagnose, diagnosed := o.command(ctx, "kubectl-tare", "diagnose", "--node-image", o.image, "--job-namespace", "restricted")
	for cmd, out := range map[*exec.Cmd]*bytes.Buffer{weigh: weighed, diagnose: diagnosed} {
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != 3 || !strings.Contains(out.String(), "privileged") {
			o.Errorf("%v:\n%s", err, out)
		}
		o.Logf("%s", out)
	}
}

// granted: a user may measure who has what kubectl tare rights prints, in the namespace that it makes.
func (o *onNodes) granted(ctx context.Context) {
	text, err := os.ReadFile(o.Kubeconfig)
	if err != nil {
		o.Fatal(err)
	}
	var config struct {
		Users []struct {
			User map[string]any `json:"user"`
		} `json:"users"`
	}
	whole := map[string]any{}
	if err := errors.Join(json.Unmarshal(text, &config), json.Unmarshal(text, &whole)); err != nil {
		o.Fatal(err)
	}
	user := config.Users[0].User
	user["as"] = "alice"
	whole["users"] = []any{map[string]any{"name": "user", "user": user}}
	if text, err = json.Marshal(whole); err != nil {
		o.Fatal(err)
	}
	alices := filepath.Join(o.TempDir(), "config")
	if err := os.WriteFile(alices, text, 0o600); err != nil {
		o.Fatal(err)
	}
	cmd, out := o.weigh(ctx, "bare,cgroup", "3", "-n", "tare", "--kubeconfig", alices, "--dry-run")
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 3 || !strings.Contains(out.String(), "kubectl tare rights") {
		o.Errorf("without rights: %v:\n%s", err, out)
	}
	o.Logf("%s", out)
	cmd, out = o.command(ctx, "kubectl-tare", "rights", "--user", "alice")
	if err := cmd.Run(); err != nil {
		o.Fatalf("%v: %s", err, out)
	}
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	paths := map[string]string{
		"Namespace": "/api/v1/namespaces", "ClusterRole": rbac + "clusterroles", "ClusterRoleBinding": rbac + "clusterrolebindings",
		"Role": rbac + "namespaces/tare/roles", "RoleBinding": rbac + "namespaces/tare/rolebindings",
	}
	for document := range strings.SplitSeq(out.String(), "---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			o.Fatalf("%v:\n%s", err, document)
		}
		kind, _ := object["kind"].(string)
		if err := o.Call(ctx, "POST", paths[kind]+"?fieldValidation=Strict", object, nil); err != nil {
			o.Fatalf("%v:\n%s", err, document)
		}
	}
	// Without this account no pod is admitted; the cluster makes it a moment after the namespace.
	err = o.Await(ctx, "/api/v1/namespaces/tare/serviceaccounts", "metadata.name=default", func([]byte) (bool, error) { return true, nil })
	if err != nil {
		o.Fatal(err)
	}
	cmd, out = o.weigh(ctx, "bare,cgroup", "3", "-n", "tare", "--kubeconfig", alices)
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "2 of 2 nodes fetched") {
		o.Errorf("with rights: %v:\n%s", err, out)
	}
}

// awaitMeasuring waits until a node's store is there, into which its run goes.
func (o *onNodes) awaitMeasuring(ctx context.Context, n *clustertest.Node) {
	o.Helper()
	for {
		if trials, _ := filepath.Glob(n.Path("/var/lib/tare/nodes/trials/*")); len(trials) > 0 {
			return
		}
		select {
		case <-ctx.Done():
			o.Fatalf("%s does not measure: %v", n.Name, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func inDefault(resource string) string { return "/api/v1/namespaces/default/" + resource }

// list gives names of objects that are tare's, pods of its platform among them.
func (o *onNodes) list(ctx context.Context, path string) (names []string) {
	o.Helper()
	var text []byte
	if err := o.Call(ctx, "GET", path+"?labelSelector="+url.QueryEscape("app.kubernetes.io/managed-by in (kubectl-tare, tare)"), nil, &text); err != nil {
		o.Fatal(err)
	}
	var all struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal(text, &all); err != nil {
		o.Fatalf("%v: %s", err, text)
	}
	for _, item := range all.Items {
		names = append(names, item.Metadata.Name)
	}
	return names
}

// study is the id of the one that the cluster has.
func (o *onNodes) study(ctx context.Context) string {
	o.Helper()
	parents := o.list(ctx, inDefault("configmaps"))
	if len(parents) != 1 {
		o.Fatalf("the studies of the cluster are %q, want one", parents)
	}
	return strings.TrimPrefix(parents[0], "tare-")
}

// nothingLeft waits until the cluster has nothing more of a study.
func (o *onNodes) nothingLeft(ctx context.Context) {
	o.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		var left []string
		for _, path := range []string{
			inDefault("configmaps"), inDefault("pods"), inDefault("services"),
			"/apis/batch/v1/namespaces/default/jobs", "/apis/coordination.k8s.io/v1/namespaces/default/leases",
		} {
			left = append(left, o.list(ctx, path)...)
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			o.Fatalf("left in the cluster: %q", left)
		}
		time.Sleep(time.Second)
	}
}
