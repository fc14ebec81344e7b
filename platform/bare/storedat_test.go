package bare

import (
	"testing"

	"tare/platform"
)

// What a bare program writes lies in tare's own directory, unless it lies in memory.
func TestStoredAt(t *testing.T) {
	for _, p := range []platform.Platform{New(Options{StateDir: "/state"}), NewInCgroup(Options{StateDir: "/state"})} {
		for storage, want := range map[platform.Storage]string{"": "/state", platform.StorageLayer: "/state", platform.StorageBind: "/state", platform.StorageTmpfs: ""} {
			if dir, err := p.(platform.Storing).StoredAt(t.Context(), storage); err != nil || dir != want {
				t.Errorf("%s, %q: %q, %v, want %q", p.Name(), storage, dir, err, want)
			}
		}
	}
}
