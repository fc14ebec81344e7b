package control_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	prometheus "github.com/prometheus/common/model"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/control"
	"tare/annex/predict"
)

// fake is a daemon that says what it was made to say, and keeps what it was asked.
type fake struct {
	mu     sync.Mutex
	status control.Status
	asked  []string
	fails  error
}

func (f *fake) Status() control.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	s.Schema = cmp0(s.Schema, control.Schema)
	return s
}

func cmp0(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

func (f *fake) ask(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, fmt.Sprintf(format, args...))
	return f.fails
}

func (f *fake) Explain(name string) (control.Explanation, error) {
	if err := f.ask("explain %s", name); err != nil {
		return control.Explanation{}, err
	}
	return control.Explanation{Schema: control.Schema, Context: control.Context{Name: name}, Sentences: []string{"it sleeps"}}, nil
}

func (f *fake) Drain(_ context.Context, rate int64) error { return f.ask("drain %d", rate) }
func (f *fake) Off(context.Context) error                 { return f.ask("off") }
func (f *fake) Reload(context.Context) ([]string, error) {
	return []string{"control.socket"}, f.ask("reload")
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("the socket is root's: run as root")
	}
}

// serving starts a server for a daemon and gives its socket.
func serving(t *testing.T, d control.Daemon) string {
	t.Helper()
	needRoot(t)
	socket := filepath.Join(t.TempDir(), "run", "annex.sock")
	l, err := control.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- control.Serve(ctx, l, d) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return socket
}

func dial(t *testing.T, socket string) *control.Client {
	t.Helper()
	c := control.Dial(socket)
	t.Cleanup(c.Close)
	return c
}

func pointer[T any](v T) *T { return &v }

// sample has something in every field.
func sample() control.Status {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return control.Status{
		Schema: control.Schema, Version: "1.0", State: control.Managing, Mode: "manage", PID: 42,
		At: at, Started: at.Add(-time.Hour), Since: at.Add(-time.Hour), Config: "/etc/annex/annex.toml", Loaded: at.Add(-time.Minute),
		Memory: control.Memory{Defended: "host", LimitBytes: 8 << 30, FreeBytes: 128 << 20, HeadroomBytes: 64 << 20, PoolBytes: 1, SwapBytes: 4 << 30, SwapFreeBytes: 3 << 30},
		Tiers:  []control.Tier{{Area: "/var/swap", Kind: "file", Encrypted: new(true), Priority: -2, SizeBytes: 4 << 30, FreeBytes: 3 << 30, WrittenTodayBytes: 5 << 30, DailyBytes: 200e9, RateBytesPerSecond: 100 << 20, Problem: "counted"}},
		Brake:  control.Brake{On: true, Why: "booking waits", Since: &at, CriticalShare: pointer(0.02), CriticalLimitShare: 0.01, StopWithinSeconds: 0.1, WorstStopSeconds: pointer(0.03), Stops: 2},
		Contexts: []control.Context{{
			ID: "a", Name: "web-1", Image: "web:1", Class: annex.Elastic, State: control.Dormant,
			ResidentBytes: 10 << 20, ExtendedBytes: 54 << 20, ShareBytes: 12 << 20,
			Observed: &control.ObservedContext{ResidentBytes: 9 << 20, ExtendedBytes: 55 << 20},
			Next:     &control.Forecast{EarliestSeconds: 50, LikelySeconds: 60, LatestSeconds: 70},
			HitShare: pointer(0.97), ErrorShare: pointer(0.01), PressureShare: pointer(0.002),
			Last: annex.Expected, LastOp: "fetch",
			Activity:   &control.Activity{Activations: 12, Probes: 3, DemandPages: 400},
			Predictors: []control.Score{{Kind: predict.Record, PrecisionShare: 0.9, RecallShare: 0.8, LeadSeconds: 0.5, Predictions: 1000, On: true}},
			Moved:      control.Moved{EvictedBytes: 100, FetchedBytes: 90, MappedBytes: 5, WastedBytes: 2},
			Aside:      true,
			Problem:    "held back",
		}},
		Moved:    control.Moved{EvictedBytes: 1000, FetchedBytes: 900, MappedBytes: 50, WastedBytes: 20, Requests: map[annex.Reason]int64{annex.Cold: 3, annex.Awake: 4}, Stopped: 1, Failed: 2},
		Observed: &control.Observed{FreeBytes: 5, EvictedBytes: 7, ReturnedBytes: 6, AddedFaults: 8, WrongShare: pointer(0.25)},
		Drain:    &control.Drain{RateBytesPerSecond: 1, LeftBytes: 2, ReturnedBytes: 3, Problem: "full"},
		Weight:   control.Weight{CPUSeconds: 12.5, CPUShare: pointer(0.01), ResidentBytes: 20 << 20, ManagedBytes: 64 << 20, LostEvents: 1, GaveWaySeconds: 0.25},
		Warnings: []string{"systemd-oomd runs"},
	}
}

// Otherwise a field could be forgotten below, and be lost on its way unseen.
func TestSampleSaysEverything(t *testing.T) {
	var look func(path string, v reflect.Value)
	look = func(path string, v reflect.Value) {
		if v.IsZero() {
			t.Errorf("%s is not set", path)
			return
		}
		switch v.Kind() {
		case reflect.Pointer:
			look(path, v.Elem())
		case reflect.Slice:
			look(path+"[0]", v.Index(0))
		case reflect.Struct:
			if v.Type() == reflect.TypeFor[time.Time]() {
				return
			}
			for i := range v.NumField() {
				name := path + "." + v.Type().Field(i).Name
				switch name {
				case ".Contexts[0].Moved.Requests", ".Contexts[0].Moved.Stopped", ".Contexts[0].Moved.Failed":
				default:
					look(name, v.Field(i))
				}
			}
		}
	}
	look("", reflect.ValueOf(sample()))
}

func TestStatusArrivesWhole(t *testing.T) {
	c := dial(t, serving(t, &fake{status: sample()}))
	got, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sample(), got); d != "" {
		t.Error(d)
	}
}

func TestRequests(t *testing.T) {
	f := &fake{}
	c := dial(t, serving(t, f))
	e, err := c.Explain(t.Context(), "web 1&x=/?")
	if err != nil || e.Context.Name != "web 1&x=/?" || !slices.Equal(e.Sentences, []string{"it sleeps"}) {
		t.Errorf("explained %+v, %v", e, err)
	}
	if err := c.Drain(t.Context(), 50<<20); err != nil {
		t.Error(err)
	}
	if err := c.Off(t.Context()); err != nil {
		t.Error(err)
	}
	restart, err := c.Reload(t.Context())
	if err != nil || !slices.Equal(restart, []string{"control.socket"}) {
		t.Errorf("reloaded, with %v to restart, %v", restart, err)
	}
	if want := []string{"explain web 1&x=/?", "drain 52428800", "off", "reload"}; !slices.Equal(f.asked, want) {
		t.Errorf("the daemon was asked %q, want %q", f.asked, want)
	}
}

// Errors that a caller decides on arrive as they were.
func TestErrorsArriveWhole(t *testing.T) {
	_, invalid := config.Parse("annex.toml", []byte("mode = 1\n[memory]\nhigh = \"1B\""))
	for _, want := range []error{
		&control.Unknown{Container: "web", Near: []string{"web-1"}},
		&control.Unknown{Container: "3f", Several: []string{"3f2a", "3f2b"}},
		&control.Refused{What: "drain", State: control.Off, Mend: "annex reload"},
		invalid,
		errors.New("the disk is full"),
	} {
		f := &fake{fails: fmt.Errorf("daemon: %w", want)}
		c := dial(t, serving(t, f))
		_, explaining := c.Explain(t.Context(), "web")
		_, reloading := c.Reload(t.Context())
		for _, got := range []error{explaining, c.Drain(t.Context(), 0), c.Off(t.Context()), reloading} {
			if reflect.TypeOf(want) == reflect.TypeOf(errors.New("")) {
				if got == nil || got.Error() != "daemon: the disk is full" {
					t.Errorf("got %v, want the daemon's words", got)
				}
				continue
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %#v, want %#v", got, want)
			}
		}
	}
}

func TestTop(t *testing.T) {
	f := &fake{status: sample()}
	c := dial(t, serving(t, f))
	enough := errors.New("enough")
	n := 0
	err := c.Top(t.Context(), 50*time.Millisecond, func(s control.Status) error {
		if d := cmp.Diff(sample(), s); d != "" {
			t.Error(d)
		}
		if n++; n == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("ended with %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = c.Top(ctx, time.Hour, func(control.Status) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v by its context", err)
	}
	if err := c.Top(t.Context(), time.Millisecond, nil); err == nil || !strings.Contains(err.Error(), "50ms to 1h") {
		t.Errorf("an interval of 1 ms: %v", err)
	}
}

// Whoever looks on does not keep the daemon from ending.
func TestTopEndsWithTheServer(t *testing.T) {
	needRoot(t)
	socket := filepath.Join(t.TempDir(), "annex.sock")
	l, err := control.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- control.Serve(ctx, l, &fake{}) }()
	c := dial(t, socket)
	err = c.Top(t.Context(), time.Hour, func(control.Status) error { stop(); return nil })
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the stream ended with %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
	if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket stays: %v", err)
	}
	var absent *control.Absent
	if _, err := c.Status(t.Context()); !errors.As(err, &absent) {
		t.Errorf("asked after the end: %v, want an Absent", err)
	}
}

func TestMismatch(t *testing.T) {
	c := dial(t, serving(t, &fake{status: control.Status{Schema: 99}}))
	var mismatch *control.Mismatch
	if _, err := c.Status(t.Context()); !errors.As(err, &mismatch) || mismatch.Theirs != 99 {
		t.Errorf("status of a later version: %v", err)
	}
	if err := c.Top(t.Context(), time.Second, func(control.Status) error { return nil }); !errors.As(err, &mismatch) {
		t.Errorf("stream of a later version: %v", err)
	}
}

func TestRefusesRequests(t *testing.T) {
	f := &fake{}
	socket := serving(t, f)
	web := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	defer web.CloseIdleConnections()
	for _, c := range []struct {
		method, path string
		code         int
	}{
		{"GET", "/", 404},
		{"POST", "/status", 405},
		{"GET", "/drain", 405},
		{"GET", "/off", 405},
		{"GET", "/reload", 405},
		{"POST", "/drain?rate=-1", 400},
		{"POST", "/drain?rate=50MiB", 400},
		{"GET", "/explain", 400},
		{"GET", "/top?interval=soon", 400},
		{"GET", "/top?interval=1us", 400},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "http://annexd"+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := web.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != c.code {
			t.Errorf("%s %s: %s, want %d", c.method, c.path, answer.Status, c.code)
		}
	}
	if len(f.asked) > 0 {
		t.Errorf("the daemon was asked all the same: %q", f.asked)
	}
}

func TestListen(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	socket := filepath.Join(dir, "run", "annex.sock")
	l, err := control.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{socket: 0o600, filepath.Dir(socket): 0o700} {
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", path, info.Mode().Perm(), err, want)
		}
	}
	var busy *control.Busy
	if _, err := control.Listen(socket); !errors.As(err, &busy) {
		t.Errorf("a second daemon: %v, want a Busy", err)
	}
	// A daemon that is killed leaves its socket.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, err = control.Listen(socket)
	if err != nil {
		t.Fatalf("where a killed daemon's socket is: %v", err)
	}
	l.Close()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Listen(file); err == nil {
		t.Error("listens where a file is")
	}
	if text, err := os.ReadFile(file); string(text) != "mine" {
		t.Errorf("the file is now %q, %v", text, err)
	}
}

// asStranger has the test's own program ask a socket, and print what its client says and how
// much it is answered when it asks without one.
const asStranger = "ANNEX_TEST_ASK"

// asImpostor has it listen, until its standard input ends.
const asImpostor = "ANNEX_TEST_LISTEN"

func TestMain(m *testing.M) {
	if socket := os.Getenv(asImpostor); socket != "" {
		if _, err := net.Listen("unix", socket); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("listens")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	if socket := os.Getenv(asStranger); socket != "" {
		_, err := control.Dial(socket).Status(context.Background())
		answer := 0
		if conn, err := net.Dial("unix", socket); err == nil {
			// Whether this can still be written or not is all the same.
			_, _ = io.WriteString(conn, "GET /status HTTP/1.1\r\nHost: annexd\r\nConnection: close\r\n\r\n")
			text, _ := io.ReadAll(conn)
			answer = len(text)
		}
		fmt.Printf("%T %d", err, answer)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Even where the socket's mode would let others in, only root gets an answer.
func TestStrangers(t *testing.T) {
	f := &fake{}
	socket := serving(t, f)
	exe := filepath.Join(t.TempDir(), "asks")
	if err := copyFile("/proc/self/exe", exe); err != nil {
		t.Fatal(err)
	}
	ask := func() string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Env, cmd.Dir = []string{asStranger + "=" + socket}, "/"
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if rooted := string(out); !regexp.MustCompile(`^<nil> [1-9]`).MatchString(rooted) {
			t.Errorf("root asked and got %s", rooted)
		}
		cmd = exec.CommandContext(t.Context(), exe)
		cmd.Env, cmd.Dir = []string{asStranger + "=" + socket}, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err = cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	for _, path := range []string{socket, exe} {
		for dir := filepath.Dir(path); dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, mode := range []os.FileMode{0o600, 0o666} {
		if err := os.Chmod(socket, mode); err != nil {
			t.Fatal(err)
		}
		if got := ask(); got != "*control.Denied 0" {
			t.Errorf("nobody asked at a socket of mode %v and got %s", mode, got)
		}
	}
}

// Root's client takes no answer from what is not root's.
func TestImpostor(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	exe, socket := filepath.Join(dir, "listens"), filepath.Join(dir, "annex.sock")
	if err := copyFile("/proc/self/exe", exe); err != nil {
		t.Fatal(err)
	}
	for up := dir; up != "/" && up != os.TempDir(); up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env, cmd.Dir = []string{asImpostor + "=" + socket}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "listens\n" {
		t.Fatalf("said %q, %v", said, err)
	}
	var stranger *control.Stranger
	if _, err := dial(t, socket).Status(t.Context()); !errors.As(err, &stranger) {
		t.Errorf("asked what nobody listens at: %v, want a Stranger", err)
	}
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

func TestAbsent(t *testing.T) {
	var absent *control.Absent
	_, err := dial(t, filepath.Join(t.TempDir(), "none")).Status(t.Context())
	if !errors.As(err, &absent) || !strings.Contains(err.Error(), "systemctl start annexd") || !strings.Contains(err.Error(), "has another control.socket, name that with --socket") {
		t.Errorf("no daemon: %v", err)
	}
}

func families(t *testing.T, d control.Daemon) map[string]bool {
	t.Helper()
	l, err := control.ListenMetrics("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- control.ServeMetrics(ctx, l, d) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	}()
	answer, err := http.Get("http://" + l.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != 200 {
		t.Fatalf("%s, %v: %s", answer.Status, err, text)
	}
	parser := expfmt.NewTextParser(prometheus.LegacyValidation)
	parsed, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("not Prometheus' format: %v\n%s", err, text)
	}
	names := map[string]bool{}
	for name, family := range parsed {
		names[name] = true
		for _, m := range family.Metric {
			if v := m.GetGauge().GetValue() + m.GetCounter().GetValue(); math.IsNaN(v) {
				t.Errorf("%s is NaN", name)
			}
		}
		if counter := strings.HasSuffix(name, "_total"); counter != (family.GetType().String() == "COUNTER") {
			t.Errorf("%s is a %s", name, family.GetType())
		}
	}
	return names
}

// Of a status that says everything every metric is served, and the reference lists all.
func TestMetrics(t *testing.T) {
	served := families(t, &fake{status: sample()})
	for line := range strings.Lines(control.MetricsReference()) {
		if _, rest, ok := strings.Cut(line, "| `"); ok {
			name, _, _ := strings.Cut(rest, "`")
			if !served[name] {
				t.Errorf("%s is in the reference and not served", name)
			}
			delete(served, name)
		}
	}
	for name := range served {
		t.Errorf("%s is served and not in the reference", name)
	}
}

// Two containers may have one name, and names may be anything.
func TestMetricsOfAnyNames(t *testing.T) {
	s := control.Status{Contexts: []control.Context{
		{ID: "1", Name: "same"}, {ID: "2", Name: "same"}, {ID: "3", Name: "a\"b\\c\nd\xff"},
	}}
	if served := families(t, &fake{status: s}); !served["annex_container_resident_bytes"] {
		t.Errorf("served %v", served)
	}
}

func TestMetricsOnLoopbackAlone(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		l, err := control.ListenMetrics(address)
		if err == nil {
			l.Close()
			t.Errorf("metrics are served at %s", address)
		}
	}
}

// Metrics that cannot be served are told in one sentence, with the key that says where they are.
func TestMetricsThatCannotBeServed(t *testing.T) {
	l, err := control.ListenMetrics("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	for address, want := range map[string]string{
		taken:         "something listens at " + taken + " already, where metrics are to be: end it, or name another port (control.metrics)",
		"192.0.2.1:0": "metrics cannot be served at 192.0.2.1:0: cannot assign requested address: name another address (control.metrics)",
	} {
		if _, err := control.ListenMetrics(address); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", address, err, want)
		}
	}
}

// Whatever stands in a status, it can be handed on as JSON.
func FuzzStatus(f *testing.F) {
	whole, err := json.Marshal(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`{"schema":1,"contexts":[{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s control.Status
		if json.NewDecoder(bufio.NewReader(bytes.NewReader(text))).Decode(&s) != nil {
			return
		}
		again, err := json.Marshal(s)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		var back control.Status
		if err := json.Unmarshal(again, &back); err != nil {
			t.Fatalf("nor read again: %v", err)
		}
	})
}

// Of a predictor that has told nothing no share is told, a zero among them.
func TestScoreOfNothing(t *testing.T) {
	for want, s := range map[string]control.Score{
		`{"kind":"record","told":0,"on":true}`: {Kind: predict.Record, On: true},
		`{"kind":"record","precision_share":0,"recall_share":0.5,"lead_seconds":0,"told":7,"on":false}`: {Kind: predict.Record, RecallShare: 0.5, Predictions: 7},
	} {
		if got, err := json.Marshal(s); err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}
