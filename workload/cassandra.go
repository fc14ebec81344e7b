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
type cassandra struct {
	placeable
	workloadOf[cassandraPlan]
	readierOf[cassandraPlan]
	loaderOf[cassandraPlan]
	sustainerOf[cassandraPlan]
}

func (cassandra) Name() string { return "cassandra" }
func (cassandra) Summary() string {
	return "wide-column database (Cassandra), read and written by many clients of tare's"
}
func (cassandra) Source() Source { return Source{Recipe: "cassandra"} }

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

type cassandraPlan struct {
	listening
	reads, records, heap int64
	warmup               time.Duration
	compiler             string
	options              load.Options
}

// cassandraTimeout bounds an operation: what the node gives up itself is answered, as
// an error, before.
const cassandraTimeout = 2 * time.Minute

func (plan cassandraPlan) parse(from *parameters) cassandraPlan {
	plan.listening = from.listening(image.CassandraPort)
	plan.options = load.Options{
		Count: from.whole("operations", 1000, 1, 10_000_000, "RANGE"),
		Rate: from.rate("rate", "1000", "of them per second (open loop), 0.001 to 1e6, or closed: "+
			"each client sends as soon as it has its answer"),
		Arrival: from.arrival(load.Uniform, "operations"),
		Connections: int(from.whole("threads", 100, 1, 4096,
			"clients, each with a connection and one operation at a time, RANGE")),
		Timeout: cassandraTimeout,
	}
	plan.reads = from.reads(75)
	plan.records = from.whole("records", 10000, 1, 10_000_000,
		"put in before the server counts as ready: one field of 100 bytes, RANGE")
	plan.warmup = from.duration("warmup", "3s", 0, 10*time.Minute,
		"of the same operations by all clients as fast as they are answered, forgotten, 0s to 10m; a second of rest follows")
	plan.compiler = from.word("compiler", quickCompiler,
		"Java's: quick, its first one alone, which is done after seconds; or full, its second one, too, as Java has it by itself",
		quickCompiler, fullCompiler)
	plan.heap = from.whole("heap", 512, 256, 1_000_000, "of Java, in MiB, RANGE")
	return plan
}

func (plan cassandraPlan) program() Program {
	heap := strconv.FormatInt(plan.heap, 10) + "m"
	args := []string{"/usr/bin/java", "-Xms" + heap, "-Xmx" + heap}
	if plan.compiler == quickCompiler {
		args = append(args, "-XX:TieredStopAtLevel=1")
	}
	storage := image.CassandraStoragePort
	if plan.port != image.CassandraPort {
		storage = plan.port + 1 // at which nodes speak to one another
	}
	// They stand over the configuration's.
	const setting = "-Dcassandra.settings."
	args = append(args, "-Dcassandra.config.allow_system_properties=true", setting+"rpc_address="+plan.listen,
		setting+"native_transport_port="+strconv.Itoa(plan.port), setting+"storage_port="+strconv.Itoa(storage))
	return Program{
		Args:  append(args, "@"+image.CassandraArguments),
		Ports: []int{plan.port}, Data: []string{image.CassandraData}, Service: true,
		// The heap, and Java's own code, threads and buffers, as measured at work.
		MemoryNeed: plan.heap<<20 + 448<<20,
		// The log of commits at its most, and each record a few times over until it is
		// compacted.
		DiskNeed: 128<<20 + 4*1024*plan.records,
		Needs:    []string{"/usr/bin/java"},
	}
}

func (cassandraPlan) metrics() []Metric {
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

// ready waits until a query has been answered, and puts in the records.
func (plan cassandraPlan) ready(ctx context.Context, t Trial) error {
	address := t.Address(plan.port)
	err := awaitReady(ctx, cassandraReadyWithin, "Cassandra answers a query at "+address, func(ctx context.Context) error {
		return plan.withClient(ctx, t, func(client *load.CQLClient) error {
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

func (p cassandraPlan) withClient(ctx context.Context, t Trial, do func(client *load.CQLClient) error) error {
	client, err := load.DialCQL(ctx, dialOf(t), t.Address(p.port))
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
	err := p.withClient(ctx, t, func(client *load.CQLClient) error {
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
		Address: t.Address(p.port), Dial: dialOf(t),
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

// run warms the node up, and then loads it as the parameters say.
func (p cassandraPlan) run(ctx context.Context, t Trial, seed uint64) (load.Result, error) {
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

func (plan cassandraPlan) drive(ctx context.Context, t Trial) error {
	return whileServing(ctx, t, func(ctx context.Context) error {
		if err := plan.ready(ctx, t); err != nil {
			return err
		}
		r, err := plan.run(ctx, t, 1)
		if err := answered(r, err); err != nil {
			return err
		}
		recordMeanLoad(t, r)
		return nil
	})
}

func (plan cassandraPlan) offered() Offered { return offered(plan.options) }

func (plan cassandraPlan) load(ctx context.Context, t Trial, seed uint64) (load.Result, error) {
	return loadOnce(ctx, t, func(ctx context.Context) (load.Result, error) { return plan.run(ctx, t, seed) })
}

// Sustained is the mix of S1's databases.
func (cassandra) Sustained() (p Params, steady bool) { return Params{"reads": "95"}, true }

// sustain has the clients ask as fast as they are answered, at most as many as
// other services have: more would only wait.
func (plan cassandraPlan) sustain(ctx context.Context, t Trial, seed uint64) error {
	o := load.Options{Connections: min(plan.options.Connections, load.DefaultConnections), Timeout: cassandraTimeout}
	return sustain(ctx, t, plan.target(t, plan.mix(seed)), o)
}

var (
	_ Sustainer = cassandra{}
	_ Loader    = cassandra{}
)
