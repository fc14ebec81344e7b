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
type thrift struct {
	placeable
	workloadOf[thriftPlan]
	readierOf[thriftPlan]
	loaderOf[thriftPlan]
	sustainerOf[thriftPlan]
	slicedOf[thriftPlan]
}

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

type thriftPlan struct {
	listening
	server, client string
	call           string
	size           int
	fresh          bool // a connection for each request
	work           int64
	options        load.Options
}

func (plan thriftPlan) parse(from *parameters) thriftPlan {
	plan.server = from.word("server", inPython,
		"python: S4's, one connection at a time; or go: the same service, a goroutine for each connection", inPython, inGo)
	plan.client = from.word("client", inGo, "go: tare's own; or python: S4's, in a closed loop over one connection",
		inGo, inPython)
	plan.call = from.word("call", load.ThriftPing, "ping: carries nothing; receive: bytes to the server; send: bytes from it",
		load.ThriftPing, load.ThriftReceive, load.ThriftSend)
	plan.size = int(from.whole("size", 1024, 0, load.MostThriftBytes, "bytes that receive and send carry, RANGE"))
	plan.fresh = from.freshConnections()
	plan.listening = from.listeningAt(9090, "at which the server answers, RANGE")
	plan.work = from.whole("work", 0, 0, mostWork,
		"us of CPU time that the server burns for each request before it answers, RANGE")
	plan.options = from.pacedLoad(byClients(1, "500ms"))
	// Which values do not go together.
	switch several := plan.options.Connections > 1; {
	case plan.client == inPython && plan.options.Rate > 0:
		from.refuse("rate", closed+" with client=python, whose loop is closed; client=go has an open one")
	case plan.client == inPython && several:
		from.refuse("connections", "1 with client=python, which has one at a time; client=go has several")
	case plan.server == inPython && several && !plan.fresh:
		from.refuse("connections", "1 with server=python, which serves one at a time and would leave the others waiting; "+
			"server=go serves several, connection=new has them take turns")
	}
	return plan
}

func (plan thriftPlan) program() Program {
	args := []string{image.ThriftServer}
	if plan.server == inPython {
		args = []string{image.ThriftPython, "-B", image.ThriftPythonServer}
	}
	args = append(args, "--address", plan.listen, "--port", strconv.Itoa(plan.port), "--work", strconv.FormatInt(plan.work, 10))
	// What is carried exists several times on its way through the library, and in Go
	// until it is collected.
	return Program{
		Args:       args,
		Ports:      []int{plan.port},
		Data:       []string{"/data"},
		Service:    true,
		MemoryNeed: 32<<20 + 8*int64(plan.size),
	}
}

func (plan thriftPlan) metrics() []Metric { return loadMetrics(plan.options) }

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

// ready waits for the answer to a ping.
func (plan thriftPlan) ready(ctx context.Context, t Trial) error {
	target := load.Thrift{Address: t.Address(plan.port), Call: load.ThriftPing, NewConnections: true, Dial: dialOf(t)}
	return awaitReady(ctx, readyWithin, "thrift answers a ping at "+target.Address, func(ctx context.Context) error {
		return askOnce(ctx, target)
	})
}

func (plan thriftPlan) drive(ctx context.Context, t Trial) error {
	return whileServing(ctx, t, func(ctx context.Context) error {
		if err := plan.ready(ctx, t); err != nil {
			return err
		}
		r, err := plan.run(ctx, t)
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

// run loads the service once, by whichever client.
func (plan thriftPlan) run(ctx context.Context, t Trial) (load.Result, error) {
	if plan.client == inPython {
		return plan.loadByPython(ctx, t, plan.options)
	}
	plan.options.Batches = batchesOf(t)
	return load.Run(ctx, plan.target(t), plan.options)
}

func (plan thriftPlan) offered() Offered { return offered(plan.options) }

func (plan thriftPlan) load(ctx context.Context, t Trial, seed uint64) (load.Result, error) {
	plan.options.Seed = seed
	return loadOnce(ctx, t, func(ctx context.Context) (load.Result, error) { return plan.run(ctx, t) })
}

func (plan thriftPlan) drives() ([]Drive, error) {
	if plan.client == inPython {
		return nil, errors.New("the client in Python makes connections of its own, which cannot stay open between slices: take client=go, or --design blocks")
	}
	return drivesFor(plan.options), nil
}

func (plan thriftPlan) sliceMetrics() []Metric { return sliceMetrics(plan.options) }

func (plan thriftPlan) slices(ctx context.Context, t Trial, _ uint64) (Slicer, error) {
	return openStanding(ctx, map[string]load.Target{requests: plan.target(t)}, plan.options, 1, 0)
}

func (thrift) Sustained() (p Params, steady bool) { return nil, true }

func (plan thriftPlan) sustain(ctx context.Context, t Trial, seed uint64) error {
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
