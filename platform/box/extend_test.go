package box

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/control"
	"tare/container"
	"tare/kernel/cgroup"
	"tare/kernel/process"
	"tare/platform"
)

// fakeVariable says how a fake daemon, which is this very program, behaves.
const fakeVariable = "TARE_TEST_ANNEXD"

// fakeDaemon speaks the socket as annexd does, and moves nothing.
type fakeDaemon struct {
	control.Daemon // nil: nothing but the status is asked for
	config         string
	state          control.State
	asked          atomic.Int64
	dieAt          int64 // the status, from 1, at which it ends; 0 is never
}

func (d *fakeDaemon) Status() control.Status {
	n := d.asked.Add(1)
	if d.dieAt > 0 && n >= d.dieAt {
		fmt.Fprintln(os.Stderr, "the fake has had enough")
		os.Exit(7)
	}
	share := 0.5
	return control.Status{
		Schema: control.Schema, State: d.state, PID: os.Getpid(), Config: d.config,
		Moved:  control.Moved{EvictedBytes: 10 * n * annex.PageSize, FetchedBytes: 4 * n * annex.PageSize, WastedBytes: n * annex.PageSize, Failed: 2},
		Weight: control.Weight{CPUSeconds: float64(n) / 100, ResidentBytes: 20 << 20},
		Contexts: []control.Context{
			{Class: annex.Critical, Predictors: []control.Score{{Kind: "record", PrecisionShare: 0, Predictions: 100}}},
			{Class: annex.Elastic, HitShare: &share, Predictors: []control.Score{{Kind: "record", PrecisionShare: 1, RecallShare: 0.5, LeadSeconds: 2, Predictions: 10}, {Kind: "intervals"}}},
			{Class: annex.Elastic, Predictors: []control.Score{{Kind: "record", PrecisionShare: 0.5, RecallShare: 0.5, LeadSeconds: 1, Predictions: 30}}},
		},
		Warnings: []string{"swap is slow"},
	}
}

func fake(behaviour string) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	if len(os.Args) != 3 || os.Args[1] != "--config" {
		return fail(fmt.Errorf("called with %q", os.Args[1:]))
	}
	c, err := config.Load(os.Args[2])
	if err != nil {
		return fail(err)
	}
	d := &fakeDaemon{config: os.Args[2], state: control.Managing}
	switch behaviour {
	case "refuses":
		return fail(errors.New("there is another annexd"))
	case "dies":
		d.dieAt = 3
	case "observes":
		d.state = control.Observing
	}
	l, err := control.Listen(c.Control.Socket)
	if err != nil {
		return fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := control.Serve(ctx, l, d); err != nil && ctx.Err() == nil {
		return fail(err)
	}
	return 0
}

// faked is a program that behaves so.
func faked(t *testing.T, behaviour string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), Extender)
	script := fmt.Sprintf("#!/bin/sh\nexport %s=%s\nexec %s \"$@\"\n", fakeVariable, behaviour, self)
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return program
}

// extendedSpec is a small box with an extension.
func extendedSpec(t *testing.T) platform.BoxSpec {
	t.Helper()
	s := spec(t, platform.SwapFile)
	s.Memory, s.Extend = 64<<20, platform.ExtendAnnex
	s.SwapSize -= 448 << 20
	return s
}

func TestConfigurationIsTheBoxes(t *testing.T) {
	s := plain
	s.Memory, s.Extend = 512<<20, platform.ExtendAnnex
	configured := func(s platform.BoxSpec, dir string) config.Config {
		c, err := configuration(s, dir)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := configured(s, "/state/annex/box-1")
	read, err := config.Parse("test", []byte(c.String()))
	if err != nil {
		t.Fatal(err)
	}
	if read.String() != c.String() {
		t.Errorf("written and read it is\n%s\nnot\n%s", read.String(), c.String())
	}
	if read.Mode != config.Manage || read.Memory.Defend != "/tare/box-1" || read.Memory.Headroom != 32<<20 || read.Memory.High != 48<<20 || read.Memory.Reserve != 8<<20 {
		t.Errorf("%+v", read.Memory)
	}
	for _, file := range []string{read.Control.Socket, read.Log.File, read.State.Directory} {
		if !strings.HasPrefix(file, "/state/annex/box-1/") {
			t.Errorf("%s is not in the box's directory", file)
		}
	}
	for group, want := range map[string]annex.Class{
		"/sys/fs/cgroup/memory/tare/box-1/critical/shop-1": annex.Critical,
		"/sys/fs/cgroup/memory/tare/box-1/idle/static-7":   annex.Elastic,
		"/sys/fs/cgroup/memory/tare/box-12/idle/static-7":  annex.Ignored,
		"/sys/fs/cgroup/memory/docker/0123":                annex.Ignored,
	} {
		if got := read.Class(container.Container{Cgroup: group}); got != want {
			t.Errorf("%s is %s, want %s", group, got, want)
		}
	}
	s.Kind = platform.BoxMachine
	if got := configured(s, "/state").Memory.Defend; got != config.Host {
		t.Errorf("a machine's box defends %q", got)
	}
	if c := configured(plain, "/state"); c.Memory.Headroom != Headroom(1<<30) {
		t.Errorf("of 1 GiB the headroom is %d", c.Memory.Headroom)
	}
	// What a file says is kept, but for what is the box's own.
	usual := configured(s, "/state")
	s.ExtendConfig = "mode = \"observe\"\n[memory]\nheadroom = \"1GiB\"\n[scan]\nleast = \"9s\"\n"
	if c := configured(s, "/state"); c.Scan.Least != 9*time.Second || c.Mode != config.Manage || c.Memory != usual.Memory {
		t.Errorf("given an interval of scans: %+v", c)
	}
	s.ExtendConfig = "[scan]\nlest = 1\n"
	if _, err := configuration(s, "/state"); err == nil || !strings.Contains(err.Error(), "did you mean least?") {
		t.Errorf("a key that is none: %v", err)
	}
}

func TestExtensionsThatCannotBe(t *testing.T) {
	s := plain
	s.Extend = "prayer"
	if err := valid(s); !errors.As(err, new(*Invalid)) {
		t.Errorf("%v, want an *Invalid", err)
	}
	s.Extend, s.Swap, s.SwapSize = platform.ExtendAnnex, platform.SwapNone, 0
	if err := valid(s); !errors.As(err, new(*Invalid)) || !strings.Contains(err.Error(), "swap") {
		t.Errorf("without swap: %v, want an *Invalid", err)
	}
	s = plain
	s.Extend = platform.ExtendAnnex
	if err := New(Options{StateDir: "/" + strings.Repeat("x", 100), Extender: "/bin/true"}).extendable(s); !errors.As(err, new(*Invalid)) {
		t.Errorf("a socket that is too long: %v, want an *Invalid", err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := New(Options{StateDir: "/s"}).extendable(s); !errors.As(err, new(*platform.Missing)) || !strings.Contains(err.Error(), "annexd") {
		t.Errorf("%v, want a *platform.Missing", err)
	}
}

func TestAProgramIsFound(t *testing.T) {
	beside, onPath := t.TempDir(), t.TempDir()
	self := func() (string, error) { return filepath.Join(beside, "tare"), nil }
	t.Setenv("PATH", "relative:"+onPath)
	lay := func(dir string, mode os.FileMode) string {
		program := filepath.Join(dir, Extender)
		if err := os.WriteFile(program, nil, mode); err != nil {
			t.Fatal(err)
		}
		return program
	}
	if got, err := findProgram(Extender, self); err == nil {
		t.Errorf("found %s, which is nowhere", got)
	}
	lay(beside, 0o600) // no program
	want := lay(onPath, 0o700)
	if got, err := findProgram(Extender, self); got != want {
		t.Errorf("found %q (%v), want %s", got, err, want)
	}
	if err := os.Remove(filepath.Join(beside, Extender)); err != nil {
		t.Fatal(err)
	}
	want = lay(beside, 0o700)
	if got, err := findProgram(Extender, self); got != want {
		t.Errorf("found %q (%v), want %s", got, err, want)
	}
}

// A status is read as what a box tells.
func TestExtensionReading(t *testing.T) {
	d := &fakeDaemon{}
	r := extensionReading(d.Status())
	if r.Evicted != 10 || r.Fetched != 4 || r.Untouched != 1 || r.Errors != 2 || r.Contexts != 2 || r.CPU != 10*time.Millisecond {
		t.Errorf("%+v", r)
	}
	want := platform.PredictorReading{Precision: 0.625, Recall: 0.5, Lead: 1250 * time.Millisecond, Predicted: 40}
	if len(r.Predictors) != 1 || r.Predictors["record"] != want {
		t.Errorf("%+v, want %+v of elastic ones alone", r.Predictors, want)
	}
}

// The daemon is there for as long as the box is, outside of it and among ordinary
// programs, and nothing of it is left.
func TestAnExtendedBox(t *testing.T) {
	state := stateDirectory(t)
	m := New(Options{StateDir: state, Ledger: runLedger, Extender: faked(t, "ok")})
	s := extendedSpec(t)
	b := made(t, m, s)
	first, second := read(t, b), read(t, b)
	if first.Extension == nil || second.Extension == nil || second.Extension.Evicted <= first.Extension.Evicted || second.Extension.Contexts != 2 {
		t.Fatalf("%+v, then %+v", first.Extension, second.Extension)
	}
	if !strings.Contains(strings.Join(first.Notes, "\n"), "annexd: swap is slow") {
		t.Errorf("its warnings are not among %q", first.Notes)
	}
	dir := m.extension(s.Name)
	id := daemonOf(t, dir)
	layout, err := cgroup.Host()
	if err != nil {
		t.Fatal(err)
	}
	group, _, err := layout.Of(id.PID)
	if err != nil {
		t.Fatal(err)
	}
	whole := "/" + path.Join(platform.CgroupParent, s.Name)
	for _, p := range group.Places {
		if within(p.Path, whole) {
			t.Errorf("the daemon is in the box: %s", p.Dir())
		}
	}
	own, weighed := extenderGroup(layout, s.Name)
	if place, _ := group.For("cpu"); weighed && place.Path != own.Places[0].Path {
		t.Errorf("on the processors it is weighed in %s, and not in a group of its own", place.Dir())
	}
	class, err := process.ClassOf(id.PID)
	if err != nil {
		t.Fatal(err)
	}
	if class.RealTime() {
		t.Errorf("the daemon is of class %s", class)
	}
	remove(t, b)
	gone(t, dir, id)
}

func TestADaemonThatRefuses(t *testing.T) {
	state := stateDirectory(t)
	s := extendedSpec(t)
	found := surroundings(t, state, s)
	m := New(Options{StateDir: state, Ledger: runLedger, Extender: faked(t, "refuses")})
	_, err := m.Make(t.Context(), s)
	if missing := new(platform.Missing); errors.As(err, &missing) {
		t.Skip(err)
	}
	if err == nil || !strings.Contains(err.Error(), "annexd has ended: exit status 3: there is another annexd") {
		t.Errorf("%v, want why it ended", err)
	}
	if left := surroundings(t, state, s); left != found {
		t.Errorf("found:\n%s\nleft:\n%s", found, left)
	}
	gone(t, m.extension(s.Name), process.Identity{})
}

// A box that has lost its extension is reported as what it is: neither a stock one, nor in
// danger.
func TestADaemonThatDies(t *testing.T) {
	state := stateDirectory(t)
	for behaviour, want := range map[string]string{"dies": "annexd has ended: exit status 7: the fake has had enough", "observes": "observing, and not managing"} {
		m := New(Options{StateDir: state, Ledger: runLedger, Extender: faked(t, behaviour)})
		s := extendedSpec(t)
		b := made(t, m, s)
		if behaviour == "dies" {
			read(t, b) // the second that it was asked for: ready was the first
		}
		r, err := b.Read(t.Context())
		if err == nil || errors.As(err, new(*platform.Endangered)) || !strings.Contains(err.Error(), want) || !strings.Contains(strings.Join(r.Notes, "\n"), want) || r.Extension != nil {
			t.Errorf("%s: %v, notes %q; want %q in both", behaviour, err, r.Notes, want)
		}
		if len(r.Classes) == 0 {
			t.Errorf("%s: nothing else is reported", behaviour)
		}
		remove(t, b)
		gone(t, m.extension(s.Name), process.Identity{})
	}
}

// One that does not end when it is asked to is killed.
func TestAProcessThatDoesNotEnd(t *testing.T) {
	ready, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", "trap '' TERM; echo >&3; while :; do sleep 60; done")
	cmd.ExtraFiles = []*os.File{end}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() { waited <- cmd.Wait() }()
	_ = end.Close()
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	id, err := process.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := endProcess(t.Context(), id, 50*time.Millisecond); err != nil {
		t.Error(err)
	}
	err = <-waited
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("it ended by %v", err)
	}
	if err := endProcess(t.Context(), id, time.Second); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
	if group, err := os.FindProcess(-cmd.Process.Pid); err == nil {
		_ = group.Signal(syscall.SIGKILL) // its sleep
	}
}

func TestRemoverLeavesOthersDirectoriesAlone(t *testing.T) {
	r := remover{stateDir: "/state"}
	for _, dir := range []string{"/etc", "/state/annex", "/state/annex/../swap", "/state/annex/a/b", "/state/annex/.x", "/other/annex/box-1"} {
		if err := r.Remove(t.Context(), platform.Entry{Kind: kindExtension, ID: dir}); err == nil || !strings.Contains(err.Error(), "left alone") {
			t.Errorf("%s: %v", dir, err)
		}
	}
	// A pid file is distinguished from a later process with its number.
	state := t.TempDir()
	dir := filepath.Join(state, extendDirectory, "box-1")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, pidFile), fmt.Appendf(nil, "%d 1\n", os.Getpid()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (remover{stateDir: state}).Remove(t.Context(), platform.Entry{Kind: kindExtension, ID: dir}); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Dir(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left %s: %v", dir, err)
	}
}

// Spec and reading go through JSON, as an agent's do.
func TestExtendedSpecsTravel(t *testing.T) {
	s := extendedSpec(t)
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back platform.BoxSpec
	if err := json.Unmarshal(text, &back); err != nil || back != s {
		t.Errorf("%+v (%v), want %+v", back, err, s)
	}
	s.Extend = platform.ExtendNone
	if text, _ := json.Marshal(s); bytes.Contains(text, []byte("extend")) {
		t.Errorf("%s: an agent of before knows no extension", text)
	}
}

// daemonOf is who the pid file names, and lives.
func daemonOf(t *testing.T, dir string) process.Identity {
	t.Helper()
	id, err := daemonIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	if now, err := process.Identify(id.PID); err != nil || now != id {
		t.Fatalf("process %d is %v, %v", id.PID, now, err)
	}
	return id
}

func daemonIn(dir string) (process.Identity, error) {
	text, err := os.ReadFile(filepath.Join(dir, pidFile))
	if err != nil {
		return process.Identity{}, err
	}
	pid, start, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	return process.ParseIdentity(pid, start)
}

// gone tells that nothing of an extension is left.
func gone(t *testing.T, dir string, id process.Identity) {
	t.Helper()
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", dir, err)
	}
	if id.PID == 0 {
		return
	}
	if now, err := process.Identify(id.PID); err == nil && now == id {
		t.Errorf("its daemon %d is left", id.PID)
	}
}
