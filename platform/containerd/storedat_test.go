package containerd

import (
	"os"
	"path/filepath"
	"testing"

	"tare/platform"
)

// The snapshotter's own directory holds the layers, and what is bound is ours.
func TestStoredAt(t *testing.T) {
	p := real(t)
	dir, err := p.StoredAt(t.Context(), platform.StorageLayer)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() || !filepath.IsAbs(dir) {
		t.Errorf("layers lie at %q, which is no directory here (%v)", dir, err)
	}
	for storage, want := range map[platform.Storage]string{platform.StorageBind: p.options.StateDir, platform.StorageTmpfs: ""} {
		if dir, err := p.StoredAt(t.Context(), storage); err != nil || dir != want {
			t.Errorf("%q: %q, %v, want %q", storage, dir, err, want)
		}
	}
}
