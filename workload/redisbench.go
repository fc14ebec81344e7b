package workload

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/load"
)

// benchSection is what redis-benchmark 7.0 prints of one command, with
// --precision 3 and without --csv.
//
// # The histogram, and how far it can be off
//
// redis-benchmark records every latency in an HDR histogram of its own (10 us to
// 3 s, three digits; what is slower counts as 3 s), whose buckets are 8 us wide
// up to 16.4 ms and from there 0.1 % of their value. It prints three things of
// it, which all are used:
//
//   - two tables of points, "P% <= V milliseconds (cumulative count C)": exactly
//     C latencies are at most V. The first has a point wherever the distance to
//     100 % has halved, the second one every 0.1 ms, then every ms;
//   - each P of the first table says, besides, that the bucket below V's does
//     not reach P yet;
//   - the summary's p50, p95 and p99, which tell the same of three more.
//
// Between these knots the latencies are spread evenly. So the printed
// percentiles, p50, p95 and p99 among them, are within one bucket of what
// redis-benchmark recorded: 8 us below 16.4 ms, 0.1 % above. Other quantiles lie
// between the neighbouring points. Counts are exact throughout, hence merged
// histograms of several trials are within the same bounds.
type benchSection struct {
	title     string // as testName has it: "GET", "LRANGE_100", "set key:__rand_int__ value"
	line      int    // of the title
	requests  int64
	perSecond float64

	preparing bool              // not a test, but what one needs before it
	settings  map[string]string // what it says of itself: "clients", "payload", "threads", "appendonly"

	points   []benchPoint // of both tables, as printed
	p50      int64        // of the summary, in microseconds
	p95, p99 int64
	summary  bool
}

// benchPoint is one line of a table.
type benchPoint struct {
	percent float64
	micros  int64
	count   int64
	// byPercent marks the first table, whose points are the first to reach
	// their percent.
	byPercent bool
}

var (
	benchTitle      = regexp.MustCompile(`^====== (.+) ======$`)
	benchCompleted  = regexp.MustCompile(`^([0-9]+) requests completed in [0-9.]+ seconds$`)
	benchTablePoint = regexp.MustCompile(`^([0-9.]+)% <= ([0-9.]+) milliseconds \(cumulative count ([0-9]+)\)$`)
	// Without the first two words in Redis 6.0 and before.
	benchThroughput = regexp.MustCompile(`^(?:throughput summary: )?([0-9.eE+]+|inf) requests per second$`)
	benchSummary    = regexp.MustCompile(`^[0-9.]+ +[0-9.]+ +([0-9.]+) +([0-9.]+) +([0-9.]+) +[0-9.]+$`)
	// What else a section has, and what is printed while one is under way.
	benchOther = regexp.MustCompile(`^(?:keep alive: .*|multi-thread: .*|host configuration .*|node \[[0-9]+\] .*|cluster mode: .*|` +
		`Summary:|avg +min .*|[0-9.]+% <= [0-9.]+ milliseconds.*|\S.*: (?:rps=.*|-?nan|inf|[0-9.]+))$`)
)

// benchLines are the lines of an output, with their numbers. Progress is overwritten by
// carriage returns, behind the last of which a line of results may come.
func benchLines(output []byte) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		number := 0
		for whole := range bytes.SplitSeq(output, []byte("\n")) {
			number++
			for part := range bytes.SplitSeq(whole, []byte("\r")) {
				if line := strings.TrimSpace(string(part)); line != "" && !yield(number, line) {
					return
				}
			}
		}
	}
}

// parseBenchmark reads what redis-benchmark printed.
func parseBenchmark(output []byte) ([]benchSection, error) {
	sections, _, err := readSections(output)
	return sections, err
}

// readSections reads what redis-benchmark printed, and gives the lines that it does not know.
func readSections(output []byte) (sections []benchSection, unread []RedisLine, err error) {
	var in benchTables
	for number, line := range benchLines(output) {
		if _, failure, ok := strings.Cut(line, "Error from server"); ok {
			return nil, nil, &RedisMalformed{number, "the server refused a command" + failure}
		}
		if strings.HasPrefix(line, "====== ") {
			m := benchTitle.FindStringSubmatch(line)
			if m == nil {
				return nil, nil, &RedisMalformed{number,
					fmt.Sprintf("title %.80q does not end on its line: give the test a title of one line", line)}
			}
			sections = append(
				sections,
				benchSection{
					title:     testName(m[1]),
					line:      number,
					preparing: strings.Contains(line, benchPreparing),
					settings:  map[string]string{},
				},
			)
			in = benchTables{}
			continue
		}
		known := false
		if n := len(sections); n > 0 {
			if known, err = sections[n-1].addLine(line, &in); err != nil {
				return nil, nil, &RedisMalformed{number,
					fmt.Sprintf("section %s, line %.80q: %v", sections[n-1].title, line, err)}
			}
		}
		if !known && !benchOther.MatchString(line) {
			unread = append(unread, RedisLine{number, line})
		}
	}
	for _, s := range sections {
		switch {
		case s.requests <= 0:
			return nil, nil, &RedisMalformed{s.line, fmt.Sprintf("section %s tells no number of requests", s.title)}
		case !(s.perSecond > 0): // infinite where all was done within a millisecond
			return nil, nil, &RedisMalformed{s.line, fmt.Sprintf("section %s tells no throughput", s.title)}
		}
	}
	return sections, unread, nil
}

// benchTables tells which of a section's tables its next lines belong to.
type benchTables struct{ byPercent, latencies bool }

// addLine reads a line of a section; false where it is none that it knows.
func (s *benchSection) addLine(line string, in *benchTables) (known bool, err error) {
	switch line {
	case "Latency by percentile distribution:":
		in.byPercent = true
		return true, nil
	case "Cumulative distribution of latencies:":
		in.byPercent = false
		return true, nil
	case "latency summary (msec):":
		in.latencies = true
		return true, nil
	}
	if m := benchCompleted.FindStringSubmatch(line); m != nil {
		s.requests, err = strconv.ParseInt(m[1], 10, 64)
		return true, err
	}
	if m := benchTablePoint.FindStringSubmatch(line); m != nil {
		return true, s.addPoint(m, in.byPercent)
	}
	if m := benchThroughput.FindStringSubmatch(line); m != nil {
		if s.perSecond > 0 {
			return true, errors.New("a second throughput: the title between the two is missing")
		}
		s.perSecond, err = strconv.ParseFloat(m[1], 64)
		return true, err
	}
	if m := benchSummary.FindStringSubmatch(line); m != nil && in.latencies {
		return true, s.addSummary(m)
	}
	return s.addSetting(line), nil
}

func (s *benchSection) addPoint(m []string, byPercent bool) (err error) {
	p := benchPoint{byPercent: byPercent}
	if p.percent, err = strconv.ParseFloat(m[1], 64); err != nil {
		return err
	}
	if p.micros, err = millisToMicros(m[2]); err != nil {
		return err
	}
	if p.count, err = strconv.ParseInt(m[3], 10, 64); err != nil {
		return err
	}
	s.points = append(s.points, p)
	return nil
}

func (s *benchSection) addSummary(m []string) (err error) {
	for i, to := range []*int64{&s.p50, &s.p95, &s.p99} {
		if *to, err = millisToMicros(m[i+1]); err != nil {
			return err
		}
	}
	s.summary = true
	return nil
}

// slowestMicros is the upper end of the bucket in which redis-benchmark counts
// everything above 3 s, and a little more.
const slowestMicros = 3_100_000

func millisToMicros(text string) (int64, error) {
	ms, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, err
	}
	micros := math.Round(ms * 1000)
	if !(micros >= 0 && micros <= slowestMicros) {
		return 0, fmt.Errorf("latency %s ms, want 0 to 3 s", text)
	}
	return int64(micros), nil
}

// bucketWidth is that of redis-benchmark's histogram at a value: 2048 buckets
// of 8 us (the power of two below its least value, 10 us), then 1024 of double
// the width for each doubling of the value.
func bucketWidth(micros int64) int64 {
	width := int64(8)
	for limit := int64(2048 * 8); micros >= limit; limit *= 2 {
		width *= 2
	}
	return width
}

// knot says that count latencies are at most micros.
type knot struct{ micros, count int64 }

// histogram rebuilds the latencies, in microseconds, as the type's comment has it.
func (s benchSection) histogram() (*hdrhistogram.Histogram, error) {
	knots, err := s.knots()
	if err != nil {
		return nil, err
	}
	h := load.NewHistogram()
	for i := 1; i < len(knots); i++ {
		if err := spread(h, knots[i-1], knots[i]); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// knots are the printed points in order, from none to all latencies, and what
// else is known between them.
func (s benchSection) knots() ([]knot, error) {
	if len(s.points) == 0 || !s.summary {
		return nil, errors.New("no distribution of latencies was printed: want redis-benchmark 7")
	}
	var knots []knot
	for _, p := range s.points {
		knots = append(knots, knot{p.micros, p.count})
	}
	slices.SortFunc(knots, func(a, b knot) int {
		if a.micros != b.micros {
			return int(a.micros - b.micros)
		}
		return int(min(max(a.count-b.count, -1), 1))
	})
	knots = slices.Compact(knots)
	// The first latencies lie in the bucket whose upper end the first point is.
	first := knots[0].micros
	knots = slices.Insert(knots, 0, knot{max(first-bucketWidth(first), -1), 0})
	for i := 1; i < len(knots); i++ {
		if knots[i].micros <= knots[i-1].micros || knots[i].count < knots[i-1].count {
			return nil, fmt.Errorf("%d latencies at most %d us, but %d at most %d us",
				knots[i-1].count, knots[i-1].micros, knots[i].count, knots[i].micros)
		}
	}
	if all := knots[len(knots)-1].count; all != s.requests {
		return nil, fmt.Errorf("the distribution holds %d latencies of %d requests", all, s.requests)
	}
	n := float64(s.requests)
	for _, p := range s.points {
		if p.byPercent {
			reached := math.Ceil(halvingPercent(p.percent)/100*n - 1e-9)
			knots = atMost(knots, p.micros-bucketWidth(p.micros), int64(reached)-1)
		}
	}
	for _, q := range []struct {
		quantile float64
		micros   int64
	}{{0.50, s.p50}, {0.95, s.p95}, {0.99, s.p99}} {
		// The HDR library's own rounding of a quantile to a count.
		reached := int64(q.quantile*n + 0.5)
		knots = atMost(knots, q.micros-bucketWidth(q.micros), reached-1)
		knots = atLeast(knots, q.micros, reached)
	}
	return knots, nil
}

// halvingPercent is the percent that the first table means by one printed to
// three decimals: 100 - 100/2^k. Where the decimals do not tell k any more, the
// printed one is rounded up, which makes the bound that rests on it loose, not
// wrong.
func halvingPercent(printed float64) float64 {
	if printed < 99.9995 {
		k := math.Round(math.Log2(100 / (100 - printed)))
		if exact := 100 - 100*math.Exp2(-k); math.Abs(exact-printed) <= 0.0005 {
			return exact
		}
	}
	return min(printed+0.0005, 100)
}

// between finds the knots around a value and what even spreading has there.
// ok is false outside the knots and where a printed point is at the value.
func between(knots []knot, micros int64) (at int, count int64, ok bool) {
	at, exact := slices.BinarySearchFunc(knots, micros, func(k knot, v int64) int { return int(k.micros - v) })
	if exact || at == 0 || at == len(knots) {
		return 0, 0, false
	}
	low, high := knots[at-1], knots[at]
	share := float64(micros-low.micros) / float64(high.micros-low.micros)
	return at, low.count + int64(share*float64(high.count-low.count)), true
}

// atMost adds a knot where spreading would have more than count latencies at
// most micros. A bound that contradicts the knots before it is left out.
func atMost(knots []knot, micros, count int64) []knot {
	at, spread, ok := between(knots, micros)
	if !ok || spread <= count || count < knots[at-1].count {
		return knots
	}
	return slices.Insert(knots, at, knot{micros, count})
}

// atLeast adds a knot where spreading would have fewer than count latencies at
// most micros. A bound that contradicts the knots behind it is left out.
func atLeast(knots []knot, micros, count int64) []knot {
	at, spread, ok := between(knots, micros)
	if !ok || spread >= count || count > knots[at].count {
		return knots
	}
	return slices.Insert(knots, at, knot{micros, count})
}

// spread records the latencies between two knots, evenly over the microseconds
// above the lower one.
func spread(h *hdrhistogram.Histogram, low, high knot) error {
	const most = 4096 // steps: finer than the histogram's three digits
	count, width := high.count-low.count, high.micros-low.micros
	steps := min(width, most)
	var recorded int64
	for k := int64(1); k <= steps; k++ {
		upTo := int64(float64(count) * float64(k) / float64(steps))
		if k == steps {
			upTo = count
		}
		if n := upTo - recorded; n > 0 {
			if err := h.RecordValues(low.micros+width*k/steps, n); err != nil {
				return err
			}
			recorded = upTo
		}
	}
	return nil
}
