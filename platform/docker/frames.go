package docker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The streams that frames are of.
const (
	streamStdin = iota
	streamStdout
	streamStderr
	streamEngine
)

// mostComplaint bounds the engine's own words among a program's, in bytes.
const mostComplaint = 4 << 10

// demultiplex hands on the frames of a program's output as they come. Moby's own function first keeps a frame in
// memory, and an engine may claim 4 GiB for one.
func demultiplex(stdout, stderr io.Writer, from io.Reader) error {
	var header [8]byte // the stream, three zeros, the length
	buffer := make([]byte, 32<<10)
	for {
		switch _, err := io.ReadFull(from, header[:]); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return err
		}
		frame := io.LimitReader(from, int64(binary.BigEndian.Uint32(header[4:])))
		to := stdout
		switch header[0] {
		case streamStdin, streamStdout:
		case streamStderr:
			to = stderr
		case streamEngine:
			said, err := io.ReadAll(io.LimitReader(frame, mostComplaint))
			return errors.Join(fmt.Errorf("the engine says: %s", said), err)
		default:
			return fmt.Errorf("the engine sent output of stream %d, which there is not", header[0])
		}
		if _, err := io.CopyBuffer(to, frame, buffer); err != nil {
			return err
		}
	}
}
