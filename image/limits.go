package image

import (
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Limits bounds what a foreign archive or directory may unpack to, so that a
// small file cannot fill the disk or keep the host busy.
type Limits struct {
	Bytes   int64 // of file content, over all layers, holes included
	Entries int   // files, directories and links, over all layers
	Layers  int
	Depth   int // directories above a file
	// Ratio of unpacked to packed bytes, looked at once more than RatioFloor
	// bytes were unpacked: small files of one repeated byte are ordinary.
	Ratio      int64
	RatioFloor int64
	// Document is the longest manifest, index or configuration in bytes.
	Document int64
}

// DefaultLimits lets through the largest images in common use (machine
// learning frameworks of 20 GB, language distributions of half a million
// files). Deflate cannot pack better than 1032 to 1; file systems seldom pass 20.
var DefaultLimits = Limits{
	Bytes:      64 << 30,
	Entries:    4_000_000,
	Layers:     256,
	Depth:      256,
	Ratio:      200,
	RatioFloor: 256 << 20,
	Document:   8 << 20,
}

// budget is what is left of Limits while one image is read.
type budget struct {
	Limits
	bytes   int64
	entries int
	names   int64
}

// Names average some 60 bytes in real images; all names of a layer are held in
// memory while it is unpacked.
const meanName = 256

// entry counts one entry.
func (b *budget) entry(name string) error {
	if b.entries++; b.entries > b.Entries {
		return fmt.Errorf("more than %d entries", b.Entries)
	}
	if b.names += int64(len(name)); b.names > meanName*int64(b.Entries) {
		return fmt.Errorf("more than %d bytes of names", meanName*int64(b.Entries))
	}
	return nil
}

// take counts n bytes of content.
func (b *budget) take(n int64) error {
	if b.bytes += n; b.bytes > b.Bytes {
		return fmt.Errorf("more than %d bytes of content", b.Bytes)
	}
	return nil
}

// tooLarge is the error of a reader that ran past a limit.
type tooLarge struct{ reason string }

func (t *tooLarge) Error() string { return t.reason }

// guard reads what a decompressor yields and fails once it is out of
// proportion to what went in, or exceeds all that an image may hold.
type guard struct {
	unpacked io.Reader
	packed   *countingReader
	limits   Limits
	n        int64
}

func (g *guard) Read(p []byte) (int, error) {
	n, err := g.unpacked.Read(p)
	g.n += int64(n)
	if errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return n, &tooLarge{fmt.Sprintf("its zstd window is larger than %d MiB: compress it again without --long",
			largestWindow>>20)}
	}
	// Headers and padding come on top of the content, a header and a half an entry.
	if most := g.limits.Bytes + int64(g.limits.Entries)*1024; g.n > most {
		return n, &tooLarge{fmt.Sprintf("unpacks to more than %d bytes", most)}
	}
	if g.n > g.limits.RatioFloor && g.n/g.limits.Ratio > g.packed.n {
		return n, &tooLarge{fmt.Sprintf("%d bytes unpacked to %d, more than %d times as much", g.packed.n, g.n, g.limits.Ratio)}
	}
	return n, err
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
