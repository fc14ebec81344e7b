package platform

import (
	"bufio"
	"os/exec"
	"testing"
)

// A process that a wrapper's runtime has made is not the program, whatever the wrapper's name.
func TestBeforeProgramBehindAWrapper(t *testing.T) {
	for comm, want := range map[string]bool{"runc:[2:INIT]": true, "youki:[1:CHILD]": true, "runc": false, "a:[b]": false} {
		cmd := exec.Command("sh", "-c", `printf %s "$0" >/proc/$$/comm; echo; read _`, comm)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if got := BeforeProgram(cmd.Process.Pid, "/usr/bin/nvidia-container-runtime"); got != want {
			t.Errorf("%s: %v, want %v", comm, got, want)
		}
		in.Close()
		_ = cmd.Wait()
	}
}

func TestIsRuntime(t *testing.T) {
	for exe, want := range map[string]bool{
		"/memfd:runc_cloned:/proc/self/exe (deleted)": true,
		"/usr/sbin/runc":             true,
		"/usr/sbin/runc (deleted)":   true,
		"/":                          true,
		"/bin/busybox":               false,
		"/usr/bin/truncate":          false,
		"/bin/runc-like":             false,
		"/opt/run/program (deleted)": false,
	} {
		if got := isRuntime(exe, "/usr/sbin/runc"); got != want {
			t.Errorf("%s: %v, want %v", exe, got, want)
		}
	}
}
