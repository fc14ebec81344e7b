package workload

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/load"
)

// Real services are loaded over the trial's own way of connecting, readiness
// included, as often as one likes.
func TestRealServicesAreLoaded(t *testing.T) {
	for _, c := range []struct {
		w     Loader
		pairs []string
	}{
		{httpd{}, []string{"data", "1"}},
		{httpd{}, []string{"data", "1", "connection", "new"}},
		{mapstore{}, []string{"data", "1"}},
	} {
		t.Run(strings.Join(append([]string{c.w.Name()}, c.pairs...), " "), func(t *testing.T) {
			img := realImage(t, c.w.Source().Recipe)
			p := resolve(t, c.w, append(c.pairs, "warmup", "0s", "count", "200", "connections", "2")...)
			tr := &dialled{realTrial: serveAlone(t, c.w, p, img, freePort(t))}
			if err := c.w.Ready(t.Context(), tr); err != nil {
				t.Fatalf("%v; it printed %s", err, lastWords(tr))
			}
			dials := tr.dials.Load()
			if dials == 0 {
				t.Error("readiness was asked past the trial's own way of connecting")
			}
			for range 2 {
				r, err := c.w.Load(t.Context(), tr, 3)
				if err != nil || r.Requests != 200 || r.Failed() != 0 {
					t.Errorf("%+v, %v, want 200 answers", r, err)
				}
			}
			want := int64(2 * 2)
			if slices.Contains(c.pairs, "new") {
				want = 2 * 200
			}
			if got := tr.dials.Load() - dials; got != want {
				t.Errorf("%d connections by the trial's own way, want %d", got, want)
			}
			tr.end()
			_, err := c.w.Load(t.Context(), tr, 3)
			refusedAs[*Ended](t, err, "ended by itself")
		})
	}
}

const loaderFile = `
name: answers
image: {recipe: busybox}
kind: service
command: [/bin/true]
ports: [80]
params:
  - {name: rate, default: closed}
load:
  http: {rate: "${rate}", arrival: poisson, connections: 3, count: 50, assert: {errors: 1}}
`

// A service from a file is loaded as the file says.
func TestLoaderFromYAML(t *testing.T) {
	w, ok := parse(t, loaderFile).(Loader)
	if !ok {
		t.Fatal("a service that tare loads is no Loader")
	}
	p := resolve(t, w, "rate", "1000")
	if got, err := w.Offered(p); err != nil || got != (Offered{1000, load.Poisson, 3, 0}) {
		t.Errorf("it offers %+v, %v", got, err)
	}
	status := http.StatusOK
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	never := make(chan struct{})
	tr := &trial{params: p, address: address, ended: never}
	r, err := w.Load(t.Context(), tr, 1)
	if err != nil || r.Requests != 50 {
		t.Errorf("%+v, %v, want 50 answers", r, err)
	}
	// A wrong answer is in the result; nothing but wrong answers are no load.
	status = http.StatusTeapot
	r, err = w.Load(t.Context(), tr, 1)
	if err == nil || !strings.Contains(err.Error(), "50 of 50 requests failed (50 status 418)") || r.Errors["status 418"] != 50 {
		t.Errorf("%+v, %v, want 50 wrong answers", r, err)
	}
}

// The trial's own way of connecting is also a file's.
func TestLoaderFromYAMLConnectsByItsTrial(t *testing.T) {
	w := parse(t, loaderFile).(Loader)
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") })
	tr := &elsewhere{trial: trial{params: resolve(t, w), address: "nowhere.invalid:80", ended: make(chan struct{})}, there: address}
	if err := w.Ready(t.Context(), tr); err != nil {
		t.Error(err)
	}
	if r, err := w.Load(t.Context(), tr, 1); err != nil || r.Requests != 50 {
		t.Errorf("%+v, %v, want 50 answers", r, err)
	}
}

// elsewhere is a trial whose service is reached by its Dial alone.
type elsewhere struct {
	trial
	there string
}

func (e *elsewhere) Dial(ctx context.Context, _ string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", e.there)
}

// A service that a load program loads cannot be loaded by tare.
func TestLoadProgramIsNoLoader(t *testing.T) {
	w := parse(t, strings.Replace(loaderFile, `http: {rate: "${rate}", arrival: poisson, connections: 3, count: 50, assert: {errors: 1}}`, `command: {args: [/bin/true]}`, 1)+
		"metrics:\n  - {name: m, unit: s, better: lower, from: {pattern: '(\\d+)'}}\n")
	if _, ok := w.(Loader); ok {
		t.Error("a load program's service is a Loader")
	}
	if _, ok := w.(Sustainer); !ok {
		t.Error("it cannot be sustained any more")
	}
}

// The load of httpd has so many requests at most.
func TestCountEndsALoad(t *testing.T) {
	plan, err := planOf[httpdPlan](resolve(t, httpd{}, "count", "7"))
	o := plan.options
	if err != nil || o.Count != 7 || o.Duration != 2*time.Second || o.Arrival != load.Uniform || o.Connections != 16 {
		t.Errorf("%+v, %v", o, err)
	}
	_, err = Resolve(httpd{}, map[string]string{"count": strconv.Itoa(2e9)})
	refusedAs[*WrongValue](t, err, "count=2000000000", "to 1000000000")
}
