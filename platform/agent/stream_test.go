package agent_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tare/image"
	"tare/platform"
	"tare/platform/agent"
	"tare/platform/conformance"
	"tare/probe"
	"tare/probe/causes"
)

// of serves one platform.
func of(p platform.Platform) func(string) (platform.Platform, error) {
	return func(name string) (platform.Platform, error) {
		if name != p.Name() {
			return nil, fmt.Errorf("no platform %q", name)
		}
		return p, nil
	}
}

// small is an image of one file.
func small(t testing.TB) image.Image {
	t.Helper()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "file"), []byte("content\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	digest, err := image.WriteLayer(t.Context(), io.Discard, root)
	if err != nil {
		t.Fatal(err)
	}
	return image.Image{Name: "small", Digest: digest, Root: root, Config: image.Config{Env: []string{"A=1"}}}
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to keep owners of files")
	}
}

func TestVersionsMustBeEqual(t *testing.T) {
	client, server := net.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- (&agent.Server{Version: "1.2", Platforms: of(newFake())}).Serve(context.Background(), server)
	}()
	_, err := agent.Connect(t.Context(), client, "1.3")
	var mismatch *agent.Mismatch
	if !errors.As(err, &mismatch) || mismatch.Own != "1.3" || mismatch.Peer != "1.2" {
		t.Fatalf("%v, want a *Mismatch of 1.3 and 1.2", err)
	}
	for _, want := range []string{"1.2", "1.3", "same tare"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if err := <-served; err != nil {
		t.Errorf("a client that went away is the server's error: %v", err)
	}
}

// A peer that takes what is said and never answers keeps nobody longer than allowed.
func TestSilentAgent(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	go io.Copy(io.Discard, server)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := agent.Connect(ctx, client, version)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no agent answers") {
		t.Errorf("%v, want one of the deadline that says what to look for", err)
	}
}

// Who speaks something else is distinguished from an agent, at either end.
func TestOtherProtocols(t *testing.T) {
	client, server := sockets(t)
	go func() {
		defer server.Close()
		_, _ = io.WriteString(server, "SSH-2.0-OpenSSH_9.2 is what listens here\r\n")
		_, _ = io.Copy(io.Discard, server)
	}()
	if _, err := agent.Connect(t.Context(), client, version); !errors.Is(err, platform.ErrGone) {
		t.Errorf("an ssh server: %v", err)
	}

	browser, asked := sockets(t)
	served := make(chan error, 1)
	go func() {
		served <- (&agent.Server{Version: version, Platforms: of(newFake())}).Serve(context.Background(), asked)
	}()
	_, _ = io.WriteString(browser, "GET / HTTP/1.1\r\nHost: agent\r\n\r\n")
	if err := <-served; err == nil || !strings.Contains(err.Error(), "tare's agent") {
		t.Errorf("a browser: %v", err)
	}
}

// Whatever call goes on when the stream is cut: it ends on both sides, the client's with
// ErrGone, and nothing is left at the agent.
func TestStreamCutInEachCall(t *testing.T) {
	needRoot(t)
	img := small(t)
	spec := platform.Spec{Name: "cut", Image: img, Args: []string{"program"}}
	launched := func(t *testing.T, p platform.Platform) platform.Instance {
		t.Helper()
		inst, err := p.Launch(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		return inst
	}
	made := func(t *testing.T, p platform.Platform) platform.Created {
		t.Helper()
		c, err := p.(platform.Creator).Create(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ctx := context.Background()
	for call, does := range map[string]func(t *testing.T, p platform.Platform) func() error{
		"check": func(_ *testing.T, p platform.Platform) func() error { return func() error { return p.Check(ctx) } },
		"prepare": func(_ *testing.T, p platform.Platform) func() error {
			return func() error { return p.Prepare(ctx, img) }
		},
		"remove": func(_ *testing.T, p platform.Platform) func() error {
			return func() error { return p.Remove(ctx, platform.Entry{}) }
		},
		"launch": func(_ *testing.T, p platform.Platform) func() error {
			return func() error { _, err := p.Launch(ctx, spec); return err }
		},
		"create": func(_ *testing.T, p platform.Platform) func() error {
			return func() error { _, err := p.(platform.Creator).Create(ctx, spec); return err }
		},
		"start": func(t *testing.T, p platform.Platform) func() error {
			c := made(t, p)
			return func() error { return c.Start(ctx) }
		},
		"hold": func(t *testing.T, p platform.Platform) func() error {
			c := made(t, p)
			return func() error { _, err := c.Instance(ctx); return err }
		},
		"wait": func(t *testing.T, p platform.Platform) func() error {
			inst := launched(t, p)
			return func() error { _, err := inst.Wait(ctx); return err }
		},
	} {
		t.Run(call, func(t *testing.T) {
			f := newFake(call)
			client, server := sockets(t)
			served := make(chan error, 1)
			go func() {
				s := &agent.Server{Version: version, Platforms: of(creator{f}), ImageDir: t.TempDir()}
				served <- s.Serve(context.Background(), server)
			}()
			c, err := agent.Connect(t.Context(), client, version)
			if err != nil {
				t.Fatal(err)
			}
			p := c.Platform("fake")
			if call != "prepare" {
				if err := p.Prepare(t.Context(), img); err != nil {
					t.Fatal(err)
				}
			}
			run := does(t, p)
			ended := make(chan error, 1)
			go func() { ended <- run() }()
			<-f.entered
			client.Close()
			if err := <-ended; !errors.Is(err, platform.ErrGone) {
				t.Errorf("the call ended with %v, want one that wraps ErrGone", err)
			}
			<-c.Done()
			if err := <-served; err != nil {
				t.Errorf("Serve: %v", err)
			}
			if left := f.left(); left != 0 {
				t.Errorf("%d instances are left at the agent", left)
			}
		})
	}
}

// A caller that gives up ends its call at the agent, by its own time's error.
func TestGivingUpCrosses(t *testing.T) {
	needRoot(t)
	f := newFake("launch", "check")
	client, server := net.Pipe()
	c := serve(t, &agent.Server{Version: version, Platforms: of(f), ImageDir: t.TempDir()}, client, server)
	p, img := c.Platform("fake"), small(t)
	if err := p.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Launch(ctx, platform.Spec{Name: "given-up", Image: img, Args: []string{"program"}})
		ended <- err
	}()
	<-f.entered
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want one that wraps context.Canceled", err)
	}
	if left := f.left(); left != 0 {
		t.Errorf("%d instances are left", left)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := p.Check(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want one that wraps context.DeadlineExceeded", err)
	}
	if _, ok := p.(platform.Creator); ok {
		t.Error("a platform that creates nothing is said to be a Creator")
	}
}

// An image that is not what it is said to be is refused, and nothing of it is kept; nor
// of one whose crossing ends half-way.
func TestImageThatLies(t *testing.T) {
	needRoot(t)
	client, server := net.Pipe()
	images := t.TempDir()
	c := serve(t, &agent.Server{Version: version, Platforms: of(newFake()), ImageDir: images}, client, server)
	p, img := c.Platform("fake"), small(t)
	lie := img
	lie.Digest = "sha256:" + hex.EncodeToString(make([]byte, 32))
	err := p.Prepare(t.Context(), lie)
	var refused *image.Refused
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), img.Digest) || !strings.Contains(err.Error(), lie.Digest) {
		t.Errorf("%v, want a *image.Refused that names both digests", err)
	}
	keepsNothing(t, images)
	lie.Digest = "../../etc"
	if err := p.Prepare(t.Context(), lie); err == nil {
		t.Error("took a path for a digest")
	}

	if err := p.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	if has, err := c.Has(t.Context(), img.Digest); err != nil || !has {
		t.Errorf("after it has crossed: %v, %v", has, err)
	}
	// It crosses once: from now on its root need not be there.
	img.Root = filepath.Join(img.Root, "nowhere")
	for _, again := range []image.Image{img, {Name: "other", Digest: img.Digest, Root: img.Root}} {
		if err := p.Prepare(t.Context(), again); err != nil {
			t.Errorf("again: %v", err)
		}
	}
}

// A crossing that ends half-way leaves nothing either.
func TestImageCutShort(t *testing.T) {
	needRoot(t)
	images := t.TempDir()
	client, server := net.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- (&agent.Server{Version: version, Platforms: of(newFake()), ImageDir: images}).Serve(context.Background(), server)
	}()
	c, err := agent.Connect(t.Context(), client, version)
	if err != nil {
		t.Fatal(err)
	}
	img := small(t)
	gone := img
	gone.Root = filepath.Join(img.Root, "nowhere")
	if err := c.Platform("fake").Prepare(t.Context(), gone); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a root that is not there: %v", err)
	}
	// And one that is cut by its caller while the layer is on its way.
	if err := os.WriteFile(filepath.Join(img.Root, "large"), make([]byte, 64<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if at, _ := filepath.Glob(filepath.Join(images, "tmp", "work-*", "root", "file")); len(at) > 0 {
				return
			}
			time.Sleep(time.Millisecond) // another's file makes no event
		}
	}()
	if err := c.Platform("fake").Prepare(ctx, img); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	keepsNothing(t, images)
}

// keepsNothing checks that a store has neither an image nor a part of one.
func keepsNothing(t *testing.T, store string) {
	t.Helper()
	for _, dir := range []string{"roots", "archives", "index", "tmp"} {
		entries, err := os.ReadDir(filepath.Join(store, dir))
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			t.Errorf("left: %s/%s", dir, e.Name())
		}
	}
}

// An image on a device does not cross.
func TestAttach(t *testing.T) {
	client, server := net.Pipe()
	var mounted []string
	img := small(t)
	s := &agent.Server{Version: version, Platforms: of(newFake()), Mount: func(_ context.Context, device, digest string) (string, error) {
		mounted = append(mounted, device)
		if device == "/dev/none" {
			return "", os.ErrNotExist
		}
		return img.Root, nil
	}}
	c := serve(t, s, client, server)
	if err := c.Attach(t.Context(), img.Digest, "/dev/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a device that is not there: %v", err)
	}
	for range 2 {
		if err := c.Attach(t.Context(), img.Digest, "/dev/vdb"); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Platform("fake").Prepare(t.Context(), image.Image{Name: "on a disk", Digest: img.Digest, Root: "/nowhere"}); err != nil {
		t.Errorf("it crossed: %v", err)
	}
	if len(mounted) != 2 {
		t.Errorf("mounted %v, want once each", mounted)
	}
}

// counting counts what is written, and looks each time how far ahead the program is.
type counting struct {
	printed *atomic.Int64
	got     int64
	ahead   int64
}

func (c *counting) Write(p []byte) (int, error) {
	c.got += int64(len(p))
	c.ahead = max(c.ahead, c.printed.Load()-c.got)
	return len(p), nil
}

// A program that prints faster than its output is taken waits: what is on its way is
// bounded.
func TestOutputHasBackPressure(t *testing.T) {
	needRoot(t)
	const total, most = 64 << 20, 16 << 20
	var printed atomic.Int64
	f := newFake()
	done := make(chan error, 1)
	f.print = func(spec platform.Spec) {
		piece := make([]byte, 128<<10)
		for printed.Load() < total {
			n, err := spec.Stdout.Write(piece)
			printed.Add(int64(n))
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}
	client, server := net.Pipe()
	c := serve(t, &agent.Server{Version: version, Platforms: of(f), ImageDir: t.TempDir()}, client, server)
	p, img := c.Platform("fake"), small(t)
	if err := p.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	got := &counting{printed: &printed}
	inst, err := p.Launch(t.Context(), platform.Spec{Name: "prints", Image: img, Args: []string{"program"}, Stdout: got})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := inst.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit, err := inst.Wait(t.Context()); err != nil || exit.Code != 137 {
		t.Errorf("after its stop: %+v, %v", exit, err)
	}
	if got.got != printed.Load() {
		t.Errorf("of %d bytes %d came", printed.Load(), got.got)
	}
	if got.ahead > most {
		t.Errorf("the program was %d bytes ahead, want at most %d", got.ahead, most)
	}
}

// failing is a writer whose disk is full.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// Whoever cannot take the output is reported by Wait, and the program is not stopped by it.
func TestWriterThatFails(t *testing.T) {
	needRoot(t)
	f := newFake()
	f.print = func(spec platform.Spec) { _, _ = spec.Stdout.Write(make([]byte, 4<<20)); close(f.entered) }
	client, server := net.Pipe()
	c := serve(t, &agent.Server{Version: version, Platforms: of(f), ImageDir: t.TempDir()}, client, server)
	p, img := c.Platform("fake"), small(t)
	if err := p.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	inst, err := p.Launch(t.Context(), platform.Spec{Name: "prints", Image: img, Args: []string{"program"}, Stdout: failing{}})
	if err != nil {
		t.Fatal(err)
	}
	<-f.entered // it could print all
	if err := inst.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := inst.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("Wait: %v, want the writer's error", err)
	}
}

// echo answers one connection with what it sends, once that has ended.
func echo(t *testing.T) (port int) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				all, _ := io.ReadAll(conn)
				_, _ = conn.Write(all)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// Bytes reach a port of an instance both ways, and each direction ends by itself.
func TestPortsAreReached(t *testing.T) {
	needRoot(t)
	port := echo(t)
	client, server := sockets(t)
	c := serve(t, &agent.Server{Version: version, Platforms: of(newFake()), ImageDir: t.TempDir()}, client, server)
	c.Machine = "vm:fake"
	sent := make([]byte, 3<<20)
	_, _ = rand.Read(sent)
	check := func(conn net.Conn, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() {
			_, _ = conn.Write(sent)
			_ = conn.(interface{ CloseWrite() error }).CloseWrite()
		}()
		got, err := io.ReadAll(conn)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes came back, %v; want the %d that went", len(got), err, len(sent))
		}
	}
	p, img := c.Platform("fake"), small(t)
	if err := p.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	inst, err := p.Launch(t.Context(), platform.Spec{Name: "serves", Image: img, Args: []string{"program"}, Ports: []int{port}})
	if err != nil {
		t.Fatal(err)
	}
	at := inst.Address(port)
	check(net.Dial("tcp", at))
	if again := inst.Address(port); again != at {
		t.Errorf("at %s, and asked again at %s", at, again)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().(*net.TCPAddr).Port
	l.Close()
	for _, port := range []int{nobody, 0} {
		conn, err := net.Dial("tcp", inst.Address(port))
		if err == nil { // it accepts at once, and ends as soon as the agent says so
			_, err = conn.Read(make([]byte, 1))
			conn.Close()
		}
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("port %d, which nobody serves: %v", port, err)
		}
	}
	if machine := inst.(platform.Apart).Machine(); machine != "vm:fake" {
		t.Errorf("on machine %q", machine)
	}
	if err := inst.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", at); err == nil {
		t.Error("its listener survived its stop")
	}
}

// Of one clock, two readings differ by no more than what is said of the error.
func TestClock(t *testing.T) {
	client, server := net.Pipe()
	c := serve(t, &agent.Server{Version: version, Platforms: of(newFake())}, client, server)
	clock, err := c.Clock(t.Context())
	if err != nil || clock.Within <= 0 || clock.Offset.Abs() > clock.Within {
		t.Errorf("%+v, %v", clock, err)
	}
	hello := c.Hello()
	if hello.CPUs < 1 || hello.Memory <= 0 || hello.Kernel == "" || hello.Version != version {
		t.Errorf("of the host: %+v", hello)
	}
}

// seen is a watch that gives a reading.
type seen struct{ reading causes.Reading }

func (s *seen) Stop(context.Context) (causes.Reading, error) { return s.reading, nil }

func TestWatchCrosses(t *testing.T) {
	needRoot(t)
	want := causes.Reading{CPUs: 3, Migrations: 5, Off: []causes.Stack{{Program: "p", Frames: []string{"a", "b"}, Time: 7}}}
	lacks := true
	s := &agent.Server{Version: version, Platforms: of(newFake()), ImageDir: t.TempDir(), Watch: func(target causes.Target, o causes.Options) (platform.Watch, error) {
		if lacks {
			return nil, &probe.Missing{Probe: "causes", What: "no BTF", Mend: "another kernel"}
		}
		if !o.Stacks || len(target.PIDs) != 1 {
			t.Errorf("asked to watch %+v by %+v", target, o)
		}
		return &seen{want}, nil
	}}
	client, server := net.Pipe()
	c := serve(t, s, client, server)
	p, img := c.Platform("fake"), small(t)
	if err := p.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	inst, err := p.Launch(t.Context(), platform.Spec{Name: "watched", Image: img, Args: []string{"program"}})
	if err != nil {
		t.Fatal(err)
	}
	watching := inst.(platform.Watching)
	var missing *probe.Missing
	if _, err := watching.Watch(t.Context(), causes.Options{}); !errors.As(err, &missing) || missing.What != "no BTF" {
		t.Errorf("where the kernel lacks it: %v", err)
	}
	lacks = false
	w, err := watching.Watch(t.Context(), causes.Options{Stacks: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := w.Stop(t.Context())
		if err != nil || got.CPUs != want.CPUs || got.Migrations != want.Migrations || len(got.Off) != 1 || got.Off[0].Frames[1] != "b" {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
}

// A real program is watched at the agent, in its own control group.
func TestWatchOfAProgram(t *testing.T) {
	needRoot(t)
	client, server := net.Pipe()
	s := &agent.Server{Version: version, Platforms: host(t.TempDir(), nil), ImageDir: t.TempDir()}
	c := serve(t, s, client, server)
	p, img := c.Platform("bare"), conformance.Image(t)
	if err := p.Check(t.Context()); err != nil {
		t.Skip(err)
	}
	if err := p.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	inst, err := p.Launch(t.Context(), platform.Spec{
		Name: fmt.Sprintf("watched-%d", os.Getpid()), Image: img, Stdout: once{ready},
		Args: []string{"sh", "-c", "echo ready; read x < /dev/null; while :; do sleep 0.001; done"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := inst.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	<-ready
	w, err := inst.(platform.Watching).Watch(t.Context(), causes.Options{})
	if missing := new(probe.Missing); errors.As(err, &missing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	before, err := inst.Usage()
	if err != nil {
		t.Fatal(err)
	}
	onCPU(t, inst, before.CPU+20*time.Millisecond)
	reading, err := w.Stop(t.Context())
	if err != nil || reading.CPUTime <= 0 || reading.Voluntary == 0 {
		t.Errorf("%+v, %v", reading, err)
	}
}

// onCPU waits until a program has been on a CPU for so long, which makes no event; that
// it ends before does.
func onCPU(t *testing.T, inst platform.Instance, enough time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan string, 1)
	go func() {
		exit, err := inst.Wait(ctx)
		ended <- fmt.Sprintf("%+v, %v", exit, err)
	}()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		usage, err := inst.Usage()
		if err != nil {
			t.Fatal(err)
		}
		if usage.CPU > enough {
			return
		}
		select {
		case how := <-ended:
			t.Fatalf("the program ended after %v on a CPU: %s", usage.CPU, how)
		case <-again.C:
		}
	}
}

// once reports the first bytes that come.
type once struct{ came chan struct{} }

func (o once) Write(p []byte) (int, error) {
	select {
	case <-o.came:
	default:
		close(o.came)
	}
	return len(p), nil
}

func TestPowerOff(t *testing.T) {
	off := make(chan struct{})
	client, server := net.Pipe()
	c := serve(t, &agent.Server{Version: version, Platforms: of(newFake()), PowerOff: func() { close(off) }}, client, server)
	if err := c.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-off
	client, server = net.Pipe()
	c = serve(t, &agent.Server{Version: version, Platforms: of(newFake())}, client, server)
	var missing *platform.Missing
	if err := c.PowerOff(t.Context()); !errors.As(err, &missing) {
		t.Errorf("an agent that does not: %v", err)
	}
	if err := c.Platform("nothing").Check(t.Context()); !errors.As(err, &missing) || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("a platform that it has not: %v", err)
	}
}
