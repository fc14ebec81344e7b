package trace

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"
)

// magic begins a file, its last byte being the version of the format.
var magic = [8]byte{'A', 'N', 'X', 'T', 'R', 'A', 'C', 1}

const (
	// blockFull is how many bytes of events make a block.
	blockFull = 256 << 10
	// blockMost bounds a block, packed or not: a reader takes that much memory at most.
	blockMost = 16 << 20
	// headLen is the length of what precedes a block: its packed and unpacked lengths and the
	// checksum of the packed bytes.
	headLen = 12
)

var table = crc32.MakeTable(crc32.Castagnoli)

// Cut says that a trace ends before it is complete: what was read up to there is good.
type Cut struct{ Blocks int }

func (c *Cut) Error() string {
	blocks := "1 block"
	if c.Blocks != 1 {
		blocks = fmt.Sprintf("%d blocks", c.Blocks)
	}
	return "the trace was cut after " + blocks + ": what came before is good"
}

// Corrupt says that a trace is not what was written.
type Corrupt struct {
	Block int // from 0, the header
	Err   error
}

func (c *Corrupt) Error() string { return fmt.Sprintf("block %d of the trace: %v", c.Block, c.Err) }
func (c *Corrupt) Unwrap() error { return c.Err }

// ErrFormat says that something is no trace, or one of another version.
var ErrFormat = errors.New("not a trace of version 1: record it with annex record")

// Writer writes a trace. It is for one goroutine.
type Writer struct {
	w          io.Writer
	packer     *zstd.Encoder
	containers int
	raw, out   []byte
	cursor     cursor
	err        error
}

// NewWriter begins a trace.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	if err := h.Check(); err != nil {
		return nil, fmt.Errorf("a trace cannot be begun: %w", err)
	}
	packer, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	t := &Writer{w: w, packer: packer, containers: len(h.Containers)}
	if t.raw, err = json.Marshal(h); err != nil {
		return nil, err
	}
	if len(t.raw) > blockMost {
		return nil, fmt.Errorf("a trace cannot be begun: %d containers take %d bytes to name, of at most %d", t.containers, len(t.raw), blockMost)
	}
	if _, err := w.Write(magic[:]); err != nil {
		return nil, fmt.Errorf("writing a trace: %w", err)
	}
	return t, t.Flush()
}

// Write adds an event. It is in the file when its block is, by Flush or Close at the latest.
func (t *Writer) Write(e Event) error {
	if t.err != nil {
		return t.err
	}
	if err := e.check(t.containers); err != nil {
		return err
	}
	t.raw = t.cursor.encode(t.raw, &e)
	if len(t.raw) < blockFull {
		return nil
	}
	return t.Flush()
}

// Flush writes what was added as a block.
func (t *Writer) Flush() error {
	if t.err != nil || len(t.raw) == 0 {
		return t.err
	}
	t.out = append(t.out[:0], make([]byte, headLen)...)
	t.out = t.packer.EncodeAll(t.raw, t.out)
	packed := t.out[headLen:]
	binary.LittleEndian.PutUint32(t.out[0:], uint32(len(packed)))
	binary.LittleEndian.PutUint32(t.out[4:], uint32(len(t.raw)))
	binary.LittleEndian.PutUint32(t.out[8:], crc32.Checksum(packed, table))
	if _, err := t.w.Write(t.out); err != nil {
		t.err = fmt.Errorf("writing a trace: %w", err)
	}
	t.raw, t.cursor = t.raw[:0], cursor{}
	return t.err
}

// Close ends the trace; not what it is written to.
func (t *Writer) Close() error {
	if err := t.Flush(); err != nil {
		return err
	}
	t.packer.Close()
	_, err := t.w.Write(make([]byte, headLen))
	t.err = errors.New("the trace is closed")
	if err != nil {
		return fmt.Errorf("ending a trace: %w", err)
	}
	return nil
}

// Reader reads a trace. It is a Source.
type Reader struct {
	r        io.Reader
	unpacker *zstd.Decoder
	header   Header
	decoder  decoder
	blocks   int
	packed   bytes.Buffer
	err      error
}

// NewReader begins to read. The error is ErrFormat, a *Cut or a *Corrupt.
func NewReader(r io.Reader) (*Reader, error) {
	var m [8]byte
	if _, err := io.ReadFull(r, m[:]); err != nil || m != magic {
		if err != nil && !ends(err) {
			return nil, fmt.Errorf("reading a trace: %w", err)
		}
		return nil, ErrFormat
	}
	unpacker, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(blockMost))
	if err != nil {
		return nil, err
	}
	t := &Reader{r: r, unpacker: unpacker}
	raw, err := t.block()
	if errors.Is(err, io.EOF) {
		err = &Cut{0}
	}
	if err == nil {
		if err = json.Unmarshal(raw, &t.header); err == nil {
			err = t.header.Check()
		}
		if err != nil {
			err = &Corrupt{0, err}
		}
	}
	if err != nil {
		unpacker.Close()
		return nil, err
	}
	return t, nil
}

// Header is what the trace says of itself.
func (t *Reader) Header() Header { return t.header }

// Next gives the next event. The error is io.EOF at the end, a *Cut or a *Corrupt.
func (t *Reader) Next() (Event, error) {
	for len(t.decoder.rest) == 0 {
		if t.err != nil {
			return Event{}, t.err
		}
		raw, err := t.block()
		if err != nil {
			t.err = err
			t.unpacker.Close()
			continue
		}
		t.decoder = decoder{rest: raw}
	}
	e, err := t.decoder.event(len(t.header.Containers))
	if err != nil {
		t.err = &Corrupt{t.blocks - 1, err}
		return Event{}, t.err
	}
	return e, nil
}

func ends(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// block reads and unpacks the next one.
func (t *Reader) block() ([]byte, error) {
	cut := func(err error) error {
		if ends(err) {
			return &Cut{t.blocks}
		}
		return fmt.Errorf("reading a trace: %w", err)
	}
	var head [headLen]byte
	if _, err := io.ReadFull(t.r, head[:]); err != nil {
		return nil, cut(err)
	}
	if head == [headLen]byte{} {
		return nil, io.EOF
	}
	packed, raw := binary.LittleEndian.Uint32(head[0:]), binary.LittleEndian.Uint32(head[4:])
	if packed == 0 || raw == 0 || packed > blockMost || raw > blockMost {
		return nil, &Corrupt{t.blocks, fmt.Errorf("it would have %d bytes, %d unpacked, and none has more than %d", packed, raw, blockMost)}
	}
	t.packed.Reset()
	if n, err := io.CopyN(&t.packed, t.r, int64(packed)); err != nil || n < int64(packed) {
		return nil, cut(err)
	}
	if crc32.Checksum(t.packed.Bytes(), table) != binary.LittleEndian.Uint32(head[8:]) {
		return nil, &Corrupt{t.blocks, errors.New("its checksum is another")}
	}
	b, err := t.unpacker.DecodeAll(t.packed.Bytes(), nil)
	if err == nil && len(b) != int(raw) {
		err = fmt.Errorf("it has %d bytes unpacked and not %d", len(b), raw)
	}
	if err != nil {
		return nil, &Corrupt{t.blocks, err}
	}
	t.blocks++
	return b, nil
}
