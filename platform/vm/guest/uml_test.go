package guest_test

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"tare/platform/vm/guest"
)

// startUML runs user-mode Linux with one end of a pair of sockets as its serial line.
func startUML(t *testing.T, boot guest.Boot, order *guest.Order, disks [][2]string) (*exec.Cmd, func() net.Conn) {
	t.Helper()
	cmd := exec.Command(boot.Kernel, append([]string{"mem=512M", "con=null", "con0=null,fd:1", "uml_dir=" + t.TempDir()}, boot.Cmdline...)...)
	for i, d := range disks {
		flags := "r"
		if d[0] == guest.ScratchSerial {
			flags = ""
		}
		cmd.Args = append(cmd.Args, "ubd"+strconv.Itoa(i)+flags+"="+d[1])
	}
	// The kernel's processes are one each of the machine's: all end with the group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if order.Run != nil {
		return cmd, nil
	}
	ours, theirs := pair(t)
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Args = append(cmd.Args, "ssl0=fd:3")
	order.Channel = "tty:/dev/ttyS0"
	return cmd, func() net.Conn { _ = theirs.Close(); return ours }
}

// pair is a pair of connected sockets.
func pair(t *testing.T) (ours net.Conn, theirs *os.File) {
	t.Helper()
	listener, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if ours, err = net.Dial("unix", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	if theirs, err = accepted.(*net.UnixConn).File(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = theirs.Close() })
	return ours, theirs
}
