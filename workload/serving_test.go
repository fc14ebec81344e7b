package workload

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/image"
)

// scratchRoot lays an image's root below a layer of its own, with /proc, since
// what services write must not get into the store's.
func scratchRoot(t *testing.T, img image.Image) image.Image {
	t.Helper()
	dir := t.TempDir()
	mount := func(args ...string) {
		out, err := exec.Command("mount", args...).CombinedOutput()
		if err != nil {
			t.Skipf("needs mount %s: %v: %s", strings.Join(args, " "), err, out)
		}
		t.Cleanup(func() {
			if out, err := exec.Command("umount", args[len(args)-1]).CombinedOutput(); err != nil {
				t.Errorf("umount: %v: %s", err, out)
			}
		})
	}
	mount("-t", "tmpfs", "tare-test", dir)
	for _, name := range []string{"upper", "work", "root"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root := filepath.Join(dir, "root")
	mount("-t", "overlay", "-o", "lowerdir="+img.Root+",upperdir="+filepath.Join(dir, "upper")+",workdir="+filepath.Join(dir, "work"), "tare-test", root)
	mount("-t", "proc", "tare-test", filepath.Join(root, "proc"))
	img.Root = root
	return img
}

// serveAlone launches a service in a process namespace of its own, so that all its
// processes end with the first.
func serveAlone(t *testing.T, w Workload, p Params, img image.Image, port string, edit func(args []string)) *realTrial {
	t.Helper()
	tr := launch(t, w, p, scratchRoot(t, img), edit, syscall.CLONE_NEWPID)
	tr.address = "127.0.0.1:" + port
	return tr
}

func TestRealHTTPD(t *testing.T) {
	img := realImage(t, "httpd")
	w := httpd{}
	for _, pairs := range [][]string{
		{"data", "1", "access-log", "on"},
		{"connection", "new", "rate", "200", "connections", "4"},
	} {
		p := resolve(t, w, append(pairs, "duration", "200ms", "warmup", "50ms")...)
		port := freePort(t)
		tr := serveAlone(t, w, p, img, port, func(args []string) { args[slices.Index(args, "Listen 80")] = "Listen 127.0.0.1:" + port })
		if err := w.Drive(t.Context(), tr); err != nil {
			t.Fatalf("%v; it printed %s", err, lastWords(tr))
		}
		checkRecorded(t, w, &tr.trial)
		tr.end()
		if _, stderr := tr.Output(); strings.Contains(string(stderr), "error") {
			t.Errorf("it complains: %s", stderr)
		}
		if stdout, _ := tr.Output(); strings.Contains(string(stdout), `"GET /0`) != (p["access-log"] == "on") {
			t.Errorf("access log %s, and it printed %.200q", p["access-log"], stdout)
		}
	}
}

func TestRealDocstore(t *testing.T) {
	img := realImage(t, "docstore")
	taken, err := net.Listen("tcp", ":"+strconv.Itoa(docstorePort))
	if err != nil {
		t.Skip("needs the port to itself: ", err)
	}
	taken.Close()
	w := docstore{}
	for _, pairs := range [][]string{{"heap", "64"}, {"storage", "file", "reads", "95", "rate", "200"}} {
		p := resolve(t, w, append(pairs, "documents", "1500", "duration", "300ms", "warmup", "50ms")...)
		tr := serveAlone(t, w, p, img, strconv.Itoa(docstorePort), func([]string) {})
		if err := w.Drive(t.Context(), tr); err != nil {
			t.Fatalf("%v; it printed %s", err, lastWords(tr))
		}
		checkRecorded(t, w, &tr.trial)
		tr.end()
	}
}

func TestRealFunctions(t *testing.T) {
	for _, w := range []function{uriParser, hashing} {
		img := scratchRoot(t, realImage(t, w.Name()))
		for _, pairs := range [][]string{{}, {"access", "sparse"}, {"data", strconv.Itoa(image.FunctionInput + 1)}} {
			tr := launch(t, w, resolve(t, w, pairs...), img, func([]string) {}, 0)
			if err := w.Drive(t.Context(), tr); err != nil {
				t.Fatalf("%s %q: %v", w.Name(), pairs, err)
			}
			checkRecorded(t, w, &tr.trial)
			tr.end()
		}
	}
}

func TestRealEmpty(t *testing.T) {
	img := realImage(t, "empty")
	w := empty{}
	tr := launch(t, w, resolve(t, w, "until", "exit"), img, func([]string) {}, 0)
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, &tr.trial)
	waits := launch(t, w, resolve(t, w), img, func([]string) {}, 0)
	if err := w.Drive(t.Context(), waits); err == nil || !strings.Contains(err.Error(), "until=exit") {
		t.Errorf("%v, want how it can be weighed", err)
	}
}

// Every shipped service can be asked whether it serves; no batch program can.
func TestServes(t *testing.T) {
	for _, w := range All() {
		program, err := w.Program(resolve(t, w))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := Serves(w, program); ok != (program.Service && len(program.Ports) > 0) {
			t.Errorf("%s: can be asked: %v; a service with ports: %v", w.Name(), ok, program.Service)
		}
	}
}

// A service from a file can be asked, a batch program cannot.
func TestReadiersOfFiles(t *testing.T) {
	for file, want := range map[string]bool{"httpd.yaml": true, "sort.yaml": false} {
		w, err := FromYAML(filepath.Join("..", "docs", "examples", file))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := w.(Readier); ok != want {
			t.Errorf("%s: can be asked: %v", file, ok)
		}
	}
}

// A question that fails is asked again, ever more rarely, until the context
// ends; then the last answer is told.
func TestReadyTellsTheLastAnswer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	address := respServer(t, func([]string) string { return "-LOADING Redis is loading the dataset in memory\r\n" })
	err := redis{}.Ready(ctx, &trial{params: resolve(t, redis{}), address: address})
	if err == nil || !strings.Contains(err.Error(), "LOADING") || !strings.Contains(err.Error(), "PING") {
		t.Errorf("%v, want what was asked and what came of it", err)
	}
	// Nobody there at all.
	gone := "127.0.0.1:" + freePort(t)
	for _, w := range []Readier{redis{}, httpd{}, docstore{}} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := w.Ready(ctx, &trial{params: resolve(t, w), address: gone}); err == nil || !strings.Contains(err.Error(), gone) {
			t.Errorf("%s: %v", w.Name(), err)
		}
	}
}

func TestReadyComesWithTheAnswer(t *testing.T) {
	asked := 0
	address := respServer(t, func([]string) string {
		if asked++; asked < 4 {
			return "-LOADING Redis is loading the dataset in memory\r\n"
		}
		return "+PONG\r\n"
	})
	if err := (redis{}).Ready(t.Context(), &trial{params: resolve(t, redis{}), address: address}); err != nil || asked != 4 {
		t.Errorf("%v after %d questions, want 4", err, asked)
	}
}
