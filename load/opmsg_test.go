package load

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// opMsgServer answers commands on loopback until the test ends.
func opMsgServer(t *testing.T, answer func(command Document) Document) (address string) {
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
					head := make([]byte, opHeader)
					if _, err := conn.Read(head); err != nil {
						return
					}
					rest := make([]byte, binary.LittleEndian.Uint32(head)-opHeader)
					if _, err := conn.Read(rest); err != nil {
						return
					}
					_, command, err := readOpMsg(bytes.NewReader(slices.Concat(head, rest)))
					if err != nil {
						t.Error(err)
						return
					}
					reply, err := appendOpMsg(nil, 1, answer(command))
					if err != nil {
						t.Error(err)
						return
					}
					copy(reply[8:12], head[4:8]) // to which it is the answer
					if _, err := conn.Write(reply); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

var someDocument = Document{
	{"find", "people"}, {"limit", int32(-1)}, {"big", int64(math.MinInt64)}, {"share", 0.25}, {"yes", true}, {"no", false}, {"", ""},
	{"filter", Document{{"_id", "a\x00b"}, {"none", Document(nil)}}},
	{"list", []Document{{{"x", int32(1)}}, nil}},
}

func TestDocument(t *testing.T) {
	data, err := appendDocument([]byte("before"), someDocument)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readDocument(data[len("before"):])
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(someDocument)
	// An array is read as the document that it is on the wire.
	want[len(want)-1].Value = Document{{"0", Document{{"x", int32(1)}}}, {"1", Document(nil)}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if v := got.Lookup("filter", "_id"); v != "a\x00b" {
		t.Errorf("the filter's _id is %q", v)
	}
	if n, ok := got.Number("list", "0", "x"); !ok || n != 1 {
		t.Errorf("the list's first x is %v, %v", n, ok)
	}
	for _, path := range [][]string{{"absent"}, {"find", "deeper"}, {"list", "2", "x"}} {
		if v := got.Lookup(path...); v != nil {
			t.Errorf("%q is %v", path, v)
		}
	}
	if _, err := appendDocument(nil, Document{{"of", []string{"no form"}}}); err == nil {
		t.Error("a value without a form is written")
	}
}

// The example of bsonspec.org's frequently asked questions.
func TestDocumentOfTheSpecification(t *testing.T) {
	data, err := appendDocument(nil, Document{{"hello", "world"}})
	if want := "\x16\x00\x00\x00\x02hello\x00\x06\x00\x00\x00world\x00\x00"; err != nil || string(data) != want {
		t.Errorf("%q, %v; want %q", data, err, want)
	}
}

func TestDocumentsRefused(t *testing.T) {
	deep := []byte("\x05\x00\x00\x00\x00")
	for range maxDepth {
		outer := binary.LittleEndian.AppendUint32(nil, uint32(len(deep)+8))
		deep = slices.Concat(outer, []byte("\x03a\x00"), deep, []byte{0})
	}
	for name, data := range map[string]string{
		"nothing":                 "",
		"another length":          "\x06\x00\x00\x00\x00",
		"no end":                  "\x05\x00\x00\x00\x01",
		"a name without end":      "\x07\x00\x00\x00\x10a\x00",
		"a number cut off":        "\x0a\x00\x00\x00\x10a\x00\x01\x02\x00",
		"a string past the end":   "\x0d\x00\x00\x00\x02a\x00\x09\x00\x00\x00\x00\x00",
		"a string without end":    "\x0d\x00\x00\x00\x02a\x00\x01\x00\x00\x00x\x00",
		"a negative length":       "\x0d\x00\x00\x00\x02a\x00\xff\xff\xff\xff\x00\x00",
		"an unknown type":         "\x09\x00\x00\x00\x42a\x00\x00\x00",
		"a document past its end": "\x0d\x00\x00\x00\x03a\x00\x06\x00\x00\x00\x00\x00",
		"too deep":                string(deep),
	} {
		if d, err := readDocument([]byte(data)); !errors.Is(err, errBSON) {
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}
}

func FuzzReadOpMsg(f *testing.F) {
	message, err := appendOpMsg(nil, 7, someDocument)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(message)
	f.Add(message[:40])
	summed := slices.Concat(message, []byte{1, 2, 3, 4})
	binary.LittleEndian.PutUint32(summed, uint32(len(summed)))
	summed[opHeader] = flagChecksum
	f.Add(summed)
	f.Fuzz(func(t *testing.T, data []byte) {
		_, reply, err := readOpMsg(bytes.NewReader(data))
		if err != nil {
			return
		}
		for _, field := range reply {
			reply.Lookup(field.Name, "0", field.Name)
		}
	})
}

func TestOpMsgClient(t *testing.T) {
	address := opMsgServer(t, func(command Document) Document {
		switch command[0].Name {
		case "hello":
			return Document{{"maxWireVersion", int32(6)}, {"ok", 1.0}}
		case "insert":
			return Document{{"n", int32(0)}, {"writeErrors", []Document{{{"index", int32(0)}, {"code", int32(11000)}, {"errmsg", "duplicate key"}}}}, {"ok", 1.0}}
		}
		return Document{{"ok", 0.0}, {"errmsg", "no such command"}, {"code", int32(59)}}
	})
	client, err := DialOpMsg(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	reply, err := client.Do(t.Context(), Document{{"hello", int32(1)}})
	if version, ok := reply.Number("maxWireVersion"); err != nil || !ok || version != 6 {
		t.Errorf("%v, %v", reply, err)
	}
	for command, want := range map[string]CommandError{"insert": {11000, "duplicate key"}, "fly": {59, "no such command"}} {
		var failed *CommandError
		if _, err := client.Do(t.Context(), Document{{command, int32(1)}}); !errors.As(err, &failed) || *failed != want {
			t.Errorf("%s: %v, want %v", command, err, want)
		}
	}
	if _, err := client.Do(t.Context(), Document{{"hello", int32(1)}}); err != nil {
		t.Errorf("after commands that failed: %v", err)
	}
}

// A service that never answers is left when the context ends.
func TestOpMsgClientIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	address := opMsgServer(t, func(Document) Document {
		cancel()
		<-t.Context().Done()
		return nil
	})
	client, err := DialOpMsg(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Do(ctx, Document{{"hello", int32(1)}}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was cancelled", err)
	}
}

func TestOpMsgLoad(t *testing.T) {
	address := opMsgServer(t, func(command Document) Document {
		if n, _ := command.Number("find"); n == 3 {
			return Document{{"ok", 0.0}, {"code", int32(50)}, {"errmsg", "too slow"}}
		}
		return Document{{"found", command.Lookup("find")}, {"ok", 1.0}}
	})
	n := int32(0)
	target := OpMsg{Address: address, Next: func() (Document, func(Document) error) {
		n++
		return Document{{"find", n}}, func(reply Document) error {
			if found, _ := reply.Number("found"); found == 5 {
				return errors.New("it is another")
			}
			return nil
		}
	}}
	r, err := Run(t.Context(), target, Options{Connections: 1, Count: 10, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 8 || r.Errors["reply 50"] != 1 || r.Errors["reply"] != 1 {
		t.Errorf("%d right, errors %v", r.Requests, r.Errors)
	}
	if _, err := (OpMsg{Address: address}).Open(t.Context()); err == nil {
		t.Error("a load without commands opens")
	}
}

// What is not the protocol is said, whatever it is.
func TestOpMsgRefusesOtherProtocols(t *testing.T) {
	good, err := appendOpMsg(nil, 1, Document{{"ok", 1.0}})
	if err != nil {
		t.Fatal(err)
	}
	with := func(at int, value uint32) string {
		bad := slices.Clone(good)
		binary.LittleEndian.PutUint32(bad[at:], value)
		return string(bad)
	}
	for data, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n\r\n": "kind",
		with(12, 1):                        "kind 1",
		with(0, 20):                        "20 bytes",
		with(0, opMsgLimit+1):              "bytes",
		with(0, 1000):                      "unexpected EOF",
		string(good[:10]):                  "EOF",
		string(good[:20]) + "\x01" + string(good[21:]): "section",
	} {
		if _, _, err := readOpMsg(strings.NewReader(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v, want something about %q", data, err, want)
		}
	}
}
