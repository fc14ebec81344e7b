package docker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"tare/platform/engine"
)

func frame(stream byte, size uint32, text string) string {
	return string(binary.BigEndian.AppendUint32([]byte{stream, 0, 0, 0}, size)) + text
}

func framed(stream byte, text string) string { return frame(stream, uint32(len(text)), text) }

func TestDemultiplex(t *testing.T) {
	long := strings.Repeat("line\n", 20_000)
	for what, c := range map[string]struct{ sent, stdout, stderr, err string }{
		"nothing":                 {"", "", "", ""},
		"both":                    {framed(1, "a") + framed(2, "b") + framed(0, "c") + framed(1, ""), "ac", "b", ""},
		"a long frame":            {framed(2, long) + framed(1, long), long, long, ""},
		"cut in a frame":          {frame(1, 10, "abc"), "abc", "", ""},
		"cut in a head":           {framed(1, "abc") + "\x01\x00", "abc", "", ""},
		"the engine's complaint":  {framed(1, "a") + framed(3, "no disk"), "a", "", "no disk"},
		"an endless complaint":    {frame(3, 1<<32-1, strings.Repeat("no ", 10_000)), "", "", "no no"},
		"of a stream of its own":  {framed(1, "a") + framed(9, "b"), "a", "", "stream 9"},
		"no frames, but the text": {"hello, world", "", "", "stream 104"},
	} {
		var stdout, stderr bytes.Buffer
		err := demultiplex(&stdout, &stderr, strings.NewReader(c.sent))
		if stdout.String() != c.stdout || stderr.String() != c.stderr {
			t.Errorf("%s: %d bytes of stdout, %d of stderr", what, stdout.Len(), stderr.Len())
		}
		switch {
		case (err != nil) != (c.err != ""):
			t.Errorf("%s: %v", what, err)
		case err != nil && (!strings.Contains(err.Error(), c.err) || len(err.Error()) > mostComplaint+100):
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A frame takes no memory for what it claims.
func TestDemultiplexKeepsLittle(t *testing.T) {
	const claimed = 1 << 28
	r := strings.NewReader(frame(1, claimed, "abc"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	i := instance{Program: new(engine.Program)}
	i.handOn(&client.HijackedResponse{Reader: bufio.NewReader(r)})
	<-i.Output.Done()
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > claimed/16 {
		t.Errorf("it has taken %d MiB", took>>20)
	}
}

// FuzzDemultiplex compares with Moby's own function, where each frame is as long as it claims.
func FuzzDemultiplex(f *testing.F) {
	f.Add([]byte(framed(1, "out") + framed(2, "err") + framed(0, "in")))
	f.Add([]byte(framed(1, "out") + framed(3, "gone")))
	f.Add([]byte(frame(1, 1<<32-1, "out")))
	f.Fuzz(func(t *testing.T, b []byte) {
		var stdout, stderr, wantOut, wantErr bytes.Buffer
		err := demultiplex(&stdout, &stderr, bytes.NewReader(b))
		if stdout.Len()+stderr.Len() > len(b) {
			t.Fatal("it has written more than it has read")
		}
		for rest := b; len(rest) >= 8; {
			size := uint64(binary.BigEndian.Uint32(rest[4:]))
			if rest = rest[8:]; size > uint64(len(rest)) {
				return
			}
			rest = rest[size:]
		}
		_, want := stdcopy.StdCopy(&wantOut, &wantErr, bytes.NewReader(b))
		if (err == nil) != (want == nil) || stdout.String() != wantOut.String() || stderr.String() != wantErr.String() {
			t.Errorf("%q, %q, %v; Moby's %q, %q, %v", &stdout, &stderr, err, &wantOut, &wantErr, want)
		}
	})
}
