package pagetable

import (
	"strings"
	"testing"

	"tare/kernel/procfs"
)

func TestKinds(t *testing.T) {
	own := executable{"/usr/bin/server", identity{0xfe00, 7}}
	for _, c := range []struct {
		line string
		kind Kind
		file string
	}{
		{"1000-2000 r--p 00000000 fe:00 7    /usr/bin/server", Code, "/usr/bin/server"},
		{"2000-3000 r-xp 00001000 fe:00 7    /usr/bin/server", Code, "/usr/bin/server"},
		{"3000-4000 rw-p 00002000 00:2a 99   /usr/bin/server", Code, "/usr/bin/server"}, // layers report another device
		{"4000-5000 r--p 00000000 fe:00 7    /proc/self/exe (deleted)", Code, "/proc/self/exe"},
		{"5000-6000 r--p 00000000 fe:00 8    /lib/libc.so.6", Library, "/lib/libc.so.6"},
		{"6000-7000 r-xp 00001000 fe:00 8    /lib/libc.so.6", Library, "/lib/libc.so.6"},
		{"7000-8000 rw-p 00002000 fe:00 8    /lib/libc.so.6", Library, "/lib/libc.so.6"},
		{"8000-9000 r--p 00000000 fe:01 8    /data/of another device", FileData, "/data/of another device"},
		{"9000-a000 rw-s 00000000 fe:00 9    /data/b (deleted)", FileData, "/data/b"},
		{"a000-b000 rw-p 00000000 00:00 0", Anonymous, ""},
		{"b000-c000 rw-p 00000000 00:00 0    [anon:JavaHeap]", Anonymous, ""},
		{"c000-d000 rw-p 00000000 00:00 0    [heap]", Heap, ""},
		{"d000-e000 rw-p 00000000 00:00 0    [stack]", Stack, ""},
		{"e000-f000 rw-s 00000000 00:01 9    /dev/zero (deleted)", SharedMemory, "/dev/zero"},
		{"f000-10000 rw-p 00000000 00:05 9   /dev/zero", Anonymous, ""},
		{"10000-11000 rw-s 00000000 00:01 9  /memfd:x (deleted)", SharedMemory, "/memfd:x"},
		{"11000-12000 r-xs 00000000 00:01 9  /memfd:jit (deleted)", SharedMemory, "/memfd:jit"},
		{"12000-13000 rw-s 00000000 00:01 9  /SYSV00000000 (deleted)", SharedMemory, "/SYSV00000000"},
		{"13000-14000 rw-s 00000000 00:17 9  /dev/shm/x", SharedMemory, "/dev/shm/x"},
		{"14000-15000 rw-s 00000000 00:00 0  [anon_shmem:x]", SharedMemory, ""},
		{"15000-16000 rw-p 00000000 00:0f 9  /anon_hugepage (deleted)", Anonymous, ""},
		{"16000-17000 rw-s 00000000 00:0f 9  /anon_hugepage (deleted)", SharedMemory, "/anon_hugepage"},
		{"16000-17000 rw-s 00000000 fe:00 9  /memfd:a file's name", FileData, "/memfd:a file's name"},
		{"16000-17000 rw-s 00000000 fe:00 9  /SYSV00000000", FileData, "/SYSV00000000"},
		{"17000-18000 rw-s 00000000 00:05 9  /dev/dri/card0", Device, "/dev/dri/card0"},
		{"18000-19000 rw-s 00000000 00:0d 9  anon_inode:[io_uring]", Device, "anon_inode:[io_uring]"},
		{"19000-1a000 rw-s 00000000 00:08 9  socket:[4711]", Device, "socket:[4711]"},
		{"1a000-1b000 r--p 00000000 00:00 0  [vvar]", VDSO, ""},
		{"1b000-1c000 r--p 00000000 00:00 0  [vvar_vclock]", VDSO, ""},
		{"1c000-1d000 r-xp 00000000 00:00 0  [vdso]", VDSO, ""},
		{"1d000-1e000 --xp 00000000 00:00 0  [uprobes]", VDSO, ""},
	} {
		// The library's code is mapped in every case: its file is known as one.
		maps, err := procfs.ParseMaps(strings.NewReader(c.line + "\n7f0000000000-7f0000001000 r-xp 00001000 fe:00 8 /lib/libc.so.6\n"))
		if err != nil {
			t.Fatal(err)
		}
		got := mappingsOf(maps, own)[0]
		deleted := c.file != "" && strings.HasSuffix(c.line, " (deleted)")
		if got.Kind != c.kind || got.File != c.file || got.Deleted != deleted {
			t.Errorf("%q is of kind %d, file %q, deleted %t; want %d, %q, %t", c.line, got.Kind, got.File, got.Deleted, c.kind, c.file, deleted)
		}
		if (got.Kind == Anonymous) && got.Inode != 0 {
			t.Errorf("%q is anonymous and of inode %d", c.line, got.Inode)
		}
	}
}
