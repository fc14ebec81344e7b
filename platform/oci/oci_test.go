package oci_test

import (
	"testing"

	"tare/platform"
	"tare/platform/conformance"
	"tare/platform/oci"
)

func TestConformanceRunc(t *testing.T) { conform(t, "runc") }

func TestConformanceCrun(t *testing.T) { conform(t, "crun") }

func conform(t *testing.T, runtime string) {
	state := t.TempDir()
	conformance.Run(t, func(_ *testing.T, l platform.Ledger) platform.Platform {
		return oci.New(runtime, oci.Options{StateDir: state, Ledger: l})
	}, conformance.Image(t))
}
