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
	port          int     // where nobody asks for another
	more          []Param // the program's own
	program       func(p Params, plan objectPlan) (Program, error)
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

func (s *objectServer) Params() []Param {
	params := append(objectParams(usualObjects),
		Param{portParam, strconv.Itoa(s.port), "at which it answers, 1 to 65535"},
		Param{contentParam, "1", "a number, from which follows what is in the objects that it has when it counts as ready; or " + withoutContent + ": it has none"},
	)
	params = append(params, s.more...)
	return append(params, pacedParams("500ms", 16)...)
}

// objectPlan is what all of them have of parameters, read.
type objectPlan struct {
	objects
	port   int
	seed   uint64
	filled bool // by its readiness
}

func planObjects(p Params) (plan objectPlan, err error) {
	if plan.objects, err = readObjects(p); err != nil {
		return plan, err
	}
	if plan.rounds == 0 {
		return plan, &WrongValue{"objects", p["objects"], "at least 1"}
	}
	port, err := p.whole(portParam, 1, 65535)
	if err != nil {
		return plan, err
	}
	plan.port = int(port)
	if p[contentParam] == withoutContent {
		return plan, nil
	}
	plan.filled = true
	if plan.seed, err = strconv.ParseUint(p[contentParam], 10, 64); err != nil {
		err = &WrongValue{contentParam, p[contentParam], withoutContent + ", or a whole number from 0"}
	}
	return plan, err
}

func (s *objectServer) Placed(p Params, at Place) (Params, error) { return p.at(at), nil }

func (s *objectServer) Program(p Params) (Program, error) {
	plan, err := planObjects(p)
	if err != nil {
		return Program{}, err
	}
	if _, err := loadOptions(p); err != nil {
		return Program{}, err
	}
	return s.program(p, plan)
}

func (s *objectServer) Metrics(p Params) []Metric {
	metrics := loadMetrics(p)
	if plan, err := planObjects(p); err == nil && plan.filled {
		metrics = append(metrics, loadingMetric())
	}
	return metrics
}

// Ready waits for the page at /, and then puts in the objects that are to be there.
func (s *objectServer) Ready(ctx context.Context, t Trial) error {
	plan, err := planObjects(t.Params())
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
	plan, err := planObjects(t.Params())
	if err != nil {
		return err
	}
	return whileServing(ctx, t, func(ctx context.Context) error {
		address := t.Address(plan.port)
		transport := &http.Transport{DisableCompression: true, MaxIdleConns: 1}
		if dial := dialOf(t); dial != nil {
			transport.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, address) }
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
	plan, err := planObjects(t.Params())
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

// own is the load of a service that its readiness filled.
func (s *objectServer) own(t Trial, seed uint64) (load.HTTP, error) {
	plan, err := planObjects(t.Params())
	if err == nil && !plan.filled {
		err = &WrongValue{contentParam, withoutContent, "a number: without objects there is nothing to ask " + s.name + " for"}
	}
	return plan.target(t, plan.seed, seed), err
}

func (s *objectServer) Drive(ctx context.Context, t Trial) error {
	target, err := s.own(t, 1)
	if err != nil {
		return err
	}
	return whileServing(ctx, t, func(ctx context.Context) error {
		if err := s.Ready(ctx, t); err != nil {
			return err
		}
		return measure(ctx, t, target)
	})
}

func (s *objectServer) Offered(p Params) (Offered, error) {
	o, err := loadOptions(p)
	return offered(o), err
}

func (s *objectServer) Load(ctx context.Context, t Trial, seed uint64) (load.Result, error) {
	target, err := s.own(t, seed)
	if err != nil {
		return load.Result{}, err
	}
	options, err := loadOptions(t.Params())
	if err != nil {
		return load.Result{}, err
	}
	return loadTargetOnce(ctx, t, target, options, seed)
}

func (s *objectServer) Sustained() (p Params, steady bool) { return nil, true }

func (s *objectServer) Sustain(ctx context.Context, t Trial, seed uint64) error {
	target, err := s.own(t, seed)
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
	_ Idling    = (*objectServer)(nil)
	_ Loader    = (*objectServer)(nil)
	_ Sustainer = (*objectServer)(nil)
)
