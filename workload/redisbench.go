package workload

import (
	"bytes"
	"errors"
	"fmt"
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
	title     string // its first word: "GET", "LRANGE_100"
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
	benchTitle      = regexp.MustCompile(`^====== (\S+)(?: \(.*\))? ======$`)
	benchCompleted  = regexp.MustCompile(`^ *([0-9]+) requests completed in [0-9.]+ seconds$`)
	benchTablePoint = regexp.MustCompile(`^([0-9.]+)% <= ([0-9.]+) milliseconds \(cumulative count ([0-9]+)\)$`)
	// Without the first two words in Redis 6.0 and before.
	benchThroughput = regexp.MustCompile(`^ *(?:throughput summary: )?([0-9.]+|inf) requests per second$`)
	benchSummary    = regexp.MustCompile(`^ *[0-9.]+ +[0-9.]+ +([0-9.]+) +([0-9.]+) +([0-9.]+) +[0-9.]+$`)
)

// parseBenchmark reads what redis-benchmark printed.
func parseBenchmark(output []byte) ([]benchSection, error) {
	var sections []benchSection
	var byPercent, latencies bool
	// Progress is overwritten by carriage returns; a section's title comes
	// behind the last one.
	for raw := range bytes.FieldsFuncSeq(output, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line := strings.TrimRight(string(raw), " ")
		if _, failure, ok := strings.Cut(line, "Error from server"); ok {
			return nil, fmt.Errorf("the server refused a command%s", failure)
		}
		if m := benchTitle.FindStringSubmatch(line); m != nil {
			sections = append(sections, benchSection{title: m[1], preparing: strings.Contains(line, benchPreparing), settings: map[string]string{}})
			byPercent, latencies = false, false
			continue
		}
		if len(sections) == 0 {
			continue
		}
		s := &sections[len(sections)-1]
		var err error
		switch {
		case line == "Latency by percentile distribution:":
			byPercent = true
		case line == "Cumulative distribution of latencies:":
			byPercent = false
		case strings.TrimSpace(line) == "latency summary (msec):":
			latencies = true
		default:
			if m := benchCompleted.FindStringSubmatch(line); m != nil {
				s.requests, err = strconv.ParseInt(m[1], 10, 64)
			} else if m := benchTablePoint.FindStringSubmatch(line); m != nil {
				err = s.addPoint(m, byPercent)
			} else if m := benchThroughput.FindStringSubmatch(line); m != nil {
				s.perSecond, err = strconv.ParseFloat(m[1], 64)
			} else if m := benchSummary.FindStringSubmatch(line); m != nil && latencies {
				err = s.addSummary(m)
			} else {
				s.addSetting(line)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("section %s, line %.80q: %w", s.title, line, err)
		}
	}
	for _, s := range sections {
		switch {
		case s.requests <= 0:
			return nil, fmt.Errorf("section %s tells no number of requests", s.title)
		case !(s.perSecond > 0): // infinite where all was done within a millisecond
			return nil, fmt.Errorf("section %s tells no throughput", s.title)
		}
	}
	return sections, nil
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
