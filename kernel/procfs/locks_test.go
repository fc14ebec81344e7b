package procfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const someLocks = `1: FLOCK  ADVISORY  WRITE 4711 00:19:1234 0 EOF
1: -> FLOCK  ADVISORY  WRITE 4712 00:19:1234 0 EOF
2: POSIX  ADVISORY  READ  812 fe:01:131073 1073741826 1073742335
3: OFDLCK ADVISORY  READ  -1 fe:01:131073 0 EOF
4: LEASE  ACTIVE    READ  99 fe:01:7 0 EOF
`

func TestParseFileLocks(t *testing.T) {
	got, err := ParseFileLocks(strings.NewReader(someLocks))
	want := []FileLock{
		{"FLOCK", 4711, 0, 0x19, 1234}, {"POSIX", 812, 0xfe, 1, 131073},
		{"OFDLCK", -1, 0xfe, 1, 131073}, {"LEASE", 99, 0xfe, 1, 7},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v: %v", got, want, err)
	}
}

// What is held is reported without being taken.
func TestFileLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := Host.FileLocks(path); err != nil || len(got) != 0 {
		t.Errorf("free: %v, %v", got, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	got, err := Host.FileLocks(path)
	if err != nil || len(got) != 1 || got[0].Class != "FLOCK" || got[0].PID != os.Getpid() {
		t.Errorf("held: %+v, %v", got, err)
	}
}

func FuzzParseFileLocks(f *testing.F) {
	f.Add(someLocks)
	f.Add("1: POSIX ADVISORY READ 1 a:b 0 0")
	f.Fuzz(func(t *testing.T, text string) {
		if all, err := ParseFileLocks(strings.NewReader(text)); err == nil && len(all) > strings.Count(text, "\n")+1 {
			t.Errorf("%d locks in %q", len(all), text)
		}
	})
}
