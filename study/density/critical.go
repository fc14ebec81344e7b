package density

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"tare/lab"
	"tare/load"
	"tare/platform"
	"tare/study/kit"
	"tare/study/latency/service"
	"tare/workload"
)

// critical is the service whose latency is watched, before any of it runs.
type critical struct {
	subject workload.Subject
	params  workload.Params
	loader  workload.Loader // nil where the service asks for its own objects
	idling  workload.Idling // nil where a loader loads it
	rate    float64         // of the open loop
	ports   []int
	need    int64 // bytes of memory
}

func (c critical) name() string { return c.subject.Workload.Name() }

// Parameters that the study sets, of those that a workload has.
const (
	paramPort     = "port"
	paramRate     = "rate"
	paramArrival  = "arrival"
	paramClient   = "client"
	paramDuration = "duration"
	paramWarmup   = "warmup"
	paramCount    = "count"

	closedLoop = "closed"
)

// readCritical reads what was asked for.
func readCritical(o Options) (c critical, err error) {
	if o.Critical.Workload == nil {
		return c, kit.Usagef("--critical: want a service")
	}
	c = critical{subject: o.Critical, rate: o.Rate}
	w := o.Critical.Workload
	if c.params, err = workload.Resolve(w, o.Critical.Params); err != nil {
		return c, kit.Usagef("%v", err)
	}
	var isLoader, isIdling bool
	c.loader, isLoader = w.(workload.Loader)
	c.idling, isIdling = w.(workload.Idling)
	switch {
	case isLoader:
		c.idling = nil
		if o.CriticalMemory > 0 {
			return c, kit.Usagef("--critical-memory %s: the memory of %s cannot be set: leave the flag out, or choose one of %s by --critical", sizeText(o.CriticalMemory), c.name(), strings.Join(Noises(), ", "))
		}
		offered, err := c.loader.Offered(c.params)
		if err != nil {
			return c, kit.Usagef("%v", err)
		}
		if _, ok := c.params[paramRate]; !ok {
			return c, kit.Usagef("--critical %s: it has no parameter %s, so it cannot be loaded by a schedule", c.name(), paramRate)
		}
		if c.rate == 0 {
			c.rate = offered.Rate
		}
	case isIdling:
		bytes := o.CriticalMemory
		if bytes == 0 {
			bytes = o.Box * criticalShare / criticalShareOf
		}
		if c.params, err = c.idling.Sized(c.params, bytes); err != nil {
			return c, o.missized("critical-memory", bytes, err)
		}
		c.need = bytes
	default:
		return c, kit.Usagef("--critical %s: it is no service that tare can load and account apart from its start: `tare workloads` says which are", c.name())
	}
	if c.rate == 0 {
		c.rate = DefaultRate
	}
	program, err := w.Program(c.params)
	if err != nil {
		return c, kit.Usagef("--critical %s: %v", c.name(), err)
	}
	c.need = max(c.need, program.MemoryNeed)
	parts, err := c.parts(program, c.params)
	if err != nil {
		return c, kit.Usagef("--critical %s: %v", c.name(), err)
	}
	for _, part := range parts {
		c.ports = append(c.ports, part.Program(func(string, int) string { return "" }).Ports...)
	}
	return c, nil
}

// parts are the programs of the service, each of which has an instance of its own.
func (c critical) parts(whole workload.Program, params workload.Params) ([]workload.Part, error) {
	if divided, ok := c.subject.Workload.(workload.Divided); ok {
		return divided.Parts(params)
	}
	return []workload.Part{
		{Name: c.name(), Program: func(func(string, int) string) workload.Program { return whole }},
	}, nil
}

// A critical service whose memory can be set holds so much of the box, as the one of
// docs/density.md's example: 320 MiB of 1 GiB.
const (
	criticalShare   = 5
	criticalShareOf = 16
)

// reserve is what a limit around the idle class leaves it.
func (c critical) reserve(box int64) int64 {
	if c.need == 0 {
		return box * criticalShare / criticalShareOf
	}
	return min(int64(spare*float64(c.need)), box/2)
}

// served is a critical service that runs.
type served struct {
	critical
	running *service.Running
	target  *load.Kept // of one that asks for its own objects
	seed    uint64
}

// launch starts the parts, each in an instance of its own, and leaves the service ready.
// What was started is handed to ends, whatever the error.
func (c critical) launch(ctx context.Context, b lab.Bench, group string, ends *endings) (*served, error) {
	at := workload.Place{Listen: lab.ListensAt(b.Platform(), b.Condition().Setting)}
	whole, params, err := lab.ProgramAt(c.subject.Workload, c.params, at)
	if err != nil {
		return nil, err
	}
	parts, err := c.parts(whole, params)
	if err != nil {
		return nil, err
	}
	s := &served{critical: c, running: service.NewRunning(b, params, service.Client{Batches: batches}), seed: b.Seed()}
	stdout, stderr := s.running.Outputs()
	all := &ensemble{}
	for _, part := range parts {
		program := part.Program(all.address)
		spec := platform.Spec{
			Name:    b.Name(),
			Image:   b.Image(),
			Args:    program.Args,
			Env:     program.Env,
			Dir:     program.Dir,
			Setting: b.Condition().Setting,
			Group:   group,
			Ports:   program.Ports,
			Data:    program.Data,
			Stdout:  stdout,
			Stderr:  stderr,
		}
		if err := prepare(b, &spec); err != nil {
			return nil, fmt.Errorf("%s: %w", part.Name, err)
		}
		inst, err := b.Platform().Launch(ctx, spec)
		if err != nil {
			return nil, fmt.Errorf("launch %s on %s: %w", part.Name, b.Condition().Platform, err)
		}
		ends.add(inst.Stop)
		all.add(part.Name, inst)
		s.running.Launched(all)
		if part.Ready == nil {
			continue
		}
		if err := part.Ready(ctx, inst.Address); err != nil {
			return nil, s.running.Err.WithLastLine(fmt.Errorf("readiness of %s: %w", part.Name, err))
		}
	}
	if err := b.InForce(all.Instance); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		return nil, s.running.Err.WithLastLine(fmt.Errorf("readiness of %s: %w", c.name(), err))
	}
	if s.target != nil {
		ends.add(func(context.Context) error { return s.target.Close() })
	}
	return s, nil
}

// prepare completes what is launched: the image's own command, and ports that are free.
func prepare(b lab.Bench, spec *platform.Spec) error {
	if config := spec.Image.Config; len(spec.Args) == 0 {
		spec.Args = append(append([]string{}, config.Entrypoint...), config.Cmd...)
	}
	if _, elsewhere := b.Platform().(platform.Boxing); elsewhere {
		return nil // another kernel's ports
	}
	// An engine lets a container in the host's network begin beside whoever serves its
	// port, whom the load would reach.
	if n := spec.Setting.Network; n == "" || n == platform.NetworkHost {
		return spec.CheckPorts()
	}
	return nil
}

// ready waits until the service answers, and has its data.
func (s *served) ready(ctx context.Context) error {
	if s.loader != nil {
		return s.running.AwaitReady(ctx, s.loader)
	}
	if err := s.running.AwaitReady(ctx, s.idling); err != nil {
		return err
	}
	if err := s.idling.Fill(ctx, s.running, s.seed); err != nil {
		return fmt.Errorf("fill it: %w", err)
	}
	target, err := s.idling.Asks(s.running, s.seed, s.seed)
	if err != nil {
		return err
	}
	s.target = load.Keep(target)
	return nil
}

// errUnanswered is a load of which nothing was answered.
var errUnanswered = errors.New("not one request was answered")

// load loads the service for a time: by a schedule where open, else by clients that wait
// for their answers.
func (s *served) load(ctx context.Context, open bool, last time.Duration) (load.Result, error) {
	result, err := s.loadOnce(ctx, open, last)
	if err == nil && result.Requests == 0 {
		err = errUnanswered
		if result.FirstError != nil {
			err = fmt.Errorf("%w, the first failed by: %w", err, result.FirstError)
		}
	}
	return result, err
}

func (s *served) loadOnce(ctx context.Context, open bool, last time.Duration) (load.Result, error) {
	if s.loader == nil {
		options := load.Options{Duration: last, Seed: s.seed, Batches: batches}
		if open {
			options.Rate, options.Arrival = s.rate, load.Poisson
		}
		return load.Run(ctx, s.target, options)
	}
	set := map[string]string{
		paramRate: closedLoop, paramDuration: last.String(), paramWarmup: "0s", paramCount: "0",
		paramClient: "go", // tare's own, which has both loops
	}
	if open {
		set[paramRate], set[paramArrival] = strconv.FormatFloat(s.rate, 'g', -1, 64), string(load.Poisson)
	}
	var pairs []string
	for name, value := range set {
		pairs = append(pairs, name, value)
	}
	return s.loader.Load(ctx, s.running.With(pairs...), s.seed)
}

// ensemble is several instances as one: the last is the one that clients reach.
type ensemble struct {
	platform.Instance
	parts map[string]platform.Instance
}

func (e *ensemble) add(name string, inst platform.Instance) {
	if e.parts == nil {
		e.parts = map[string]platform.Instance{}
	}
	e.parts[name], e.Instance = inst, inst
}

func (e *ensemble) address(part string, port int) string {
	inst, ok := e.parts[part]
	if !ok {
		return ""
	}
	return inst.Address(port)
}

// Wait is until the first of them ends.
func (e *ensemble) Wait(ctx context.Context) (platform.Exit, error) {
	type ended struct {
		exit platform.Exit
		err  error
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	first := make(chan ended, len(e.parts))
	for _, inst := range e.parts {
		go func() {
			exit, err := inst.Wait(waiting)
			first <- ended{exit, err}
		}()
	}
	one := <-first
	cancel()
	for range len(e.parts) - 1 {
		<-first
	}
	return one.exit, one.err
}

// defaults are a subject's parameters, the defaults where none was set.
func defaults(s workload.Subject) workload.Params {
	p := workload.Params{}
	for _, param := range s.Workload.Params() {
		p[param.Name] = param.Default
	}
	maps.Copy(p, s.Params)
	return p
}
