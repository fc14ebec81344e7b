package overlay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"tare/kernel/procfs"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		options string
		want    Layers
	}{
		{"rw,lowerdir=/l/A:/l/B,upperdir=/u/diff,workdir=/u/work", Layers{[]string{"/l/A", "/l/B"}, "/u/diff"}},
		{`ro,lowerdir=/a\134:b:/c::/data`, Layers{[]string{"/a:b", "/c"}, ""}},
		{"rw,lowerdir+=/a,lowerdir+=/b:c,datadir+=/d,upperdir=/u", Layers{[]string{"/a", "/b:c"}, "/u"}},
	} {
		m := procfs.Mount{FSType: "overlay", SuperOptions: strings.Split(c.options, ",")}
		got, ok := Of(m)
		if diff := cmp.Diff(c.want, got); diff != "" || !ok {
			t.Errorf("%s: %v\n%s", c.options, ok, diff)
		}
	}
	if _, ok := Of(procfs.Mount{FSType: "ext4"}); ok {
		t.Error("ext4 is said to be an overlay")
	}
}

// Of three layers, two have a directory. A file that is written is copied up; one that is new is
// not, nor one that was copied up before.
func TestAnOverlay(t *testing.T) {
	dir := t.TempDir()
	l := Layers{Lower: []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}, Upper: filepath.Join(dir, "upper")}
	work, merged := filepath.Join(dir, "work"), filepath.Join(dir, "merged")
	for _, d := range []string{l.Lower[0] + "/both", l.Lower[1] + "/both", l.Lower[1] + "/one", l.Upper, work, merged} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("both", l.Lower[0]+"/link"); err != nil {
		t.Fatal(err)
	}
	write := func(path string) {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
		if err == nil {
			_, err = f.WriteString("some bytes")
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(l.Lower[1] + "/one/early")
	write(l.Lower[1] + "/one/late")
	options := "lowerdir=" + strings.Join(l.Lower, ":") + ",upperdir=" + l.Upper + ",workdir=" + work
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		t.Skipf("mounting an overlay: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(merged, 0); err != nil {
			t.Error(err)
		}
	})
	for path, want := range map[string]int{"/both": 2, "/one": 1, "/": 3, "/none": 0, "/link": 0, "/one/late": 0, "/../../..": 0} {
		if got := l.Depth(path); got != want {
			t.Errorf("%s is in %d layers, want %d", path, got, want)
		}
	}
	write(merged + "/one/early")
	early, err := os.Stat(l.Upper + "/one/early")
	if err != nil {
		t.Fatal(err)
	}
	since := early.ModTime()
	for ; !time.Now().After(since.Add(20 * time.Millisecond)); time.Sleep(time.Millisecond) { // the kernel's clock of files is coarse
	}
	since = time.Now().Add(-10 * time.Millisecond)
	write(merged + "/one/early")
	write(merged + "/one/late")
	write(merged + "/one/new")
	got, isWhole, err := l.CopiedUp(since)
	if err != nil || !isWhole || len(got) != 1 || got[0].Path != "/one/late" || got[0].Bytes == 0 {
		t.Errorf("copied up: %+v (%v, %v), want /one/late", got, isWhole, err)
	}
}

func FuzzOf(f *testing.F) {
	f.Add(`lowerdir=/a\134:b:/c::/data,upperdir=/u`)
	f.Fuzz(func(t *testing.T, options string) {
		l, ok := Of(procfs.Mount{FSType: "overlay", SuperOptions: strings.Split(options, ",")})
		if ok != (len(l.Lower) > 0) || len(l.Lower) > len(options) {
			t.Errorf("%q: %v, %+v", options, ok, l)
		}
	})
}
