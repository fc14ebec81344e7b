package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every form that redis-benchmark has printed its results in.
func TestReadRedisBenchmark(t *testing.T) {
	none := map[string]string{}
	for form, c := range map[string]struct {
		output string
		want   []RedisTest
	}{
		"text of Redis 6.0": {
			"====== SET ======\n  100000 requests completed in 0.85 seconds\n  512 parallel clients\n  3 bytes payload\n  keep alive: 1\n  host configuration \"appendonly\": no\n  multi-thread: yes\n  threads: 24\n\n99.95% <= 1 milliseconds\n100.00% <= 1 milliseconds\n117647.06 requests per second\n\n" +
				"====== LPUSH (needed to benchmark LRANGE) ======\n  10 requests completed in 0.85 seconds\n\n5.5 requests per second\n",
			[]RedisTest{
				{"set", 117647.06, false, map[string]string{"clients": "512", "payload": "3", "threads": "24", "appendonly": "no"}, 1},
				{"lpush", 5.5, true, none, 14},
			},
		},
		"--csv of Redis 6.0": {
			"\"SET\",\"117647.06\"\n\"MSET (10 keys)\",\"9.5\"\n",
			[]RedisTest{{"set", 117647.06, false, none, 1}, {"mset", 9.5, false, none, 2}},
		},
		"--csv of Redis 7": {
			"\"test\",\"rps\",\"avg_latency_ms\"\n\"GET\",\"117647.06\",\"0.215\"\n",
			[]RedisTest{{"get", 117647.06, false, none, 2}},
		},
		"-q": {
			"SET: rps=0.0 (overall: 0.0)\rSET: 117647.06 requests per second, p50=0.207 msec\nLRANGE_100 (first 100 elements): 8.5 requests per second\n",
			[]RedisTest{{"set", 117647.06, false, none, 1}, {"lrange_100", 8.5, false, none, 2}},
		},
	} {
		got, unread, err := ReadRedisBenchmark([]byte(c.output))
		if err != nil || len(unread) > 0 {
			t.Errorf("%s: %v, not read: %v", form, err, unread)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", form, diff)
		}
	}
	if got, unread, err := ReadRedisBenchmark(recorded(t, "redis-benchmark-threads.txt")); err != nil || len(unread) > 0 || len(got) != 1 || got[0].PerSecond != 73_529.41 || got[0].Settings["clients"] == "" {
		t.Errorf("text of Redis 7: %+v, %v", got, err)
	}
	for _, file := range []string{"redis-benchmark-get-set.txt", "redis-benchmark-s5.txt"} {
		if _, unread, err := ReadRedisBenchmark(recorded(t, file)); err != nil || len(unread) > 0 {
			t.Errorf("%s: %v, not read: %v", file, err, unread)
		}
	}
	for _, bad := range []string{"", "hello", "\"GET\",\"0\"\n", "====== GET ======\n"} {
		if got, _, err := ReadRedisBenchmark([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

func FuzzReadRedisBenchmark(f *testing.F) {
	f.Add([]byte("\"SET\",\"117647.06\"\n"))
	f.Add([]byte("SET: 117647.06 requests per second\n"))
	f.Add(recorded(f, "redis-benchmark-threads.txt"))
	f.Fuzz(func(t *testing.T, output []byte) {
		tests, _, err := ReadRedisBenchmark(output)
		if err != nil {
			return
		}
		for _, test := range tests {
			if !(test.PerSecond > 0) {
				t.Errorf("%+v", test)
			}
		}
	})
}
