package load

import (
	"bufio"
	"bytes"
	"io"
	"runtime"
	"runtime/debug"
	"testing"
)

// percent is the collector's percentage now.
func percent() int {
	p := debug.SetGCPercent(-1)
	debug.SetGCPercent(p)
	return p
}

func TestQuietUntilTheLastLoadEnds(t *testing.T) {
	usual := percent()
	first, second := quiet(), quiet()
	within := percent()
	if live() < between/10 && within < 5*usual {
		t.Errorf("%d %% of what lives is garbage before it is collected, where it usually is %d", within, usual)
	}
	first()
	first() // again, which changes nothing
	if got := percent(); got != within {
		t.Errorf("%d %% while one of two loads runs, want %d", got, within)
	}
	second()
	if got := percent(); got != usual {
		t.Errorf("%d %% after the last load, want %d as before", got, usual)
	}
}

func TestSeldom(t *testing.T) {
	for _, c := range []struct {
		usual, want int
		live        uint64
	}{
		{usual: 100, live: 0, want: 6400},
		{usual: 100, live: 8 << 20, want: 800},
		{usual: 100, live: 1 << 30, want: 100},
		{usual: 400, live: 32 << 20, want: 400},
		{usual: -1, live: 1 << 20, want: -1},
	} {
		if got := seldom(c.usual, c.live); got != c.want {
			t.Errorf("usually %d %%, %d bytes live: %d %%, want %d", c.usual, c.live, got, c.want)
		}
	}
}

// again reads the same over and over.
type again struct {
	all  []byte
	left []byte
}

func (a *again) Read(p []byte) (int, error) {
	if len(a.left) == 0 {
		a.left = a.all
	}
	n := copy(p, a.left)
	a.left = a.left[n:]
	return n, nil
}

// To look at replies leaves no garbage but for the little that goes by a reply's number of
// parts: what a large one holds is put where the last one's was.
func TestLookingLeavesLittleGarbage(t *testing.T) {
	value := bytes.Repeat([]byte("x"), 200<<10)
	wire := append(append([]byte("$204800\r\n"), value...), "\r\n"...)
	conn := &respConn{client: &RESPClient{reader: bufio.NewReaderSize(&again{all: wire}, 16<<10)}}
	seen := 0
	look := func() {
		wrong, err := conn.reply(conn.client.reader, func(r Reply) error {
			if bytes.Equal(r.Text, value) {
				seen++
			}
			return nil
		})
		if wrong != nil || err != nil {
			t.Fatal(wrong, err)
		}
	}
	const times = 100
	if each := garbage(times, look); each > 4<<10 || seen < times {
		t.Errorf("%d bytes for each reply of %d, %d of them right", each, len(value), seen)
	}

	page := append([]byte("HTTP/1.1 200 OK\r\nContent-Length: 204800\r\n\r\n"), value...)
	stream := bufio.NewReader(&again{all: page})
	web := &httpConn{current: prepared{check: func(body []byte) error {
		if bytes.Equal(body, value) {
			seen++
		}
		return nil
	}}}
	seen = 0
	read := func() {
		web.reading.begin(false, true)
		if _, err := whole(web, stream); err != nil {
			t.Fatal(err)
		}
	}
	if each := garbage(times, read); each > 8<<10 || seen < times {
		t.Errorf("%d bytes for each body of %d, %d of them right", each, len(value), seen)
	}
}

// garbage is how many bytes each of so many calls takes of the heap, once it has what it keeps.
func garbage(times int, do func()) uint64 {
	for range 3 {
		do()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		do()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / uint64(times)
}

var _ io.Reader = (*again)(nil)
