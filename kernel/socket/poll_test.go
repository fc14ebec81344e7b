package socket_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"tare/kernel/socket"
)

// pair is both ends of a TCP connection, the first of them polled.
func pair(t testing.TB, limit time.Duration) (polled, other *net.TCPConn, conn net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	one, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	two, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { one.Close(); two.Close() })
	if conn, err = socket.Poll(one, limit); err != nil {
		t.Fatal(err)
	}
	return one.(*net.TCPConn), two.(*net.TCPConn), conn
}

// What comes while it polls, and what comes long after it has gone to sleep,
// arrives whole and in order.
func TestPollReadsWhatComes(t *testing.T) {
	for _, limit := range []time.Duration{time.Nanosecond, socket.LongestPoll} {
		_, other, conn := pair(t, limit)
		want := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
		go func() {
			for part := want; len(part) > 0; {
				n := min(len(part), 1000)
				if _, err := other.Write(part[:n]); err != nil {
					t.Error(err)
				}
				part = part[n:]
			}
			other.CloseWrite()
		}()
		got, err := io.ReadAll(conn)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("limit %v: %d bytes, %v, want %d", limit, len(got), err, len(want))
		}
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("after the end: %d, %v", n, err)
		}
		if n, err := conn.Read(nil); n != 0 || err != nil {
			t.Errorf("of nothing: %d, %v", n, err)
		}
	}
}

// Each request is answered only once it has come: with no time to poll at all,
// every answer is slept for, and none is missed.
func TestPollSleepsForAnswers(t *testing.T) {
	_, other, conn := pair(t, time.Nanosecond)
	go io.Copy(other, other)
	buffer := make([]byte, 8)
	for i := range 200 {
		buffer[0] = byte(i)
		if _, err := conn.Write(buffer[:1]); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(buffer); n != 1 || err != nil || buffer[0] != byte(i) {
			t.Fatalf("answer %d: %d bytes, %v, %v", i, n, buffer[0], err)
		}
	}
}

func TestPollEndsAsAnyReadDoes(t *testing.T) {
	t.Run("deadline", func(t *testing.T) {
		_, _, conn := pair(t, time.Millisecond)
		if err := conn.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("close", func(t *testing.T) {
		_, _, conn := pair(t, time.Millisecond)
		ended := make(chan error)
		go func() { _, err := conn.Read(make([]byte, 1)); ended <- err }()
		conn.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("reset", func(t *testing.T) {
		_, other, conn := pair(t, time.Millisecond)
		if err := other.SetLinger(0); err != nil {
			t.Fatal(err)
		}
		other.Close()
		var op *net.OpError
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) || !errors.As(err, &op) {
			t.Errorf("got %v", err)
		}
	})
}

func TestPollOfWhatIsNoSocket(t *testing.T) {
	one, two := net.Pipe()
	defer one.Close()
	defer two.Close()
	if conn, err := socket.Poll(one, time.Millisecond); conn != one || err != nil {
		t.Errorf("got %v, %v, want the pipe itself", conn, err)
	}
	for _, limit := range []time.Duration{-1, socket.LongestPoll + 1} {
		if _, err := socket.Poll(one, limit); err == nil {
			t.Errorf("polls for %v", limit)
		}
	}
}

// What it gains: a round trip by polling against one by sleeping.
func BenchmarkRoundTrip(b *testing.B) {
	for name, limit := range map[string]time.Duration{"sleeping": 0, "polling": socket.LongestPoll} {
		b.Run(name, func(b *testing.B) {
			_, other, conn := pair(b, limit)
			echo, err := socket.Poll(other, limit)
			if err != nil {
				b.Fatal(err)
			}
			go io.Copy(struct{ io.Writer }{echo}, struct{ io.Reader }{echo})
			buffer := make([]byte, 1)
			for b.Loop() {
				if _, err := conn.Write(buffer); err != nil {
					b.Fatal(err)
				}
				if _, err := conn.Read(buffer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
