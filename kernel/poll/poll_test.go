package poll

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func newSet(t *testing.T) *Set {
	t.Helper()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// pair is both ends of a stream.
func pair(t *testing.T) (near, far int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	return fds[0], fds[1]
}

// both runs a test by epoll_pwait2 and by what stands in for it.
func both(t *testing.T, test func(t *testing.T, s *Set)) {
	for name, coarse := range map[string]bool{"epoll_pwait2": false, "ppoll": true} {
		t.Run(name, func(t *testing.T) {
			s := newSet(t)
			s.coarse = coarse
			test(t, s)
		})
	}
}

func TestReportsWhatIsReady(t *testing.T) {
	both(t, func(t *testing.T, s *Set) {
		near, far := pair(t)
		token := Token{Place: 3, Generation: 7}
		if err := s.Add(near, token); err != nil {
			t.Fatal(err)
		}
		expect := func(limit time.Duration, want ...Event) {
			t.Helper()
			got, err := s.Wait(limit)
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("%+v, %v; want %+v", got, err, want)
			}
		}
		expect(0)
		unix.Write(far, []byte("x"))
		expect(time.Minute, Event{Token: token, Readable: true})
		expect(time.Minute, Event{Token: token, Readable: true}) // until it is read
		unix.Read(near, make([]byte, 9))
		expect(0)

		token.Generation++
		if err := s.Writable(near, token, true); err != nil {
			t.Fatal(err)
		}
		expect(time.Minute, Event{Token: token, Writable: true})
		if err := s.Writable(near, token, false); err != nil {
			t.Fatal(err)
		}
		expect(0)
		unix.Shutdown(far, unix.SHUT_WR)
		expect(time.Minute, Event{Token: token, Readable: true})
	})
}

func TestWakeEndsOneWait(t *testing.T) {
	both(t, func(t *testing.T, s *Set) {
		s.Wake()
		s.Wake()
		for _, limit := range []time.Duration{time.Minute, 0} { // it would take its minute
			if events, err := s.Wait(limit); err != nil || len(events) != 0 {
				t.Errorf("%+v, %v", events, err)
			}
		}
		go s.Wake()
		if events, err := s.Wait(time.Minute); err != nil || len(events) != 0 {
			t.Errorf("%+v, %v", events, err)
		}
	})
}

func TestWaitsForItsLimit(t *testing.T) {
	both(t, func(t *testing.T, s *Set) {
		const limit = 300 * time.Microsecond
		// A signal of the runtime's may end a wait early: then there is one more.
		for began := time.Now(); time.Since(began) < limit; {
			if _, err := s.Wait(limit - time.Since(began)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestClosedSet(t *testing.T) {
	s := newSet(t)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	s.Wake() // no other descriptor with its number
	near, _ := pair(t)
	if err := s.Add(near, Token{}); err == nil {
		t.Error("a closed set takes a descriptor")
	}
}
