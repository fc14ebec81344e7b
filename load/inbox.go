package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	inboxRoom    = 64 << 10 // that an inbox begins with
	longestLine  = 64 << 10 // that is looked for the end of a line at once
	leastSkipped = 16 << 10 // discarded bytes below which they are held all the same
	mostHeld     = 64 << 20 // bytes of one part of an answer
)

// errShort is an inbox' answer to who asks for more than has come.
var errShort = errors.New("more is to come")

// inbox holds what a connection has received of an answer. Its reader fails where it runs
// short, and begins anew when more has come: at the last part of the answer that it read to
// its end. So the reader needs no memory of where it was, and waits nowhere.
//
// What the reader discards is not held where it is large.
type inbox struct {
	bytes []byte // received, from the part's beginning
	at    int    // of the reader
	end   error  // after which nothing comes; nil while something may

	received int64 // bytes, ever
	wanted   int64 // received, before the reader need be asked again

	skip   skip // the first large one of the part
	behind bool // the reader is behind it
}

// skip is what lay before a place and was discarded.
type skip struct {
	at, size int
	missing  int // of it are to come
}

// fill takes in what has come, by one Read. full tells that there may be more.
func (b *inbox) fill(from io.Reader) (full bool, err error) {
	if err := b.makeRoom(); err != nil {
		return false, err
	}
	room := b.bytes[len(b.bytes):cap(b.bytes)]
	n, err := from.Read(room)
	b.received += int64(n)
	skipped := min(n, b.skip.missing)
	b.skip.missing -= skipped
	kept := copy(room, room[skipped:n])
	b.bytes = b.bytes[:len(b.bytes)+kept]
	return n == len(room), err
}

func (b *inbox) makeRoom() error {
	held := len(b.bytes)
	switch {
	case held < cap(b.bytes):
	case held >= mostHeld:
		return fmt.Errorf("an answer above %d bytes", mostHeld)
	default:
		b.bytes = append(make([]byte, 0, max(2*held, inboxRoom)), b.bytes...)
	}
	return nil
}

// ready tells whether the reader may find more than when it last ran short.
func (b *inbox) ready() bool { return b.received >= b.wanted || b.end != nil }

// rewind has the reader begin the part anew. It is false where the reader did not run
// short: then it need not be asked again.
func (b *inbox) rewind() bool {
	b.at, b.behind = 0, false
	return b.wanted > b.received && b.end == nil
}

// advance ends a part, whose bytes are no longer needed.
func (b *inbox) advance() {
	rest := copy(b.bytes, b.bytes[b.at:])
	b.bytes = b.bytes[:rest]
	b.at, b.wanted, b.skip, b.behind = 0, 0, skip{}, false
}

// clear makes it as new, for another connection.
func (b *inbox) clear() { *b = inbox{bytes: b.bytes[:0]} }

// left are the bytes that nobody has read.
func (b *inbox) left() int { return len(b.bytes) - b.at }

// short is the error of reading so many bytes more than there are.
func (b *inbox) short(missing int) error {
	if b.end != nil {
		return b.end
	}
	b.wanted = b.received + int64(missing)
	return errShort
}

func (b *inbox) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if b.left() == 0 {
		return 0, b.short(1)
	}
	n := copy(p, b.bytes[b.at:])
	b.at += n
	return n, nil
}

func (b *inbox) ReadByte() (byte, error) {
	if b.left() == 0 {
		return 0, b.short(1)
	}
	b.at++
	return b.bytes[b.at-1], nil
}

// Peek gives the next n bytes, which stay unread; or as many as there are, with an error.
func (b *inbox) Peek(n int) ([]byte, error) {
	if left := b.left(); left < n {
		return b.bytes[b.at:], b.short(n - left)
	}
	return b.bytes[b.at : b.at+n], nil
}

func (b *inbox) Discard(n int) (int, error) {
	if b.skip.size == n && b.skip.at == b.at && !b.behind && n > 0 {
		if b.skip.missing > 0 {
			return n - b.skip.missing, b.short(b.skip.missing)
		}
		b.behind = true
		return n, nil
	}
	left := b.left()
	switch {
	case left >= n:
		b.at += n
		return n, nil
	case n >= leastSkipped && b.skip.size == 0 && b.end == nil:
		b.skip = skip{at: b.at, size: n, missing: n - left}
		b.bytes = b.bytes[:b.at]
	default:
		b.at = len(b.bytes)
	}
	return left, b.short(n - left)
}

// ReadSlice gives what lies before and with a byte. Where that is far, it gives the first
// part, with bufio.ErrBufferFull.
func (b *inbox) ReadSlice(delim byte) ([]byte, error) {
	rest := b.bytes[b.at:]
	near := rest[:min(len(rest), longestLine)]
	if i := bytes.IndexByte(near, delim); i >= 0 {
		b.at += i + 1
		return rest[:i+1], nil
	}
	b.at += len(near)
	if len(near) == longestLine {
		return near, bufio.ErrBufferFull
	}
	return near, b.short(1)
}
