package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"tare/load"
)

// loadSpec says how a service from a file is loaded.
type loadSpec struct {
	kind string // "http", "resp", "command"
	at   position
	port int

	// Of http and resp: how often and how long.
	rate, arrival, seed, connections, warmup, duration, count, timeout value
	errors                                                             value // highest share of requests that may fail

	// Of http.
	method, path, host, body, newConnections value
	headers                                  map[string]value
	status, bodyMin, bodyPattern             value

	// Of resp: each a list of words, or a line of words.
	commands [][]value
	pipeline value

	// Of command.
	args []value
}

var scheduleKeys = []string{"port", "rate", "arrival", "seed", "connections", "warmup", "duration", "count", "timeout", "assert"}

func readLoad(n node, ports []int) (l loadSpec, err error) {
	kinds, err := n.mapping("http", "resp", "command")
	if err != nil {
		return l, err
	}
	if len(kinds) != 1 {
		return l, n.at.wrong("has %d keys, want exactly one of http, resp, command", len(kinds))
	}
	for kind, n := range kinds {
		l.kind, l.at = kind, n.at
		switch kind {
		case "http":
			err = l.readHTTP(n, ports)
		case "resp":
			err = l.readRESP(n, ports)
		default:
			err = l.readCommand(n)
		}
	}
	return l, err
}

// readScalars reads those of the keys that are there.
func readScalars(f fields, keys map[string]*value) (err error) {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if n, ok := f[key]; ok {
			if *keys[key], err = n.scalar("a text or number"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *loadSpec) readSchedule(n node, f fields, ports []int) (err error) {
	if l.port, err = portOf(f, n, ports); err != nil {
		return err
	}
	err = readScalars(f, map[string]*value{"rate": &l.rate, "arrival": &l.arrival, "seed": &l.seed, "connections": &l.connections,
		"warmup": &l.warmup, "duration": &l.duration, "count": &l.count, "timeout": &l.timeout})
	if err != nil {
		return err
	}
	if !l.rate.set() {
		return n.at.wrong("lacks the key rate: requests per second, or closed (each connection sends as soon as it has its answer)")
	}
	if !l.duration.set() && !l.count.set() {
		return n.at.wrong("lacks the key duration, or count, or both: what ends it")
	}
	return nil
}

func (l *loadSpec) readHTTP(n node, ports []int) error {
	f, err := n.mapping(append([]string{"method", "path", "host", "headers", "body", "new_connections"}, scheduleKeys...)...)
	if err != nil {
		return err
	}
	if err := l.readSchedule(n, f, ports); err != nil {
		return err
	}
	err = readScalars(f, map[string]*value{"method": &l.method, "path": &l.path, "host": &l.host, "body": &l.body, "new_connections": &l.newConnections})
	if err != nil {
		return err
	}
	if n, ok := f["headers"]; ok {
		pairs, err := n.pairs("a mapping of header names to values", func(string) string { return "" })
		if err != nil {
			return err
		}
		l.headers = map[string]value{}
		for name, n := range pairs {
			if l.headers[name], err = n.scalar("a text"); err != nil {
				return err
			}
		}
	}
	if n, ok := f["assert"]; ok {
		f, err := n.mapping("status", "body_min", "body_pattern", "errors")
		if err != nil {
			return err
		}
		return readScalars(f, map[string]*value{"status": &l.status, "body_min": &l.bodyMin, "body_pattern": &l.bodyPattern, "errors": &l.errors})
	}
	return nil
}

func (l *loadSpec) readRESP(n node, ports []int) error {
	f, err := n.mapping(append([]string{"commands", "pipeline"}, scheduleKeys...)...)
	if err != nil {
		return err
	}
	if err := l.readSchedule(n, f, ports); err != nil {
		return err
	}
	if err := readScalars(f, map[string]*value{"pipeline": &l.pipeline}); err != nil {
		return err
	}
	if n, ok := f["assert"]; ok {
		f, err := n.mapping("errors")
		if err != nil {
			return err
		}
		if err := readScalars(f, map[string]*value{"errors": &l.errors}); err != nil {
			return err
		}
	}
	commands, ok := f["commands"]
	if !ok {
		return n.at.wrong("lacks the key commands: a list such as [SET key value, GET key]")
	}
	all, err := commands.list(`commands, such as "SET key value" or [SET, key, "two words"]`)
	if err != nil {
		return err
	}
	for _, each := range all {
		words, err := readWords(each)
		if err != nil {
			return err
		}
		if len(words) == 0 {
			return each.at.wrong("is empty")
		}
		l.commands = append(l.commands, words)
	}
	if len(l.commands) == 0 {
		return commands.at.wrong("is empty")
	}
	return nil
}

// readWords reads a list of words, or a line that spaces part into them.
func readWords(n node) ([]value, error) {
	line, err := n.scalar("")
	if err != nil {
		return n.scalars("words")
	}
	var words []value
	for word := range strings.FieldsSeq(line.text) {
		words = append(words, value{word, line.at})
	}
	return words, nil
}

func (l *loadSpec) readCommand(n node) error {
	f, err := n.mapping("args")
	if err != nil {
		return err
	}
	args, ok := f["args"]
	if !ok {
		return n.at.wrong("lacks the key args: the load program inside the image, and its arguments")
	}
	if l.args, err = args.scalars("words, such as [/usr/bin/wrk, \"http://${address}/\"]"); err != nil {
		return err
	}
	if len(l.args) == 0 {
		return args.at.wrong("is empty")
	}
	return nil
}

// loading is a loadSpec with all its values.
type loading struct {
	target     load.Target // nil: args run in the generator's place
	options    load.Options
	operations float64 // that a request holds
	errorShare float64
	args       []string
}

func (l loadSpec) compile(s scope) (loading, error) {
	if l.kind == "command" {
		args, err := s.expandAll(l.args)
		return loading{args: args}, err
	}
	plan := loading{operations: 1}
	var err error
	if plan.options, err = l.compileOptions(s); err != nil {
		return loading{}, err
	}
	if plan.errorShare, err = s.number(l.errors, 0, 1, 0); err != nil {
		return loading{}, err
	}
	if l.kind == "http" {
		plan.target, err = l.compileHTTP(s)
		return plan, err
	}
	target := load.RESP{Address: s.addresses(l.port)}
	for _, command := range l.commands {
		words, err := s.expandAll(command)
		if err != nil {
			return loading{}, err
		}
		target.Commands = append(target.Commands, words)
	}
	pipeline, err := s.whole(l.pipeline, 1, 10_000, 1)
	if err != nil {
		return loading{}, err
	}
	target.Pipeline, plan.operations = int(pipeline), float64(pipeline)
	plan.target = target
	return plan, nil
}

func (l loadSpec) compileOptions(s scope) (o load.Options, err error) {
	rate, err := s.text(l.rate, "")
	if err != nil {
		return o, err
	}
	if rate != "closed" {
		if o.Rate, err = s.number(l.rate, 0.001, 1e6, 0); err != nil {
			return o, l.rate.at.wrong("%q: want requests per second, 0.001 to 1e6, or closed", rate)
		}
	}
	arrival, err := s.oneOf(l.arrival, string(load.Uniform), string(load.Uniform), string(load.Poisson))
	if err != nil {
		return o, err
	}
	o.Arrival = load.Arrival(arrival)
	seed, err := s.whole(l.seed, 0, 1<<62, 1)
	if err != nil {
		return o, err
	}
	o.Seed = uint64(seed)
	connections, err := s.whole(l.connections, 1, 10_000, load.DefaultConnections)
	if err != nil {
		return o, err
	}
	o.Connections = int(connections)
	if o.Count, err = s.whole(l.count, 1, 1e12, 0); err != nil {
		return o, err
	}
	for _, d := range []struct {
		v             value
		low, fallback time.Duration
		to            *time.Duration
	}{
		{l.warmup, 0, 0, &o.Warmup},
		{l.duration, time.Millisecond, 0, &o.Duration},
		{l.timeout, time.Millisecond, load.DefaultTimeout, &o.Timeout},
	} {
		if *d.to, err = s.duration(d.v, d.low, 24*time.Hour, d.fallback); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (l loadSpec) compileHTTP(s scope) (load.Target, error) {
	t := load.HTTP{Address: s.addresses(l.port), Header: http.Header{}}
	for _, text := range []struct {
		v  value
		to *string
	}{{l.method, &t.Method}, {l.path, &t.Path}, {l.host, &t.Host}} {
		var err error
		if *text.to, err = s.text(text.v, ""); err != nil {
			return nil, err
		}
	}
	body, err := s.text(l.body, "")
	if err != nil {
		return nil, err
	}
	t.Body = []byte(body)
	for name, v := range l.headers {
		text, err := s.expand(v)
		if err != nil {
			return nil, err
		}
		t.Header.Set(name, text)
	}
	if t.NewConnections, err = s.truth(l.newConnections); err != nil {
		return nil, err
	}
	status, err := s.whole(l.status, 100, 599, 0)
	if err != nil {
		return nil, err
	}
	t.Status = int(status)
	if t.BodyMin, err = s.whole(l.bodyMin, 0, 1<<40, 0); err != nil {
		return nil, err
	}
	if t.BodyPattern, err = s.pattern(l.bodyPattern); err != nil {
		return nil, err
	}
	if err := checkTarget(t); err != nil {
		return nil, l.at.wrong("%v", err)
	}
	return t, nil
}

// outcome is what a trial has yielded before metrics are made of it.
type outcome struct {
	exit       Exit         // of a batch program
	result     *load.Result // of our generator
	operations float64      // that each of its requests held
	output     []byte       // of a load program
}

// run loads the service. Too many failed requests make the trial not valid.
func (l loading) run(ctx context.Context, t Trial) (outcome, error) {
	if l.target == nil {
		output, err := t.Generate(ctx, l.args)
		if err != nil {
			return outcome{}, fmt.Errorf("load program %s: %w", l.args[0], err)
		}
		return outcome{output: output}, nil
	}
	r, err := load.Run(ctx, l.dialled(t), l.options)
	if err != nil {
		return outcome{}, err
	}
	failed := r.Failed()
	if r.Requests == 0 || float64(failed) > l.errorShare*float64(failed+r.Requests) {
		return outcome{}, tooManyErrors(r)
	}
	return outcome{result: &r, operations: l.operations}, nil
}

// dialled is the target, reached as the trial's load is.
func (l loading) dialled(t Trial) load.Target {
	switch target := l.target.(type) {
	case load.HTTP:
		if dial := dialOf(t); dial != nil {
			target.Dial = dial
		}
		return target
	case load.RESP:
		if dial := dialOf(t); dial != nil {
			target.Dial = dial
		}
		return target
	default:
		return target
	}
}

// sustain loads the service until ctx ends. What a load program prints is not looked at.
func (l loading) sustain(ctx context.Context, t Trial, seed uint64) error {
	if l.target != nil {
		l.options.Seed ^= seed // each copy's moments are its own, and the file's seed still tells
		return sustainTolerant(ctx, t, l.dialled(t), l.options, l.errorShare)
	}
	return whileServing(ctx, t, func(serving context.Context) error {
		for serving.Err() == nil {
			began := time.Now()
			_, err := t.Generate(serving, l.args)
			switch {
			case serving.Err() != nil:
			case err != nil:
				return fmt.Errorf("load program %s: %w", l.args[0], err)
			case time.Since(began) < leastLoad:
				return fmt.Errorf("load program %s ended after %v: to keep the service at work it must load it for %v or more at a time",
					l.args[0], time.Since(began).Round(time.Millisecond), leastLoad)
			}
		}
		return nil
	})
}

// leastLoad is the least time for which a load program loads before it is run
// again: below that, its own start and not the service would be at work.
const leastLoad = 500 * time.Millisecond

func tooManyErrors(r load.Result) error {
	if r.FirstError == nil {
		return errors.New("not one request was due: load for longer, or at a higher rate")
	}
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", r.Errors[kind], kind))
	}
	return fmt.Errorf("%d of %d requests failed (%s), the first by: %w",
		r.Failed(), r.Failed()+r.Requests, strings.Join(kinds, ", "), r.FirstError)
}
