package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tare/kernel/clock"
	"tare/kernel/machine"
	"tare/kernel/mount"
	"tare/kernel/process"
	"tare/platform/agent"
)

// The names under which this program is started in the machine again.
const (
	agentName = "tare-guest-agent"
	// phasesVariable hands what was measured so far to the next start.
	phasesVariable = "TARE_GUEST_PHASES"
)

// openFiles is how many files the machine's programs may be given, as on a
// distribution's host.
const openFiles = 1 << 20

// phases are the steps of the boot so far. The clock is the kernel's monotonic one,
// which begins with the machine.
type phases struct {
	Steps []agent.Phase `json:"steps"`
	Last  time.Duration `json:"last"`
}

// begin takes over what an earlier start has measured; the first one finds the time
// that the kernel took.
func begin() *phases {
	p := &phases{}
	if json.Unmarshal([]byte(os.Getenv(phasesVariable)), p) != nil {
		p.done("kernel")
	}
	return p
}

func (p *phases) done(name string) {
	now := clock.Monotonic()
	p.Steps = append(p.Steps, agent.Phase{Name: name, Took: now - p.Last})
	p.Last = now
}

func (p *phases) variable() string {
	text, err := json.Marshal(p)
	if err != nil {
		return "" // durations and names always encode
	}
	return phasesVariable + "=" + string(text)
}

// first is the machine's first process, and never returns: the kernel panics when its
// first process ends.
func first() {
	reason := run()
	if !errors.Is(reason, errEnded) {
		complain(reason)
	}
	if err := machine.PowerOff(); err != nil {
		complain(err)
	}
	select {}
}

// run is the machine's life; what it returns is why it ends. A panic is a reason, too.
func run() (reason error) {
	defer func() {
		if p := recover(); p != nil {
			reason = fmt.Errorf("the first process panicked: %v", p)
		}
	}()
	p := begin()
	if initial() {
		return leaveInitial(p)
	}
	order, err := prepare(p)
	if err != nil {
		return err
	}
	if order.Run != nil {
		return runProgram(order)
	}
	return runAgent(order, p)
}

// initial tells that the root is still the initial one, which holds the modules that
// the real root is reached by.
func initial() bool {
	_, err := os.Stat(filepath.Join("/modules", orderFile))
	return err == nil
}

// leaveInitial goes over to the root disk and starts this program anew from there, so
// that the initial root's memory is free.
func leaveInitial(p *phases) error {
	for _, m := range []struct{ fsType, at string }{{"devtmpfs", "/dev"}, {"proc", "/proc"}, {"sysfs", "/sys"}} {
		if err := mount.New(m.fsType, m.at, mount.Options{}); err != nil {
			return err
		}
	}
	if err := loadModules("/modules"); err != nil {
		return err
	}
	disk, err := await(device{serial: RootSerial}, diskBound)
	if err != nil {
		return err
	}
	if err := mount.Disk(disk, "ext4", "/root", mount.Options{ReadOnly: true}); err != nil {
		return err
	}
	for _, at := range []string{"/sys", "/proc", "/dev"} {
		if err := mount.Unmount(at); err != nil {
			return err
		}
	}
	for _, name := range []string{"/modules", Program} {
		if err := os.RemoveAll(name); err != nil {
			return err
		}
	}
	if err := mount.Enter("/root"); err != nil {
		return err
	}
	p.done("root")
	return process.Execute(Program, []string{Program}, append(os.Environ(), p.variable()))
}

// prepare makes a place of the machine that platforms find what they need in.
func prepare(p *phases) (Order, error) {
	if err := mountSystem(); err != nil {
		return Order{}, err
	}
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return Order{}, err
	}
	order, err := ParseOrder(cmdline)
	if err != nil {
		return Order{}, err
	}
	if err := machine.SetOpenFiles(openFiles); err != nil {
		return order, err
	}
	if err := machine.SetHostname(order.hostname()); err != nil {
		return order, err
	}
	p.done("file systems")
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return order, err
	}
	if err := loadModules(filepath.Join("/usr/lib/modules", strings.TrimSpace(string(release)))); err != nil {
		return order, err
	}
	p.done("modules")
	if err := mountScratch(order.Scratch); err != nil {
		return order, err
	}
	p.done("disks")
	if err := bringUp(order); err != nil {
		return order, fmt.Errorf("network: %w", err)
	}
	p.done("network")
	return order, nil
}

func (o Order) hostname() string {
	if o.Hostname == "" {
		return "tare"
	}
	return o.Hostname
}

// environment is what programs of the machine's start with.
var environment = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TMPDIR=/tmp", "LANG=C.UTF-8",
}

// runAgent starts this program as the agent. It is a process of its own so that this
// one may reap whatever comes to it: in one program, the reaper of orphans would take
// from os/exec the children that it waits for.
func runAgent(order Order, p *phases) error {
	text, err := json.Marshal(order)
	if err != nil {
		return err
	}
	cmd := exec.Command(Program)
	cmd.Args = []string{agentName, string(text)}
	cmd.Env = append(environment, p.variable())
	code, err := runChild(cmd)
	switch {
	case err != nil:
		return fmt.Errorf("the agent: %w", err)
	case code != 0:
		return fmt.Errorf("the agent ended with exit status %d: the lines above say why", code)
	}
	return errEnded
}

// ExitLine is how the console tells the exit status of an order's Run.
const ExitLine = "tare: the program ended with exit status "

func runProgram(order Order) error {
	disk, err := parseDevice(order.Run.Device)
	if err != nil {
		return err
	}
	path, err := await(disk, diskBound)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(RunDirectory, 0o755); err != nil {
		return err
	}
	if err := mount.Disk(path, "ext4", RunDirectory, mount.Options{ReadOnly: true}); err != nil {
		return err
	}
	cmd := exec.Command(order.Run.Args[0], order.Run.Args[1:]...)
	cmd.Dir, cmd.Env = order.Run.Dir, append(environment, order.Run.Env...)
	code, err := runChild(cmd)
	if err != nil {
		return fmt.Errorf("%s: %w", order.Run.Args[0], err)
	}
	_, _ = fmt.Fprintf(console(), "\r\n%s%s\r\n", ExitLine, strconv.Itoa(code))
	return errEnded
}

// runChild runs a program with the console for its output, and reaps until it ends.
func runChild(cmd *exec.Cmd) (code int, err error) {
	out, err := os.OpenFile("/dev/console", os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out // files: no copying goroutine waits for them
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	code, _, err = machine.ReapUntil(cmd.Process.Pid)
	return code, err
}
