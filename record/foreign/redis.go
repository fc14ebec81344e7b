package foreign

import "tare/workload"

// redisSettings is the order in which a test's settings are told.
var redisSettings = []string{"payload", "clients", "threads", "appendonly"}

// readRedisBenchmark reads what redis-benchmark printed. It does not print its
// pipeline: the file's name tells it, or --factor. What a test needs before it is no
// test.
func readRedisBenchmark(file string, data []byte) ([]observation, error) {
	tests, err := workload.ReadRedisBenchmark(data)
	if err != nil {
		return nil, malformed(position{file: file}, "%v", err)
	}
	var all []observation
	for _, test := range tests {
		if test.Preparing {
			continue
		}
		o := observation{metric: test.Name, value: test.PerSecond, unit: "requests/s", higher: true, at: position{file: file}}
		for _, name := range redisSettings {
			if v, ok := test.Settings[name]; ok {
				o.set(name, v)
			}
		}
		all = append(all, o)
	}
	return all, nil
}
