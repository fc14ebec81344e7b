package docker

import (
	"errors"
	"net/http"
	"testing"

	"tare/platform"
	"tare/platform/engine"
)

// Layers and volumes are the engine's own; what is bound is a directory of ours.
func TestStoredAt(t *testing.T) {
	_, p, _ := newFakeEngine(t, nil)
	for storage, want := range map[platform.Storage]string{
		"": "/var/lib/docker", platform.StorageLayer: "/var/lib/docker", platform.StorageVolume: "/var/lib/docker",
		platform.StorageBind: p.stateDir, platform.StorageTmpfs: "",
	} {
		if dir, err := p.StoredAt(t.Context(), storage); err != nil || dir != want {
			t.Errorf("%q: %q, %v, want %q", storage, dir, err, want)
		}
	}
	refusing := map[string]func(http.ResponseWriter, *http.Request){stepInfo: refuse(http.StatusInternalServerError, "not today")}
	_, p, _ = newFakeEngine(t, refusing)
	if _, err := p.StoredAt(t.Context(), platform.StorageVolume); !errors.As(err, new(*engine.Error)) {
		t.Errorf("an engine that does not say: %v", err)
	}
	if dir, err := p.StoredAt(t.Context(), platform.StorageBind); err != nil || dir != p.stateDir {
		t.Errorf("what is ours needs no engine: %q, %v", dir, err)
	}
}
