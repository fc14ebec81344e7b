package workload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tare/image"
	"tare/load"
)

// sustainUntil sustains a load until enough tells so.
func sustainUntil(t *testing.T, w Sustainer, tr Trial, seed uint64, enough func() bool) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- w.Sustain(ctx, tr, seed) }()
	for tick := time.NewTicker(time.Millisecond); ; <-tick.C {
		select {
		case err := <-ended:
			return err
		default:
		}
		if enough() {
			cancel()
			err := <-ended
			if errors.Is(err, context.DeadlineExceeded) {
				t.Error("the load was not enough within a minute")
			}
			return err
		}
	}
}

// fakeRedis keeps what it is given; spoil may change an answer.
type fakeRedis struct {
	mu       sync.Mutex
	store    map[string]string
	reads    []string
	writes   atomic.Int64
	answered atomic.Int64
	spoil    func(command []string, answer string) string
}

func (f *fakeRedis) serve(t *testing.T) (address string) {
	f.store = map[string]string{}
	return respServer(t, func(words []string) string {
		f.mu.Lock()
		defer f.mu.Unlock()
		answer := "+PONG\r\n"
		switch words[0] {
		case "SET":
			f.store[words[1]] = words[2]
			answer = "+OK\r\n"
			f.writes.Add(1)
		case "GET":
			value := f.store[words[1]]
			answer = fmt.Sprintf("$%d\r\n%s\r\n", len(value), value)
			f.reads = append(f.reads, words[1])
		}
		f.answered.Add(1)
		if f.spoil != nil {
			answer = f.spoil(words, answer)
		}
		return answer
	})
}

func TestRedisIsSustained(t *testing.T) {
	w := redis{}
	fake := &fakeRedis{}
	tr := &trial{params: resolve(t, w, "data", "1", "clients", "1"), address: fake.serve(t), ended: make(chan struct{})}
	if err := w.Ready(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	if n := int64(len(fake.store)); n != recordsIn(1) || len(tr.records["loading"]) != 1 {
		t.Errorf("%d records are there when it is ready, want %d; loading took %v", n, recordsIn(1), tr.records["loading"])
	}
}

// The same seed makes the same requests; another copy's are others.
func TestSustainedRequestsFollowTheSeed(t *testing.T) {
	w := redis{}
	sequence := func(seed uint64) []string {
		fake := &fakeRedis{}
		tr := &trial{params: resolve(t, w, "data", "1", "clients", "1"), address: fake.serve(t), ended: make(chan struct{})}
		if err := w.Ready(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		written, answered := fake.writes.Load(), fake.answered.Load()
		if err := sustainUntil(t, w, tr, seed, func() bool { return fake.answered.Load() > answered+500 }); err != nil {
			t.Fatal(err)
		}
		if fake.writes.Load() == written {
			t.Error("nothing was updated")
		}
		fake.mu.Lock()
		defer fake.mu.Unlock()
		return slices.Clone(fake.reads[:300])
	}
	first := sequence(1)
	if !slices.Equal(first, sequence(1)) {
		t.Error("a seed's requests differ")
	}
	if slices.Equal(first, sequence(2)) {
		t.Error("another copy's requests are the same")
	}
}

func TestSustainedLoadTellsWrongAnswers(t *testing.T) {
	w := redis{}
	for want, spoil := range map[string]func(command []string, answer string) string{
		"user0": func(command []string, answer string) string {
			if command[0] == "GET" {
				return "$-1\r\n"
			}
			return answer
		},
		"with another content":         func(_ []string, answer string) string { return strings.ReplaceAll(answer, "user", "USER") },
		"OOM command not allowed":      func([]string, string) string { return "-OOM command not allowed\r\n" },
		"unknown type":                 func([]string, string) string { return "!\r\n" },
		`SET was answered by "QUEUED"`: func(command []string, answer string) string { return strings.Replace(answer, "OK", "QUEUED", 1) },
	} {
		fake := &fakeRedis{}
		tr := &trial{params: resolve(t, w, "data", "1", "reads", "50", "clients", "2"), address: fake.serve(t), ended: make(chan struct{})}
		if err := w.Ready(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		fake.mu.Lock()
		fake.spoil = spoil
		fake.mu.Unlock()
		err := sustainUntil(t, w, tr, 1, func() bool { return false })
		if err == nil || !strings.Contains(err.Error(), "a request failed") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestSustainedLoadTellsTheServicesEnd(t *testing.T) {
	w := redis{}
	fake := &fakeRedis{}
	tr := &trial{params: resolve(t, w, "data", "1", "clients", "2"), address: fake.serve(t), ended: make(chan struct{}), exit: Exit{Code: 3}}
	if err := w.Ready(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	err := sustainUntil(t, w, tr, 1, func() bool {
		if fake.answered.Load() > 20_000 {
			once.Do(func() { close(tr.ended) })
		}
		return false
	})
	refusedAs[*Ended](t, err, "ended by itself, with status 3")

	// Nobody there: a service that answers nothing was not at work.
	gone := &trial{params: tr.params, address: "127.0.0.1:" + freePort(t), ended: make(chan struct{})}
	if err := sustainUntil(t, w, gone, 1, func() bool { return false }); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v, want that nobody is there", err)
	}
}

func TestServiceWithoutDataIsNotSustained(t *testing.T) {
	for _, w := range []Sustainer{redis{}, docstore{}} {
		if err := w.Sustain(t.Context(), &trial{params: resolve(t, w)}, 1); err == nil || !strings.Contains(err.Error(), "data") {
			t.Errorf("%s: %v, want what it lacks", w.Name(), err)
		}
	}
}

// A service that answers nothing at all, and does not close either, is reported at the end.
func TestSilentServiceIsReported(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() // its backlog takes connections that nobody serves
	w := redis{}
	tr := &trial{params: resolve(t, w, "data", "1", "clients", "1"), address: listener.Addr().String(), ended: make(chan struct{})}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := w.Sustain(ctx, tr, 1); err == nil || !strings.Contains(err.Error(), "not one request") {
		t.Errorf("%v, want that nothing was answered", err)
	}
}

// A store whose pages hold something else is reported like any other.
func TestMapstoreTellsWrongRecords(t *testing.T) {
	w := mapstore{}
	for field, want := range map[string]bool{recordField(0, 0): false, recordField(1, 0): true} {
		var asked atomic.Int64
		address := respServer(t, func([]string) string {
			asked.Add(1)
			return fmt.Sprintf("$%d\r\n%s\r\n", len(field), field)
		})
		tr := &trial{params: resolve(t, w, "data", "1", "connections", "1"), address: address, ended: make(chan struct{})}
		plan := mapstorePlan{data: 1, reads: 100}
		target := plan.target(tr, 1)
		target.Next = newYCSB(1, 100, 1).resp() // one record, which the server has or has not
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			for tick := time.NewTicker(time.Millisecond); asked.Load() < 100 && ctx.Err() == nil; <-tick.C {
			}
			cancel()
		}()
		if err := sustain(ctx, tr, target, load.Options{Connections: 1}); (err != nil) != want {
			t.Errorf("%.20q for record 0: %v", field, err)
		}
	}
}

func TestHTTPDIsSustained(t *testing.T) {
	var answered, wrong atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := append([]byte(r.URL.Path+"\n"), make([]byte, image.HTTPDFileSize)...)[:image.HTTPDFileSize]
		if wrong.Load() > 0 {
			body[4] ^= 1
		}
		_, _ = w.Write(body)
		answered.Add(1)
	}))
	defer server.Close()
	w := httpd{}
	tr := &trial{params: resolve(t, w, "data", "64", "connections", "2"), address: server.Listener.Addr().String(), ended: make(chan struct{})}
	if err := sustainUntil(t, w, tr, 1, func() bool { return answered.Load() > 100 }); err != nil {
		t.Fatal(err)
	}
	wrong.Store(1)
	if err := sustainUntil(t, w, tr, 1, func() bool { return false }); err == nil || !strings.Contains(err.Error(), "was answered by 16384 bytes that begin with") {
		t.Errorf("%v, want that another file came", err)
	}
}

// A service from a file is loaded as the file says, for as long as is wanted.
func TestServiceOfAFileIsSustained(t *testing.T) {
	var answered, refused atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := answered.Add(1)
		if every := refused.Load(); every > 0 && n%every == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprint(w, "page")
	}))
	defer server.Close()
	w, err := fromYAML("shop.yaml", []byte(serviceFile)) // count: 50, errors: 0.5
	if err != nil {
		t.Fatal(err)
	}
	s, ok := w.(Sustainer)
	if !ok {
		t.Fatal("a service from a file cannot be sustained")
	}
	tr := &trial{params: resolve(t, w, "rate", "5000"), address: server.Listener.Addr().String(), ended: make(chan struct{})}
	enough := func() bool { return answered.Load() > 200 }
	if err := sustainUntil(t, s, tr, 1, enough); err != nil {
		t.Fatal(err)
	}
	for every, want := range map[int64]string{3: "", 1: "503"} {
		answered.Store(0)
		refused.Store(every)
		err := sustainUntil(t, s, tr, 1, enough)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("one of %d refused, and half may be: %v", every, err)
		}
	}
}

// A load program is run again and again; one that fails, or ends at once, is reported.
func TestLoadProgramIsRepeated(t *testing.T) {
	l := loading{args: []string{"/bin/load", "it"}}
	runs := 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tr := &trial{ended: make(chan struct{}), generate: func(ctx context.Context, args []string) ([]byte, error) {
		if runs++; runs == 3 {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}
		time.Sleep(leastLoad) // the load itself, which takes its time
		return nil, nil
	}}
	if err := l.sustain(ctx, tr, 1); err != nil || runs != 3 {
		t.Errorf("%v after %d runs, want none after 3", err, runs)
	}
	for want, generate := range map[string]func(context.Context, []string) ([]byte, error){
		"no such host":             func(context.Context, []string) ([]byte, error) { return nil, errors.New("no such host") },
		leastLoad.String() + " or": func(context.Context, []string) ([]byte, error) { return nil, nil },
	} {
		tr := &trial{ended: make(chan struct{}), generate: generate}
		if err := l.sustain(t.Context(), tr, 1); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "/bin/load") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Every service that we ship can be sustained, under parameters that it takes.
func TestShippedServicesAreSustainers(t *testing.T) {
	for _, w := range All() {
		program, err := w.Program(resolve(t, w))
		if err != nil {
			t.Fatal(err)
		}
		s, ok := w.(Sustainer)
		if !ok {
			if program.Service && len(program.Ports) > 0 {
				t.Errorf("%s is a service and cannot be sustained", w.Name())
			}
			continue
		}
		overrides, steady := s.Sustained()
		if program.Service && len(program.Ports) > 0 && !steady {
			t.Errorf("%s is a service without a steady state", w.Name())
		}
		if _, err := Resolve(w, overrides); err != nil {
			t.Errorf("%s does not take its own parameters: %v", w.Name(), err)
		}
	}
}

var _ load.Conn = strictConn{}
