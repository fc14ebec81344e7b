package workload

import (
	"context"
	"math/rand/v2"
	"regexp"
	"strconv"
	"sync/atomic"

	"tare/image"
	"tare/load"
)

// httpd is S1's web server: Apache serving files. As there, a fifth of the data
// gets four fifths of the requests (YCSB's hot spot).
type httpd struct{}

func (httpd) Name() string    { return "httpd" }
func (httpd) Summary() string { return "Apache httpd serving files, loaded over HTTP by tare" }
func (httpd) Source() Source  { return Source{Recipe: "httpd"} }

const httpdPort = 80

// httpdData is the size of all files in MiB.
const httpdData = image.HTTPDFiles * image.HTTPDFileSize >> 20

func (httpd) Params() []Param {
	return append([]Param{
		{"data", strconv.Itoa(httpdData), "MiB of files that are asked for, 1 to " + strconv.Itoa(httpdData)},
		{"connection", "kept", "kept, or new: one for each request"},
		{"access-log", "off", "off, or on: a line for each request, to standard output"},
	}, loadParams("500ms")...)
}

func (httpd) Program(p Params) (Program, error) {
	if _, err := p.whole("data", 1, httpdData); err != nil {
		return Program{}, err
	}
	if _, err := p.oneOf("connection", "kept", "new"); err != nil {
		return Program{}, err
	}
	if _, err := loadOptions(p); err != nil {
		return Program{}, err
	}
	args := []string{"/usr/sbin/apache2", "-D", "FOREGROUND", "-f", "/etc/httpd.conf", "-c", "Listen " + strconv.Itoa(httpdPort)}
	log, err := p.oneOf("access-log", "off", "on")
	if err != nil {
		return Program{}, err
	}
	if log == "on" {
		args = append(args, "-D", "ACCESS_LOG")
	}
	// Some 10 MiB for each of its processes, of which there may be several.
	return Program{Args: args, Ports: []int{httpdPort}, Data: []string{"/data"}, Service: true, MemoryNeed: 48 << 20}, nil
}

func (httpd) Metrics(p Params) []Metric { return loadMetrics(p) }

// Ready waits for the page at /, whole.
func (httpd) Ready(ctx context.Context, t Trial) error {
	target := load.HTTP{
		Address: t.Address(httpdPort), Status: 200, NewConnections: true,
		BodyPattern: regexp.MustCompile("^" + regexp.QuoteMeta(image.HTTPDIndex) + "$"),
	}
	return awaitReady(ctx, readyWithin, "httpd gives its page at http://"+target.Address+"/", func(ctx context.Context) error {
		return askHTTP(ctx, target)
	})
}

func (w httpd) Drive(ctx context.Context, t Trial) error {
	p := t.Params()
	data, err := p.whole("data", 1, httpdData)
	if err != nil {
		return err
	}
	files := &httpdFiles{HTTP: load.HTTP{
		Address: t.Address(httpdPort), Paths: hotSpot(int(data) << 20 / image.HTTPDFileSize),
		NewConnections: p["connection"] == "new", Status: 200, BodyMin: image.HTTPDFileSize,
	}}
	return whileServing(ctx, t, func(ctx context.Context) error {
		if err := w.Ready(ctx, t); err != nil {
			return err
		}
		return measure(ctx, t, files)
	})
}

// httpdFiles has each connection begin at another place of the sequence, so
// that they do not all ask for one file at a time.
type httpdFiles struct {
	load.HTTP
	opened atomic.Int64
}

func (f *httpdFiles) Open(ctx context.Context) (load.Conn, error) {
	const stride = 257 // prime to the sequence's length
	from := int((f.opened.Add(1) - 1) * stride % int64(len(f.Paths)))
	h := f.HTTP
	h.Paths = append(append([]string{}, f.Paths[from:]...), f.Paths[:from]...)
	return h.Open(ctx)
}

// hotSpot draws a sequence of files, always the same: four of five requests
// for the first fifth of them.
func hotSpot(files int) []string {
	random := rand.New(rand.NewPCG(1, uint64(files)))
	hot := max(1, files/5)
	paths := make([]string, 4096)
	for i := range paths {
		n := random.IntN(hot)
		if files > hot && random.IntN(5) == 0 {
			n = hot + random.IntN(files-hot)
		}
		paths[i] = image.HTTPDFile(n)
	}
	return paths
}

var _ Readier = httpd{}
