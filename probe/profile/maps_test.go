package profile

import (
	"slices"
	"strings"
	"testing"
)

func TestParseMaps(t *testing.T) {
	got, err := parseMaps(strings.NewReader(`00400000-00401000 r--p 00000000 fe:00 123                                /bin/sh
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
	if !slices.Equal(got, want) {
		t.Errorf("parsed as %+v, want %+v", got, want)
	}
	for _, bad := range []string{"x", "00401000 r-xp 0 0 0 /x", "2-1 r-xp 0 0 0 /x", "g-h r-xp 0 0 0 /x", "1-2 r-xp z 0 0 /x"} {
		if maps, err := parseMaps(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is parsed as %+v", bad, maps)
		}
	}
}

func FuzzParseMaps(f *testing.F) {
	f.Add("00401000-00403000 r-xp 00001000 fe:00 123    /bin/sh\n")
	f.Fuzz(func(t *testing.T, text string) {
		maps, err := parseMaps(strings.NewReader(text))
		for _, m := range maps {
			if err == nil && m.end < m.start {
				t.Errorf("%+v ends before it begins", m)
			}
		}
	})
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
			t.Errorf("%s is told for a container's: %v", path, got)
		}
	}
}
