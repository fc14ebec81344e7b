package load

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// All requests are under way together: none is answered before the last has come.
func TestAtOnceSendsAllTogether(t *testing.T) {
	const requests = 50
	var arrived sync.WaitGroup
	arrived.Add(requests)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived.Done()
		arrived.Wait()
	}))
	t.Cleanup(server.Close)
	var intended []time.Duration
	r, err := Run(t.Context(), HTTP{Address: server.Listener.Addr().String(), NewConnections: true}, Options{
		Arrival: AtOnce, Connections: requests, Count: requests, Timeout: time.Minute,
		Each: func(a Answered) { intended = append(intended, a.Intended) },
	})
	if err != nil || r.Requests != requests || r.Failed() != 0 {
		t.Fatalf("%d answered, %v, %v", r.Requests, r.Errors, err)
	}
	for _, at := range intended {
		if at != 0 {
			t.Errorf("a request was due after %v", at)
		}
	}
	// What they were sent late is the generator's, which had a connection for each.
	if r.Lateness.TotalCount() != requests || r.Queued.TotalCount() != 0 || r.BacklogMax > requests {
		t.Errorf("lateness of %d, queued %d, backlog %d", r.Lateness.TotalCount(), r.Queued.TotalCount(), r.BacklogMax)
	}
	if r.Corrected.Min() < r.Uncorrected.Min() || r.Elapsed <= 0 || r.Rate <= 0 {
		t.Errorf("corrected %d, uncorrected %d, %v, %v/s", r.Corrected.Min(), r.Uncorrected.Min(), r.Elapsed, r.Rate)
	}
}

// With fewer connections than requests the rest waits for them, and that is not the
// generator's fault.
func TestAtOnceOverFewerConnections(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	r, err := Run(t.Context(), HTTP{Address: server.Listener.Addr().String()}, Options{Arrival: AtOnce, Connections: 2, Count: 10, Timeout: time.Minute})
	if err != nil || r.Requests != 10 || r.Lateness.TotalCount() > 2 || r.Lateness.TotalCount()+r.Queued.TotalCount() != 10 {
		t.Errorf("%d answered, lateness of %d, queued %d: %v", r.Requests, r.Lateness.TotalCount(), r.Queued.TotalCount(), err)
	}
}

func TestAtOnceHasACountAlone(t *testing.T) {
	for _, o := range []Options{
		{Arrival: AtOnce},
		{Arrival: AtOnce, Count: 1, Rate: 5},
		{Arrival: AtOnce, Count: 1, Warmup: time.Second},
		{Arrival: AtOnce, Count: 1, Duration: time.Second},
	} {
		_, err := Run(context.Background(), HTTP{Address: "127.0.0.1:1"}, o)
		if err == nil || !strings.Contains(err.Error(), "load: ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
