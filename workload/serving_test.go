package workload

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/image"
	"tare/load"
)

// scratchRoot lays an image's root below a layer of its own, with /proc and /sys, since
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
	if err := os.MkdirAll(filepath.Join(root, "sys"), 0o755); err != nil {
		t.Fatal(err)
	}
	mount("-t", "sysfs", "-o", "ro", "tare-test", filepath.Join(root, "sys"))
	img.Root = root
	return img
}

// serveAlone launches a service in a process namespace of its own, so that all its
// processes end with the first. It listens at the port on loopback, if it takes a port.
func serveAlone(t *testing.T, w Workload, p Params, img image.Image, port string) *realTrial {
	t.Helper()
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	if Places(w) {
		if _, p, err = At(w, p, Place{Port: number, Listen: "127.0.0.1"}); err != nil {
			t.Fatal(err)
		}
	}
	tr := launch(t, w, p, scratchRoot(t, img), func([]string) {}, syscall.CLONE_NEWPID)
	tr.address = "127.0.0.1:" + port
	return tr
}

func TestRealHTTPD(t *testing.T) {
	t.Parallel()
	img := realImage(t, "httpd")
	w := httpd{}
	for _, pairs := range [][]string{
		{"data", "1", "access-log", "on"},
		{"connection", "new", "rate", "200", "connections", "4"},
	} {
		p := resolve(t, w, append(pairs, "duration", "200ms", "warmup", "50ms")...)
		tr := serveAlone(t, w, p, img, freePort(t))
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
	t.Parallel()
	img := realImage(t, "docstore")
	port := freePort(t)
	w := docstore{}
	for _, pairs := range [][]string{{"heap", "64"}, {"storage", "file", "reads", "95", "rate", "200"}, {"storage", "memory", "data", "1"}} {
		p := resolve(t, w, append(pairs, "documents", "1500", "duration", "300ms", "warmup", "50ms")...)
		tr := serveAlone(t, w, p, img, port)
		if err := w.Drive(t.Context(), tr); err != nil {
			t.Fatalf("%v; it printed %s", err, lastWords(tr))
		}
		checkRecorded(t, w, &tr.trial)
		// H2 takes its mapping away and makes it anew each time the file has grown,
		// and it writes on when the load has ended.
		want := p["storage"] == "mapped"
		got := tr.maps(t, "/data/docs.mv")
		for i := 0; want && !got && i < 1000; i++ {
			time.Sleep(5 * time.Millisecond)
			got = tr.maps(t, "/data/docs.mv")
		}
		if got != want {
			t.Errorf("storage %s, and the data file is mapped: %t", p["storage"], got)
		}
		tr.end()
	}
}

func TestRealMultimodel(t *testing.T) {
	t.Parallel()
	img := realImage(t, "multimodel")
	port := freePort(t)
	w := multimodel{}
	p := resolve(t, w, "heap", "256", "duration", "300ms", "warmup", "50ms")
	tr := serveAlone(t, w, p, img, port)
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatalf("%v; it printed %s", err, lastWords(tr))
	}
	checkRecorded(t, w, &tr.trial)
	tr.end()
	if _, stderr := tr.Output(); strings.Contains(string(stderr), "Exception") {
		t.Errorf("it complains: %s", stderr)
	}
}

func TestRealMapstore(t *testing.T) {
	t.Parallel()
	img := realImage(t, "mapstore")
	w := mapstore{}
	for _, pairs := range [][]string{{}, {"data", "1", "reads", "50"}, {"data", strconv.Itoa(image.MapstoreData + 1), "rate", "500"}} {
		p := resolve(t, w, append(pairs, "duration", "300ms", "warmup", "50ms")...)
		port := freePort(t)
		tr := serveAlone(t, w, p, img, port)
		if err := w.Drive(t.Context(), tr); err != nil {
			t.Fatalf("%q: %v; it printed %s", pairs, err, lastWords(tr))
		}
		checkRecorded(t, w, &tr.trial)
		// A store that nobody writes is the image's, and no copy of it.
		if !tr.maps(t, image.MapstoreFile) && len(pairs) == 0 {
			t.Error("the image's store is not mapped")
		}
		if got, want := tr.maps(t, "/data/store.mdb"), len(pairs) > 0; got != want {
			t.Errorf("%q: a store of its own is mapped: %t", pairs, got)
		}
		tr.end()
		if tr.exit.Code != -1 {
			t.Errorf("%q: it ended with %d before it was killed", pairs, tr.exit.Code)
		}
	}
}

// Each service is kept at work on its data for a while, under its own parameters
// with less data than these have, and answers all requests rightly.
func TestRealServicesAreSustained(t *testing.T) {
	for _, c := range []struct {
		w     Sustainer
		pairs []string
		// spoil changes the data behind the load's back; nil where nobody can.
		spoil func(ctx context.Context, address string) error
	}{
		{redis{}, []string{"data", "4", "reads", "50"}, spoilRedis},
		{httpd{}, nil, nil},
		{mapstore{}, nil, nil},
		{mapstore{}, []string{"data", "4", "reads", "95"}, nil},
		{docstore{}, []string{"data", "1"}, spoilDocstore},
		{docstore{}, []string{"data", "1", "storage", "memory"}, spoilDocstore},
		{multimodel{}, []string{"data", "1"}, spoilMultimodel},
		{wordpress{}, nil, nil},
		{cassandra{}, []string{"records", "1000"}, spoilCassandra},
	} {
		t.Run(c.w.Name()+strings.Join(c.pairs, ""), func(t *testing.T) {
			img := realImage(t, c.w.Source().Recipe)
			port := freePort(t)
			overrides, steady := c.w.Sustained()
			if overrides == nil {
				overrides = Params{}
			}
			for i := 0; i < len(c.pairs); i += 2 {
				overrides[c.pairs[i]] = c.pairs[i+1]
			}
			p, err := Resolve(c.w, overrides)
			if err != nil || !steady {
				t.Fatal(err, steady)
			}
			tr := serveAlone(t, c.w, p, img, port)
			if err := c.w.Ready(t.Context(), tr); err != nil {
				t.Fatalf("%v; it printed %s", err, lastWords(tr))
			}
			// The time is longer where the host is so busy that no request ends in it.
			sustain := func(seed uint64) (err error) {
				for while := 1500 * time.Millisecond; while < time.Minute; while *= 2 {
					ctx, cancel := context.WithTimeout(t.Context(), while)
					err = c.w.Sustain(ctx, tr, seed)
					cancel()
					if err == nil || !strings.Contains(err.Error(), "not one request was answered") {
						break
					}
				}
				return err
			}
			if err := sustain(1); err != nil {
				t.Fatalf("%v; it printed %s", err, lastWords(tr))
			}
			t.Logf("loading took %v s", tr.records["loading"])
			// It is still there, and can be gone on with under another seed.
			if err := sustain(2); err != nil {
				t.Errorf("a second time: %v", err)
			}
			if c.spoil == nil {
				return
			}
			if err := c.spoil(t.Context(), tr.address); err != nil {
				t.Fatal(err)
			}
			if err := c.w.Sustain(t.Context(), tr, 3); err == nil || !strings.Contains(err.Error(), "not found") {
				t.Errorf("with its data spoilt: %v, want that they are", err)
			}
		})
	}
}

func spoilCassandra(ctx context.Context, address string) error {
	client, err := load.DialCQL(ctx, nil, address)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.Do(ctx, "TRUNCATE ycsb.usertable")
	return err
}

func spoilRedis(ctx context.Context, address string) error {
	client, err := load.DialRESP(ctx, address)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.Do(ctx, []string{"FLUSHALL"})
	return err
}

func spoilDocstore(ctx context.Context, address string) error {
	client, err := load.DialOpMsg(ctx, address)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.Do(ctx, load.Document{
		{Name: "update", Value: "usertable"}, {Name: "$db", Value: "ycsb"},
		{Name: "updates", Value: []load.Document{{
			{Name: "q", Value: load.Document{}}, {Name: "multi", Value: true},
			{Name: "u", Value: load.Document{{Name: "$set", Value: load.Document{{Name: "field0", Value: "spoilt"}}}}},
		}}},
	})
	return err
}

func spoilMultimodel(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return askHTTP(ctx, multimodelTarget(address, func() load.HTTPRequest {
		// Updates that the end of the load left under way may come between.
		return statement("command", "sqlscript", "BEGIN; UPDATE usertable SET field0 = 'spoilt'; COMMIT RETRY 100", nil, nil)
	}))
}

func TestRealFunctions(t *testing.T) {
	t.Parallel()
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
// ends; then the last answer is reported.
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
