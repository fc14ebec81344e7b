package load

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// cqlServer answers requests on loopback until the test ends: answer is given a
// request's kind and body, and gives an answer's.
func cqlServer(t *testing.T, answer func(op byte, body []byte) (byte, []byte)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for {
					head := make([]byte, cqlHeader)
					if _, err := io.ReadFull(conn, head); err != nil {
						return
					}
					body := make([]byte, binary.BigEndian.Uint32(head[5:]))
					if _, err := io.ReadFull(conn, body); err != nil {
						return
					}
					op, reply := answer(head[4], body)
					if _, err := conn.Write(cqlFrame(int16(binary.BigEndian.Uint16(head[2:])), 0, op, reply)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// cqlFrame is an answer.
func cqlFrame(stream int16, flags, op byte, body []byte) []byte {
	frame := slices.Concat([]byte{cqlResponse, flags, 0, 0, op, 0, 0, 0, 0}, body)
	finishFrame(frame, stream)
	return frame
}

func words(numbers ...uint32) (b []byte) {
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

// cqlRows is a result of one text column, bare of what describes it.
func cqlRows(values ...string) []byte {
	b := words(resultRows, rowsBare, 1, uint32(len(values)))
	for _, v := range values {
		b = appendLong(b, v)
	}
	return b
}

// describedRows is a result as a server describes it: two columns of one table, a
// value and a null.
func describedRows() []byte {
	b := words(resultRows, rowsOfOneTable, 2)
	b = appendString(appendString(b, "keyspace"), "table")
	for _, name := range []string{"key", "value"} {
		b = binary.BigEndian.AppendUint16(appendString(b, name), 0x0d) // varchar
	}
	b = binary.BigEndian.AppendUint32(b, 1)
	return binary.BigEndian.AppendUint32(appendLong(b, "one"), 0xffffffff)
}

// scatteredRows is one column whose table is named with it, in one of several pages.
func scatteredRows() []byte {
	b := words(resultRows, rowsPaged, 1)
	b = appendLong(b, "where the next page begins")
	for _, name := range []string{"keyspace", "table", "name"} {
		b = appendString(b, name)
	}
	b = binary.BigEndian.AppendUint16(b, 0x0d)
	return appendLong(binary.BigEndian.AppendUint32(b, 1), "two")
}

func TestReadCQL(t *testing.T) {
	warned := slices.Concat([]byte{0, 1}, appendString(nil, "beware"), words(resultVoid))
	for name, c := range map[string]struct {
		frame []byte
		want  cqlAnswer
	}{
		"ready":          {cqlFrame(7, 0, opReady, nil), cqlAnswer{}},
		"void":           {cqlFrame(7, 0, opResult, words(resultVoid)), cqlAnswer{}},
		"warned":         {cqlFrame(7, flagWarned, opResult, warned), cqlAnswer{}},
		"keyspace":       {cqlFrame(7, 0, opResult, appendString(words(resultKeyspace), "ycsb")), cqlAnswer{}},
		"prepared":       {cqlFrame(7, 0, opResult, appendString(words(resultPrepared), "\x01id")), cqlAnswer{prepared: []byte("\x01id")}},
		"bare rows":      {cqlFrame(7, 0, opResult, cqlRows("a", "")), cqlAnswer{rows: []CQLRow{{[]byte("a")}, {[]byte{}}}}},
		"described rows": {cqlFrame(7, 0, opResult, describedRows()), cqlAnswer{rows: []CQLRow{{[]byte("one"), nil}}}},
		"scattered rows": {cqlFrame(7, 0, opResult, scatteredRows()), cqlAnswer{rows: []CQLRow{{[]byte("two")}}}},
		"no rows":        {cqlFrame(7, 0, opResult, cqlRows()), cqlAnswer{rows: []CQLRow{}}},
	} {
		stream, got, err := readCQL(bytes.NewReader(c.frame))
		if err != nil || stream != 7 || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %d, %+v, %v; want %+v", name, stream, got, err, c.want)
		}
	}
}

func TestCQLRefused(t *testing.T) {
	for name, c := range map[string]struct {
		frame []byte
		want  string
	}{
		"nothing":             {nil, "EOF"},
		"half a head":         {[]byte{cqlResponse, 0, 0}, "EOF"},
		"a request":           {finished(appendStartup(nil)), "version"},
		"body cut off":        {cqlFrame(1, 0, opResult, cqlRows("abc"))[:20], "EOF"},
		"too long":            {[]byte{cqlResponse, 0, 0, 1, opResult, 0x7f, 0, 0, 0}, "bytes"},
		"compressed":          {cqlFrame(1, 1, opResult, words(resultVoid)), "flags"},
		"asks who one is":     {cqlFrame(1, 0, 0x03, appendString(nil, "PasswordAuthenticator")), "who one is"},
		"no kind":             {cqlFrame(1, 0, opResult, nil), "cut off"},
		"unknown kind":        {cqlFrame(1, 0, opResult, words(9)), "not of the protocol"},
		"rows without number": {cqlFrame(1, 0, opResult, words(resultRows, rowsBare, 1)), "cut off"},
		"more rows than room": {cqlFrame(1, 0, opResult, words(resultRows, rowsBare, 1, 1<<30)), "cut off"},
		"no columns":          {cqlFrame(1, 0, opResult, words(resultRows, rowsBare, 0, 1<<30)), "cut off"},
		"negative columns":    {cqlFrame(1, 0, opResult, words(resultRows, rowsBare, 1<<31, 1)), "cut off"},
		"a value cut off":     {cqlFrame(1, 0, opResult, slices.Concat(words(resultRows, rowsBare, 1, 1, 100), []byte("short"))), "cut off"},
		"a type within":       {cqlFrame(1, 0, opResult, bytes.Replace(describedRows(), []byte("key\x00\x0d"), []byte("key\x00\x20"), 1)), "cut off"},
		"half an error":       {cqlFrame(1, 0, opError, words(5)), "cut off"},
	} {
		_, _, err := readCQL(bytes.NewReader(c.frame))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want something about %q", name, err, c.want)
		}
	}
	_, _, err := readCQL(bytes.NewReader(cqlFrame(1, 0, opError, appendString(words(0x2200), "no such table"))))
	var refused *CQLError
	if !errors.As(err, &refused) || refused.Code != 0x2200 || err.Error() != "error 0x2200: no such table" {
		t.Errorf("%v (%T), want the service's own words", err, err)
	}
}

func finished(frame []byte) []byte {
	finishFrame(frame, 1)
	return frame
}

func FuzzReadCQL(f *testing.F) {
	for _, body := range [][]byte{words(resultVoid), cqlRows("a", "b"), describedRows(), scatteredRows(), appendString(words(resultPrepared), "id")} {
		f.Add(cqlFrame(1, 0, opResult, body))
	}
	f.Add(cqlFrame(1, flagWarned, opError, slices.Concat([]byte{0, 1, 0, 1, 'w'}, appendString(words(1), "why"))))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, answer, err := readCQL(bytes.NewReader(data))
		if err != nil && (answer.rows != nil || answer.prepared != nil) {
			t.Errorf("%v, and yet %+v", err, answer)
		}
		total := 0
		for _, row := range answer.rows {
			for _, value := range row {
				total += len(value)
			}
		}
		if total > len(data) {
			t.Errorf("%d bytes of values in an answer of %d", total, len(data))
		}
	})
}

// keeper is a service of one table that keeps what is written.
func keeper(t *testing.T, prepares *atomic.Int64) (address string) {
	kept := make(chan map[string]string, 1)
	kept <- map[string]string{}
	return cqlServer(t, func(op byte, body []byte) (byte, []byte) {
		c := &cqlCursor{rest: body}
		switch op {
		case opStartup:
			return opReady, nil
		case opPrepare:
			prepares.Add(1)
			text := string(c.take(c.long()))
			if strings.HasPrefix(text, "WRONG") {
				return opError, appendString(words(0x2000), "syntax")
			}
			return opResult, appendString(words(resultPrepared), text)
		case opExecute:
			text := string(c.take(c.short()))
			c.take(3) // consistency and flags
			var values []string
			for n := c.short(); n > 0; n-- {
				values = append(values, string(c.value()))
			}
			store := <-kept
			defer func() { kept <- store }()
			if text == "write" {
				store[values[0]] = values[1]
				return opResult, words(resultVoid)
			}
			if v, ok := store[values[0]]; ok {
				return opResult, cqlRows(v)
			}
			return opError, appendString(words(0x1100), "timed out")
		}
		return opError, appendString(words(0x000a), "what?")
	})
}

// What was written is read back, each request by the statement that it names, and a
// refusal does not end the connection.
func TestCQLLoads(t *testing.T) {
	var prepares, next atomic.Int64
	target := CQL{
		Address: keeper(t, &prepares), Statements: []string{"write", "read"},
		Next: func() CQLRequest {
			switch next.Add(1) {
			case 1:
				return CQLRequest{Statement: 0, Values: []string{"k", "v"}}
			case 2:
				return CQLRequest{Statement: 1, Values: []string{"k"}, Check: func(rows []CQLRow) error {
					if len(rows) != 1 || string(rows[0][0]) != "v" {
						return errors.New("another value")
					}
					return nil
				}}
			case 3:
				return CQLRequest{Statement: 1, Values: []string{"absent"}}
			default:
				return CQLRequest{Statement: 1, Values: []string{"k"}, Check: func([]CQLRow) error { return errors.New("never right") }}
			}
		},
	}
	r, err := Run(t.Context(), target, Options{Connections: 1, Count: 4, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 2 || r.Errors["error 0x1100"] != 1 || r.Errors["rows"] != 1 || len(r.Errors) != 2 {
		t.Errorf("%d answered, errors %v (%v)", r.Requests, r.Errors, r.FirstError)
	}
	if n := prepares.Load(); n != 2 {
		t.Errorf("%d statements were prepared, want each once on the one connection", n)
	}
}

func TestCQLOpens(t *testing.T) {
	var prepares atomic.Int64
	address := keeper(t, &prepares)
	one := func() CQLRequest { return CQLRequest{} }
	if _, err := (CQL{Address: address, Next: one}).Open(t.Context()); err == nil {
		t.Error("no statements pass")
	}
	_, err := CQL{Address: address, Next: one, Statements: []string{"WRONG"}}.Open(t.Context())
	var refused *CQLError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "prepare WRONG") {
		t.Errorf("%v, want which statement was refused", err)
	}
	who := cqlServer(t, func(byte, []byte) (byte, []byte) { return 0x03, nil })
	if _, err := DialCQL(t.Context(), nil, who); err == nil || !strings.Contains(err.Error(), "start up") {
		t.Errorf("%v", err)
	}
	client, err := DialCQL(t.Context(), nil, address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Do(t.Context(), "SELECT"); !errors.As(err, &refused) {
		t.Errorf("%v, want a refusal", err)
	}
	if _, err := client.Do(t.Context(), "again"); !errors.As(err, &refused) {
		t.Errorf("after a refusal: %v", err)
	}
}
