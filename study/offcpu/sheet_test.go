package offcpu

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"tare/container"
	"tare/probe/causes"
	"tare/record"
	"tare/report"
)

const ms = time.Millisecond

func distribution(count uint64, each time.Duration) causes.Distribution {
	return causes.Distribution{Count: count, Sum: time.Duration(count) * each, Steps: []causes.Step{{Low: each, High: each + each/8, Count: count}}}
}

// web answers: it polls, reads a file, and is preempted now and then.
func web() *Watched {
	return &Watched{
		Container: container.Container{Engine: container.Docker, ID: "0123456789ab", Name: "web", Image: "httpd", PID: 7, Cgroup: "/sys/fs/cgroup/cpu/docker/0123456789ab"},
		Began:     time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC), Asked: 10 * time.Second, Stacks: true,
		Reading: causes.Reading{
			Span: 10 * time.Second, CPUTime: time.Second, CPUs: 2, Used: 2,
			Burst: distribution(900, ms), Run: distribution(1000, ms), Wait: distribution(1000, ms/10), Blocked: distribution(900, 20*ms),
			Wakeups: 900, Voluntary: 900, Involuntary: 100, Migrations: 12,
			Interrupts: causes.Interrupts{Hard: 10, Soft: 20, Wakeups: 400, Elsewhere: 4, Other: 500},
			Off: []causes.Stack{
				{Program: "httpd", Frames: []string{"ep_poll", "do_epoll_wait", "__x64_sys_epoll_wait", "do_syscall_64", "epoll_wait", "main"}, Time: 17 * time.Second, Count: 800},
				{Program: "httpd", Frames: []string{"io_schedule", "folio_wait_bit_common", "filemap_read", "__x64_sys_pread64", "do_syscall_64", "pread", "main"}, Time: time.Second, Count: 100},
				{Program: "httpd", Frames: []string{"irqentry_exit", "main"}, Waiting: true, Time: 100 * ms, Count: 100},
			},
			Weight: 50 * ms,
		},
	}
}

func with(change func(*causes.Reading)) *Watched {
	w := web()
	change(&w.Reading)
	return w
}

func rendered(t *testing.T, w *Watched) (screen, page string) {
	t.Helper()
	var text, html bytes.Buffer
	sheet := w.Sheet(record.Host{Hostname: "host"})
	if err := report.SheetTerminal(&text, sheet, report.TerminalOptions{Width: 80}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	if err := report.SheetHTML(&html, sheet); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"NaN", "Inf", "%!"} {
		if strings.Contains(text.String(), bad) || strings.Contains(html.String(), bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	return strings.Join(strings.Fields(text.String()), " "), html.String()
}

// The headline is what a program's time went into.
func TestAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		of   *Watched
		says []string
	}{
		"blocked":                    {web(), []string{"web was mostly blocked: for 47.6 %", "chiefly on the disk: pread64 (100 % of that)", "waited for a CPU for 9.09 %", "waited in accept, poll, select or sleep for 17 s in all"}},
		"waits for work alone":       {with(func(r *causes.Reading) { r.Off, r.Wait = r.Off[:1], distribution(1, ms) }), []string{"web was hardly kept from running: its threads ran for 99.9 %", "waited in accept, poll, select or sleep for 18 s"}},
		"a service without requests": {with(func(r *causes.Reading) { r.Off, r.Wait, r.CPUTime = r.Off[:1], distribution(9, ms), 9*ms }), []string{"web slept for most of 10 s"}},
		"without stacks":             {with(func(r *causes.Reading) { r.Off = nil }), []string{"web was mostly blocked: for 94.2 % of its threads' time. Its"}},
		"blocked, with a quota":      {with(func(r *causes.Reading) { r.Throttling = causes.Throttling{Periods: 100, Throttled: 3, Time: 10 * ms} }), []string{"mostly blocked", "throttled in 3 of 100 periods, for 10 ms"}},
		"behind others":              {with(func(r *causes.Reading) { r.Blocked, r.Wait = distribution(1, ms), distribution(1000, 3*ms) }), []string{"web was held back mostly by other threads. Its", "75.0 %", "3 s in all"}},
		"behind others, with a quota": {with(func(r *causes.Reading) {
			r.Blocked, r.Wait = distribution(1, ms), distribution(1000, 3*ms)
			r.Throttling = causes.Throttling{Periods: 100, Throttled: 1, Time: ms}
		}), []string{"held back mostly by other threads and its own CPU quota: it was", "throttled in 1 of 100 periods, for 1 ms"}},
		"throttled": {with(func(r *causes.Reading) {
			r.Blocked, r.Wait = distribution(1, ms), distribution(1000, 3*ms)
			r.Throttling = causes.Throttling{Periods: 100, Throttled: 90, Time: 2900 * ms}
		}), []string{"web was held back mostly by its own CPU quota", "throttled in 90 of 100 periods, for 2.9 s", "75.0 %"}},
		"throttled, many at a time": {with(func(r *causes.Reading) {
			r.Blocked, r.Wait = distribution(1, ms), distribution(1000, 3*ms)
			r.Throttling = causes.Throttling{Periods: 48, Throttled: 39, Time: 900 * ms}
		}), []string{"web was held back mostly by its own CPU quota", "throttled in 39 of 48 periods"}},
		"unhindered": {with(func(r *causes.Reading) { r.Blocked, r.Wait = distribution(1, ms), distribution(1, ms) }), []string{"web was hardly kept from running", "99.9 %"}},
		"asleep": {with(func(r *causes.Reading) {
			r.CPUTime, r.Blocked, r.Wait = ms/10, distribution(0, 0), distribution(3, ms)
		}), []string{"web slept for most of 10 s", "wanted a CPU for 3.1 ms", "waited for one for 96.8 %"}},
		"idle": {with(func(r *causes.Reading) { *r = causes.Reading{Span: time.Second} }), []string{"did not run at all in 1 s"}},
		"unknown": {with(func(r *causes.Reading) {
			*r = causes.Reading{Span: time.Second, Absent: []causes.Absence{{Part: "switches", Reason: "the kernel has no BTF"}}}
		}), []string{"is unknown: the kernel has no BTF"}},
		"unknown but for the quota": {with(func(r *causes.Reading) {
			*r = causes.Reading{Span: time.Second, Throttling: causes.Throttling{Periods: 9, Throttled: 8, Time: ms}, Absent: []causes.Absence{{Part: "switches", Reason: "the kernel has no BTF"}}}
		}), []string{"throttled in 8 of 9 periods", "the kernel has no BTF"}},
	} {
		for _, words := range c.says {
			if got := c.of.Answer(); !strings.Contains(got, words) {
				t.Errorf("%s: it does not say %q: %s", name, words, got)
			}
		}
		rendered(t, c.of)
	}
}

func TestSheet(t *testing.T) {
	w := web()
	w.Notes = []string{"it ended after 9s of 10s"}
	w.Reading.Lost = 3
	w.Reading.Throttling = causes.Throttling{Periods: 100, Throttled: 3, Time: 10 * ms, Stale: 90 * ms}
	w.Reading.Absent = []causes.Absence{{Part: "interrupts", Reason: "no such tracepoint"}}
	screen, page := rendered(t, w)
	for _, words := range []string{
		"it ended after 9s", "full for 3 events", "at most 90 ms before that", "web (docker); it used 1 s of CPU time, on 2 of 2 CPUs",
		"burst 900 900 1.00", "migrations 12 1.20", "throttled periods 3", "of 100 periods in 10 s, 10 ms in all", "no work epoll_wait 800 17000 94.4", "disk pread64 100 1000 5.56",
		"17000 93.9 800 httpd, blocked: ep_poll ← do_epoll_wait ← __x64_sys_epoll_wait ← do_syscall_64 ← epoll_wait ← main", "100 0.55 100 httpd, preempted: irqentry_exit ← main",
		"interrupts no such tracepoint", "CPU time of the probe's programs, of one CPU: 0.500 %", "compared with the CPU time of the program: 5.00 %", "the kernel timed each", "tare causes web --for 60s",
	} {
		if !strings.Contains(screen, words) {
			t.Errorf("the screen does not say %q:\n%s", words, screen)
		}
	}
	for _, words := range []string{`class="flame"`, "blocked", "waiting for a CPU", "__x64_sys_epoll_wait"} {
		if !strings.Contains(page, words) {
			t.Errorf("the page does not show %q", words)
		}
	}
	w.Stacks, w.Reading.Off = false, nil
	screen, page = rendered(t, w)
	if !strings.Contains(screen, "--no-stacks") || strings.Contains(page, `class="flame"`) {
		t.Errorf("stacks that were turned off are shown, or that they are is not said:\n%s", screen)
	}
}

func TestNext(t *testing.T) {
	starving := func(r *causes.Reading) { r.Blocked, r.Wait = distribution(1, ms), distribution(1000, 3*ms) }
	process := web()
	process.Container = container.Container{Engine: container.Process, ID: "42", Name: "sh/42", PID: 42}
	hostile := web()
	hostile.Container = container.Container{Engine: container.Cgroup, Name: "$(id>x)"}
	for want, w := range map[string]*Watched{
		"tare causes '$(id>x)' --for 60s --out .": hostile,
		"tare causes web --for 60s --out .":       web(),
		"tare causes pid:42 --for 60s --out .":    process,
		"tare place --all":                        with(starving),
		"tare diagnose web": with(func(r *causes.Reading) {
			starving(r)
			r.Throttling = causes.Throttling{Periods: 2, Throttled: 2, Time: 3 * time.Second}
		}),
	} {
		if got := w.next(); len(got) != 1 || got[0] != want {
			t.Errorf("next is %q, want %q", got, want)
		}
	}
}

// A graph holds all the time off the CPU, each stack's in its kind, and no more.
func TestFlameHoldsAllTime(t *testing.T) {
	f, ok := Flame("off", web().Reading.Off)
	if !ok || f.Unit != "ms" || math.Abs(f.Root.Value-18100) > 1e-6 || len(f.Root.Children) != 2 {
		t.Fatalf("%v: %+v", ok, f.Root)
	}
	var check func(*report.Frame)
	check = func(frame *report.Frame) {
		sum := 0.0
		for _, c := range frame.Children {
			sum += c.Value
			if frame != f.Root && c.Kind != frame.Kind {
				t.Errorf("%s is %q below %s, which is %q", c.Name, c.Kind, frame.Name, frame.Kind)
			}
			check(c)
		}
		if len(frame.Children) > 0 && math.Abs(sum-frame.Value) > 1e-6 {
			t.Errorf("%s holds %g, and its children %g", frame.Name, frame.Value, sum)
		}
	}
	check(f.Root)
	// Callers come first: the program, then its main, which both of its stacks share.
	blocked := f.Root.Children[0]
	if main := blocked.Children[0].Children[0]; blocked.Name != "blocked" || main.Name != "main" || len(main.Children) != 2 {
		t.Errorf("%s, %s with %d callees", blocked.Name, main.Name, len(main.Children))
	}
	if f, ok = Flame("off", web().Reading.Off[:1]); !ok || f.Root.Name != "off the CPU, blocked" || f.Root.Children[0].Name != "httpd" {
		t.Errorf("one kind: %+v", f.Root)
	}
	if _, ok = Flame("off", nil); ok {
		t.Error("a graph of nothing")
	}
}

func TestEntries(t *testing.T) {
	for want, frames := range map[string][]string{
		"futex":        {"futex_wait_queue", "futex_wait", "do_futex", "__x64_sys_futex", "do_syscall_64", "[libc.so.6]"},
		"a page fault": {"io_schedule", "folio_wait_bit_common", "filemap_fault", "do_user_addr_fault", "exc_page_fault", "main"},
		"write":        {"anon_pipe_write", "vfs_write", "ksys_write", "do_syscall_64"},
		"kthread_wait": {"kthread_wait", "ret_from_fork"},
		"unknown":      nil,
	} {
		if got := entry(frames); got != want {
			t.Errorf("%v came by %q, want %q", frames, got, want)
		}
	}
}

func TestDocument(t *testing.T) {
	d := web().Document(record.Host{Hostname: "host"})
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var again Document
	if err := json.Unmarshal(text, &again); err != nil || !reflect.DeepEqual(d.Reading, again.Reading) || again.Schema != Schema || len(again.Blocked) != 2 || again.Blocked[1].Through != "epoll_wait" || again.Target.Name != "web" {
		t.Errorf("%v: %s", err, text)
	}
}
