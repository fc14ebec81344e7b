package workload

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"tare/load"
)

// objectServer is a web server that is given its objects and holds them in its own
// memory: what S3's neighbours were, whichever program it is.
type objectServer struct {
	name, summary string
	port          int64 // where nobody asks for another
	// own reads the program's own parameters, and makes the program of all.
	own func(from *parameters) func(objectPlan) Program
	// put is the request that lays an object there, in place of one that was there. It
	// is answered by the object.
	put func(ctx context.Context, url string, content []byte) (*http.Request, error)
}

const (
	portParam    = "port"
	contentParam = "content"
	// withoutContent leaves the service empty, for who fills it.
	withoutContent = "none"
)

func (s *objectServer) Name() string    { return s.name }
func (s *objectServer) Summary() string { return s.summary }
func (s *objectServer) Source() Source  { return Source{Recipe: s.name} }

func (s *objectServer) Params() []Param { return declared(s.parse) }

// objectPlan is what all of them have of parameters, parsed.
type objectPlan struct {
	listening
	objects
	seed    uint64
	filled  bool // by its readiness
	program func(objectPlan) Program
	options load.Options
}

func (s *objectServer) parse(from *parameters) (plan objectPlan) {
	if plan.objects = from.objects(usualObjects); plan.rounds == 0 {
		from.refuse("objects", "at least 1")
	}
	plan.listening = from.listeningAt(s.port, "at which it answers, RANGE")
	content := from.text(contentParam, "1", "a number, from which follows what is in the objects that it has when it counts "+
		"as ready; or "+withoutContent+": it has none")
	if plan.filled = content != withoutContent; plan.filled {
		var err error
		if plan.seed, err = strconv.ParseUint(content, 10, 64); err != nil {
			from.refuse(contentParam, withoutContent+", or a whole number from 0")
		}
	}
	plan.program = s.own(from)
	plan.options = from.pacedLoad(byClients(16, "500ms"))
	return plan
}

func (s *objectServer) Placed(p Params, at Place) (Params, error) { return p.at(at), nil }

func (s *objectServer) Program(p Params) (Program, error) {
	plan, err := parsed(p, s.parse)
	if err != nil {
		return Program{}, err
	}
	return plan.program(plan), nil
}

// Metrics has none for parameters that Program refuses.
func (s *objectServer) Metrics(p Params) []Metric {
	plan, err := parsed(p, s.parse)
	if err != nil {
		return nil
	}
	metrics := loadMetrics(plan.options)
	if plan.filled {
		metrics = append(metrics, loadingMetric())
	}
	return metrics
}

// Ready waits for the page at /, and then puts in the objects that are to be there.
func (s *objectServer) Ready(ctx context.Context, t Trial) error {
	plan, err := parsed(t.Params(), s.parse)
	if err != nil {
		return err
	}
	target := load.HTTP{Address: t.Address(plan.port), Status: http.StatusOK, NewConnections: true, Dial: dialOf(t)}
	err = awaitReady(ctx, readyWithin, s.name+" answers at http://"+target.Address+"/", func(ctx context.Context) error {
		return askHTTP(ctx, target)
	})
	if err != nil || !plan.filled {
		return err
	}
	return loaded(t, func() error { return s.Fill(ctx, t, plan.seed) })
}

func (s *objectServer) Sized(p Params, bytes int64) (Params, error) {
	sized, err := sizedObjects(p, bytes)
	sized[contentParam] = withoutContent
	return sized, err
}

// Fill lays one object after the other there, and looks at each as the server has it.
func (s *objectServer) Fill(ctx context.Context, t Trial, seed uint64) error {
	plan, err := parsed(t.Params(), s.parse)
	if err != nil {
		return err
	}
	return whileServing(ctx, t, func(ctx context.Context) error {
		address := t.Address(plan.port)
		transport := &http.Transport{DisableCompression: true, MaxIdleConns: 1}
		if dial := dialOf(t); dial != nil {
			transport.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) {
				return dial(ctx, address)
			}
		}
		defer transport.CloseIdleConnections()
		for n := range plan.count() {
			if err := s.lay(ctx, transport, "http://"+address+objectPath(n), plan.content(seed, n)); err != nil {
				return fmt.Errorf("lay object %d of %d into %s at %s: %w", n, plan.count(), s.name, address, err)
			}
		}
		return nil
	})
}

// lay puts one object there.
func (s *objectServer) lay(ctx context.Context, by http.RoundTripper, url string, content objectContent) error {
	request, err := s.put(ctx, url, content.bytes())
	if err != nil {
		return err
	}
	response, err := by.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(len(content.name)+len(content.rest))+1))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s, %.80q", response.Status, body)
	}
	return content.check(body)
}

func (s *objectServer) Asks(t Trial, filled, seed uint64) (load.Target, error) {
	plan, err := parsed(t.Params(), s.parse)
	if err != nil {
		return nil, err
	}
	return plan.target(t, filled, seed), nil
}

func (p objectPlan) target(t Trial, filled, seed uint64) load.HTTP {
	draws := p.draws(filled, seed)
	return load.HTTP{
		Address: t.Address(p.port), Status: http.StatusOK, Dial: dialOf(t),
		Next: func() load.HTTPRequest {
			n := draws.next()
			return load.HTTPRequest{Path: objectPath(n), Check: p.content(filled, n).check}
		},
	}
}

// toAsk is the plan of a service that its readiness fills.
func (s *objectServer) toAsk(t Trial) (objectPlan, error) {
	plan, err := parsed(t.Params(), s.parse)
	if err == nil && !plan.filled {
		err = &WrongValue{contentParam, withoutContent, "a number: without objects there is nothing to ask " + s.name + " for"}
	}
	return plan, err
}

func (s *objectServer) Drive(ctx context.Context, t Trial) error {
	plan, err := s.toAsk(t)
	if err != nil {
		return err
	}
	return whileServing(ctx, t, func(ctx context.Context) error {
		if err := s.Ready(ctx, t); err != nil {
			return err
		}
		return measure(ctx, t, plan.target(t, plan.seed, 1), plan.options)
	})
}

func (s *objectServer) Offered(p Params) (Offered, error) {
	plan, err := parsed(p, s.parse)
	return offered(plan.options), err
}

func (s *objectServer) Load(ctx context.Context, t Trial, seed uint64) (load.Result, error) {
	plan, err := s.toAsk(t)
	if err != nil {
		return load.Result{}, err
	}
	return loadTargetOnce(ctx, t, plan.target(t, plan.seed, seed), plan.options, seed)
}

func (s *objectServer) Sustained() (p Params, steady bool) { return nil, true }

func (s *objectServer) Sustain(ctx context.Context, t Trial, seed uint64) error {
	plan, err := s.toAsk(t)
	if err != nil {
		return err
	}
	return sustain(ctx, t, plan.target(t, plan.seed, seed), plan.options)
}

var (
	_ Idling    = (*objectServer)(nil)
	_ Loader    = (*objectServer)(nil)
	_ Sustainer = (*objectServer)(nil)
)
