package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/image"
	"tare/kernel/cgroup"
	"tare/kernel/process"
	"tare/platform"
	"tare/platform/engine"
)

// fakeEngine answers the few requests that a launch makes, over a unix socket,
// and fails at the step that a test names.
type fakeEngine struct {
	*httptest.Server
	mu    sync.Mutex
	fault map[string]func(http.ResponseWriter, *http.Request)
	id    string // of the container
	mark  string // label of the container that "exists"
	asked []string
}

// since empties the list of what was asked, and gives it.
func (f *fakeEngine) since() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.asked
	f.asked = nil
	return asked
}

// The steps of a launch, in order, and what else is asked.
const (
	stepInfo    = "info"
	stepCreate  = "create"
	stepAttach  = "attach"
	stepWait    = "wait"
	stepStart   = "start"
	stepInspect = "inspect"
	stepRemove  = "remove"
	stepImage   = "image"
	stepLoad    = "load"
	stepPing    = "ping"
	stepExport  = "export"
	stepImport  = "import"
)

func step(r *http.Request) string {
	path := r.URL.Path
	switch {
	case strings.HasSuffix(path, "/_ping"):
		return stepPing
	case strings.HasSuffix(path, "/info"):
		return stepInfo
	case strings.HasSuffix(path, "/containers/create"):
		return stepCreate
	case strings.HasSuffix(path, "/attach"):
		return stepAttach
	case strings.HasSuffix(path, "/wait"):
		return stepWait
	case strings.HasSuffix(path, "/start"):
		return stepStart
	case strings.HasSuffix(path, "/images/load"):
		return stepLoad
	case strings.HasSuffix(path, "/images/create"):
		return stepImport
	case strings.HasSuffix(path, "/export"):
		return stepExport
	case strings.Contains(path, "/images/"):
		return stepImage
	case r.Method == http.MethodDelete:
		return stepRemove
	}
	return stepInspect
}

func newFakeEngine(t *testing.T, fault map[string]func(http.ResponseWriter, *http.Request)) (*fakeEngine, *Platform, *notebook) {
	t.Helper()
	dir, err := os.MkdirTemp("", "tare") // short: a socket's path has 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "engine.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeEngine{fault: fault, id: "0123456789abcdef"}
	f.Server = httptest.NewUnstartedServer(f)
	f.Server.Listener = listener
	f.Server.Start()
	t.Cleanup(func() { f.Server.CloseClientConnections(); f.Server.Close() })
	ledger := &notebook{}
	p := New(Options{Host: "unix://" + socket, StateDir: dir, Ledger: ledger})
	p.requests.Patience = 300 * time.Millisecond
	return f, p, ledger
}

func (f *fakeEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := step(r)
	f.mu.Lock()
	f.asked = append(f.asked, s)
	f.mu.Unlock()
	w.Header().Set("Api-Version", "1.41")
	w.Header().Set("Ostype", "linux")
	w.Header().Set("Content-Type", "application/json")
	f.mu.Lock()
	fault := f.fault[s]
	f.mu.Unlock()
	if fault != nil {
		fault(w, r)
		return
	}
	switch s {
	case stepPing:
		fmt.Fprint(w, "OK")
	case stepInfo:
		fmt.Fprint(w, `{"OSType":"linux","CgroupDriver":"cgroupfs","DefaultRuntime":"runc","DockerRootDir":"/var/lib/docker"}`)
	case stepCreate:
		body, _ := io.ReadAll(r.Body)
		if _, rest, ok := strings.Cut(string(body), `"`+labelLedger+`":"`); ok {
			f.mu.Lock()
			f.mark, _, _ = strings.Cut(rest, `"`)
			f.mu.Unlock()
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"Id":%q}`, f.id)
	case stepAttach:
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		io.WriteString(conn, "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
		io.WriteString(conn, "\x01\x00\x00\x00\x00\x00\x00\x05hello")
		conn.Close()
	case stepWait:
		w.(http.Flusher).Flush()
		fmt.Fprint(w, `{"StatusCode":0}`)
	case stepStart, stepRemove:
		w.WriteHeader(http.StatusNoContent)
		if s == stepRemove {
			f.mu.Lock()
			f.mark = ""
			f.mu.Unlock()
		}
	case stepInspect:
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.mark == "" {
			refuse(http.StatusNotFound, "No such container")(w, r)
			return
		}
		fmt.Fprintf(w, `{"Id":%q,"State":{"Pid":0},"Config":{"Labels":{%q:%q}}}`, f.id, labelLedger, f.mark)
	default:
		refuse(http.StatusNotFound, "no such thing")(w, r)
	}
}

func refuse(status int, message string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"message":%q}`, message)
	}
}

// hang never answers, as an engine that is stopped or thrashing.
func hang(_ http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body) // only then does the server notice that the client hangs up
	<-r.Context().Done()
}

// die closes the connection without a word, as an engine that is killed.
func die(w http.ResponseWriter, _ *http.Request) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		conn.Close()
	}
}

func fakeSpec(t *testing.T) platform.Spec {
	root := t.TempDir()
	program := filepath.Join(root, "bin/true")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	return platform.Spec{Name: "fake", Args: []string{"true"}, Image: image.Image{Name: "fake", Root: root, Reference: "tare.local/fake:1"}}
}

func TestFakeEngineLaunches(t *testing.T) {
	_, p, ledger := newFakeEngine(t, nil)
	var stdout strings.Builder
	spec := fakeSpec(t)
	spec.Stdout = &stdout
	inst, err := p.Launch(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, inst); exit.Code != 0 || stdout.String() != "hello" {
		t.Errorf("%+v, output %q", exit, stdout.String())
	}
	if err := inst.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if left := ledger.open(); len(left) != 0 {
		t.Errorf("left in the ledger: %v", left)
	}
	// Of a program that was over before the engine could name its process:
	if _, err := inst.InForce(); !errors.Is(err, platform.ErrGone) {
		t.Errorf("InForce: %v, want ErrGone", err)
	}
	if _, err := inst.Usage(); !errors.Is(err, platform.ErrGone) {
		t.Errorf("Usage: %v, want ErrGone", err)
	}
}

var launchSteps = []string{stepInfo, stepCreate, stepAttach, stepWait, stepStart, stepInspect}

func TestLaunchOnAnEngineThatFails(t *testing.T) {
	for _, at := range launchSteps {
		for kind, fault := range map[string]func(http.ResponseWriter, *http.Request){
			"refuses": refuse(http.StatusInternalServerError, "broken\nin two lines"),
			"hangs":   hang,
			"dies":    die,
		} {
			t.Run(at+" "+kind, func(t *testing.T) {
				_, p, ledger := newFakeEngine(t, map[string]func(http.ResponseWriter, *http.Request){at: fault})
				spec := fakeSpec(t)
				spec.Stdout = io.Discard
				_, err := p.Launch(t.Context(), spec)
				if err == nil {
					t.Fatal("Launch succeeded")
				}
				refused := kind == "refuses"
				if at != stepAttach && errors.Is(err, platform.ErrGone) == refused {
					t.Errorf("error %v wraps ErrGone: %v", err, !refused)
				}
				if first, _, _ := strings.Cut(err.Error(), "\n"); refused && at != stepAttach && !strings.Contains(first, "broken in two lines") {
					t.Errorf("error %q is not the engine's words in one line", err)
				}
				// An entry may be crossed out only where the engine has said
				// that the container is gone.
				unsure := !refused && at == stepCreate || at == stepInspect
				if left := ledger.open(); (len(left) > 0) != unsure {
					t.Errorf("left in the ledger: %v, want some: %v", left, unsure)
				}
			})
		}
	}
}

func TestWaitOnAnEngineThatGoesAway(t *testing.T) {
	for kind, fault := range map[string]func(http.ResponseWriter, *http.Request){
		"hangs": func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			hang(w, r)
		},
		"dies": func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			die(w, r)
		},
	} {
		t.Run(kind, func(t *testing.T) {
			_, p, _ := newFakeEngine(t, map[string]func(http.ResponseWriter, *http.Request){stepWait: fault})
			inst, err := p.Launch(t.Context(), fakeSpec(t))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := inst.Wait(t.Context()); !errors.Is(err, platform.ErrGone) {
					t.Errorf("Wait: %v, want ErrGone", err)
				}
			}
			if err := inst.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStepsAskForTheirOwn: a start is one request, and nothing that can be asked
// before or after is asked with it.
func TestStepsAskForTheirOwn(t *testing.T) {
	f, p, ledger := newFakeEngine(t, nil)
	if err := p.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.since()
	expect := func(what string, want ...string) {
		t.Helper()
		if asked := f.since(); !slices.Equal(asked, want) {
			t.Errorf("%s asks for %q, want %q", what, asked, want)
		}
	}
	c, err := p.Create(t.Context(), fakeSpec(t))
	if err != nil {
		t.Fatal(err)
	}
	expect("Create of one whose output nobody wants", stepCreate, stepWait)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("Start", stepStart)
	inst, err := c.Instance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	expect("Instance", stepInspect)
	wait(t, inst)
	if err := c.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	expect("Stop", stepInspect, stepRemove)
	if left := ledger.open(); len(left) != 0 {
		t.Errorf("left in the ledger: %v", left)
	}
}

// TestStartOnAnEngineThatFails: the failure is reported, and Stop removes what is
// there whether or not anybody answers the wait.
func TestStartOnAnEngineThatFails(t *testing.T) {
	for kind, fault := range map[string]func(http.ResponseWriter, *http.Request){
		"refuses": refuse(http.StatusInternalServerError, "broken\nin two lines"),
		"hangs":   hang,
		"dies":    die,
	} {
		t.Run(kind, func(t *testing.T) {
			_, p, ledger := newFakeEngine(t, map[string]func(http.ResponseWriter, *http.Request){
				stepStart: fault,
				stepWait: func(w http.ResponseWriter, r *http.Request) {
					w.(http.Flusher).Flush()
					hang(w, r)
				},
			})
			c, err := p.Create(t.Context(), fakeSpec(t))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(t.Context()); err == nil || errors.Is(err, platform.ErrGone) == (kind == "refuses") {
				t.Errorf("Start: %v", err)
			}
			if err := c.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			if left := ledger.open(); len(left) != 0 {
				t.Errorf("left in the ledger: %v", left)
			}
		})
	}
}

// TestExitOnRecord: an engine that loses the wait, but knows the exit.
func TestExitOnRecord(t *testing.T) {
	var f *fakeEngine
	var p *Platform
	f, p, _ = newFakeEngine(t, map[string]func(http.ResponseWriter, *http.Request){
		stepWait: func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			hang(w, r)
		},
		stepInspect: func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.mark == "" {
				refuse(http.StatusNotFound, "No such container")(w, r)
				return
			}
			fmt.Fprintf(w, `{"Id":"0123456789abcdef","State":{"Status":"exited","ExitCode":5},"Config":{"Labels":{%q:%q}}}`, labelLedger, f.mark)
		},
	})
	inst, err := p.Launch(t.Context(), fakeSpec(t))
	if err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, inst); exit.Code != 5 || exit.Elapsed <= 0 {
		t.Errorf("%+v, want the code on record", exit)
	}
	if err := inst.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWaitCancelled(t *testing.T) {
	_, p, _ := newFakeEngine(t, map[string]func(http.ResponseWriter, *http.Request){stepWait: func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		hang(w, r)
	}})
	inst, err := p.Launch(t.Context(), fakeSpec(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := inst.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v, want Canceled", err)
	}
	if err := inst.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStopOnAnEngineThatWillNotRemove(t *testing.T) {
	f, p, ledger := newFakeEngine(t, map[string]func(http.ResponseWriter, *http.Request){stepRemove: refuse(http.StatusInternalServerError, "device or resource busy")})
	inst, err := p.Launch(t.Context(), fakeSpec(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := inst.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("Stop: %v, want the engine's reason", err)
	}
	if left := ledger.open(); len(left) != 1 {
		t.Errorf("ledger %v, want the container", left)
	}
	delete(f.fault, stepRemove)
	if err := inst.Stop(t.Context()); err != nil {
		t.Errorf("Stop again: %v", err)
	}
	if left := ledger.open(); len(left) != 0 {
		t.Errorf("ledger %v, want nothing", left)
	}
}

// runs is a program in the cgroup of the fake's container, as an engine makes it.
func (f *fakeEngine) runs(t *testing.T) process.Identity {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a cgroup")
	}
	layout, err := cgroup.Host()
	if err != nil {
		t.Fatal(err)
	}
	f.id = engine.NewMark() // other tests run beside this one
	group := layout.At(platform.CgroupParent).Child(f.id)
	if err := group.Create(); err != nil {
		t.Fatal(err)
	}
	program := exec.Command("sleep", "3600")
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = program.Process.Kill()
		_ = program.Wait()
		if err := group.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	id, err := process.Identify(program.Process.Pid)
	if err == nil {
		err = group.Add(id.PID)
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestStopOnAnEngineThatWasLost: once an engine has failed to answer, a program
// is ended before the engine is asked again, which is then once, for a short time.
func TestStopOnAnEngineThatWasLost(t *testing.T) {
	var program process.Identity
	var f *fakeEngine
	f, p, ledger := newFakeEngine(t, map[string]func(http.ResponseWriter, *http.Request){
		stepStart: die,
		stepInspect: func(w http.ResponseWriter, r *http.Request) {
			if program.Alive() {
				t.Error("the engine is asked while the program goes on")
			}
			hang(w, r)
		},
	})
	p.requests.Patience, p.requests.Brief = time.Hour, 100*time.Millisecond // a removal that took the hour would fail the test
	program = f.runs(t)
	c, err := p.Create(t.Context(), fakeSpec(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); !errors.Is(err, platform.ErrGone) {
		t.Fatalf("Start: %v, want ErrGone", err)
	}
	f.since()
	if err := c.Stop(t.Context()); !errors.Is(err, platform.ErrGone) {
		t.Errorf("Stop: %v, want ErrGone", err)
	}
	if program.Alive() {
		t.Error("the program goes on")
	}
	if asked := f.since(); !slices.Equal(asked, []string{stepInspect}) {
		t.Errorf("Stop asks for %q, want to look once", asked)
	}
	if left := ledger.open(); len(left) != 1 {
		t.Errorf("ledger %v, want the container", left)
	}
	delete(f.fault, stepInspect)
	p.requests.Brief = time.Hour
	if err := c.Stop(t.Context()); err != nil {
		t.Errorf("Stop, with the engine back: %v", err)
	}
	if p.requests.Lost.Load() {
		t.Error("an engine that answers is taken for lost")
	}
	if left := ledger.open(); len(left) != 0 {
		t.Errorf("ledger %v, want nothing", left)
	}
}

// TestStopOfAnInstanceOnAnEngineThatWasLost: nor is the program's end waited for
// any longer.
func TestStopOfAnInstanceOnAnEngineThatWasLost(t *testing.T) {
	f, p, ledger := newFakeEngine(t, map[string]func(http.ResponseWriter, *http.Request){stepWait: func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		hang(w, r)
	}})
	p.requests.Patience, p.requests.Brief = time.Hour, 100*time.Millisecond
	inst, err := p.Launch(t.Context(), fakeSpec(t))
	if err != nil {
		t.Fatal(err)
	}
	f.fault[stepInspect] = hang
	p.requests.Lost.Store(true)
	if err := inst.Stop(t.Context()); !errors.Is(err, platform.ErrGone) {
		t.Errorf("Stop: %v, want ErrGone", err)
	}
	if _, err := inst.Wait(t.Context()); !errors.Is(err, platform.ErrGone) {
		t.Errorf("Wait: %v, want ErrGone", err)
	}
	if left := ledger.open(); len(left) != 1 {
		t.Errorf("ledger %v, want the container", left)
	}
}

// TestStopWhoseTimeIsOver ends the program all the same, and asks nobody.
func TestStopWhoseTimeIsOver(t *testing.T) {
	f, p, ledger := newFakeEngine(t, nil)
	program := f.runs(t)
	c, err := p.Create(t.Context(), fakeSpec(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	f.since()
	if err := c.Stop(over); !errors.Is(err, context.Canceled) {
		t.Errorf("Stop: %v, want Canceled", err)
	}
	if program.Alive() {
		t.Error("the program goes on")
	}
	if asked := f.since(); len(asked) != 0 {
		t.Errorf("Stop asks for %q", asked)
	}
	if left := ledger.open(); len(left) != 1 {
		t.Errorf("ledger %v, want the container", left)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if left := ledger.open(); len(left) != 0 {
		t.Errorf("ledger %v, want nothing", left)
	}
}

func TestCheckSaysWhatIsMissing(t *testing.T) {
	_, answering, _ := newFakeEngine(t, nil)
	if err := answering.Check(t.Context()); err != nil {
		t.Errorf("an engine that answers: %v", err)
	}
	for name, tt := range map[string]struct {
		host  string
		fault map[string]func(http.ResponseWriter, *http.Request)
		want  string
	}{
		"no socket": {host: "unix:///nonexistent/engine.sock", want: "no Docker engine answers at /nonexistent/engine.sock"},
		"no podman": {host: "unix:///nonexistent/podman.sock", want: "systemctl start podman.socket"},
		"elsewhere": {host: "tcp://192.0.2.1:2375", want: "another machine"},
		"malformed": {host: "nonsense", want: "nonsense"},
		"hangs":     {fault: map[string]func(http.ResponseWriter, *http.Request){stepInfo: hang}, want: "no Docker engine answers"},
		"dies":      {fault: map[string]func(http.ResponseWriter, *http.Request){stepInfo: die}, want: "no Docker engine answers"},
		"refuses":   {fault: map[string]func(http.ResponseWriter, *http.Request){stepInfo: refuse(500, "out of order")}, want: "out of order"},
		"too old": {fault: map[string]func(http.ResponseWriter, *http.Request){stepPing: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Api-Version", "1.24")
		}}, want: "speaks version 1.24 of the API, and tare requires 1.40: update it to Docker Engine 19.03"},
		"windows engine":  {fault: map[string]func(http.ResponseWriter, *http.Request){stepInfo: info(`{"OSType":"windows"}`)}, want: "windows containers"},
		"another machine": {fault: map[string]func(http.ResponseWriter, *http.Request){stepInfo: info(`{"OSType":"linux","KernelVersion":"0.1"}`)}, want: "another kernel"},
	} {
		t.Run(name, func(t *testing.T) {
			var p *Platform
			if tt.host != "" {
				p = New(Options{Host: tt.host, StateDir: t.TempDir(), Ledger: &notebook{}})
			} else {
				_, p, _ = newFakeEngine(t, tt.fault)
			}
			err := p.Check(t.Context())
			missing := new(platform.Missing)
			if !errors.As(err, &missing) {
				t.Fatalf("error %v, want a *Missing", err)
			}
			if !strings.Contains(err.Error(), tt.want) || missing.Mend == "" || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, mend %q: want one line with %q", err, missing.Mend, tt.want)
			}
			if tt.host != "" {
				if _, err := p.Launch(t.Context(), fakeSpec(t)); err == nil {
					t.Error("Launch succeeded")
				}
			}
		})
	}
}

func info(answer string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) }
}

// archived is an image whose archive exists, as a file of one entry.
func archived(t *testing.T) image.Image {
	t.Helper()
	name := filepath.Join(t.TempDir(), "image.tar")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := tar.NewWriter(file)
	if err := w.WriteHeader(&tar.Header{Name: "manifest.json"}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return image.Image{Name: "fake", Archive: name, Reference: "tare.local/fake:1"}
}

func TestPrepareOnAnEngineThatFails(t *testing.T) {
	for name, tt := range map[string]struct {
		load   func(http.ResponseWriter, *http.Request)
		ping   func(http.ResponseWriter, *http.Request)
		want   string
		gone   bool
		unsure bool
	}{
		"full disk": {load: info(`{"errorDetail":{"message":"write /var/lib/docker/tmp/x: no space left on device"},"error":"..."}`), want: "disk (/var/lib/docker) is full"},
		"no tag":    {load: info(`{"stream":"Loaded image ID: sha256:00"}`), want: "holds no image tagged"},
		"dies":      {load: die, want: "went away", gone: true, unsure: true},
		"hangs":     {load: hang, ping: hang, want: "has not answered", gone: true, unsure: true},
	} {
		t.Run(name, func(t *testing.T) {
			f, p, ledger := newFakeEngine(t, map[string]func(http.ResponseWriter, *http.Request){stepLoad: tt.load})
			if err := p.Check(t.Context()); err != nil { // so that it knows the engine's directory, as every run does
				t.Fatal(err)
			}
			if tt.ping != nil {
				f.fault[stepPing] = tt.ping
			}
			err := p.Prepare(t.Context(), archived(t))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if errors.Is(err, platform.ErrGone) != tt.gone {
				t.Errorf("error %v wraps ErrGone: %v", err, !tt.gone)
			}
			if left := ledger.open(); (len(left) > 0) != tt.unsure {
				t.Errorf("ledger %v, want entries: %v", left, tt.unsure)
			}
		})
	}
}

func TestExportNamesSimilarImages(t *testing.T) {
	_, p, _ := newFakeEngine(t, map[string]func(http.ResponseWriter, *http.Request){
		stepImage: func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/images/json") {
				io.WriteString(w, `[{"RepoTags":["alpine:3.20","alpine:3.19"]},{"RepoTags":["tare.local/alpin:1","postgres:16"]},{"RepoTags":null}]`)
				return
			}
			refuse(http.StatusNotFound, "No such image")(w, r)
		},
	})
	_, err := p.Export(t.Context(), "alpin")
	want := `the engine has no image "alpin" (tare never pulls); did you mean alpine:3.19, alpine:3.20?`
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
