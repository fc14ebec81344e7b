package swap

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// onDisk is a directory where swap files can be.
func onDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var unfit *Unfit
	if _, err := Room(dir); errors.As(err, &unfit) {
		t.Skipf("%v (TMPDIR names another directory)", err)
	} else if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestHeader(t *testing.T) {
	const page = 4096
	b, err := header(16*page, page)
	if err != nil {
		t.Fatal(err)
	}
	if v, last := binary.NativeEndian.Uint32(b[1024:]), binary.NativeEndian.Uint32(b[1028:]); len(b) != page || v != 1 || last != 15 || string(b[page-10:]) != "SWAPSPACE2" {
		t.Errorf("%d bytes, version %d, last page %d, magic %q", len(b), v, last, b[page-10:])
	}
	for _, size := range []int64{-page, 0, page, 16*page + 1, 1 << 60} {
		if _, err := header(size, page); err == nil {
			t.Errorf("an area of %d bytes has a header", size)
		}
	}
}

func TestCreateFile(t *testing.T) {
	dir := onDisk(t)
	path := filepath.Join(dir, "swap")
	const size = 4 << 20
	if err := CreateFile(t.Context(), path, size); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	if st.Size != size || st.Mode != unix.S_IFREG|0o600 || st.Blocks*512 < size {
		t.Errorf("size %d, mode %o, %d bytes on disk", st.Size, st.Mode, st.Blocks*512)
	}
	if tool, err := exec.LookPath("file"); err == nil {
		out, err := exec.Command(tool, path).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "swap file") || !strings.Contains(string(out), "version 1") {
			t.Errorf("file says %q, %v", out, err)
		}
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := CreateFile(t.Context(), path, size); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file that is there: %v", err)
	}
	if err := Fill(t.Context(), path); err != nil {
		t.Error(err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("a filled file is another one (%v)", err)
	}
	if err := Fill(t.Context(), dir); err == nil {
		t.Error("a directory was filled")
	}
}

// The same header as mkswap's, but for what is left empty here.
func TestHeaderAsMkswapWritesIt(t *testing.T) {
	mkswap, err := exec.LookPath("mkswap")
	if err != nil {
		t.Skip("no mkswap on PATH")
	}
	path := filepath.Join(t.TempDir(), "swap")
	const size = 1 << 20
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(mkswap, path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	theirs, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	copy(theirs[1036:1052], make([]byte, 16)) // the UUID
	ours, err := header(size, page)
	if err != nil {
		t.Fatal(err)
	}
	if string(ours) != string(theirs[:page]) {
		t.Error("the first page differs")
	}
}

func TestFileThatCannotBe(t *testing.T) {
	dir := onDisk(t)
	room, err := Room(filepath.Join(dir, "not", "yet"))
	if err != nil || room <= 0 {
		t.Fatalf("room in a directory to be made: %d, %v", room, err)
	}
	page := int64(os.Getpagesize())
	var full *Full
	if err := CreateFile(t.Context(), filepath.Join(dir, "much"), (room+1<<40)&^(page-1)); !errors.As(err, &full) || full.Want <= full.Have {
		t.Errorf("larger than the disk: %v", err)
	}
	if err := CreateFile(t.Context(), filepath.Join(dir, "odd"), page+1); err == nil {
		t.Error("a file of no whole pages was made")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	if kind, _, err := ground("/dev/shm"); err != nil || kind.name != "tmpfs" {
		t.Skipf("no tmpfs at /dev/shm (%s, %v)", kind.name, err)
	}
	var unfit *Unfit
	err = CreateFile(t.Context(), "/dev/shm/tare-swap-test", 16*page)
	if !errors.As(err, &unfit) || unfit.FileSystem != "tmpfs" || unfit.Choose == "" {
		t.Errorf("in memory: %v, want another directory named", err)
	}
	if _, err := os.Stat("/dev/shm/tare-swap-test"); err == nil {
		t.Error("a file is left in memory")
		os.Remove("/dev/shm/tare-swap-test")
	}
}

func TestFillEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Fill(ended, path); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAnOverlayIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := onDisk(t)
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	merged := filepath.Join(dir, "merged")
	options := "lowerdir=" + filepath.Join(dir, "lower") + ",upperdir=" + filepath.Join(dir, "upper") + ",workdir=" + filepath.Join(dir, "work")
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		t.Skipf("no overlay here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(merged, 0); err != nil {
			t.Error(err)
		}
	})
	var unfit *Unfit
	if err := CreateFile(t.Context(), filepath.Join(merged, "swap"), 1<<20); !errors.As(err, &unfit) || unfit.FileSystem != "overlay" || unfit.Choose == "" {
		t.Errorf("%v, want another directory named", err)
	}
	var none *NoDevice
	if d, err := (Host{}).Below(merged); !errors.As(err, &none) {
		t.Errorf("below an overlay is %v, %v", d, err)
	}
}
