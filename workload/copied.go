package workload

import (
	"context"
	"fmt"
	"net"
	"path"
	"regexp"
	"strconv"
	"time"

	"tare/load"
)

// Copied is a running container as a workload: the program that is launched again, and how
// the copy is loaded. A replay, a client, or neither: then it is left to its own work.
type Copied struct {
	Label   string // the workload's name
	Program Program
	Source  Source
	// Port is where it is loaded; 0 where it is not.
	Port   int
	Replay *load.Replay
	// Client is a command of the host. ${address}, ${host} and ${port} in its words stand for
	// where the copy answers.
	Client []string
	// For, where not 0, is how long a copy without a replay is observed. A client is run
	// again and again meanwhile, and a copy without load is left to its own work.
	For time.Duration
	// Beside, where not nil, is called once the copy is ready, and observes it while it is
	// loaded. The load goes on until it returns.
	Beside func(ctx context.Context) error
}

// HostLoaded is a Trial that can run a load program of the host.
type HostLoaded interface {
	Trial
	// GenerateOnHost is Generate from the host's root directory.
	GenerateOnHost(ctx context.Context, args []string) (stdout []byte, err error)
}

// settling is for how long a copy that has no port is left alone before it is observed: as it
// starts, it does other work.
const settling = 2 * time.Second

// FromContainer makes the workload.
func FromContainer(c Copied) Workload {
	c.Program.Service = c.Port > 0 || c.For > 0
	if c.Port > 0 {
		c.Program.Ports = []int{c.Port}
	}
	return copied{c}
}

type copied struct{ Copied }

func (c copied) Name() string                    { return c.Label }
func (c copied) Params() []Param                 { return nil }
func (c copied) Source() Source                  { return c.Copied.Source }
func (c copied) Program(Params) (Program, error) { return c.Copied.Program, nil }

// Summary says how it is loaded.
func (c copied) Summary() string {
	switch {
	case c.Replay != nil:
		return fmt.Sprintf("a copy, sent %d requests of an access log at their own times", len(c.Replay.Moments))
	case len(c.Client) > 0:
		return "a copy, loaded by " + path.Base(c.Client[0])
	case c.For > 0:
		return "a copy, without load from outside"
	}
	return "a copy, from launch to end"
}

// requestRate is how wrk, wrk2, hey, oha and ab print theirs.
var requestRate = regexp.MustCompile(`(?m)^\s*Requests(?:/sec| per second):\s+([0-9.]+)`)

// printsRate are the clients that do.
var printsRate = map[string]bool{"wrk": true, "wrk2": true, "hey": true, "oha": true, "ab": true}

// client is the name of the client's program.
func (c copied) client() string { return path.Base(c.Client[0]) }

func (c copied) Metrics(Params) []Metric {
	switch {
	case c.Replay != nil:
		var all []Metric
		for i, name := range []string{"p99", "p50", "p99.9", "errors"} {
			m := builtins[name].Metric
			m.Name, m.Primary = name, i == 0
			all = append(all, m)
		}
		return all
	case len(c.Client) > 0 && printsRate[c.client()]:
		m := builtins["throughput"].Metric
		m.Name, m.Primary = "throughput", true
		return []Metric{m}
	case len(c.Client) > 0:
		return []Metric{{Name: "client", Unit: "s", Better: Lower, Primary: true, Doc: "time that one run of the client takes"}}
	case c.For > 0:
		return nil
	}
	return []Metric{wallMetric(true), cpuMetric(true)}
}

func (c copied) Drive(ctx context.Context, t Trial) error {
	if !c.Copied.Program.Service {
		return command{program: c.Copied.Program}.Drive(ctx, t)
	}
	return whileServing(ctx, t, func(ctx context.Context) error {
		if err := c.ready(ctx, t); err != nil {
			return err
		}
		if c.Beside == nil {
			return c.load(ctx, t)
		}
		loading, stop := context.WithCancel(ctx)
		defer stop()
		loaded := make(chan error, 1)
		go func() {
			err := c.load(loading, t)
			if err != nil && loading.Err() == nil {
				stop() // there is nothing left to observe
			}
			loaded <- err
		}()
		observed := c.Beside(loading)
		if c.Replay == nil {
			stop()
		}
		err := <-loaded
		if observed != nil && ctx.Err() == nil && err == nil {
			return observed
		}
		return err
	})
}

func (c copied) ready(ctx context.Context, t Trial) error {
	if c.Port == 0 {
		select {
		case <-time.After(settling):
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	return accepts(t.Address(c.Port), 30*time.Second).await(ctx, t)
}

// load loads the copy once, or for as long as it is observed.
func (c copied) load(ctx context.Context, t Trial) error {
	switch {
	case c.Replay != nil:
		return c.replay(ctx, t)
	case len(c.Client) == 0:
		<-ctx.Done()
		return nil
	}
	for {
		err := c.runClient(ctx, t)
		switch {
		case c.Beside != nil && ctx.Err() != nil:
			return nil // the last run was cut short
		case err != nil || c.Beside == nil:
			return err
		}
	}
}

// replayConnections bounds the requests that are under way at once.
const replayConnections = 64

// mostFailed is the share of requests without an answer below 500 from which a trial is not valid.
const mostFailed = 0.05

func (c copied) replay(ctx context.Context, t Trial) error {
	target := c.Replay.Target(t.Address(c.Port))
	if dial := dialOf(t); dial != nil {
		target.Dial = dial
	}
	options := load.Options{Moments: c.Replay.Moments, Connections: replayConnections}
	loading := loading{target: target, options: options, operations: 1, errorShare: mostFailed}
	o, err := loading.run(ctx, t)
	if err != nil {
		return err
	}
	recordLoad(t, o.result)
	t.Record("errors", float64(o.result.Failed()))
	return nil
}

func (c copied) runClient(ctx context.Context, t Trial) error {
	host, ok := t.(HostLoaded)
	if !ok {
		return fmt.Errorf("%s cannot be loaded by a client of the host here", c.Label)
	}
	args, err := clientArgs(c.Client, t.Address(c.Port))
	if err != nil {
		return err
	}
	began := time.Now()
	printed, err := host.GenerateOnHost(ctx, args)
	if err != nil {
		return err
	}
	took := time.Since(began)
	if c.Beside != nil && took < leastLoad {
		return fmt.Errorf("client %s ended after %v: it must load the copy for %v or more at a time", c.client(), took.Round(time.Millisecond), leastLoad)
	}
	if !printsRate[c.client()] {
		t.Record("client", took.Seconds())
		return nil
	}
	found, err := customMetric{pattern: requestRate, output: "the client's output"}.find(printed)
	if err == nil {
		t.Record("throughput", found[0])
	}
	return err
}

// clientReference is ${name} in a client's word.
var clientReference = regexp.MustCompile(`\$\{([a-z]*)\}`)

// clientArgs puts in where the copy answers.
func clientArgs(words []string, address string) ([]string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("the copy's address: %w", err)
	}
	values := map[string]string{"address": address, "host": host, "port": port}
	args := make([]string, len(words))
	for i, word := range words {
		args[i] = clientReference.ReplaceAllStringFunc(word, func(reference string) string {
			value, known := values[clientReference.FindStringSubmatch(reference)[1]]
			if !known {
				err = fmt.Errorf("client: %s: want ${address}, ${host} or ${port}", reference)
			}
			return value
		})
	}
	return args, err
}

// CheckClient tells what is wrong with a client's words; nil where nothing is.
func CheckClient(words []string) error {
	_, err := clientArgs(words, net.JoinHostPort("127.0.0.1", strconv.Itoa(1)))
	if err == nil && !refersToAddress(words) {
		err = fmt.Errorf("client %s: none of its words has ${address}, or ${host} and ${port}: it would not load the copy", words[0])
	}
	return err
}

func refersToAddress(words []string) bool {
	for _, word := range words {
		if clientReference.MatchString(word) {
			return true
		}
	}
	return false
}
