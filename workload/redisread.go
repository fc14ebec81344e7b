package workload

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// RedisTest is what redis-benchmark said of one of its tests.
type RedisTest struct {
	// Name is "get" or "lrange_100" of its own tests, and the whole title of a command that
	// the user gave: "set key:__rand_int__ value".
	Name      string
	PerSecond float64
	// Preparing marks what a test needs before it, and which is no test.
	Preparing bool
	// Settings are what the output tells of how it was measured, as redis-benchmark's
	// text does: clients, payload, threads, appendonly.
	Settings map[string]string
	Line     int
}

// RedisLine is a line of an output of which nothing was read.
type RedisLine struct {
	Number int
	Text   string
}

// RedisMalformed says what a line of an output has amiss.
type RedisMalformed struct {
	Line int
	Why  string
}

func (e *RedisMalformed) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Why) }

// benchPreparing is in the title of what a test needs before it.
const benchPreparing = "(needed to"

// benchOwn are the titles of redis-benchmark's own tests.
var benchOwn = regexp.MustCompile(`^([A-Z][A-Z0-9_]*)(?: \((?:[0-9]+ keys|first [0-9]+ elements|needed to .*)\))?$`)

// testName is the first word of the title of one of redis-benchmark's own tests. The title
// of a command that the user gave is its name: it is no test of its first word.
func testName(title string) string {
	if m := benchOwn.FindStringSubmatch(title); m != nil {
		return m[1]
	}
	return title
}

// redisTest gives a test its name: those of redis-benchmark's own are in lower case.
func redisTest(title string, perSecond float64, preparing bool, settings map[string]string, line int) RedisTest {
	if benchOwn.MatchString(title) {
		title = strings.ToLower(testName(title))
	}
	return RedisTest{Name: title, PerSecond: perSecond, Preparing: preparing, Settings: settings, Line: line}
}

var benchSettings = []struct {
	name string
	line *regexp.Regexp
}{
	{"clients", regexp.MustCompile(`^([0-9]+) parallel clients$`)},
	{"payload", regexp.MustCompile(`^([0-9]+) bytes payload$`)},
	{"threads", regexp.MustCompile(`^threads: ([0-9]+)$`)},
	{"appendonly", regexp.MustCompile(`^(?:host|node \[[0-9]+\]) configuration "appendonly": (yes|no)$`)},
}

// addSetting reads a setting; false where the line is none.
func (s *benchSection) addSetting(line string) bool {
	for _, setting := range benchSettings {
		if m := setting.line.FindStringSubmatch(line); m != nil {
			s.settings[setting.name] = m[1]
			return true
		}
	}
	return false
}

// A line of --csv is a title and a rate, followed by six latencies since Redis 6.2, whose
// first line names the columns. A title may hold quotes, which are not doubled: it is what
// stands before the figures. A line of -q is "GET: 117647.06 requests per second", and may
// go on.
var (
	benchCSVHead   = regexp.MustCompile(`^"test","rps"(?:,"[a-z0-9_]+")*$`)
	benchQuietLine = regexp.MustCompile(`^(\S.*): (\S+) requests per second(?:,.*)?$`)
)

// benchFigure is a figure as C prints it.
var benchFigure = regexp.MustCompile(`^-?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|inf|nan)$`)

// ReadRedisBenchmark reads what redis-benchmark printed, in any of its forms: the
// text of Redis 7 and that of 6.0 and before, --csv, and -q. It gives the lines of which it
// made nothing; its error is a *RedisMalformed where it has a line.
func ReadRedisBenchmark(output []byte) (tests []RedisTest, unread []RedisLine, err error) {
	sections, unread, err := readSections(output)
	if err != nil {
		return nil, nil, err
	}
	if len(sections) > 0 {
		for _, s := range sections {
			if math.IsInf(s.perSecond, 0) {
				return nil, nil, noRate(s.line, s.title, "inf")
			}
			tests = append(tests, redisTest(s.title, s.perSecond, s.preparing, s.settings, s.line))
		}
		return tests, unread, nil
	}
	unread = nil
	columns := []int{8, 2} // of --csv where no line names them: Redis 6.2 and later, or before
	for number, line := range benchLines(output) {
		var title, rate string
		switch m := benchQuietLine.FindStringSubmatch(line); {
		case benchCSVHead.MatchString(line):
			columns = []int{1 + strings.Count(line, ",")}
			continue
		case strings.HasPrefix(line, `"`):
			if title, rate, err = csvTest(number, line, columns); err != nil {
				return nil, nil, err
			}
		case m != nil:
			title, rate = m[1], m[2]
		default:
			if !benchOther.MatchString(line) {
				unread = append(unread, RedisLine{number, line})
			}
			continue
		}
		perSecond, err := strconv.ParseFloat(rate, 64)
		if err != nil || !(perSecond > 0) || math.IsInf(perSecond, 0) {
			return nil, nil, noRate(number, title, rate)
		}
		tests = append(
			tests,
			redisTest(title, perSecond, strings.Contains(title, benchPreparing), map[string]string{}, number),
		)
	}
	if len(tests) == 0 {
		return nil, nil, errors.New("holds no test of redis-benchmark's: want what it prints, plain, with --csv or with -q")
	}
	return tests, unread, nil
}

func noRate(line int, title, rate string) error {
	return &RedisMalformed{line,
		fmt.Sprintf("%q has %q requests per second, which is no throughput: measure it with more requests (-n), or remove it", title, rate)}
}

// csvTest reads the title and the rate of a line of --csv, which has one of the numbers of
// columns. It refuses a line of which it is not sure where the title ends.
func csvTest(number int, line string, columns []int) (title, rate string, err error) {
	fields := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, `"`), `"`), `","`)
	for _, n := range columns {
		at := len(fields) - n + 1 // of the rate
		if at < 1 || slices.ContainsFunc(fields[at:], func(f string) bool { return !benchFigure.MatchString(f) }) {
			continue
		}
		if title = strings.Join(fields[:at], `","`); title != "" && !benchFigure.MatchString(fields[at-1]) &&
			strings.HasSuffix(line, `"`) {
			return title, fields[at], nil
		}
	}
	return "", "", &RedisMalformed{number, fmt.Sprintf("%.80q is not as --csv prints it: "+
		"a title, then a rate and as many latencies as the headings name, each in quotes, with a decimal point", line)}
}
