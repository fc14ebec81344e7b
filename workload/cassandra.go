package workload

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"tare/image"
	"tare/load"
)

// cassandra is S2's database: one Cassandra node, read and written by many clients at
// once. S2 used cassandra-stress, which no package archive here has; by its names the
// load is "mixed ratio(write=1,read=3)" with as many operations, threads and
// operations a second (throttle). The client is tare's own, so that each latency
// counts from the moment at which its operation was due.
type cassandra struct{}

func (cassandra) Name() string { return "cassandra" }
func (cassandra) Summary() string {
	return "wide-column database (Cassandra), read and written by many clients of tare's"
}
func (cassandra) Source() Source { return Source{Recipe: "cassandra"} }

func (cassandra) Params() []Param {
	return []Param{
		{"operations", "1000", "1 to 10000000"},
		{"rate", "1000", "of them per second (open loop), 0.001 to 1e6, or closed: each client sends as soon as it has its answer"},
		{"arrival", string(load.Uniform), "of an open loop's operations: uniform, evenly spaced; or poisson, independently of one another"},
		{"threads", "100", "clients, each with a connection and one operation at a time, 1 to 4096"},
		readsParam("75"),
		{"records", "10000", "put in before the server counts as ready: one field of 100 bytes, 1 to 10000000"},
		{"warmup", "3s", "of the same operations by all clients as fast as they are answered, forgotten, 0s to 10m; a second of rest follows"},
		{"compiler", quickCompiler, "Java's: quick, its first one alone, which is done after seconds; or full, its second one, too, as Java has it by itself"},
		{"heap", "512", "of Java, in MiB, 256 to 1000000"},
	}
}

// Java compiles what runs often by a quick compiler, and what runs still oftener once
// more, for tens of seconds of CPU time. On a quota of one CPU the second compiler
// takes most of it for half a minute, and operations wait for the next period: their
// mean was 6 to 24 ms after 10 s of warm-up and 0.3 ms after 25 s, where the first
// compiler alone gave 0.7 ms from the first seconds on. So a trial of some seconds
// measures the service with the first, and the compiler with both.
const (
	quickCompiler = "quick"
	fullCompiler  = "full"
)

// cassandraPlan is the parameters, read.
type cassandraPlan struct {
	reads, records, heap int64
	warmup               time.Duration
	compiler             string
	options              load.Options
}

// cassandraTimeout bounds an operation: what the node gives up itself is answered, as
// an error, before.
const cassandraTimeout = 2 * time.Minute

func planCassandra(p Params) (plan cassandraPlan, err error) {
	o := &plan.options
	if o.Count, err = p.whole("operations", 1, 10_000_000); err != nil {
		return plan, err
	}
	if o.Rate, err = p.rate("rate"); err != nil {
		return plan, err
	}
	arrival, err := p.oneOf("arrival", string(load.Uniform), string(load.Poisson))
	if err != nil {
		return plan, err
	}
	threads, err := p.whole("threads", 1, 4096)
	if err != nil {
		return plan, err
	}
	o.Connections, o.Arrival, o.Timeout = int(threads), load.Arrival(arrival), cassandraTimeout
	if plan.reads, err = p.whole("reads", 0, 100); err != nil {
		return plan, err
	}
	if plan.records, err = p.whole("records", 1, 10_000_000); err != nil {
		return plan, err
	}
	if plan.warmup, err = p.duration("warmup", 0, 10*time.Minute); err != nil {
		return plan, err
	}
	if plan.compiler, err = p.oneOf("compiler", quickCompiler, fullCompiler); err != nil {
		return plan, err
	}
	plan.heap, err = p.whole("heap", 256, 1_000_000)
	return plan, err
}

// placed gives the port at which nodes speak to one another the next one.
func (cassandra) Placed(p Params, at Place) (Params, error) { return p.at(at), nil }

func (cassandra) Program(p Params) (Program, error) {
	plan, err := planCassandra(p)
	if err != nil {
		return Program{}, err
	}
	heap := strconv.FormatInt(plan.heap, 10) + "m"
	args := []string{"/usr/bin/java", "-Xms" + heap, "-Xmx" + heap}
	if plan.compiler == quickCompiler {
		args = append(args, "-XX:TieredStopAtLevel=1")
	}
	port, storage := p.portOr(image.CassandraPort), image.CassandraStoragePort
	if port != image.CassandraPort {
		storage = port + 1
	}
	// They stand over the configuration's.
	const setting = "-Dcassandra.settings."
	args = append(args, "-Dcassandra.config.allow_system_properties=true", setting+"rpc_address="+p.listenAddress(),
		setting+"native_transport_port="+strconv.Itoa(port), setting+"storage_port="+strconv.Itoa(storage))
	return Program{
		Args:  append(args, "@"+image.CassandraArguments),
		Ports: []int{port}, Data: []string{image.CassandraData}, Service: true,
		// The heap, and Java's own code, threads and buffers, as measured at work.
		MemoryNeed: plan.heap<<20 + 448<<20,
		// The log of commits at its most, and each record a few times over until it is
		// compacted.
		DiskNeed: 128<<20 + 4*1024*plan.records,
		Needs:    []string{"/usr/bin/java"},
	}, nil
}

func (cassandra) Metrics(p Params) []Metric {
	return append(meanLatencyMetrics(),
		Metric{Name: "throughput", Unit: "operations/s", Better: Higher, Doc: "operations answered rightly, until the last of them"}, loadingMetric())
}

// The table is YCSB's, as far as it has one field.
const (
	cassandraKeyspace = "CREATE KEYSPACE IF NOT EXISTS ycsb WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
	cassandraTable    = "CREATE TABLE IF NOT EXISTS ycsb.usertable (id text PRIMARY KEY, field0 text)"
	cassandraRead     = "SELECT field0 FROM ycsb.usertable WHERE id = ?"
	cassandraWrite    = "INSERT INTO ycsb.usertable (id, field0) VALUES (?, ?)"
)

// cassandraReadyWithin bounds the start, also in a machine that is emulated.
const cassandraReadyWithin = 5 * time.Minute

// Ready waits until a query has been answered, and puts in the records.
func (cassandra) Ready(ctx context.Context, t Trial) error {
	plan, err := planCassandra(t.Params())
	if err != nil {
		return err
	}
	address := t.Address(t.Params().portOr(image.CassandraPort))
	err = awaitReady(ctx, cassandraReadyWithin, "Cassandra answers a query at "+address, func(ctx context.Context) error {
		return withCassandra(ctx, t, func(client *load.CQLClient) error {
			rows, err := client.Do(ctx, "SELECT key FROM system.local")
			if err == nil && len(rows) != 1 {
				err = fmt.Errorf("its own entry was answered by %d rows", len(rows))
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	return loaded(t, func() error { return plan.fill(ctx, t) })
}

func withCassandra(ctx context.Context, t Trial, do func(client *load.CQLClient) error) error {
	client, err := load.DialCQL(ctx, dialOf(t), t.Address(t.Params().portOr(image.CassandraPort)))
	if err != nil {
		return err
	}
	defer client.Close()
	return do(client)
}

// fillConnections is how many records are put in at once.
const fillConnections = 16

// fill makes the table and puts the records in.
func (p cassandraPlan) fill(ctx context.Context, t Trial) error {
	err := withCassandra(ctx, t, func(client *load.CQLClient) error {
		for _, statement := range []string{cassandraKeyspace, cassandraTable} {
			if _, err := client.Do(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var put atomic.Int64
	target := p.target(t, func() operation { return operation{record: put.Add(1) - 1} })
	return answered(
		load.Run(ctx, target, load.Options{Connections: fillConnections, Count: p.records, Timeout: cassandraTimeout}),
	)
}

// target sends operations.
func (p cassandraPlan) target(t Trial, next func() operation) load.CQL {
	return load.CQL{
		Address: t.Address(t.Params().portOr(image.CassandraPort)), Dial: dialOf(t),
		Statements: []string{cassandraRead, cassandraWrite},
		Next: func() load.CQLRequest {
			o := next()
			key := recordKey(o.record)
			if o.read {
				return load.CQLRequest{
					Statement: 0,
					Values:    []string{key},
					Check:     func(rows []load.CQLRow) error { return checkCQLRecord(o.record, rows) },
				}
			}
			return load.CQLRequest{
				Statement: 1,
				Values:    []string{key, recordField(o.record, o.update)},
				Check:     checkCQLWritten,
			}
		},
	}
}

// mix draws operations over all records alike; S2 does not tell of any it had that
// were asked for more often than others.
func (p cassandraPlan) mix(seed uint64) func() operation {
	m := newYCSB(p.records, p.reads, seed)
	m.hot = p.records
	return m.next
}

func checkCQLRecord(n int64, rows []load.CQLRow) error {
	if len(rows) != 1 || len(rows[0]) != 1 {
		return fmt.Errorf("record %s was not found: it was answered by %d rows, want one of one column", recordKey(n), len(rows))
	}
	return checkField(n, string(rows[0][0]))
}

func checkCQLWritten(rows []load.CQLRow) error {
	if len(rows) != 0 {
		return errors.New("a write was answered by rows")
	}
	return nil
}

// load warms the node up, and then loads it as the parameters say.
func (p cassandraPlan) load(ctx context.Context, t Trial, seed uint64) (load.Result, error) {
	next := p.mix(seed)
	if p.warmup > 0 {
		o := load.Options{Connections: p.options.Connections, Duration: p.warmup, Timeout: cassandraTimeout}
		if err := answered(load.Run(ctx, p.target(t, next), o)); err != nil {
			return load.Result{}, fmt.Errorf("warm up: %w", err)
		}
		if err := rest(ctx); err != nil {
			return load.Result{}, err
		}
	}
	o := p.options
	o.Seed, o.Batches = seed, batchesOf(t)
	return load.Run(ctx, p.target(t, next), o)
}

func (w cassandra) Drive(ctx context.Context, t Trial) error {
	plan, err := planCassandra(t.Params())
	if err != nil {
		return err
	}
	return whileServing(ctx, t, func(ctx context.Context) error {
		if err := w.Ready(ctx, t); err != nil {
			return err
		}
		r, err := plan.load(ctx, t, 1)
		if err := answered(r, err); err != nil {
			return err
		}
		recordMeanLoad(t, r)
		return nil
	})
}

func (cassandra) Offered(p Params) (Offered, error) {
	plan, err := planCassandra(p)
	return offered(plan.options), err
}

func (cassandra) Load(ctx context.Context, t Trial, seed uint64) (load.Result, error) {
	plan, err := planCassandra(t.Params())
	if err != nil {
		return load.Result{}, err
	}
	return loadOnce(ctx, t, func(ctx context.Context) (load.Result, error) { return plan.load(ctx, t, seed) })
}

// Sustained is the mix of S1's databases.
func (cassandra) Sustained() (p Params, steady bool) { return Params{"reads": "95"}, true }

// Sustain has the clients ask as fast as they are answered, at most as many as
// other services have: more would only wait.
func (cassandra) Sustain(ctx context.Context, t Trial, seed uint64) error {
	plan, err := planCassandra(t.Params())
	if err != nil {
		return err
	}
	o := load.Options{Connections: min(plan.options.Connections, load.DefaultConnections), Timeout: cassandraTimeout}
	return sustain(ctx, t, plan.target(t, plan.mix(seed)), o)
}

var (
	_ Sustainer = cassandra{}
	_ Loader    = cassandra{}
)
