package contents_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"tare/probe/contents"
)

const pageSize = 4096

// own gives memory of this process that begins with a page, and that page's number.
func own(pages int) (memory []byte, first uint64) {
	b := make([]byte, (pages+1)*pageSize)
	at := uintptr(unsafe.Pointer(&b[0]))
	skip := (pageSize - at%pageSize) % pageSize
	return b[skip:][:pages*pageSize], uint64((at + skip) / pageSize)
}

func readable(t *testing.T) {
	t.Helper()
	f, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Skipf("needs to read its own memory: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPages(t *testing.T) {
	readable(t)
	memory, first := own(4)
	copy(memory, bytes.Repeat([]byte("same"), pageSize/4))
	copy(memory[pageSize:], memory[:pageSize])
	copy(memory[2*pageSize:], memory[:pageSize])
	memory[3*pageSize-1]++ // the last byte of the third differs; the fourth is zeros
	p := contents.NewPages()
	var hashes [4]uint64
	for i := range hashes {
		hash, zero, ok := p.Read(os.Getpid(), first+uint64(i))
		if !ok || zero != (i == 3) {
			t.Errorf("page %d: read %t, zero %t", i, ok, zero)
		}
		hashes[i] = hash
	}
	runtime.KeepAlive(memory)
	if hashes[0] != hashes[1] || hashes[0] == hashes[2] {
		t.Errorf("two equal pages and one that is not: %x", hashes)
	}
	if _, _, ok := p.Read(os.Getpid(), 0); ok {
		t.Error("the page at 0 is read")
	}
	if p.Err() != nil {
		t.Errorf("a page that is not there is an error: %v", p.Err())
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestPagesOfAnEndedProcess(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	p := contents.NewPages()
	defer p.Close()
	for range 2 {
		if _, _, ok := p.Read(cmd.Process.Pid, 1<<20); ok || p.Err() != nil {
			t.Errorf("of a process that has ended a page is read: %t, %v", ok, p.Err())
		}
	}
}

// mapping finds where this process maps its own program.
func mapping(t *testing.T, program string) contents.Mapped {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	m := contents.Mapped{PID: os.Getpid()}
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(strings.TrimSpace(line), program) {
			if _, err := fmt.Sscanf(line, "%x-%x", &m.Start, &m.End); err != nil {
				t.Fatal(err)
			}
			return m
		}
	}
	t.Fatalf("%s is not mapped", program)
	return m
}

func TestFiles(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if program, err = filepath.EvalSymlinks(program); err != nil {
		t.Fatal(err)
	}
	m := mapping(t, program)
	if _, err := os.Stat(fmt.Sprintf("/proc/self/map_files/%x-%x", m.Start, m.End)); err != nil {
		t.Skipf("needs root, to follow map_files: %v", err)
	}
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	length := fmt.Sprintf("%d bytes", len(b))
	if id, err := contents.Length(m); id != length || err != nil {
		t.Errorf("by its length it is %q, %v", id, err)
	}
	if id, err := contents.Digest(t.Context(), m); id != fmt.Sprintf("%s, sha256:%x", length, sha256.Sum256(b)) || err != nil {
		t.Errorf("by its bytes it is %q, %v", id, err)
	}
	m.End += pageSize
	if id, err := contents.Length(m); err == nil {
		t.Errorf("a mapping that is not there is of %q", id)
	}
}

func BenchmarkPages(b *testing.B) {
	memory, first := own(1024)
	for i := range memory {
		memory[i] = byte(i / 7)
	}
	p := contents.NewPages()
	defer p.Close()
	b.SetBytes(pageSize)
	for i := uint64(0); b.Loop(); i++ {
		if _, _, ok := p.Read(os.Getpid(), first+i%1024); !ok {
			b.Fatal("not read: needs to read its own memory")
		}
	}
	runtime.KeepAlive(memory)
}
