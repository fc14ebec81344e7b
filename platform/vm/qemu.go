package vm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"tare/kernel/socket"
	"tare/platform"
	"tare/platform/vm/guest"
	"tare/platform/vm/qmp"
)

// qemuProgram is the emulator of the machines that guests are built for.
const qemuProgram = "qemu-system-x86_64"

// kvmDevice is the kernel's hypervisor.
const kvmDevice = "/dev/kvm"

// channelPort names the machine's virtio-serial port that host and agent talk through.
const channelPort = "tare"

// check reports what this host lacks, by a [*platform.Missing]. Nothing is started.
func (e Engine) check() error {
	if err := missingProgram(qemuProgram, "apt-get install --no-install-recommends qemu-system-x86"); err != nil {
		return err
	}
	if e != KVM {
		return nil
	}
	f, err := os.OpenFile(kvmDevice, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return &platform.Missing{What: "no " + kvmDevice + " on this host: vm:tcg runs anywhere, slowly", Mend: "modprobe kvm_intel (or kvm_amd); in a virtual machine, have its host allow nested virtualisation"}
	}
	if err != nil {
		return &platform.Missing{What: err.Error() + ": vm:tcg runs anywhere, slowly", Mend: "sudo tare ..., or a container with --device " + kvmDevice}
	}
	return f.Close()
}

// version is QEMU's own, and the accelerator: "QEMU 7.2.22 tcg".
func (e Engine) version(ctx context.Context) string {
	line := firstLine(ctx, qemuProgram, "--version") // "QEMU emulator version 7.2.22 (Debian ...)"
	_, rest, found := strings.Cut(line, "version ")
	if !found {
		return line
	}
	number, _, _ := strings.Cut(rest, " ")
	return "QEMU " + number + " " + string(e)
}

// model is the guest's CPU as QEMU is asked for it: TCG has no host's CPU to give, and "max" is
// all that it can translate.
func (e Engine) model(wanted string) string {
	switch {
	case wanted == CPUDefault:
		return ""
	case wanted != "":
		return wanted
	case e == KVM:
		return "host"
	}
	return "max"
}

// qemuRunning is one QEMU.
type qemuRunning struct {
	child   *child
	monitor *qmp.Client
	conn    net.Conn
	cpus    int
}

// start starts a machine, and returns when QEMU answers. Whatever is started is in the
// order's group. The kernel then has just begun to boot.
func (e Engine) start(ctx context.Context, o startOrder) (_ *qemuRunning, err error) {
	r := &qemuRunning{cpus: o.shape.cpus}
	conn, monitorEnd, err := socket.Pair()
	if err != nil {
		return nil, err
	}
	defer monitorEnd.Close()
	defer func() {
		if r.monitor == nil {
			_ = conn.Close()
		}
	}()
	var channelEnd *os.File
	if r.conn, channelEnd, err = socket.Pair(); err != nil {
		return nil, err
	}
	defer channelEnd.Close()
	defer func() {
		if err != nil {
			_ = r.conn.Close()
		}
	}()
	files := []*os.File{monitorEnd, channelEnd}
	if o.tap != nil {
		files = append(files, o.tap.File)
	}
	if r.child, err = startChild(o.group, o.dir, o.console, files, qemuProgram, e.arguments(o)); err != nil {
		return nil, err
	}
	// Ours now: the stream ends when QEMU does, not when we let go.
	_, _ = monitorEnd.Close(), channelEnd.Close()
	if r.monitor, err = qmp.Open(ctx, conn); err != nil {
		return nil, fmt.Errorf("QEMU does not answer: %w", err)
	}
	return r, nil
}

// The descriptors that QEMU inherits.
const (
	monitorFD = 3
	channelFD = 4
	tapFD     = 5
)

// arguments are the command line of one machine: nothing that it does not need, and
// nothing of the user's own configuration.
func (e Engine) arguments(o startOrder) []string {
	accelerator := string(e)
	if e == TCG {
		accelerator += ",thread=multi" // a thread for each CPU, as KVM has them
	}
	args := []string{
		"-name", "tare", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		// QEMU's own seccomp filter: a guest that breaks out can neither become another user nor execute a program.
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		// A PC of the older kind: disks are added to it while it runs without a port
		// having been kept for each.
		"-machine", "pc", "-accel", accelerator,
		"-smp", strconv.Itoa(o.shape.cpus), "-m", strconv.FormatInt(o.shape.memory>>20, 10),
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-chardev", fmt.Sprintf("socket,id=monitor,fd=%d", monitorFD), "-mon", "chardev=monitor,mode=control",
		"-chardev", fmt.Sprintf("socket,id=agent,fd=%d", channelFD),
		"-device", "virtio-serial-pci", "-device", "virtserialport,chardev=agent,name=" + channelPort,
		"-device", "virtio-rng-pci",
	}
	if model := e.model(o.shape.cpu); model != "" {
		args = append(args, "-cpu", model)
	}
	for _, disk := range []struct {
		serial, path string
		readOnly     bool
	}{{guest.RootSerial, o.boot.Root, true}, {guest.ScratchSerial, o.scratch, false}} {
		drive := fmt.Sprintf("if=none,id=%s,format=raw,file=%s", disk.serial, escaped(disk.path))
		if disk.readOnly {
			drive += ",readonly=on"
		}
		args = append(args, "-drive", drive, "-device", fmt.Sprintf("virtio-blk-pci,drive=%s,serial=%[1]s", disk.serial))
	}
	if o.tap != nil {
		args = append(args, "-netdev", fmt.Sprintf("tap,id=net,fd=%d", tapFD), "-device", "virtio-net-pci,netdev=net,romfile=,mac="+o.mac)
	}
	line := append([]string{"console=ttyS0"}, o.boot.Cmdline...)
	return append(args, "-kernel", o.boot.Kernel, "-initrd", o.boot.Initrd, "-append", strings.Join(append(line, o.word), " "))
}

// escaped writes a path as QEMU's options want it, where a comma ends a value.
func escaped(path string) string { return strings.ReplaceAll(path, ",", ",,") }

// close lets go of what leads to QEMU, which has ended.
func (r *qemuRunning) close() error {
	return errors.Join(r.monitor.Close(), ignoreClosed(r.conn.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// monitorBound is how long QEMU may take to answer a command: it does so at once, and
// later only where its host does not let it run.
const monitorBound = 10 * time.Second

// tell has QEMU do a command. One that is under way is waited for whether or not the
// caller's time is over: a connection whose answer is outstanding would be of no more use
// to others.
func (r *qemuRunning) tell(ctx context.Context, command string, arguments, result any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), monitorBound)
	defer cancel()
	return r.monitor.Execute(ctx, command, arguments, result)
}

// attach adds a read-only disk. The guest finds it by its serial ([guest.Device]).
func (r *qemuRunning) attach(ctx context.Context, path, serial string) error {
	node := "image-" + serial
	err := r.tell(ctx, "blockdev-add", map[string]any{
		"driver": "raw", "node-name": node, "read-only": true,
		"file": map[string]any{"driver": "file", "filename": path, "read-only": true},
	}, nil)
	if err != nil {
		return err
	}
	if err := r.tell(ctx, "device_add", map[string]any{"driver": "virtio-blk-pci", "id": "disk-" + serial, "drive": node, "serial": serial}, nil); err != nil {
		return errors.Join(err, r.tell(ctx, "blockdev-del", map[string]any{"node-name": node}, nil))
	}
	return nil
}

// pause stops the machine's time.
func (r *qemuRunning) pause(ctx context.Context) error {
	return r.tell(ctx, "stop", nil, nil)
}

// resume lets the machine's time go on.
func (r *qemuRunning) resume(ctx context.Context) error {
	return r.tell(ctx, "cont", nil, nil)
}

// threads lists the threads that run the machine's CPUs, in order.
func (r *qemuRunning) threads(ctx context.Context) ([]int, error) {
	var cpus []struct {
		Index  int `json:"cpu-index"`
		Thread int `json:"thread-id"`
	}
	if err := r.tell(ctx, "query-cpus-fast", nil, &cpus); err != nil {
		return nil, err
	}
	tids := make([]int, r.cpus)
	for _, c := range cpus {
		if c.Index >= 0 && c.Index < len(tids) {
			tids[c.Index] = c.Thread
		}
	}
	for i, tid := range tids {
		if tid <= 0 {
			return nil, fmt.Errorf("QEMU does not tell which thread runs CPU %d", i)
		}
	}
	return tids, nil
}
