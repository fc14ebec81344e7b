package load

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var reads = []string{http.MethodGet, http.MethodHead}

func readLog(t *testing.T, text string, methods []string, span time.Duration) *Replay {
	t.Helper()
	r, err := ReadAccessLog(strings.NewReader(text), methods, span)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func paths(r *Replay) (all []string) {
	for _, one := range r.requests {
		all = append(all, one.Method+" "+one.Path)
	}
	return all
}

func TestCombinedLogIsReplayedAtItsOwnTimes(t *testing.T) {
	r := readLog(t, `192.0.2.1 - - [10/Oct/2026:13:55:36 +0200] "GET /a?b=c HTTP/1.1" 200 5 "-" "curl"
192.0.2.1 - frank [10/Oct/2026:13:55:36 +0200] "HEAD /b HTTP/1.1" 404 0
192.0.2.1 - - [10/Oct/2026:13:55:38 +0200] "GET /d HTTP/1.1" 200 5
192.0.2.1 - - [10/Oct/2026:13:55:37 +0200] "GET /c HTTP/1.1" 200 5
192.0.2.1 - - [10/Oct/2026:13:55:37 +0200] "POST /c HTTP/1.1" 200 5
192.0.2.1 - - [10/Oct/2026:13:55:37 +0200] "GET http://elsewhere/ HTTP/1.1" 200 5
192.0.2.1 - - [10/Oct/2026:13:55:37 +0200] "GET //elsewhere/ HTTP/1.1" 200 5
192.0.2.1 - - [10/Oct/2026:13:55:37 +0200] "\x16\x03" 400 0
what is this?
192.0.2.1 - - [10/Oct/2026:13:56:30 +0200] "GET /late HTTP/1.1" 200 5
`, reads, 10*time.Second)
	if got, want := paths(r), []string{"GET /a?b=c", "HEAD /b", "GET /c", "GET /d"}; !slices.Equal(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
	// Of one second two requests: half a second apart.
	if want := []time.Duration{0, 500 * time.Millisecond, time.Second, 2 * time.Second}; !slices.Equal(r.Moments, want) {
		t.Errorf("moments %v, want %v", r.Moments, want)
	}
	if !r.Spread || !r.Cut {
		t.Errorf("spread %v, cut %v", r.Spread, r.Cut)
	}
	want := "2 lines left out: not combined format or JSON with time, method and path; " +
		"2 lines left out: target is not a path; 1 line left out: method POST; " +
		"1 line left out: outside of the time that is replayed"
	if got := r.LeftOut(); got != want {
		t.Errorf("left out: %s\nwant:     %s", got, want)
	}
}

func TestJSONLogs(t *testing.T) {
	for _, line := range []string{
		`{"time":"2026-10-10T13:55:36.250Z","method":"GET","uri":"/x"}`,
		`{"@timestamp":"2026-10-10T13:55:36.250+0000","request_method":"GET","request_uri":"/x"}`,
		`{"ts":1791640536.25,"request":{"method":"GET","uri":"/x","host":"h"},"status":200}`,
		`{"timestamp":1791640536250,"request":"GET /x HTTP/1.1"}`,
		`{"StartUTC":"2026-10-10T13:55:36.25Z","RequestMethod":"GET","RequestPath":"/x"}`,
	} {
		r := readLog(t, line, reads, time.Second)
		if got := paths(r); !slices.Equal(got, []string{"GET /x"}) || r.Spread {
			t.Errorf("%s: %q, spread %v", line, got, r.Spread)
		}
	}
	r := readLog(t, `{"ts":1791640536.25,"method":"GET","path":"/a"}
{"ts":1791640536.75,"method":"GET","path":"/b"}`, reads, time.Second)
	if want := []time.Duration{0, 500 * time.Millisecond}; !slices.Equal(r.Moments, want) {
		t.Errorf("moments %v, want %v", r.Moments, want)
	}
}

func TestLogsWithoutRequestsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                "no request can be replayed: it has no lines",
		"\n\n":            "no request can be replayed: it has no lines",
		"\x00\xff\n{]\n":  "no request can be replayed: 2 lines left out: " + leftLine,
		`{"method":"GET"`: "no request can be replayed: 1 line left out: " + leftLine,
		`- - - [10/Oct/2026:13:55:36 +0200] "BREW /pot HTTP/1.1" 418 0`: "no request can be replayed: 1 line left out: method unknown",
		strings.Repeat("x", 3*mostLine):                                 "no request can be replayed: 1 line left out: " + leftLong,
	} {
		if _, err := ReadAccessLog(strings.NewReader(text), reads, time.Second); err == nil || err.Error() != want {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

func TestOnlySoManyRequestsAreReplayed(t *testing.T) {
	var log strings.Builder
	for range MostReplayed + 10 {
		log.WriteString(`- - - [10/Oct/2026:13:55:36 +0200] "GET / HTTP/1.1" 200 0` + "\n")
	}
	r := readLog(t, log.String(), reads, time.Hour)
	if len(r.Moments) != MostReplayed || !r.Cut {
		t.Errorf("%d requests, cut %v", len(r.Moments), r.Cut)
	}
}

// Each request is sent once, none before its moment, and an answer below 500 is right.
func TestReplay(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Method+" "+r.URL.Path]++
		if r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusBadGateway)
		} else if r.URL.Path != "/0" {
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	var log strings.Builder
	for i := range 40 {
		fmt.Fprintf(&log, `{"ts":%.3f,"method":"GET","path":"/%d"}`+"\n", 1e9+float64(i)/200, i)
	}
	fmt.Fprintf(&log, `{"ts":%.3f,"method":"HEAD","path":"/broken"}`+"\n", 1e9+0.2)
	r := readLog(t, log.String(), reads, time.Minute)
	result, err := Run(t.Context(), r.Target(strings.TrimPrefix(server.URL, "http://")), Options{
		Moments: r.Moments, Each: func(a Answered) {
			if a.Sent < a.Intended {
				t.Errorf("sent at %v, due at %v", a.Sent, a.Intended)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if result.Requests != 40 || result.Failed() != 1 || result.Elapsed < r.Moments[40] {
		t.Errorf("%d requests, errors %v, in %v", result.Requests, result.Errors, result.Elapsed)
	}
	if len(seen) != 41 || seen["GET /7"] != 1 || seen["HEAD /broken"] != 1 {
		t.Errorf("%d different requests: %v", len(seen), seen)
	}
}

// A service that stands still for a while: the requests that were due meanwhile have waited,
// and their latencies say so.
func TestReplayedLatencyCountsFromTheIntendedMoment(t *testing.T) {
	var first sync.Once
	stall := 300 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		first.Do(func() { time.Sleep(stall) })
	}))
	defer server.Close()
	var log strings.Builder
	for i := range 20 {
		fmt.Fprintf(&log, `{"ts":%.3f,"method":"GET","path":"/"}`+"\n", 1e9+float64(i)/200)
	}
	r := readLog(t, log.String(), reads, time.Minute)
	result, err := Run(t.Context(), r.Target(strings.TrimPrefix(server.URL, "http://")), Options{Moments: r.Moments, Connections: 1})
	if err != nil {
		t.Fatal(err)
	}
	least := (stall - r.Moments[19]).Microseconds()
	if got := result.Corrected.Min(); got < least*9/10 {
		t.Errorf("least latency %d us: of all requests, none can be below %d us", got, least)
	}
}

func FuzzAccessLog(f *testing.F) {
	f.Add("1.2.3.4 - - [10/Oct/2026:13:55:36 +0200] \"GET /a HTTP/1.1\" 200 5\n{\"ts\":1e9,\"method\":\"GET\",\"path\":\"/\"}")
	f.Add("{\"ts\":-1,\"request\":{\"method\":\"GET\"}}\n[]\"\"")
	f.Add("\x00[\"GET\xff / \"]")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ReadAccessLog(strings.NewReader(text), reads, time.Minute)
		if err != nil {
			return
		}
		if len(r.Moments) == 0 || len(r.Moments) != len(r.requests) || !slices.IsSorted(r.Moments) || r.Moments[0] != 0 {
			t.Fatalf("%d moments, %d requests", len(r.Moments), len(r.requests))
		}
		for i, one := range r.requests {
			if r.Moments[i] >= time.Minute || !slices.Contains(reads, one.Method) || !isPath(one.Path) {
				t.Errorf("%v %+v", r.Moments[i], one)
			}
			if _, err := (&httpConn{}).build(one); err != nil {
				t.Error(err)
			}
		}
	})
}
