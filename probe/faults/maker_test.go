package faults

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// maker is a process of testdata/maker.c: it takes faults whose number is known.
type maker struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	pid int
}

// made is what it has done.
type made struct {
	start, length uint64
	minor, major  uint64
}

func (m made) holds(address uint64) bool { return address >= m.start && address < m.start+m.length }

var compile = sync.OnceValues(func() (string, error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", err
	}
	program := filepath.Join(scratch, "maker")
	out, err := exec.Command(cc, "-O1", "-Wall", "-Werror", "-static", "-o", program, "testdata/maker.c").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%v: %s", err, out)
	}
	return program, nil
})

// scratch is where the tests' program is compiled to, on a real file system.
var scratch string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		panic(err)
	}
	scratch = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func program(t testing.TB) string {
	t.Helper()
	path, err := compile()
	if path == "" && err != nil && strings.Contains(err.Error(), "executable file not found") {
		t.Skip("no C compiler: apt-get install gcc libc6-dev")
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// begin starts a maker and waits until it is ready. prepare may change the
// command before.
func begin(t *testing.T, prepare func(*exec.Cmd), args ...string) *maker {
	t.Helper()
	cmd := exec.Command(program(t), args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if prepare != nil {
		prepare(cmd)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m := &maker{t: t, cmd: cmd, in: in, out: bufio.NewReader(out), pid: cmd.Process.Pid}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	switch line := m.line(); line {
	case "ready":
	case "cannot":
		t.Skipf("this kernel cannot make %q", args[0])
	default:
		t.Fatalf("the maker says %q", line)
	}
	return m
}

func (m *maker) line() string {
	m.t.Helper()
	line, err := m.out.ReadString('\n')
	if err != nil {
		m.t.Fatalf("the maker says no more: %v", err)
	}
	return strings.TrimSpace(line)
}

// act lets it take its faults.
func (m *maker) act() made {
	m.t.Helper()
	m.next()
	return m.done()
}

func (m *maker) next() {
	m.t.Helper()
	if _, err := io.WriteString(m.in, "\n"); err != nil {
		m.t.Fatal(err)
	}
}

func (m *maker) done() (d made) {
	m.t.Helper()
	line := m.line()
	if _, err := fmt.Sscanf(line, "done %x %x %d %d", &d.start, &d.length, &d.minor, &d.major); err != nil {
		m.t.Fatalf("the maker says %q: %v", line, err)
	}
	return d
}

// end lets it end, and waits for it.
func (m *maker) end() {
	m.t.Helper()
	m.next()
	if err := m.cmd.Wait(); err != nil {
		m.t.Errorf("the maker: %v", err)
	}
}
