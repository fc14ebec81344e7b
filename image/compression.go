package image

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

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
	switch {
	case bytes.HasPrefix(start, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, nil, err
		}
		return guarded(z), func() { _ = z.Close() }, nil
	case bytes.HasPrefix(start, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		// A window that a layer of any real encoder stays below.
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, nil, err
		}
		return guarded(z), z.Close, nil
	case bytes.HasPrefix(start, []byte("BZh")):
		return nil, nil, errors.New("compressed by bzip2, which is not read: decompress it first (bunzip2)")
	case bytes.HasPrefix(start, []byte{0xfd, '7', 'z', 'X', 'Z', 0}):
		return nil, nil, errors.New("compressed by xz, which is not read: decompress it first (unxz)")
	}
	return guarded(buffered), func() {}, nil
}
