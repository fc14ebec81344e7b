package workload

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
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
	plan, err := planOf[docstorePlan](resolve(t, docstore{}, "documents", "10"))
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

// The command of the user's own image is the image's to name.
func TestDocstoreOfAnotherImage(t *testing.T) {
	program, err := docstore{}.Program(resolve(t, docstore{}, "server", "image", "data", "1"))
	if err != nil || len(program.Args) != 0 || !program.Service || program.MemoryNeed != 0 || !slices.Equal(program.Ports, []int{docstorePort}) {
		t.Errorf("%+v, %v", program, err)
	}
}

func TestMultimodelChecksWhatItFinds(t *testing.T) {
	plan, err := planOf[multimodelPlan](resolve(t, multimodel{}))
	if err != nil {
		t.Fatal(err)
	}
	next := plan.next(1)
	kinds := map[string]int{}
	for range 200 {
		request := next()
		kind, _, _ := strings.Cut(strings.TrimPrefix(request.Path, "/api/v1/"), "/")
		kinds[kind]++
		var asked struct{ Params struct{ ID, Field0 string } }
		if err := json.Unmarshal(request.Body, &asked); err != nil || len(asked.Params.ID) != len(recordKey(0)) || (asked.Params.Field0 == "") != (kind == "query") {
			t.Fatalf("%s: %v", request.Body, err)
		}
		right := `{"result":[{"count":1}]}`
		if kind == "query" {
			n, err := strconv.ParseInt(strings.TrimPrefix(asked.Params.ID, "user"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			right = `{"result":[{"field0":"` + recordField(n, 7) + `"}]}`
		}
		if err := request.Check([]byte(right)); err != nil {
			t.Error(err)
		}
		for _, wrong := range []string{"", "{}", `{"result":[]}`, `{"result":[{"count":0}]}`, `{"result":[{"field0":"` + recordField(99_999_998, 0) + `"}]}`} {
			if request.Check([]byte(wrong)) == nil {
				t.Errorf("%q passes for %s", wrong, request.Body)
			}
		}
	}
	if kinds["query"] < 60 || kinds["command"] < 60 {
		t.Errorf("requests %v, want halves", kinds)
	}
}

// What mapstore says of itself must be what was asked for.
func TestMapstoreReadyWantsItsStore(t *testing.T) {
	for info, want := range map[string]string{
		`{"records":671088,"writable":false,"generated_seconds":0}`: "",
		`{"records":100,"writable":false,"generated_seconds":0}`:    "asked for were 671088",
		`{"records":671088,"writable":true,"generated_seconds":0}`:  "for writing: true",
		`# Server`: "invalid character",
	} {
		address := respServer(t, func(words []string) string {
			if words[0] == "INFO" {
				return fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
			}
			return "+PONG\r\n"
		})
		err := mapstore{}.Ready(t.Context(), &trial{params: resolve(t, mapstore{}), address: address})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", info, err, want)
		}
	}
}
