package docker_test

import (
	"os"
	"testing"

	"tare/platform"
	"tare/platform/conformance"
	"tare/platform/docker"
)

// openDir is a directory into which every user may look, as t.TempDir is not.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tare") // short: a socket's path has 108 bytes
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestRootlessConformance(t *testing.T) {
	state := openDir(t)
	host := rootlessEngine(t)
	conformance.Run(t, func(t *testing.T, ledger platform.Ledger) platform.Platform {
		return docker.NewRootless(docker.Options{Host: host, StateDir: state, Ledger: ledger})
	}, conformance.Image(t), conformance.HostNetworkApart, conformance.NoControlGroups)
}
