package annex

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/control"
	"tare/annex/predict"
	"tare/cli/command"
	"tare/terminal"
)

// fake is a daemon that goes through statuses, one each time that it is asked, and stays
// with the last.
type fake struct {
	mu     sync.Mutex
	status control.Status
	next   []control.Status // after a drain or an off
	asked  []string
	fails  error
	// restart are keys that a reload does not put in force.
	restart []string
}

func (f *fake) Status() control.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asked) > 0 && len(f.next) > 0 {
		f.status, f.next = f.next[0], f.next[1:]
	}
	s := f.status
	s.Schema = control.Schema
	return s
}

func (f *fake) ask(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, fmt.Sprintf(format, args...))
	return f.fails
}

func (f *fake) Explain(name string) (control.Explanation, error) {
	if name != "web-1" {
		return control.Explanation{}, &control.Unknown{Container: name, Near: []string{"web-1"}}
	}
	return control.Explanation{
		Schema: control.Schema, Context: sample().Contexts[0], Sentences: []string{"It sleeps, and is expected in a minute."},
		Decisions: []control.Decision{{At: sample().At, Op: "evict", Why: annex.Dormant, Detail: "idle for 40s", Asked: 512, Moved: 500, Seconds: 0.003}},
	}, nil
}

func (f *fake) Drain(_ context.Context, rate int64) error { return f.ask("drain %d", rate) }
func (f *fake) Off(context.Context) error                 { return f.ask("off") }
func (f *fake) Reload(context.Context) ([]string, error) {
	return f.restart, f.ask("reload")
}

func serving(t *testing.T, d control.Daemon) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("the socket is root's: run as root")
	}
	socket := filepath.Join(t.TempDir(), "annex.sock")
	l, err := control.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- control.Serve(ctx, l, d) }()
	t.Cleanup(func() { stop(); <-ended })
	return socket
}

func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = command.Run(t.Context(), root(), append([]string{"annex"}, args...), &out, &errOut, exitCode)
	return code, out.String(), errOut.String()
}

func share(v float64) *float64 { return &v }

// sample is what docs/annex/configuration.md shows.
func sample() control.Status {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	requests := map[annex.Reason]int64{annex.Headroom: 210, annex.Expected: 190, annex.Awake: 12}
	return control.Status{
		Schema: control.Schema, Version: "1.0", State: control.Managing, Mode: string(config.Manage), PID: 712,
		At: at, Started: at.Add(-26 * time.Hour), Since: at.Add(-26 * time.Hour), Config: config.Path, Loaded: at.Add(-26 * time.Hour),
		Memory: control.Memory{Defended: config.Host, LimitBytes: 8 << 30, FreeBytes: 131 << 20, HeadroomBytes: 64 << 20, SwapBytes: 8 << 30, SwapFreeBytes: 5 << 30},
		Tiers:  []control.Tier{{Area: "/var/swap", Kind: "file", Priority: -2, SizeBytes: 8 << 30, FreeBytes: 5 << 30, WrittenTodayBytes: 21 << 30, DailyBytes: 200e9}},
		Brake:  control.Brake{CriticalShare: share(0.0002), CriticalLimitShare: 0.01, StopWithinSeconds: 0.1, WorstStopSeconds: share(0.018), Stops: 3},
		Contexts: []control.Context{
			{
				ID: "docker:3f2a", Name: "web-1", Image: "registry.example.com/functions/web:7", Class: annex.Elastic, State: control.Dormant,
				ResidentBytes: 11 << 20, ExtendedBytes: 53 << 20, ShareBytes: 12 << 20,
				Next:     &control.Forecast{EarliestSeconds: 55, LikelySeconds: 61, LatestSeconds: 68},
				HitShare: share(0.97), ErrorShare: share(0.01), PressureShare: share(0.002),
				Last: annex.Dormant, LastOp: "evict",
				Activity:   &control.Activity{Activations: 402, Probes: 31, DemandPages: 5120},
				Predictors: []control.Score{{Kind: predict.Record, PrecisionShare: 0.94, RecallShare: 0.91, LeadSeconds: 1.5, Predictions: 40960, On: true}, {Kind: predict.Intervals, On: true}},
				Moved:      control.Moved{EvictedBytes: 12 << 30, FetchedBytes: 10 << 30, MappedBytes: 1 << 30, WastedBytes: 400 << 20, Requests: requests},
			},
			{ID: "docker:77c0", Name: "booking", Image: "booking:2", Class: annex.Critical, State: control.Active, ResidentBytes: 320 << 20, PressureShare: share(0.0002)},
		},
		Moved:  control.Moved{EvictedBytes: 12 << 30, FetchedBytes: 10 << 30, MappedBytes: 1 << 30, WastedBytes: 400 << 20, Requests: requests, Stopped: 3},
		Weight: control.Weight{CPUSeconds: 801.2, CPUShare: share(0.012), ResidentBytes: 24 << 20, ManagedBytes: 64 << 20, GaveWaySeconds: 3.14},
	}
}

func TestStatus(t *testing.T) {
	socket := serving(t, &fake{status: sample()})
	code, out, errOut := run(t, "status", "--socket", socket)
	want := `annexd    managing for 1d by /etc/annex/annex.toml, mode manage
memory    host: 131 MiB free of 8 GiB, headroom 64 MiB
swap      5 GiB free of 8 GiB, 21 GiB written today of 186 GiB: file /var/swap
brake     off; critical pressure <0.1% of 1.0%; stopped 3 times, within 100ms (at worst 18ms)
moved     12 GiB left, 11 GiB came back, 3.6% of it unused
itself    24 MiB, 801.2 s of CPU time (1.2% of one now), gave way for 3.1 s

CONTEXT  CLASS     STATE      RES    EXT  SHARE   NEXT    HIT  PRESS  LAST
booking  critical  active    320M     0B     0B      -      -  <0.1%  -
web-1    elastic   dormant    11M    53M    12M     1m    97%   0.2%  dormant
`
	if code != 0 || errOut != "" || out != want {
		t.Errorf("code %d, stderr %q, shows\n%s\nwant\n%s", code, errOut, out, want)
	}
	code, out, errOut = run(t, "status", "--json", "--socket", socket)
	var s control.Status
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != 0 || errOut != "" || len(s.Contexts) != 2 {
		t.Errorf("code %d, stderr %q, JSON of %d contexts, %v", code, errOut, len(s.Contexts), err)
	}
}

// What the kernel swapped of critical containers is told: a drain does not bring it back.
func TestStatusTellsOfCriticalSwap(t *testing.T) {
	s := sample()
	if text := strings.Join(summary(s), "\n"); strings.Contains(text, "critical containers") {
		t.Errorf("nothing of them is in swap, and it says\n%s", text)
	}
	s.Contexts[1].ExtendedBytes = 23 << 20
	if text := strings.Join(summary(s), "\n"); !strings.Contains(text, "23 MiB of critical containers are in swap, which annexd does not move") {
		t.Errorf("it says\n%s", text)
	}
}

func TestTopElsewhereThanOnATerminal(t *testing.T) {
	socket := serving(t, &fake{status: sample()})
	_, once, _ := run(t, "status", "--socket", socket)
	if code, out, errOut := run(t, "top", "--socket", socket); code != 0 || out != once || errOut != "" {
		t.Errorf("code %d, %q, prints\n%s", code, errOut, out)
	}
}

// lines takes what is written and ends a context after some lines of it.
type lines struct {
	bytes.Buffer
	left int
	end  func()
}

func (l *lines) Write(p []byte) (int, error) {
	if l.left -= bytes.Count(p, []byte("\n")); l.left == 0 {
		l.end()
	}
	return l.Buffer.Write(p)
}

func TestTopAsJSON(t *testing.T) {
	socket := serving(t, &fake{status: sample()})
	ctx, cancel := context.WithCancel(t.Context())
	out := &lines{left: 3, end: cancel}
	code := command.Run(ctx, root(), []string{"annex", "top", "--json", "--interval", "50ms", "--socket", socket}, out, io.Discard, exitCode)
	n := 0
	for d := json.NewDecoder(&out.Buffer); ; n++ {
		var s control.Status
		if err := d.Decode(&s); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if code != 0 || n < 3 {
		t.Errorf("code %d after %d statuses", code, n)
	}
}

func TestExplain(t *testing.T) {
	socket := serving(t, &fake{})
	code, out, errOut := run(t, "explain", "web-1", "--socket", socket)
	if code != 0 || errOut != "" {
		t.Errorf("code %d: %s", code, errOut)
	}
	for _, want := range []string{"web-1 (elastic, dormant): 11 MiB resident", "in 1m (55s to 1m)", "It sleeps", "record", "94%", "listened to", "has said nothing yet", "evict", "idle for 40s", "500", "woke 402 times for work", "woke 31 times more", "activity.probe_cpu", "activity.probe_pages"} {
		if !strings.Contains(out, want) {
			t.Errorf("does not say %q:\n%s", want, out)
		}
	}
	code, _, errOut = run(t, "explain", "web", "--socket", socket)
	if code != command.Usage || errOut != "annex: no container \"web\" is known: did you mean web-1?\n" {
		t.Errorf("code %d: %s", code, errOut)
	}
}

func at(state control.State, back, left int64, problem string) control.Status {
	return control.Status{State: state, Drain: &control.Drain{ReturnedBytes: back, LeftBytes: left, Problem: problem}}
}

func TestDrain(t *testing.T) {
	for _, c := range []struct {
		what   string
		args   []string
		next   []control.Status
		fails  error
		code   int
		asked  string
		out    string
		errOut string
	}{
		{
			"all comes back", []string{"drain", "--rate", "50MiB/s"},
			[]control.Status{at(control.Draining, 0, 3<<20, ""), at(control.Draining, 1<<20, 2<<20, ""), at(control.Drained, 3<<20, 0, "")}, nil,
			0, "drain 52428800", "everything is back in memory: 3 MiB; annex reload manages again\n", "",
		},
		{
			"some does not fit", []string{"drain"},
			[]control.Status{at(control.Drained, 3<<20, 1<<20, "memory is short")}, nil,
			1, "drain 0", "", "annex: 3 MiB came back, 1 MiB did not: memory is short\n",
		},
		{
			"someone reloads meanwhile", []string{"drain"},
			[]control.Status{at(control.Draining, 0, 1, ""), at(control.Managing, 0, 1, "")}, nil,
			1, "drain 0", "", "annex: annexd is managing again, as somebody has said annex reload meanwhile: 0 B came back, 1 B still in swap\n",
		},
		{
			"someone says off meanwhile", []string{"drain"},
			[]control.Status{at(control.Draining, 0, 1, ""), at(control.Off, 3<<20, 0, "")}, nil,
			0, "drain 0", "everything is back in memory: 3 MiB; annexd is off, as somebody has said annex off meanwhile; annex reload manages again\n", "",
		},
		{
			"someone says off meanwhile, and some does not fit", []string{"drain"},
			[]control.Status{at(control.Draining, 0, 1, ""), at(control.Off, 3<<20, 1<<20, "")}, nil,
			1, "drain 0", "", "annex: 3 MiB came back, 1 MiB did not: it does not fit: end a container, or add memory; annexd is off, as somebody has said annex off meanwhile\n",
		},
		{
			"annexd ends meanwhile", []string{"drain"},
			[]control.Status{at(control.Draining, 0, 1, ""), at(control.Ending, 0, 1, "")}, nil,
			1, "drain 0", "", "annex: annexd ended meanwhile: what is in swap stays there, and is read when it is used\n",
		},
		{
			"not waited for", []string{"drain", "--detach"}, nil, nil,
			0, "drain 0", "begun: it goes on, annex status tells how far it is\n", "",
		},
		{
			"off, not waited for", []string{"off", "--detach"}, nil, nil,
			0, "off", "begun: it goes on, annex status tells how far it is\n", "",
		},
		{
			"refused, and not waited for", []string{"drain", "--detach"}, nil, &control.Refused{What: "drain", State: control.Off, Mend: "annex reload manages again"},
			1, "drain 0", "", "annex: cannot drain while off: annex reload manages again\n",
		},
		{
			"refused", []string{"drain"}, nil, &control.Refused{What: "drain", State: control.Off, Mend: "annex reload manages again"},
			1, "drain 0", "", "annex: cannot drain while off: annex reload manages again\n",
		},
		{
			"off", []string{"off"},
			[]control.Status{at(control.Draining, 0, 1, ""), at(control.Off, 2<<20, 1<<20, "")}, nil,
			0, "off", "off: 2 MiB came back, every setting is as it was found\n1 MiB stay in swap: it does not fit: end a container, or add memory\n", "",
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			f := &fake{next: c.next, fails: c.fails}
			code, out, errOut := run(t, append(c.args, "--socket", serving(t, f))...)
			if code != c.code || out != c.out || errOut != c.errOut || !slices.Equal(f.asked, []string{c.asked}) {
				t.Errorf("code %d, asked %q\nstdout %q\nstderr %q\nwant code %d, %q\nstdout %q\nstderr %q", code, f.asked, out, errOut, c.code, c.asked, c.out, c.errOut)
			}
		})
	}
}

func TestReload(t *testing.T) {
	for want, restart := range map[string][]string{
		"in force: mode manage\n": nil,
		"in force: mode manage, but for control.socket, log.file, which takes a new start (systemctl restart annexd, or end it and run annexd again)\n": {"control.socket", "log.file"},
	} {
		code, out, errOut := run(t, "reload", "--socket", serving(t, &fake{status: sample(), restart: restart}))
		if code != 0 || out != want || errOut != "" {
			t.Errorf("code %d, %q, %q; want %q", code, out, errOut, want)
		}
	}
	_, none := config.Load(filepath.Join(t.TempDir(), "annex.toml"))
	if code, _, errOut := run(t, "reload", "--socket", serving(t, &fake{fails: none})); code != command.Usage || !strings.Contains(errOut, "there is no such file") {
		t.Errorf("with no file: code %d, %q", code, errOut)
	}
	_, invalid := config.Parse("annex.toml", []byte("mode = 1\nmdoe = 2"))
	code, _, errOut := run(t, "reload", "--socket", serving(t, &fake{fails: invalid}))
	want := "annex: annex.toml:1: mode: is the number 1: want a text in quotes, as \"observe\"\nannex: annex.toml:2: mdoe: is no key: did you mean mode?\n"
	if code != command.Usage || errOut != want {
		t.Errorf("code %d, says\n%swant\n%s", code, errOut, want)
	}
}

func TestConfig(t *testing.T) {
	code, example, errOut := run(t, "config", "--example")
	if code != 0 || errOut != "" || example != config.Example() {
		t.Errorf("code %d, %q", code, errOut)
	}
	file := filepath.Join(t.TempDir(), "annex.toml")
	if err := os.WriteFile(file, []byte("mode = \"manage\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := run(t, "config", file)
	if c, err := config.Parse("out", []byte(out)); code != 0 || errOut != "" || err != nil || c.Mode != config.Manage {
		t.Errorf("code %d, %q, %v:\n%s", code, errOut, err, out)
	}
	if code, _, errOut := run(t, "config", filepath.Join(t.TempDir(), "none")); code != command.Usage || !strings.Contains(errOut, "annex config --example") {
		t.Errorf("a file that is not there: code %d, %q", code, errOut)
	}
	// Whoever wrote an example over a file that is there would lose it.
	for _, there := range []string{t.TempDir(), "/proc/self/mem"} {
		if code, _, errOut := run(t, "config", there); code != command.Usage || strings.Contains(errOut, "--example") || !strings.Contains(errOut, there) {
			t.Errorf("%s: code %d, %q", there, code, errOut)
		}
	}
}

func TestBadInput(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.sock")
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"status --socket " + none, command.Host, "start it with systemctl start annexd"},
		{"top --socket " + none, command.Host, "start it"},
		{"top --json --socket " + none, command.Host, "start it"},
		{"drain --socket " + none, command.Host, "start it"},
		{"status --socket /" + strings.Repeat("s", config.LongestSocket), command.Usage, "--socket: a path of 108 bytes"},
		{"stauts", command.Usage, "unknown command"},
		{"status now", command.Usage, "takes 0 arguments"},
		{"status --jsn", command.Usage, "--jsn"},
		{"explain", command.Usage, "takes 1 argument,"},
		{"top --interval soon", command.Usage, "want a time with its unit"},
		{"top --interval 1ms", command.Usage, "want 50ms to 1h"},
		{"drain --rate 50", command.Usage, "such as 50MiB/s"},
		{"drain --rate 0B/s", command.Usage, "such as 50MiB/s"},
		{"config a b", command.Usage, "takes one file"},
		{"simulate --mix /none", command.Usage, "annex: --mix /none: no such file or directory\n"},
		{"simulate --trace /none --memory 1GiB --swap 1GiB", command.Usage, "annex: --trace /none: no such file or directory: annex record writes a trace\n"},
		{"simulate --trace t --memory 1GiB --swap 1GiB --medium /none", command.Usage, "annex: --medium /none: no such file or directory: want file, zram, or a JSON file of its costs\n"},
		{"simulate --trace t --memory 1GiB --swap 1GiB --medium annex.go", command.Usage, "want file, zram, or a JSON file"},
		{"simulate --trace t", command.Usage, "such as 1GiB"},
		{"simulate --trace t --fleet 5", command.Usage, "wants a --mix"},
		{"simulate --fleet 5 --mix m --sample 0", command.Usage, "want 1 or more"},
		{"simulate --fleet 20000 --mix ../../contrib/fleet.json --memory 64GiB --swap 1GiB", command.Usage, "want 1 to 10000"},
		{"config --example a", command.Usage, "reads no file"},
	} {
		code, out, errOut := run(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(errOut, c.says) || strings.Count(errOut, "\n") != 1 || out != "" {
			t.Errorf("annex %s: code %d, %q, %q; want %d and %q", c.args, code, out, errOut, c.code, c.says)
		}
	}
}

func TestVersion(t *testing.T) {
	if code, out, errOut := run(t, "--version"); code != 0 || out != "annex "+command.Version()+"\n" || errOut != "" {
		t.Errorf("code %d, %q, %q", code, out, errOut)
	}
}

func TestHelp(t *testing.T) {
	if code, out, _ := run(t, "--help"); code != 0 || !strings.Contains(out, "annex top") {
		t.Errorf("code %d:\n%s", code, out)
	}
	for _, c := range root().Commands() {
		if code, out, _ := run(t, c.Name(), "--help"); code != 0 || !strings.Contains(out, "annex "+c.Name()) || c.Short == "" {
			t.Errorf("%s: code %d:\n%s", c.Name(), code, out)
		}
	}
}

// No line is wider than the screen, at any width, and what matters most stays longest.
func TestTableFits(t *testing.T) {
	contexts := sample().Contexts
	contexts[0].Name = "a-name\x1b[31m-that-is-rather-long-for-a-container-of-any-kind"
	contexts = append(contexts, control.Context{Name: "日本", Class: annex.Elastic, State: control.Fixed, ResidentBytes: 1 << 50, ExtendedBytes: 1023 << 30, Next: &control.Forecast{LikelySeconds: -1e300}})
	for width := 1; width <= 200; width++ {
		table := contextTable(contexts, width, 0)
		for _, line := range table {
			if n := utf8.RuneCountInString(line); n > width {
				t.Fatalf("a line of %d columns on a screen of %d: %q", n, width, line)
			}
			if strings.ContainsRune(line, '\x1b') {
				t.Fatalf("a name steers the terminal: %q", line)
			}
		}
		for _, want := range []struct {
			head string
			from int
		}{{"RES", 30}, {"EXT", 30}, {"NEXT", 40}, {"STATE", 48}, {"LAST", 80}, {"SHARE", 80}, {"PRESS", 80}, {"HIT", 80}, {"CLASS", 80}} {
			if width >= want.from && !strings.Contains(table[0], want.head) {
				t.Fatalf("%d columns have no %s: %q", width, want.head, table[0])
			}
		}
	}
}

func TestTableOfMany(t *testing.T) {
	var contexts []control.Context
	for i := range 100 {
		contexts = append(contexts, control.Context{Name: fmt.Sprint("c", i), Class: annex.Elastic})
	}
	table := contextTable(contexts, 80, 10)
	if len(table) != 11 || strings.TrimSpace(table[10]) != "and 91 contexts more" {
		t.Errorf("%d lines, the last %q", len(table), table[len(table)-1])
	}
}

func TestFrame(t *testing.T) {
	s := sample()
	for height := 1; height < 40; height++ {
		for _, width := range []int{10, 40, 80, 132} {
			rows := strings.Split(strings.TrimSuffix(strings.TrimPrefix(terminal.Frame(screenOf(s, width, height), width, height).String(), "\x1b[H"), "\r\n\x1b[J"), "\r\n")
			if len(rows) > height {
				t.Fatalf("%d lines on a screen of %d", len(rows), height)
			}
			for _, row := range rows {
				text := strings.TrimSuffix(row, "\x1b[K")
				if n := utf8.RuneCountInString(text); n > width {
					t.Fatalf("%d columns on a screen of %d: %q", n, width, text)
				} else if n == width && text != row {
					t.Fatalf("what stands in the last column is cleared: %q", row)
				}
			}
		}
	}
	if f := terminal.Frame(screenOf(s, 80, 24), 80, 24).String(); !strings.Contains(f, "web-1") || !strings.Contains(f, "brake") {
		t.Errorf("on 80 by 24 it shows\n%s", f)
	}
}

// Names that differ at their ends are told apart on a narrow screen, and are whole where
// there is none.
func TestNamesStayApart(t *testing.T) {
	var contexts []control.Context
	for i := range 4 {
		contexts = append(contexts, control.Context{Name: fmt.Sprintf("/system.slice/nu-annex/idle-%d", i), Class: annex.Elastic})
	}
	seen := map[string]bool{}
	for _, line := range contextTable(contexts, 60, 0)[1:] {
		seen[strings.Fields(line)[0]] = true
	}
	if len(seen) != 4 {
		t.Errorf("on 60 columns four names are %v", seen)
	}
	_, out, _ := run(t, "status", "--socket", serving(t, &fake{status: control.Status{Schema: control.Schema, Contexts: []control.Context{{Name: strings.Repeat("long/", 60) + "name", Class: annex.Elastic}}}}))
	if !strings.Contains(out, strings.Repeat("long/", 60)+"name") {
		t.Errorf("in a pipe a name is cut:\n%s", out)
	}
}

// Whoever does not wait for an answer is told so.
func TestAskingIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	for _, name := range []string{"status", "reload", "drain"} {
		var out, errOut bytes.Buffer
		code := command.Run(ctx, root(), []string{"annex", name, "--socket", serving(t, &fake{})}, &out, &errOut, exitCode)
		if code != command.Failure || out.Len() > 0 || errOut.String() != "annex: stopped by the user before annexd had answered\n" {
			t.Errorf("%s: code %d, %q, %q", name, code, out.String(), errOut.String())
		}
	}
}

// Warnings that have no room are counted.
func TestFrameCountsWarnings(t *testing.T) {
	s := sample()
	s.Warnings = []string{"one thing", "another thing"}
	for height := 1; height < 40; height++ {
		f := terminal.Frame(screenOf(s, 60, height), 60, height).String()
		if !strings.Contains(f, "2 warnings") && !strings.Contains(f, "one thing") {
			t.Errorf("on %d lines it says nothing of warnings:\n%s", height, f)
		}
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{shortSize(0), "0B"}, {shortSize(999), "999B"}, {shortSize(1000), "1.0K"}, {shortSize(64 << 20), "64M"},
		{shortSize(1300 << 20), "1.3G"}, {shortSize(1 << 62), "4096P"},
		{sizeText(0), "0 B"}, {sizeText(1536 << 20), "1.50 GiB"}, {sizeText(131 << 20), "131 MiB"},
		{shareText(nil), "-"}, {shareText(share(0)), "0%"}, {shareText(share(0.0001)), "<0.1%"}, {shareText(share(0.0021)), "0.2%"}, {shareText(share(1)), "100%"},
		{spanText(0), "0ms"}, {spanText(85 * time.Millisecond), "85ms"}, {spanText(119 * time.Second), "1m"}, {spanText(-3 * time.Hour), "-3h"}, {spanText(50 * time.Hour), "2d"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
