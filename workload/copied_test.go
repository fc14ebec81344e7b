package workload

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tare/load"
)

// hosting is a trial that runs load programs of the host.
type hosting struct {
	*trial
	print string
	runs  atomic.Int64
	args  []string
	takes time.Duration
}

func (h *hosting) GenerateOnHost(ctx context.Context, args []string) ([]byte, error) {
	h.runs.Add(1)
	h.args = args
	select {
	case <-time.After(h.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return []byte(h.print), nil
}

// served is a service with an address, which runs until the test's end.
func served(t *testing.T) (*trial, *atomic.Int64) {
	t.Helper()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	return &trial{address: strings.TrimPrefix(server.URL, "http://"), ended: make(chan struct{})}, &asked
}

func replayOf(t *testing.T, paths ...string) *load.Replay {
	t.Helper()
	var log strings.Builder
	for _, p := range paths {
		log.WriteString(`{"ts":1000000000.5,"method":"GET","path":"` + p + "\"}\n")
	}
	r, err := load.ReadAccessLog(strings.NewReader(log.String()), []string{http.MethodGet}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCopyIsSentAReplay(t *testing.T) {
	on, asked := served(t)
	w := FromContainer(Copied{Label: "copy", Port: 80, Replay: replayOf(t, "/a", "/b", "/c")})
	if err := w.Drive(t.Context(), on); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, on)
	if asked.Load() != 3 {
		t.Errorf("%d requests, want 3", asked.Load())
	}
	// Every tenth request fails: more than a trial may have.
	failing := FromContainer(Copied{Port: 80, Replay: replayOf(t, "/a", "/broken")})
	if err := failing.Drive(t.Context(), on); err == nil || !strings.Contains(err.Error(), "1 of 2 requests failed") {
		t.Errorf("half of the requests failed: %v", err)
	}
}

func TestCopyIsLoadedByAClient(t *testing.T) {
	on, _ := served(t)
	host := &hosting{trial: on, print: "Running 1s test\nRequests/sec:   1234.50\nTransfer/sec: 1MB\n"}
	w := FromContainer(Copied{Port: 80, Client: []string{"/usr/bin/wrk", "-d1", "http://${address}/", "${host}:${port}"}})
	if err := w.Drive(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, on)
	if got := on.records["throughput"]; !slices.Equal(got, []float64{1234.5}) {
		t.Errorf("throughput %v", got)
	}
	if want := []string{"/usr/bin/wrk", "-d1", "http://" + on.address + "/", on.address}; !slices.Equal(host.args, want) {
		t.Errorf("client %q, want %q", host.args, want)
	}
	other := &hosting{trial: &trial{address: on.address, ended: on.ended}}
	w = FromContainer(Copied{Port: 80, Client: []string{"curl", "${address}"}})
	if err := w.Drive(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, other.trial)
}

// A copy that is observed is loaded for as long as that takes, and no longer.
func TestCopyIsObservedWhileItIsLoaded(t *testing.T) {
	on, _ := served(t)
	host := &hosting{trial: on, takes: leastLoad}
	observed := errors.New("not yet")
	w := FromContainer(Copied{Port: 80, For: time.Minute, Client: []string{"curl", "${address}"}, Beside: func(context.Context) error {
		for host.runs.Load() < 2 {
			time.Sleep(time.Millisecond)
		}
		observed = nil
		return nil
	}})
	if err := w.Drive(t.Context(), host); err != nil || observed != nil {
		t.Fatal(err, observed)
	}
	failing := errors.New("cannot be observed")
	w = FromContainer(Copied{Port: 80, For: time.Minute, Beside: func(context.Context) error { return failing }})
	if err := w.Drive(t.Context(), on); !errors.Is(err, failing) {
		t.Errorf("%v, want %v", err, failing)
	}
	// A client that ends at once loads nothing.
	quick := &hosting{trial: on}
	w = FromContainer(Copied{Port: 80, For: time.Minute, Client: []string{"curl", "${address}"}, Beside: func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}})
	if err := w.Drive(t.Context(), quick); err == nil || !strings.Contains(err.Error(), "client curl ended after") {
		t.Errorf("a client that ends at once: %v", err)
	}
}

func TestClientsAreChecked(t *testing.T) {
	for _, c := range []struct {
		words []string
		wants string
	}{
		{[]string{"wrk", "http://${address}/"}, ""},
		{[]string{"nc", "${host}", "${port}"}, ""},
		{[]string{"wrk", "http://127.0.0.1:80/"}, "client wrk: none of its words has ${address}"},
		{[]string{"wrk", "${adress}"}, "client: ${adress}: want ${address}, ${host} or ${port}"},
	} {
		err := CheckClient(c.words)
		if (err == nil) != (c.wants == "") || err != nil && !strings.HasPrefix(err.Error(), c.wants) {
			t.Errorf("%q: %v, want %q", c.words, err, c.wants)
		}
	}
}

func TestCopyWithoutAPortRunsToItsEnd(t *testing.T) {
	tr := &trial{exit: Exit{Elapsed: time.Second, CPU: time.Millisecond}}
	w := FromContainer(Copied{Label: "copy"})
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, tr)
}
