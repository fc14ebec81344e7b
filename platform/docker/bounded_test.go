package docker

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Any user may have anything answer at a rootless engine's socket, and `tare doctor` asks there as root.
func TestAReplyThatDoesNotEnd(t *testing.T) {
	ended := make(chan int, 1)
	f, _, _ := newFakeEngine(t, map[string]func(http.ResponseWriter, *http.Request){
		stepInfo: func(w http.ResponseWriter, _ *http.Request) {
			sent, piece := 0, strings.Repeat("a", 1<<20)
			_, err := io.WriteString(w, `{"Name":"`)
			for ; err == nil; sent++ {
				_, err = io.WriteString(w, piece)
			}
			ended <- sent
		},
	})
	p := newPlatform(NameRootless, Options{Host: "unix://" + f.Listener.Addr().String()})
	p.requests.Patience, p.requests.Brief = time.Minute, time.Minute
	if err := p.Check(t.Context()); err == nil {
		t.Error("such an engine is taken")
	}
	if sent := <-ended; sent > 8 {
		t.Errorf("%d MiB of a reply were taken", sent)
	}
}

func TestStreamsAreNotBounded(t *testing.T) {
	long := strings.Repeat("a", mostReply+1)
	for request, isCut := range map[string]bool{
		"GET /v1.41/info HTTP/1.1\r\n": true, "POST /v1.41/images/load?quiet=1 HTTP/1.1\r\n": true,
		"GET /v1.41/images/get?names=a HTTP/1.1\r\n": false, "GET /v1.41/containers/x/export HTTP/1.1\r\n": false,
		"POST /v1.41/containers/x/attach?stream=1 HTTP/1.1\r\n": false,
	} {
		socket := t.TempDir() + "/s"
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if conn, err := l.Accept(); err == nil {
				_, _ = io.WriteString(conn, long)
				_ = conn.(*net.UnixConn).CloseWrite()
				_, _ = io.Copy(io.Discard, conn)
				conn.Close()
			}
		}()
		conn, err := dialBounded(socket)(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, request)
		_, _ = io.WriteString(conn, "a program's input") // changes nothing
		if got, err := io.ReadAll(conn); (err != nil) != isCut || !isCut && len(got) != len(long) {
			t.Errorf("%s: %d bytes, %v", request, len(got), err)
		}
		conn.Close()
		l.Close()
	}
}
