package command

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOwnPath: root looks for programs only where no other user can put one.
func TestOwnPath(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("who is not root may look anywhere")
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, to := range map[string]struct {
		mode     fs.FileMode
		uid, gid int
	}{
		"roots":    {0o755, 0, 0},
		"staffs":   {0o775, 0, 50}, // as /usr/local/bin of Debian
		"anybodys": {0o777, 0, 0},
		"sticky":   {0o777 | fs.ModeSticky, 0, 0},
		"users":    {0o755, 65534, 0},
	} {
		if err := errors.Join(os.Mkdir(at(name), 0o700), os.Chown(at(name), to.uid, to.gid), os.Chmod(at(name), to.mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(at("users"), at("link")); err != nil {
		t.Fatal(err)
	}
	system := "/usr/bin"
	all := []string{at("users"), at("roots"), ".", "", "bin", at("anybodys"), at("staffs"), at("sticky"), at("link"), at("users/none"), at("none"), system}
	t.Setenv("PATH", strings.Join(all, ":"))
	var warnings strings.Builder
	ownPath(t.Context(), &warnings)
	if want := strings.Join([]string{at("roots"), at("staffs"), system}, ":"); os.Getenv("PATH") != want {
		t.Errorf("left is %s, want %s", os.Getenv("PATH"), want)
	}
	if lines := strings.Split(strings.TrimSpace(warnings.String()), "\n"); len(lines) != 8 || !strings.Contains(lines[0], at("users")) || !strings.Contains(lines[0], "65534") {
		t.Errorf("warnings is\n%s", warnings.String())
	}
	warnings.Reset()
	if ownPath(t.Context(), &warnings); warnings.Len() > 0 {
		t.Errorf("warnings again: %s", warnings.String())
	}
}
