package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/platform/bare"
)

func TestMain(m *testing.M) {
	bare.Reexec()
	if os.Getenv(copiedService) != "" {
		serveCopied()
	}
	if os.Getenv(lockedFile) != "" {
		fmt.Fprintln(os.Stderr, lockMemory())
		os.Exit(1)
	}
	deviceHost.Root = os.Getenv(recordedDevice)
	if os.Getenv(actAsTare) != "" {
		os.Exit(Main(os.Args))
	}
	os.Exit(m.Run())
}

// tare runs one command line in this process, with a state directory of its own.
func tare(t *testing.T, home string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = run(context.Background(), append([]string{"tare", "--home", home}, args...), &out, &errOut)
	return code, out.String(), errOut.String()
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every bad input gets one line that says what, where and what to do, and the
// right exit code; nothing is measured.
func TestBadInput(t *testing.T) {
	broken := write(t, "broken.yaml", "name: x\nimage: {recipe: busybox}\nkind: service\ncommand: [/bin/httpd, -f]\nports: [80]\nload:\n  http:\n    pth: /\nmetrics:\n  - from: {builtin: p50}\n")
	for _, c := range []struct {
		args string
		code int
		says []string
	}{
		{"weigh", exitUsage, []string{"nothing to weigh", "redis"}},
		{"diagnose", exitUsage, []string{"name the containers", "--all"}},
		{"diagnose --all web", exitUsage, []string{"--all", "name none beside it"}},
		{"diagnose web --for 10ms", exitUsage, []string{"--for 10ms", "1s to 1h"}},
		{"diagnose --all --latency-from http://localhost/", exitUsage, []string{"--latency-from is of one service"}},
		{"diagnose web --watch --json -", exitUsage, []string{"--watch shows its findings itself", "leave out --out, --json and --fail-on"}},
		{"diagnose web --prometheus 9465", exitUsage, []string{"add --watch"}},
		{"diagnose web --fail-on silly", exitUsage, []string{"--fail-on silly", "high, medium or low"}},
		{"diagnose web --sort size", exitUsage, []string{"--sort size", "cost or name"}},
		{"diagnose explain", exitUsage, []string{"name a finding", "web/throttled"}},
		{"diagnose explain web", exitUsage, []string{"web is no finding", "CONTAINER/FINDING", "throttled"}},
		{"diagnose explain web/throttled --for 1ms", exitUsage, []string{"--for 1ms", "1s to 1h"}},
		{"weigh reddis", exitUsage, []string{"reddis", "redis"}},
		{"weigh redis --platform moon", exitUsage, []string{"moon", "oci:RUNTIME"}},
		{"weigh redis --platform oci:nosuchruntime", exitHost, []string{"nosuchruntime", "PATH"}},
		{"weigh redis --vary colour=red", exitUsage, []string{"colour", "memory"}},
		{"weigh redis --vary memory", exitUsage, []string{"KEY=A,B"}},
		{"weigh redis --vary memory=1g --vary memory=2g", exitUsage, []string{"varied twice"}},
		{"weigh redis --cpus 4096", exitUsage, []string{"cpus=4096", "this host has"}},
		{"weigh redis --cpus 0.0009", exitUsage, []string{"cpus", "0.001"}},
		{"weigh redis --cpus 0.001", exitUsage, []string{"a quota of 100µs", "1ms", "cpu-period"}},
		{"weigh redis --cpus 0.05 --cpu-period 10ms", exitUsage, []string{"1ms"}},
		{"weigh redis --memory 1m", exitUsage, []string{"memory=1m", "MiB"}},
		{"weigh redis --memory 12parsecs", exitUsage, []string{"512m"}},
		{"weigh redis --cpuset-cpus 4000", exitUsage, []string{"CPU 4000"}},
		{"weigh redis --network moon", exitUsage, []string{"bridge"}},
		{"weigh redis --param nosuch=1", exitUsage, []string{"nosuch", "payload"}},
		{"weigh redis --param payload=many", exitUsage, []string{"payload", "many"}},
		{"weigh redis --precision 0%", exitUsage, []string{"--precision"}},
		{"weigh redis --smallest-effect two", exitUsage, []string{"--smallest-effect"}},
		{"weigh redis --seed abc", exitUsage, []string{"--seed abc: want a whole number"}},
		{"weigh redis --budget soon", exitUsage, []string{"--budget soon: want a time with its unit"}},
		{"density --rate much", exitUsage, []string{"--rate much: want a number"}},
		{"weigh redis --blocks 0", exitUsage, []string{"--blocks"}},
		{"weigh redis --blocks 5 --precision 1%", exitUsage, []string{"contradict"}},
		{"weigh redis --blocks 5 --quick", exitUsage, []string{"--quick"}},
		{"weigh redis --budget 1ms", exitUsage, []string{"--budget"}},
		{"weigh redis --trial-limit 1ms", exitUsage, []string{"--trial-limit"}},
		{"weigh --rootfs /nonexistent -- /bin/true", exitUsage, []string{"/nonexistent"}},
		{"weigh redis redis", exitUsage, []string{"twice"}},
		{"weigh redis --budget 2h", exitUsage, []string{"--yes"}},
		{"weigh redis --load-cpuset 4000", exitUsage, []string{"--load-cpuset", "CPU 4000"}},
		{"weigh redis --load-cpuset x", exitUsage, []string{"0-1,3"}},
		{"io", exitUsage, []string{"stream, haccio or redis"}},
		{"io tape", exitUsage, []string{"tape", "stream, haccio or redis"}},
		{"io stream --dry-run --quick --full", exitUsage, []string{"--quick", "--full"}},
		{"io stream --dry-run --elements -5", exitUsage, []string{"--elements -5"}},
		{"io stream --dry-run --elements 1e12", exitUsage, []string{"--elements", "memory"}},
		{"io haccio --dry-run --platform bare", exitUsage, []string{"--platform bare"}},
		{"io haccio --dry-run --particles some", exitUsage, []string{"--particles some"}},
		{"io redis --dry-run --payload -500", exitUsage, []string{"--payload -500"}},
		{"io redis --dry-run --syncs 0", exitUsage, []string{"--syncs 0"}},
		{"platforms web", exitUsage, []string{"--workload web"}},
		{"platforms --dry-run --platform moon", exitUsage, []string{"moon"}},
		{"platforms --dry-run --platform bare", exitUsage, []string{"it is the baseline"}},
		{"platforms --dry-run --platform oci:nosuchruntime", exitHost, []string{"nosuchruntime", "PATH"}},
		{"platforms --dry-run --workload ffmpg", exitUsage, []string{"ffmpg", "ffmpeg"}},
		{"platforms --dry-run --workload ffmpeg,ffmpeg", exitUsage, []string{"twice"}},
		{"platforms --dry-run --cpus 0", exitUsage, []string{"--cpus 0"}},
		{"platforms --dry-run --cpus many", exitUsage, []string{"--cpus many", "0.5,1,2"}},
		{"platforms --dry-run --cpus 100000", exitUsage, []string{"--cpus 100000", "this host has"}},
		{"platforms --dry-run --preset sideways", exitUsage, []string{"sideways", "vanilla", "pinned"}},
		{"platforms --dry-run --instance tiny", exitUsage, []string{"tiny", "16xlarge"}},
		{"platforms --dry-run --instance large --cpus 1", exitUsage, []string{"--cpus and --instance"}},
		{"platforms --dry-run --instance large --memory 1g", exitUsage, []string{"--memory and --instance"}},
		{"platforms --dry-run --causes maybe", exitUsage, []string{"maybe", "on or off"}},
		{"platforms --dry-run --tasks one", exitUsage, []string{"one and many"}},
		{"platforms --dry-run --tasks one,lots", exitUsage, []string{"lots"}},
		{"platforms --dry-run --workload mpi-search --tasks one,many", exitUsage, []string{"mpi-search cannot be cut"}},
		{"platforms --dry-run --tasks 7,11", exitUsage, []string{"--tasks 7: want 1, 5 or 30", "cut"}},
		{"platforms --dry-run --cpus=", exitUsage, []string{"--cpus: want at least one size"}},
		{"platforms --dry-run --instance=", exitUsage, []string{"--instance: want at least one of large"}},
		{"platforms --dry-run --host-cpus=", exitUsage, []string{"--host-cpus: want at least two"}},
		{"platforms --dry-run --tasks=", exitUsage, []string{"--tasks: want one and many"}},
		{"platforms --dry-run --host-cpus 1,abc", exitUsage, []string{"--host-cpus abc: want numbers of CPUs, such as 1,2"}},
		{"density redis", exitUsage, []string{"--critical redis"}},
		{"density --dry-run --critical reddis", exitUsage, []string{"reddis", "redis"}},
		{"density --dry-run --critical stream", exitUsage, []string{"--critical stream", "no service"}},
		{"density --dry-run --noise httpd", exitUsage, []string{"--noise httpd", "redis"}},
		{"density --dry-run --extend none,annex:/no/such.toml", exitUsage, []string{"--extend annex:/no/such.toml", "no such file"}},
		{"density --dry-run --extend annexed", exitUsage, []string{"--extend annexed", "annex:FILE"}},
		{"density --dry-run --noise redis --pattern sideways", exitUsage, []string{"sideways", "heavy-tailed"}},
		{"density --dry-run --noise redis --neighbours 5:1", exitUsage, []string{"--neighbours 5:1", "rise"}},
		{"density --dry-run --noise redis --neighbours many", exitUsage, []string{"--neighbours many", "1:49:2"}},
		{"density --dry-run --noise redis --neighbours 1,1", exitUsage, []string{"once"}},
		{"density --dry-run --box 12parsecs", exitUsage, []string{"--box 12parsecs", "vm:1g"}},
		{"density --dry-run --box moon:1g", exitUsage, []string{"--box moon:1g"}},
		{"density --dry-run --box host", exitUsage, []string{"--disruptive", "vm:1g"}},
		{"density --dry-run --critical redis --noise redis --critical-memory 128m --box 64m", exitUsage, []string{"--box 64 MiB", "redis alone"}},
		{"density --dry-run --critical redis --noise redis --neighbour-memory lots", exitUsage, []string{"--neighbour-memory lots"}},
		{"density --dry-run --critical redis --noise redis --neighbour-memory 1kb", exitUsage, []string{"--neighbour-memory 1kb: want 1700k to 64g"}},
		{"density --dry-run --critical redis --noise redis --neighbour-memory 100T", exitUsage, []string{"--neighbour-memory 100T: want 1700k to 64g"}},
		{"density --dry-run --critical redis --noise redis --critical-memory 2k", exitUsage, []string{"--critical-memory 2k: want 1700k to 64g"}},
		{"density --dry-run --critical redis --noise redis --swap tape", exitUsage, []string{"tape", "zram"}},
		{"density --dry-run --critical redis --noise redis --swap file,file", exitUsage, []string{"twice"}},
		{"density --dry-run --critical redis --noise redis --page-cluster -1", exitUsage, []string{"--page-cluster -1"}},
		{"density --dry-run --critical redis --noise redis --protect prayer", exitUsage, []string{"prayer", "headroom"}},
		{"density --dry-run --critical redis --noise redis --extend annex", exitHost, []string{"annexd is neither beside", "make build"}},
		{"density --dry-run --critical redis --noise redis --order random", exitUsage, []string{"continuous", "interleaved"}},
		{"density --dry-run --critical redis --noise redis --step 4s", exitUsage, []string{"--step 4s", "4s+2s"}},
		{"density --dry-run --critical redis --noise redis --think 0s", exitUsage, []string{"--think 0s"}},
		{"density --dry-run --critical redis --noise redis --first-port 65530", exitUsage, []string{"--first-port 65530"}},
		{"density --dry-run --critical redis --noise redis --first-port 6379", exitUsage, []string{"--first-port 6379", "redis's"}},
		{"density --dry-run --drop-caches", exitUsage, []string{"--drop-caches", "--disruptive"}},
		{"density --dry-run --platform moon", exitUsage, []string{"moon"}},
		{"density --dry-run --platform vm:tcg/oci", exitUsage, []string{"--box vm:SIZE"}},
		{"density --dry-run --network none", exitUsage, []string{"--network none"}},
		{"density --dry-run --idle-loop maybe", exitUsage, []string{"open or closed"}},
		{"density --dry-run --noise-param x", exitUsage, []string{"--noise-param x"}},
		{"density --dry-run --noise-param foo=1", exitUsage, []string{"--noise-param foo"}},
		{"density --dry-run --swap-size 1k", exitUsage, []string{"--swap-size 1k", "1 MiB"}},
		{"density --dry-run --swap-size 100t", exitUsage, []string{"--swap-size 100t", "16 TiB"}},
		{"density --dry-run --swap=", exitUsage, []string{"--swap: want some of", "zram"}},
		{"density --dry-run --protect=", exitUsage, []string{"--protect: want some of", "headroom"}},
		{"density --dry-run --extend=", exitUsage, []string{"--extend: want some of", "annex"}},
		{"density --dry-run --page-cluster= --disruptive", exitUsage, []string{"--page-cluster: want some of", "0,3"}},
		{"density --dry-run --pattern=", exitUsage, []string{"--pattern: want some of", "poisson"}},
		{"density --dry-run --rate 0", exitUsage, []string{"--rate 0", "above 0"}},
		{"density --dry-run --neighbours 0", exitUsage, []string{"--neighbours 0", "above 0"}},
		{"density --dry-run --critical-memory 2g", exitUsage, []string{"--critical-memory 2 GiB", "booking"}},
		{"density --dry-run --blocks 3 --precision 2%", exitUsage, []string{"--precision and --blocks"}},
		{"causes pid:abc", exitUsage, []string{"pid:abc: want the number of a process"}},
		{"causes pid:0", exitUsage, []string{"pid:0: want the number of a process"}},
		{"platforms --dry-run --host-cpus 1", exitUsage, []string{"at least two sizes"}},
		{"platforms --dry-run --host-cpus 1,2", exitUsage, []string{"--disruptive"}},
		{"platforms --dry-run --host-cpus 1,100000 --disruptive", exitUsage, []string{"--host-cpus 100000"}},
		{"platforms --dry-run --repeats 3 --blocks 3", exitUsage, []string{"--repeats and --blocks"}},
		{"platforms --dry-run --repeats 0", exitUsage, []string{"--repeats 0"}},
		{"platforms --dry-run --quick --repeats 3", exitUsage, []string{"--quick"}},
		{"platforms --dry-run --blocks 3 --precision 2%", exitUsage, []string{"--precision and --blocks"}},
		{"platforms --dry-run --param nosuch=1", exitUsage, []string{"nosuch"}},
		{"platforms --dry-run --budget 5m --quick", exitUsage, []string{"--quick"}},
		{"import main_test.go --format xml", exitUsage, []string{"xml", "hyperfine"}},
		{"weigh redis --nosuchflag", exitUsage, []string{"nosuchflag"}},
		{"weigh redis --ladder --platform bare", exitUsage, []string{"--ladder"}},
		{"weigh redis --baseline moon", exitUsage, []string{"moon"}},
		{"weigh redis --preset sideways", exitUsage, []string{"vanilla", "pinned"}},
		{"weigh --workload " + broken, exitUsage, []string{"broken.yaml:8", "pth", "path"}},
		{"weigh --workload /nonexistent.yaml", exitUsage, []string{"/nonexistent.yaml"}},
		{"weigh redis -- /bin/true", exitUsage, []string{"COMMAND"}},
		{"startup --rate 0", exitUsage, []string{"--rate 0", "0.01 to 1000"}},
		{"startup --rate 1e6", exitUsage, []string{"--rate 1e6", "0.01 to 1000"}},
		{"startup --rate fast", exitUsage, []string{"fast"}},
		{"startup --count 0", exitUsage, []string{"--count 0"}},
		{"startup --count 3", exitUsage, []string{"--count 3", "at least"}},
		{"startup --arrivals bursty", exitUsage, []string{"bursty", "poisson"}},
		{"startup --workload reddis", exitUsage, []string{"reddis", "redis"}},
		{"startup --workload redis,redis", exitUsage, []string{"once"}},
		{"startup --workload /nonexistent.yaml", exitUsage, []string{"/nonexistent.yaml"}},
		{"startup --param nosuch=1", exitUsage, []string{"nosuch"}},
		{"startup --platform moon", exitUsage, []string{"moon"}},
		{"startup --platform vm:tcg/bare", exitUsage, []string{"vm:tcg/bare", "another kernel's", "tare platforms"}},
		{"weigh redis --platform vm:tcg/docker", exitUsage, []string{"vm:tcg/docker", "oci"}},
		{"weigh redis --platform vm:xen/bare", exitUsage, []string{"xen", "kvm"}},
		{"weigh redis --platform vm:tcg+cpus=0/bare", exitUsage, []string{"cpus"}},
		{"weigh redis --platform vm:kvm+colour=red/bare", exitUsage, []string{"colour"}},
		{"startup --platform oci:nosuchruntime", exitHost, []string{"nosuchruntime", "PATH"}},
		{"startup --network host", exitUsage, []string{"--network bridge"}},
		{"startup --cache cold", exitUsage, []string{"--disruptive"}},
		{"startup --cache tepid", exitUsage, []string{"tepid", "warm or cold"}},
		{"startup --start-limit 1us", exitUsage, []string{"--start-limit"}},
		{"startup --blocks 3 --quick", exitUsage, []string{"--quick"}},
		{"startup --budget 5h", exitUsage, []string{"--yes"}},
		{"startup redis --workload redis", exitUsage, []string{"once"}},
		{"pages --copies 0", exitUsage, []string{"--copies 0", "1 to 200"}},
		{"pages --steady -1s", exitUsage, []string{"--steady"}},
		{"pages --aslr sideways", exitUsage, []string{"sideways", "on,off"}},
		{"pages --aslr on,on", exitUsage, []string{"once"}},
		{"pages --huge-pages always", exitUsage, []string{"--huge-pages", "--disruptive"}},
		{"pages --huge-pages large --disruptive", exitUsage, []string{"large", "always, madvise, never"}},
		{"pages web-1 --huge-pages always --disruptive", exitUsage, []string{"--huge-pages", "CONTAINER"}},
		{"pages --workload httpdd", exitUsage, []string{"httpdd", "httpd"}},
		{"pages --workload httpd,httpd", exitUsage, []string{"once"}},
		{"pages --workload ffmpeg --param nosuch=1", exitUsage, []string{"nosuch"}},
		{"pages --workload httpd --network host", exitUsage, []string{"--network bridge"}},
		{"pages --workload httpd --platform moon", exitUsage, []string{"moon"}},
		{"pages --workload httpd --platform oci:nosuchruntime", exitHost, []string{"nosuchruntime", "PATH"}},
		{"pages --workload httpd --platform docker --aslr off", exitHost, []string{"aslr", "docker"}},
		{"pages --workload httpd --blocks 3 --quick", exitUsage, []string{"--quick"}},
		{"pages --workload httpd --steady 1h", exitUsage, []string{"--yes"}},
		{"pages --image mongo", exitUsage, []string{"--workload"}},
		{"pages --all web", exitUsage, []string{"--all"}},
		{"pages --all --steady 3s", exitUsage, []string{"--all counts once"}},
		{"pages --pid 1 --contents", exitUsage, []string{"--contents requires --all"}},
		{"pages --workload httpd --for 30s --steady 20s", exitUsage, []string{"--for 30s", "--steady 20s"}},
		{"pages --all --copies 3", exitUsage, []string{"--copies"}},
		{"pages nosuchcontainer", exitUsage, []string{"nosuchcontainer"}},
		{"pages --pid 2000000000", exitFailure, []string{"2000000000"}},
		{"pages --pid 1 --aslr off", exitUsage, []string{"--aslr"}},
		{"faults", exitUsage, []string{"container", "--workload"}},
		{"faults --pid 1 --steady 3s", exitUsage, []string{"--for"}},
		{"faults --pid 1 --for 1ms", exitUsage, []string{"--for", "100ms"}},
		{"faults --pid 1 --json /nonexistent/f", exitUsage, []string{"--json /nonexistent/f"}},
		{"pages --pid 0", exitUsage, []string{"--pid 0"}},
		{"pages --pid 1 --steady -3s", exitUsage, []string{"--steady -3s"}},
		{"faults nosuchcontainer", exitUsage, []string{"nosuchcontainer"}},
		{"pages --pid 1 --for 3s", exitUsage, []string{"tare faults"}},
		{"causes", exitUsage, []string{"a running container", "--pid", "--cgroup"}},
		{"causes web db", exitUsage, []string{"name one container", "tare place"}},
		{"causes web --pid 1", exitUsage, []string{"name one container"}},
		{"causes --pid 0", exitUsage, []string{"--pid 0", "want 1 or more"}},
		{"causes --pid one", exitUsage, []string{"one", "--pid"}},
		{"causes --cgroup docker/web", exitUsage, []string{"--cgroup", "docker/web", "/sys/fs/cgroup"}},
		{"causes --pid 1 --for 0", exitUsage, []string{"--for 0s", "100ms"}},
		{"causes --pid 1 --for 2h", exitUsage, []string{"--for 2h", "1h"}},
		{"causes --pid 1 --for long", exitUsage, []string{"long", "--for"}},
		{"causes nosuchcontainer", exitUsage, []string{"nosuchcontainer"}},
		{"causes --cgroup /nosuch/group", exitUsage, []string{"--cgroup /nosuch/group", "no such control group"}},
		{"causes --pid 2000000000", exitFailure, []string{"2000000000", "has ended"}},
		{"causes --pid 1 --json /nonexistent/f", exitUsage, []string{"--json /nonexistent/f"}},
		{"causes --pid 1 --out /proc/x", exitUsage, []string{"--out /proc/x"}},
		{"show nosuchrun", exitFailure, []string{"nothing has been measured"}},
		{"show a b", exitFailure, []string{"nothing has been measured"}},
		{"resume", exitUsage, []string{"RUN"}},
		{"export", exitUsage, []string{"RUN"}},
		{"compare a", exitUsage, []string{"OLD", "NEW"}},
		{"compare a b --fail-above 0", exitUsage, []string{"--fail-above 0: want a percentage"}},
		{"compare a b --fail-above=", exitUsage, []string{"--fail-above : want a percentage"}},
		{"compare a b --fail-above 120%", exitUsage, []string{"--fail-above 120%"}},
		{"compare a b --drift -1%", exitUsage, []string{"--drift -1%"}},
		{"weigh redis --platform bare,cgroup --fail-above nan", exitUsage, []string{"--fail-above nan"}},
		{"weigh redis --platform bare,cgroup --fail-above=", exitUsage, []string{"--fail-above : want a percentage"}},
		{"weigh redis --platform bare,cgroup --fail-above -5%", exitUsage, []string{"--fail-above -5%"}},
		{"weigh --rootfs= --platform bare,cgroup -- /bin/true", exitUsage, []string{"--rootfs", "want a name"}},
		{"weigh --rootfs /etc/passwd --platform bare,cgroup -- /bin/true", exitUsage, []string{"--rootfs /etc/passwd: want a directory"}},
		{"weigh --rootfs /usr --rootfs /usr/../usr --platform bare -- /bin/true", exitUsage, []string{"named twice", "give it a second name"}},
		{"weigh --image a --vary image=b,a --platform docker -- /bin/true", exitUsage, []string{"a is named twice"}},
		{"weigh --rootfs /usr --rootfs /etc --platform bare,cgroup --fail-above 5% -- /bin/true", exitUsage, []string{"name one --platform"}},
		{"runs prune", exitUsage, []string{"--older-than"}},
		{"claims S1.16", exitUsage, []string{"S1.16", "S1.1", "tare claims"}},
		{"claims S1.1 startup", exitUsage, []string{"startup"}},
		{"claims --json", exitUsage, []string{"--json"}},
		{"nosuchcommand", exitUsage, []string{"nosuchcommand"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			home := t.TempDir()
			code, stdout, stderr := tare(t, home, strings.Fields(c.args)...)
			if engine := "no Docker engine answers"; code == exitHost && strings.Contains(stderr, engine) && !slices.Contains(c.says, engine) {
				t.Skip("needs a Docker engine: what is wrong is found after whether one is there")
			}
			if code != c.code {
				t.Errorf("exit code %d, want %d (%s)", code, c.code, stderr)
			}
			for _, word := range c.says {
				if !strings.Contains(stderr, word) {
					t.Errorf("stderr does not say %q: %s", word, stderr)
				}
			}
			if lines := strings.Count(strings.TrimSpace(stderr), "\n") + 1; lines != 1 || !strings.HasPrefix(stderr, "tare: ") {
				t.Errorf("stderr is %d lines, want one that begins with tare:\n%s", lines, stderr)
			}
			if stdout != "" {
				t.Errorf("stdout: %s", stdout)
			}
			if _, err := os.Stat(filepath.Join(home, storeFile)); err == nil {
				t.Error("a store was made")
			}
		})
	}
}

func TestHelpHasAnExampleEverywhere(t *testing.T) {
	root := (&app{}).root()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		if cmd.Example == "" || cmd.Short == "" {
			t.Errorf("%s has no example or no summary", cmd.Name())
		}
	}
	code, stdout, _ := tare(t, t.TempDir(), "weigh", "--help", "--all")
	if code != exitSuccess || !strings.Contains(stdout, "--smallest-effect") {
		t.Errorf("weigh --help: code %d\n%s", code, stdout)
	}
}

func TestDryRunPrintsTheDesignAndTouchesNothing(t *testing.T) {
	home := filepath.Join(t.TempDir(), "never")
	code, stdout, stderr := tare(t, home, "weigh", "redis", "--platform", "bare,cgroup", "--blocks", "3", "--seed", "7", "--dry-run")
	if code != exitSuccess {
		t.Fatalf("code %d: %s", code, stderr)
	}
	for _, word := range []string{"bare", "baseline", "cgroup", "seed 7", "3 rounds"} {
		if !strings.Contains(stdout, word) {
			t.Errorf("the design does not say %q:\n%s", word, stdout)
		}
	}
	// The first image that is named is the baseline, whichever flag names it.
	code, stdout, stderr = tare(t, home, "weigh", "--rootfs", "/usr", "--image-archive", "/etc/passwd", "--platform", "bare", "--fail-above", "1.5%", "--dry-run", "--", "/bin/true")
	for _, word := range []string{"bare image=/usr  (baseline", "bare image=/etc/passwd\n", "Threshold: 1.5 % worse", "every half-width is 0.5 %"} {
		if code != exitSuccess || !strings.Contains(stdout, word) {
			t.Errorf("code %d, the design does not say %q:\n%s%s", code, word, stdout, stderr)
		}
	}
	// A value that comes from tare's own environment may be a secret.
	t.Setenv("TARE_TEST_TOKEN", "the secret")
	code, stdout, stderr = tare(t, home, "weigh", "--rootfs", "/usr", "--platform", "bare,cgroup", "--env", "TARE_TEST_TOKEN", "--dry-run", "--", "/bin/true")
	if code != exitSuccess || strings.Contains(stdout+stderr, "the secret") || !strings.Contains(stdout, "TARE_TEST_TOKEN=(not recorded)") {
		t.Errorf("code %d:\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr = tare(t, home, "startup", "--platform", "oci:runc", "--workload", "empty", "--rate", "2,4", "--blocks", "2", "--seed", "7", "--dry-run")
	if code == exitHost {
		t.Skip(stderr)
	}
	if code != exitSuccess {
		t.Fatalf("code %d: %s", code, stderr)
	}
	for _, word := range []string{"empty[rate=2]", "empty[rate=4]", "empty[knee]", "oci:runc", "seed 7", "2 blocks"} {
		if !strings.Contains(stdout, word) {
			t.Errorf("the design of a start-up run does not say %q:\n%s", word, stdout)
		}
	}
	if _, err := os.Stat(home); err == nil {
		t.Error("the state directory was made")
	}
}
