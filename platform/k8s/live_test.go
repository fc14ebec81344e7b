package k8s

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"

	"tare/image"
	"tare/kernel/cgroup"
	"tare/platform"
	"tare/platform/clustertest"
	"tare/platform/conformance"
	"tare/platform/containerd"
)

// sandboxImage is what pods' sandboxes run.
const sandboxImage = "tare.test/pause:1"

// kernelSettings are what a kubelet sets where they differ. They are the host's: it sees files instead.
var kernelSettings = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

// startNode starts a containerd, and a kubelet without an API server. Both end with the test.
func startNode(t *testing.T, img image.Image) {
	t.Helper()
	if os.Getenv("TARE_TEST_NODES") != "1" {
		t.Skip("make test-nodes runs it: it builds a kubelet")
	}
	if n, err := findNode(); err == nil {
		t.Skipf("a kubelet runs on this host already, as process %d", n.process.PID)
	}
	programs, err := clustertest.Programs(t.Context(), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	dir := conformance.OpenDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"manifests", "cni", "logs", "kubelet"} {
		if err := os.Mkdir(at(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	layout, err := cgroup.Host()
	if err != nil {
		t.Fatal(err)
	}
	group := layout.At("/" + platform.Unique("tare-kubelet"))
	var controllers []string
	if layout.Mode() == "v2" {
		controllers = []string{"cpu", "cpuset", "memory", "pids", "hugetlb"}
	}
	if err := group.Create(controllers...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := group.Remove(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	write := func(name string, content any) {
		t.Helper()
		text, err := json.Marshal(content)
		if raw, ok := content.(string); ok {
			text = []byte(raw)
		}
		if err == nil {
			err = os.WriteFile(at(name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("cni/pods.conflist", object{"cniVersion": "0.4.0", "name": "tare-test", "plugins": []object{{
		"type": "ptp", "ipam": object{
			"type": "host-local", "dataDir": at("addresses"), "ranges": [][]object{{{"subnet": "10.216.7.0/24"}}},
			"routes": []object{{"dst": "0.0.0.0/0"}},
		},
	}, {
		"type": "portmap", "capabilities": object{"portMappings": true},
	}}})
	removeChains(t)
	// Without CAP_SYS_RESOURCE, which the host may lack, no badness (oom_score_adj) can be lowered.
	write("containerd.toml", fmt.Sprintf(`version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
address = %q
[plugins."io.containerd.internal.v1.opt"]
path = %q
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = %q
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = %q
`, at("root"), at("state"), at("s"), at("opt"), sandboxImage, at("cni")))
	write("kubelet.json", object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"staticPodPath": at("manifests"), "podLogsDir": at("logs"), "containerRuntimeEndpoint": "unix://" + at("s"),
		"authentication": object{"anonymous": object{"enabled": true}, "webhook": object{"enabled": false}},
		"authorization":  object{"mode": "AlwaysAllow"},
		"enableServer":   false, "makeIPTablesUtilChains": false, "cgroupDriver": "cgroupfs", "cgroupRoot": group.String(),
		"failSwapOn": false, "protectKernelDefaults": true, "oomScoreAdj": 0,
		"evictionHard": object{
			"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%",
		},
		"imageGCHighThresholdPercent": 100,
	})
	run(t, at("containerd.log"), "containerd", "--config", at("containerd.toml"))
	importSandbox(t, at("s"), at("pause.tar"), filepath.Join(img.Root, "bin/busybox"))

	// The kubelet's own directories, and the kernel's settings, are not the host's.
	script := "mount -t tmpfs tmpfs /var/lib; mount -t tmpfs tmpfs /var/log\n"
	for setting, value := range kernelSettings {
		name := strings.ReplaceAll(setting, "/", ".")
		write(name, value+"\n")
		script += fmt.Sprintf("mount --bind %s /proc/sys/%s\n", at(name), setting)
	}
	script += fmt.Sprintf("exec %s --config=%s --root-dir=%s --hostname-override=tare-test", filepath.Join(programs, "kubelet"), at("kubelet.json"), at("kubelet"))
	run(t, at("kubelet.log"), "unshare", "-m", "sh", "-ec", script)
	await(t, "the kubelet's work", func() bool {
		said, err := os.ReadFile(at("kubelet.log"))
		return err == nil && strings.Contains(string(said), "Starting kubelet main sync loop")
	})
}

// removeChains has the test take away what the plugin portmap leaves in the host's tables: the chains in which its
// rules were. The node has ended by then.
func removeChains(t *testing.T) {
	t.Helper()
	rules := func() (its []string) {
		out, err := exec.Command("iptables", "-t", "nat", "-S").Output()
		if err != nil {
			t.Skip("the pods' ports need iptables: ", err)
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "CNI-HOSTPORT-") {
				its = append(its, strings.TrimSpace(line))
			}
		}
		return its
	}
	before := rules()
	t.Cleanup(func() {
		var commands []string
		left := rules()
		for _, undo := range [][2]string{{"-A ", "-D "}, {"-N ", "-X "}} {
			for _, line := range left {
				if rest, ok := strings.CutPrefix(line, undo[0]); ok && !slices.Contains(before, line) {
					commands = append(commands, "iptables -t nat "+undo[1]+rest)
				}
			}
		}
		if out, err := exec.Command("sh", "-ec", strings.Join(commands, "\n")).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// run starts a program, and kills it at the end of the test. Its log's end is shown where the test failed.
func run(t *testing.T, log, program string, args ...string) {
	t.Helper()
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = out.Close()
		if text, err := os.ReadFile(log); err == nil && t.Failed() {
			t.Logf("%s: %s", program, text[max(0, len(text)-16<<10):])
		}
	})
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for until := time.Now().Add(2 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%s has not come", what)
		}
	}
}

func importSandbox(t *testing.T, socket, archive, program string) {
	t.Helper()
	if err := clustertest.WriteImage(archive, sandboxImage, program, "sleep", "2147483647"); err != nil {
		t.Fatal(err)
	}
	e := containerd.NewShared(containerd.Options{Address: socket}, Name, namespace)
	await(t, "containerd", func() bool { return e.Version(t.Context()) != "" })
	err := e.Call(t.Context(), "import the sandbox's image", func(ctx context.Context, c *client.Client) error {
		file, err := os.Open(archive)
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = c.Import(ctx, file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// book is a ledger that is kept in memory.
type book struct {
	mu   sync.Mutex
	open []*platform.Entry
}

func (b *book) Add(e platform.Entry) (func(), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = append(b.open, &e)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.open = slices.DeleteFunc(b.open, func(o *platform.Entry) bool { return o == &e })
	}, nil
}

// text is a writer that a test reads meanwhile.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *text) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *text) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// A pod on a real kubelet: what is in force, its network, phases and output, its end, and what is
// left after a crash.
func TestPodOfAKubelet(t *testing.T) {
	img := conformance.Image(t)
	startNode(t, img)
	state, ledger := conformance.OpenDir(t), &book{}
	p := New(Options{StateDir: state, Ledger: ledger})
	if err := p.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := p.Version(t.Context()); !strings.HasPrefix(v, "kubelet 1.") || !strings.Contains(v, "containerd ") {
		t.Errorf("version %q", v)
	}
	if err := p.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	var out text
	spec := platform.Spec{
		Name: platform.Unique("pod"), Image: img, Args: []string{"sh", "-c", "echo $A; echo oops >&2; exec httpd -f -p 8080 -h /www"},
		Env: []string{"A=$(B)", "B=b"}, Ports: []int{8080}, Data: []string{"/data"}, Stdout: &out,
		Setting: platform.Setting{CPUs: 0.5, Memory: 64 << 20, Network: platform.NetworkBridge, Storage: platform.StorageBind},
	}
	c, err := p.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop(context.WithoutCancel(t.Context()))
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	phases := c.(platform.Phased).Phases()
	t.Logf("phases: %v", phases)
	if len(phases) < 4 || slices.ContainsFunc(phases, func(p platform.Phase) bool { return p.Time < 0 }) {
		t.Errorf("phases %v", phases)
	}
	inst, err := c.Instance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	force, err := inst.InForce()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("in force: %+v", force)
	if force.CPUQuota != 50*time.Millisecond || force.CPUPeriod != 100*time.Millisecond || force.Memory != 64<<20 || force.CPUShares != 512 ||
		force.NetworkNS != "own" || force.Seccomp != 2 || force.DataFS[0] == "overlay" || !strings.Contains(strings.Join(force.Cgroups, " "), "kubepods/pod"+c.ID()) {
		t.Error("that is not what was asked for, in the class Guaranteed")
	}
	await(t, "the program's output", func() bool { return out.String() == "$(B)\n" })
	answer, err := http.Get("http://" + inst.Address(8080) + "/")
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil || len(page) == 0 {
		t.Errorf("%s answered %q, %v", inst.Address(8080), page, err)
	}
	if used, err := inst.Usage(); err != nil || used.CPU <= 0 {
		t.Errorf("usage %+v, %v", used, err)
	}
	if _, err := inst.(platform.Attending).Attendants(); err != nil {
		t.Error(err)
	}
	freezing := inst.(platform.Freezing)
	if err := errors.Join(freezing.Freeze(t.Context()), freezing.Thaw(t.Context())); err != nil {
		t.Error(err)
	}
	if pids := p.EnginePIDs(t.Context()); len(pids) != 3 {
		t.Errorf("the kubelet, containerd and a shim are %v", pids)
	}
	if err := inst.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if exit, err := inst.Wait(t.Context()); err != nil || exit.Code != 137 {
		t.Errorf("stopped: %+v, %v", exit, err)
	}

	// The host's network, an end of its own, and no limits.
	spec.Name, spec.Args, spec.Ports = platform.Unique("pod"), []string{"sh", "-c", "echo over; exit 3"}, nil
	spec.Setting, spec.Data, out = platform.Setting{}, nil, text{}
	short, err := p.Launch(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	exit, err := short.Wait(t.Context())
	if err != nil || exit.Code != 3 || out.String() != "over\n" {
		t.Errorf("%+v, %v, output %q", exit, err, out.String())
	}
	if err := short.Stop(t.Context()); err != nil {
		t.Error(err)
	}

	// What a crash leaves, another one removes.
	spec.Name, spec.Args = platform.Unique("pod"), []string{"sleep", "3600"}
	left, err := p.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := left.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := New(Options{StateDir: state})
	for _, e := range slices.Backward(slices.Clone(ledger.open)) {
		if e.Kind == "image" {
			continue // the first one's yet
		}
		if err := after.Remove(t.Context(), *e); err != nil {
			t.Errorf("%s %s: %v", e.Kind, e.ID, err)
		}
	}
	if ids, err := running(t.Context(), p.engine, left.ID()); len(ids) > 0 || err != nil {
		t.Errorf("of the abandoned pod run %v (%v)", ids, err)
	}
	if err := left.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := p.Release(t.Context()); err != nil {
		t.Error(err)
	}
	for _, e := range ledger.open {
		t.Errorf("the ledger still has the %s %s", e.Kind, e.ID)
	}
	if entries, err := os.ReadDir(p.node.StaticPods); len(entries) > 0 || err != nil {
		t.Errorf("manifests are left: %v, %v", entries, err)
	}
}
