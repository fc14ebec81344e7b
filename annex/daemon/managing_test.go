package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tare/kernel/file"
)

// Whoever manages is found, of the host and of groups, and not what a killed one has left.
func TestManaging(t *testing.T) {
	before := claims
	claims = t.TempDir()
	defer func() { claims = before }()
	if all, err := Managing(); err != nil || len(all) > 0 {
		t.Errorf("of nobody: %v, %v", all, err)
	}
	for _, name := range []string{"defended-host.lock", "defended-%2Fbatch.slice%2Fa.lock"} {
		lock, err := file.Lock(filepath.Join(claims, name))
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Close()
	}
	left := filepath.Join(claims, "defended-%2Fkilled.lock")
	for _, path := range []string{left, filepath.Join(claims, "journal.lock")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := Managing()
	var groups []string
	for _, one := range all {
		groups = append(groups, one.Group)
	}
	slices.Sort(groups)
	if want := []string{"", "/batch.slice/a"}; err != nil || !slices.Equal(groups, want) {
		t.Errorf("groups %q, %v; want %q", groups, err, want)
	}
	if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was left is there: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(claims, "journal.lock")); err != nil {
		t.Errorf("another lock is not: %v", err)
	}
}
