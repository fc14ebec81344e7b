package containerd_test

import (
	"testing"

	"tare/platform"
	"tare/platform/conformance"
	"tare/platform/containerd"
)

func TestConformance(t *testing.T) {
	state := conformance.OpenDir(t)
	conformance.Run(t, func(_ *testing.T, ledger platform.Ledger) platform.Platform {
		return containerd.New(containerd.Options{StateDir: state, Ledger: ledger})
	}, conformance.Image(t))
}
