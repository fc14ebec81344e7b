package programs_test

import (
	"bufio"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// freePort is a port that nobody on this host uses at the moment, below those that the
// kernel gives to clients.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20000 + rand.IntN(12000))
		if listener, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			listener.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// servePasses starts a build of stream that serves, and gives it when it listens.
func servePasses(t *testing.T, program string) (address string, end func() error) {
	t.Helper()
	address = "127.0.0.1:" + freePort(t)
	cmd, printed := begin(t, program, "--elements", "5000", "--threads", "2", "--serve", address)
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(until) {
			t.Fatal(err)
		}
	}
	return address, func() error {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		if text, err := io.ReadAll(printed); err != nil || len(text) > 0 {
			t.Errorf("it printed %q, %v", text, err)
		}
		return cmd.Wait()
	}
}

// passes sends bytes and reads a line for each.
func passes(t *testing.T, address string, n int) (lines []string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, strings.Repeat("x", n)); err != nil {
		t.Fatal(err)
	}
	for r := bufio.NewReader(conn); len(lines) < n; {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

// One pass for each byte, on one connection after the other, as often as one likes: more
// often than the arrays' numbers would stay finite.
func TestStreamServes(t *testing.T) {
	address, end := servePasses(t, filepath.Join(buildStream(t), "stream"))
	for _, n := range []int{1, 3, 600} {
		for _, line := range passes(t, address, n) {
			var pass struct {
				Elements, Threads int
				Kernels           []struct {
					Kernel  string
					Bytes   int
					Seconds float64
				}
				Valid bool
			}
			if err := json.Unmarshal([]byte(line), &pass); err != nil || !pass.Valid || pass.Elements != 5000 || pass.Threads != 2 || len(pass.Kernels) != 4 {
				t.Fatalf("%s: %v", line, err)
			}
			for i, want := range []string{"copy", "scale", "add", "triad"} {
				if k := pass.Kernels[i]; k.Kernel != want || k.Bytes != []int{80_000, 80_000, 120_000, 120_000}[i] || k.Seconds <= 0 {
					t.Fatalf("%s: kernel %d is %+v", line, i, k)
				}
			}
		}
	}
	// A client that goes away with a pass under way takes nobody with it.
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, strings.Repeat("x", 50)); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	passes(t, address, 1)
	if err := end(); err != nil {
		t.Errorf("told to terminate, it ended with %v", err)
	}
}

// What is wrong in any array makes a pass not valid.
func TestStreamServesNoWrongResults(t *testing.T) {
	dir := buildStream(t)
	for _, array := range []string{"a", "b", "c"} {
		runMake(t, dir, "stream-wrong-"+array)
		address, _ := servePasses(t, filepath.Join(dir, "stream-wrong-"+array))
		if line := passes(t, address, 1)[0]; !strings.Contains(line, `"valid":false`) {
			t.Errorf("with an error in array %s: %s", array, line)
		}
	}
}
