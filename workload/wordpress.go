package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"tare/image"
	"tare/load"
)

// wordpress is S2's web site: WordPress on Apache with PHP and MariaDB, whose front
// page is asked for by many at once, each on a connection of its own, as S2's JMeter
// did it.
type wordpress struct {
	placeable
	workloadOf[wordpressPlan]
	readierOf[wordpressPlan]
	loaderOf[wordpressPlan]
	sustainerOf[wordpressPlan]
}

func (wordpress) Name() string { return "wordpress" }
func (wordpress) Summary() string {
	return "web site (WordPress on Apache, PHP and MariaDB), asked for its page by many at once"
}
func (wordpress) Source() Source { return Source{Recipe: "wordpress"} }

// atOnce is the value of rate by which all requests are sent together.
const atOnce = "at-once"

// mostPages is how many requests may be under way at once: as many as wait at the
// server for a worker, and none is refused.
const mostPages = image.WordPressBacklog

// fewClients ask at the same time where not all do: more than there are CPUs for them
// here, and few enough for each to be answered soon.
const fewClients = load.DefaultConnections

type wordpressPlan struct {
	listening
	workers, warmup int64
	options         load.Options
}

func (plan wordpressPlan) parse(from *parameters) wordpressPlan {
	o := &plan.options
	plan.listening = from.listening(image.WordPressPort)
	o.Count = from.whole("requests", 1000, 1, mostPages, "for the page, RANGE")
	o.Connections = int(o.Count) // none waits for another's
	rate := from.text("rate", atOnce, atOnce+": all are sent together; or requests per second (open loop), 0.001 to 1e6; "+
		"or closed: sixteen clients, each sends as soon as it has its answer")
	o.Arrival = from.arrival(load.Uniform, "requests")
	if rate == atOnce {
		o.Arrival = load.AtOnce
	} else {
		var ok bool
		if o.Rate, ok = rateOf(rate); !ok {
			from.refuse("rate", atOnce+", "+closed+", or requests per second from 0.001 to 1e6")
		}
		if o.Rate == 0 {
			o.Connections = fewClients
		}
	}
	plan.warmup = from.whole("warmup", 100, 0, 100_000,
		"requests before that, sixteen at a time, and forgotten, RANGE; a second of rest follows")
	plan.workers = from.whole("workers", 150, 1, image.WordPressConnections-2,
		"processes of the server, each for one request at a time, RANGE")
	o.Timeout = from.duration("timeout", "10m", time.Second, 24*time.Hour, "of a request, 1s to 24h")
	return plan
}

func (plan wordpressPlan) program() Program {
	return Program{
		Args:    image.WordPressCommand(int(plan.workers), plan.listen, plan.port),
		Ports:   []int{plan.port},
		Data:    []string{image.WordPressData},
		Service: true,
		// The database with its buffers, what the workers share, and what each has for
		// itself and its connection: as measured at work.
		MemoryNeed: 192<<20 + plan.workers*(5<<20),
		DiskNeed:   128 << 20,
		Needs:      []string{image.Supervise, image.WordPressServer, image.WordPressDatabase},
	}
}

func (plan wordpressPlan) metrics() []Metric {
	metrics := meanLatencyMetrics()
	if plan.options.Arrival == load.AtOnce {
		metrics = append(metrics, Metric{Name: "last", Unit: "s", Better: Lower, Doc: "from the sending of all requests until the last was answered"})
	}
	return append(metrics, Metric{Name: "throughput", Unit: "requests/s", Better: Higher, Doc: "requests answered rightly"})
}

// wordpressReadyWithin bounds the start, also in a machine that is emulated.
const wordpressReadyWithin = 5 * time.Minute

// ready waits until the site answers, has it installed where it is new, and waits
// for its page, whole.
func (plan wordpressPlan) ready(ctx context.Context, t Trial) error {
	ask := func(ctx context.Context) error { return askHTTP(ctx, plan.target(t)) }
	var fresh bool
	err := awaitReady(
		ctx,
		wordpressReadyWithin,
		"WordPress answers at http://"+t.Address(plan.port)+"/",
		func(ctx context.Context) error {
			err := ask(ctx)
			fresh = isStatus(err, http.StatusFound) // to the page that installs it
			if fresh {
				return nil
			}
			return err
		},
	)
	if err != nil || !fresh {
		return err
	}
	if err := plan.install(ctx, t); err != nil {
		return fmt.Errorf("install WordPress: %w", err)
	}
	return awaitReady(ctx, wordpressReadyWithin, "WordPress gives its page", ask)
}

// isStatus tells whether a request failed by its answer's status alone.
func isStatus(err error, status int) bool {
	var wrong *load.Error
	return errors.As(err, &wrong) && wrong.Kind == load.KindStatus(status)
}

// target asks for the front page, by a new connection each time: the server
// keeps a worker for each that it has accepted, so that connections that are kept
// would be as many requests as it has workers, and no more.
func (plan wordpressPlan) target(t Trial) load.HTTP {
	request := load.HTTPRequest{Path: "/", Check: checkFrontPage}
	return load.HTTP{
		Address:        t.Address(plan.port),
		Host:           image.WordPressHost,
		NewConnections: true,
		Status:         http.StatusOK,
		Dial:           dialOf(t),
		Next:           func() load.HTTPRequest { return request },
	}
}

// What the front page has at the least: the site's title, the post that WordPress
// comes with, and its end. The theme makes some 50 kB of it; without one it is empty.
const (
	wordpressTitle = "tare weighs"
	leastFrontPage = 16 << 10
)

func checkFrontPage(body []byte) error {
	switch {
	case len(body) < leastFrontPage:
		return fmt.Errorf("the page has %d bytes, want %d or more: is the theme there? It begins with %.40q", len(body), leastFrontPage, body)
	case !bytes.Contains(body, []byte("<title>"+wordpressTitle+"</title>")):
		return fmt.Errorf("the page is not the site's: it lacks the title %q", wordpressTitle)
	case !bytes.Contains(body, []byte("Hello world!")):
		return errors.New("the page lacks the site's one post")
	case !bytes.HasSuffix(bytes.TrimSpace(body), []byte("</html>")):
		return fmt.Errorf("the page is cut off after %d bytes", len(body))
	}
	return nil
}

// install fills in the form that a new site shows.
func (plan wordpressPlan) install(ctx context.Context, t Trial) error {
	const password = "tare-weighs-it"
	form := url.Values{
		"weblog_title": {wordpressTitle}, "user_name": {"tare"}, "admin_email": {"tare@example.org"},
		"admin_password": {password}, "admin_password2": {password}, "pw_weak": {"1"}, "blog_public": {"0"}, "language": {""},
	}
	target := plan.target(t)
	target.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	target.Next = func() load.HTTPRequest {
		return load.HTTPRequest{Method: http.MethodPost, Path: "/wp-admin/install.php?step=2", Body: []byte(form.Encode()), Check: checkInstalled}
	}
	ctx, cancel := context.WithTimeout(ctx, wordpressReadyWithin)
	defer cancel()
	return askOnce(ctx, target)
}

func checkInstalled(body []byte) error {
	if !bytes.Contains(body, []byte("Success!")) {
		return fmt.Errorf("it does not say that it is done: %.400q", body)
	}
	return nil
}

func (plan wordpressPlan) drive(ctx context.Context, t Trial) error {
	return whileServing(ctx, t, func(ctx context.Context) error {
		if err := plan.ready(ctx, t); err != nil {
			return err
		}
		r, err := plan.run(ctx, t, 1)
		if err := answered(r, err); err != nil {
			return err
		}
		recordMeanLoad(t, r)
		if plan.options.Arrival == load.AtOnce {
			t.Record("last", r.Elapsed.Seconds())
		}
		return nil
	})
}

// run warms the site up, and then asks for its page as the parameters say.
func (plan wordpressPlan) run(ctx context.Context, t Trial, seed uint64) (load.Result, error) {
	if plan.warmup > 0 {
		o := load.Options{Connections: fewClients, Count: plan.warmup, Timeout: plan.options.Timeout}
		if err := answered(load.Run(ctx, plan.target(t), o)); err != nil {
			return load.Result{}, fmt.Errorf("warm up: %w", err)
		}
		if err := rest(ctx); err != nil {
			return load.Result{}, err
		}
	}
	o := plan.options
	o.Seed, o.Batches = seed, batchesOf(t)
	return load.Run(ctx, plan.target(t), o)
}

func (plan wordpressPlan) offered() Offered { return offered(plan.options) }

func (plan wordpressPlan) load(ctx context.Context, t Trial, seed uint64) (load.Result, error) {
	return loadOnce(ctx, t, func(ctx context.Context) (load.Result, error) { return plan.run(ctx, t, seed) })
}

// Sustained has fewer workers than S2's burst, which a steady load would not use.
func (wordpress) Sustained() (p Params, steady bool) { return Params{"workers": "16"}, true }

// sustain has the page asked for at the rate that the parameters name, and else by
// some clients as fast as they are answered.
func (plan wordpressPlan) sustain(ctx context.Context, t Trial, seed uint64) error {
	o := load.Options{Connections: fewClients, Timeout: plan.options.Timeout}
	if plan.options.Rate > 0 {
		o = plan.options
		o.Seed = seed
	}
	return sustain(ctx, t, plan.target(t), o)
}

var (
	_ Sustainer = wordpress{}
	_ Loader    = wordpress{}
)
