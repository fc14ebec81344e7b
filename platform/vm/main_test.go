package vm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tare/image"
	"tare/platform"
	"tare/platform/bare"
	"tare/platform/vm/guest"
)

// This test's own program is the machines' agent, too, and the stage of bare metal's
// launches in them: it has to be static (make test, or CGO_ENABLED=0 go test).
func TestMain(m *testing.M) {
	guest.Main()
	bare.Reexec()
	os.Exit(m.Run())
}

// options are a pool's for machines that boot for real, or the test is skipped.
func options(t *testing.T, e Engine) PoolOptions {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("machines need root")
	}
	if err := e.check(); err != nil {
		t.Skip(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	store, err := image.OpenStore(filepath.Join(cache, "tare-test", "images"), func(s string) { t.Log(s) })
	if err != nil {
		t.Fatal(err)
	}
	// Others' tests may take the CPUs that an emulated machine boots by.
	return PoolOptions{StateDir: t.TempDir(), Store: store, Version: "test", Bound: 2 * time.Minute}
}

// newPool gives a pool that is closed at the test's end, with nothing left of it.
func newPool(t *testing.T, o PoolOptions) *Pool {
	t.Helper()
	p := NewPool(o)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return p
}

func parse(t *testing.T, name string) Name {
	t.Helper()
	n, err := ParseName(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// skipMissing skips where the host lacks what the platform needs.
func skipMissing(t *testing.T, p platform.Platform) {
	t.Helper()
	err := p.Check(t.Context())
	if lack := new(platform.Missing); errors.As(err, &lack) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
