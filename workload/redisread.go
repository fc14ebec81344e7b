package workload

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// RedisTest is what redis-benchmark said of one of its tests.
type RedisTest struct {
	Name      string // in lower case: "get", "lrange_100"
	PerSecond float64
	// Preparing marks what a test needs before it, and which is no test.
	Preparing bool
	// Settings are what the output tells of how it was measured, as redis-benchmark's
	// text does: clients, payload, threads, appendonly.
	Settings map[string]string
}

// benchPreparing is in the title of what a test needs before it.
const benchPreparing = "(needed to"

var benchSettings = []struct {
	name string
	line *regexp.Regexp
}{
	{"clients", regexp.MustCompile(`^ *([0-9]+) parallel clients$`)},
	{"payload", regexp.MustCompile(`^ *([0-9]+) bytes payload$`)},
	{"threads", regexp.MustCompile(`^ *threads: ([0-9]+)$`)},
	{"appendonly", regexp.MustCompile(`^ *(?:host|node \[[0-9]+\]) configuration "appendonly": (yes|no)$`)},
}

func (s *benchSection) addSetting(line string) {
	for _, setting := range benchSettings {
		if m := setting.line.FindStringSubmatch(line); m != nil {
			s.settings[setting.name] = m[1]
		}
	}
}

// A line of --csv is a name and a rate, followed by latencies since Redis 6.2; one
// of -q is "GET: 117647.06 requests per second", and may go on.
var (
	benchCSVLine   = regexp.MustCompile(`^"[^"]+","[0-9.]+"`)
	benchQuietLine = regexp.MustCompile(`^(\S[^:]*): ([0-9.]+) requests per second`)
)

// ReadRedisBenchmark reads what redis-benchmark printed, in any of its forms: the
// text of Redis 7 and that of 6.0 and before, --csv, and -q.
func ReadRedisBenchmark(output []byte) ([]RedisTest, error) {
	sections, err := parseBenchmark(output)
	if err != nil {
		return nil, err
	}
	var tests []RedisTest
	for _, s := range sections {
		tests = append(tests, RedisTest{Name: strings.ToLower(s.title), PerSecond: s.perSecond, Preparing: s.preparing, Settings: s.settings})
	}
	if len(tests) > 0 {
		return tests, nil
	}
	for raw := range bytes.FieldsFuncSeq(output, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line := strings.TrimSpace(string(raw))
		var title, rate string
		if m := benchQuietLine.FindStringSubmatch(line); m != nil {
			title, rate = m[1], m[2]
		} else if benchCSVLine.MatchString(line) {
			fields, err := csv.NewReader(strings.NewReader(line)).Read()
			if err != nil {
				return nil, fmt.Errorf("line %.80q: %w", line, err)
			}
			title, rate = fields[0], fields[1]
		} else {
			continue
		}
		perSecond, err := strconv.ParseFloat(rate, 64)
		if err != nil || !(perSecond > 0) {
			return nil, fmt.Errorf("line %.80q tells no throughput", line)
		}
		name, _, _ := strings.Cut(title, " ")
		tests = append(tests, RedisTest{Name: strings.ToLower(name), PerSecond: perSecond, Preparing: strings.Contains(title, benchPreparing), Settings: map[string]string{}})
	}
	if len(tests) == 0 {
		return nil, errors.New("holds no test of redis-benchmark's: want what it prints, plain, with --csv or with -q")
	}
	return tests, nil
}
