package workload

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/load"
)

// trial is a Trial whose program is played by the test.
type trial struct {
	params         Params
	address        string
	exit           Exit
	ended          chan struct{} // closed where the program has ended; nil is at once
	stdout, stderr string
	generate       func(ctx context.Context, args []string) ([]byte, error)

	records    map[string][]float64
	histograms map[string]*hdrhistogram.Histogram
	generated  [][]string
}

func (t *trial) Params() Params     { return t.params }
func (t *trial) Address(int) string { return t.address }
func (t *trial) Wait(ctx context.Context) (Exit, error) {
	if t.ended == nil {
		return t.exit, nil
	}
	select {
	case <-t.ended:
		return t.exit, nil
	case <-ctx.Done():
		return Exit{}, ctx.Err()
	}
}
func (t *trial) Output() (stdout, stderr []byte) { return []byte(t.stdout), []byte(t.stderr) }
func (t *trial) Generate(ctx context.Context, args []string) ([]byte, error) {
	t.generated = append(t.generated, args)
	if t.generate == nil {
		return nil, errors.New("no load program here")
	}
	return t.generate(ctx, args)
}
func (t *trial) Record(metric string, value float64) {
	if t.records == nil {
		t.records = map[string][]float64{}
	}
	t.records[metric] = append(t.records[metric], value)
}
func (t *trial) RecordHistogram(name string, h *hdrhistogram.Histogram) {
	if t.histograms == nil {
		t.histograms = map[string]*hdrhistogram.Histogram{}
	}
	t.histograms[name] = h
}

// checkRecorded fails unless a trial yielded exactly what the workload said.
func checkRecorded(t *testing.T, w Workload, tr *trial) {
	t.Helper()
	said := map[string]bool{}
	for _, m := range w.Metrics(tr.params) {
		said[m.Name] = true
		switch {
		case m.Histogram != "":
			if h := tr.histograms[m.Histogram]; h == nil || h.TotalCount() == 0 {
				t.Errorf("metric %s has no histogram %s", m.Name, m.Histogram)
			}
			if len(tr.records[m.Name]) != 0 {
				t.Errorf("quantile metric %s has values of its own", m.Name)
			}
		case len(tr.records[m.Name]) == 0:
			t.Errorf("metric %s was not recorded", m.Name)
		}
	}
	for name := range tr.records {
		if !said[name] {
			t.Errorf("%s was recorded, but is no metric", name)
		}
	}
}

// resolve is Resolve with pairs of name and value.
func resolve(t *testing.T, w Workload, pairs ...string) Params {
	t.Helper()
	overrides := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		overrides[pairs[i]] = pairs[i+1]
	}
	p, err := Resolve(w, overrides)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// respServer answers commands on loopback until the test ends. answer gives
// the reply in the protocol's form.
func respServer(t *testing.T, answer func(command []string) string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for r := bufio.NewReader(conn); ; {
					command, err := load.ReadReply(r)
					if err != nil {
						return
					}
					var words []string
					for _, e := range command.Elems {
						words = append(words, string(e.Text))
					}
					if _, err := fmt.Fprint(conn, answer(words)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// refusedAs fails unless err is a T that says all of want.
func refusedAs[T error](t *testing.T, err error, want ...string) {
	t.Helper()
	var as T
	if !errors.As(err, &as) {
		t.Errorf("error %v (%T), want a %T", err, err, as)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}
