package workload

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"regexp"
	"strconv"

	"tare/image"
	"tare/load"
)

// httpd is S1's web server: Apache serving files, by default by YCSB's hot spot.
type httpd struct{}

func (httpd) Name() string    { return "httpd" }
func (httpd) Summary() string { return "Apache httpd serving files, loaded over HTTP by tare" }
func (httpd) Source() Source  { return Source{Recipe: "httpd"} }

const httpdPort = 80

func (httpd) Placed(p Params, at Place) (Params, error) { return p.at(at), nil }

// httpdData is the size of all files in MiB.
const httpdData = image.HTTPDFiles * image.HTTPDFileSize >> 20

func (httpd) Params() []Param {
	return append([]Param{
		{"data", "16", "MiB of files that are asked for, 1 to " + strconv.Itoa(httpdData)},
		accessParam(uniform, serial+": one after the other"),
		{"connection", "kept", "kept, or new: one for each request"},
		{"access-log", "off", "off, or on: a line for each request, to standard output"},
	}, pacedParams("500ms", 16)...)
}

func (httpd) Program(p Params) (Program, error) {
	if _, err := p.whole("data", 1, httpdData); err != nil {
		return Program{}, err
	}
	if _, err := p.oneOf("access", hotSpot, uniform, serial); err != nil {
		return Program{}, err
	}
	if _, err := p.oneOf("connection", "kept", "new"); err != nil {
		return Program{}, err
	}
	if _, err := loadOptions(p); err != nil {
		return Program{}, err
	}
	port := p.portOr(httpdPort)
	args := []string{"/usr/sbin/apache2", "-D", "FOREGROUND", "-f", "/etc/httpd.conf", "-c", "Listen " + net.JoinHostPort(p.listenAddress(), strconv.Itoa(port))}
	log, err := p.oneOf("access-log", "off", "on")
	if err != nil {
		return Program{}, err
	}
	if log == "on" {
		args = append(args, "-D", "ACCESS_LOG")
	}
	// Some 10 MiB for each of its processes, of which there may be several.
	return Program{Args: args, Ports: []int{port}, Data: []string{"/data"}, Service: true, MemoryNeed: 48 << 20}, nil
}

func (httpd) Metrics(p Params) []Metric { return loadMetrics(p) }

// Ready waits for the page at /, whole.
func (httpd) Ready(ctx context.Context, t Trial) error {
	target := load.HTTP{
		Address: t.Address(t.Params().portOr(httpdPort)), Status: 200, NewConnections: true, Dial: dialOf(t),
		BodyPattern: regexp.MustCompile("^" + regexp.QuoteMeta(image.HTTPDIndex) + "$"),
	}
	return awaitReady(ctx, readyWithin, "httpd gives its page at http://"+target.Address+"/", func(ctx context.Context) error {
		return askHTTP(ctx, target)
	})
}

func (w httpd) Drive(ctx context.Context, t Trial) error {
	target, err := httpdTarget(t, 1)
	if err != nil {
		return err
	}
	return whileServing(ctx, t, func(ctx context.Context) error {
		if err := w.Ready(ctx, t); err != nil {
			return err
		}
		return measure(ctx, t, target)
	})
}

// httpdTarget asks for files, a seed's always in the same sequence.
func httpdTarget(t Trial, seed uint64) (load.HTTP, error) {
	p := t.Params()
	data, err := p.whole("data", 1, httpdData)
	if err != nil {
		return load.HTTP{}, err
	}
	files := newYCSB(data<<20/image.HTTPDFileSize, 100, seed).by(p["access"])
	return load.HTTP{
		Address: t.Address(p.portOr(httpdPort)), NewConnections: p["connection"] == "new", Status: 200, Dial: dialOf(t),
		Next: func() load.HTTPRequest {
			path := image.HTTPDFile(int(files.next().record))
			return load.HTTPRequest{Path: path, Check: func(body []byte) error { return checkFile(path, body) }}
		},
	}, nil
}

// checkFile says what is wrong with a file that was answered.
func checkFile(path string, body []byte) error {
	if len(body) != image.HTTPDFileSize || !bytes.HasPrefix(body, []byte(path+"\n")) {
		return fmt.Errorf("%s was answered by %d bytes that begin with %.20q, want %d", path, len(body), body, image.HTTPDFileSize)
	}
	return nil
}

func (httpd) Offered(p Params) (Offered, error) {
	o, err := loadOptions(p)
	return offered(o), err
}

func (httpd) Load(ctx context.Context, t Trial, seed uint64) (load.Result, error) {
	target, err := httpdTarget(t, seed)
	if err != nil {
		return load.Result{}, err
	}
	options, err := loadOptions(t.Params())
	if err != nil {
		return load.Result{}, err
	}
	return loadTargetOnce(ctx, t, target, options, seed)
}

func (httpd) Drives(p Params) ([]Drive, error) {
	o, err := loadOptions(p)
	return drivesFor(o), err
}

func (httpd) SliceMetrics(p Params) []Metric {
	o, err := loadOptions(p)
	if err != nil {
		return nil // Program has refused the parameters
	}
	return sliceMetrics(o)
}

func (httpd) Slices(ctx context.Context, t Trial, seed uint64) (Slicer, error) {
	target, err := httpdTarget(t, seed)
	if err != nil {
		return nil, err
	}
	options, err := loadOptions(t.Params())
	if err != nil {
		return nil, err
	}
	return openStanding(ctx, map[string]load.Target{requests: target}, options, 1, 0)
}

// Sustained asks for all that the image has.
func (httpd) Sustained() (p Params, steady bool) {
	return Params{"data": strconv.Itoa(httpdData)}, true
}

func (httpd) Sustain(ctx context.Context, t Trial, seed uint64) error {
	target, err := httpdTarget(t, seed)
	if err != nil {
		return err
	}
	options, err := loadOptions(t.Params())
	if err != nil {
		return err
	}
	return sustain(ctx, t, target, options)
}

var (
	_ Sustainer = httpd{}
	_ Loader    = httpd{}
	_ Sliced    = httpd{}
)
