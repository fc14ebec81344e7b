package place

import (
	"os"
	"path/filepath"
	"testing"

	"tare/kernel/cgroup"
)

// fakeTree is a hierarchy of version 1 whose files hold that.
func fakeTree(t *testing.T, files map[string]string) cgroup.Layout {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return cgroup.Layout{Hierarchies: []cgroup.Hierarchy{{Version: 1, Controllers: []string{"cpu", "cpuset"}, Mount: root, Root: "/"}}}
}
