package bound

import (
	"testing"
)

// What the daemon pays to look.
func BenchmarkLook(b *testing.B) {
	host, err := New(Options{})
	if err != nil {
		b.Skip(err)
	}
	b.Run("memory", func(b *testing.B) {
		for b.Loop() {
			if _, err := host.Memory(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
