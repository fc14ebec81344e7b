package load

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// Limits of a reply, so that a broken service cannot exhaust the generator.
const (
	maxReplyLine  = 64 << 10  // bytes of a line
	maxReplyBulk  = 512 << 20 // bytes of a string: Redis' own limit
	maxReplyKept  = 1 << 20   // bytes of a string that ReadReply keeps
	maxReplyElems = 1 << 20   // elements of an array
	maxReplyDepth = 8         // arrays in arrays
)

// Reply is one reply of RESP2, the protocol's version that a connection begins in. What a
// [RESP.Next] is shown of it is overwritten once its check has run.
type Reply struct {
	Type  byte   // '+' simple string, '-' error, ':' integer, '$' bulk string, '*' array
	Text  []byte // of strings and errors
	Int   int64  // of integers
	Nil   bool   // of bulk strings and arrays: there is none
	Elems []Reply
}

// Err is the error that an error reply tells of, and otherwise nil.
func (r Reply) Err() error {
	if r.Type != '-' {
		return nil
	}
	return replyError(string(r.Text))
}

// AppendCommand appends a command in the protocol's form, an array of bulk strings.
func AppendCommand(to []byte, args ...string) []byte {
	to = append(to, '*')
	to = strconv.AppendInt(to, int64(len(args)), 10)
	to = append(to, '\r', '\n')
	for _, arg := range args {
		to = append(to, '$')
		to = strconv.AppendInt(to, int64(len(arg)), 10)
		to = append(to, '\r', '\n')
		to = append(to, arg...)
		to = append(to, '\r', '\n')
	}
	return to
}

// ReadReply reads one reply. It refuses a string above 1 MiB.
func ReadReply(r *bufio.Reader) (Reply, error) {
	return readReply(r, maxReplyDepth, keeping{most: maxReplyKept})
}

// skipReply reads one reply and keeps nothing of it but the text of an error:
// the one that it is, or the first inside.
func skipReply(r input) (errorText string, err error) {
	reply, err := readReply(r, maxReplyDepth, keeping{})
	return string(reply.Text), err
}

// keeping says what is kept of a reply's strings: nothing where most is 0.
type keeping struct {
	most int64
	// room is what they are put in, one after the other; nil is memory of its own for each.
	room *[]byte
}

// take gives what so many bytes are kept in.
func (k keeping) take(n int) []byte {
	if k.room == nil {
		return make([]byte, n)
	}
	from := len(*k.room)
	*k.room = slices.Grow(*k.room, n)[:from+n] // what lay before stays where its owners have it
	return (*k.room)[from : from+n : from+n]
}

// copy keeps a text.
func (k keeping) copy(text []byte) []byte {
	kept := k.take(len(text))
	copy(kept, text)
	return kept
}

// readReply reads one reply. Where nothing is kept it discards all strings and elements,
// save that Text is the first error's.
func readReply(r input, depth int, keep keeping) (Reply, error) {
	line, err := readLine(r)
	if err != nil {
		return Reply{}, err
	}
	if len(line) == 0 {
		return Reply{}, errors.New("reply: an empty line where a type was due")
	}
	reply := Reply{Type: line[0]}
	rest := line[1:]
	switch reply.Type {
	case '+':
		if keep.most > 0 {
			reply.Text = keep.copy(rest)
		}
		return reply, nil
	case '-':
		reply.Text = keeping{}.copy(rest)
		if len(reply.Text) == 0 {
			reply.Text = []byte("ERR without a word")
		}
		return reply, nil
	case ':':
		reply.Int, err = parseInt(rest, math.MinInt64, math.MaxInt64)
		return reply, err
	case '$':
		n, err := parseInt(rest, -1, maxReplyBulk)
		if err != nil || n < 0 {
			reply.Nil = err == nil
			return reply, err
		}
		reply.Text, err = readBulk(r, n, keep)
		return reply, err
	case '*':
		n, err := parseInt(rest, -1, maxReplyElems)
		if err != nil || n < 0 {
			reply.Nil = err == nil
			return reply, err
		}
		if depth == 0 {
			return reply, fmt.Errorf("reply: more than %d arrays in one another", maxReplyDepth)
		}
		for range n {
			elem, err := readReply(r, depth-1, keep)
			if err != nil {
				return reply, unexpected(err)
			}
			if keep.most > 0 {
				reply.Elems = append(reply.Elems, elem)
			} else if reply.Text == nil {
				reply.Text = elem.Text
			}
		}
		return reply, nil
	default:
		return Reply{}, fmt.Errorf("reply: unknown type %q", reply.Type)
	}
}

// readLine gives a line without its end, valid until the next read.
func readLine(r input) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		// Rare: only an error text or a simple string can be so long.
		long := append([]byte(nil), line...)
		for errors.Is(err, bufio.ErrBufferFull) && len(long) <= maxReplyLine {
			line, err = r.ReadSlice('\n')
			long = append(long, line...)
		}
		line = long
	}
	if len(line) > maxReplyLine {
		return nil, fmt.Errorf("reply: a line above %d bytes", maxReplyLine)
	}
	if err != nil {
		if len(line) > 0 {
			err = unexpected(err)
		}
		return nil, err
	}
	if len(line) < 2 || line[len(line)-2] != '\r' {
		return nil, errors.New("reply: a line that does not end in CR LF")
	}
	return line[:len(line)-2], nil
}

func readBulk(r input, n int64, keep keeping) (text []byte, err error) {
	switch {
	case keep.most == 0:
		if _, err := r.Discard(int(n)); err != nil {
			return nil, unexpected(err)
		}
	case n > keep.most:
		return nil, fmt.Errorf("reply: a string of %d bytes, want at most %d", n, keep.most)
	default:
		text = keep.take(int(n))
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, unexpected(err)
		}
	}
	line, err := readLine(r)
	if err != nil {
		return nil, unexpected(err)
	}
	if len(line) != 0 {
		return nil, errors.New("reply: a string longer than its length")
	}
	return text, nil
}

// parseInt reads a decimal integer within bounds, as the protocol writes it.
func parseInt(b []byte, low, high int64) (int64, error) {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("reply: number %.32q: want %d to %d", b, low, high)
	}
	return n, nil
}

// unexpected marks an end within a reply.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
