package programs_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The committed code is what the compiler made of the committed description.
func TestThriftCodeIsOfItsDescription(t *testing.T) {
	text, err := os.ReadFile("thrift/service.thrift")
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := os.ReadFile("thrift/service.sha256")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	if want := hex.EncodeToString(sum[:]) + "  service.thrift\n"; string(recorded) != want {
		t.Errorf("service.thrift has changed since its code was made: go generate ./programs (recorded %q, is %q)", recorded, want)
	}
}

// buildThriftServer builds the service in Go, which is of this module too.
func buildThriftServer(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a program: not in short mode")
	}
	program := filepath.Join(t.TempDir(), "thrift-server")
	if out, err := exec.Command("go", "build", "-o", program, "./thrift/server").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	return program
}

// What a ping and its answer are on the wire: Thrift's specification of the binary
// protocol has them in its strict form. The fourth byte from the name on is of the
// sequence number.
const (
	pingCall  = "\x80\x01\x00\x01\x00\x00\x00\x04ping\x00\x00\x00\x07\x00"
	pingReply = "\x80\x01\x00\x02\x00\x00\x00\x04ping\x00\x00\x00\x07\x00"
)

func TestThriftServerSurvivesItsClients(t *testing.T) {
	program := buildThriftServer(t)
	port := freePort(t)
	address := "127.0.0.1:" + port
	cmd := exec.CommandContext(t.Context(), program, "--address", "127.0.0.1", "--port", port)
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	dial := func() net.Conn {
		for {
			conn, err := net.DialTimeout("tcp", address, 10*time.Second)
			if err == nil {
				t.Cleanup(func() { conn.Close() })
				_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
				return conn
			}
			select {
			case err := <-ended:
				t.Fatalf("it ended: %v: %s", err, printed.String())
			case <-time.After(time.Millisecond):
			}
		}
	}
	ping := func(conn net.Conn) {
		t.Helper()
		answer := make([]byte, len(pingReply))
		if _, err := io.WriteString(conn, pingCall); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != pingReply {
			t.Fatalf("a ping is answered by %q, %v", answer, err)
		}
	}
	kept := dial()
	ping(kept)
	for _, nonsense := range []string{
		"", pingCall[:7], pingCall[:len(pingCall)-1], "GET / HTTP/1.1\r\n\r\n", strings.Repeat("\xff", 100),
		"\x80\x01\x00\x01\x7f\xff\xff\xff", // a name of 2 GiB
	} {
		conn := dial()
		if _, err := io.WriteString(conn, nonsense); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		ping(kept)
	}
	ping(dial())
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || printed.Len() > 0 {
		t.Errorf("told to terminate, it ended with %v, and has printed %q", err, printed.String())
	}
}

func TestThriftServerRefuses(t *testing.T) {
	program := buildThriftServer(t)
	for _, args := range [][]string{
		{}, {"--port", "0"}, {"--port", "65536"}, {"--port", "x"}, {"--port", "9", "--work", "-1"}, {"--port", "9", "--work", "1000001"},
		{"--port", "9", "--address", "localhost"}, {"--port", "9", "more"}, {"--fly"},
	} {
		checkUsage(t, exec.CommandContext(t.Context(), program, args...), "usage: thrift-server ")
	}
}

// checkUsage holds a program that is used wrongly to one line and status 2.
func checkUsage(t *testing.T, cmd *exec.Cmd, begins string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.HasPrefix(string(out), begins) || strings.Count(string(out), "\n") != 1 {
		t.Errorf("%q: %v, %q, want status 2 and one line", cmd.Args, err, out)
	}
}

func TestMatrixMultiplies(t *testing.T) {
	program := filepath.Join(buildIn(t, "matrix", "matrix"), "matrix")
	// The check of each product is part of the program: sizes that no block divides, too.
	for _, size := range []string{"64", "65", "127", "200"} {
		out, err := exec.CommandContext(t.Context(), program, "--size", size, "--count", "3").Output()
		if err != nil {
			t.Fatalf("size %s: %v", size, err)
		}
		lines := bytes.SplitAfter(bytes.TrimSuffix(out, []byte("\n")), []byte("\n"))
		for _, line := range lines {
			var said struct {
				Wall int64 `json:"wall_ns"`
				CPU  int64 `json:"cpu_ns"`
			}
			if err := json.Unmarshal(line, &said); err != nil || said.Wall <= 0 || said.CPU < 0 {
				t.Errorf("size %s: %s: %v", size, line, err)
			}
		}
		if len(lines) != 3 {
			t.Errorf("size %s: %d lines, want 3", size, len(lines))
		}
	}
}

// Without an end it tells of each multiplication as it is done, until it is terminated.
func TestMatrixGoesOn(t *testing.T) {
	program := filepath.Join(buildIn(t, "matrix", "matrix"), "matrix")
	cmd, lines := begin(t, program, "--size", "64")
	for range 3 {
		if line, err := lines.ReadString('\n'); err != nil {
			t.Fatalf("%q, %v", line, err)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, bufio.NewReader(lines)) }()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	state, err := cmd.Process.Wait()
	if err != nil || state.ExitCode() != 0 {
		t.Errorf("terminated, it ended with %v, %v", state, err)
	}
}

// A product that is wrong is told: the check is made of the one that was printed for.
func TestMatrixFindsAWrongProduct(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("matrix")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "matrix.c")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const sum = "to[j] += factor * from[j];"
	if bytes.Count(text, []byte(sum)) != 1 {
		t.Fatalf("the source does not have %q once", sum)
	}
	// One number of one product is off by one.
	wrong := bytes.Replace(text, []byte(sum), []byte("to[j] += factor * from[j] + (i == 7 && j == 9 && k == 11);"), 1)
	if err := os.WriteFile(file, wrong, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"make", "cc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs " + tool)
		}
	}
	runMake(t, dir, "matrix")
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "matrix"), "--size", "64", "--count", "1").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || string(out) != "matrix: product 1 is wrong\n" {
		t.Errorf("%v, %q, want that the product is wrong", err, out)
	}
}

func TestMatrixRefuses(t *testing.T) {
	program := filepath.Join(buildIn(t, "matrix", "matrix"), "matrix")
	for _, args := range [][]string{
		{"--size", "63"}, {"--size", "2049"}, {"--size", "x"}, {"--size", "100 "}, {"--count", "-1"}, {"--count", "4294967296"}, {"more"}, {"--fly"},
	} {
		checkUsage(t, exec.CommandContext(t.Context(), program, args...), "usage: matrix ")
	}
}
