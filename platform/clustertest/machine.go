package clustertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"tare/kernel/netns"
	"tare/kernel/process"
	"tare/kernel/procfs"
)

// Machine is a process that stands for a computer, and what it started.
type Machine struct {
	Name string

	dir    string // holds the machine's own directories
	first  process.Identity
	cmd    *exec.Cmd      // of the first process
	input  io.WriteCloser // orders, and then names of programs to start; the machine ends with it
	orders *json.Encoder
	up     chan struct{}
	gone   chan struct{} // closed when nothing runs there any more
}

// orders are what a machine's first process is told.
type orders struct {
	Name     string
	Dir      string              // what holds its own directories
	InMemory []string            // directories whose files are in memory alone
	Shown    [][2]string         // a file or directory of the host's, and where it is shown
	Programs map[string][]string // their command lines
}

// ownDirs are the directories of a machine that are not the host's.
var ownDirs = []string{"var", "run", "tmp"}

// report is what a machine tells.
type report struct {
	Up      bool   `json:",omitempty"`
	Program string `json:",omitempty"`
	Code    int    // with which the program has ended
	Error   string `json:",omitempty"`
}

// boot starts a machine. describe writes what the machine needs into its directories, and lists its
// programs.
func (c *Cluster) boot(ctx context.Context, name string, describe func(m *Machine, o *orders) error) (*Machine, error) {
	m := &Machine{
		Name: name, dir: filepath.Join(c.dir, name),
		up: make(chan struct{}), gone: make(chan struct{}),
	}
	for _, dir := range []string{"var/lib", "var/log", "var/cache", "var/tmp", "run", "tmp"} {
		if err := os.MkdirAll(m.Path(dir), 0o755); err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{"tmp", "var/tmp"} {
		if err := os.Chmod(m.Path(dir), 0o777|fs.ModeSticky); err != nil {
			return nil, err
		}
	}
	if err := os.Symlink("/run", m.Path("var/run")); err != nil && !errors.Is(err, fs.ErrExist) { // it booted before
		return nil, err
	}
	if err := c.group.Child(name).Create(); err != nil {
		return nil, err
	}
	o := orders{Name: name, Dir: m.dir, Programs: map[string][]string{}}
	if err := describe(m, &o); err != nil {
		return nil, err
	}
	if err := m.start(c, o); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	select {
	case <-m.up:
		return m, nil
	case <-m.gone:
		said, _ := os.ReadFile(m.Path("/var/log/first.log"))
		return nil, fmt.Errorf("starting %s: its first process has ended: %s", name, said)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (m *Machine) start(c *Cluster, o orders) error {
	said, err := os.Create(m.Path("/var/log/first.log"))
	if err != nil {
		return err
	}
	defer said.Close()
	reports, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirs.Close()
	m.cmd = exec.Command("/proc/self/exe")
	m.cmd.Args = append([]string{enterName}, c.group.Child(m.Name).ProcessFiles()...)
	m.cmd.Env = []string{}
	m.cmd.Stderr, m.cmd.ExtraFiles = said, []*os.File{theirs}
	m.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Unshareflags: syscall.CLONE_NEWNS, // and what is mounted there does not spread
		Setpgid:      true,                // a terminal's signals are the starter's
	}
	if m.input, err = m.cmd.StdinPipe(); err != nil {
		return errors.Join(err, reports.Close())
	}
	if err := m.cmd.Start(); err != nil {
		return errors.Join(err, reports.Close())
	}
	c.booted = append(c.booted, m)
	go func() {
		defer reports.Close()
		m.listen(c, reports)
		_ = m.cmd.Wait() // it is always killed, or at the end of its input
		close(m.gone)
	}()
	if m.first, err = process.Identify(m.cmd.Process.Pid); err != nil {
		return err
	}
	if err := c.record(m.first); err != nil {
		return err
	}
	m.orders = json.NewEncoder(m.input)
	return m.orders.Encode(o)
}

// listen takes reports until the machine ends.
func (m *Machine) listen(c *Cluster, reports io.Reader) {
	for d := json.NewDecoder(reports); ; {
		var r report
		if d.Decode(&r) != nil {
			return
		}
		switch {
		case r.Up:
			close(m.up)
		case r.Error != "":
			c.failed(fmt.Errorf("%s: starting %s: %s", m.Name, r.Program, r.Error))
		default:
			log := m.Path("/var/log/" + r.Program + ".log")
			err := fmt.Errorf("%s: %s has ended with status %d: %s", m.Name, r.Program, r.Code, lastLine(log))
			c.failed(err)
			c.log("%v", err)
		}
	}
}

func lastLine(path string) string {
	tail := process.Tail{Most: 4 << 10}
	if f, err := os.Open(path); err == nil {
		_, _ = io.Copy(&tail, f)
		_ = f.Close()
	}
	return tail.LastLine()
}

// Path is where a path of the machine's own directories, such as /var/lib/tare, is on the host.
func (m *Machine) Path(inside string) string { return filepath.Join(m.dir, inside) }

// network is the file of the machine's network namespace.
func (m *Machine) network() string { return procfs.Host.Process(m.first.PID).Path("ns/net") }

// within runs f on a thread in the machine's network namespace.
func (m *Machine) within(f func() error) error {
	return process.OnFreshThread(func() error {
		if err := netns.Enter(m.network()); err != nil {
			return err
		}
		return f()
	})
}

// Start starts programs of the machine. Those of a node are containerd, kubelet and kube-proxy, which a
// test may have ended. Their output is appended to /var/log/PROGRAM.log of the machine.
func (m *Machine) Start(programs ...string) error {
	for _, program := range programs {
		if err := m.orders.Encode(program); err != nil {
			return fmt.Errorf("%s: starting %s: %w", m.Name, program, err)
		}
	}
	return nil
}

// Crash ends everything that runs on the machine at once, as a loss of power does. The machine does
// not come back.
func (m *Machine) Crash(ctx context.Context) error { return m.first.Kill(ctx) }

// Process finds the process of a program of the machine, such as kubelet, for a test to end it.
func (m *Machine) Process(program string) (process.Identity, error) {
	children, err := procfs.Host.Process(m.first.PID).Children()
	if err != nil {
		return process.Identity{}, err
	}
	for _, pid := range children {
		args, err := procfs.Host.Process(pid).Args()
		if err != nil || len(args) == 0 || filepath.Base(args[0]) != program {
			continue
		}
		return process.Identify(pid)
	}
	return process.Identity{}, fmt.Errorf("%s: no process of %s", m.Name, program)
}
