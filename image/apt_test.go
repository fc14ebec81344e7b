package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A download that ends half-way, as over a slow line, leaves what it has fetched to the next.
func TestADownloadGoesOn(t *testing.T) {
	bin, debs := t.TempDir(), t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	apt := &aptArchive{dir: t.TempDir(), arch: "amd64"}
	packages := []Package{
		{Name: "one", Version: "1", SHA256: bytesSum([]byte("whole"))},
		{Name: "two", Version: "2", SHA256: bytesSum([]byte("also whole"))},
	}
	fetch := func(script string) error {
		if err := os.WriteFile(filepath.Join(bin, "apt-get"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
		return apt.download(t.Context(), t.TempDir(), debs, packages)
	}
	err := fetch("printf whole > one.deb; printf also > two.deb; echo the line is cut >&2; exit 100")
	if err == nil || !strings.Contains(err.Error(), "1 of 2 packages are fetched, and kept") || !strings.Contains(err.Error(), "the line is cut") {
		t.Error(err)
	}
	if err := fetch(`case "$*" in *one*) exit 1;; esac; printf 'also whole' > two.deb`); err != nil {
		t.Error(err)
	}
	if err := fetch("exit 1"); err != nil {
		t.Errorf("all are there: %v", err)
	}
}
