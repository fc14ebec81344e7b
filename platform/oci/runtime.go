package oci

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/go-runc"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"tare/kernel/cgroup"
	"tare/kernel/file"
	"tare/kernel/mount"
	"tare/kernel/process"
	"tare/platform"
	"tare/platform/held"
	"tare/platform/ocispec"
	"tare/platform/rootfs"
)

// notes is where the runtime keeps what it knows of its containers.
func (p *oci) notes() string {
	return filepath.Join(p.options.StateDir, "oci", filepath.Base(p.runtime))
}

// place finds the directory of a new instance, and makes that of the notes: a runtime
// that makes its own lets others look into it.
func (p *oci) place(name string) (trials, dir string, err error) {
	if err := file.Private(filepath.Dir(p.notes())); err != nil {
		return "", "", err
	}
	return rootfs.Place(p.options.StateDir, name)
}

// client speaks to the runtime. log is where it writes what went wrong.
func (p *oci) client(log string) *runc.Runc {
	c := &runc.Runc{
		Command: p.runtime, Root: p.notes(), Log: log, LogFormat: runc.JSON,
		// If tare is killed, a runtime under way must not finish a container
		// that nobody knows of: what it has made by then, the ledger names.
		PdeathSignal: syscall.SIGKILL,
	}
	if p.sandboxed() {
		c.ExtraArgs = sandboxFlags
	}
	return c
}

// call runs f, which starts the runtime, where the runtime sees of the host
// what it can bear, on a thread that lives as long as f: a parent's death, to
// the kernel, is the death of the thread that started the child.
func (p *oci) call(f func() error) error {
	if len(p.hidden) == 0 {
		return process.OnFreshThread(f)
	}
	return mount.Hiding(p.hidden, f)
}

// monitor starts runtimes on the calling thread, whose mount namespace and
// whose life [oci.call] sees to; go-runc's own would take another.
type monitor struct{ runc.ProcessMonitor }

func (m monitor) StartLocked(c *exec.Cmd) (chan runc.Exit, error) { return m.Start(c) }

// go-runc has one monitor for all its clients, and no other way to set one.
func init() { runc.Monitor = monitor{runc.Monitor} }

// patience is how long a runtime that is under way may take to come to an end
// after its caller has given up. Killed in between it would leave things for
// us to find; milliseconds later it has an end of its own.
const patience = 10 * time.Second

// unhurried is ctx, ended only after patience.
func unhurried(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(patience, cancel)
		context.AfterFunc(late, func() { timer.Stop() })
	})
	return late, func() { stop(); cancel() }
}

// streams hand the program its standard output and error; its input is
// /dev/null (os/exec opens it for the runtime, which passes it on).
type streams struct{ stdout, stderr *os.File }

var _ runc.IO = streams{}

func (s streams) Set(cmd *exec.Cmd)     { cmd.Stdout, cmd.Stderr = s.stdout, s.stderr }
func (s streams) Close() error          { return errors.Join(s.stdout.Close(), s.stderr.Close()) }
func (s streams) Stdin() io.WriteCloser { return nil }
func (s streams) Stdout() io.ReadCloser { return nil }
func (s streams) Stderr() io.ReadCloser { return nil }

// drop closes what of them is open still.
func (s streams) drop() {
	for _, f := range []*os.File{s.stdout, s.stderr} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// caller is a thread that waits to start the runtime, so that a start need not
// wait for the thread: where the runtime must not see some of the host's
// mounts, making it takes a mount namespace. Where that is allowed it is a
// punctual one ([process.Punctual]): on CPUs that are busy, an ordinary one would
// wait in line between the start and the fork. It stays so until it ends.
type caller struct {
	work  chan func() error // holds one
	bell  *os.File          // written to or closed, wakes the thread
	ended chan error
}

func (p *oci) newCaller() (*caller, error) {
	// A goroutine that waits for a channel is woken by whichever ordinary thread
	// the Go scheduler finds. A thread asleep in the kernel is woken by the kernel:
	// Fd makes reading block.
	heard, bell, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	heard.Fd()
	c := &caller{work: make(chan func() error, 1), bell: bell, ended: make(chan error, 1)}
	ready := make(chan struct{})
	go func() {
		defer heard.Close()
		c.ended <- p.call(func() error {
			_, _ = process.Punctual() // or it goes on without; never restored, since the thread ends
			close(ready)
			_, _ = heard.Read(make([]byte, 1))
			select {
			case f := <-c.work:
				return f()
			default:
				return nil
			}
		})
	}()
	select {
	case <-ready:
		return c, nil
	case err := <-c.ended:
		_ = bell.Close()
		return nil, err
	}
}

// do has the thread run f, which it does once.
func (c *caller) do(f func() error) error {
	c.work <- f
	// Written, and not only closed: a program that is being forked elsewhere has the
	// descriptor, too, until it executes.
	if _, err := c.bell.Write([]byte{1}); err != nil {
		return err
	}
	_ = c.bell.Close()
	return <-c.ended
}

// dismiss lets the thread end, if it has not been called.
func (c *caller) dismiss() {
	if c != nil {
		_ = c.bell.Close() // an earlier call may have
	}
}

// leavesItsChild names the runtimes whose "run --detach" ends without waiting
// for the program, however soon that ends, so that its status is ours to take.
// Others may reap it themselves (crun 1.8.1 does): they are asked to create and
// to start, and have ended when the program begins.
var leavesItsChild = map[string]bool{"runc": true}

// Verbs are the runtime's own commands, with their flags, by which a start is
// made here; besides, each is given the container's id, the runtime's notes and
// log, and the first the bundle and the file for the process' id.
//
// It is the shortest way of each runtime that leaves the program's exit status
// to be taken: one command where the runtime's "run --detach" does, two where it
// does not. (An engine's shim always calls two.) Who compares a start with one
// made by hand uses the same.
func Verbs(runtime string) []string {
	if leavesItsChild[filepath.Base(runtime)] {
		return []string{"run --detach"}
	}
	return []string{"create", "start"}
}

// run has the runtime start the bundle's program and returns when it says
// that it runs. The runtime's complaint, if any, is the error.
func (l *launch) run(ctx context.Context) error {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	log := filepath.Join(l.dir, "log.json")
	client := l.client(log)
	if l.sandboxed() {
		client.ExtraArgs = append(slices.Clone(client.ExtraArgs), sandboxNetwork(l.spec.Setting.Network))
	}
	options := &runc.CreateOpts{IO: l.streams, PidFile: pidFile(l.dir)}
	id := l.spec.Name
	err := l.caller.do(func() error {
		// What the thread has, the runtime inherits, and its program from it: through
		// every clone and execution, since nothing here is set-uid.
		if err := process.SetASLR(l.spec.Setting.ASLR); err != nil {
			return err
		}
		l.began = time.Now()
		if leavesItsChild[filepath.Base(l.runtime)] {
			options.Detach = true
			_, err := client.Run(ctx, id, l.dir, options)
			return err
		}
		if err := client.Create(ctx, id, l.dir, options); err != nil {
			return err
		}
		if l.sandboxed() {
			if err := l.takeSandbox(); err != nil {
				return err
			}
		}
		if err := l.takeHidden(); err != nil {
			return err
		}
		return client.Start(ctx, id)
	})
	if err == nil {
		return nil
	}
	if said := complaint(log); said != "" {
		return errors.New(said)
	}
	return err
}

func pidFile(dir string) string { return filepath.Join(dir, "pid") }

// delete makes the runtime forget a container, ending it if it runs. One that
// it does not know is forgotten already.
func (p *oci) delete(ctx context.Context, id string) error {
	if id == "" || id != filepath.Base(id) {
		return fmt.Errorf("%q is not a container's id", id)
	}
	noted, err := p.noted(id)
	if err != nil || len(noted) == 0 {
		return err
	}
	deleting := p.call(func() error { return p.client("").Delete(ctx, id, &runc.DeleteOpts{Force: true}) })
	// A runtime that was killed while it made its notes cannot read them. The
	// processes are ended by their cgroup; what is left are the notes.
	if noted, err = p.noted(id); err != nil {
		return err
	}
	for _, n := range noted {
		if err := os.RemoveAll(n); err != nil {
			return fmt.Errorf("%s delete %s: %w", p.runtime, id, errors.Join(deleting, err))
		}
	}
	return nil
}

// noted lists what the runtime keeps of a container: a directory of its name,
// or files that begin with it (runsc).
func (p *oci) noted(id string) ([]string, error) {
	entries, err := os.ReadDir(p.notes())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var noted []string
	for _, e := range entries {
		if e.Name() == id || strings.HasPrefix(e.Name(), id+"_sandbox:") {
			noted = append(noted, filepath.Join(p.notes(), e.Name()))
		}
	}
	return noted, nil
}

// complaint gives the last error in a runtime's log.
func complaint(log string) string {
	b, err := os.ReadFile(log)
	if err != nil {
		return ""
	}
	return lastError(bytes.NewReader(b))
}

// lastError finds the last error in a log of JSON lines, as the runtimes write
// it with --log-format json.
func lastError(r io.Reader) string {
	var last string
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var said struct {
			Level string `json:"level"`
			Msg   string `json:"msg"`
		}
		if json.Unmarshal(scan.Bytes(), &said) == nil && (said.Level == "error" || said.Level == "fatal") {
			last = strings.TrimSpace(said.Msg)
		}
	}
	return last
}

// probe finds out, once, whether the runtime can bear version 1 and version 2
// control groups beside each other. It asks by a launch that cannot succeed,
// of a program that is not there: only the reason why matters.
func (p *oci) probe(ctx context.Context) error {
	p.probing.Lock()
	defer p.probing.Unlock()
	if p.probed {
		return nil
	}
	layout, err := cgroup.Host()
	if err != nil {
		return err
	}
	unified, ok := layout.Unified()
	if !ok || layout.Mode() == "v2" || p.sandboxed() {
		p.probed = true
		return nil
	}
	said, err := p.hopeless(ctx)
	if err != nil {
		return fmt.Errorf("finding out what %s needs on this host: %w", p.runtime, err)
	}
	if strings.Contains(said, "hybrid") {
		p.hidden = []string{unified.Mount}
	}
	p.probed = true
	return nil
}

// hopeless launches what is not there and gives the runtime's complaint. It
// does so in a directory like an instance's, entered in the ledger.
func (p *oci) hopeless(ctx context.Context) (said string, err error) {
	trials, dir, err := p.place(platform.Unique("probe"))
	if err != nil {
		return "", err
	}
	things := held.New(p.options.Ledger)
	err = things.Take(ctx, platform.Entry{Platform: p.Name(), Kind: held.Directory, ID: dir}, func() error {
		said, err = p.ask(ctx, dir)
		return err
	}, func(context.Context) error { return rootfs.Remove(trials, dir) })
	return said, errors.Join(err, things.Drop(context.WithoutCancel(ctx)))
}

func (p *oci) ask(ctx context.Context, dir string) (string, error) {
	config := &specs.Spec{
		Version: "1.0.2",
		Root:    &specs.Root{Path: filepath.Join(dir, "root")},
		Process: &specs.Process{Args: []string{"/not-there"}, Cwd: "/", Env: []string{"PATH=/"}},
		Mounts:  ocispec.Mounts()[:1],
		Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{
			{Type: specs.PIDNamespace},
			{Type: specs.MountNamespace},
			{Type: specs.IPCNamespace},
			{Type: specs.UTSNamespace},
		}},
	}
	for _, d := range []string{"root/proc", "root/dev", "notes"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return "", err
		}
	}
	if err := writeConfig(dir, config); err != nil {
		return "", err
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return "", err
	}
	defer null.Close()
	log := filepath.Join(dir, "log.json")
	client := p.client(log)
	client.Root = filepath.Join(dir, "notes")
	id := filepath.Base(dir)
	ctx, cancel := unhurried(ctx)
	defer cancel()
	// In the foreground, where a runtime waits for its own helpers.
	err = p.call(func() error {
		_, err := client.Run(ctx, id, dir, &runc.CreateOpts{IO: streams{null, null}})
		return err
	})
	if err == nil {
		return "", errors.New("it started a program that is not there")
	}
	return complaint(log), nil
}

func writeConfig(dir string, config *specs.Spec) error {
	b, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), b, 0o600)
}
