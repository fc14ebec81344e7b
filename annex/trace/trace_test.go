package trace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"tare/annex"
)

var header = Header{Host: "made", Clock: "virtual", PageSize: annex.PageSize, Containers: []Container{
	{ID: "a", Name: "web", Class: annex.Elastic, Pages: 4096},
	{ID: "b", Name: "db", Class: annex.Critical},
}}

var space = annex.Space{PID: 7, Started: 9}

// events has one of each kind, and one that is earlier than the one before it.
func events() []Event {
	return []Event{
		{Kind: Started, At: 100},
		{Kind: Woke, At: 1500},
		{Kind: Touched, At: 1500, Space: space, Took: 400, Write: true, Pages: []annex.Page{100, 101, 102, 50, 1 << 35, 1}},
		{Kind: Slept, At: 1900, CPU: 400},
		{Kind: Requested, At: 1800, Container: 1, Space: space, CPU: 30, Took: 70, Pages: []annex.Page{3}},
		{Kind: Lost, At: 1950, Count: 12},
		{Kind: Scanned, At: 2000, Space: space, Took: 10, More: true, Stretches: []Stretch{{First: 100, Runs: []States{{annex.Present | annex.Accessed, 8}, {annex.Swapped, 1}}}, {First: 500}}},
		{Kind: Ended, At: 3000},
	}
}

func written(t testing.TB, all []Event) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, header)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// all reads events to the end, and says why that came.
func all(s Source) (events []Event, err error) {
	for {
		e, err := s.Next()
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
}

func TestReadsWhatWasWritten(t *testing.T) {
	r, err := NewReader(bytes.NewReader(written(t, events())))
	if err != nil {
		t.Fatal(err)
	}
	got, err := all(r)
	if err != io.EOF {
		t.Error(err)
	}
	if d := cmp.Diff(events(), got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(header, r.Header()); d != "" {
		t.Error(d)
	}
}

func TestText(t *testing.T) {
	r, err := NewReader(bytes.NewReader(written(t, events())))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Text(&b, r); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/events.txt")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Error(d)
	}
}

// many is a trace of several blocks.
func many() []Event {
	var all []Event
	for i := range 40 {
		e := Event{Kind: Touched, At: annex.Moment(i), Space: space}
		for k := range annex.Page(Most) {
			e.Pages = append(e.Pages, k*7919%100_000)
		}
		all = append(all, e)
	}
	return all
}

func TestCutAnywhereIsReadUpToTheCut(t *testing.T) {
	whole := written(t, many())
	last := 0
	for n := 0; n < len(whole); n += 997 {
		r, err := NewReader(bytes.NewReader(whole[:n]))
		var got []Event
		if err == nil {
			got, err = all(r)
		}
		var cut *Cut
		if !errors.As(err, &cut) && !(n < len(magic) && errors.Is(err, ErrFormat)) {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if len(got) < last {
			t.Fatalf("cut at %d: %d events, of a shorter part %d", n, len(got), last)
		}
		last = len(got)
	}
	if last < 30 {
		t.Errorf("%d of 40 events before the last cut", last)
	}
}

// The length is that of what can be read: of a trace that was cut, up to the cut.
func TestLength(t *testing.T) {
	whole := written(t, events())
	for _, c := range []struct {
		what string
		file []byte
		long time.Duration
		cut  bool
	}{
		{"a whole trace", whole, 2900, false},
		{"a trace of nothing", written(t, nil), 0, false},
		{"a trace that was cut", whole[:len(whole)-1], 2900, true},
	} {
		r, err := NewReader(bytes.NewReader(c.file))
		if err != nil {
			t.Fatal(err)
		}
		long, err := Length(r)
		var cut *Cut
		if long != c.long || errors.As(err, &cut) != c.cut || err != nil && !c.cut {
			t.Errorf("%s: %d, %v; want %d", c.what, long, err, c.long)
		}
	}
	if one, two := (&Cut{1}).Error(), (&Cut{2}).Error(); !strings.Contains(one, "after 1 block:") || !strings.Contains(two, "after 2 blocks:") {
		t.Errorf("says %q and %q", one, two)
	}
}

func TestAnyChangedByteIsFoundOut(t *testing.T) {
	whole := written(t, events())
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 0x10
		r, err := NewReader(bytes.NewReader(b))
		if err == nil {
			_, err = all(r)
		}
		if err == nil || err == io.EOF {
			t.Errorf("byte %d was changed, and nothing said", i)
		}
	}
}

func TestRefusesWhatItCannotTell(t *testing.T) {
	w, err := NewWriter(io.Discard, header)
	if err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]Event{
		"no such container": {Kind: Woke, Container: 2},
		"no such kind":      {Kind: 99},
		"too many pages":    {Kind: Touched, Pages: make([]annex.Page, Most+1)},
		"negative time":     {Kind: Slept, CPU: -time.Second},
	} {
		if w.Write(e) == nil {
			t.Errorf("%s: written", name)
		}
	}
	if _, err := NewWriter(io.Discard, Header{PageSize: 16384}); err == nil {
		t.Error("pages of 16 KiB: begun")
	}
}

func TestScansOfManyRunsAreSeveralEvents(t *testing.T) {
	s := annex.Scan{Space: space, Stretches: []annex.Stretch{{First: 10, States: make([]annex.State, Most+100)}}}
	for i := range s.Stretches[0].States {
		s.Stretches[0].States[i] = annex.State(1 + i%2)
	}
	got := Scans(0, s)
	if len(got) != 2 || !got[0].More || got[1].More || got[1].Stretches[0].First != 10+Most || len(got[1].Stretches[0].Runs) != 100 {
		t.Errorf("%d events, the second from %d", len(got), got[len(got)-1].Stretches[0].First)
	}
}

// A block that asks for a window beyond what a reader takes for a block is corrupt.
func TestWideWindow(t *testing.T) {
	packed := []byte("\x28\xb5\x2f\xfd\x00\x90\x09\x00\x00x") // 256 MiB for one byte (RFC 8878, 3.1.1.1.2)
	var head [headLen]byte
	binary.LittleEndian.PutUint32(head[0:], uint32(len(packed)))
	binary.LittleEndian.PutUint32(head[4:], 1)
	binary.LittleEndian.PutUint32(head[8:], crc32.Checksum(packed, table))
	corrupt := new(Corrupt)
	_, err := NewReader(bytes.NewReader(slices.Concat(magic[:], head[:], packed)))
	if !errors.As(err, &corrupt) || !errors.Is(err, zstd.ErrWindowSizeExceeded) {
		t.Errorf("%v, want a *Corrupt about its window", err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(written(f, events()))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := NewReader(bytes.NewReader(b)); err == nil {
			_, _ = all(r)
		}
	})
}

// FuzzBlock looks behind the checksum: whatever a block says, an event that is told can be
// written and is told again.
func FuzzBlock(f *testing.F) {
	var c cursor
	var b []byte
	for _, e := range events() {
		b = c.encode(b, &e)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		d := decoder{rest: b}
		for len(d.rest) > 0 {
			e, err := d.event(2)
			if err != nil {
				return
			}
			if err := e.check(2); err != nil {
				t.Fatalf("%v: %v", e, err)
			}
			var c cursor
			again := decoder{rest: c.encode(nil, &e)}
			if same, err := again.event(2); err != nil || cmp.Diff(e, same) != "" {
				t.Fatalf("%v became %v: %v", e, same, err)
			}
		}
	})
}
