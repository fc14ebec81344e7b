package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// packages keeps what recipe tests fetch, so that each package comes over the
// network once a run.
var packages struct {
	sync.Once
	dir string
	err error
}

// recipeStore opens an empty store, or skips where recipes cannot be built.
// fetched says that packages which another test fetched may be used.
func recipeStore(t *testing.T, fetched bool) *Store {
	t.Helper()
	for _, tool := range []string{"apt-get", "apt-cache", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs " + tool)
		}
	}
	s := openTestStore(t)
	s.progress = func(line string) { t.Log(line) }
	if fetched {
		packages.Do(func() { packages.dir, packages.err = os.MkdirTemp("", "tare-test-debs-") })
		if packages.err != nil {
			t.Fatal(packages.err)
		}
		linkDebs(t, packages.dir, s.path("debs"))
		t.Cleanup(func() { linkDebs(t, s.path("debs"), packages.dir) })
	}
	return s
}

// linkDebs gives one directory the packages of another. Each is verified
// whenever it is unpacked, so that sharing them hides nothing.
func linkDebs(t *testing.T, from, to string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(from, "*.deb"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.Link(name, filepath.Join(to, filepath.Base(name))); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
}

// mustBuild builds a recipe; a host that does not reach its archive skips.
func mustBuild(t *testing.T, s *Store, name string) Image {
	t.Helper()
	img, err := s.Recipe(t.Context(), name)
	var missing *Missing
	if errors.As(err, &missing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// inside runs a program of an image in its root.
func inside(t *testing.T, img Image, args ...string) string {
	t.Helper()
	out, err := runInside(img, args)
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
	return out
}

// misused runs one that ends for wrong usage.
func misused(t *testing.T, img Image, args ...string) string {
	t.Helper()
	out, err := runInside(img, args)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Fatalf("%s: %v: %s, want status 2", strings.Join(args, " "), err, out)
	}
	return out
}

func runInside(img Image, args []string) (string, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Path, cmd.Err, cmd.Dir = args[0], nil, "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: img.Root}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Nothing of the first store is used for the second: not even its packages.
func TestRecipeTwiceFromNothingIsTheSame(t *testing.T) {
	one := mustBuild(t, recipeStore(t, false), "busybox")
	two := mustBuild(t, recipeStore(t, false), "busybox")
	if one.Digest != two.Digest || one.Reference != two.Reference {
		t.Errorf("%s %s, then %s %s", one.Digest, one.Reference, two.Digest, two.Reference)
	}
	a, err := os.ReadFile(one.Archive)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(two.Archive)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("the archives differ")
	}
}

// commonStore is the one that other packages' tests have real programs from: what is built
// here needs not be built there.
func commonStore(t *testing.T) *Store {
	t.Helper()
	s, err := OpenStore(filepath.Join(os.TempDir(), "tare-test-images"), func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Each recipe builds, and its programs run with nothing but its root. Those that take long
// are built in the common store, if they are not there already, and from nothing, and the
// same a second time, where TARE_TEST_ALL is set.
func TestRecipesRun(t *testing.T) {
	for _, c := range []struct {
		recipe string
		long   bool
		try    func(t *testing.T, img Image)
	}{
		{"busybox", false, func(t *testing.T, img Image) {
			if got := inside(t, img, "/bin/sh", "-c", "echo $((6 * 7)) | cat"); got != "42\n" {
				t.Errorf("the shell says %q", got)
			}
		}},
		{"redis", false, func(t *testing.T, img Image) {
			if got := inside(t, img, img.Config.Cmd[0], "--version"); !strings.Contains(got, "Redis server v=") {
				t.Errorf("the server says %q", got)
			}
			inside(t, img, "/usr/bin/redis-cli", "--version")
			inside(t, img, "/usr/bin/redis-benchmark", "--version")
			if !exists(t, filepath.Join(img.Root, "data")) {
				t.Error("no /data")
			}
		}},
		{"stream-mpi", true, func(t *testing.T, img Image) {
			got := inside(t, img, StreamMPIProgram, "--help")
			if !strings.Contains(got, "usage: mpiexec -n RANKS stream-mpi") || !strings.Contains(inside(t, img, MPIExec, "--version"), "HYDRA") {
				t.Errorf("it prints %s", got)
			}
		}},
		{"haccio", true, func(t *testing.T, img Image) {
			got := inside(t, img, HaccioProgram, "--help")
			if !strings.Contains(got, "usage: mpiexec -n RANKS haccio") || !exists(t, filepath.Join(img.Root, HaccioData)) {
				t.Errorf("it prints %s", got)
			}
		}},
		{"static", true, tryStatic},
		{"heap", true, func(t *testing.T, img Image) {
			// Java has no archives here, and says how it is called.
			if got, err := runInside(img, []string{HeapJava, "-Xmx16m", "@" + HeapArguments}); err == nil || !strings.Contains(got, "usage: Heap ADDRESS PORT GARBAGE") {
				t.Errorf("%v, %s", err, got)
			}
		}},
		{"stream-peer", true, func(t *testing.T, img Image) {
			if got := inside(t, img, img.Config.Cmd...); !strings.Contains(got, "stream_mem_avx512") {
				t.Errorf("its kernels are %q", got)
			}
		}},
		{"httpd", true, func(t *testing.T, img Image) {
			if got := inside(t, img, "/usr/sbin/apache2", "-t", "-f", "/etc/httpd.conf", "-c", "Listen 80",
				"-c", "ErrorLog /dev/null"); !strings.Contains(got, "Syntax OK") {
				t.Errorf("the server says of its configuration: %s", got)
			}
			for _, n := range []int{0, HTTPDFiles - 1} {
				text, err := os.ReadFile(filepath.Join(img.Root, httpdRoot, HTTPDFile(n)))
				if err != nil || len(text) != HTTPDFileSize || !strings.HasSuffix(string(text), "\n") {
					t.Errorf("file %d: %v, %d bytes", n, err, len(text))
				}
			}
		}},
		{"docstore", true, func(t *testing.T, img Image) {
			tryJava(t, img, "etc/docstore.args", "de.bwaldvogel:")
		}},
		{"multimodel", true, func(t *testing.T, img Image) {
			tryJava(t, img, "etc/multimodel.args", "com.arcadedb:")
		}},
		{"wordpress", true, func(t *testing.T, img Image) {
			if got := inside(t, img, WordPressServer, "-t", "-C", "Define WORKERS 8", "-f", WordPressServerConfig, "-c", "ErrorLog /dev/null"); !strings.Contains(got, "Syntax OK") {
				t.Errorf("the server says of its configuration: %s", got)
			}
			if got := inside(t, img, WordPressDatabase, "--defaults-file="+WordPressDatabaseConfig, "--version"); !strings.Contains(got, "MariaDB") {
				t.Errorf("the database says %q", got)
			}
			misused(t, img, Supervise)
			for _, name := range []string{"usr/share/wordpress/wp-content/themes/twentytwentythree/theme.json", WordPressTables, "usr/share/zoneinfo/UTC"} {
				if !exists(t, filepath.Join(img.Root, name)) {
					t.Errorf("no %s", name)
				}
			}
		}},
		{"booking", true, func(t *testing.T, img Image) {
			tryJava(t, img, BookingDatabase[1:], "de.bwaldvogel:")
			if got := misused(t, img, BookingJava, "@"+BookingDatabase); got != "usage: Database ADDRESS PORT [FILE]\n" {
				t.Errorf("the database says %q", got)
			}
			// All that they are made of is there: they complain of their options alone.
			for program, want := range map[string]string{BookingApplication: "--auth HOST:PORT --database HOST:PORT", BookingAuth: "--database HOST:PORT"} {
				if got := misused(t, img, BookingNode, program); !strings.Contains(got, "--address is missing") || !strings.Contains(got, "--address ADDRESS --port PORT "+want+"\n") {
					t.Errorf("%s says %q", program, got)
				}
			}
			if !slices.Contains(img.Packages, "express 4.21.2") {
				t.Errorf("the modules are not reported: %q", img.Packages)
			}
		}},
		{"cassandra", true, func(t *testing.T, img Image) {
			tryJava(t, img, CassandraArguments[1:], "org.apache.cassandra:cassandra-all 5.0")
			for _, name := range []string{"etc/cassandra/cassandra.yaml", "usr/share/java/netty-transport-native-epoll-4.1.96.Final-linux-x86_64.jar"} {
				if !exists(t, filepath.Join(img.Root, name)) {
					t.Errorf("no %s", name)
				}
			}
		}},
		{"mapstore", true, func(t *testing.T, img Image) {
			info, err := os.Stat(filepath.Join(img.Root, MapstoreFile))
			if err != nil || info.Size() < MapstoreData<<20 || info.Mode().Perm() != 0o644 {
				t.Errorf("its store: %v, %+v", err, info)
			}
			if names, err := filepath.Glob(filepath.Join(img.Root, MapstoreFile+"*")); err != nil || len(names) != 1 {
				t.Errorf("beside the store there is %q", names)
			}
		}},
		{"thrift", true, func(t *testing.T, img Image) {
			if got := inside(t, img, MatrixProgram, "--size", "64", "--count", "3"); strings.Count(got, `"wall_ns":`) != 3 {
				t.Errorf("three multiplications are %s", got)
			}
			// Nobody serves there: that is what the client reports.
			got := inside(t, img, ThriftPython, "-B", ThriftPythonClient, "--address", "127.0.0.1:1", "--count", "2")
			if !strings.Contains(got, `"errors": {"connect": 2}`) {
				t.Errorf("the client says %s", got)
			}
			out := misused(t, img, ThriftServer, "--port", "0")
			if !strings.HasPrefix(out, "usage: thrift-server [--address ADDRESS] --port PORT") {
				t.Errorf("the service in Go says %s", out)
			}
			// All that the programs import is there as bytecode.
			const uncompiled = `
import sys
sys.path.insert(0, "/usr/lib/tare-thrift")
import client, importlib.util, logging, os, server
logging.disable()
client.run(client.parse(["--address", "127.0.0.1:1", "--count", "1"]))
for m in list(sys.modules.values()):
    if (getattr(m, "__file__", None) or "").endswith(".py") and not os.path.exists(importlib.util.cache_from_source(m.__file__)):
        print(m.__file__)
`
			if got := inside(t, img, ThriftPython, "-B", "-c", uncompiled); got != "" {
				t.Errorf("not compiled: %s", got)
			}
		}},
		{"empty", true, func(t *testing.T, img Image) {
			if got := inside(t, img, "/empty", "now"); got != "" {
				t.Errorf("it prints %q", got)
			}
			if img.Size > 16<<10 {
				t.Errorf("its root has %d bytes", img.Size)
			}
		}},
		{"uri-parser", true, tryFunction("uri-parser")},
		{"hashing", true, tryFunction("hashing")},
		{"files", true, func(t *testing.T, img Image) {
			args := []string{FilesProgram, "walk", "--dir", FilesTree, "--count", "1", "--entries", strconv.Itoa(FilesTreeDirectories + FilesTreeFiles),
				"+", "open", "--file", FilesShelved, "--count", "1", "--mode", "read", "+", "create", "--dir", FilesData, "--count", "1"}
			if out := inside(t, img, args...); strings.Count(out, `"operation"`) != 3 {
				t.Errorf("it prints %s", out)
			}
			for _, size := range FilesLowerSizes {
				for _, name := range FilesLowerFiles(size) {
					if info, err := os.Stat(filepath.Join(img.Root, name)); err != nil || info.Size() != size.Bytes {
						t.Errorf("%s: %v, %+v", name, err, info)
					}
				}
			}
		}},
		{"stream", true, func(t *testing.T, img Image) {
			out := inside(t, img, "/usr/bin/stream", "--elements", "100000", "--repetitions", "3", "--threads", "2")
			if strings.Count(out, `"valid":true`) != 4 {
				t.Errorf("not four valid kernels: %s", out)
			}
		}},
		{"ffmpeg", true, func(t *testing.T, img Image) {
			for clip, seconds := range map[string]string{"720p-1s.mp4": "1.000000", "720p-5s.mp4": "5.000000"} {
				out := inside(t, img, "/usr/bin/ffprobe", "-v", "error", "-select_streams", "v", "-of", "json",
					"-show_entries", "stream=codec_name,width,height,duration", "/clips/"+clip)
				var probed struct {
					Streams []struct {
						Codec    string `json:"codec_name"`
						Width    int
						Height   int
						Duration string
					}
				}
				if err := json.Unmarshal([]byte(out), &probed); err != nil || len(probed.Streams) != 1 {
					t.Fatalf("%s: %v: %s", clip, err, out)
				}
				if s := probed.Streams[0]; s.Codec != "h264" || s.Width != 1280 || s.Height != 720 || s.Duration != seconds {
					t.Errorf("%s is %+v", clip, s)
				}
			}
			inside(t, img, "/usr/bin/ffmpeg", "-nostdin", "-loglevel", "error", "-i", "/clips/720p-1s.mp4",
				"-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "pools=1:log-level=error", "-f", "null", "-")
		}},
	} {
		t.Run(c.recipe, func(t *testing.T) {
			if c.long && testing.Short() {
				t.Skip("builds for ten seconds and more: left out by -short")
			}
			if c.long && os.Getenv("TARE_TEST_ALL") == "" {
				c.try(t, mustBuild(t, commonStore(t), c.recipe))
				return
			}
			img := mustBuild(t, recipeStore(t, true), c.recipe)
			if len(img.Warnings) > 0 {
				t.Logf("warnings: %q", img.Warnings)
			}
			// No test writes to a root, so the second build may serve this.
			again := recipeStore(t, true)
			linkDebs(t, filepath.Join(filepath.Dir(filepath.Dir(img.Root)), "debs"), again.path("debs"))
			second := mustBuild(t, again, c.recipe)
			if second.Digest != img.Digest {
				t.Errorf("built twice: %s and %s", img.Digest, second.Digest)
			}
			c.try(t, second)
		})
	}
}

// tryJava looks whether Java runs, and all that its options name is there.
func tryJava(t *testing.T, img Image, options, group string) {
	t.Helper()
	inside(t, img, "/usr/bin/java", "-version")
	if !slices.ContainsFunc(img.Packages, func(name string) bool { return strings.HasPrefix(name, group) }) {
		t.Errorf("the archives are not reported: %q", img.Packages)
	}
	text, err := os.ReadFile(filepath.Join(img.Root, options))
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(text))
	at := slices.Index(words, "-cp")
	if at < 0 || at+1 == len(words) {
		t.Fatalf("no class path in %s", text)
	}
	for jar := range strings.SplitSeq(words[at+1], ":") {
		if !exists(t, filepath.Join(img.Root, jar)) {
			t.Errorf("%s is on the class path, and not there", jar)
		}
	}
}

// tryFunction runs a function over a part of its own input.
func tryFunction(name string) func(t *testing.T, img Image) {
	return func(t *testing.T, img Image) {
		out := inside(t, img, "/usr/bin/"+name, "--data", "1", "--access", "sparse", functionFile)
		if !strings.Contains(out, `"function":"`+name+`","access":"sparse","bytes":1048576,`) {
			t.Errorf("it prints %s", out)
		}
		if info, err := os.Stat(filepath.Join(img.Root, functionFile)); err != nil || info.Size() != FunctionInput<<20 {
			t.Errorf("its input: %v, %+v", err, info)
		}
	}
}

func TestRecipeIsBuiltOnce(t *testing.T) {
	s := recipeStore(t, true)
	var unpacked atomic.Int32
	progress := func(line string) {
		if strings.HasPrefix(line, "unpacking") {
			unpacked.Add(1)
		}
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			other, err := OpenStore(s.dir, progress)
			if err != nil {
				t.Error(err)
				return
			}
			_, err = other.Recipe(t.Context(), "busybox")
			var missing *Missing
			if err != nil && !errors.As(err, &missing) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := unpacked.Load(); n > 1 {
		t.Errorf("built %d times", n)
	}
	// A later call needs nothing: not even apt.
	if unpacked.Load() == 1 {
		t.Setenv("PATH", t.TempDir())
		if _, err := s.Recipe(t.Context(), "busybox"); err != nil {
			t.Error(err)
		}
	}
}

func TestUnknownRecipe(t *testing.T) {
	s := openTestStore(t)
	for _, name := range []string{"nothing", "", "compiler", "../redis"} {
		_, err := s.Recipe(t.Context(), name)
		if err == nil || !strings.Contains(err.Error(), strings.Join(s.Recipes(), ", ")) {
			t.Errorf("%q: %v, want the names that there are", name, err)
		}
	}
}

func TestHostWithoutApt(t *testing.T) {
	s := openTestStore(t)
	t.Setenv("PATH", t.TempDir())
	_, err := s.Recipe(t.Context(), "redis")
	var missing *Missing
	if !errors.As(err, &missing) || !strings.Contains(missing.What, "apt-get") || missing.Mend == "" {
		t.Errorf("%v, want that apt-get is missing, and what to do", err)
	}
	mustBeEmpty(t, s)
}

// Every recipe that has packages has them locked, for this architecture and
// by name at least all that it asks for.
func TestLocksHoldWhatRecipesAsk(t *testing.T) {
	names, err := lockFiles.ReadDir("recipes")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range names {
		recipeName, rest, _ := strings.Cut(file.Name(), ".")
		arch := strings.TrimSuffix(rest, ".lock")
		r, ok := findRecipe(recipeName)
		if !ok {
			t.Errorf("%s is of no recipe", file.Name())
			continue
		}
		l, text, ok, err := readLock(recipeName, arch)
		if err != nil || !ok {
			t.Errorf("%s: %v", file.Name(), err)
			continue
		}
		for _, name := range slices.Concat(r.packages, r.keep) {
			if !slices.ContainsFunc(l.Packages, func(p Package) bool { return p.Name == name }) {
				t.Errorf("%s does not hold %s", file.Name(), name)
			}
		}
		for _, coordinates := range r.jars {
			if !slices.ContainsFunc(l.Jars, func(j Jar) bool { return j.name()+":"+j.Version == coordinates }) {
				t.Errorf("%s does not hold %s", file.Name(), coordinates)
			}
		}
		if !bytes.Equal(l.Format(recipeName, arch), text) {
			t.Errorf("%s is not as go run ./image/lock writes it", file.Name())
		}
	}
	for _, name := range LockedRecipes() {
		if _, _, ok, _ := readLock(name, "amd64"); !ok {
			t.Errorf("recipe %s has no lock file for amd64", name)
		}
	}
}

// A pinned version that has gone from the archive is replaced by the present
// one, and that is said.
func TestVanishedPinIsSaid(t *testing.T) {
	s := recipeStore(t, false)
	w, err := s.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.end()
	apt, err := newAptArchive(s.path("debs", "apt"), debianArch(s.arch))
	if err != nil {
		t.Fatal(err)
	}
	vanished := Lock{Packages: []Package{{Name: "busybox-static", Version: "1:0.60.0-1", SHA256: strings.Repeat("0", 64)}}}
	now, warnings, err := s.fetchFrom(t.Context(), apt, w, busyboxRecipe, vanished, true)
	var missing *Missing
	if errors.As(err, &missing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(now.Packages) != 1 || now.Packages[0].Version == "1:0.60.0-1" {
		t.Errorf("fetched %v", now.Packages)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "instead of the locked 1:0.60.0-1") {
		t.Errorf("warnings %q", warnings)
	}
	if _, _, err := s.fetchFrom(t.Context(), apt, w, recipe{name: "x", packages: []string{"no-such-package-anywhere"}}, Lock{}, false); !errors.As(err, &missing) {
		t.Errorf("a package that nobody has: %v", err)
	}
}

func TestDrift(t *testing.T) {
	locked := Lock{Packages: []Package{{Name: "a", Version: "1"}, {Name: "b", Version: "1"}, {Name: "c", Version: "1"}}}
	now := Lock{Packages: []Package{{Name: "a", Version: "1"}, {Name: "b", Version: "2"}, {Name: "d", Version: "1"}}}
	want := []string{"b 2 instead of the locked 1", "d 1, which the lock file does not have", "no c, which is locked at 1"}
	if got := drift(locked, now); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := drift(locked, locked); len(got) != 0 {
		t.Errorf("no drift is %q", got)
	}
}

func TestDamagedPackageIsNotUnpacked(t *testing.T) {
	debs := t.TempDir()
	p := Package{Name: "x", Version: "1", SHA256: strings.Repeat("0", 64)}
	if err := os.WriteFile(debPath(debs, p.SHA256), []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := unpackDeb(context.Background(), debs, p, t.TempDir(), unneeded)
	var refused *Refused
	if !errors.As(err, &refused) {
		t.Errorf("%v, want a refusal", err)
	}
	if haveDeb(debs, p) {
		t.Error("it is kept, and the next build fails the same way")
	}
}

func TestAptOnFullDisk(t *testing.T) {
	at := t.TempDir()
	recipeStore(t, false) // skips where there is no apt
	mountTmpfs(t, at, "2m")
	s, err := OpenStore(at, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Recipe(t.Context(), "busybox")
	var missing *Missing
	if errors.As(err, &missing) {
		t.Skip(err)
	}
	var full *Full
	if !errors.As(err, &full) {
		t.Errorf("%v, want that the disk is full", err)
	}
	mustBeEmpty(t, s)
	if names, _ := os.ReadDir(s.path("debs")); len(names) != 0 {
		t.Errorf("left in debs: %v", names)
	}
}
