package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"tare/load"
)

// sliceCommands gives, for each command that leaves the store as it found it, what our
// generator sends: key is one of the keys that are asked for, and element one of as many
// members.
var sliceCommands = map[string]func(key, element, value string) []string{
	"ping_mbulk": func(_, _, _ string) []string { return []string{"PING"} },
	"get":        func(key, _, _ string) []string { return []string{"GET", key} },
	"set":        func(key, _, value string) []string { return []string{"SET", key, value} },
	"incr":       func(key, _, _ string) []string { return []string{"INCR", "counter:" + key} },
	"mset": func(key, _, value string) []string {
		command := []string{"MSET"}
		for range 10 {
			command = append(command, key, value)
		}
		return command
	},
	"hset":       func(_, element, value string) []string { return []string{"HSET", "myhash", element, value} },
	"sadd":       func(_, element, _ string) []string { return []string{"SADD", "myset", element} },
	"zadd":       func(_, element, _ string) []string { return []string{"ZADD", "myzset", "0", element} },
	"lrange_100": lrange(100), "lrange_300": lrange(300), "lrange_500": lrange(450), "lrange_600": lrange(600),
}

func lrange(n int) func(key, element, value string) []string {
	return func(_, _, _ string) []string { return []string{"LRANGE", slicesList, "0", fmt.Sprint(n - 1)} }
}

// slicesList is the list that is read, and slicesElements its length.
const (
	slicesList     = "tare:list"
	slicesElements = 600
)

func (plan redisPlan) drives() ([]Drive, error) {
	if plan.threads > 0 || plan.requests > 0 {
		return nil, errors.New("threads and requests are of redis-benchmark, which loads redis in blocks alone")
	}
	var drives []Drive
	for _, c := range plan.commands {
		if sliceCommands[c.name] == nil {
			return nil, fmt.Errorf("%s changes what later slices find, or is of redis-benchmark alone", c.name)
		}
		drives = append(drives, closedAndHalf(c.name)...)
	}
	return drives, nil
}

func (plan redisPlan) sliceMetrics() []Metric {
	var metrics []Metric
	for _, c := range plan.commands {
		metrics = append(metrics, slicesOf(c.name, c.name, c.name+"-", " of "+strings.ToUpper(c.name))...)
	}
	slices.SortStableFunc(metrics, primaryFirst)
	return metrics
}

// primaryFirst orders metrics as [Workload.Metrics] promises.
func primaryFirst(a, b Metric) int {
	switch {
	case a.Primary == b.Primary:
		return 0
	case a.Primary:
		return -1
	}
	return 1
}

// slices is the load of redis-benchmark's commands by our own generator.
func (plan redisPlan) slices(ctx context.Context, t Trial, seed uint64) (Slicer, error) {
	address := plan.address(t)
	if err := plan.fill(ctx, address); err != nil {
		return nil, fmt.Errorf("write the keys that are read: %w", err)
	}
	if err := plan.fillList(ctx, address); err != nil {
		return nil, fmt.Errorf("write the list that is read: %w", err)
	}
	targets := map[string]load.Target{}
	for _, c := range plan.commands {
		targets[c.name] = load.RESP{
			Address:  address,
			Pipeline: int(plan.pipeline),
			Dial:     dialOf(t),
			Commands: plan.sequence(c, seed),
		}
	}
	return openStanding(ctx, targets, load.Options{Connections: int(plan.clients)}, float64(plan.pipeline), 0)
}

// sequenceLength is how many commands with keys of their own each connection goes through,
// again and again.
const sequenceLength = 4096

// sequence are the commands of a slice: one, or as many as the random keys take.
func (p redisPlan) sequence(c redisCommand, seed uint64) [][]string {
	command, value := sliceCommands[c.name], strings.Repeat("x", int(p.payload))
	if p.keyspace == 0 {
		return [][]string{command("key:__rand_int__", "element:__rand_int__", value)}
	}
	random := rand.New(rand.NewPCG(seed, 0x7265646973))
	all := make([][]string, sequenceLength)
	for i := range all {
		n := random.Int64N(p.keyspace)
		all[i] = command(fmt.Sprintf("key:%012d", n), fmt.Sprintf("element:%012d", n), value)
	}
	return all
}

func (p redisPlan) fillList(ctx context.Context, address string) error {
	if !slices.ContainsFunc(p.commands, func(c redisCommand) bool { return strings.HasPrefix(c.name, "lrange") }) {
		return nil
	}
	client, err := load.DialRESP(ctx, address)
	if err != nil {
		return err
	}
	defer client.Close()
	command := []string{"RPUSH", slicesList}
	for range slicesElements {
		command = append(command, strings.Repeat("x", int(p.payload)))
	}
	replies, err := client.Do(ctx, command)
	if err != nil {
		return err
	}
	return replies[0].Err()
}

var _ Sliced = redis{}
