package bare_test

import (
	"os"
	"testing"

	"tare/platform"
	"tare/platform/bare"
	"tare/platform/conformance"
)

func TestMain(m *testing.M) {
	bare.Reexec()
	os.Exit(m.Run())
}

func TestConformanceBare(t *testing.T) {
	state := conformance.OpenDir(t)
	conformance.Run(t, func(_ *testing.T, l platform.Ledger) platform.Platform {
		return bare.New(bare.Options{StateDir: state, Ledger: l})
	}, conformance.Image(t))
}

func TestConformanceCgroup(t *testing.T) {
	state := conformance.OpenDir(t)
	conformance.Run(t, func(_ *testing.T, l platform.Ledger) platform.Platform {
		return bare.NewInCgroup(bare.Options{StateDir: state, Ledger: l})
	}, conformance.Image(t))
}
