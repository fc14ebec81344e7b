package workload

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

const tallied = `{"latencies_us": [[0, 1], [49, 35], [4000000000, 2]], "requests": 38, "errors": {"timeout": 2}, "first_error": "read timeout", "seconds": 0.5}`

func TestThriftClientIsRead(t *testing.T) {
	r, err := parseThriftClient([]byte(tallied + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 38 || r.Elapsed != 500*time.Millisecond || r.Rate != 76 || !maps.Equal(r.Errors, map[string]int64{"timeout": 2}) ||
		r.FirstError == nil || r.FirstError.Error() != "read timeout" {
		t.Errorf("%+v", r)
	}
	for _, h := range []interface {
		TotalCount() int64
		ValueAtQuantile(float64) int64
	}{r.Corrected, r.Uncorrected} {
		// Nothing is lost: what took more than an hour counts as an hour.
		if h.TotalCount() != 38 || h.ValueAtQuantile(50) != 49 || h.ValueAtQuantile(100) < time.Hour.Microseconds() {
			t.Errorf("%d latencies, median %d, largest %d", h.TotalCount(), h.ValueAtQuantile(50), h.ValueAtQuantile(100))
		}
	}
	if r.Lateness.TotalCount()+r.Queued.TotalCount() != 0 {
		t.Error("a closed loop is late")
	}
}

func TestThriftClientIsNotBelieved(t *testing.T) {
	for _, change := range [][2]string{
		{`"requests": 38`, `"requests": 39`}, {`"requests": 38`, `"requests": 37`}, {`"requests": 38`, `"requests": -1`},
		{`[49, 35]`, `[0, 35]`}, {`[49, 35]`, `[49, 0]`}, {`[49, 35]`, `[49, -35]`}, {`[0, 1]`, `[-1, 1]`},
		{`[49, 35]`, `[49, 9223372036854775807]`}, {`0.5`, `-1`}, {`0.5`, `1e300`}, {`{"timeout": 2}`, `{"timeout": 0}`},
		{`"seconds": 0.5}`, ``}, {`[49, 35]`, `["49", 35]`},
	} {
		text := strings.Replace(tallied, change[0], change[1], 1)
		if text == tallied {
			t.Fatalf("%q is not in it", change[0])
		}
		if r, err := parseThriftClient([]byte(text)); err == nil {
			t.Errorf("%s is taken for %+v", text, r)
		}
	}
}

func FuzzThriftClient(f *testing.F) {
	for _, seed := range []string{tallied, `{"latencies_us": [], "requests": 0, "errors": {}, "first_error": "", "seconds": 0}`, `{}`, `[]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, printed []byte) {
		r, err := parseThriftClient(printed)
		if err != nil {
			return
		}
		if r.Corrected.TotalCount() != r.Requests || r.Uncorrected.TotalCount() != r.Requests || r.Elapsed < 0 || r.Failed() < 0 {
			t.Errorf("%q: %+v", printed, r)
		}
		if (r.Failed() > 0) != (r.FirstError != nil) {
			t.Errorf("%q: %d errors, the first %v", printed, r.Failed(), r.FirstError)
		}
	})
}

// The client is asked for what the parameters say.
func TestThriftClientIsAsked(t *testing.T) {
	w := thrift{}
	p := resolve(t, w, "client", "python", "call", "send", "size", "77", "connection", "new", "warmup", "20ms", "duration", "1m", "count", "38")
	tr := &trial{params: p, address: "10.1.2.3:4", ended: make(chan struct{})}
	tr.generate = func(context.Context, []string) ([]byte, error) {
		return []byte(strings.ReplaceAll(tallied, `"timeout": 2`, "")), nil
	}
	if _, err := w.Load(t.Context(), tr, 1); err != nil {
		t.Fatal(err)
	}
	want := strings.Fields("--address 10.1.2.3:4 --call send --size 77 --connection new --warmup 0.02 --duration 60 --count 38")
	if len(tr.generated) != 1 || !slices.Equal(tr.generated[0][3:], want) {
		t.Errorf("asked by %q, want %q", tr.generated, want)
	}
	// What it could not do is reported with what it printed.
	tr.generate = func(context.Context, []string) ([]byte, error) { return []byte("no JSON"), nil }
	if _, err := w.Load(t.Context(), tr, 1); err == nil || !strings.Contains(err.Error(), "no JSON") {
		t.Errorf("%v, want what it printed", err)
	}
	tr.generate = func(context.Context, []string) ([]byte, error) { return nil, errors.New("it has crashed") }
	if _, err := w.Load(t.Context(), tr, 1); err == nil || !strings.Contains(err.Error(), "it has crashed") {
		t.Errorf("%v, want why it ended", err)
	}
	// Failed requests are in the result; the load's caller judges them.
	tr.generate = func(context.Context, []string) ([]byte, error) { return []byte(tallied), nil }
	if r, err := w.Load(t.Context(), tr, 1); err != nil || r.Failed() != 2 {
		t.Errorf("%+v, %v, want two that failed", r, err)
	}
}
