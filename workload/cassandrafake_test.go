package workload

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// fakeCassandra speaks as much of the native protocol as the workload needs, and keeps
// what is written; spoil may change what is read.
type fakeCassandra struct {
	mu            sync.Mutex
	kept          map[string]string
	reads, writes int
	statements    []string // that were not prepared
	spoil         func(read int, field string) string
}

func (f *fakeCassandra) serve(t *testing.T) (address string) {
	t.Helper()
	f.kept = map[string]string{}
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
			go f.converse(conn)
		}
	}()
	return listener.Addr().String()
}

func (f *fakeCassandra) converse(conn net.Conn) {
	defer conn.Close()
	for {
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[5:]))
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		op, reply := f.answer(head[4], body)
		frame := []byte{0x84, 0, head[2], head[3], op}
		frame = binary.BigEndian.AppendUint32(frame, uint32(len(reply)))
		if _, err := conn.Write(append(frame, reply...)); err != nil {
			return
		}
	}
}

// answer gives an answer's kind and body, by the numbers of the specification.
func (f *fakeCassandra) answer(op byte, body []byte) (byte, []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	const ready, result = 0x02, 0x08
	void, bareRow := []byte{0, 0, 0, 1}, []byte{0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1}
	row := func(value string) []byte {
		return append(binary.BigEndian.AppendUint32(bareRow, uint32(len(value))), value...)
	}
	switch op {
	case 0x01: // start up
		return ready, nil
	case 0x07: // query
		text := string(body[4 : 4+binary.BigEndian.Uint32(body)])
		f.statements = append(f.statements, text)
		if strings.Contains(text, "system.local") {
			return result, row("local")
		}
		return result, void
	case 0x09: // prepare: a statement's id is its text
		text := body[4:]
		return result, append(binary.BigEndian.AppendUint16([]byte{0, 0, 0, 4}, uint16(len(text))), text...)
	}
	n := 2 + int(binary.BigEndian.Uint16(body))
	statement, rest := string(body[2:n]), body[n+2+1+2:] // past consistency, flags and the number of values
	var values []string
	for len(rest) > 0 {
		n := 4 + binary.BigEndian.Uint32(rest)
		values, rest = append(values, string(rest[4:n])), rest[n:]
	}
	if statement == cassandraWrite {
		f.writes++
		f.kept[values[0]] = values[1]
		return result, void
	}
	f.reads++
	field := f.kept[values[0]]
	if f.spoil != nil {
		field = f.spoil(f.reads, field)
	}
	return result, row(field)
}

func TestCassandraIsFilledAndLoaded(t *testing.T) {
	for _, pairs := range [][]string{
		{"rate", "5000", "warmup", "0s"},
		{"rate", "closed", "warmup", "20ms"},
		{"rate", "5000", "arrival", "poisson", "warmup", "0s", "reads", "0"},
	} {
		fake := &fakeCassandra{}
		w := cassandra{}
		p := resolve(t, w, append(pairs, "operations", "400", "threads", "8", "records", "50")...)
		tr := &trial{params: p, address: fake.serve(t), ended: make(chan struct{})}
		if err := w.Drive(t.Context(), tr); err != nil {
			t.Fatalf("%q: %v", pairs, err)
		}
		checkRecorded(t, w, tr)
		if n := tr.histograms[latencies].TotalCount(); n != 400 {
			t.Errorf("%q: %d latencies, want 400", pairs, n)
		}
		if len(fake.kept) != 50 || fake.kept[recordKey(49)] == "" {
			t.Errorf("%q: %d records, want 50", pairs, len(fake.kept))
		}
		if p["warmup"] == "0s" && fake.reads+fake.writes != 50+400 {
			t.Errorf("%q: %d reads and %d writes, want 50 and then 400", pairs, fake.reads, fake.writes)
		}
		if p["reads"] == "0" && fake.reads > 0 {
			t.Errorf("%q: %d reads", pairs, fake.reads)
		}
		for i, want := range []string{"system.local", "CREATE KEYSPACE", "CREATE TABLE"} {
			if i >= len(fake.statements) || !strings.Contains(fake.statements[i], want) {
				t.Fatalf("%q: it received %q, want %s as number %d", pairs, fake.statements, want, i)
			}
		}
	}
}

// One field that was never written makes the trial invalid.
func TestCassandraWrongField(t *testing.T) {
	fake := &fakeCassandra{spoil: func(read int, field string) string {
		if read == 100 {
			return strings.ToUpper(field)
		}
		return field
	}}
	p := resolve(t, cassandra{}, "rate", "closed", "warmup", "0s", "operations", "400", "threads", "4", "records", "50")
	tr := &trial{params: p, address: fake.serve(t), ended: make(chan struct{})}
	err := cassandra{}.Drive(t.Context(), tr)
	if err == nil || !strings.Contains(err.Error(), "1 of 400") || !strings.Contains(err.Error(), "another content") {
		t.Errorf("%v, want that one of 400 was another than was written", err)
	}
	if _, measured := tr.records["mean"]; measured {
		t.Errorf("and yet %v", tr.records)
	}
}
