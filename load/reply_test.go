package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func reader(s string) *bufio.Reader { return bufio.NewReader(strings.NewReader(s)) }

func TestReadReply(t *testing.T) {
	for _, c := range []struct {
		wire string
		want Reply
	}{
		{"+PONG\r\n", Reply{Type: '+', Text: []byte("PONG")}},
		{"-LOADING busy\r\n", Reply{Type: '-', Text: []byte("LOADING busy")}},
		{":-42\r\n", Reply{Type: ':', Int: -42}},
		{"$5\r\na\r\nb!\r\n", Reply{Type: '$', Text: []byte("a\r\nb!")}},
		{"$0\r\n\r\n", Reply{Type: '$', Text: []byte{}}},
		{"$-1\r\n", Reply{Type: '$', Nil: true}},
		{"*-1\r\n", Reply{Type: '*', Nil: true}},
		{"*0\r\n", Reply{Type: '*'}},
		{"*2\r\n$1\r\na\r\n*1\r\n:1\r\n", Reply{Type: '*', Elems: []Reply{
			{Type: '$', Text: []byte("a")}, {Type: '*', Elems: []Reply{{Type: ':', Int: 1}}}}}},
	} {
		got, err := ReadReply(reader(c.wire))
		if err != nil {
			t.Errorf("%q: %v", c.wire, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", c.wire, diff)
		}
	}
}

func TestReadReplyRefuses(t *testing.T) {
	for _, wire := range []string{
		"", "\r\n", "+no end", "+bare\n", "?what\r\n", ":1.5\r\n", ":\r\n",
		"$-2\r\n", "$2\r\nabc\r\n", "$3\r\nab", "$99999999999\r\n", "$2000000\r\n",
		"*2\r\n:1\r\n", "*99999999\r\n", strings.Repeat("*1\r\n", 20) + ":1\r\n",
		"+" + strings.Repeat("x", maxReplyLine) + "\r\n",
	} {
		if got, err := ReadReply(reader(wire)); err == nil {
			t.Errorf("%.40q: accepted as %+v", wire, got)
		}
	}
	if _, err := ReadReply(reader("")); !errors.Is(err, io.EOF) {
		t.Errorf("end between replies: %v, want io.EOF", err)
	}
	if _, err := ReadReply(reader("*1\r\n")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("end within a reply: %v, want io.ErrUnexpectedEOF", err)
	}
}

func TestSkipReplyFindsErrorInside(t *testing.T) {
	text, err := skipReply(reader("*3\r\n+OK\r\n-ERR inner\r\n-ERR later\r\n"))
	if err != nil || text != "ERR inner" {
		t.Errorf("text %q, error %v", text, err)
	}
}

func TestLongErrorText(t *testing.T) {
	long := "ERR " + strings.Repeat("x", 10_000)
	reply, err := ReadReply(bufio.NewReaderSize(strings.NewReader("-"+long+"\r\n"), 16))
	if err != nil || string(reply.Text) != long {
		t.Errorf("%d bytes of text, error %v", len(reply.Text), err)
	}
}

// encode writes a reply as a service would.
func encode(r Reply) string {
	switch {
	case r.Nil:
		return string(r.Type) + "-1\r\n"
	case r.Type == ':':
		return fmt.Sprintf(":%d\r\n", r.Int)
	case r.Type == '$':
		return fmt.Sprintf("$%d\r\n%s\r\n", len(r.Text), r.Text)
	case r.Type == '*':
		s := fmt.Sprintf("*%d\r\n", len(r.Elems))
		for _, e := range r.Elems {
			s += encode(e)
		}
		return s
	default:
		return string(r.Type) + string(r.Text) + "\r\n"
	}
}

// What is read can be written and read again to the same; and skipping takes
// exactly the bytes that reading takes.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{"+OK\r\n", "-ERR x\r\n", ":1\r\n", "$2\r\nhi\r\n:3\r\n", "*2\r\n$-1\r\n*1\r\n+a\r\n", "-\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		source := bytes.NewReader(wire)
		r := bufio.NewReader(source)
		reply, err := ReadReply(r)
		if err != nil {
			return
		}
		left := r.Buffered() + source.Len()

		again, err := ReadReply(reader(encode(reply)))
		if err != nil {
			t.Fatalf("%q: written again as %q: %v", wire, encode(reply), err)
		}
		if diff := cmp.Diff(reply, again); diff != "" {
			t.Errorf("%q: (-first +again)\n%s", wire, diff)
		}

		source.Reset(wire)
		r.Reset(source)
		room := []byte("before")
		one, err := readReply(r, maxReplyDepth, keeping{most: maxReplyKept, room: &room})
		if diff := cmp.Diff(reply, one); diff != "" || err != nil {
			t.Errorf("%q: kept in one room, error %v: (-each by itself +together)\n%s", wire, err, diff)
		}

		source.Reset(wire)
		r.Reset(source)
		text, err := skipReply(r)
		if err != nil {
			t.Fatalf("%q: read but not skipped: %v", wire, err)
		}
		if now := r.Buffered() + source.Len(); now != left {
			t.Errorf("%q: reading leaves %d bytes, skipping %d", wire, left, now)
		}
		if reply.Type == '-' && text != string(reply.Text) {
			t.Errorf("%q: skipping gives error %q, reading %q", wire, text, reply.Text)
		}
	})
}

// Replies that come in pieces are what they are in one, looked at or not.
func FuzzRepliesInPieces(f *testing.F) {
	for _, seed := range []string{"+OK\r\n-ERR x\r\n", "$2\r\nhi\r\n:3\r\n", "*2\r\n$-1\r\n*1\r\n+a\r\n", "-\r\n+\r\n", "$30000\r\n"} {
		f.Add([]byte(seed), uint64(1))
	}
	f.Fuzz(func(t *testing.T, wire []byte, seed uint64) {
		sameInPieces(t, wire, seed, func() (exchange, func() string) {
			var seen []string
			check := func(r Reply) error { seen = append(seen, encode(r)); return nil }
			return &respConn{checks: []func(Reply) error{nil, check}}, func() string { return strings.Join(seen, " ") }
		})
	})
}
