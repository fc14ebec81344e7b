package annex

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tare/annex"
	"tare/annex/simulate"
	"tare/annex/trace"
	"tare/cli/command"
)

// recorded writes a trace of a container that wakes each second for as long as is said.
func recorded(t *testing.T, long time.Duration) (path string) {
	t.Helper()
	var file bytes.Buffer
	w, err := trace.NewWriter(&file, trace.Header{Host: "made", Clock: "virtual", PageSize: annex.PageSize, Containers: []trace.Container{{ID: "a", Name: "web", Class: annex.Elastic}}})
	if err != nil {
		t.Fatal(err)
	}
	events := []trace.Event{{Kind: trace.Started}}
	for at := time.Duration(0); at <= long; at += time.Second {
		woke := annex.Moment(0).After(at)
		events = append(events,
			trace.Event{Kind: trace.Woke, At: woke},
			trace.Event{Kind: trace.Touched, At: woke, Space: annex.Space{PID: 7, Started: 9}, Took: time.Millisecond, Pages: []annex.Page{100, 101, 102}},
			trace.Event{Kind: trace.Slept, At: woke, CPU: time.Millisecond})
	}
	for _, e := range events {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "web.trace")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What annex record writes by default is a minute long, and most of it is counted.
func TestSimulateCountsMostOfATrace(t *testing.T) {
	for _, c := range []struct {
		long    time.Duration
		args    []string
		counted float64
	}{
		{time.Minute, nil, 40},
		{5 * time.Minute, nil, 240},
		{time.Minute, []string{"--warm", "10s"}, 50},
	} {
		args := append([]string{"simulate", "--trace", recorded(t, c.long), "--memory", "64MiB", "--swap", "64MiB", "--policy", "stock", "--json"}, c.args...)
		code, out, errOut := run(t, args...)
		var reports []simulate.Report
		if err := json.Unmarshal([]byte(out), &reports); err != nil || code != 0 || errOut != "" || len(reports) != 1 {
			t.Fatalf("%v, %q: code %d, %v, %q", c.long, c.args, code, err, errOut)
		}
		if got := reports[0].Seconds; got < c.counted-1 || got > c.counted+1 || reports[0].Bursts.Count == 0 {
			t.Errorf("%v, %q: %d bursts were counted over %v s, want %v s", c.long, c.args, reports[0].Bursts.Count, got, c.counted)
		}
	}
}

func TestSimulateRefusesToWarmUpForAllOfIt(t *testing.T) {
	size := []string{"--memory", "64MiB", "--swap", "64MiB"}
	for want, args := range map[string][]string{
		"annex: --warm 1m: the trace lasts 30s, and nothing would be left to count: want less, as --warm 10s\n": {"--trace", recorded(t, 30*time.Second), "--warm", "60s"},
		"annex: --warm 5m: the mix lasts 5m, and nothing would be left to count: want less, as --warm 1m\n":     {"--mix", "../../contrib/fleet.json", "--warm", "5m"},
	} {
		code, out, errOut := run(t, append(append([]string{"simulate"}, args...), size...)...)
		if code != command.Usage || out != "" || errOut != want {
			t.Errorf("%q: code %d, %q, %q; want %q", args, code, out, errOut, want)
		}
	}
}

// A trace that was cut is simulated up to the cut, and that is told.
func TestSimulateTellsOfACut(t *testing.T) {
	path := recorded(t, time.Minute)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, whole[:len(whole)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := run(t, "simulate", "--trace", path, "--memory", "64MiB", "--swap", "64MiB", "--policy", "stock,annex")
	if want := "annex: " + path + ": the trace was cut after 2 blocks: what came before is good\n"; code != 0 || errOut != want || !strings.Contains(out, "stock") {
		t.Errorf("code %d, %q, %q; want %q", code, out, errOut, want)
	}
}

// A trace without an event is refused in one line: a table of it would tell of nothing.
func TestSimulateRefusesATraceOfNothing(t *testing.T) {
	var file bytes.Buffer
	w, err := trace.NewWriter(&file, trace.Header{Host: "made", Clock: "virtual", PageSize: annex.PageSize, Containers: []trace.Container{{ID: "a", Name: "web", Class: annex.Elastic}}})
	if err != nil {
		t.Fatal(err)
	}
	head := file.Len()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	whole := file.Bytes()
	path := filepath.Join(t.TempDir(), "web.trace")
	for _, c := range []struct {
		what string
		file []byte
		says string
	}{
		{"cut after its header", whole[:head], "the trace holds no event, as it was cut: record it anew with annex record"},
		{"cut before its end", whole[:len(whole)-1], "the trace holds no event, as it was cut: record it anew with annex record"},
		{"whole", whole, "the trace holds no event: record it anew with annex record"},
	} {
		if err := os.WriteFile(path, c.file, 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errOut := run(t, "simulate", "--trace", path, "--memory", "64MiB", "--swap", "64MiB")
		if want := "annex: --trace " + path + ": " + c.says + "\n"; code != command.Failure || out != "" || errOut != want {
			t.Errorf("%s: code %d, %q, %q; want %q", c.what, code, out, errOut, want)
		}
	}
}

// Whoever stops it is told so, in one line, and not what of a policy was under way.
func TestSimulateIsStopped(t *testing.T) {
	for _, args := range []string{
		"simulate --fleet 100 --mix ../../contrib/fleet.json --memory 4GiB --swap 4GiB --grain 512",
		"simulate --mix ../../contrib/fleet.json --memory 4GiB --swap 16GiB",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out, errOut bytes.Buffer
		code := command.Run(ctx, root(), append([]string{"annex"}, strings.Fields(args)...), &out, &errOut, exitCode)
		if code != command.Failure || out.Len() > 0 || errOut.String() != "annex: stopped by the user before it had ended: nothing of it is printed\n" {
			t.Errorf("%s: code %d, %q, %q", args, code, out.String(), errOut.String())
		}
	}
}

// A terminal is told what a long run is at, and nothing of it stays.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen bytes.Buffer
		w, end := waitOn(&screen, func() int { return 50 })
		w.tell("%s", progressText(simulate.Progress{Policy: "annex", Trying: 1}))
		time.Sleep(waitingFrom - 1)
		synctest.Wait()
		if screen.Len() > 0 {
			t.Errorf("within %v it says %q", waitingFrom, screen.String())
		}
		for _, c := range []struct {
			at   simulate.Progress
			want string
		}{
			{simulate.Progress{Policy: "annex", Trying: 1}, "3s  annex: tries 1 container on a host"},
			{simulate.Progress{Policy: "annex", Trying: 8, Bears: 4}, "4s  annex: tries 8 containers on a host, which b~"},
			{simulate.Progress{Policy: "annex", Bears: 6, Ran: 1, Hosts: 2}, "5s  annex: a host bears 6; 1 of 2 hosts run"},
		} {
			w.tell("%s", progressText(c.at))
			time.Sleep(waitingEvery)
			synctest.Wait()
			if !strings.HasSuffix(screen.String(), "\r\x1b[K"+c.want) {
				t.Errorf("it says %q, want %q last", screen.String(), c.want)
			}
		}
		end()
		end()
		if !strings.HasSuffix(screen.String(), "\r\x1b[K") {
			t.Errorf("its line stays: %q", screen.String())
		}
	})
	if got := progressText(simulate.Progress{Policy: "annex", Trying: 6, Bears: 4, Fails: 8}); got != "annex: tries 6 containers on a host, which bears 4, and not 8" {
		t.Error(got)
	}
	if a, b := spanOf(59*time.Second), spanOf(125*time.Second); a != "59s" || b != "2m05s" {
		t.Error(a, b)
	}
}
