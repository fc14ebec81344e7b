package k8s

import (
	"testing"

	"tare/platform"
	"tare/platform/conformance"
)

func TestConformance(t *testing.T) {
	img := conformance.Image(t)
	startNode(t, img)
	state := conformance.OpenDir(t)
	conformance.Run(t, func(_ *testing.T, ledger platform.Ledger) platform.Platform {
		return New(Options{StateDir: state, Ledger: ledger})
	}, img, conformance.LimitsOfNode, conformance.AddedToImage, conformance.LayerOfImage, conformance.OutputOfRunning)
}
