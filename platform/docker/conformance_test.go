package docker_test

import (
	"testing"

	"tare/platform"
	"tare/platform/conformance"
	"tare/platform/docker"
)

func TestConformance(t *testing.T) {
	state := conformance.OpenDir(t)
	conformance.Run(t, func(t *testing.T, ledger platform.Ledger) platform.Platform {
		return docker.New(docker.Options{StateDir: state, Ledger: ledger})
	}, conformance.Image(t))
}
