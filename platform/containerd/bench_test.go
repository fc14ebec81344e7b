package containerd

import (
	"strconv"
	"testing"

	"tare/platform"
	"tare/platform/conformance"
	"tare/platform/engine"
)

// BenchmarkStart times what a study of start-up times: the start alone, of a
// container at rest.
func BenchmarkStart(b *testing.B) {
	p := New(Options{StateDir: b.TempDir()})
	if err := p.Check(b.Context()); err != nil {
		b.Skip(err)
	}
	img := conformance.Image(b)
	if err := p.Prepare(b.Context(), img); err != nil {
		b.Fatal(err)
	}
	mark := engine.NewMark()
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		spec := platform.Spec{Name: "bench-" + mark + "-" + strconv.Itoa(n), Image: img, Args: []string{"sleep", "3600"}}
		c, err := p.Create(b.Context(), spec)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		err = c.Start(b.Context())
		b.StopTimer()
		if err != nil {
			b.Error(err)
		}
		if err := c.Stop(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	if err := p.Release(b.Context()); err != nil {
		b.Error(err)
	}
}
