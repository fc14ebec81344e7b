package socket_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"tare/kernel/socket"
)

func detach(t *testing.T, conn net.Conn) *socket.Detached {
	t.Helper()
	d, err := socket.Detach(conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestDetachedCarriesOnAndNeverWaits(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Millisecond} { // polled, too
		_, other, conn := pair(t, limit)
		d := detach(t, conn)
		if _, err := conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the connection still writes: %v", err)
		}
		buffer := make([]byte, 100)
		if n, err := d.Read(buffer); n != 0 || err != socket.ErrWait {
			t.Fatalf("nothing came: %d, %v", n, err)
		}
		if n, err := d.Write([]byte("ping")); n != 4 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		if n, err := io.ReadFull(other, buffer[:4]); err != nil || string(buffer[:4]) != "ping" {
			t.Fatalf("%q, %v", buffer[:n], err)
		}
		want := bytes.Repeat([]byte("0123456789"), 1000)
		go func() { other.Write(want); other.CloseWrite() }()
		var got []byte
		for {
			n, err := d.Read(buffer)
			got = append(got, buffer[:n]...)
			if err == io.EOF {
				break
			}
			if err != nil && err != socket.ErrWait {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes came, want %d", len(got), len(want))
		}
	}
}

func TestDetachedSendsWhatThereIsRoomFor(t *testing.T) {
	_, other, conn := pair(t, 0)
	d := detach(t, conn)
	large := make([]byte, 64<<20)
	sent, err := d.Write(large)
	if err != socket.ErrWait || sent == 0 || sent == len(large) {
		t.Fatalf("%d bytes, %v", sent, err)
	}
	if _, err := io.ReadFull(other, large[:sent]); err != nil {
		t.Errorf("not all of them arrived: %v", err)
	}
	other.SetLinger(0)
	other.Close()
	for err == nil || err == socket.ErrWait { // until the reset has come
		_, err = d.Write(large[:1])
	}
	if err != syscall.ECONNRESET && err != syscall.EPIPE {
		t.Errorf("after a reset: %v", err)
	}
}

func TestDetachRefusesWhatIsNoSocket(t *testing.T) {
	one, two := net.Pipe()
	defer two.Close()
	if _, err := socket.Detach(one); err == nil {
		t.Error("a pipe in memory has a socket")
	}
	if _, err := one.Write([]byte("x")); err == nil {
		t.Error("what was refused is not closed")
	}
}

func TestDetachedAllocatesNothing(t *testing.T) {
	_, other, conn := pair(t, 0)
	d := detach(t, conn)
	go io.Copy(other, other)
	buffer := make([]byte, 64)
	if n := testing.AllocsPerRun(100, func() {
		d.Write(buffer[:10])
		for {
			if _, err := d.Read(buffer); err != socket.ErrWait {
				return
			}
		}
	}); n >= 1 {
		t.Errorf("%v allocations a round trip", n)
	}
}

func TestConnect(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Log(err) // a host without IPv6
			continue
		}
		go func() {
			if conn, err := l.Accept(); err == nil {
				io.Copy(conn, conn)
			}
		}()
		to := l.Addr().(*net.TCPAddr).AddrPort()
		d, err := socket.Connect(to)
		if err != nil {
			t.Fatal(err)
		}
		write := func(d *socket.Detached) (err error) {
			for err = socket.ErrWait; err == socket.ErrWait; _, err = d.Write([]byte("x")) {
			}
			return err
		}
		if err := write(d); err != nil {
			t.Error(err)
		}
		d.Close()
		l.Close()
		refused, err := socket.Connect(to)
		if err == nil {
			err = write(refused)
			refused.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("nobody there: %v", err)
		}
	}
	if _, err := socket.Connect(netip.AddrPort{}); err == nil {
		t.Error("connects to no address")
	}
}
