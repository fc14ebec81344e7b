package diagnose

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"tare/report"
	"tare/study/kit"
)

// The bounds of one answer of a service.
const (
	mostMetrics   = 4 << 20 // bytes
	metricsWithin = 5 * time.Second
)

// Requests are those that a service counted itself while it was watched.
type Requests struct {
	Metric string        `json:"metric"`
	Rate   float64       `json:"requests_per_second"`
	Mean   time.Duration `json:"mean_ns"`
	// P99 is 0 where the service does not say it. It is the lower bound of the last bucket where
	// IsAbove.
	P99     time.Duration `json:"p99_ns,omitempty"`
	IsAbove bool          `json:"p99_is_lower_bound,omitempty"`
}

// RequestCounter reads a service's own histogram or summary of latencies, in Prometheus' text
// format, at the beginning and at the end of a watch.
type RequestCounter struct {
	page, metric string
	shown        string // the page, without a password
	unit         time.Duration
	first        latencies
	at           time.Time
}

// CountRequests begins to count. The address is a URL, with the name of a metric behind a # where the
// page has several latencies.
func CountRequests(ctx context.Context, address string) (*RequestCounter, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, kit.Usagef("%s is no URL of metrics: want http://HOST:PORT/PATH, or https", address)
	}
	c := &RequestCounter{metric: u.Fragment}
	u.Fragment = ""
	c.page, c.shown = u.String(), u.Redacted()
	all, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	if c.metric, c.unit, err = chosen(all, c.metric); err != nil {
		return nil, kit.Usagef("%s %v", c.shown, err)
	}
	c.first, c.at = latenciesOf(all[c.metric]), time.Now()
	return c, nil
}

// chosen finds the metric of latencies, and its unit by its name.
func chosen(all map[string]*dto.MetricFamily, named string) (string, time.Duration, error) {
	var names []string
	for name, f := range all {
		isLatency := f.GetType() == dto.MetricType_HISTOGRAM || f.GetType() == dto.MetricType_SUMMARY
		// The Go runtime's own, such as go_gc_duration_seconds, are no requests.
		if isLatency && unitOfMetric(name) > 0 && (name == named || !strings.HasPrefix(name, "go_")) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	listed := strings.Join(names[:min(len(names), 5)], ", ")
	switch {
	case named != "" && slices.Contains(names, named):
		return named, unitOfMetric(named), nil
	case len(names) == 0:
		return "", 0, fmt.Errorf("has no latencies: want a histogram or summary of Prometheus whose name ends in a unit of time, such as _seconds")
	case named != "":
		return "", 0, fmt.Errorf("has no latencies %s: it has %s", named, listed)
	case len(names) > 1:
		return "", 0, fmt.Errorf("has %d latencies (%s): add # and the name of one to the URL", len(names), listed)
	}
	return names[0], unitOfMetric(names[0]), nil
}

// unitOfMetric is the unit of time in which a metric's name ends; 0 where it has none.
func unitOfMetric(name string) time.Duration {
	units := map[string]time.Duration{
		"seconds": time.Second, "milliseconds": time.Millisecond, "ms": time.Millisecond,
		"microseconds": time.Microsecond, "us": time.Microsecond, "nanoseconds": time.Nanosecond, "ns": time.Nanosecond,
	}
	return units[name[strings.LastIndexByte(name, '_')+1:]]
}

// Stop reads the service a second time.
func (c *RequestCounter) Stop(ctx context.Context) (*Requests, error) {
	all, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	r, ok := latenciesOf(all[c.metric]).since(c.first, time.Since(c.at), c.unit)
	if !ok {
		return nil, fmt.Errorf("%s counted no request meanwhile, or began anew: costs stay without a cost per request", c.metric)
	}
	r.Metric = c.metric
	return r, nil
}

// read asks the service for its metrics.
func (c *RequestCounter) read(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(ctx, metricsWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.page, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	defer transport.CloseIdleConnections()
	// A service may not send tare, which runs as root, elsewhere.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := (&http.Client{Transport: transport, CheckRedirect: stay}).Do(request)
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		return nil, fmt.Errorf("%s has not answered for %v", c.shown, metricsWithin)
	case err != nil:
		return nil, fmt.Errorf("ask for latencies: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers with HTTP status %s: want its page of metrics", c.shown, answer.Status)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, mostMetrics+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s did not answer to the end within %v: %w", c.shown, metricsWithin, err)
	case len(body) > mostMetrics:
		return nil, fmt.Errorf("%s answers with more than %s", c.shown, bytes(mostMetrics))
	}
	all, err := parseMetrics(body)
	if err != nil {
		return nil, fmt.Errorf("%s has no metrics in Prometheus' text format: %w", c.shown, err)
	}
	return all, nil
}

func parseMetrics(body []byte) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(strings.NewReader(string(body)))
}

// latencies are all series of a metric together.
type latencies struct {
	count, sum float64
	// below counts, by an upper bound, what is not above it. It has those bounds that all
	// series have.
	below map[float64]float64
	// p99 is what a summary says of its own last minutes; 0 where it does not, or there are
	// several series.
	p99 float64
}

func latenciesOf(f *dto.MetricFamily) latencies {
	l := latencies{below: map[float64]float64{}}
	series := map[float64]int{} // that have a bound
	for _, m := range f.GetMetric() {
		if s := m.GetSummary(); s != nil {
			l.count += float64(s.GetSampleCount())
			l.sum += s.GetSampleSum()
			for _, q := range s.GetQuantile() {
				if q.GetQuantile() == 0.99 && len(f.Metric) == 1 && q.GetValue() > 0 {
					l.p99 = q.GetValue()
				}
			}
		}
		if h := m.GetHistogram(); h != nil {
			l.count += float64(h.GetSampleCount())
			l.sum += h.GetSampleSum()
			for _, b := range h.GetBucket() {
				series[b.GetUpperBound()]++
				l.below[b.GetUpperBound()] += float64(b.GetCumulativeCount())
			}
		}
	}
	maps.DeleteFunc(l.below, func(bound, _ float64) bool { return series[bound] < len(f.GetMetric()) || !(bound >= 0) })
	return l
}

// since is what was counted after an earlier reading; false of nothing, and where counters fell.
func (l latencies) since(earlier latencies, span, unit time.Duration) (*Requests, bool) {
	count, sum := l.count-earlier.count, l.sum-earlier.sum
	if !(count > 0) || !(sum >= 0) || span <= 0 {
		return nil, false
	}
	r := &Requests{Rate: count / span.Seconds(), Mean: inUnit(sum/count, unit)}
	r.P99 = inUnit(l.p99, unit)
	// As Prometheus' histogram_quantile: requests are spread evenly within a bucket.
	low, under := 0.0, 0.0
	for _, bound := range slices.Sorted(maps.Keys(l.below)) {
		n := max(under, l.below[bound]-earlier.below[bound])
		switch {
		case n < 0.99*count:
			low, under = bound, n
			continue
		case math.IsInf(bound, 1):
			r.P99, r.IsAbove = inUnit(low, unit), true
		default:
			r.P99 = inUnit(low+(bound-low)*(0.99*count-under)/(n-under), unit)
		}
		return r, true
	}
	return r, true
}

// inUnit is a number of units as a time, which has a bound.
func inUnit(n float64, unit time.Duration) time.Duration {
	return time.Duration(min(n*float64(unit), float64(365*24*time.Hour)))
}

// PerRequest has every cost say what each request has of it, too.
func (r *Result) PerRequest(of *Requests) {
	r.Requests = of
	for i := range r.Findings {
		c := &r.Findings[i].Cost
		c.PerRequest = inUnit(c.Rate/of.Rate, time.Second)
	}
}

// part is what a service counted, as a table.
func (q *Requests) part() report.Table {
	t := report.Table{
		Title:   "Requests",
		Note:    "The service's own latencies: " + q.Metric + ".",
		Columns: []report.Column{{Head: "requests/s", Number: true}, {Head: "mean, ms", Number: true}, {Head: "p99, ms", Number: true}},
	}
	p99 := report.Absent()
	if q.P99 > 0 {
		p99 = milliseconds(q.P99)
		if q.IsAbove {
			p99.Text, p99.Detail = "> "+p99.Text, "in the last bucket"
		}
	}
	t.Rows = [][]report.Cell{{report.Measured(q.Rate), milliseconds(q.Mean), p99}}
	return t
}

func milliseconds(d time.Duration) report.Cell {
	return report.Measured(float64(d) / float64(time.Millisecond))
}
