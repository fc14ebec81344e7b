package bound

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"tare/annex/guard"
	"tare/kernel/advise"
	"tare/kernel/cgroup"
	"tare/kernel/memory"
	"tare/kernel/process"
	"tare/kernel/swap/swaptest"
)

// This test binary is the guard process, and a program that has memory, too.
const holderVariable = "TARE_BOUND_TEST_HOLD"

func TestMain(m *testing.M) {
	if code, ours := guard.Main(os.Args); ours {
		os.Exit(code)
	}
	if group := os.Getenv(daemonVariable); group != "" {
		if err := reclaimForEver(group, os.Getenv(journalVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if size := os.Getenv(holderVariable); size != "" {
		if err := holdMemory(size); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// word is what is in the nth page of a holder: no two are the same, and none is empty.
func word(n int) uint64 { return uint64(n)*0x9e3779b97f4a7c15 | 1 }

// holdMemory has so much memory, says where, and checks it whenever it is asked to.
func holdMemory(text string) error {
	size, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	if !in.Scan() { // it is in its group by then
		return in.Err()
	}
	m, err := memory.MapAnonymous(size)
	if err != nil {
		return err
	}
	words := m.Words()
	page := os.Getpagesize() / 8
	for n := range len(words) / page {
		for i := range page {
			words[n*page+i] = word(n) + uint64(i)
		}
	}
	fmt.Println(m.Address())
	for in.Scan() {
		answer := "whole"
		for n := range len(words) / page {
			for i := range page {
				if words[n*page+i] != word(n)+uint64(i) {
					answer = fmt.Sprintf("page %d is another", n)
				}
			}
		}
		fmt.Println(answer)
	}
	return in.Err()
}

// holder is such a program.
type holder struct {
	handle  *process.Handle
	size    int
	address uint64
	ask     func() string
}

func hold(t *testing.T, g cgroup.Group, size int) holder {
	t.Helper()
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), holderVariable+"="+strconv.Itoa(size))
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
	said := bufio.NewScanner(out)
	h := holder{size: size}
	h.ask = func() string {
		if _, err := in.Write([]byte("\n")); err != nil {
			return err.Error()
		}
		if !said.Scan() {
			return fmt.Sprintf("it has ended: %v", said.Err())
		}
		return said.Text()
	}
	if h.address, err = strconv.ParseUint(h.ask(), 10, 64); err != nil {
		t.Fatal(err)
	}
	id, err := process.Identify(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if h.handle, err = id.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.handle.Close() })
	return h
}

// evict has its first bytes leave.
func (h holder) evict(t *testing.T, bytes int) {
	t.Helper()
	if _, err := advise.Give(h.handle, advise.PageOut, []advise.Range{{Start: h.address, Length: uint64(bytes)}}); err != nil {
		t.Fatal(err)
	}
}

// realGroup makes a control group, in the hierarchies that tell of memory and pressure.
func realGroup(t *testing.T, name string) cgroup.Group {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making control groups needs root")
	}
	layout, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	all := layout.At(fmt.Sprintf("/tare-bound-test-%d/%s", os.Getpid(), name))
	var g cgroup.Group
	for _, p := range all.Places {
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
		if err := g.Remove(ctx); err != nil {
			t.Error(err)
		}
	})
	return g
}

// area puts a swap file to use, before all others.
func area(t *testing.T, size int64) string { t.Helper(); return swaptest.File(t, "bound", size) }
