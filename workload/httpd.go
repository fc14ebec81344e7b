package workload

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"

	"tare/image"
	"tare/load"
)

// httpd is S1's web server: Apache serving files, by default by YCSB's hot spot.
type httpd struct {
	placeable
	workloadOf[httpdPlan]
	readierOf[httpdPlan]
	loaderOf[httpdPlan]
	sustainerOf[httpdPlan]
	slicedOf[httpdPlan]
}

func (httpd) Name() string    { return "httpd" }
func (httpd) Summary() string { return "Apache httpd serving files, loaded over HTTP by tare" }
func (httpd) Source() Source  { return Source{Recipe: "httpd"} }
func (httpd) dataInImage()    {}

const httpdPort = 80

// httpdData is the size of all files in MiB.
const httpdData = image.HTTPDFiles * image.HTTPDFileSize >> 20

type httpdPlan struct {
	listening
	data    int64 // MiB
	access  string
	fresh   bool // a connection for each request
	logs    bool // a line for each request
	options load.Options
}

func (plan httpdPlan) parse(from *parameters) httpdPlan {
	plan.listening = from.listening(httpdPort)
	plan.data = from.whole("data", 16, 1, image.LargeData, fmt.Sprintf("MiB of files that are asked for, 1 to %d; "+
		"or %d, as S1 had, in an image of its own", httpdData, image.LargeData))
	if made(plan.data, httpdData) {
		from.refuse("data", fmt.Sprintf("a whole number from 1 to %d, or %d", httpdData, image.LargeData))
	}
	plan.access = from.access(uniform, serial+": one after the other")
	plan.fresh = from.freshConnections()
	plan.logs = from.word("access-log", "off", "off, or on: a line for each request, to standard output", "off", "on") == "on"
	plan.options = from.pacedLoad(byClients(16, "500ms"))
	return plan
}

func (plan httpdPlan) program() Program {
	args := []string{"/usr/sbin/apache2", "-D", "FOREGROUND", "-f", "/etc/httpd.conf", "-c", "Listen " + plan.where()}
	if plan.logs {
		args = append(args, "-D", "ACCESS_LOG")
	}
	// Some 10 MiB for each of its processes, of which there may be several.
	return Program{Args: args, Ports: []int{plan.port}, Data: []string{"/data"}, Service: true, MemoryNeed: 48 << 20}
}

func (plan httpdPlan) metrics() []Metric { return loadMetrics(plan.options) }

// ready waits for the page at /, whole.
func (plan httpdPlan) ready(ctx context.Context, t Trial) error {
	target := load.HTTP{
		Address: t.Address(plan.port), Status: 200, NewConnections: true, Dial: dialOf(t),
		BodyPattern: regexp.MustCompile("^" + regexp.QuoteMeta(image.HTTPDIndex) + "$"),
	}
	return awaitReady(ctx, readyWithin, "httpd gives its page at http://"+target.Address+"/", func(ctx context.Context) error {
		return askHTTP(ctx, target)
	})
}

func (plan httpdPlan) drive(ctx context.Context, t Trial) error {
	return whileServing(ctx, t, func(ctx context.Context) error {
		if err := plan.ready(ctx, t); err != nil {
			return err
		}
		return measure(ctx, t, plan.target(t, 1), plan.options)
	})
}

// target asks for files, a seed's always in the same sequence.
func (plan httpdPlan) target(t Trial, seed uint64) load.HTTP {
	files := newYCSB(plan.data<<20/image.HTTPDFileSize, 100, seed).by(plan.access)
	return load.HTTP{
		Address: t.Address(plan.port), NewConnections: plan.fresh, Status: 200, Dial: dialOf(t),
		Next: func() load.HTTPRequest {
			path := image.HTTPDFile(int(files.next().record))
			return load.HTTPRequest{Path: path, Check: func(body []byte) error { return checkFile(path, body) }}
		},
	}
}

// checkFile says what is wrong with a file that was answered.
func checkFile(path string, body []byte) error {
	if len(body) != image.HTTPDFileSize || !bytes.HasPrefix(body, []byte(path+"\n")) {
		return fmt.Errorf("%s was answered by %d bytes that begin with %.20q, want %d", path, len(body), body, image.HTTPDFileSize)
	}
	return nil
}

func (plan httpdPlan) offered() Offered { return offered(plan.options) }

func (plan httpdPlan) load(ctx context.Context, t Trial, seed uint64) (load.Result, error) {
	return loadTargetOnce(ctx, t, plan.target(t, seed), plan.options, seed)
}

func (plan httpdPlan) drives() ([]Drive, error) { return drivesFor(plan.options), nil }
func (plan httpdPlan) sliceMetrics() []Metric   { return sliceMetrics(plan.options) }

func (plan httpdPlan) slices(ctx context.Context, t Trial, seed uint64) (Slicer, error) {
	return openStanding(ctx, map[string]load.Target{requests: plan.target(t, seed)}, plan.options, 1, 0)
}

// Sustained asks for all that the image has.
func (httpd) Sustained() (p Params, steady bool) {
	return Params{"data": strconv.Itoa(httpdData)}, true
}

func (plan httpdPlan) sustain(ctx context.Context, t Trial, seed uint64) error {
	return sustain(ctx, t, plan.target(t, seed), plan.options)
}

var (
	_ Sustainer = httpd{}
	_ Loader    = httpd{}
	_ Sliced    = httpd{}
)
