package conformance

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/kernel/procfs"
	"tare/kernel/socket"
	"tare/platform"
)

func testOutput(t *testing.T, s suite) {
	st := s.set(t)
	exit, out, complaints := st.run(st.shell("echo to output; echo to error >&2; printf 'no newline'"))
	if exit.Code != 0 || out != "to output\nno newline" || complaints != "to error\n" {
		t.Errorf("exit %+v, output %q, error %q", exit, out, complaints)
	}
	if _, out, _ := st.run(st.shell("cat; echo end of input")); out != "end of input\n" {
		t.Errorf("standard input is not empty: %q", out)
	}
	if _, out, _ := st.run(st.shell(`printf '\377\000\1'`)); out != "\xff\x00\x01" {
		t.Errorf("bytes came back as %q", out)
	}
}

func testBigOutput(t *testing.T, s suite) {
	st := s.set(t)
	const lines = 200_000
	sum := sha256.New()
	spec := st.shell("seq 1 " + strconv.Itoa(lines))
	spec.Stdout = sum
	if s.has(OutputOfRunning) {
		l := newLines()
		spec.Args = []string{"sh", "-c", spec.Args[2] + "; sleep 3600"}
		spec.Stdout = io.MultiWriter(sum, l)
		st.launch(spec)
		l.await(st, "\n"+strconv.Itoa(lines)+"\n")
	} else if exit := st.wait(st.launch(spec)); exit.Code != 0 {
		t.Errorf("exit %+v", exit)
	}
	want := sha256.New()
	for i := 1; i <= lines; i++ {
		_, _ = io.WriteString(want, strconv.Itoa(i)+"\n")
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != hex.EncodeToString(want.Sum(nil)) {
		t.Error("some of the output was lost or changed")
	}
}

// testOutputDiscarded: a program whose output nobody wants must not block on it.
func testOutputDiscarded(t *testing.T, s suite) {
	st := s.set(t)
	if exit := st.wait(st.launch(st.shell("seq 1 200000; seq 1 200000 >&2; exit 4"))); exit.Code != 4 {
		t.Errorf("exit %+v", exit)
	}
}

func testArguments(t *testing.T, s suite) {
	st := s.set(t)
	odd := []string{"two words", `quote " and ' and \`, "", "$HOME `id`", "new\nline", "-n", "%s"}
	spec := st.spec(append([]string{"printf", `%s\0`}, odd...)...)
	_, out, _ := st.run(spec)
	if got := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"); !slices.Equal(got, odd) {
		t.Errorf("arguments came in as %q, want %q", got, odd)
	}
}

// testSurroundings holds the program's surroundings to those that all
// platforms share, as the program itself sees them and as the kernel tells.
func testSurroundings(t *testing.T, s suite) {
	st := s.set(t)
	if _, out, _ := st.run(st.shell("umask; id -u; id -g")); out != "0022\n0\n0\n" {
		t.Errorf("mask, user, group: %q", out)
	}
	limits := strconv.FormatUint(platform.Surroundings.OpenFiles, 10)
	wantText := strings.Join([]string{limits, limits, "0", "0"}, "\n") + "\n"
	_, out, _ := st.run(st.shell("ulimit -Sn; ulimit -Hn; ulimit -Sc; ulimit -Hc"))
	if out != wantText && !s.has(LimitsOfNode) {
		t.Errorf("limits of open files and core:\n%swant\n%s", out, wantText)
	}
	_, out, _ = st.run(st.shell("for f in null zero full random urandom tty shm pts fd stdin; do [ -e /dev/$f ] || [ -L /dev/$f ] || echo no /dev/$f; done;" +
		"for d in /tmp /run /var/tmp /dev/shm; do touch $d/x || echo cannot write $d; done; [ -d /proc/self ] || echo no /proc; [ -d /sys/kernel ] || echo no /sys"))
	if out != "" {
		t.Errorf("the file system lacks:\n%s", out)
	}

	spec := st.spec("sleep", "3600")
	inst := st.launch(spec)
	force, err := inst.InForce()
	if err != nil {
		t.Fatal(err)
	}
	program, err := spec.Process()
	if err != nil {
		t.Fatal(err)
	}
	wantEnv := slices.Sorted(slices.Values(program.Env))
	wantForce := platform.InForce{
		OpenFiles: platform.Surroundings.OpenFiles,
		CoreSize:  platform.Surroundings.CoreSize,
		OOMScore:  platform.Surroundings.OOMScore,
		Env:       wantEnv,
		Stdin:     "/dev/null",
		Stdout:    "pipe",
	}
	if s.has(LimitsOfNode) {
		wantForce.OpenFiles, wantForce.CoreSize, wantForce.OOMScore = force.OpenFiles, force.CoreSize, force.OOMScore
	}
	if diff := Difference(wantForce, force); diff != "" {
		t.Errorf("surroundings differ (-want +got):\n%s", diff)
	}
	if slices.Contains(force.Namespaces, "uts") {
		if _, out, _ := st.run(st.spec("hostname")); out != platform.Surroundings.Hostname+"\n" {
			t.Errorf("host name %q in a namespace of its own", out)
		}
	}
}

func testProcesses(t *testing.T, s suite) {
	st := s.set(t)
	l := newLines()
	spec := st.shell("sleep 3600 & sleep 3600 & echo ready; wait")
	spec.Stdout = l
	inst := st.launch(spec)
	l.await(st, "ready")
	pids, err := inst.Processes()
	if err != nil || len(pids) != 3 {
		t.Fatalf("processes %v (%v), want three", pids, err)
	}
	if s.has(OtherKernel) {
		if found := processesOf(spec.Name); len(found) > 0 {
			t.Errorf("the program's processes are this host's %v", found)
		}
		if apart, ok := inst.(platform.Apart); !ok || apart.Machine() == "" {
			t.Errorf("a %T does not tell its machine", inst)
		}
		if force, err := inst.InForce(); err != nil || len(force.Cgroups) == 0 {
			t.Errorf("cgroups %v, %v", force.Cgroups, err)
		}
		return
	}
	// The ids are the host's: there the processes carry this instance's mark,
	// but for one that is just executing its program, for some microseconds.
	sorted := slices.Sorted(slices.Values(pids))
	var marked []int
	for range 1000 {
		if marked = slices.Sorted(slices.Values(processesOf(spec.Name))); slices.Equal(sorted, marked) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if !slices.Equal(sorted, marked) {
		t.Errorf("reported %v; on the host they are %v", sorted, marked)
	}
	args, err := procfs.Host.Process(pids[0]).Args()
	if err != nil || !slices.Equal(args, spec.Args) {
		t.Errorf("the first is %q (%v), want %q", args, err, spec.Args)
	}
	force, err := inst.InForce()
	if err != nil || len(force.Cgroups) == 0 {
		t.Errorf("cgroups %v, %v", force.Cgroups, err)
	}
}

// testNetwork fetches a page from a server behind each kind of network.
func testNetwork(t *testing.T, s suite) {
	for _, network := range []platform.Network{
		platform.NetworkHost, platform.NetworkBridge, platform.NetworkProxy, platform.NetworkNAT,
	} {
		t.Run(string(network), func(t *testing.T) {
			st := s.set(t)
			setting := platform.Setting{Network: network}
			st.skipUnsupported(setting)
			port := freePort(t)
			spec := st.spec("httpd", "-f", "-p", strconv.Itoa(port), "-h", "/www")
			spec.Setting, spec.Ports = setting, []int{port}
			if network == platform.NetworkHost && s.has(HostNetworkApart) {
				st.refuses(spec)
				return
			}
			inst := st.launch(spec)
			if body := fetch(st, inst.Address(port)); body != page {
				t.Errorf("%s answered %q", inst.Address(port), body)
			}
			force, err := inst.InForce()
			if err != nil {
				t.Fatal(err)
			}
			if want := map[bool]string{true: "host", false: "own"}[network == platform.NetworkHost]; force.NetworkNS != want {
				t.Errorf("network namespace %q, want %q", force.NetworkNS, want)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		st := s.set(t)
		setting := platform.Setting{Network: platform.NetworkNone}
		st.skipUnsupported(setting)
		spec := st.shell("ip -o link | grep -c -v ' lo:'; httpd -p 127.0.0.1:8080 -h /www; wget -q -O - http://127.0.0.1:8080/")
		spec.Setting = setting
		if _, out, complaints := st.run(spec); out != "0\n"+page {
			t.Errorf("links besides loopback, then the page over loopback: %q (%s)", out, complaints)
		}
	})
}

// refuses checks that a launch is refused by type, and leaves nothing.
func (st *stage) refuses(spec platform.Spec) {
	st.Helper()
	inst, err := st.platform.Launch(st.ctx, spec)
	if err == nil {
		st.stop(inst, spec.Name)
	}
	if unsupported := new(platform.Unsupported); !errors.As(err, &unsupported) {
		st.Errorf("launch of %v under %s gives %v, want a *platform.Unsupported", spec.Args, spec.Setting, err)
	}
	st.noTraces(spec.Name)
	st.nothingEntered()
}

func freePort(t *testing.T) int {
	t.Helper()
	port := socket.DrawPorts(1, rand.IntN, socket.PortFree)
	if port == 0 {
		t.Fatal("no port is free")
	}
	return port
}

// fetch asks until the server is up.
func fetch(st *stage, address string) string {
	st.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: nil}}
	for {
		request, err := http.NewRequestWithContext(st.ctx, http.MethodGet, "http://"+address+"/", nil)
		if err != nil {
			st.Fatal(err)
		}
		answer, err := client.Do(request)
		if err == nil {
			body, err := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if err == nil && answer.StatusCode == http.StatusOK {
				return string(body)
			}
		}
		select {
		case <-st.ctx.Done():
			st.Fatalf("nobody answers at %s: %v", address, err)
		case <-time.After(5 * time.Millisecond): // there is no event for another's listen
		}
	}
}

// testData: data directories start with what the image has there and nothing
// else, can be written, and are fresh each time.
func testData(t *testing.T, s suite) {
	for _, storage := range []platform.Storage{
		"", platform.StorageLayer, platform.StorageBind, platform.StorageVolume, platform.StorageTmpfs,
	} {
		t.Run("storage="+string(storage), func(t *testing.T) {
			st := s.set(t)
			setting := platform.Setting{Storage: storage}
			st.skipUnsupported(setting)
			for range 2 {
				spec := st.shell("ls -A /data /made/for/it; for d in /data /made/for/it; do echo x > $d/new && cat $d/new; done")
				spec.Setting, spec.Data = setting, []string{"/data", "/made/for/it"}
				if s.has(LayerOfImage) && storage != platform.StorageBind {
					st.refused(spec, "no directory /made/for/it")
					break
				}
				if exit, out, complaints := st.run(spec); out != "/data:\n\n/made/for/it:\nx\nx\n" || exit.Code != 0 {
					t.Errorf("fresh and writable: exit %+v, %q, %q", exit, out, complaints)
				}
			}
			spec := st.shell("ls -A /srv/seed; cat /srv/seed/inside; echo changed > /srv/seed/inside; echo x > /srv/seed/new")
			spec.Setting, spec.Data = setting, []string{"/srv/seed"}
			inst, err := st.platform.Launch(st.ctx, spec)
			if storage == platform.StorageTmpfs && err != nil {
				// An engine's tmpfs cannot start with contents: said, not skipped over in silence.
				if !strings.Contains(err.Error(), "/srv/seed") {
					t.Errorf("refused without naming the directory: %v", err)
				}
				st.noTraces(spec.Name)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			st.wait(inst)
			st.stop(inst, spec.Name)
			if exit, out, complaints := st.run(specLike(st, spec)); out != "inside\n"+contents["srv/seed/inside"] || exit.Code != 0 {
				t.Errorf("what the image has: exit %+v, %q, %q", exit, out, complaints)
			}
		})
	}
}

// specLike is the same spec for another instance.
func specLike(st *stage, spec platform.Spec) platform.Spec {
	other := st.spec(spec.Args...)
	other.Setting, other.Data = spec.Setting, spec.Data
	return other
}

func testImageUntouched(t *testing.T, s suite) {
	before := listing(t, s.image.Root)
	st := s.set(t)
	for _, root := range []platform.Root{"", platform.RootDir, platform.RootOverlay} {
		setting := platform.Setting{Root: root}
		if st.platform.Supports(setting) != nil {
			continue
		}
		spec := st.shell("touch /new /etc/new /bin/new /data/new /tmp/new; echo x >> /etc/passwd; rm -f /www/index.html; chmod 777 /; true")
		spec.Setting, spec.Data = setting, []string{"/data"}
		st.run(spec)
	}
	if after := listing(t, s.image.Root); !slices.Equal(before, after) {
		t.Errorf("the image's root changed from\n%s\nto\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

// listing describes every file of a tree.
func listing(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := strings.TrimPrefix(path, root) + " " + info.Mode().String()
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(b)
			line += " " + hex.EncodeToString(sum[:8])
		}
		all = append(all, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func testUsage(t *testing.T, s suite) {
	st := s.set(t)
	const burn = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
	inst := st.launch(st.shell(burn))
	st.wait(inst)
	usage, err := inst.Usage()
	if errors.Is(err, platform.ErrGone) {
		t.Skipf("usage is unknown after the program's end: %v", err)
	}
	if err != nil || usage.CPU <= 0 {
		t.Errorf("after work: %+v, %v", usage, err)
	}

	setting := platform.Setting{CPUs: 0.1, CPUPeriod: 10 * time.Millisecond}
	if st.platform.Supports(setting) != nil {
		return
	}
	spec := st.shell(burn)
	spec.Setting = setting
	inst = st.launch(spec)
	st.wait(inst)
	limited, err := inst.Usage()
	if err != nil || limited.Throttled <= 0 || limited.ThrottledTime <= 0 {
		t.Errorf("under a tenth of a CPU: %+v, %v; want periods in which the quota ran out", limited, err)
	}
}

func testOutOfMemory(t *testing.T, s suite) {
	st := s.set(t)
	setting := platform.Setting{Memory: 32 << 20}
	st.skipUnsupported(setting)
	// One endless line, which tail keeps.
	spec := st.spec("tail", "/dev/zero")
	spec.Setting = setting
	if exit, _, _ := st.run(spec); exit.Code != 137 || !exit.OOMKilled {
		t.Errorf("beyond its memory limit: %+v, want code 137 by the kernel", exit)
	}
	// The status alone tells nothing: a program may choose 137 itself.
	for script, code := range map[string]int{"true": 0, "exit 137": 137} {
		spec = st.shell(script)
		spec.Setting = setting
		if exit, _, _ := st.run(spec); exit.Code != code || exit.OOMKilled {
			t.Errorf("%s within its memory limit: %+v", script, exit)
		}
	}
}
