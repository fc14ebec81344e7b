package load

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
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

// Reply is one reply of RESP2, the protocol's version that a connection begins in.
type Reply struct {
	Type  byte   // '+' simple string, '-' error, ':' integer, '$' bulk string, '*' array
	Text  string // of strings and errors
	Int   int64  // of integers
	Nil   bool   // of bulk strings and arrays: there is none
	Elems []Reply
}

// Err is the error that an error reply tells of, and otherwise nil.
func (r Reply) Err() error {
	if r.Type != '-' {
		return nil
	}
	return replyError(r.Text)
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
	return readReply(r, maxReplyDepth, maxReplyKept)
}

// skipReply reads one reply and keeps nothing of it but the text of an error:
// the one that it is, or the first inside.
func skipReply(r *bufio.Reader) (errorText string, err error) {
	reply, err := readReply(r, maxReplyDepth, 0)
	return reply.Text, err
}

// readReply reads one reply. With keep 0 it discards all strings and elements,
// save that Text is the first error's.
func readReply(r *bufio.Reader, depth int, keep int64) (Reply, error) {
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
		if keep > 0 {
			reply.Text = string(rest)
		}
		return reply, nil
	case '-':
		reply.Text = string(rest)
		if reply.Text == "" {
			reply.Text = "ERR without a word"
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
			if keep > 0 {
				reply.Elems = append(reply.Elems, elem)
			} else if reply.Text == "" {
				reply.Text = elem.Text
			}
		}
		return reply, nil
	default:
		return Reply{}, fmt.Errorf("reply: unknown type %q", reply.Type)
	}
}

// readLine gives a line without its end, valid until the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
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

func readBulk(r *bufio.Reader, n, keep int64) (string, error) {
	var text string
	switch {
	case keep == 0:
		if _, err := r.Discard(int(n)); err != nil {
			return "", unexpected(err)
		}
	case n > keep:
		return "", fmt.Errorf("reply: a string of %d bytes, want at most %d", n, keep)
	default:
		buffer := make([]byte, n)
		if _, err := io.ReadFull(r, buffer); err != nil {
			return "", unexpected(err)
		}
		text = string(buffer)
	}
	line, err := readLine(r)
	if err != nil {
		return "", unexpected(err)
	}
	if len(line) != 0 {
		return "", errors.New("reply: a string longer than its length")
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
