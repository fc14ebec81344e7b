package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/thrift/lib/go/thrift"
)

// inPieces reads an answer from an inbox, which gets it in pieces that a seed determines,
// and then the end of the stream.
func inPieces(e exchange, in *inbox, answer []byte, seed uint64) (reusable bool, err error) {
	random := rand.New(rand.NewPCG(seed, 0))
	source := bytes.NewReader(answer)
	for {
		if in.ready() {
			reached, err := e.answer(in)
			switch {
			case reached != partial:
				for in.end == nil {
					_, in.end = in.fill(source)
				}
				return reached == complete, err
			case err == nil:
				in.advance()
				continue
			case !in.rewind():
				return false, err
			}
		}
		most := 1 + random.IntN(1+random.IntN(1+len(answer)))
		if _, err := in.fill(io.LimitReader(source, int64(most))); err == io.EOF && source.Len() == 0 {
			in.end = io.EOF
		}
	}
}

// sameInPieces fails unless an answer is found the same in pieces as in one. found gives
// what an exchange has found.
func sameInPieces(t *testing.T, answer []byte, seed uint64, fresh func() (e exchange, found func() string)) {
	t.Helper()
	source := bytes.NewReader(answer)
	reader := bufio.NewReader(source)
	once, foundOnce := fresh()
	reusable, err := whole(once, reader)
	want := fmt.Sprint(reusable, err, foundOnce())
	left := reader.Buffered() + source.Len()

	in := new(inbox)
	pieces, foundInPieces := fresh()
	reusable, inPieces := inPieces(pieces, in, answer, seed)
	got := fmt.Sprint(reusable, inPieces, foundInPieces())
	if known := (*Error)(nil); got != want || (err == nil || errors.As(err, &known)) && in.left() != left {
		t.Errorf("%.200q: %.200s, %d bytes left; in pieces %.200s, %d", answer, want, left, got, in.left())
	}
}

// Answers of all protocols, small and large, whole and cut off, with and without another
// behind them.
func TestAnswersInPieces(t *testing.T) {
	large := strings.Repeat("0123456789", 20_000)
	bulk := func(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
	message, err := appendOpMsg(nil, 0, Document{{"ok", 1.0}, {"text", large}})
	if err != nil {
		t.Fatal(err)
	}
	nothing := func() string { return "" }
	for name, c := range map[string]struct {
		answers []string
		fresh   func() (exchange, func() string)
	}{
		"resp": {
			[]string{"+OK\r\n", "-ERR no\r\n", ":1\r\n", bulk(large), "*3\r\n" + bulk(large) + "$-1\r\n" + bulk(large), "?\r\n", "+" + large + "\r\n"},
			func() (exchange, func() string) { return &respConn{checks: make([]func(Reply) error, 2)}, nothing },
		},
		"resp, looked at": {
			[]string{"+OK\r\n", bulk(large), "*2\r\n" + bulk("a") + bulk(large), "-ERR no\r\n"},
			func() (exchange, func() string) {
				var seen []string
				check := func(r Reply) error { seen = append(seen, encode(r)); return nil }
				return &respConn{checks: []func(Reply) error{check, check}}, func() string { return strings.Join(seen, " ") }
			},
		},
		"thrift": {
			[]string{
				string(thriftReply(thrift.REPLY, ThriftSend, 1, sent([]byte(large)))), string(thriftReply(thrift.REPLY, ThriftSend, 1, refusedBy("full"))),
				string(thriftReply(thrift.EXCEPTION, ThriftSend, 1, applicationException("no"))), string(thriftReply(thrift.REPLY, ThriftSend, 2, empty)),
			},
			func() (exchange, func() string) {
				return &thriftConn{want: Thrift{Call: ThriftSend, Size: len(large)}, sequence: 1}, nothing
			},
		},
		"op_msg": {
			[]string{string(message), "no message of the protocol"},
			func() (exchange, func() string) { return &opMsgConn{client: new(OpMsgClient)}, nothing },
		},
		"cql": {
			[]string{string(cqlFrame(0, 0, opResult, cqlRows(large, "b"))), string(cqlFrame(0, 0, opError, appendString(words(0x1100), "timed out"))), "no frame"},
			func() (exchange, func() string) {
				var seen []CQLRow
				c := &cqlConn{client: new(CQLClient), check: func(rows []CQLRow) error { seen = rows; return nil }}
				return c, func() string { return fmt.Sprintf("%s", seen) }
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, first := range c.answers {
				for _, second := range append(c.answers, "") {
					all := []byte(first + second)
					for seed := range uint64(3) {
						sameInPieces(t, all, seed, c.fresh)
						sameInPieces(t, all[:len(all)*int(seed)/4], seed, c.fresh)
					}
				}
			}
		})
	}
}

// What is discarded is not held: an inbox has no room for what goes through it.
func TestInboxHoldsNothingOfWhatIsDiscarded(t *testing.T) {
	const size = 300 << 20
	r := &respConn{checks: make([]func(Reply) error, 1)}
	head, tail := fmt.Sprintf("$%d\r\n", size), "\r\n"
	source := io.MultiReader(strings.NewReader(head), io.LimitReader(endless{}, size), strings.NewReader(tail))
	in := new(inbox)
	for reached := partial; reached == partial; {
		if _, err := in.fill(source); err != nil {
			t.Fatal(err)
		}
		if !in.ready() {
			continue
		}
		var err error
		if reached, err = r.answer(in); err != nil && (reached != partial || !in.rewind()) {
			t.Fatal(err)
		}
	}
	if cap(in.bytes) > 2*inboxRoom {
		t.Errorf("room for %d bytes", cap(in.bytes))
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// Who answers without end is refused before memory is exhausted.
func TestInboxRefusesWhatIsTooLong(t *testing.T) {
	in := new(inbox)
	check := func(Reply) error { return nil }
	r := &respConn{checks: []func(Reply) error{check}}
	source := io.MultiReader(strings.NewReader("*1000000\r\n"), repeated("$1000\r\n"+strings.Repeat("x", 1000)+"\r\n"))
	for {
		if _, err := in.fill(source); err != nil {
			return
		}
		if !in.ready() {
			continue
		}
		if _, err := r.answer(in); err != nil && !in.rewind() {
			return
		}
		in.wanted = in.received + 8<<20 // not to begin anew for each piece of it
	}
}

// repeated gives a text without end.
func repeated(text string) io.Reader { return &again{all: []byte(text)} }
