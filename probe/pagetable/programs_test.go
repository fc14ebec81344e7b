package pagetable

import (
	"io"
	"os/exec"
	"syscall"
	"testing"

	"tare/kernel/procfs"
)

// Real programs, stopped, have the same entries by both back ends: whatever
// their runtimes map.
func TestStoppedPrograms(t *testing.T) {
	takers := takers(t)
	for _, c := range []struct{ name, program string }{
		{"python3", "import os,mmap,sys\nx=[bytes(3000) for i in range(3000)]\nm=mmap.mmap(-1,1<<22);m[5:9]=b'tare'\nprint('ready',flush=True)\nsys.stdin.read()"},
		{"perl", "my @x = map { 'x' x 5000 } 1..1000; $| = 1; print qq(ready\\n); <STDIN>;"},
		{"sh", "echo ready; read x"},
	} {
		path, err := exec.LookPath(c.name)
		if err != nil {
			t.Logf("without %s: %v", c.name, err)
			continue
		}
		flag := "-c"
		if c.name == "perl" {
			flag = "-e"
		}
		cmd := exec.Command(path, flag, c.program)
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
		ready := make([]byte, 5)
		if _, err := io.ReadFull(out, ready); err != nil {
			t.Fatalf("%s says %q: %v", c.name, ready, err)
		}
		stop(t, cmd)
		pid := cmd.Process.Pid
		agree(t, takers, pid)
		kinds := map[Kind]int{}
		s := spaceOf(t, take(t, takers[0], true, pid), pid)
		s.well(t, takers[0].Name())
		for _, r := range s.Runs {
			kinds[s.Mappings[r.Mapping].Kind] += len(r.Entries)
		}
		for _, k := range []Kind{Code, Library, Anonymous, Stack} {
			if kinds[k] == 0 {
				t.Errorf("%s has no entries of kind %d: %v", c.name, k, kinds)
			}
		}
		if s.Command != c.name {
			t.Errorf("%s is called %q", c.name, s.Command)
		}
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// stop stops a program until its end.
func stop(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for {
		stat, err := procfs.Host.Process(cmd.Process.Pid).Stat()
		if err != nil {
			t.Fatal(err)
		}
		if stat.State == 'T' {
			return
		}
	}
}

// Without PAGEMAP_SCAN a page is huge where its frames say so: the same, for
// pages that are mapped whole.
func TestFilesWithoutScan(t *testing.T) {
	needRoot(t)
	all := takers(t)
	files, ok := all[len(all)-1].(*Files)
	if !ok {
		t.Fatalf("the last back end is %s", all[len(all)-1].Name())
	}
	for _, scenario := range []string{"anonymous", "huge"} {
		h := start(t, scenario)
		for _, flags := range []bool{false, true} {
			files.cannot = false
			with := spaceOf(t, take(t, files, flags, h.pid), h.pid)
			scanned := !files.cannot
			files.cannot = true
			without := spaceOf(t, take(t, files, flags, h.pid), h.pid)
			if !scanned {
				t.Skip("the kernel does not scan: there is nothing to compare with")
			}
			for i, d := range compare(with, without, Common|FileFrame) {
				if i < 5 {
					t.Errorf("%s: without a scan: %s", scenario, d)
				}
			}
		}
	}
}
