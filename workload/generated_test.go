package workload

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"tare/image"
)

// A server that answers with a short body is not measured.
func TestHTTPDBodiesAreHeldToTheirSize(t *testing.T) {
	size := image.HTTPDFileSize
	var files atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			_, _ = w.Write([]byte(image.HTTPDIndex))
			return
		}
		files.Add(1)
		_, _ = w.Write(append([]byte(r.URL.Path+"\n"), make([]byte, size)...)[:size])
	}))
	defer server.Close()
	w := httpd{}
	drive := func() (*trial, error) {
		tr := &trial{params: resolve(t, w, "duration", "100ms", "warmup", "10ms"), address: server.Listener.Addr().String(), ended: make(chan struct{})}
		return tr, w.Drive(t.Context(), tr)
	}
	tr, err := drive()
	if err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, tr)
	if n := tr.histograms[latencies].TotalCount(); n == 0 || n > files.Load() {
		t.Errorf("%d latencies of %d requests", n, files.Load())
	}
	size--
	if _, err := drive(); err == nil || !strings.Contains(err.Error(), "want 16384") {
		t.Errorf("%v, want that bodies are too short", err)
	}
}

// The page must be the whole page.
func TestHTTPDReadyWantsItsPage(t *testing.T) {
	page := []string{"", "It works!", image.HTTPDIndex + "more", image.HTTPDIndex}
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(page[asked.Add(1)-1]))
	}))
	defer server.Close()
	if err := (httpd{}).Ready(t.Context(), &trial{params: resolve(t, httpd{}), address: server.Listener.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	if n := int(asked.Load()); n != len(page) {
		t.Errorf("ready after %d questions, want %d", n, len(page))
	}
}

func TestDocstoreChecksWhatItFinds(t *testing.T) {
	plan, err := planDocstore(resolve(t, docstore{}, "documents", "10"))
	if err != nil {
		t.Fatal(err)
	}
	next := plan.target(&trial{}, 1).Next
	kinds := map[string]int{}
	for range 200 {
		command, check := next()
		kinds[command[0].Name]++
		if check(nil) == nil {
			t.Errorf("a reply without anything passes for %s", command[0].Name)
		}
	}
	if kinds["find"] < 60 || kinds["update"] < 60 {
		t.Errorf("operations %v, want halves", kinds)
	}
}
