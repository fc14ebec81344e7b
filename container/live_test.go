package container

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// reference is the test's own image; its mark keeps runs side by side apart.
func reference() string { return fmt.Sprintf("tare.local/finder:%d", os.Getpid()) }

// archive is an image of one static busybox, as engines load it.
func archive(t *testing.T) []byte {
	t.Helper()
	program := busybox(t)
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		err := errors.Join(
			w.WriteHeader(&tar.Header{Name: "bin/busybox", Mode: 0o755, Size: int64(len(program))}),
			func() error { _, err := w.Write(program); return err }(),
			w.Close(),
		)
		return io.NopCloser(&b), err
	})
	if err != nil {
		t.Fatal(err)
	}
	diff, err := layer.DiffID()
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{diff}},
	})
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(reference())
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := tarball.Write(tag, img, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func busybox(t *testing.T) []byte {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs a static busybox: apt-get install busybox-static")
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Skip("needs a static busybox: apt-get install busybox-static")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sleepers is a program of two processes that never end by themselves.
var sleepers = []string{"/bin/busybox", "sh", "-c", "/bin/busybox sleep 3600 & wait"}

// start runs the sleepers in a container of the engine's.
func start(t *testing.T, socket, called string) (id string) {
	t.Helper()
	c, err := client.New(client.WithHost("unix://" + socket))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	if _, err := c.Ping(ctx, client.PingOptions{}); err != nil {
		t.Skipf("needs an engine at %s: %v", socket, err)
	}
	loaded, err := c.ImageLoad(ctx, bytes.NewReader(archive(t)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, loaded)
	if err = errors.Join(err, loaded.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := c.ImageRemove(ctx, reference(), client.ImageRemoveOptions{})
		if err = errors.Join(err, c.Close()); err != nil {
			t.Error(err)
		}
	})
	made, err := c.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: called, Config: &container.Config{Image: reference(), Entrypoint: sleepers, Labels: map[string]string{"tare.test": "finder"}},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := c.ContainerRemove(ctx, made.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	})
	if _, err := c.ContainerStart(ctx, made.ID, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	return made.ID
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to ask the engines and to make containers")
	}
}

const dockerSocket = "/var/run/docker.sock"

// The same container is found by its name, by what containerd knows of it, and by
// its control group; and found once.
func TestDockersContainer(t *testing.T) {
	needsRoot(t)
	called := fmt.Sprintf("tare-finder-%d", os.Getpid())
	id := start(t, dockerSocket, called)
	for _, c := range []struct {
		who    string
		finder *Finder
		asked  string
		name   string
	}{
		{"everybody", Open(Options{}), called, called},
		{"Docker", Open(Options{Containerd: []string{}}), id[:6], called},
		{"containerd", Open(Options{Docker: []string{}}), id, id[:12]},
		{"nobody", Open(Options{Docker: []string{}, Containerd: []string{}}), id[:12], id[:12]},
	} {
		t.Run(c.who, func(t *testing.T) {
			all, notes, err := c.finder.All(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n := len(slices.DeleteFunc(all, func(c Container) bool { return c.ID != id })); n != 1 {
				if c.who == "containerd" && len(notes) > 0 {
					t.Skipf("needs Docker's containerd: %v", notes)
				}
				t.Errorf("found %d times (%v)", n, notes)
			}
			found, err := c.finder.Find(t.Context(), c.asked)
			if err != nil {
				t.Fatal(err)
			}
			if found.Engine != Docker || found.ID != id || found.Name != c.name || found.PID == 0 || found.Cgroup == "" {
				t.Errorf("found %+v", found)
			}
			if c.who == "Docker" && (found.Image != reference() || !strings.HasPrefix(found.ImageID, "sha256:") || found.Labels["tare.test"] != "finder") {
				t.Errorf("found %+v", found)
			}
			pids, err := found.Processes()
			if err != nil || len(pids) == 0 || pids[0] != found.PID || !slices.Contains([]int{1, 2}, len(pids)) {
				t.Errorf("its processes are %d (%v), want the shell %d, and what it has started", pids, err, found.PID)
			}
		})
	}
}

func TestContainerdsContainer(t *testing.T) {
	needsRoot(t)
	var socket string
	for _, s := range usual("CONTAINERD_ADDRESS", containerdSockets, true) {
		if listens, note := Open(Options{}).reach(t.Context(), Containerd, s); listens && note == nil {
			socket = s
		}
	}
	if socket == "" {
		t.Skip("needs containerd: apt-get install containerd, or a Docker engine")
	}
	c, err := containerd.New(socket)
	if err != nil {
		t.Fatal(err)
	}
	called := fmt.Sprintf("finder-%d", os.Getpid())
	ctx := namespaces.WithNamespace(context.WithoutCancel(t.Context()), "tare-"+called)
	t.Cleanup(func() {
		err := c.NamespaceService().Delete(ctx, "tare-"+called)
		if err = errors.Join(err, c.Close()); err != nil {
			t.Error(err)
		}
		// containerd leaves the control group of a namespace, of which its containers'
		// are members.
		for _, pattern := range []string{"/sys/fs/cgroup/tare-" + called, "/sys/fs/cgroup/*/tare-" + called} {
			left, err := filepath.Glob(pattern)
			if err != nil {
				t.Error(err)
			}
			for _, dir := range left {
				if err := os.Remove(dir); err != nil {
					t.Error(err)
				}
			}
		}
	})
	imported, err := c.Import(ctx, bytes.NewReader(archive(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range imported {
		t.Cleanup(func() {
			if err := c.ImageService().Delete(ctx, i.Name, images.SynchronousDelete()); err != nil {
				t.Error(err)
			}
		})
	}
	img := containerd.NewImage(c, imported[0])
	if err := img.Unpack(ctx, "native"); err != nil {
		t.Fatal(err)
	}
	made, err := c.NewContainer(ctx, called, containerd.WithImage(img), containerd.WithSnapshotter("native"),
		containerd.WithNewSnapshot(called, img), containerd.WithNewSpec(oci.WithImageConfig(img), oci.WithProcessArgs(sleepers...)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := made.Delete(ctx, containerd.WithSnapshotCleanup); err != nil {
			t.Error(err)
		}
	})
	task, err := made.NewTask(ctx, cio.NullIO)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := task.Delete(ctx, containerd.WithProcessKill); err != nil {
			t.Error(err)
		}
	})
	f := Open(Options{Docker: []string{}, Containerd: []string{socket}})
	var unknown *Unknown
	if _, err := f.Find(t.Context(), called); !errors.As(err, &unknown) {
		t.Errorf("not yet started, and found: %v", err)
	}
	if err := task.Start(ctx); err != nil {
		t.Fatal(err)
	}
	found, err := f.Find(t.Context(), called)
	if err != nil {
		t.Fatal(err)
	}
	if found.Engine != Containerd || found.Image != imported[0].Name || found.ImageID != imported[0].Target.Digest.String() ||
		found.PID != int(task.Pid()) || filepath.Base(found.Cgroup) != called {
		t.Errorf("found %+v", found)
	}
	if pids, err := found.Processes(); err != nil || len(pids) == 0 || pids[0] != found.PID {
		t.Errorf("its processes are %d (%v)", pids, err)
	}
}

// A process brings what it has started, and nothing else.
func TestOfProcess(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs sh")
	}
	cmd := exec.Command(shell, "-c", "sleep 3600 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var child int
	line, err := bufio.NewReader(out).ReadString('\n')
	if _, scanErr := fmt.Sscan(line, &child); err != nil || scanErr != nil {
		t.Fatal(line, err, scanErr)
	}
	c, err := OfProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if c.Engine != Process || c.Name != fmt.Sprintf("sh/%d", c.PID) || c.Cgroup != "" {
		t.Errorf("%+v", c)
	}
	if pids, err := c.Processes(); err != nil || !slices.Equal(pids, []int{cmd.Process.Pid, child}) {
		t.Errorf("processes %d, want the shell %d and its child %d (%v)", pids, cmd.Process.Pid, child, err)
	}
	started, err := os.FindProcess(child)
	if err == nil {
		err = errors.Join(started.Kill(), cmd.Process.Kill())
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	var ended *Ended
	if _, err := OfProcess(c.PID); !errors.As(err, &ended) {
		t.Errorf("a process that has ended: %v", err)
	}
	if pids, err := c.Processes(); err != nil || len(pids) != 0 {
		t.Errorf("what has ended has the processes %d (%v)", pids, err)
	}
}

// /proc answers for a thread as for a process.
func TestOfThread(t *testing.T) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil || id == os.Getpid() {
			continue
		}
		if _, err := OfProcess(id); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("pid:%d", os.Getpid())) {
			t.Errorf("of a thread of process %d: %v", os.Getpid(), err)
		}
		return
	}
	t.Skip("needs a second thread")
}
