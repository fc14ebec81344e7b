package guard

import (
	"path/filepath"
	"testing"
)

// What a momentary change costs beside the kernel's own work, with the journal where the
// test's temporary files are: TMPDIR=/dev/shm has it in memory, as /run is.
func BenchmarkMomentarily(b *testing.B) {
	o, file := group(b, limitV1, noLimit)
	o.Journal = filepath.Join(b.TempDir(), "journal")
	g := started(b, o)
	for b.Loop() {
		if _, err := g.Momentarily(b.Context(), file, "4096"); err != nil {
			b.Fatal(err)
		}
	}
}
