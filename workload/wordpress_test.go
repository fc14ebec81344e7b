package workload

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"tare/image"
	"tare/load"
)

// frontPage is as much of a page as the site's has at the least.
var frontPage = "<html><title>" + wordpressTitle + "</title><h2>Hello world!</h2>" + strings.Repeat("<p>style</p>\n", leastFrontPage/12) + "</html>\n"

// fakeSite is new until its form was filled in; then page is what it answers.
type fakeSite struct {
	page      func(n int64) (status int, body string)
	installed atomic.Bool
	pages     atomic.Int64
	form      url.Values
}

func (f *fakeSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Host != image.WordPressHost:
		http.Error(w, "another site's name", http.StatusBadRequest)
	case r.Method == http.MethodPost && r.URL.Path == "/wp-admin/install.php" && r.URL.Query().Get("step") == "2":
		if err := r.ParseForm(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		f.form = r.PostForm
		f.installed.Store(true)
		fmt.Fprint(w, "<h1>Success!</h1>")
	case !f.installed.Load():
		http.Redirect(w, r, "/wp-admin/install.php", http.StatusFound)
	default:
		status, body := f.page(f.pages.Add(1))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// visited drives the workload against a site.
func visited(t *testing.T, site *fakeSite, pairs ...string) (*trial, error) {
	t.Helper()
	server := httptest.NewServer(site)
	t.Cleanup(server.Close)
	w := wordpress{}
	tr := &trial{params: resolve(t, w, append(slices.Clip(pairs), "timeout", "30s")...), address: server.Listener.Addr().String(), ended: make(chan struct{})}
	return tr, w.Drive(t.Context(), tr)
}

func TestWordPressIsInstalledAndAsked(t *testing.T) {
	for _, c := range []struct {
		pairs []string
		pages int64
	}{
		{[]string{"requests", "40", "warmup", "7"}, 1 + 7 + 40},
		{[]string{"requests", "20", "warmup", "0", "rate", "500", "arrival", "poisson"}, 1 + 20},
		{[]string{"requests", "30", "warmup", "0", "rate", "closed"}, 1 + 30},
	} {
		site := &fakeSite{page: func(int64) (int, string) { return http.StatusOK, frontPage }}
		tr, err := visited(t, site, c.pairs...)
		if err != nil {
			t.Fatalf("%q: %v", c.pairs, err)
		}
		checkRecorded(t, wordpress{}, tr)
		if got := site.pages.Load(); got != c.pages {
			t.Errorf("%q: %d pages, want %d", c.pairs, got, c.pages)
		}
		if site.form.Get("weblog_title") != wordpressTitle || site.form.Get("admin_password") != site.form.Get("admin_password2") {
			t.Errorf("its form was filled in by %v", site.form)
		}
		mean, h := tr.records["mean"][0], tr.histograms[latencies]
		if mean < float64(h.Min()) || mean > float64(h.Max()) {
			t.Errorf("%q: mean %v, latencies from %d to %d", c.pairs, mean, h.Min(), h.Max())
		}
	}
}

// One page that is not the site's makes the trial invalid, and says what was wrong.
func TestWordPressWrongPages(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"empty, as without a theme": {http.StatusOK, "", "0 bytes"},
		"short":                     {http.StatusOK, "<html><title>" + wordpressTitle + "</title>Hello world!</html>", "want 16384 or more"},
		"another site":              {http.StatusOK, strings.Replace(frontPage, wordpressTitle, "other", 1), "title"},
		"without the post":          {http.StatusOK, strings.Replace(frontPage, "Hello world!", "Hello there!", 1), "post"},
		"cut off":                   {http.StatusOK, strings.TrimSuffix(frontPage, "</html>\n"), "cut off"},
		"no database":               {http.StatusInternalServerError, frontPage, "status 500"},
	} {
		t.Run(name, func(t *testing.T) {
			site := &fakeSite{page: func(n int64) (int, string) {
				if n == 20 { // after it was found ready
					return c.status, c.body
				}
				return http.StatusOK, frontPage
			}}
			tr, err := visited(t, site, "requests", "30", "warmup", "0")
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "1 of 30") {
				t.Errorf("%v, want that 1 of 30 failed, by %q", err, c.want)
			}
			if len(tr.records) > 0 {
				t.Errorf("and yet %v", tr.records)
			}
		})
	}
}

// Who cannot be installed says so.
func TestWordPressThatIsNotInstalled(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			fmt.Fprint(w, "Please provide a valid email address.")
			return
		}
		http.Redirect(w, r, "/wp-admin/install.php", http.StatusFound)
	}))
	t.Cleanup(server.Close)
	tr := &trial{params: resolve(t, wordpress{}), address: server.Listener.Addr().String()}
	if err := (wordpress{}).Ready(t.Context(), tr); err == nil || !strings.Contains(err.Error(), "install WordPress") || !strings.Contains(err.Error(), "email") {
		t.Errorf("%v, want what the form said", err)
	}
}

func TestWordPressParameters(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"requests", "4097", "to 4096"}, {"requests", "0", "from 1"}, {"rate", "fast", atOnce}, {"rate", "0", closed},
		{"arrival", "at-once", "poisson"}, {"workers", "511", "to 510"}, {"warmup", "-1", "from 0"}, {"timeout", "1", "a duration"},
	} {
		_, err := Resolve(wordpress{}, map[string]string{c.name: c.value})
		refusedAs[*WrongValue](t, err, c.name+"="+c.value, c.want)
	}
	for _, c := range []struct {
		pairs []string
		want  Offered
		last  bool
	}{
		{nil, Offered{Arrival: load.AtOnce, Connections: 1000}, true},
		{[]string{"rate", "20", "arrival", "poisson", "requests", "60"}, Offered{20, load.Poisson, 60, 0}, false},
		{[]string{"rate", "closed"}, Offered{0, load.Uniform, 16, 0}, false},
	} {
		p := resolve(t, wordpress{}, c.pairs...)
		if got, err := (wordpress{}).Offered(p); err != nil || got != c.want {
			t.Errorf("%q: %+v, %v, want %+v", c.pairs, got, err, c.want)
		}
		last := slices.ContainsFunc(wordpress{}.Metrics(p), func(m Metric) bool { return m.Name == "last" })
		if last != c.last {
			t.Errorf("%q: the last of requests that come at once is reported: %v", c.pairs, last)
		}
	}
}

// The whole service, as bare metal has it: more requests at once than it has workers,
// and none is refused.
func TestRealWordPress(t *testing.T) {
	t.Parallel()
	img := realImage(t, "wordpress")
	port := freePort(t)
	w := wordpress{}
	tr := serveAlone(t, w, resolve(t, w, "workers", "8"), img, port)
	for _, pairs := range [][]string{
		{"requests", "120", "warmup", "20"},
		{"requests", "20", "warmup", "0", "rate", "20", "arrival", "poisson"}, // installed before
	} {
		tr.records, tr.histograms = nil, nil
		tr.params = resolve(t, w, append(pairs, "workers", "8")...)
		if err := w.Drive(t.Context(), tr); err != nil {
			t.Fatalf("%q: %v; it printed %s", pairs, err, lastWords(tr))
		}
		checkRecorded(t, w, &tr.trial)
	}
	tr.end()
	if _, stderr := tr.Output(); strings.Contains(string(stderr), "[ERROR]") || strings.Contains(string(stderr), "[php:error]") {
		t.Errorf("it complains: %s", stderr)
	}
}

// FuzzServersAnswers: whatever a server answers, a check ends, by an error where it is not what was asked for.
func FuzzServersAnswers(f *testing.F) {
	f.Add([]byte(`{"result":[{"Field0":"x"}]}`))
	f.Add([]byte(`{"result":[{"Count":1}]}`))
	f.Add([]byte("<title>" + wordpressTitle + "</title>Hello world!</html>"))
	f.Add([]byte("Success!"))
	f.Fuzz(func(t *testing.T, body []byte) {
		taken := 0
		for _, check := range []func([]byte) error{
			checkFrontPage, checkInstalled, checkCounted,
			func(b []byte) error { return checkSelected(b, 7) },
		} {
			if check(body) == nil {
				taken++
			}
		}
		if taken > 1 && !bytes.Contains(body, []byte("</html>")) {
			t.Errorf("%q answers several questions", body)
		}
	})
}
