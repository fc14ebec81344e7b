// Package annextest gives tests of the memory extension a control group, and a program in that
// group whose memory is moved and then checked.
package annextest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/memory"
)

const (
	// sizeVariable makes a test's binary the program, and holds how many bytes it fills.
	sizeVariable = "TARE_ANNEX_TEST_BYTES"
	// LockVariable has the program lock the first half of them.
	LockVariable = "TARE_ANNEX_TEST_LOCK"
)

// Main runs the program where Hold started this binary, and reports that as ours. TestMain calls it
// before the tests, and exits with code.
func Main() (code int, ours bool) {
	size := os.Getenv(sizeVariable)
	if size == "" {
		return 0, false
	}
	if err := serve(size); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

// serve answers each line of its input: the first, which comes once it is in its group, with the
// address of its memory, and every other with the result of a check.
func serve(text string) error {
	size, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	if !in.Scan() {
		return in.Err()
	}
	address, check, err := Fill(size)
	if err != nil {
		return err
	}
	fmt.Println(address)
	for in.Scan() {
		fmt.Println(check())
	}
	return in.Err()
}

// Fill fills size bytes of memory in small pages, no two of which are the same. check returns
// "whole" where every byte is as it was filled, or else names the first page that differs.
func Fill(size int) (address uint64, check func() string, err error) {
	m, err := memory.MapAnonymous(size)
	if err != nil {
		return 0, nil, err
	}
	if err := m.SmallPages(); err != nil {
		return 0, nil, err
	}
	if os.Getenv(LockVariable) != "" {
		if err := m.Lock(size / 2); err != nil {
			return 0, nil, err
		}
	}
	words, page := m.Words(), os.Getpagesize()/8
	value := func(i int) uint64 { return (uint64(i/page)*0x9e3779b97f4a7c15 | 1) + uint64(i%page) }
	for i := range words {
		words[i] = value(i)
	}
	return m.Address(), func() string {
		for i, w := range words {
			if w != value(i) {
				return fmt.Sprintf("page %d is another", i/page)
			}
		}
		return "whole"
	}, nil
}

// Program is a program that holds memory.
type Program struct {
	PID     int
	Address uint64 // of its memory

	in  io.Writer
	out *bufio.Scanner
}

// Hold starts a program in a group, which fills size bytes. It ends with the test.
func Hold(t testing.TB, g cgroup.Group, size int) *Program {
	t.Helper()
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), sizeVariable+"="+strconv.Itoa(size))
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	if err := g.Add(command.Process.Pid); err != nil {
		t.Fatal(err)
	}
	p := &Program{PID: command.Process.Pid, in: in, out: bufio.NewScanner(out)}
	if p.Address, err = strconv.ParseUint(p.Check(), 10, 64); err != nil {
		t.Fatal(err)
	}
	return p
}

// Check has the program check all of its memory. It returns "whole", or what is wrong.
func (p *Program) Check() string {
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		return err.Error()
	}
	if !p.out.Scan() {
		return fmt.Sprintf("it has ended: %v", p.out.Err())
	}
	return p.out.Text()
}

// Group makes a control group with the memory controller. It is removed when the test ends, with
// all processes in it. of names the package under test.
func Group(t testing.TB, of, name string) cgroup.Group {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making control groups needs root")
	}
	layout, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	var g cgroup.Group
	for _, p := range layout.At(fmt.Sprintf("/tare-%s-test-%d/%s", of, os.Getpid(), name)).Places {
		if p.Has("memory") || p.Version == 2 {
			g.Places = append(g.Places, p)
		}
	}
	if _, ok := g.For("memory"); !ok {
		t.Skip("no hierarchy carries the memory controller")
	}
	if err := g.Create("memory"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(g.Kill(ctx), g.Remove(ctx)); err != nil {
			t.Error(err)
		}
	})
	return g
}

// Box makes a group whose memory is limited to limit bytes.
func Box(t testing.TB, of string, limit int64) cgroup.Group {
	t.Helper()
	g := Group(t, of, "box")
	if err := g.LimitMemory(limit); err != nil {
		t.Skip(err)
	}
	return g
}
