package oci

import (
	"testing"

	"tare/platform"
)

// Both the upper layer and what is bound lie in tare's own directory.
func TestStoredAt(t *testing.T) {
	p := New("runc", Options{StateDir: "/state"}).(platform.Storing)
	for storage, want := range map[platform.Storage]string{"": "/state", platform.StorageLayer: "/state", platform.StorageBind: "/state", platform.StorageTmpfs: ""} {
		if dir, err := p.StoredAt(t.Context(), storage); err != nil || dir != want {
			t.Errorf("%q: %q, %v, want %q", storage, dir, err, want)
		}
	}
}
