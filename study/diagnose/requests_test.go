package diagnose

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tare/study/kit"
)

// histogram is a page of one histogram with a number of requests of 1 to 10 ms, and 100 times
// fewer of 100 ms to 1 s.
func histogram(quick int) string {
	return fmt.Sprintf(`# TYPE go_gc_duration_seconds summary
go_gc_duration_seconds_sum 1
go_gc_duration_seconds_count 9
# TYPE http_duration_seconds histogram
http_duration_seconds_bucket{code="200",le="0.001"} 0
http_duration_seconds_bucket{code="200",le="0.01"} %[1]d
http_duration_seconds_bucket{code="200",le="1"} %[1]d
http_duration_seconds_bucket{code="200",le="+Inf"} %[1]d
http_duration_seconds_sum{code="200"} %[3]g
http_duration_seconds_count{code="200"} %[1]d
http_duration_seconds_bucket{code="500",le="0.01"} 0
http_duration_seconds_bucket{code="500",le="0.1"} 0
http_duration_seconds_bucket{code="500",le="1"} %[2]d
http_duration_seconds_bucket{code="500",le="+Inf"} %[2]d
http_duration_seconds_sum{code="500"} %[4]g
http_duration_seconds_count{code="500"} %[2]d
`, quick, quick/50, 0.005*float64(quick), 0.5*float64(quick/50))
}

// service answers each time with the next page.
func service(t *testing.T, pages ...string) string {
	t.Helper()
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(pages[min(n, len(pages)-1)]))
		n++
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestRequestsOfAHistogram(t *testing.T) {
	c, err := CountRequests(t.Context(), service(t, histogram(1000), histogram(6000)))
	if err != nil {
		t.Fatal(err)
	}
	c.at = c.at.Add(-10 * time.Second)
	r, err := c.Stop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	near(t, "rate", r.Rate, 510)
	near(t, "mean", r.Mean.Seconds(), (5000*0.005+100*0.5)/5100)
	// Of 5100, the 99th percentile is the 49th of 100 in the bucket up to 1 s, which begins at
	// 0.01 s where both series have bounds.
	near(t, "p99", r.P99.Seconds(), 0.01+0.99*0.49)
	if r.IsAbove || r.Metric != "http_duration_seconds" {
		t.Errorf("%+v", r)
	}
	result := &Result{Findings: []Finding{{Cost: Cost{Rate: 0.255}}}}
	result.PerRequest(r)
	near(t, "cost per request", result.Findings[0].Cost.PerRequest.Seconds(), 0.0005)
}

func TestRequestsOfASummary(t *testing.T) {
	page := func(n int) string {
		return fmt.Sprintf("# TYPE rpc_ms summary\nrpc_ms{quantile=\"0.99\"} 40\nrpc_ms_sum %d\nrpc_ms_count %d\n", 5*n, n)
	}
	c, err := CountRequests(t.Context(), service(t, page(0), page(100))+"/metrics#rpc_ms")
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Stop(t.Context())
	if err != nil || r.Mean != 5*time.Millisecond || r.P99 != 40*time.Millisecond {
		t.Errorf("%+v, %v: want 5 ms and a p99 of 40 ms", r, err)
	}
}

func TestRequestsBeyondTheLastBucket(t *testing.T) {
	below := map[float64]float64{0.1: 50, math.Inf(1): 100}
	r, ok := latencies{count: 100, sum: 10, below: below}.since(latencies{}, time.Second, time.Second)
	if !ok || r.P99 != 100*time.Millisecond || !r.IsAbove {
		t.Errorf("%+v: want more than 0.1 s", r)
	}
}

func TestPagesWithoutRequests(t *testing.T) {
	histograms := histogram(10)
	for page, want := range map[string]string{
		"<html>":   "has no metrics in Prometheus' text format",
		"up 1\n":   "has no latencies: want a histogram or summary",
		histograms: "",
		histograms + "# TYPE b_seconds summary\nb_seconds_count 1\n": "has 2 latencies (b_seconds, http_duration_seconds): add #",
		strings.Repeat("# filled up to the bound\n", mostMetrics/20): "answers with more than 4 MiB",
	} {
		_, err := CountRequests(t.Context(), service(t, page))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%.20s: %v, want %q", page, err, want)
		}
	}
	for address, want := range map[string]string{
		"metrics":                          "is no URL of metrics",
		"ftp://host/":                      "is no URL of metrics",
		service(t, histograms) + "#absent": "has no latencies absent: it has http_duration_seconds",
	} {
		var usage *kit.Usage
		if _, err := CountRequests(t.Context(), address); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
	for status, handler := range map[string]http.Handler{
		"404": http.NotFoundHandler(),
		"302": http.RedirectHandler(service(t, histograms), http.StatusFound),
	} {
		s := httptest.NewServer(handler)
		defer s.Close()
		if _, err := CountRequests(t.Context(), s.URL); err == nil || !strings.Contains(err.Error(), "HTTP status "+status) {
			t.Errorf("%s: %v", status, err)
		}
	}
}

func TestAServiceThatBeganAnew(t *testing.T) {
	c, err := CountRequests(t.Context(), service(t, histogram(1000), histogram(10)))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "began anew") {
		t.Errorf("%+v, %v", r, err)
	}
}

func FuzzRequests(f *testing.F) {
	f.Add([]byte(histogram(10)), []byte(histogram(1000)))
	f.Add([]byte("# TYPE a_ms summary\na_ms_sum NaN\na_ms_count 1\n"), []byte("# TYPE a_ms summary\na_ms_sum 1\na_ms_count -1\n"))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		first, err := parseMetrics(before)
		if err != nil {
			return
		}
		name, unit, err := chosen(first, "")
		if err != nil {
			return
		}
		second, err := parseMetrics(after)
		if err != nil {
			return
		}
		r, ok := latenciesOf(second[name]).since(latenciesOf(first[name]), time.Second, unit)
		if ok && (!(r.Rate > 0) || math.IsInf(r.Rate, 0) || r.Mean < 0 || r.P99 < 0) {
			t.Errorf("%q and %q are read as %+v", before, after, r)
		}
	})
}

// Messages go to logs, which more people read than may know the service's password.
func TestPasswordsAreNotShown(t *testing.T) {
	page, status := "none", http.StatusOK
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "secret" {
			t.Errorf("the service was sent the password %q", password)
		}
		w.WriteHeader(status)
		fmt.Fprintln(w, page)
	}))
	address := strings.Replace(service.URL, "//", "//user:secret@", 1)
	check := func() {
		t.Helper()
		if _, err := CountRequests(t.Context(), address); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
	check()
	page = "up 1"
	check()
	status = http.StatusTeapot
	check()
	service.Close()
	check()
}
