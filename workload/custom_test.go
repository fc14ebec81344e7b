package workload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const batchFile = `
name: count
image: {recipe: busybox}
params:
  - {name: n, default: "3", doc: how many}
kind: batch
command: [seq, "${n}"]
env: {B: "2", A: "$${n}=${n}"}
dir: /data
data: [/data/]
memory: 8m
metrics:
  - {name: lines, unit: lines, better: lower, from: {pattern: "(?m)^([0-9]+)$"}}
  - {name: score, unit: points, better: higher, primary: true, from: {json: result.score, output: stderr}}
  - {from: {builtin: wall}}
`

const serviceFile = `
name: shop
image: {recipe: busybox}
params:
  - {name: rate, default: "200"}
kind: service
ports: [8080]
ready: {http: {path: /ready}, timeout: 5s}
load:
  http:
    path: /page
    rate: ${rate}
    connections: 4
    count: 50
    assert: {status: 200, body_min: 3, errors: 0.5}
`

// parse is fromYAML, which has to succeed.
func parse(t *testing.T, text string) Workload {
	t.Helper()
	w, err := fromYAML("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestBatchFromYAML(t *testing.T) {
	w := parse(t, batchFile)
	p := resolve(t, w, "n", "7")
	program, err := w.Program(p)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(program.Args, []string{"seq", "7"}) || !slices.Equal(program.Env, []string{"A=${n}=7", "B=2"}) ||
		program.Dir != "/data" || !slices.Equal(program.Data, []string{"/data"}) || program.MemoryNeed != 8<<20 || program.Service {
		t.Errorf("program %+v", program)
	}
	tr := &trial{params: p, stdout: "1\n2\n3\n", stderr: `{"result": {"score": [1.5, 2e3]}}`, exit: Exit{Elapsed: time.Second}}
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, tr)
	if got := fmt.Sprint(tr.records["lines"], tr.records["score"], tr.records["wall"]); got != "[1 2 3] [1.5 2000] [1]" {
		t.Errorf("recorded %s", got)
	}
	if first := w.Metrics(p)[0]; first.Name != "score" || !first.Primary {
		t.Errorf("first metric %+v, want the primary one", first)
	}
}

func TestMetricNotFound(t *testing.T) {
	w := parse(t, batchFile)
	for _, c := range []struct{ stdout, stderr, want string }{
		{"none\n", `{"result":{"score":1}}`, `metric lines: stdout does not match`},
		{"1\n", "broken", "metric score: stderr: not JSON"},
		{"1\n", `{"result":{"score":"high"}}`, "want a number"},
		{"1\n", `{"result":{}}`, "want a number"},
		{"1\n", `{"result":{"score":[]}}`, "empty list"},
		{"1\n", `{"result":{"score":1e999}}`, "where a number is wanted"},
	} {
		err := w.Drive(t.Context(), &trial{params: resolve(t, w), stdout: c.stdout, stderr: c.stderr})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one about %q", err, c.want)
		}
	}
}

func TestJSONLines(t *testing.T) {
	got, err := findJSON([]byte("{\"v\":1}\n{\"v\":2.5}\n"), "..#.v")
	if err != nil || !slices.Equal(got, []string{"1", "2.5"}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := findJSON([]byte("{\"v\":1}\nnoise\n"), "..#.v"); err == nil {
		t.Error("a line that is not JSON was passed over")
	}
}

// serve is an HTTP service on loopback.
func serve(t *testing.T, handler http.HandlerFunc) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return listener.Addr().String()
}

func TestHTTPServiceFromYAML(t *testing.T) {
	var asked, pages atomic.Int64
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/ready" && asked.Add(1) < 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/page" && pages.Add(1)%5 == 0:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			w.Write([]byte("page"))
		}
	})
	w := parse(t, serviceFile)
	for _, rate := range []string{"2000", "closed"} {
		asked.Store(0)
		pages.Store(0)
		tr := &trial{params: resolve(t, w, "rate", rate), address: address, ended: make(chan struct{})}
		if err := w.Drive(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		checkRecorded(t, w, tr)
		if asked.Load() != 3 || pages.Load() != 50 {
			t.Errorf("asked %d times whether it is ready and %d pages, want 3 and 50", asked.Load(), pages.Load())
		}
		if got := tr.records["errors"][0]; got != 10 {
			t.Errorf("%v errors, want each fifth of 50", got)
		}
		if got := tr.histograms["latency"].TotalCount(); got != 40 {
			t.Errorf("%d latencies, want those of the 40 right answers", got)
		}
	}
}

func TestTooManyErrorsAreNotValid(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/page" {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	w := parse(t, serviceFile)
	err := w.Drive(t.Context(), &trial{params: resolve(t, w, "rate", "2000"), address: address, ended: make(chan struct{})})
	if err == nil || !strings.Contains(err.Error(), "50 of 50 requests failed (50 status 502)") {
		t.Errorf("error %v", err)
	}
}

func TestServiceNeverReady(t *testing.T) {
	w := parse(t, strings.Replace(serviceFile, "timeout: 5s", "timeout: 20ms", 1))
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	err := w.Drive(t.Context(), &trial{params: resolve(t, w), address: address, ended: make(chan struct{})})
	if err == nil || !strings.Contains(err.Error(), "not ready after 20ms") || !strings.Contains(err.Error(), "status 418") {
		t.Errorf("error %v, want it to tell the limit and the last answer", err)
	}
	ended := make(chan struct{})
	close(ended)
	err = w.Drive(t.Context(), &trial{params: resolve(t, w), address: "127.0.0.1:1", ended: ended, exit: Exit{Code: 4}, stderr: "no such page\n"})
	refusedAs[*Ended](t, err, "status 4", "no such page")
}

func TestReadyByOutput(t *testing.T) {
	for _, ready := range []string{`{output: "ready (to|for)"}`, `{log: "ready to accept (really)"}`} {
		w := parse(t, strings.Replace(serviceFile, "{http: {path: /ready}, timeout: 5s}", ready, 1))
		address := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("page")) })
		tr := &trial{params: resolve(t, w, "rate", "2000"), address: address, ended: make(chan struct{}), stderr: "now ready to accept (really)\n"}
		if err := w.Drive(t.Context(), tr); err != nil {
			t.Errorf("%s: %v", ready, err)
		}
	}
}

func TestRESPServiceFromYAML(t *testing.T) {
	w := parse(t, `
name: store
image: {recipe: redis}
kind: service
ports: [6379]
load:
  resp:
    commands: ["SET k v", [GET, "a key"]]
    pipeline: 4
    rate: closed
    connections: 2
    count: 25
`)
	var commands atomic.Int64
	address := respServer(t, func([]string) string { commands.Add(1); return "+OK\r\n" })
	tr := &trial{params: resolve(t, w), address: address, ended: make(chan struct{})}
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, tr)
	if commands.Load() != 100 {
		t.Errorf("%d commands, want 25 requests of 4", commands.Load())
	}
	if first := w.Metrics(nil)[0]; first.Name != "throughput" {
		t.Errorf("first metric of a closed loop is %s, want throughput", first.Name)
	}
}

func TestLoadProgramFromYAML(t *testing.T) {
	w := parse(t, `
name: store
image: {recipe: redis}
kind: service
ports: [6379, 7000]
load: {command: {args: [bench, -h, "${host}", -p, "${port:7000}", "http://${address}/"]}}
metrics: [{name: rate, unit: requests/s, better: higher, from: {json: rate}}]
`)
	listener, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 loopback: ", err)
	}
	defer listener.Close()
	address := listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	tr := &trial{params: resolve(t, w), address: address, ended: make(chan struct{}),
		generate: func(context.Context, []string) ([]byte, error) { return []byte(" {\"rate\": 12} \n"), nil }}
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, tr)
	if want := []string{"bench", "-h", "::1", "-p", port, "http://[::1]:" + port + "/"}; !slices.Equal(tr.generated[0], want) {
		t.Errorf("ran %q, want %q", tr.generated[0], want)
	}
	tr.generate = func(context.Context, []string) ([]byte, error) { return nil, errors.New("exit status 2") }
	if err := w.Drive(t.Context(), tr); err == nil || !strings.Contains(err.Error(), "load program bench: exit status 2") {
		t.Errorf("error %v", err)
	}
}

func TestWrongParameterOfAFile(t *testing.T) {
	_, err := Resolve(parse(t, serviceFile), map[string]string{"rate": "fast"})
	refusedAs[*Malformed](t, err, "test.yaml:12:11", "load.http.rate", `"fast"`, "closed")
}

// Where, which key, and what is allowed.
func TestMalformedFiles(t *testing.T) {
	edit := func(of, old, new string) string {
		if !strings.Contains(of, old) {
			t.Fatalf("%q is not in the file", old)
		}
		return strings.Replace(of, old, new, 1)
	}
	for _, c := range []struct{ file, want string }{
		{"", "documents"},
		{"name: a\n---\nname: b\n", "2 documents"},
		{"- a\n", "test.yaml:1:1: want a mapping"},
		{"name: [\n", "test.yaml:1:7: "},
		{"name: a\nname: b\n", "test.yaml:2:1: "},
		{edit(batchFile, "name: count", "nmae: count"), "test.yaml:2:1: nmae: unknown key; did you mean name?"},
		{edit(batchFile, "name: count", "name: Count!"), "test.yaml:2:7: name: "},
		{edit(batchFile, "name: count\n", ""), "name: is missing"},
		{edit(batchFile, "{recipe: busybox}", "{recipe: busybox, rootfs: /}"), "image: has 2 keys, want exactly one"},
		{edit(batchFile, "{recipe: busybox}", "busybox"), "test.yaml:3:8: image: want a mapping with some of: recipe"},
		{edit(batchFile, "{recipe: busybox}", ""), "image: has no value"},
		{edit(batchFile, "kind: batch", "kind: bach"), `test.yaml:6:7: kind: "bach": want batch or service`},
		{edit(batchFile, `"${n}"]`, `"${m}"]`), "test.yaml:7:16: command[1]: ${m} stands for nothing; known: n"},
		{edit(batchFile, `"${n}"]`, `"${port}"]`), "${port} stands for nothing"},
		{edit(batchFile, "dir: /data", "dir: data"), "dir: \"data\": want an absolute path"},
		{edit(batchFile, "[/data/]", "[/]"), "data[0]: "},
		{edit(batchFile, "8m", "8 apples"), "memory: "},
		{edit(batchFile, "name: n,", "name: host,"), "choose another name"},
		{edit(batchFile, "{B: ", "{B-: "), "environment variable"},
		{edit(batchFile, "unit: lines, ", ""), "metrics[0]: lacks the key unit"},
		{edit(batchFile, "better: lower", "better: less"), `metrics[0].better: "less": want higher or lower`},
		{edit(batchFile, "([0-9]+)$", "[0-9]+$"), "metrics[0].from.pattern: has 0 groups"},
		{edit(batchFile, "([0-9]+)$", "([0-9+$"), "not a regular expression"},
		{edit(batchFile, "builtin: wall", "builtin: p99"), "built-in metrics cpu, wall"},
		{edit(batchFile, "output: stderr", "output: load"), "want stdout or stderr"},
		{edit(batchFile, "dir: /data", "load: {}"), "load: is for kind: service"},
		{edit(serviceFile, "    rate: ${rate}\n", ""), "load.http: lacks the key rate"},
		{edit(serviceFile, "    count: 50\n", ""), "load.http: lacks the key duration"},
		{edit(serviceFile, "connections: 4", "connections: 0"), "test.yaml:13:18: load.http.connections: \"0\": want a whole number from 1"},
		{edit(serviceFile, "connections: 4", "conections: 4"), "did you mean connections?"},
		{edit(serviceFile, "path: /page", "path: page"), "begins with /"},
		{edit(serviceFile, "ports: [8080]", "ports: [http]"), "ports[0]: "},
		{edit(serviceFile, "ports: [8080]\n", ""), "needs a port"},
		{edit(serviceFile, "path: /page", "port: 9090"), "load.http.port: port 9090 is not under ports"},
		{edit(serviceFile, "{http: {path: /ready}, timeout: 5s}", "{timeout: 5s}"), "ready: says not how"},
		{edit(serviceFile, "timeout: 5s", "tcp: 8080"), "ready: has both tcp and http"},
		{edit(serviceFile, "timeout: 5s", "timeout: soon"), "want a duration"},
		{edit(serviceFile, "errors: 0.5", "errors: 50"), "load.http.assert.errors: "},
		{edit(serviceFile, "load:", "load: &a"), "anchors"},
	} {
		_, err := fromYAML("test.yaml", []byte(c.file))
		refusedAs[*Malformed](t, err, c.want)
	}
	if _, err := FromYAML(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// The examples of the documentation load, and relative paths are the file's.
func TestExamplesLoad(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../docs/examples/*.yaml", "../docs/examples/*/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("examples %s: %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		w, err := FromYAML(file)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		resolve(t, w)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "w.yaml")
	if err := os.WriteFile(file, []byte("name: a\nimage: {archive: a.tar}\nkind: batch\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := FromYAML(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Source().Archive; got != filepath.Join(dir, "a.tar") {
		t.Errorf("archive %s, want it beside the file", got)
	}
	// Other machines have nothing beside it.
	Away = func(path string) ([]byte, error) {
		return []byte("name: a\nimage: {archive: " + path + "}\nkind: batch\n"), nil
	}
	defer func() { Away = nil }()
	if w, err := FromYAML("/a.tar"); err != nil || w.Source().Archive != "/a.tar" {
		t.Errorf("%v", err)
	}
	if _, err := FromYAML("a.tar"); !errors.As(err, new(*Malformed)) || !strings.Contains(err.Error(), "on the nodes") {
		t.Errorf("an archive beside the file, for other machines: %v", err)
	}
}

// Whatever a file says, reading it ends in a workload that can be asked
// everything, or in an error that names the file.
func FuzzYAML(f *testing.F) {
	f.Add([]byte(batchFile))
	f.Add([]byte(serviceFile))
	f.Add([]byte(placedFile))
	for _, name := range []string{"sort", "httpd"} {
		data, err := os.ReadFile("../docs/examples/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := fromYAML("test.yaml", data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "test.yaml") {
				t.Errorf("error %q does not name the file", err)
			}
			return
		}
		p, err := Resolve(w, nil)
		if err != nil {
			t.Fatalf("accepted, but its defaults are refused: %v", err)
		}
		if _, placed, err := At(w, p, Place{Port: 7000, Listen: "127.0.0.1"}); err == nil {
			if _, err = w.Program(placed); err != nil {
				t.Fatalf("placed, but its parameters are refused: %v", err)
			}
		} else if unplaceable := (*Unplaceable)(nil); !errors.As(err, &unplaceable) {
			t.Fatalf("accepted, but where it can be placed it is refused: %v", err)
		}
		metrics := w.Metrics(p)
		if len(metrics) == 0 || !metrics[0].Primary || w.Name() == "" {
			t.Errorf("accepted as %q with metrics %+v", w.Name(), metrics)
		}
	})
}

// What a file's patterns and paths meet is printed by programs.
func FuzzFind(f *testing.F) {
	f.Add([]byte(`{"result":{"score":[1,2]}}`), "result.score")
	f.Add([]byte("{\"v\":1}\n{\"v\":2}"), "..#.v")
	f.Fuzz(func(t *testing.T, output []byte, path string) {
		m := customMetric{json: path, output: "stdout"}
		if values, err := m.find(output); err == nil && len(values) == 0 {
			t.Error("neither values nor an error")
		}
	})
}
