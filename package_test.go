package tare_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestInstallAndUninstall has scripts/package.sh install stand-ins for programs, and take away exactly
// those.
func TestInstallAndUninstall(t *testing.T) {
	binaries, destination := t.TempDir(), t.TempDir()
	for _, name := range []string{"tare", "annex", "annexd"} {
		for _, file := range []string{name, "completions/bash/" + name, "completions/zsh/_" + name, "completions/fish/" + name + ".fish", "man/" + name + ".1"} {
			path := filepath.Join(binaries, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, file := range []string{"kubectl-tare", "man/kubectl-tare.1", "man/kubectl-tare-weigh.1"} {
		if err := os.WriteFile(filepath.Join(binaries, file), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(destination, "opt/tare/bin/other")
	if err := os.MkdirAll(filepath.Dir(other), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	pack := func(args ...string) (string, error) {
		out, err := exec.Command("scripts/package.sh", args...).CombinedOutput()
		return string(out), err
	}
	if out, err := pack("install", destination, "opt/tare", binaries); err == nil || !strings.Contains(out, "absolute path") {
		t.Errorf("a relative prefix: %v, %s", err, out)
	}
	if out, err := pack("install", destination, "/opt/tare", binaries); err != nil {
		t.Fatalf("install: %v\n%s", err, out)
	}
	installed := below(t, destination)
	for _, want := range []string{"opt/tare/bin/tare", "opt/tare/bin/kubectl-tare", "opt/tare/bin/kubectl_complete-tare", "opt/tare/share/man/man1/kubectl-tare-weigh.1", "opt/tare/share/man/man1/annex.1", "opt/tare/share/doc/tare/annexd.service", "opt/tare/share/bash-completion/completions/tare"} {
		if !slices.Contains(installed, want) {
			t.Errorf("%s is not among what was installed: %q", want, installed)
		}
	}
	unit, err := os.ReadFile(filepath.Join(destination, "opt/tare/share/doc/tare/annexd.service"))
	if err != nil || !strings.Contains(string(unit), "ExecStart=/opt/tare/bin/annexd ") {
		t.Errorf("the unit starts another program (%v)", err)
	}
	if out, err := pack("uninstall", destination, "/opt/tare"); err != nil {
		t.Fatalf("uninstall: %v\n%s", err, out)
	}
	if left := below(t, destination); !slices.Equal(left, []string{"opt/tare/bin/other"}) {
		t.Errorf("left: %q", left)
	}
}

// below lists the files below a directory.
func below(t *testing.T, directory string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(directory, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(directory, path)
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
