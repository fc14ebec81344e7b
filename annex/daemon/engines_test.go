package daemon

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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
	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"tare/annex"
	"tare/annex/annextest"
	"tare/annex/control"
	"tare/container"
	"tare/kernel/cgroup"
	"tare/kernel/swap/swaptest"
)

// answer has so much memory, and checks every byte of it for whoever connects.
func answer(socket string) error {
	size, err := strconv.Atoi(os.Getenv(bytesVariable))
	if err != nil {
		return err
	}
	_, check, err := annextest.Fill(size)
	if err != nil {
		return err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) { // of before a restart
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		fmt.Fprintln(c, check())
		_ = c.Close()
	}
}

// contained is a program in an engine's container.
type contained struct {
	called string // as its engine knows it
	socket string
	class  annex.Class
	// What a status is to say of it.
	engine      container.Engine
	name, image string
}

// ask has it check its memory, once that is filled.
func (c contained) ask(t *testing.T) string {
	t.Helper()
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var conn net.Conn
		if conn, err = net.Dial("unix", c.socket); err != nil {
			continue
		}
		text, reading := io.ReadAll(conn)
		_ = conn.Close()
		return cmp.Or(strings.TrimSpace(string(text)), fmt.Sprintf("%s says nothing: %v", c.called, reading))
	}
	return err.Error()
}

// in finds it in a status.
func (c contained) in(s control.Status) (control.Context, bool) {
	i := slices.IndexFunc(s.Contexts, func(o control.Context) bool { return o.Name == c.name })
	if i < 0 {
		return control.Context{}, false
	}
	return s.Contexts[i], true
}

// inside is where containers have the program, and the directory of its sockets.
const (
	insideProgram = "/holder"
	insideSockets = "/sockets"
)

// engines starts containers in one group, whatever engines there are.
type engines struct {
	mark    string       // of this run, in all names
	box     cgroup.Place // the group that all containers are in
	program []byte
	sockets string
	docker  *client.Client // nil where there is none
}

func newEngines(t *testing.T, box cgroup.Group) *engines {
	t.Helper()
	place, _ := box.For("memory")
	e := &engines{mark: fmt.Sprintf("tare-daemon-%d", os.Getpid()), box: place, sockets: t.TempDir()}
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Skip("this test's program is not static, and so is none for a container: CGO_ENABLED=0 go test")
	}
	if e.program, err = os.ReadFile("/proc/self/exe"); err != nil {
		t.Fatal(err)
	}
	// Engines make the group in hierarchies where box was not.
	t.Cleanup(func() {
		layout, err := cgroup.Host()
		if err == nil {
			err = layout.At(place.Path).Remove(context.Background())
		}
		if err != nil {
			t.Error(err)
		}
	})
	return e
}

func (e *engines) environment(called string, size int) []string {
	return []string{bytesVariable + "=" + strconv.Itoa(size), socketVariable + "=" + filepath.Join(insideSockets, called)}
}

func (e *engines) reference(tag string) string { return "tare.local/" + e.mark + ":" + tag }

// archive is an image of the program alone, by several names.
func (e *engines) archive(t *testing.T, tags ...string) []byte {
	t.Helper()
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		err := w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(insideProgram, "/"), Mode: 0o755, Size: int64(len(e.program))})
		if err == nil {
			_, err = w.Write(e.program)
		}
		return io.NopCloser(&b), errors.Join(err, w.Close())
	}, tarball.WithCompressionLevel(1))
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
	all := map[name.Reference]v1.Image{}
	for _, tag := range tags {
		ref, err := name.NewTag(e.reference(tag))
		if err != nil {
			t.Fatal(err)
		}
		all[ref] = img
	}
	var b bytes.Buffer
	if err := tarball.MultiRefWrite(all, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// dial finds Docker, and loads images of these tags; the error is why there is none.
func (e *engines) dial(t *testing.T, tags ...string) error {
	t.Helper()
	c, err := client.New(client.WithHost("unix:///var/run/docker.sock"))
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(t.Context())
	info, err := c.Info(ctx, client.InfoOptions{})
	if err != nil {
		return errors.Join(fmt.Errorf("needs Docker (scripts/setup.sh engine): %w", err), c.Close())
	}
	if info.Info.CgroupDriver != "cgroupfs" {
		return errors.Join(fmt.Errorf("needs Docker with the cgroupfs driver, by which a container's group can be chosen: it has %s", info.Info.CgroupDriver), c.Close())
	}
	loaded, err := c.ImageLoad(ctx, bytes.NewReader(e.archive(t, tags...)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, loaded)
	if err = errors.Join(err, loaded.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var err error
		for _, tag := range tags {
			_, removing := c.ImageRemove(ctx, e.reference(tag), client.ImageRemoveOptions{})
			err = errors.Join(err, removing)
		}
		if err = errors.Join(err, c.Close()); err != nil {
			t.Error(err)
		}
	})
	e.docker = c
	return nil
}

// inDocker starts a program in a container of Docker's.
func (e *engines) inDocker(t *testing.T, called, tag string, class annex.Class, size int) contained {
	t.Helper()
	c := contained{
		called: e.mark + "-" + called, socket: filepath.Join(e.sockets, called), class: class,
		engine: container.Docker, name: e.mark + "-" + called, image: e.reference(tag),
	}
	ctx := context.WithoutCancel(t.Context())
	made, err := e.docker.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name:   c.called,
		Config: &dockercontainer.Config{Image: c.image, Entrypoint: []string{insideProgram}, Env: e.environment(called, size), Labels: map[string]string{"tare.test": e.mark + "-" + string(class)}},
		HostConfig: &dockercontainer.HostConfig{
			NetworkMode: "none", Binds: []string{e.sockets + ":" + insideSockets},
			Resources: dockercontainer.Resources{CgroupParent: e.box.Path},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := e.docker.ContainerRemove(ctx, made.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	})
	if _, err := e.docker.ContainerStart(ctx, made.ID, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	return c
}

// limit has Docker give a container another limit, and gives the file that has it.
func (e *engines) limit(t *testing.T, c contained, bytes int64) (file string) {
	t.Helper()
	_, err := e.docker.ContainerUpdate(t.Context(), c.called, client.ContainerUpdateOptions{Resources: &dockercontainer.Resources{Memory: bytes, MemorySwap: -1}})
	if err != nil {
		t.Fatal(err)
	}
	seen, err := e.docker.ContainerInspect(t.Context(), c.called, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at := e.box
	at.Path = filepath.Join(at.Path, seen.Container.ID)
	if at.Version == 2 {
		return at.File("memory.max")
	}
	return at.File("memory.limit_in_bytes")
}

// inContainerd starts a program in a container of containerd's own; the error is why it
// cannot.
func (e *engines) inContainerd(t *testing.T, called string, size int) (contained, error) {
	t.Helper()
	c := contained{
		called: e.mark + "-" + called, socket: filepath.Join(e.sockets, called), class: annex.Elastic,
		engine: container.Containerd, name: e.mark + "-" + called, image: e.reference(called),
	}
	var engine *containerd.Client
	err := errors.New("needs containerd: no socket of it is there (apt-get install containerd, or scripts/setup.sh engine)")
	for _, socket := range []string{"/run/containerd/containerd.sock", "/var/run/docker/containerd/containerd.sock"} {
		if _, looking := os.Stat(socket); looking != nil || engine != nil {
			continue
		}
		engine, err = containerd.New(socket, containerd.WithTimeout(2*time.Second))
	}
	if engine == nil {
		return c, err
	}
	ctx := namespaces.WithNamespace(context.WithoutCancel(t.Context()), e.mark)
	if _, err := engine.Version(ctx); err != nil {
		return c, errors.Join(fmt.Errorf("needs containerd: %w", err), engine.Close())
	}
	t.Cleanup(func() {
		if err := errors.Join(engine.NamespaceService().Delete(ctx, e.mark), engine.Close()); err != nil {
			t.Error(err)
		}
	})
	imported, err := engine.Import(ctx, bytes.NewReader(e.archive(t, called)))
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range imported {
		t.Cleanup(func() {
			if err := engine.ImageService().Delete(ctx, i.Name, images.SynchronousDelete()); err != nil {
				t.Error(err)
			}
		})
	}
	img := containerd.NewImage(engine, imported[0])
	if err := img.Unpack(ctx, "native"); err != nil {
		t.Fatal(err)
	}
	made, err := engine.NewContainer(ctx, c.called, containerd.WithImage(img), containerd.WithSnapshotter("native"), containerd.WithNewSnapshot(c.called, img),
		containerd.WithNewSpec(
			oci.WithImageConfig(img), oci.WithProcessArgs(insideProgram), oci.WithEnv(e.environment(called, size)),
			oci.WithCgroup(filepath.Join(e.box.Path, c.called)), oci.WithMounts([]specs.Mount{e.mount()}),
		))
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
	if err := task.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return c, nil
}

func (e *engines) mount() specs.Mount {
	return specs.Mount{Type: "bind", Source: e.sockets, Destination: insideSockets, Options: []string{"rbind", "rw"}}
}

// inRunc starts a program by runc, of which no engine knows; the error is why it cannot.
func (e *engines) inRunc(t *testing.T, called string, size int) (contained, error) {
	t.Helper()
	c := contained{
		called: e.mark + "-" + called, socket: filepath.Join(e.sockets, called), class: annex.Elastic,
		engine: container.Cgroup, name: filepath.Join(e.box.Path, called),
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return c, fmt.Errorf("needs runc: apt-get install runc: %w", err)
	}
	bundle, state := t.TempDir(), t.TempDir()
	root := filepath.Join(bundle, "root")
	spec := specs.Spec{
		Version: "1.0.2",
		Process: &specs.Process{Args: []string{insideProgram}, Env: e.environment(called, size), Cwd: "/"},
		Root:    &specs.Root{Path: root},
		Mounts:  []specs.Mount{{Type: "proc", Source: "proc", Destination: "/proc"}, e.mount()},
		Linux: &specs.Linux{
			CgroupsPath: c.name,
			Namespaces:  []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}, {Type: specs.NetworkNamespace}, {Type: specs.IPCNamespace}},
		},
	}
	text, err := json.Marshal(spec)
	err = errors.Join(err, os.Mkdir(root, 0o755), os.WriteFile(filepath.Join(root, insideProgram), e.program, 0o755),
		os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if out, err := exec.Command(runc, "--root", state, "delete", "--force", c.called).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	// What it says goes to a file: the container would hold a pipe open.
	said, err := os.Create(filepath.Join(bundle, "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	start := exec.Command(runc, "--root", state, "run", "--detach", "--bundle", bundle, c.called)
	start.Stdout, start.Stderr = said, said
	if err := start.Run(); err != nil {
		text, _ := os.ReadFile(said.Name())
		t.Fatalf("%v: %s", err, text)
	}
	return c, nil
}

// Containers of Docker's, of containerd's and of runc's are found and classed by what their
// engines and groups tell of them, those too that start later or again; what leaves of them
// comes back whole; and what their engines set meanwhile stays.
func TestEngines(t *testing.T) {
	const room = 384
	box := annextest.Box(t, "daemon", room<<20)
	e := newEngines(t, box)
	swaptest.File(t, "daemon", 512<<20)
	var all []contained
	var web, late contained
	lacks := map[string]error{}
	if lacks["docker"] = e.dial(t, "web", "batch"); lacks["docker"] == nil {
		web = e.inDocker(t, "web", "web", annex.Elastic, 24<<20)
		all = append(all, web,
			e.inDocker(t, "nightly", "batch", annex.Elastic, 24<<20),
			e.inDocker(t, "db", "web", annex.Critical, 12<<20))
		ignored := e.inDocker(t, "other", "web", annex.Ignored, 1<<20)
		defer func() { // whatever becomes of the rest, it is left alone
			if answer := ignored.ask(t); answer != "whole" {
				t.Error(answer)
			}
		}()
	}
	var c contained
	if c, lacks["containerd"] = e.inContainerd(t, "pod", 24<<20); lacks["containerd"] == nil {
		all = append(all, c)
	}
	if c, lacks["runc"] = e.inRunc(t, "bare", 24<<20); lacks["runc"] == nil {
		all = append(all, c)
	}
	for name, err := range lacks {
		if err != nil {
			t.Run(name, func(t *testing.T) { t.Skip(err) })
		}
	}
	if len(all) == 0 {
		t.Skip("there is no engine")
	}
	// Of each that is elastic a quarter has room beside the critical one, however many engines there are.
	headroom := room
	for _, c := range all {
		if headroom -= 6; c.class == annex.Critical {
			headroom -= 6
		}
	}
	dir := t.TempDir()
	path, socket := filepath.Join(dir, "annex.toml"), filepath.Join(dir, "annex.sock")
	text := fmt.Sprintf(`version = 1
mode = "manage"
[memory]
defend = %[1]q
headroom = "%[8]dMiB"
high = "%[9]dMiB"
reserve = "4MiB"
[control]
socket = %[2]q
[log]
file = %[3]q
[state]
directory = %[4]q
journal = %[5]q
[[rule]]
class = "critical"
label = "tare.test=%[6]s-critical"
[[rule]]
class = "elastic"
name = "%[6]s-web"
[[rule]]
class = "elastic"
name = "%[6]s-late*"
[[rule]]
class = "elastic"
image = "tare.local/%[6]s:batch"
[[rule]]
class = "elastic"
image = "tare.local/%[6]s:pod"
[[rule]]
class = "elastic"
cgroup = "%[7]s/bare*"
`, e.box.Path, socket, filepath.Join(dir, "decisions.jsonl"), filepath.Join(dir, "state"), filepath.Join(dir, "journal"), e.mark, e.box.Path, headroom, headroom+4)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	whole := func() {
		t.Helper()
		for _, c := range all {
			if answer := c.ask(t); answer != "whole" {
				t.Errorf("%s: %s", c.called, answer)
			}
		}
	}
	began := time.Now()
	step := func(what string) { t.Logf("%5.1fs %s", time.Since(began).Seconds(), what) }
	whole()

	step("start")
	p := start(t, path, socket)
	left := func(s control.Status) bool {
		for _, c := range all {
			if of, is := c.in(s); !is || c.class == annex.Elastic && of.ExtendedBytes < 8<<20 {
				return false
			}
		}
		return true
	}
	s := p.await(t, "8 MiB of each in swap", left)
	if len(s.Contexts) != len(all) {
		t.Errorf("%d containers are managed, want %d", len(s.Contexts), len(all))
	}
	for _, c := range all {
		of, _ := c.in(s)
		if engine, _, _ := strings.Cut(string(of.ID), ":"); of.Class != c.class || of.Image != c.image || engine != string(c.engine) {
			t.Errorf("%s is %s of %s, image %q; want %s of %s, image %q", c.name, of.Class, engine, of.Image, c.class, c.engine, c.image)
		}
		if c.class == annex.Critical && of.Moved.EvictedBytes != 0 {
			t.Errorf("%d bytes of %s left", of.Moved.EvictedBytes, c.name)
		}
	}
	step("evicted")
	whole()
	step("read by faults")
	before := s.Moved.EvictedBytes
	s = p.await(t, "as much again in swap", func(s control.Status) bool { return left(s) && s.Moved.EvictedBytes >= before+4<<20 })
	step("evicted again")

	var limit, want string
	if lacks["docker"] == nil {
		late = e.inDocker(t, "late", "web", annex.Elastic, 8<<20)
		s = p.await(t, "the late one", func(s control.Status) bool { _, is := late.in(s); return is })
		if of, _ := late.in(s); of.Class != annex.Elastic || of.Image != late.image {
			t.Errorf("%+v", of)
		}
		step("one that came was found")
		if _, err := e.docker.ContainerKill(t.Context(), late.called, client.ContainerKillOptions{}); err != nil {
			t.Fatal(err)
		}
		p.await(t, "the late one's end", func(s control.Status) bool { _, is := late.in(s); return !is })
		step("one that went was let go")

		first, _ := web.in(s)
		now := 0
		if _, err := e.docker.ContainerRestart(t.Context(), web.called, client.ContainerRestartOptions{Timeout: &now}); err != nil {
			t.Fatal(err)
		}
		p.await(t, "the restarted one", func(s control.Status) bool { c, is := web.in(s); return is && c.ID != first.ID })
		step("one that was restarted was found")
		if answer := web.ask(t); answer != "whole" {
			t.Error(answer)
		}
		// Its limit is set over and over, while what it has leaves.
		for mib := range int64(8) {
			limit = e.limit(t, web, (96-8*mib)<<20)
			want = strconv.FormatInt((96-8*mib)<<20, 10)
		}
		p.await(t, "8 MiB of the restarted one in swap", left)
		if got := contents(t, []string{limit}); got != want {
			t.Errorf("its limit is %s, and was set to %s", got, want)
		}
		step("evicted, with another limit")
	}

	p.end(syscall.SIGTERM)
	if limit != "" && contents(t, []string{limit}) != want {
		t.Errorf("after the end the limit is %s, and was set to %s", contents(t, []string{limit}), want)
	}
	step("ended")
	p = start(t, path, socket)
	s = p.await(t, "managing", func(s control.Status) bool { return s.State == control.Managing })
	for _, c := range all {
		if of, _ := c.in(s); c.class == annex.Elastic && of.ExtendedBytes < 4<<20 {
			t.Errorf("of %s %d bytes are found in swap", c.name, of.ExtendedBytes)
		}
	}
	if s.Moved.EvictedBytes != 0 {
		t.Errorf("%d bytes have left already: what was found says nothing", s.Moved.EvictedBytes)
	}
	step("adopted")

	if lacks["docker"] == nil {
		// It may have less than it has: what is above stays in swap, and its limit as it is.
		limit, want = e.limit(t, web, 20<<20), strconv.Itoa(20<<20)
	}
	// What comes back leaves the headroom alone: that was set so that nearly all leaves.
	text = strings.NewReplacer(fmt.Sprintf("%dMiB", headroom), "64MiB", fmt.Sprintf("%dMiB", headroom+4), "72MiB").Replace(text)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if restart, err := p.client.Reload(t.Context()); err != nil || len(restart) > 0 {
		t.Fatalf("reload: %v, %v", restart, err)
	}
	if err := p.client.Drain(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	s = p.await(t, "drained", func(s control.Status) bool { return s.State == control.Drained })
	for _, c := range all {
		of, _ := c.in(s)
		if tight := c.called == web.called; tight != (of.ExtendedBytes > 1<<20) {
			t.Errorf("of %s %d bytes are in swap after a drain (%+v)", c.name, of.ExtendedBytes, s.Drain)
		}
	}
	step("drained")
	if lacks["docker"] == nil {
		if got := contents(t, []string{limit}); got != want {
			t.Errorf("after a drain the limit is %s, and was set to %s", got, want)
		}
		limit, want = e.limit(t, web, 128<<20), strconv.Itoa(128<<20)
		if err := p.client.Drain(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		p.await(t, "the rest", func(s control.Status) bool {
			of, _ := web.in(s)
			return s.State == control.Drained && of.ExtendedBytes < 1<<20
		})
		step("drained what has room now")
	}
	whole()
	if err := p.client.Off(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.await(t, "off", func(s control.Status) bool { return s.State == control.Off })
	p.end(syscall.SIGTERM)
	if limit != "" && contents(t, []string{limit}) != want {
		t.Errorf("after all the limit is %s, and was set to %s", contents(t, []string{limit}), want)
	}
	whole()
	step("end")
}
