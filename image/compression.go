package image

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// compression names how something is compressed, by its first bytes, in the words of the
// program that unpacks it; empty where it is not. Engines look at the same bytes.
func compression(start []byte) string {
	switch {
	case bytes.HasPrefix(start, []byte{0x1f, 0x8b}):
		return "gzip"
	case bytes.HasPrefix(start, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return "zstd"
	// A skippable frame (RFC 8878, 3.1.2), which parallel compressors put first.
	case len(start) >= 4 && start[0]&0xf0 == 0x50 && bytes.HasPrefix(start[1:], []byte{0x2a, 0x4d, 0x18}):
		return "zstd"
	case bytes.HasPrefix(start, []byte("BZh")):
		return "bzip2"
	case bytes.HasPrefix(start, []byte{0xfd, '7', 'z', 'X', 'Z', 0}):
		return "xz"
	}
	return ""
}

// plain gives what r holds, decompressed where its first bytes say that it is
// compressed. Reading fails once the result is out of proportion.
func plain(r io.Reader, limits Limits) (io.Reader, func(), error) {
	packed := &countingReader{r: r}
	buffered := bufio.NewReaderSize(packed, 256<<10)
	start, err := buffered.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	guarded := func(unpacked io.Reader) io.Reader {
		return &guard{unpacked: unpacked, packed: packed, limits: limits}
	}
	switch kind := compression(start); kind {
	case "":
		return guarded(buffered), func() {}, nil
	case "gzip":
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, nil, err
		}
		return guarded(z), func() { _ = z.Close() }, nil
	case "zstd":
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(largestWindow))
		if err != nil {
			return nil, nil, err
		}
		return guarded(z), z.Close, nil
	default:
		return nil, nil, fmt.Errorf("compressed by %s, which is not read: decompress it first (%s -d)", kind, kind)
	}
}

// largestWindow is a window that a layer of any real encoder stays below: memory is taken for it.
const largestWindow = 128 << 20
