package workload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// argument gives what follows a flag.
func argument(args []string, flag string) string {
	for i, a := range args[:len(args)-1] {
		if a == flag {
			return args[i+1]
		}
	}
	return ""
}

// playBenchmark prints what redis-benchmark would for its arguments.
func playBenchmark(_ context.Context, args []string) ([]byte, error) {
	n, err := strconv.ParseInt(argument(args, "-n"), 10, 64)
	if err != nil {
		return nil, err
	}
	h := hdrhistogram.New(10, 3_000_000, 3)
	for i := range n {
		if err := h.RecordValue(200 + i%100); err != nil {
			return nil, err
		}
	}
	out := ""
	if test := argument(args, "-t"); strings.HasPrefix(test, "lrange") {
		out += string(printBenchmark("LPUSH (needed to benchmark LRANGE)", h))
		return []byte(out + string(printBenchmark(strings.ToUpper(test)+" (first 100 elements)", h))), nil
	}
	return printBenchmark(strings.ToUpper(argument(args, "-t")), h), nil
}

// bulk is a bulk string of RESP.
func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

func TestRedisDrive(t *testing.T) {
	var mu sync.Mutex
	pings, asked, keys := 0, 0, map[string]int{}
	address := respServer(t, func(command []string) string {
		mu.Lock()
		defer mu.Unlock()
		switch command[0] {
		case "INFO":
			asked++
			return bulk(strings.Replace(infoCPU, "0.250", strconv.Itoa(asked), 1))
		case "PING":
			if pings++; pings < 3 {
				return "-LOADING Redis is loading the dataset in memory\r\n"
			}
			return "+PONG\r\n"
		case "SET":
			keys[command[1]] = len(command[2])
			return "+OK\r\n"
		default:
			return "-ERR unknown command\r\n"
		}
	})
	w := redis{}
	tr := &trial{
		params:  resolve(t, w, "commands", "get,lrange_100", "requests", "5000", "keyspace", "1234", "payload", "100", "pipeline", "4"),
		address: address, ended: make(chan struct{}), generate: playBenchmark,
	}
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, tr)
	mu.Lock()
	defer mu.Unlock()
	if pings != 3 {
		t.Errorf("%d PINGs, want to ask until it no longer loads", pings)
	}
	if len(keys) != 1234 || keys["key:000000000000"] != 100 || keys["key:000000001233"] != 100 {
		t.Errorf("%d keys written beforehand, want 1234 of 100 bytes", len(keys))
	}
	// A second of CPU time passes between two questions.
	if got := tr.records["get-cpu"]; len(got) != 1 || math.Abs(got[0]-1e6/5000) > 1e-6 {
		t.Errorf("%v us of CPU time a GET, want 200", got)
	}
	var ran []string
	for _, args := range tr.generated {
		if argument(args, "-r") != "1234" || argument(args, "-P") != "4" || argument(args, "-d") != "100" || argument(args, "-c") != "50" {
			t.Errorf("load program ran as %v", args)
		}
		ran = append(ran, argument(args, "-t")+" "+argument(args, "-n"))
	}
	if got, want := strings.Join(ran, ", "), "get 500, lrange_100 500, get 5000, lrange_100 5000"; got != want {
		t.Errorf("ran %s; want all warmed up, then measured: %s", got, want)
	}
	if h := tr.histograms["get"]; h.TotalCount() != 5000 {
		t.Errorf("%d latencies, want the measured 5000 without the warm-up", h.TotalCount())
	}
}

func TestRedisTrialNotValid(t *testing.T) {
	pong := func(command []string) string {
		if command[0] == "INFO" {
			return bulk(infoCPU)
		}
		return "+PONG\r\n"
	}
	ended := make(chan struct{})
	close(ended)
	for name, c := range map[string]struct {
		answer func([]string) string
		trial  trial
		want   string
	}{
		"keys refused": {func(c []string) string {
			if c[0] == "SET" {
				return "-OOM command not allowed\r\n"
			}
			return "+PONG\r\n"
		}, trial{ended: make(chan struct{}), generate: playBenchmark}, "OOM"},
		"load program fails": {pong, trial{ended: make(chan struct{}), generate: func(context.Context, []string) ([]byte, error) {
			return nil, errors.New("exit status 1: Error from server: LOADING")
		}}, "LOADING"},
		"load program prints another command": {pong, trial{ended: make(chan struct{}), generate: func(ctx context.Context, _ []string) ([]byte, error) {
			return playBenchmark(ctx, []string{"-t", "incr", "-n", "10", ""})
		}}, "no section GET"},
		"load program stops short": {pong, trial{ended: make(chan struct{}), generate: func(ctx context.Context, args []string) ([]byte, error) {
			return playBenchmark(ctx, []string{"-t", argument(args, "-t"), "-n", "10", ""})
		}}, "completed 10 requests of"},
		// Something else answers at the address, such as a foreign redis on the
		// host's port, while ours could not bind to it.
		"server ended": {pong, trial{ended: ended, exit: Exit{Code: 1}, stdout: "Could not create server TCP listening socket *:6379: bind: Address already in use\n",
			generate: func(ctx context.Context, args []string) ([]byte, error) {
				<-ctx.Done() // so that the end is seen before the load is over
				return nil, ctx.Err()
			}}, "Address already in use"},
	} {
		t.Run(name, func(t *testing.T) {
			w := redis{}
			tr := c.trial
			tr.params, tr.address = resolve(t, w, "commands", "get", "requests", "1000"), respServer(t, c.answer)
			err := w.Drive(t.Context(), &tr)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one about %q", err, c.want)
			}
		})
	}
}

func TestRedisNotReadyTellsWhy(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	address := respServer(t, func([]string) string { cancel(why); return "-LOADING\r\n" })
	w := redis{}
	tr := &trial{params: resolve(t, w), address: address, ended: make(chan struct{})}
	if err := w.Drive(ctx, tr); !errors.Is(err, why) {
		t.Errorf("error %v, want it to wrap %v", err, why)
	}
}

func TestRedisMemoryNeedGrows(t *testing.T) {
	need := func(pairs ...string) int64 {
		program, err := redis{}.Program(resolve(t, redis{}, pairs...))
		if err != nil {
			t.Fatal(err)
		}
		return program.MemoryNeed
	}
	least := need()
	if least > 32<<20 {
		t.Errorf("%d bytes by default: an idle server takes about 10 MiB", least)
	}
	if got := need("keyspace", "1000000", "payload", "1000"); got < 1e9 {
		t.Errorf("%d bytes for a million values of 1000 bytes", got)
	}
	if got := need("commands", "lpush", "requests", "1000000", "payload", "100"); got < 100e6 {
		t.Errorf("%d bytes for a list of a million elements of 100 bytes", got)
	}
	if got := need("commands", "get,lrange_100", "requests", "1000", "clients", "512", "pipeline", "10", "payload", "1000"); got < 512e6 {
		t.Errorf("%d bytes for 512 clients with 10 replies of 100 KB each", got)
	}
}

// The append-only file needs disk, and without it nothing does.
func TestRedisDiskNeed(t *testing.T) {
	need := func(params ...string) int64 {
		program, err := redis{}.Program(resolve(t, redis{}, params...))
		if err != nil {
			t.Fatal(err)
		}
		return program.DiskNeed
	}
	if got := need("commands", "set"); got != 0 {
		t.Errorf("%d bytes without persistence", got)
	}
	few, many := need("commands", "set", "requests", "1000", "appendonly", "always"), need("commands", "mset", "requests", "1000", "appendonly", "always")
	if few < 1000*3 || many != 10*few {
		t.Errorf("SET needs %d bytes and MSET %d, want ten keys' worth", few, many)
	}
	if got := need("commands", "get", "appendonly", "always"); got != 0 {
		t.Errorf("GET writes %d bytes", got)
	}
}

// redis-benchmark sends whole pipelines: asked for others, it sends more than it times.
func TestRedisAsksForWholePipelines(t *testing.T) {
	for requests, want := range map[string]string{"1000000": "1000002", "999999": "999999"} {
		plan, err := planOf[redisPlan](resolve(t, redis{}, "pipeline", "3", "requests", requests, "clients", "512"))
		if err != nil {
			t.Fatal(err)
		}
		c := plan.commands[0]
		if got := strconv.FormatInt(plan.requestsOf(c), 10); got != want {
			t.Errorf("%s requests by threes became %s, want %s", requests, got, want)
		}
		if warmup := plan.warmupOf(c); warmup%3 != 0 || warmup < plan.requestsOf(c)/10 {
			t.Errorf("warmed up by %d", warmup)
		}
	}
}
