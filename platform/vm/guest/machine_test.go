package guest_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/image"
	"tare/platform/bare"
	"tare/platform/vm/guest"
)

// This test's own program is the machine's, too: as its first process and its agent,
// and as the stage of bare metal's launches.
func TestMain(m *testing.M) {
	guest.Main()
	bare.Reexec()
	if os.Getenv(holdVariable) != "" {
		fmt.Fprintln(os.Stderr, hold())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// machine is one machine of a test. Package vm is what runs them for others; a test of
// what is inside needs but little of it.
type machine struct {
	t       *testing.T
	console console
	conn    net.Conn // to the agent; nil where it runs a program
	ended   chan error
}

// bound is how long any step of a machine may take: an emulated one on a busy host is
// slow, and a passing step takes a small part of it.
const bound = 2 * time.Minute

// emulator is the program that runs the machines.
const emulator = "qemu-system-x86_64"

// built gives what machines boot from, or skips.
func built(t *testing.T) guest.Boot {
	t.Helper()
	if _, err := exec.LookPath(emulator); err != nil {
		t.Skip("no " + emulator + " here: apt-get install --no-install-recommends qemu-system-x86")
	}
	if os.Geteuid() != 0 {
		t.Skip("making images needs root")
	}
	store, err := image.OpenStore(filepath.Join(cache(t), "images"), func(s string) { t.Log(s) })
	if err != nil {
		t.Fatal(err)
	}
	boot, err := guest.Build(t.Context(), guest.BuildOptions{Store: store, Dir: t.TempDir()})
	var missing *image.Missing
	if errors.As(err, &missing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return boot
}

// cache keeps the distribution's packages from one run of the tests to the next.
func cache(t *testing.T) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return t.TempDir()
	}
	return filepath.Join(dir, "tare-test")
}

// start boots a machine of two CPUs. disks are further ones, by serial.
func start(t *testing.T, boot guest.Boot, order guest.Order, disks ...[2]string) *machine {
	t.Helper()
	return startOn(t, 2, boot, order, disks...)
}

func startOn(t *testing.T, cpus int, boot guest.Boot, order guest.Order, disks ...[2]string) *machine {
	t.Helper()
	dir := t.TempDir()
	scratch := filepath.Join(dir, "scratch")
	if err := guest.ScratchDisk(t.Context(), scratch, 4<<30); err != nil {
		t.Fatal(err)
	}
	order.Scratch = guest.Device(guest.ScratchSerial)
	disks = append([][2]string{{guest.RootSerial, boot.Root}, {guest.ScratchSerial, scratch}}, disks...)
	m := &machine{t: t, console: newConsole(t), ended: make(chan error, 1)}
	cmd, accept := emulate(t, cpus, boot, &order, disks, filepath.Join(dir, "channel"))
	word, err := order.Argument()
	if err != nil {
		t.Fatal(err)
	}
	tell(cmd, word)
	m.run(cmd)
	if order.Channel != "" {
		m.conn = accept()
		t.Cleanup(func() { _ = m.conn.Close() })
	}
	return m
}

// run starts the emulator, which ends with the test at the latest.
func (m *machine) run(cmd *exec.Cmd) {
	m.t.Helper()
	cmd.Stdout, cmd.Stderr = m.console.File, m.console.File
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { m.ended <- cmd.Wait(); close(done) }()
	m.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		if m.t.Failed() {
			m.t.Logf("console:\n%s", m.console.String())
		}
	})
}

// programDisk makes a disk of what is below root, to start a machine with, and gives its
// name for a [guest.Run].
func programDisk(t *testing.T, root string) (disk [2]string, device string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	const digest = "sha256:program"
	if err := guest.ImageDisk(t.Context(), image.Image{Name: "program", Root: root, Digest: digest}, path); err != nil {
		t.Fatal(err)
	}
	serial := guest.SerialOf(digest)
	return [2]string{serial, path}, guest.Device(serial)
}

// tell adds a word to the kernel's command line, which is the emulator's last argument.
func tell(cmd *exec.Cmd, word string) { cmd.Args[len(cmd.Args)-1] += " " + word }

// emulate gives the emulator's command, which is not started, and what waits until it has
// connected the agent's channel. The channel becomes part of the order.
func emulate(t *testing.T, cpus int, boot guest.Boot, order *guest.Order, disks [][2]string, socket string) (*exec.Cmd, func() net.Conn) {
	t.Helper()
	// One thread for all CPUs: with one for each, a guest that patched its own code (a first quota) stood still.
	args := []string{
		"-M", "q35", "-accel", "tcg,thread=single", "-cpu", "max", "-smp", strconv.Itoa(cpus), "-m", "1024", "-display", "none", "-nodefaults", "-no-reboot",
		"-serial", "stdio", "-device", "virtio-rng-pci", "-kernel", boot.Kernel, "-initrd", boot.Initrd,
	}
	for _, d := range disks {
		readOnly := "on"
		if d[0] == guest.ScratchSerial {
			readOnly = "off"
		}
		args = append(args, "-drive", "if=none,format=raw,id="+d[0]+",file="+d[1]+",readonly="+readOnly,
			"-device", "virtio-blk-pci,drive="+d[0]+",serial="+d[0])
	}
	if order.Address.IsValid() {
		// Restricted, it reaches nothing: the machine's own side is what is looked at.
		args = append(args, "-netdev", "user,id=net,restrict=on", "-device", "virtio-net-pci,netdev=net,mac="+order.MAC)
	}
	var listener net.Listener
	if order.Run == nil {
		order.Channel = "virtio:tare"
		var err error
		if listener, err = net.Listen("unix", socket); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		args = append(args, "-device", "virtio-serial-pci", "-chardev", "socket,id=tare,path="+socket, "-device", "virtserialport,chardev=tare,name=tare")
	}
	args = append(args, "-append", "console=ttyS0 "+strings.Join(boot.Cmdline, " "))
	return exec.Command(emulator, args...), func() net.Conn {
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
}

// console is what a machine has said. It is a file, which can be read while the machine
// goes on.
type console struct{ *os.File }

func newConsole(t *testing.T) console {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "console"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return console{f}
}

func (c console) String() string {
	text, err := os.ReadFile(c.Name())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// progress logs lines of the console that begin with one of these, as they come.
func (m *machine) progress(beginnings ...string) {
	began, done, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	m.t.Cleanup(func() { close(done); <-stopped })
	go func() {
		defer close(stopped)
		for told := 0; ; {
			lines := strings.SplitAfter(m.console.String(), "\n")
			for ; told < len(lines)-1; told++ {
				line := strings.TrimSpace(lines[told])
				if slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(line, b) }) {
					m.t.Logf("after %v: %s", time.Since(began).Round(time.Second), line)
				}
			}
			select {
			case <-done:
				return
			case <-time.After(time.Second): // a file has no event
			}
		}
	}()
}

// end waits for the machine to switch itself off.
func (m *machine) end(bound time.Duration) {
	m.t.Helper()
	select {
	case err := <-m.ended:
		if err != nil {
			m.t.Errorf("the machine's engine: %v", err)
		}
	case <-time.After(bound):
		m.t.Fatal("the machine does not end")
	}
}

func staticBusybox(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"busybox.static", "busybox"} {
		if path, err := exec.LookPath(name); err == nil {
			if path, err = filepath.EvalSymlinks(path); err == nil {
				return path
			}
		}
	}
	t.Skip("no static busybox: apt-get install busybox-static")
	return ""
}
