package gpu_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	kernelfile "tare/kernel/file"
	"tare/probe/gpu"
)

// file makes a trace by hand, as docs/gpu-trace.md has it.
type file struct{ head, chunk []byte }

const chunkSize = 1 << 16

func newFile(method byte) *file {
	f := &file{head: make([]byte, 4096), chunk: make([]byte, 16, chunkSize)}
	le := binary.LittleEndian
	copy(f.head, "TAREGPU\x01")
	le.PutUint32(f.head[8:], 4096)
	le.PutUint32(f.head[12:], chunkSize)
	le.PutUint32(f.head[16:], 17)
	le.PutUint32(f.head[20:], 3)
	le.PutUint64(f.head[24:], 1000)
	le.PutUint64(f.head[32:], 1_700_000_000_000_000_000)
	le.PutUint64(f.head[40:], 8) // chunks at most
	le.PutUint64(f.head[48:], 1)
	le.PutUint32(f.head[56:], 1)
	f.head[60] = method
	le.PutUint64(f.head[64:], 9000)
	le.PutUint32(f.head[72:], 1)
	return f
}

// add appends a record; fields are uint8, uint16, uint32, uint64 and strings.
func (f *file) add(kind, flags byte, id uint32, fields ...any) *file {
	le := binary.LittleEndian
	b := []byte{kind, flags, 0, 0, 0, 0, 0, 0}
	le.PutUint32(b[4:], id)
	for _, v := range fields {
		switch v := v.(type) {
		case uint8:
			b = append(b, v)
		case uint16:
			b = le.AppendUint16(b, v)
		case uint32:
			b = le.AppendUint32(b, v)
		case uint64:
			b = le.AppendUint64(b, v)
		case string:
			b = append(b, v...)
		default:
			panic("a field of another type")
		}
	}
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	le.PutUint16(b[2:], uint16(len(b)))
	f.chunk = append(f.chunk, b...)
	return f
}

func (f *file) name(space, id uint32, text string) *file {
	return f.add(2, 0, id, space, uint32(len(text)), text)
}

func (f *file) call(flags byte, id uint32, start, took uint64, thread uint32) *file {
	return f.add(1, flags, id, start, took, uint64(4096), uint32(7), uint32(0), thread, uint32(0))
}

// work is a kernel's.
func (f *file) work(kind, flags byte, id uint32, start, took uint64, device uint32) *file {
	return f.add(3, flags, id, start, took, uint64(100), uint32(7), device, uint32(1), uint32(2), kind, uint8(1), uint8(2), uint8(3), uint32(9))
}

func (f *file) bytes() []byte {
	chunk := make([]byte, chunkSize)
	copy(chunk, f.chunk)
	binary.LittleEndian.PutUint32(chunk, 0x4b4e4843)
	binary.LittleEndian.PutUint64(chunk[8:], uint64(len(f.chunk)))
	return slices.Concat(f.head, chunk)
}

func read(t *testing.T, b []byte) *gpu.Trace {
	t.Helper()
	tr, err := gpu.Read(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestRead(t *testing.T) {
	f := newFile(2).
		name(3, 0, "/usr/bin/lud").name(4, 0, "lud\x00--size\x00512\x00").name(5, 0, "no CUPTI").
		name(6, 0, "driver=12040").name(6, 0, "loading=lazy").name(6, 0, "ptx-compiler=mapped").name(6, 0, "later=1").
		name(1, 9, "cuMemAlloc_v2").name(1, 10, "cuLaunchKernel_ptsz").name(2, 1, "_Z3ludPfi").name(7, 0, "A GPU").
		call(1, 9, 2000, 50, 17).call(2, 10, 2100, 5, 17).call(0, 11, 2200, 5, 18).
		work(1, 1, 1, 2105, 400, 0).work(2, 4|2, 0, 1500, 30, 0xffffffff).
		add(6, 0, 7, uint64(1200), uint64(20), uint64(999), uint8(3), uint8(2), uint16(1), uint16(2), uint16(86), uint32(17), uint32(0)).
		add(7, 0, 2, uint64(1), uint64(2), uint64(3)).
		add(8, 0, 0, uint32(9), uint32(0), uint32(132), uint32(3), uint64(1), uint64(2), uint64(80<<30))
	binary.LittleEndian.PutUint64(f.head[80+8*6:], 4)
	binary.LittleEndian.PutUint64(f.head[512+16*9:], 5)
	binary.LittleEndian.PutUint64(f.head[512+16*9+8:], 500)
	tr := read(t, f.bytes())

	if tr.PID != 17 || tr.Parent != 3 || tr.Program != "/usr/bin/lud" || !slices.Equal(tr.Arguments, []string{"lud", "--size", "512"}) || tr.Began != 1000 || tr.Ended != 9000 {
		t.Errorf("%+v", tr)
	}
	if tr.Method != gpu.Interposition || tr.Driver != 12040 || tr.Loading != "lazy" || tr.Compiler == nil || !*tr.Compiler || !slices.Equal(tr.Complaints, []string{"no CUPTI"}) {
		t.Errorf("%+v", tr)
	}
	if tr.RealTime.Unix() != 1_700_000_000 || tr.Title() != "pid 17 (/usr/bin/lud)" {
		t.Errorf("%s at %s", tr.Title(), tr.RealTime)
	}
	want := []gpu.Call{
		{Name: "cuMemAlloc", Start: 2000, Took: 50, Bytes: 4096, Thread: 17, Correlation: 7, Outer: true},
		{Name: "cuLaunchKernel", Start: 2100, Took: 5, Bytes: -1, Thread: 17, Correlation: 7, First: true, Outer: true},
		{Name: "call 11", Start: 2200, Took: 5, Bytes: -1, Thread: 18, Correlation: 7, Outer: true},
	}
	if !slices.Equal(tr.Calls, want) {
		t.Errorf("calls %+v", tr.Calls)
	}
	work := []gpu.Work{
		{Kind: gpu.Copy, Start: 1500, Took: 30, Bytes: 100, Timing: gpu.ByCall, Async: true, Direction: gpu.HostToDevice, From: gpu.Pinned, To: gpu.DeviceMemory, Device: -1, Context: 1, Stream: 2, Thread: 9, Correlation: 7},
		{Kind: gpu.Kernel, Name: "_Z3ludPfi", Start: 2105, Took: 400, Bytes: 100, Timing: gpu.ByEvents, Direction: gpu.HostToDevice, From: gpu.Pinned, To: gpu.DeviceMemory, Device: 0, Context: 1, Stream: 2, Thread: 9, Correlation: 7},
	}
	if !slices.Equal(tr.Work, work) {
		t.Errorf("work %+v", tr.Work)
	}
	if len(tr.Modules) != 1 || tr.Modules[0].Form != gpu.Fat || tr.Modules[0].Cubins != 1 || tr.Modules[0].PTX != 2 || tr.Modules[0].Arch != 86 || !*tr.Modules[0].Compiles {
		t.Errorf("modules %+v", tr.Modules)
	}
	if d, ok := tr.Device(0); !ok || d.Name != "A GPU" || d.Major != 9 || d.Multiprocessors != 132 || d.ComputeMode != 3 || d.Memory != 80<<30 || !strings.HasPrefix(d.UUID, "GPU-01000000-0000-0000-0200-") {
		t.Errorf("device %+v", d)
	}
	if tr.Lost.Full != 4 || tr.Lost.ByName["cuMemAlloc"] != (gpu.LostCalls{Count: 5, Time: 500}) || !tr.Lost.Any() {
		t.Errorf("lost %+v", tr.Lost)
	}
}

// Moments of CUPTI's clock are converted: in proportion between two that are known by both
// clocks, by the nearest of them outside.
func TestReadConvertsClocks(t *testing.T) {
	tr := read(t, newFile(1).
		call(0x80, 9, 500_000, 10, 1).call(0x80, 9, 1_000_500, 10, 1).call(0x80, 9, 1_003_000, 10, 1).
		add(7, 0x80, 1, uint64(1_001_000), uint64(2000), uint64(2200)). // 1000 by CUPTI are 1100 by the host
		add(7, 0x80, 1, uint64(1_000_000), uint64(900), uint64(1100)).
		bytes())
	var starts []time.Duration
	for _, c := range tr.Calls {
		starts = append(starts, c.Start)
	}
	if !slices.Equal(starts, []time.Duration{1000 - 500_000, 1550, 2100 + 2000}) {
		t.Errorf("starts %d", starts)
	}
	if tr = read(t, newFile(1).call(0x80, 9, 5, 10, 1).bytes()); len(tr.Complaints) != 1 {
		t.Errorf("complaints %q", tr.Complaints)
	}
}

// Calls within others of their thread are reported, whatever order they were written in.
func TestReadNests(t *testing.T) {
	tr := read(t, newFile(1).
		name(1, 1, "cudaMalloc_v3020").name(1, 2, "cuMemAlloc_v2").
		call(0, 2, 100, 40, 1).call(0, 1, 100, 50, 1). // begins together with its outer one
		call(0, 2, 120, 30, 2).                        // of another thread
		call(0, 2, 150, 10, 1).                        // begins as the other ends
		call(0, 1, 200, 50, 1).call(0, 2, 210, 10, 1).call(0, 2, 240, 10, 1).call(0, 2, 245, 10, 1).
		bytes())
	outer := map[time.Duration]bool{}
	for _, c := range tr.Calls {
		if c.Name == "cuMemAlloc" {
			outer[c.Start] = c.Outer
		}
	}
	// The last ends after the outer one did, and so is none of its.
	for start, want := range map[time.Duration]bool{100: false, 120: true, 150: true, 210: false, 240: false, 245: true} {
		if outer[start] != want {
			t.Errorf("the call at %d: outer %t", start, outer[start])
		}
	}
}

func TestReadRefuses(t *testing.T) {
	good := newFile(2).name(1, 9, "cuInit").call(0, 9, 1, 2, 3).bytes()
	with := func(at int, b ...byte) []byte {
		bad := slices.Clone(good)
		copy(bad[at:], b)
		return bad
	}
	for _, c := range []struct {
		name string
		file []byte
		says string
	}{
		{"nothing", nil, "its head is cut"},
		{"half a head", good[:2000], "its head is cut"},
		{"another file", bytes.Repeat([]byte("text\n"), 1000), "begins with other bytes"},
		{"another version", with(7, 2), "version 2, and only 1"},
		{"other chunks", with(12, 0, 0, 2, 0), "chunks of 131072"},
		{"no such method", with(60, 9), "no method 9"},
		{"chunk of other bytes", with(4096, 1), "chunk 0: it begins with other bytes"},
		{"overlong chunk", with(4096+8, 1, 0, 1), "65537 of its 65536 bytes"},
		{"record of no kind", with(4096+16, 200), "a record of kind 200"},
		{"record too short", with(4096+18, 8), "a record of kind 2 with 8 bytes"},
		{"record of odd length", with(4096+18, 25), "a record of kind 2 with 25 bytes"},
		{"record too long", with(4096+18, 0, 16), "more than there are"},
		{"overlong name", with(4096+16+12, 100), "a name of 100 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := gpu.Read(bytes.NewReader(c.file))
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
		})
	}
}

// A file that was cut is good as far as it goes.
func TestReadCut(t *testing.T) {
	f := newFile(2)
	for i := range uint64(100) {
		f.call(0, 9, 1000*i, 10, 1)
	}
	b := f.bytes()
	for _, c := range []struct{ length, calls int }{{len(b), 100}, {4096 + 16 + 48*10, 10}, {4096 + 16 + 48*10 + 20, 10}, {4096 + 10, 0}, {4096, 0}} {
		tr := read(t, b[:c.length])
		if len(tr.Calls) != c.calls || tr.Cut != (c.length < len(b)) {
			t.Errorf("of %d bytes: %d calls, cut %t", c.length, len(tr.Calls), tr.Cut)
		}
	}
	// A chunk that was claimed and never written is nothing.
	if tr := read(t, slices.Concat(b, make([]byte, chunkSize))); len(tr.Calls) != 100 || tr.Cut {
		t.Errorf("%d calls, cut %t", len(tr.Calls), tr.Cut)
	}
}

func TestReadDir(t *testing.T) {
	dir := t.TempDir()
	for name, b := range map[string][]byte{"1-1.gputrace": newFile(2).bytes(), "2-1.gputrace": []byte("short"), "notes": []byte("text")} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := gpu.ReadDir(dir, 0)
	if len(all) != 1 || err == nil || !strings.Contains(err.Error(), "2-1.gputrace: no trace of a GPU") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%d traces, %v", len(all), err)
	}
	if _, err := gpu.ReadDir(filepath.Join(dir, "absent"), 0); err == nil {
		t.Error("a directory that is not there is read")
	}
}

// Programs write their traces, and may write more than was asked for: what is beyond is not read.
func TestReadDirIsBounded(t *testing.T) {
	const room = 1 // MiB
	write := func(dir string, i int, b []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d-1.gputrace", i)), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	isCut := func(dir string, traces, calls int, says string) {
		t.Helper()
		all, err := gpu.ReadDir(dir, room)
		var sum int
		var cut []string
		for _, tr := range all {
			if sum += len(tr.Calls); tr.Cut {
				cut = tr.Complaints
			}
		}
		if err != nil || len(all) != traces || sum != calls || !strings.Contains(strings.Join(cut, "\n"), says) {
			t.Errorf("%d traces with %d calls, cut %q, %v", len(all), sum, cut, err)
		}
	}
	one := newFile(2).name(5, 0, "one").call(0, 9, 1, 2, 3).bytes()
	// The head says nothing of what follows.
	long := slices.Concat(one, make([]byte, room<<20-chunkSize), one[4096:])
	longs, many := t.TempDir(), t.TempDir()
	write(longs, 0, long)
	isCut(longs, 1, 1, "one")
	for i := range 10 {
		write(longs, i, long)
	}
	isCut(longs, 4, 4, "than are read: 256, and 4 MiB")
	for i := range 300 {
		write(many, i, one[:4096+100])
	}
	isCut(many, 256, 256, "than are read")
	f := newFile(2)
	for i := range 500 {
		f.name(5, 0, strconv.Itoa(i)).
			add(8, 0, uint32(i), uint32(9), uint32(0), uint32(132), uint32(3), uint64(i), uint64(2), uint64(80<<30))
	}
	if tr := read(t, f.bytes()); len(tr.Complaints) != 256 || len(tr.Devices) != 256 {
		t.Errorf("%d complaints and %d devices", len(tr.Complaints), len(tr.Devices))
	}
}

// What does not begin as a trace is taken as the records of one, which are found sooner so.
func FuzzRead(f *testing.F) {
	f.Add(newFile(2).name(1, 9, "cuInit").call(0, 9, 1, 2, 3).work(1, 1, 1, 5, 6, 0).chunk[16:])
	f.Add(newFile(1).call(0x80, 9, 1, 2, 3).call(0x80, 9, 1, 1, 3).add(7, 0x80, 1, uint64(5), uint64(6), uint64(7)).add(7, 0x80, 1, uint64(9), uint64(16), uint64(17)).chunk[16:])
	f.Add(newFile(2).name(1, 9, "cuInit").call(0, 9, 1, 2, 3).work(1, 1, 1, 5, 6, 0).bytes())
	f.Add(newFile(1).call(0x80, 9, 1, 2, 3).work(2, 0x80, 1, 5, 6, 0).
		add(4, 0x80, 3, uint64(1), uint64(2), uint64(3), uint32(4), uint32(0), uint32(1), uint32(2)).
		add(5, 0x80, 1, uint64(1), uint64(2), uint32(4), uint32(0)).
		add(7, 0x80, 1, uint64(1<<63), uint64(1<<63), uint64(0)).
		add(8, 0, 0, uint32(9), uint32(0), uint32(132), uint32(3), uint64(1), uint64(2), uint64(1<<63)).bytes())
	f.Add(newFile(0).bytes()[:4096])
	f.Fuzz(func(t *testing.T, b []byte) {
		if !bytes.HasPrefix(b, []byte("TAREGPU")) && len(b) <= chunkSize-16 {
			wrapped := newFile(1)
			wrapped.chunk = append(wrapped.chunk, b...)
			b = wrapped.bytes()
		}
		tr, err := gpu.Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		for i := 1; i < len(tr.Calls); i++ {
			if tr.Calls[i].Start < tr.Calls[i-1].Start {
				t.Fatalf("call %d begins at %d, and the one before it at %d", i, tr.Calls[i].Start, tr.Calls[i-1].Start)
			}
		}
		s := gpu.Summarize(tr, tr)
		if s.Processes != 2 || s.Kernels.Timed < 0 || s.API.Time.Count > 2*len(tr.Calls) {
			t.Fatalf("%+v", s)
		}
		for _, k := range s.Kernels.ByName {
			if k.Time.P50 > k.Time.P99 || k.Time.P99 > k.Time.Max {
				t.Fatalf("%+v", k)
			}
		}
		_ = s.KernelTime()
	})
}

// Programs in containers write in the directory of traces: what they put in the place of one is not opened.
func TestNoLinksAndNoPipesAreRead(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"+gpu.Suffix), filepath.Join(dir, "link"+gpu.Suffix)
	if err := errors.Join(exec.Command("mkfifo", pipe).Run(), os.Symlink("/proc/self/exe", link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, link} {
		if _, err := gpu.ReadFile(path); !errors.Is(err, kernelfile.ErrNotRegular) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
