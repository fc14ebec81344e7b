package foreign

import (
	"errors"

	"tare/workload"
)

// redisSettings is the order in which a test's settings are told.
var redisSettings = []string{"payload", "clients", "threads", "appendonly"}

// readRedisBenchmark reads what redis-benchmark printed. It does not print its
// pipeline: the file's name tells it, or --factor. What a test needs before it is no
// test.
func (t *told) readRedisBenchmark(file string, data []byte) ([]observation, error) {
	tests, unread, err := workload.ReadRedisBenchmark(data)
	var line *workload.RedisMalformed
	switch {
	case errors.As(err, &line):
		return nil, malformed(position{file, line.Line}, "%s", line.Why)
	case err != nil:
		return nil, malformed(position{file: file}, "%v", err)
	}
	for _, l := range unread {
		t.unread.add(noResult, position{file, l.Number}, l.Text)
	}
	var all []observation
	for _, test := range tests {
		at := position{file, test.Line}
		if test.Preparing {
			t.unread.add("tests that only prepare another", at, test.Name)
			continue
		}
		o := observation{metric: test.Name, value: test.PerSecond, unit: "requests/s", higher: true, at: at}
		for _, name := range redisSettings {
			if v, ok := test.Settings[name]; ok {
				o.set(name, v)
			}
		}
		all = append(all, o)
	}
	return all, nil
}
