package procfs

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const mapsText = `00400000-00401000 r--p 00000000 fe:00 123                                /bin/sh
00e1a000-00e3b000 rw-p 00000000 00:00 0                                  [heap]
7f0000000000-7f0000001000 rwxp 00000000 00:00 0
7f0000001000-7f0000002000 ---p 00000000 00:00 0
7f0000002000-7f0000003000 r-xp 00002000 103:4000 9                       /opt/a program/lib\012x.so (deleted)
7f0000003000-7f0000004000 rw-s 00000000 00:01 2048                       /dev/zero (deleted)
7f0000004000-7f0000005000 rw-s 00000000 00:01 2049                       /memfd:a b (deleted)
7f0000005000-7f0000006000 rw-s 00000000 00:01 32770                      /SYSV00000000 (deleted)
7f0000006000-7f0000007000 rw-p 00000000 00:00 0                          [anon:glibc: malloc]
7f0000007000-7f0000008000 rw-p 00000000 00:00 0                          [anon:x (deleted)]
7f0000008000-7f0000009000 r--p 00000000 fe:00 10                         /ends in ` + "\r" + `
7ffd00000000-7ffd00002000 rw-p 00000000 00:00 0                          [stack]
7ffd00002000-7ffd00004000 r--p 00000000 00:00 0                          [vvar_vclock]
7fffffffe000-7ffffffff000 --xp 00000000 00:00 0                          [uprobes]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
`

func TestParseMaps(t *testing.T) {
	got, err := ParseMaps(strings.NewReader(mapsText))
	if err != nil {
		t.Fatal(err)
	}
	want := []Mapping{
		{Start: 0x400000, End: 0x401000, Read: true, Major: 0xfe, Inode: 123, Path: "/bin/sh"},
		{Start: 0xe1a000, End: 0xe3b000, Read: true, Write: true, Path: "[heap]"},
		{Start: 0x7f0000000000, End: 0x7f0000001000, Read: true, Write: true, Execute: true},
		{Start: 0x7f0000001000, End: 0x7f0000002000},
		{Start: 0x7f0000002000, End: 0x7f0000003000, Read: true, Execute: true, Offset: 0x2000, Major: 0x103, Minor: 0x4000, Inode: 9, Path: "/opt/a program/lib\nx.so", Deleted: true},
		{Start: 0x7f0000003000, End: 0x7f0000004000, Read: true, Write: true, Shared: true, Minor: 1, Inode: 2048, Path: "/dev/zero", Deleted: true},
		{Start: 0x7f0000004000, End: 0x7f0000005000, Read: true, Write: true, Shared: true, Minor: 1, Inode: 2049, Path: "/memfd:a b", Deleted: true},
		{Start: 0x7f0000005000, End: 0x7f0000006000, Read: true, Write: true, Shared: true, Minor: 1, Inode: 32770, Path: "/SYSV00000000", Deleted: true},
		{Start: 0x7f0000006000, End: 0x7f0000007000, Read: true, Write: true, Path: "[anon:glibc: malloc]"},
		{Start: 0x7f0000007000, End: 0x7f0000008000, Read: true, Write: true, Path: "[anon:x (deleted)]"},
		{Start: 0x7f0000008000, End: 0x7f0000009000, Read: true, Major: 0xfe, Inode: 10, Path: "/ends in \r"},
		{Start: 0x7ffd00000000, End: 0x7ffd00002000, Read: true, Write: true, Path: "[stack]"},
		{Start: 0x7ffd00002000, End: 0x7ffd00004000, Read: true, Path: "[vvar_vclock]"},
		{Start: 0x7fffffffe000, End: 0x7ffffffff000, Execute: true, Path: "[uprobes]"},
		{Start: 0xffffffffff600000, End: 0xffffffffff601000, Execute: true, Path: "[vsyscall]"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{
		"x", "1000 r-xp 0 0:0 0 /x", "2-1 r-xp 0 0:0 0", "1-1 r-xp 0 0:0 0", "g-h r-xp 0 0:0 0", "1-2 r-xp z 0:0 0",
		"1-2 r-x 0 0:0 0", "1-2 r-xp 0 0 0", "1-2 r-xp 0 0:0", "1-2 r-xp 0 0:0 a", "3-5 r-xp 0 0:0 0\n4-6 r-xp 0 0:0 0",
	} {
		if maps, err := ParseMaps(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is parsed as %+v", bad, maps)
		}
	}
}

// A heap that grew between two calls of one reading is reported twice: the second counts.
func TestMapsOfWhatGrows(t *testing.T) {
	maps, err := ParseMaps(strings.NewReader("1000-2000 r--p 0 0:0 0\n3000-4000 rw-p 0 0:0 0 [heap]\n3000-6000 rw-p 0 0:0 0 [heap]\n6000-7000 r--p 0 0:0 0\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Mapping{
		{Start: 0x1000, End: 0x2000, Read: true},
		{Start: 0x3000, End: 0x6000, Read: true, Write: true, Path: "[heap]"},
		{Start: 0x6000, End: 0x7000, Read: true},
	}
	if diff := cmp.Diff(want, maps); diff != "" {
		t.Error(diff)
	}
	if maps, err := ParseMaps(strings.NewReader("3000-6000 rw-p 0 0:0 0\n3000-4000 rw-p 0 0:0 0\n")); err == nil {
		t.Errorf("one that shrank into itself is parsed as %+v", maps)
	}
}

// What this program maps is reported as it is.
func TestMapsOfOurOwn(t *testing.T) {
	maps, err := Host.Process(os.Getpid()).Maps()
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	stat := new(syscall.Stat_t)
	if info, err := os.Stat("/proc/self/exe"); err != nil {
		t.Fatal(err)
	} else {
		stat = info.Sys().(*syscall.Stat_t)
	}
	code, stack := false, false
	for _, m := range maps {
		if m.Path == exe && (m.Inode != stat.Ino || m.DeviceNumber() != stat.Dev) {
			t.Errorf("%+v is of device %#x, and stat says device %#x, inode %d", m, m.DeviceNumber(), stat.Dev, stat.Ino)
		}
		code = code || m.Path == exe && m.Execute && !m.Write && m.Inode != 0
		stack = stack || m.Path == "[stack]" && m.Read && m.Write
	}
	if !code || !stack {
		t.Errorf("our code is found: %v, our stack: %v, in %+v", code, stack, maps)
	}
}

func FuzzParseMaps(f *testing.F) {
	f.Add(mapsText)
	f.Fuzz(func(t *testing.T, text string) {
		maps, err := ParseMaps(strings.NewReader(text))
		if err != nil {
			return
		}
		end := uint64(0)
		for _, m := range maps {
			if m.Start < end || m.End <= m.Start {
				t.Errorf("%+v is not above %#x", m, end)
			}
			end = m.End
		}
	})
}
