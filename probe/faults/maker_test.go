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
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	pid int
}

// made is what it has done.
type made struct {
	start, length uint64
	minor, major  uint64
	nanoseconds   float64 // of CPU time
}

func (m made) holds(address uint64) bool { return address >= m.start && address < m.start+m.length }

// madeAhead is the program where somebody has made it already, for a host that has no compiler.
const madeAhead = "testdata/maker"

var compile = sync.OnceValues(func() (string, error) {
	if at, err := filepath.Abs(madeAhead); err == nil {
		if _, err := os.Stat(at); err == nil {
			return at, nil
		}
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", err
	}
	program := filepath.Join(scratch, "maker")
	out, err := exec.Command(cc, "-O1", "-Wall", "-Werror", "-pthread", "-static", "-o", program, "testdata/maker.c").CombinedOutput()
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
func begin(t testing.TB, prepare func(*exec.Cmd), args ...string) *maker {
	t.Helper()
	m := run(t, prepare, exec.Command(program(t), args...))
	switch line := m.line(); line {
	case "ready":
	case "cannot":
		t.Skipf("this kernel cannot make %q", args[0])
	default:
		t.Fatalf("the maker says %q", line)
	}
	return m
}

// try starts one below another program, if there is one, and reports whether that
// worked.
func try(t testing.TB, under []string, args ...string) (*maker, bool) {
	t.Helper()
	command := append(append([]string{}, under...), program(t))
	command = append(command, args...)
	m := run(t, nil, exec.Command(command[0], command[1:]...))
	line, err := m.out.ReadString('\n')
	return m, err == nil && line == "ready\n"
}

func run(t testing.TB, prepare func(*exec.Cmd), cmd *exec.Cmd) *maker {
	t.Helper()
	var diagnosis strings.Builder
	cmd.Stderr = &diagnosis
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
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() && diagnosis.Len() > 0 {
			t.Logf("the maker says: %s", diagnosis.String())
		}
	})
	return &maker{t: t, cmd: cmd, in: in, out: bufio.NewReader(out), pid: cmd.Process.Pid}
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
	if _, err := fmt.Sscanf(line, "done %x %x %d %d %g", &d.start, &d.length, &d.minor, &d.major, &d.nanoseconds); err != nil {
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
