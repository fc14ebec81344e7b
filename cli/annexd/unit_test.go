package annexd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/annex"
	"tare/annex/annextest"
	"tare/annex/bound"
	"tare/annex/control"
	"tare/annex/guard"
	"tare/annex/monitor"
	"tare/cli/command"
	"tare/kernel/cgroup"
	"tare/kernel/process/calltest"
	"tare/kernel/swap/swaptest"
)

// This test binary is annexd, its guard, and a program that has memory, too.
const (
	annexdVariable = "TARE_ANNEXD_TEST_RUN"
	callsVariable  = "TARE_ANNEXD_TEST_CALLS"
)

func TestMain(m *testing.M) {
	if code, ours := guard.Main(os.Args); ours {
		os.Exit(code)
	}
	if calls := os.Getenv(callsVariable); calls != "" {
		if err := calltest.AllowOnly(strings.Fields(calls)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if os.Getenv(annexdVariable) != "" {
		os.Exit(Main(os.Args))
	}
	if code, ours := annextest.Main(); ours {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// A group's name may hold anything, and is printed as a name; what of a container will not work
// is told before anything is begun.
func TestCheckOfRealGroups(t *testing.T) {
	defended, _ := annextest.Box(t, "annexd", 64<<20).For("memory")
	name := fmt.Sprintf("tare-annexd-check-%d", os.Getpid())
	place := defended
	place.Path = "/lxc.payload." + name + "-\x1b[2J"
	g := cgroup.Group{Places: []cgroup.Place{place}} // and in no hierarchy besides
	if err := g.Create("memory"); err != nil {
		t.Skip(err)
	}
	sleeper := exec.Command("sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
		if err := g.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := g.Add(sleeper.Process.Pid); err != nil {
		t.Fatal(err)
	}
	for class, says := range map[string]string{
		"elastic":  "outside of " + defended.Path + ": not managed",
		"critical": "pressure on the critical container " + name + `-\u001b[2J is not known`,
	} {
		if class == "critical" && defended.Version == 2 {
			continue // it is known
		}
		path := write(t, fmt.Sprintf("[memory]\ndefend = %q\nheadroom = \"8MiB\"\n[[rule]]\nclass = %q\nname = \"%s*\"\n", defended.Path, class, name))
		code, stdout, stderr := annexd(t, "--check", "--config", path)
		if code != command.Success || !strings.Contains(stdout+stderr, says) || !strings.Contains(stdout, name+`-\u001b[2J`) || strings.Contains(stdout+stderr, "\x1b") {
			t.Errorf("%s: code %d, want %q:\n%q\n%q", class, code, says, stdout, stderr)
		}
	}
}

// settings are those of contrib/annexd.service, by key.
func settings(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../contrib/annexd.service")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^([A-Za-z]+)=(.*)$`).FindAllStringSubmatch(string(text), -1) {
		all[m[1]] = strings.TrimSpace(all[m[1]] + " " + m[2])
	}
	return all
}

// held are the settings to which the sandbox below holds a program, and what it knows of
// each; the others of systemd.exec(5) that confine it are seccomp's, or take systemd.
var held = map[string]string{
	"ProtectSystem": "strict", "ProtectHome": "read-only", "PrivateTmp": "yes", "NoNewPrivileges": "yes", "ProtectHostname": "yes",
	"CapabilityBoundingSet": "", "ReadWritePaths": "", "SystemCallFilter": "", "SystemCallErrorNumber": "EPERM",
	"RuntimeDirectory": "", "StateDirectory": "", "LogsDirectory": "", "ConfigurationDirectory": "", "UMask": "",
}

// notHeld are those that it cannot hold it to.
var notHeld = []string{
	"ProtectKernelModules", "MemoryDenyWriteExecute", "LockPersonality", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID",
	"SystemCallArchitectures", "RestrictAddressFamilies", "IPAddressAllow", "IPAddressDeny",
	"LimitMEMLOCK", "MemorySwapMax", "MemoryMin", "OOMScoreAdjust", "OOMPolicy",
}

// confined runs a program with the file system, capabilities and privileges that the unit
// leaves it, but for directories of its own that lie elsewhere. By a shell, since what it
// does is what an administrator would: a mount namespace in which all is read only but
// /dev, /proc, /sys and those directories. What others have mounted below /tmp is hidden
// there, and a mount elsewhere may end while it goes through them.
const confined = `set -e
umask "$UNIT_UMASK"
mount --make-rprivate /
mkdir -p "$OWN/swap"
mount --bind "$SWAP" "$OWN/swap"
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /var/tmp
mkdir -p "$SWAP"
mount --move "$OWN/swap" "$SWAP"
findmnt -rno TARGET | while read -r at; do
	case $at in
	/dev | /dev/* | /proc | /proc/* | /sys | /sys/* | /tmp | /tmp/* | /var/tmp | /var/tmp/*) ;;
	*) mount -o remount,bind,ro "$at" || if mountpoint -q "$at"; then exit 1; fi ;;
	esac
done
mount -o remount,bind,ro "$SWAP"
for at in $WRITABLE; do
	mount --bind "$at" "$at"
	mount -o remount,bind,rw "$at"
done
exec setpriv --no-new-privs --inh-caps=-all --bounding-set="$CAPABILITIES" "$@"
`

// confine makes the command that runs annexd so.
func confine(t *testing.T, unit map[string]string, own, swapFile string, writable []string, args ...string) *exec.Cmd {
	t.Helper()
	for _, tool := range []string{"unshare", "setpriv", "findmnt", "mount", "mountpoint"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s: apt-get install util-linux mount", tool)
		}
	}
	capabilities := "-all"
	for _, name := range strings.Fields(unit["CapabilityBoundingSet"]) {
		capabilities += ",+" + strings.ToLower(strings.TrimPrefix(name, "CAP_"))
	}
	cmd := exec.Command("unshare", append([]string{"--mount", "--uts", "sh", "-c", confined, "sh"}, args...)...)
	cmd.Env = append(os.Environ(), annexdVariable+"=1", "OWN="+own, "SWAP="+filepath.Dir(swapFile), "CAPABILITIES="+capabilities,
		"WRITABLE="+strings.Join(writable, " "), "UNIT_UMASK="+unit["UMask"],
		callsVariable+"="+strings.Join(allowedCalls(t, unit["SystemCallFilter"]), " "))
	return cmd
}

// status is what /proc tells of a process.
func status(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The daemon manages, protects, reloads and puts back with no more than its unit leaves it,
// and lacks nothing there that it has outside.
func TestUnitLeavesWhatIsNeeded(t *testing.T) {
	unit := settings(t)
	for key, value := range unit {
		confines := regexp.MustCompile(`^(Protect|Private|Restrict|Capability|NoNew|ReadWrite|ReadOnly|Inaccessible|SystemCall|Memory|Lock|IPAddress|.*Directory$)`).MatchString(key)
		want, known := held[key]
		if confines && !known && !slices.Contains(notHeld, key) || want != "" && value != want {
			t.Errorf("this test does not know how to hold a program to %s=%s", key, value)
		}
	}
	g := annextest.Box(t, "annexd", 96<<20)
	swapFile := swaptest.File(t, "annexd", 128<<20)
	own, err := os.MkdirTemp("/run", "tare-annexd-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(own); err != nil {
			t.Error(err)
		}
	})
	writable := []string{bound.ClaimDirectory}
	if err := os.Mkdir(bound.ClaimDirectory, 0o700); err == nil {
		t.Cleanup(func() { _ = os.Remove(bound.ClaimDirectory) })
	} else if !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	for _, name := range []string{"run", "lib", "log"} {
		writable = append(writable, filepath.Join(own, name))
		if err := os.Mkdir(filepath.Join(own, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	place, _ := g.For("memory")
	knob := "memory.swappiness"
	if place.Version == 2 {
		knob = "memory.low"
	}
	var asks []func() string
	for _, name := range []string{"critical", "idle"} {
		one := g.Child(name)
		if err := one.Create("memory"); err != nil {
			t.Fatal(err)
		}
		asks = append(asks, annextest.Hold(t, one, 24<<20).Check)
		if name == "critical" {
			at, _ := one.For("memory")
			knob = at.File(knob)
		}
	}
	set := func() string {
		text, err := os.ReadFile(knob)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	before := set()
	path, socket := filepath.Join(own, "annex.toml"), filepath.Join(own, "run/annex.sock")
	text := fmt.Sprintf(`version = 1
mode = "manage"
[memory]
defend = %[1]q
headroom = "64MiB"
high = "66MiB"
reserve = "4MiB"
[control]
socket = %[2]q
[log]
file = "%[3]s/log/decisions.jsonl"
[state]
directory = "%[3]s/lib"
journal = "%[3]s/run/journal"
[[rule]]
class = "critical"
cgroup = "%[1]s/critical"
[[rule]]
class = "elastic"
cgroup = "%[1]s/idle"
`, place.Path, socket, own)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// What runs in /tmp here is not there inside.
	program := filepath.Join(own, "annexd")
	binary, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(program, binary, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	outside, err := monitor.Open(monitor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lacks := outside.Lacks()
	if err := outside.Close(); err != nil {
		t.Fatal(err)
	}

	var said strings.Builder
	start := func() *exec.Cmd {
		t.Helper()
		said.Reset()
		daemon := confine(t, unit, own, swapFile, writable, program, "--config", path)
		daemon.Stderr = &said
		if err := daemon.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = daemon.Process.Kill()
			_ = daemon.Wait()
		})
		return daemon
	}
	client := control.Dial(socket)
	t.Cleanup(client.Close)
	await := func(what string, such func(control.Status) bool) control.Status {
		t.Helper()
		var s control.Status
		var err error
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if s, err = client.Status(t.Context()); err == nil && such(s) {
				return s
			}
		}
		t.Fatalf("not within 30 s: %s: %v, %+v; it says: %s", what, err, s, said.String())
		return s
	}
	managed := func(s control.Status) bool {
		out := false
		for _, c := range s.Contexts {
			out = out || c.Class == annex.Elastic && c.ExtendedBytes > 8<<20
		}
		return out && set() != before
	}

	daemon := start()
	s := await("8 MiB in swap, and the critical one protected", managed)
	// That others manage memory on this host is no matter of the unit's.
	s.Warnings = slices.DeleteFunc(s.Warnings, func(text string) bool { return strings.HasPrefix(text, "DAMON ") })
	if len(s.Warnings) > len(lacks) || s.Moved.Failed > 0 {
		t.Errorf("it warns of %q, and %d requests failed; outside the host lacks %v", s.Warnings, s.Moved.Failed, lacks)
	}
	for _, c := range s.Contexts {
		if c.Problem != "" {
			t.Errorf("%s: %s", c.Name, c.Problem)
		}
	}
	if bound := regexp.MustCompile(`(?m)^(CapBnd|NoNewPrivs):.*$`); slices.Equal(bound.FindAllString(status(t, s.PID), -1), bound.FindAllString(status(t, os.Getpid()), -1)) {
		t.Error("it may do whatever this test may")
	}
	if restart, err := client.Reload(t.Context()); err != nil || len(restart) > 0 {
		t.Errorf("reload: %v, %v", restart, err)
	}
	// Killed, its guard, which is confined as well, puts the protection back.
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait()
	for end := time.Now().Add(10 * time.Second); set() != before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s is %s, and was %s", knob, set(), before)
		}
	}
	daemon = start()
	await("managing again", managed)
	if err := client.Drain(t.Context(), 0); err != nil {
		t.Error(err)
	}
	await("drained", func(s control.Status) bool { return s.State == control.Drained })
	if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Wait(); err != nil {
		t.Errorf("it ends with %v: %s", err, said.String())
	}
	// What it began to do and that it ended is told, and nothing else: a journal holds warnings
	// besides. Its OOM score is not for this test, which OOMScoreAdjust is not held to.
	told := regexp.MustCompile(`(?m)^annexd: the kernel may end annexd early .*\n`).ReplaceAllString(said.String(), "")
	want := "annexd: manages " + place.Path + " (mode manage): 1 critical, 1 elastic; annex status tells more\n" +
		"annexd: has ended, and every setting is as it was found; what is in swap comes back as programs touch it\n"
	if told != want {
		t.Errorf("it says\n%swant\n%s", told, want)
	}
	if set() != before {
		t.Errorf("%s is %s, and was %s", knob, set(), before)
	}
	for n, ask := range asks {
		if answer := ask(); answer != "whole" {
			t.Errorf("program %d: %s", n, answer)
		}
	}
	if logged, err := os.ReadFile(filepath.Join(own, "log/decisions.jsonl")); err != nil || len(logged) == 0 {
		t.Errorf("its log: %v", err)
	}
}
