package profile

import (
	"slices"
	"strings"
	"testing"

	"tare/kernel/procfs"
)

func TestExecutable(t *testing.T) {
	maps, err := procfs.ParseMaps(strings.NewReader(`00400000-00401000 r--p 00000000 fe:00 123                                /bin/sh
00401000-00403000 r-xp 00001000 fe:00 123                                /bin/sh
7f0000000000-7f0000001000 rwxp 00000000 00:00 0
7f0000002000-7f0000003000 r-xp 00002000 fe:00 9                          /opt/a program/lib x.so (deleted)
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []mapping{
		{start: 0x401000, end: 0x403000, offset: 0x1000, file: "/bin/sh"},
		{start: 0x7f0000000000, end: 0x7f0000001000},
		{start: 0x7f0000002000, end: 0x7f0000003000, offset: 0x2000, file: "/opt/a program/lib x.so (deleted)"},
		{start: 0x7ffd00000000, end: 0x7ffd00002000, file: "[vdso]"},
	}
	if got := executable(maps); !slices.Equal(got, want) {
		t.Errorf("executable are %+v, want %+v", got, want)
	}
}

func TestContainedByCgroup(t *testing.T) {
	for path, want := range map[string]bool{
		"/docker/0123abc":                                            true,
		"/system.slice/docker-0123abc.scope":                         true,
		"/kubepods.slice/kubepods-pod1.slice/cri-containerd-9.scope": true,
		"/machine.slice/libpod-1.scope":                              true,
		"/tare-7f/redis-1":                                           true,
		"/":                                                          false,
		"/system.slice/docker.service":                               false,
		"/user.slice/user-0.slice":                                   false,
		"/target":                                                    false,
	} {
		if got := contained(path); got != want {
			t.Errorf("%s is taken for a container's: %v", path, got)
		}
	}
}
