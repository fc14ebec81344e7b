package cli

import (
	"archive/tar"
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/kernel/clock"
)

// copiedService is set where this program is the service of a container: it works for so long
// on a CPU for each request, and by itself every tenth of a second.
const copiedService = "TARE_TEST_SERVICE"

func serveCopied() {
	work, err := time.ParseDuration(os.Getenv(copiedService))
	if err != nil {
		os.Exit(2)
	}
	burn := func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for began := clock.Thread(); clock.Thread()-began < work; {
		}
	}
	go func() {
		for {
			burn()
			time.Sleep(100 * time.Millisecond)
		}
	}()
	fmt.Println(http.ListenAndServe(":8080", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { burn() })))
	os.Exit(1)
}

func runDocker(t *testing.T, stdin []byte, args ...string) string {
	t.Helper()
	cmd := exec.Command("docker", args...)
	cmd.Stdin = bytes.NewReader(stdin)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("docker %s: %v: %s", strings.Join(args, " "), err, complaints.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// contained runs this test's program in a container of Docker.
func contained(t *testing.T, flags ...string) (name string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("measuring needs root")
	}
	if exec.Command("docker", "info").Run() != nil {
		t.Skip("no Docker engine answers to docker info")
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: "serve", Mode: 0o755, Size: int64(len(program))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(program); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	name = fmt.Sprintf("copied-%d", os.Getpid())
	image := runDocker(t, archive.Bytes(), "import", "-c", `CMD ["/serve"]`, "-c", "EXPOSE 8080", "-c", "ENV GOMAXPROCS=1", "-", name)
	t.Cleanup(func() { runDocker(t, nil, "rmi", "-f", image) }) // by its id: a test takes its name away
	runDocker(t, nil, append(append([]string{"run", "-d", "--name", name}, flags...), name)...)
	t.Cleanup(func() { runDocker(t, nil, "rm", "-f", "-v", name) })
	if runDocker(t, nil, "inspect", "-f", "{{.State.Running}}", name) != "true" {
		t.Skip("the test's program does not run in an empty root: build it with CGO_ENABLED=0")
	}
	return name
}

func TestWeighACopyOfAContainer(t *testing.T) {
	if testing.Short() {
		t.Skip("launches containers")
	}
	data, conf := t.TempDir(), t.TempDir()
	name := contained(t, "-e", copiedService+"=1ms", "--cpus", "0.5", "-m", "256m", "-v", data+":/data", "-v", conf+":/conf:ro")
	if err := os.WriteFile(filepath.Join(data, "file"), []byte("now"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := runDocker(t, nil, "inspect", name)
	log := filepath.Join(t.TempDir(), "access.log")
	var lines strings.Builder
	for i := range 20 {
		fmt.Fprintf(&lines, `{"ts":%.3f,"method":"GET","path":"/%d"}`+"\n", 1e9+float64(i)/20, i)
	}
	lines.WriteString("garbage\n")
	if err := os.WriteFile(log, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	code, out, said := tare(t, home, "weigh", "--from-container", name, "--vary", "cpus=1", "--baseline", "current",
		"--replay", log, "--blocks", "1")
	if code != 0 {
		t.Fatalf("code %d: %s", code, said)
	}
	for _, want := range []string{
		"copy-of-" + name, "/data is a copy of 3B as it is now", "/conf is the original's, read-only",
		"20 requests within 950ms are replayed", "1 line left out: not combined format or JSON", "docker cpus=1", "p99",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("the page has no %q:\n%s", want, out)
		}
	}
	// The engine gives mounts in any order.
	ordered := func(s string) []string { return slices.Sorted(strings.SplitSeq(strings.ReplaceAll(s, ",", ""), "\n")) }
	if after := runDocker(t, nil, "inspect", name); !slices.Equal(ordered(after), ordered(before)) {
		t.Errorf("the original is not what it was:\n%s\n%s", before, after)
	}
	// A client of the host, once; its address is the copy's own.
	code, out, said = tare(t, home, "weigh", "--from-container", name, "--vary", "seccomp=unconfined", "--blocks", "1",
		"--", "sh", "-c", `test "$1" = 8080`, "sh", "${port}")
	if code != 0 || !strings.Contains(out, "docker seccomp=unconfined") {
		t.Errorf("code %d: %s%s", code, out, said)
	}
	// Its image is removed while it runs.
	runDocker(t, nil, "rmi", "-f", name)
	code, _, said = tare(t, home, "weigh", "--from-container", name, "--vary", "cpus=1", "--replay", log, "--dry-run")
	if code == 0 || !strings.Contains(said, "the engine no longer has its image") && !strings.Contains(said, "note") {
		t.Logf("the engine keeps an image in use: code %d: %s", code, said)
	}
	runDocker(t, nil, "stop", "-t", "0", name)
	code, _, said = tare(t, home, "weigh", "--from-container", name, "--vary", "cpus=1", "--replay", log, "--dry-run")
	if code == 0 || !strings.Contains(said, "no running container") || strings.Count(said, "\n") != 1 {
		t.Errorf("stopped: code %d: %s", code, said)
	}
}

// A quota of 30 ms in 100 ms, and work of 30 ms each 130 ms: what ends the throttling of the
// original does so for its copy.
func TestVerifyAFinding(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("measures two copies for a minute: set TARE_TEST_ALL=1")
	}
	if testing.Short() {
		t.Skip("launches containers")
	}
	name := contained(t, "-e", copiedService+"=30ms", "--cpus", "0.1")
	home := t.TempDir()
	code, out, said := tare(t, home, "diagnose", "--verify", name+"/throttled", "--for", "3s", "--blocks", "3")
	out = strings.Join(strings.Fields(out), " ")
	if strings.Contains(said, "was not found within") {
		t.Skip(said)
	}
	for _, want := range []string{"current", "proposed", "saved", "the load is unknown: the copy does its own work alone"} {
		if !strings.Contains(strings.ToLower(out), want) {
			t.Errorf("the page has no %q: %s%s", want, out, said)
		}
	}
	// On a busy host the outcome may be open; it is never that the promise did not hold.
	if code != 0 && code != exitInconclusive {
		t.Errorf("code %d: %s%s", code, out, said)
	}
	code, _, said = tare(t, home, "diagnose", "--verify", name+"/log", "--for", "1s")
	if code != exitFailure || !strings.Contains(said, name+"/log was not found within") {
		t.Errorf("no such finding: code %d: %s", code, said)
	}
}

func TestWrongCopiesAreRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("measuring needs root")
	}
	dir := t.TempDir()
	garbage, empty := filepath.Join(dir, "garbage"), filepath.Join(dir, "empty")
	for file, text := range map[string]string{garbage: "\x00\x1b[31m\n\xff", empty: ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		line []string
		code int
		says string
	}{
		{[]string{"weigh", "--from-container", "no-such-one"}, exitUsage, `no running container "no-such-one"`},
		{[]string{"weigh", "--from-container", "pid:1"}, exitFailure, "cannot be copied: it is a process, and tare copies containers of Docker alone; weigh its program: tare weigh --rootfs DIR"},
		{[]string{"weigh", "redis", "--from-container", "x"}, exitUsage, "--from-container and the workload redis: want one of them"},
		{[]string{"weigh", "--from-container", "x", "--cpus", "1"}, exitUsage, "--cpus is not for --from-container"},
		{[]string{"weigh", "--from-container", "x", "--vary", "image=a,b"}, exitUsage, "--vary image is not for --from-container"},
		{[]string{"weigh", "redis", "--replay", garbage}, exitUsage, "--replay is for --from-container"},
		{[]string{"weigh", "--from-container", "x", "--replay", garbage}, exitUsage, "no request can be replayed: 2 lines left out"},
		{[]string{"weigh", "--from-container", "x", "--replay", empty}, exitUsage, "no request can be replayed: it has no lines"},
		{[]string{"weigh", "--from-container", "x", "--replay", dir}, exitUsage, "is a directory"},
		{[]string{"weigh", "--from-container", "x", "--replay", filepath.Join(dir, "gone")}, exitUsage, "no such file"},
		{[]string{"weigh", "--from-container", "x", "--replay", garbage, "--replay-for", "1ms"}, exitUsage, "--replay-for 1ms: want 1s to 10m0s"},
		{[]string{"weigh", "--from-container", "x", "--port", "70000"}, exitUsage, "--port 70000: want 1 to 65535"},
		{[]string{"weigh", "--from-container", "x", "--", "wrk", "http://host/"}, exitUsage, "none of its words has ${address}"},
		{[]string{"weigh", "--from-container", "x", "--replay", garbage, "--", "wrk", "${address}"}, exitUsage, "--replay and a client after --: want one of them"},
		{[]string{"diagnose", "--verify", "web"}, exitUsage, "--verify web: want the id of a finding, CONTAINER/KIND"},
		{[]string{"diagnose", "web", "--verify", "web/throttled"}, exitUsage, "--verify names its container"},
		{[]string{"diagnose", "--verify", "web/throttled", "--fail-on", "high"}, exitUsage, "--verify goes without --fail-on"},
		{[]string{"diagnose", "--verify", "web/throttled", "--blocks", "2"}, exitUsage, "--blocks 2: want 3 to 100"},
		{[]string{"diagnose", "web", "--replay", garbage}, exitUsage, "--replay is for --verify"},
		{[]string{"diagnose", "--verify", "no-such-one/throttled"}, exitUsage, `no running container "no-such-one"`},
		{[]string{"diagnose", "explain", "a/log", "b/log"}, exitUsage, "takes at most 1 argument, not 2"},
		{[]string{"diagnose", "no-such-one/throttled"}, exitUsage, "tare diagnose explain no-such-one/throttled"},
	} {
		code, _, said := tare(t, t.TempDir(), c.line...)
		if code != c.code || !strings.Contains(said, c.says) || strings.Count(said, "\n") != 1 {
			t.Errorf("%q: code %d, want %d: %s", c.line, code, c.code, said)
		}
	}
}
