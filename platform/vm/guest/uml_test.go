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

// startUML runs user-mode Linux in a process group of its own, with one end of a pair
// of sockets as its serial line.
func startUML(t *testing.T, boot guest.Boot, order *guest.Order, disks [][2]string) (*exec.Cmd, func() net.Conn) {
	t.Helper()
	cmd := exec.Command(boot.Kernel, append([]string{"mem=512M", "con=null", "con0=null,fd:1"}, boot.Cmdline...)...)
	for i, d := range disks {
		flags := "r"
		if d[0] == guest.ScratchSerial {
			flags = ""
		}
		cmd.Args = append(cmd.Args, "ubd"+strconv.Itoa(i)+flags+"="+d[1])
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	_ = os.Stdin
	return cmd, nil
}
