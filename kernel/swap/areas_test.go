package swap

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fake makes a tree of the kernel's files.
func fake(t *testing.T, files map[string]string) Host {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Host{root}
}

const threeAreas = `Filename				Type		Size		Used		Priority
/dev/vda2                               partition	8388604		12		-2
/var/lib/a\040file                      file		65532		4096		5
/tmp/gone\040(deleted)                  file		1020		0		7
`

func TestAreas(t *testing.T) {
	const odd = "/s/no-break\u00a0space file 1 0 6\n/s/here\\040(deleted) file 1 0 8\n/s/back\\134040 file 1 0 9\n"
	got, err := fake(t, map[string]string{"proc/swaps": threeAreas + odd, "s/here (deleted)": ""}).Areas()
	if err != nil {
		t.Fatal(err)
	}
	want := []Area{
		{Path: "/dev/vda2", Size: 8388604 << 10, Used: 12 << 10, Priority: -2},
		{Path: "/var/lib/a file", File: true, Size: 65532 << 10, Used: 4 << 20, Priority: 5},
		{Path: "/tmp/gone", Deleted: true, File: true, Size: 1020 << 10, Priority: 7},
		{Path: "/s/no-break\u00a0space", File: true, Size: 1 << 10, Priority: 6},
		{Path: "/s/here (deleted)", File: true, Size: 1 << 10, Priority: 8},
		{Path: `/s/back\040`, File: true, Size: 1 << 10, Priority: 9},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAreaByPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, link := filepath.Join(dir, "swap"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	h := fake(t, map[string]string{"proc/swaps": threeAreas + file + " file 64 0 1\n"})
	for path, want := range map[string]bool{file: true, link: true, "/dev/vda2": true, "/var/lib/a file": true, "/tmp/gone": false, dir: false} {
		if a, ok, err := h.Area(path); ok != want || err != nil {
			t.Errorf("%s: %+v, %v, %v", path, a, ok, err)
		}
	}
}

func TestParseAreasRefuses(t *testing.T) {
	const head = "Filename Type Size Used Priority\n"
	for text, want := range map[string]string{
		"/a file 1 2\n":                        "4 fields",
		"/a file -1 2 3\n":                     "size",
		"/a file 1 x 3\n":                      "used",
		"/a file 1 2 high\n":                   "priority",
		"/a file 9223372036854775807 2 high\n": "size",
	} {
		if _, err := ParseAreas(strings.NewReader(head + text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want it to name %q", text, err, want)
		}
	}
	if areas, err := ParseAreas(strings.NewReader("")); err != nil || len(areas) > 0 {
		t.Errorf("of nothing: %v, %v", areas, err)
	}
}

func TestPriorityAbove(t *testing.T) {
	for _, c := range []struct {
		have []int
		want int
	}{
		{nil, 0}, {[]int{-2, -3}, 0}, {[]int{0}, 1}, {[]int{-2, 100, 5}, 101}, {[]int{MaxPriority - 1}, MaxPriority},
	} {
		var areas []Area
		for _, p := range c.have {
			areas = append(areas, Area{Priority: p})
		}
		if got, err := PriorityAbove(areas); got != c.want || err != nil {
			t.Errorf("above %v: %d, %v, want %d", c.have, got, err, c.want)
		}
	}
	var taken *Taken
	if _, err := PriorityAbove([]Area{{Path: "/a", Priority: MaxPriority}}); !errors.As(err, &taken) || taken.By.Path != "/a" {
		t.Errorf("above the highest: %v", err)
	}
}

func FuzzParseAreas(f *testing.F) {
	f.Add(threeAreas)
	f.Add("x\n/a\\0 file 1 2 3\n")
	f.Fuzz(func(t *testing.T, text string) {
		areas, err := ParseAreas(strings.NewReader(text))
		for _, a := range areas {
			if a.Size < 0 || a.Used < 0 || err != nil {
				t.Errorf("%+v, %v", a, err)
			}
		}
	})
}
