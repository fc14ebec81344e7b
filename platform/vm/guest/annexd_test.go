package guest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/kernel/memory"
	"tare/kernel/procfs"
)

// holdVariable makes this test's program one that has so many bytes of memory, and says whether
// they are whole in the file named by the variable after it, at each SIGUSR1.
const (
	holdVariable   = "TARE_TEST_HOLD"
	answerVariable = "TARE_TEST_ANSWER"
)

func hold() error {
	size, err := strconv.Atoi(os.Getenv(holdVariable))
	if err != nil {
		return err
	}
	m, err := memory.MapAnonymous(size)
	if err != nil {
		return err
	}
	if err := m.SmallPages(); err != nil {
		return err
	}
	word := func(i int) uint64 { return uint64(i)*0x9e3779b97f4a7c15 | 1 }
	words := m.Words()
	for i := range words {
		words[i] = word(i)
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	answer := "filled"
	for {
		part := os.Getenv(answerVariable) + ".part"
		if err := os.WriteFile(part, []byte(answer), 0o644); err != nil {
			return err
		}
		if err := os.Rename(part, os.Getenv(answerVariable)); err != nil {
			return err
		}
		<-asked
		answer = "whole"
		for i := range words {
			if words[i] != word(i) {
				answer = fmt.Sprintf("word %d is another", i)
			}
		}
	}
}

const annexdConfig = `version = 1
mode = "manage"
[memory]
defend = "/box.slice"
headroom = "80MiB"
high = "84MiB"
reserve = "4MiB"
[[rule]]
class = "critical"
cgroup = "/box.slice/critical.service"
[[rule]]
class = "elastic"
cgroup = "/box.slice/*.service"
[[rule]]
class = "elastic"
cgroup = "/box.slice/box-late.slice/*"
`

const multiGenerational = "/sys/kernel/mm/lru_gen/enabled"

// underSystemd is annexd by its shipped unit, where systemd owns all control groups.
type underSystemd struct{ *testing.T }

// annexdUnderSystemd runs in the guest.
func annexdUnderSystemd(t *testing.T) {
	u := underSystemd{t}
	u.install()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(u.try("journalctl", "-u", "annexd", "--no-pager", "-o", "short-monotonic"))
		}
	})
	said := u.try("systemd-analyze", "verify", "/etc/systemd/system/annexd.service")
	if strings.Contains(said, "annexd") {
		t.Errorf("systemd of the unit: %s", said)
	}
	before := u.leftovers()
	u.program("critical", "box.slice", 24<<20)
	u.program("idle", "box.slice", 32<<20)
	low, settings := u.low(), u.settings()

	u.do("systemctl", "start", "annexd")
	managed := func(s annexStatus) bool { return s.State == "managing" && s.out("idle") > 4<<20 && u.low() != low }
	s := u.await("memory in swap, and the critical program protected", managed)
	t.Logf("it warns: %q", s.Warnings)
	u.do("systemctl", "reload", "annexd")

	// A slice that was not there when it began.
	u.program("late", "box-late.slice", 24<<20)
	u.await("the late one managed", func(s annexStatus) bool { return s.out("late") > 1<<20 })

	// The kernel's other way of finding pages to reclaim, where it has two.
	if was, err := os.ReadFile(multiGenerational); err == nil {
		now := "y"
		if strings.TrimSpace(string(was)) != "0x0000" {
			now = "n"
		}
		if err := os.WriteFile(multiGenerational, []byte(now), 0); err != nil {
			t.Error(err)
		}
		u.program("other", "box.slice", 16<<20)
		s := u.await("another managed", func(s annexStatus) bool { return s.out("other") > 1<<20 })
		t.Logf("%s was %sand is %s: %d bytes are in swap", multiGenerational, was, now, s.out("other"))
	}

	// systemd sets the groups of its units to what these say, whenever it reads them anew.
	u.maskGenerators()
	protection := u.low()
	reloads := 3
	if os.Getenv(wholeVariable) != "" {
		reloads = 100 // of some seconds each, where it is emulated
	}
	s = u.await("status before the reloads", func(s annexStatus) bool { return s.State == "managing" })
	known, began := s.names(), time.Now()
	files, watches, memory := u.held()
	lapses := u.watchLow(protection)
	for range reloads {
		u.do("systemctl", "daemon-reload")
		u.await("protection of "+protection+" after systemd has read its units anew",
			func(annexStatus) bool { return u.low() == protection })
	}
	u.Logf("%d reloads took %v; %s", reloads, time.Since(began), lapses())
	s = u.await("all containers protected after systemd has read its units anew", func(s annexStatus) bool {
		return s.State == "managing" && u.low() == protection && slices.Equal(s.names(), known)
	})
	filesNow, watchesNow, memoryNow := u.held()
	u.Logf("annexd has %d, %d and then %d, %d open files and watches, %d and then %d KiB",
		files, watches, filesNow, watchesNow, memory, memoryNow)
	// A connection comes and goes, and the collector leaves some memory for later.
	if filesNow > files+2 || watchesNow > watches || memoryNow > memory+16<<10 {
		t.Error("annexd has grown")
	}
	if s.PID != u.mainPID() {
		t.Errorf("process %d answers, and the unit's is %d", s.PID, u.mainPID())
	}
	t.Logf("after the reloads it warns: %q", s.Warnings)

	// Killed, also as by the watchdog (ABRT), it is restarted, and what it changed is put back in
	// between, or taken over.
	for i, signal := range []string{"KILL", "ABRT"} {
		killed := u.mainPID()
		u.do("systemctl", "kill", "--signal="+signal, "--kill-whom=main", "annexd")
		u.await("managing again after "+signal, func(s annexStatus) bool { return s.PID != killed && managed(s) })
		if n := u.property("NRestarts"); n != strconv.Itoa(i+1) {
			t.Errorf("after %s: it was restarted %s times, want %d", signal, n, i+1)
		}
	}

	u.do("systemctl", "stop", "annexd")
	if result, state := u.property("Result"), u.property("ActiveState"); result != "success" || state != "inactive" {
		t.Errorf("it ended %s, and is %s", result, state)
	}
	if now := u.settings(); now != settings {
		t.Errorf("settings are\n%s\nand were\n%s", now, settings)
	}
	for _, name := range []string{"critical", "idle", "late", "other"} {
		if answer := u.ask(name); answer != "whole" {
			t.Errorf("%s: %s", name, answer)
		}
		u.do("systemctl", "stop", name)
	}
	u.do("systemctl", "stop", "box.slice") // systemd keeps an empty one
	if after := u.leftovers(); after != before {
		t.Errorf("left behind:\n%s\nbefore:\n%s", after, before)
	}
	u.complaints()
}

// install does what make install and the quick start do.
func (u underSystemd) install() {
	u.Helper()
	if err := os.MkdirAll("/usr/local/bin", 0o755); err != nil {
		u.Fatal(err)
	}
	for _, name := range []string{"annexd", "annex"} {
		install(u.T, filepath.Join(programsAt, name), "/usr/local/bin/"+name)
	}
	copyText := func(to, text string) {
		err := os.MkdirAll(filepath.Dir(to), 0o755)
		if err == nil {
			err = os.WriteFile(to, []byte(text), 0o644)
		}
		if err != nil {
			u.Fatal(err)
		}
	}
	unit, err := os.ReadFile(filepath.Join(programsAt, "annexd.service"))
	if err != nil {
		u.Fatal(err)
	}
	copyText("/etc/systemd/system/annexd.service", string(unit))
	// Its memory is to be what it uses: by default garbage may be four times that.
	copyText("/etc/systemd/system/annexd.service.d/memory.conf", "[Service]\nEnvironment=GOGC=50\n")
	copyText("/etc/systemd/system/box.slice", "[Slice]\nMemoryMax=128M\n")
	copyText("/etc/annex/annex.toml", annexdConfig)
	u.do("sh", "-c", "fallocate -l 512M /swap && chmod 600 /swap && mkswap -q /swap && swapon /swap")
	u.Cleanup(func() { u.do("swapoff", "/swap") })
	u.do("systemctl", "daemon-reload")
}

// maskGenerators spares each of systemd's reloads a dozen programs, which take seconds where they
// are emulated. What started this test stays.
func (u underSystemd) maskGenerators() {
	u.Helper()
	all, err := filepath.Glob("/usr/lib/systemd/system-generators/*")
	if err == nil {
		err = os.MkdirAll("/etc/systemd/system-generators", 0o755)
	}
	for _, name := range all {
		if !strings.HasSuffix(name, "run-generator") {
			err = errors.Join(err, os.Symlink("/dev/null", "/etc/systemd/system-generators/"+filepath.Base(name)))
		}
	}
	if err != nil {
		u.Fatal(err)
	}
}

// program starts a service that has memory, in a slice.
func (u underSystemd) program(name, slice string, size int) {
	u.Helper()
	_ = os.Remove(u.answer(name))
	u.do("systemd-run", "--quiet", "--unit="+name, "--slice="+slice, fmt.Sprintf("--setenv=%s=%d", holdVariable, size),
		fmt.Sprintf("--setenv=%s=%s", answerVariable, u.answer(name)), programsAt+"/test")
	u.until(name+" filled", func() bool { return u.said(name) == "filled" })
}

func (u underSystemd) answer(name string) string { return "/run/answer-" + name }

func (u underSystemd) said(name string) string {
	text, _ := os.ReadFile(u.answer(name))
	return string(text)
}

// ask has a program check its memory.
func (u underSystemd) ask(name string) string {
	u.Helper()
	_ = os.Remove(u.answer(name))
	u.do("systemctl", "kill", "--signal=USR1", name)
	u.until(name+" checked", func() bool { return u.said(name) != "" })
	return u.said(name)
}

func (u underSystemd) until(what string, such func() bool) {
	u.Helper()
	for end := time.Now().Add(bound); !such(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			u.Fatalf("not within %v: %s", bound, what)
		}
	}
}

func (u underSystemd) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	u.Cleanup(cancel)
	return exec.CommandContext(ctx, args[0], args[1:]...)
}

func (u underSystemd) try(args ...string) string {
	out, err := u.command(args...).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s%v", out, err)
	}
	return string(out)
}

func (u underSystemd) do(args ...string) {
	u.Helper()
	if out, err := u.command(args...).CombinedOutput(); err != nil {
		u.Fatalf("%q: %v\n%s", args, err, out)
	}
}

func (u underSystemd) property(name string) string {
	return strings.TrimSpace(u.try("systemctl", "show", "--value", "--property="+name, "annexd"))
}

func (u underSystemd) mainPID() int {
	pid, err := strconv.Atoi(u.property("MainPID"))
	if err != nil {
		u.Fatal(err)
	}
	return pid
}

// held is what annexd has of the host: open files, what it watches, and memory in KiB.
func (u underSystemd) held() (files, watches, memory int) {
	u.Helper()
	process := procfs.Host.Process(u.mainPID())
	all, err := filepath.Glob(process.Path("fdinfo/*"))
	if err != nil || len(all) == 0 {
		u.Fatalf("annexd's open files: %q, %v", all, err)
	}
	for _, name := range all {
		text, _ := os.ReadFile(name) // some are closed meanwhile
		watches += strings.Count(string(text), "inotify wd:")
	}
	text, err := os.ReadFile(process.Path("status"))
	_, after, found := strings.Cut(string(text), "RssAnon:")
	if _, scan := fmt.Sscan(after, &memory); err != nil || !found || scan != nil {
		u.Fatalf("annexd's memory: %v, %v", err, scan)
	}
	return len(all), watches, memory
}

// low is how much of the critical program's memory the kernel protects, and of the slice around it.
func (u underSystemd) low() string {
	var all []string
	for _, group := range []string{"box.slice", "box.slice/critical.service"} {
		text, err := os.ReadFile("/sys/fs/cgroup/" + group + "/memory.low")
		if err != nil {
			return err.Error()
		}
		all = append(all, strings.TrimSpace(string(text)))
	}
	return strings.Join(all, " ")
}

// watchLow looks all the time whether memory.low is as it is to be, until it is asked how often
// and for how long it was not.
func (u underSystemd) watchLow(want string) (lapses func() string) {
	done, said := make(chan struct{}), make(chan string)
	go func() {
		var count int
		var longest time.Duration
		var since time.Time
		for {
			switch holds := u.low() == want; {
			case holds && !since.IsZero():
				count, longest, since = count+1, max(longest, time.Since(since)), time.Time{}
			case !holds && since.IsZero():
				since = time.Now()
			}
			select {
			case <-done:
				said <- fmt.Sprintf("memory.low was another %d times, for %v at most", count, longest)
				return
			case <-time.After(5 * time.Millisecond): // a group's file has no event
			}
		}
	}()
	return func() string { close(done); return <-said }
}

// settings are all that annexd may change of the groups that are there from the beginning, and of the
// kernel.
func (u underSystemd) settings() string {
	u.Helper()
	var all strings.Builder
	var files []string
	for _, pattern := range []string{
		"/sys/fs/cgroup/box.slice/memory.*", "/sys/fs/cgroup/box.slice/critical.service/memory.*",
		"/sys/fs/cgroup/box.slice/idle.service/memory.*", "/proc/sys/vm/*",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			u.Fatalf("%s: %q, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil || info.Mode()&0o200 == 0 || slices.Contains([]string{".pressure", ".peak"}, filepath.Ext(file)) {
			continue // no setting
		}
		if text, err := os.ReadFile(file); err == nil { // some can only be written
			fmt.Fprintf(&all, "%s: %s", file, text)
		}
	}
	return all.String()
}

// annexStatus is what of annex's status this test looks at.
type annexStatus struct {
	State    string
	PID      int
	Warnings []string
	Contexts []struct {
		Name, Class, Problem string
		ExtendedBytes        int64 `json:"extended_bytes"`
	}
}

func (s annexStatus) names() (names []string) {
	for _, c := range s.Contexts {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return names
}

func (s annexStatus) out(name string) (bytes int64) {
	for _, c := range s.Contexts {
		if strings.Contains(c.Name, name) {
			bytes = c.ExtendedBytes
		}
	}
	return bytes
}

func (u underSystemd) await(what string, such func(annexStatus) bool) annexStatus {
	u.Helper()
	var s annexStatus
	var said string
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		out, err := u.command("annex", "status", "--json").Output()
		s = annexStatus{}
		if said = string(out); err == nil && json.Unmarshal(out, &s) == nil && such(s) {
			return s
		}
	}
	u.Fatalf("not within %v: %s; memory.low is %s; its status: %s", bound, what, u.low(), said)
	return s
}

// leftovers are the groups that there are, annexd's processes and mounts, and what it keeps.
func (u underSystemd) leftovers() string {
	u.Helper()
	var all strings.Builder
	err := filepath.WalkDir("/sys/fs/cgroup", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (strings.Contains(name, "annex") || strings.Contains(name, "box")) {
			fmt.Fprintln(&all, name)
		}
		return nil // others' groups come and go
	})
	if err != nil {
		u.Fatal(err)
	}
	all.WriteString(u.try("sh", "-c",
		"ps -eo comm | grep annex; grep annex /proc/self/mounts; ls -A /run/annex/journal 2>/dev/null; true"))
	return all.String()
}

// complaints looks for what systemd or the kernel say of the unit.
func (u underSystemd) complaints() {
	u.Helper()
	for line := range strings.Lines(u.try("journalctl", "--no-pager", "-o", "short-monotonic", "-p", "warning")) {
		if strings.Contains(line, "annex") && !strings.Contains(line, "KILL") && !strings.Contains(line, "ABRT") && !strings.Contains(line, "result 'signal'") {
			u.Errorf("the journal warns: %s", line)
		}
	}
}
