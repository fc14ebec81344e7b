package image

import (
	"archive/tar"
	"bytes"
	"os"
	"strings"
)

// holeRecord marks a file with holes in a layer that tare sends to itself: the
// canonical form has no holes, so that its digest depends on content alone.
const holeRecord = "TARE.holes"

// declaresHoles reports whether an entry is a sparse file, in GNU tar's old format or in
// one of its three PAX formats.
func declaresHoles(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range h.PAXRecords {
		if key == holeRecord || strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// holeBlock is what file systems store at least, as a rule.
const holeBlock = 4096

var zeroBlock [holeBlock]byte

// holeWriter writes a new file and leaves a hole wherever a block of it is zero.
// Its user calls finish at the end: a hole there is only the file's length.
type holeWriter struct {
	file *os.File
	at   int64 // length so far
}

func (w *holeWriter) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		n, zero := w.run(p[written:])
		if !zero {
			if m, err := w.file.WriteAt(p[written:written+n], w.at); err != nil {
				return written + m, err
			}
		}
		w.at += int64(n)
		written += n
	}
	return written, nil
}

// run gives the length of the first blocks of p that are all zero, or all not.
func (w *holeWriter) run(p []byte) (n int, zero bool) {
	for n < len(p) {
		block := p[n:min(len(p), n+holeBlock-int((w.at+int64(n))%holeBlock))]
		isZero := bytes.Equal(block, zeroBlock[:len(block)])
		if n > 0 && isZero != zero {
			break
		}
		n, zero = n+len(block), isZero
	}
	return n, zero
}

func (w *holeWriter) finish() error { return w.file.Truncate(w.at) }
