package workload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/load"
)

// redis is S5's service: Redis. In slices tare loads it (redisslices.go). In blocks its own
// redis-benchmark does, in a closed loop, as in S5: one for each command, in the order of the
// parameter. Before, all keys that it reads are written, and all commands run for a warm-up that
// does not count.
type redis struct {
	placeable
	workloadOf[redisPlan]
	readierOf[redisPlan]
	sustainerOf[redisPlan]
	slicedOf[redisPlan]
}

func (redis) Name() string { return "redis" }
func (redis) Summary() string {
	return "in-memory key-value store, loaded by tare (in blocks by redis-benchmark)"
}
func (redis) Source() Source { return Source{Recipe: "redis"} }

// RedisCPU ends the names of the metrics that tell what a command takes of the
// server's CPU: "get-cpu".
const RedisCPU = "-cpu"

// redisCommand is a test of redis-benchmark.
type redisCommand struct {
	name  string // for -t, and of our metric
	title string // first word of its section
	// perSecond is about what one server thread answers on a small machine
	// without pipelining; it only sizes the requests.
	perSecond int64
	list      bool // it grows a list by an element a request, or needs one so long
	// writes is how many keys or elements a request puts into the append-only file.
	writes int64
}

// redisCommands leaves out those that empty what they read (LPOP, SPOP, ...):
// most of their answers would come from a missing key.
var redisCommands = []redisCommand{
	{"ping_inline", "PING_INLINE", 80_000, false, 0},
	{"ping_mbulk", "PING_MBULK", 80_000, false, 0},
	{"get", "GET", 80_000, false, 0},
	{"set", "SET", 80_000, false, 1},
	{"incr", "INCR", 80_000, false, 1},
	{"mset", "MSET", 60_000, false, 10},
	{"hset", "HSET", 70_000, false, 1},
	{"sadd", "SADD", 80_000, false, 1},
	{"zadd", "ZADD", 70_000, false, 1},
	{"lpush", "LPUSH", 80_000, true, 1},
	{"rpush", "RPUSH", 80_000, true, 1},
	{"lrange_100", "LRANGE_100", 30_000, true, 1},
	{"lrange_300", "LRANGE_300", 15_000, true, 1},
	{"lrange_500", "LRANGE_500", 10_000, true, 1},
	{"lrange_600", "LRANGE_600", 8_000, true, 1},
}

// elements is how many elements of a list a request reads.
func (c redisCommand) elements() int64 {
	_, number, _ := strings.Cut(c.name, "lrange_")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

type redisPlan struct {
	listening
	commands                    []redisCommand
	payload, pipeline, clients  int64
	threads, requests, keyspace int64
	ioThreads                   int64
	appendOnly                  string
	data, reads                 int64 // of the mix
	rate                        float64
	snapshot                    int64
	objects                     objects // where it is an idle one
}

func (plan redisPlan) parse(from *parameters) redisPlan {
	plan.commands = from.redisCommands()
	plan.payload = from.whole("payload", 3, 1, 1_000_000, "bytes of a value, RANGE")
	plan.pipeline = from.whole("pipeline", 1, 1, 1000, "commands sent at once by a client, RANGE")
	plan.clients = from.whole("clients", 50, 1, 5000, "connections, RANGE")
	plan.threads = from.whole("threads", 0, 0, 64,
		"of the load program, RANGE. With any, it ends on a tick of 250 ms: size requests for many seconds")
	plan.requests = from.wholeOr("requests", auto, 0, 100, 1e9,
		"a command: auto (about a second's worth, four with threads), or 100 to 10^9")
	plan.keyspace = from.whole("keyspace", 0, 0, 10_000_000,
		"random keys among so many, written beforehand; 0 is a single key; up to 10^7")
	plan.ioThreads = from.whole("io-threads", 1, 1, 64, "of the server, RANGE")
	plan.appendOnly = from.word("appendonly", "no", "no, everysec or always: how the append-only file is flushed",
		"no", "everysec", "always")
	plan.data = from.whole("data", 0, 0, mostData,
		"MiB of records put in before the server counts as ready, RANGE; while it is watched its load is on these")
	plan.reads = from.whole("reads", 95, 0, 100,
		"while it is watched: percent of the operations that read a record, RANGE; the others write one")
	plan.rate = from.rate("rate", closed, "while it is watched: requests per second (open loop), 0.001 to 1e6, or closed")
	plan.listening = from.listeningAt(6379, "at which the server answers, RANGE")
	plan.snapshot = from.whole("snapshot", 0, 0, 1_000_000,
		"as an idle neighbour: requests after which it saves itself, by a copy of its process (BGSAVE), 0 to 10^6; 0: never")
	plan.objects = from.objects(0)
	return plan
}

// redisCommands reads a list of them.
func (from *parameters) redisCommands() (commands []redisCommand) {
	var names []string
	for _, c := range redisCommands {
		names = append(names, c.name)
	}
	list := from.text("commands", "get,set", "comma-separated, of "+strings.Join(names, " "))
	for name := range strings.SplitSeq(list, ",") {
		i := slices.Index(names, strings.ToLower(strings.TrimSpace(name)))
		switch {
		case i < 0:
			from.refuse("commands", "a comma-separated list of "+strings.Join(names, ", "))
		case slices.Contains(commands, redisCommands[i]):
			from.refuse("commands", "each command once")
		default:
			commands = append(commands, redisCommands[i])
		}
	}
	return commands
}

func (p redisPlan) address(t Trial) string { return t.Address(p.port) }

// requestsOf is how many requests measure a command.
func (p redisPlan) requestsOf(c redisCommand) int64 {
	if p.requests > 0 {
		return p.wholePipelines(p.requests)
	}
	// A pipeline raises the rate nearly in proportion, to ten times or so.
	n := c.perSecond * min(p.pipeline, 10)
	if p.threads > 0 {
		n *= 4 // for the tick of 250 ms
	}
	return p.wholePipelines(n)
}

// warmupOf is how many warm it up beforehand.
func (p redisPlan) warmupOf(c redisCommand) int64 {
	return p.wholePipelines(max(p.requestsOf(c)/10, p.clients*p.pipeline))
}

// wholePipelines rounds up: redis-benchmark sends no part of a pipeline, counts what it
// sent, and leaves what exceeds the number asked for out of its latencies.
func (p redisPlan) wholePipelines(requests int64) int64 {
	return (requests + p.pipeline - 1) / p.pipeline * p.pipeline
}

func (plan redisPlan) program() Program {
	args := []string{"/usr/bin/redis-server", "--bind", plan.listen, "--port", strconv.Itoa(plan.port),
		"--protected-mode", "no", "--dir", "/data", "--save", "", "--io-threads", strconv.FormatInt(plan.ioThreads, 10)}
	if plan.appendOnly == "no" {
		args = append(args, "--appendonly", "no")
	} else {
		args = append(args, "--appendonly", "yes", "--appendfsync", plan.appendOnly)
	}
	if plan.objects.rounds > 0 {
		args = append(args, idleRedis...)
	}
	return Program{
		Args: args, Ports: []int{plan.port}, Data: []string{"/data"},
		Service: true, MemoryNeed: plan.memory(), DiskNeed: plan.disk(),
		Needs: []string{"/usr/bin/redis-server", "/usr/bin/redis-benchmark"},
	}
}

// disk is at most what the append-only file grows to in a trial, as Redis rewrites it
// when it has doubled, and holds the old one beside the new one meanwhile; and its snapshots.
func (p redisPlan) disk() int64 {
	var saved int64
	if p.snapshot > 0 {
		saved = 2 * p.objects.bytes() // a file, and the one that takes its place
	}
	if p.appendOnly == "no" {
		return saved
	}
	const words = 96 // the command, its key and their lengths
	need := p.keyspace*(words+p.payload) + recordsIn(p.data)*(words+fieldLength)
	for _, c := range p.commands {
		need += (p.requestsOf(c) + p.warmupOf(c)) * c.writes * (words + p.payload)
	}
	return saved + 2*need
}

// memory is the least with which the server can hold what the trial writes.
func (p redisPlan) memory() int64 {
	const (
		server = 16 << 20 // itself, idle
		client = 40 << 10 // its buffers
		key    = 112      // a key's share of the tables, its name and headers
		elem   = 16       // a list element's header and slack
	)
	need := server + p.clients*(client+p.pipeline*p.payload) + p.keyspace*(key+p.payload) +
		recordsIn(p.data)*(key+fieldLength) + objectMemory(p.objects)
	var replies int64 // that wait to be read, of the command with the longest
	for _, c := range p.commands {
		if c.list {
			need += (p.requestsOf(c) + p.warmupOf(c)) * (elem + p.payload)
		}
		replies = max(replies, p.clients*p.pipeline*c.elements()*(elem+p.payload))
	}
	return need + replies
}

func (plan redisPlan) metrics() []Metric {
	var metrics []Metric
	for _, c := range plan.commands {
		metrics = append(metrics, Metric{Name: c.name, Unit: "requests/s", Better: Higher, Primary: true,
			Doc: "throughput of " + strings.ToUpper(c.name)})
	}
	for _, c := range plan.commands {
		for _, q := range []struct {
			suffix   string
			quantile float64
		}{{"-p50", 0.5}, {"-p99", 0.99}} {
			metrics = append(metrics, Metric{Name: c.name + q.suffix, Unit: "us", Better: Lower,
				Quantile: q.quantile, Histogram: c.name,
				Doc: "latency of " + strings.ToUpper(c.name) + " in a closed loop, a whole pipeline's where there is one"})
		}
	}
	for _, c := range plan.commands {
		metrics = append(metrics, Metric{Name: c.name + RedisCPU, Unit: "us", Better: Lower,
			Doc: "CPU time of the server for one " + strings.ToUpper(c.name) + ", as Redis tells it, the making of the connections included"})
	}
	if plan.data > 0 {
		metrics = append(metrics, loadingMetric())
	}
	return metrics
}

// readyWithin bounds the start of a server, with an empty data directory.
const readyWithin = 30 * time.Second

func (plan redisPlan) drive(ctx context.Context, t Trial) error {
	address := plan.address(t)
	return whileServing(ctx, t, func(ctx context.Context) error {
		if err := plan.ready(ctx, t); err != nil {
			return err
		}
		if err := plan.fill(ctx, address); err != nil {
			return fmt.Errorf("write the keys that are read: %w", err)
		}
		for _, c := range plan.commands {
			if _, err := plan.benchmark(ctx, t, address, c, plan.warmupOf(c)); err != nil {
				return fmt.Errorf("warm up %s: %w", c.name, err)
			}
		}
		for _, c := range plan.commands {
			before, err := serverCPU(ctx, address)
			if err != nil {
				return fmt.Errorf("CPU time of the server before %s: %w", c.name, err)
			}
			s, err := plan.benchmark(ctx, t, address, c, plan.requestsOf(c))
			if err != nil {
				return fmt.Errorf("measure %s: %w", c.name, err)
			}
			after, err := serverCPU(ctx, address)
			if err != nil {
				return fmt.Errorf("CPU time of the server after %s: %w", c.name, err)
			}
			// A warm-up may be as short as that; a measurement may not.
			if math.IsInf(s.perSecond, 0) {
				return fmt.Errorf("measure %s: %d requests were done within a millisecond, which redis-benchmark cannot time: raise requests", c.name, s.requests)
			}
			h, err := s.histogram()
			if err != nil {
				return fmt.Errorf("latencies of %s: %w", c.name, err)
			}
			t.Record(c.name, s.perSecond)
			t.Record(c.name+RedisCPU, (after-before)*1e6/float64(s.requests))
			t.RecordHistogram(c.name, h)
		}
		return nil
	})
}

// ready waits for PONG: neither a connection nor -LOADING will do. Then it puts in
// the data that are asked for.
func (plan redisPlan) ready(ctx context.Context, t Trial) error {
	address := plan.address(t)
	err := awaitReady(ctx, readyWithin, "redis answers PING at "+address, func(ctx context.Context) error {
		return pingRedis(ctx, address)
	})
	if err != nil || plan.data == 0 {
		return err
	}
	return loaded(t, func() error { return plan.load(ctx, address) })
}

// load puts in the records of the mix.
func (p redisPlan) load(ctx context.Context, address string) error {
	client, err := load.DialRESP(ctx, address)
	if err != nil {
		return err
	}
	defer client.Close()
	var batch [][]string
	return inBatches(recordsIn(p.data), 1000, func(from, to int64) error {
		batch = batch[:0]
		for n := from; n < to; n++ {
			batch = append(batch, []string{"SET", recordKey(n), recordField(n, 0)})
		}
		replies, err := client.Do(ctx, batch...)
		if err != nil {
			return err
		}
		for _, reply := range replies {
			if err := reply.Err(); err != nil {
				return err
			}
		}
		return nil
	})
}

func (redis) Sustained() (p Params, steady bool) {
	return Params{"data": strconv.Itoa(defaultData), "clients": strconv.Itoa(load.DefaultConnections)}, true
}

// sustain is the mix, by our own client: redis-benchmark has neither a hot spot nor
// looks at what it reads.
func (plan redisPlan) sustain(ctx context.Context, t Trial, seed uint64) error {
	if plan.data == 0 {
		return errors.New("redis has no records to read: give it some (data, in MiB)")
	}
	operations := newYCSB(recordsIn(plan.data), plan.reads, seed)
	return sustain(ctx, t, load.RESP{Address: plan.address(t), Next: operations.resp()},
		load.Options{Rate: plan.rate, Connections: int(plan.clients)})
}

var _ Sustainer = redis{}

func pingRedis(ctx context.Context, address string) error {
	client, err := load.DialRESP(ctx, address)
	if err != nil {
		return err
	}
	defer client.Close()
	replies, err := client.Do(ctx, []string{"PING"})
	if err != nil {
		return err
	}
	if err := replies[0].Err(); err != nil {
		return err // "LOADING" among them
	}
	if string(replies[0].Text) != "PONG" {
		return fmt.Errorf("PING was answered by %q", replies[0].Text)
	}
	return nil
}

// fill writes every key that GET may read, so that none of its answers is
// about a missing key. They are redis-benchmark's names.
func (p redisPlan) fill(ctx context.Context, address string) error {
	if !slices.ContainsFunc(p.commands, func(c redisCommand) bool { return c.name == "get" }) {
		return nil
	}
	client, err := load.DialRESP(ctx, address)
	if err != nil {
		return err
	}
	defer client.Close()
	value := strings.Repeat("x", int(p.payload))
	var batch [][]string
	// About a MiB at once, and not a command at a time.
	size := max(1, min(1000, (1<<20)/int(p.payload)))
	flush := func() error {
		replies, err := client.Do(ctx, batch...)
		if err != nil {
			return err
		}
		for _, reply := range replies {
			if err := reply.Err(); err != nil {
				return err
			}
		}
		batch = batch[:0]
		return nil
	}
	set := func(key string) error {
		if batch = append(batch, []string{"SET", key, value}); len(batch) < size {
			return nil
		}
		return flush()
	}
	if p.keyspace == 0 {
		// redis-benchmark's placeholder, which it leaves as it is without -r.
		err = set("key:__rand_int__")
	}
	for i := int64(0); i < p.keyspace && err == nil; i++ {
		err = set(fmt.Sprintf("key:%012d", i))
	}
	if err != nil || len(batch) == 0 {
		return err
	}
	return flush()
}

// benchmark runs redis-benchmark for one command and gives its section.
func (p redisPlan) benchmark(
	ctx context.Context,
	t Trial,
	address string,
	c redisCommand,
	requests int64,
) (benchSection, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return benchSection{}, fmt.Errorf("address of redis: %w", err)
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	args := []string{"/usr/bin/redis-benchmark", "-h", host, "-p", port, "-t", c.name,
		"-n", number(requests), "-c", number(p.clients), "-d", number(p.payload), "-P", number(p.pipeline), "--precision", "3"}
	if p.keyspace > 0 {
		args = append(args, "-r", number(p.keyspace))
	}
	if p.threads > 0 {
		args = append(args, "--threads", number(p.threads))
	}
	output, err := t.Generate(ctx, args)
	if err != nil {
		return benchSection{}, fmt.Errorf("redis-benchmark: %w", err)
	}
	sections, err := parseBenchmark(output)
	if err != nil {
		return benchSection{}, fmt.Errorf("output of redis-benchmark: %w", err)
	}
	// Besides its own, LRANGE prints the section of the LPUSH that it needs.
	i := slices.IndexFunc(sections, func(s benchSection) bool { return s.title == c.title })
	switch {
	case i < 0:
		return benchSection{}, fmt.Errorf("output of redis-benchmark has no section %s; its end: %s", c.title, tail(output))
	case sections[i].requests != requests:
		return benchSection{}, fmt.Errorf("redis-benchmark completed %d requests of %d", sections[i].requests, requests)
	}
	return sections[i], nil
}
