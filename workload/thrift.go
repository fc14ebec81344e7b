package workload

import (
	"context"
	"errors"
	"strconv"

	"tare/image"
	"tare/load"
)

// thrift is S4's service: calls over Apache Thrift that carry nothing, or bytes
// either way. S4 had server and client in Python; the same in Go tells what the
// interpreter costs.
type thrift struct{}

func (thrift) Name() string { return "thrift" }
func (thrift) Summary() string {
	return "S4's service on Apache Thrift in Python or Go, loaded by its own client or tare's"
}
func (thrift) Source() Source { return Source{Recipe: "thrift"} }

// mostWork is the us that the servers take for a request.
const mostWork = 1_000_000

// In what a server or a client is written.
const (
	inPython = "python"
	inGo     = "go"
)

func (thrift) Params() []Param {
	return append([]Param{
		{"server", inPython, "python: S4's, one connection at a time; or go: the same service, a goroutine for each connection"},
		{"client", inGo, "go: tare's own; or python: S4's, in a closed loop over one connection"},
		{"call", load.ThriftPing, "ping: carries nothing; receive: bytes to the server; send: bytes from it"},
		{"size", "1024", "bytes that receive and send carry, 0 to " + strconv.Itoa(load.MostThriftBytes)},
		{"connection", "kept", "kept, or new: one for each request"},
		{"port", "9090", "at which the server answers, 1 to 65535"},
		{"work", "0", "us of CPU time that the server burns for each request before it answers, 0 to " + strconv.Itoa(mostWork)},
	}, pacedParams("500ms", 1)...)
}

// thriftPlan is the parameters, read.
type thriftPlan struct {
	server, client string
	call           string
	size           int
	fresh          bool // a connection for each request
	port           int
	work           int64
	options        load.Options
}

func planThrift(p Params) (plan thriftPlan, err error) {
	if plan.server, err = p.oneOf("server", inPython, inGo); err != nil {
		return plan, err
	}
	if plan.client, err = p.oneOf("client", inGo, inPython); err != nil {
		return plan, err
	}
	if plan.call, err = p.oneOf("call", load.ThriftPing, load.ThriftReceive, load.ThriftSend); err != nil {
		return plan, err
	}
	size, err := p.whole("size", 0, load.MostThriftBytes)
	if err != nil {
		return plan, err
	}
	connection, err := p.oneOf("connection", "kept", "new")
	if err != nil {
		return plan, err
	}
	port, err := p.whole("port", 1, 65535)
	if err != nil {
		return plan, err
	}
	plan.size, plan.fresh, plan.port = int(size), connection == "new", int(port)
	if plan.work, err = p.whole("work", 0, mostWork); err != nil {
		return plan, err
	}
	if plan.options, err = loadOptions(p); err != nil {
		return plan, err
	}
	return plan, plan.refuse(p)
}

// refuse says which values do not go together.
func (plan thriftPlan) refuse(p Params) error {
	switch several := plan.options.Connections > 1; {
	case plan.client == inPython && plan.options.Rate > 0:
		return &WrongValue{"rate", p["rate"], closed + " with client=python, whose loop is closed; client=go has an open one"}
	case plan.client == inPython && several:
		return &WrongValue{"connections", p["connections"], "1 with client=python, which has one at a time; client=go has several"}
	case plan.server == inPython && several && !plan.fresh:
		return &WrongValue{"connections", p["connections"], "1 with server=python, which serves one at a time and would leave the others waiting; server=go serves several, connection=new has them take turns"}
	}
	return nil
}

func (thrift) Placed(p Params, at Place) (Params, error) { return p.at(at), nil }

func (thrift) Program(p Params) (Program, error) {
	plan, err := planThrift(p)
	if err != nil {
		return Program{}, err
	}
	args := []string{image.ThriftServer}
	if plan.server == inPython {
		args = []string{image.ThriftPython, "-B", image.ThriftPythonServer}
	}
	args = append(args, "--address", p.listenAddress(), "--port", strconv.Itoa(plan.port), "--work", strconv.FormatInt(plan.work, 10))
	// What is carried exists several times on its way through the library, and in Go
	// until it is collected.
	return Program{
		Args:       args,
		Ports:      []int{plan.port},
		Data:       []string{"/data"},
		Service:    true,
		MemoryNeed: 32<<20 + 8*int64(plan.size),
	}, nil
}

func (thrift) Metrics(p Params) []Metric { return loadMetrics(p) }

// target is what tare's own client asks.
func (plan thriftPlan) target(t Trial) load.Thrift {
	return load.Thrift{
		Address:        t.Address(plan.port),
		Call:           plan.call,
		Size:           plan.size,
		NewConnections: plan.fresh,
		Dial:           dialOf(t),
	}
}

// Ready waits for the answer to a ping.
func (thrift) Ready(ctx context.Context, t Trial) error {
	plan, err := planThrift(t.Params())
	if err != nil {
		return err
	}
	target := load.Thrift{Address: t.Address(plan.port), Call: load.ThriftPing, NewConnections: true, Dial: dialOf(t)}
	return awaitReady(ctx, readyWithin, "thrift answers a ping at "+target.Address, func(ctx context.Context) error {
		return askOnce(ctx, target)
	})
}

func (w thrift) Drive(ctx context.Context, t Trial) error {
	plan, err := planThrift(t.Params())
	if err != nil {
		return err
	}
	return whileServing(ctx, t, func(ctx context.Context) error {
		if err := w.Ready(ctx, t); err != nil {
			return err
		}
		r, err := plan.load(ctx, t, plan.options)
		if err != nil {
			return err
		}
		if r.Failed() > 0 || r.Requests == 0 {
			return tooManyErrors(r)
		}
		recordLoad(t, &r)
		t.Record("throughput", r.Rate)
		return nil
	})
}

// load loads the service once, by whichever client.
func (plan thriftPlan) load(ctx context.Context, t Trial, o load.Options) (load.Result, error) {
	if plan.client == inPython {
		return plan.loadByPython(ctx, t, o)
	}
	o.Batches = batchesOf(t)
	return load.Run(ctx, plan.target(t), o)
}

func (thrift) Offered(p Params) (Offered, error) {
	plan, err := planThrift(p)
	return offered(plan.options), err
}

func (thrift) Load(ctx context.Context, t Trial, seed uint64) (load.Result, error) {
	plan, err := planThrift(t.Params())
	if err != nil {
		return load.Result{}, err
	}
	plan.options.Seed = seed
	return loadOnce(ctx, t, func(ctx context.Context) (load.Result, error) { return plan.load(ctx, t, plan.options) })
}

func (thrift) Drives(p Params) ([]Drive, error) {
	plan, err := planThrift(p)
	switch {
	case err != nil:
		return nil, err
	case plan.client == inPython:
		return nil, errors.New("the client in Python makes connections of its own, which cannot stay open between slices: take client=go, or --design blocks")
	}
	return drivesFor(plan.options), nil
}

func (thrift) SliceMetrics(p Params) []Metric {
	plan, err := planThrift(p)
	if err != nil {
		return nil // Program has refused the parameters
	}
	return sliceMetrics(plan.options)
}

func (thrift) Slices(ctx context.Context, t Trial, _ uint64) (Slicer, error) {
	plan, err := planThrift(t.Params())
	if err != nil {
		return nil, err
	}
	return openStanding(ctx, map[string]load.Target{requests: plan.target(t)}, plan.options, 1, 0)
}

func (thrift) Sustained() (p Params, steady bool) { return nil, true }

func (thrift) Sustain(ctx context.Context, t Trial, seed uint64) error {
	plan, err := planThrift(t.Params())
	if err != nil {
		return err
	}
	plan.options.Seed = seed
	if plan.client == inPython {
		return plan.sustainByPython(ctx, t)
	}
	return sustain(ctx, t, plan.target(t), plan.options)
}

var (
	_ Sustainer = thrift{}
	_ Loader    = thrift{}
	_ Sliced    = thrift{}
)

// pythonArgs is the command of S4's client.
func (plan thriftPlan) pythonArgs(address string, o load.Options) []string {
	seconds := func(s float64) string { return strconv.FormatFloat(s, 'f', -1, 64) }
	connection := "kept"
	if plan.fresh {
		connection = "new"
	}
	return []string{
		image.ThriftPython, "-B", image.ThriftPythonClient, "--address", address,
		"--call", plan.call, "--size", strconv.Itoa(plan.size), "--connection", connection,
		"--warmup", seconds(o.Warmup.Seconds()), "--duration", seconds(o.Duration.Seconds()), "--count", strconv.FormatInt(o.Count, 10),
	}
}
