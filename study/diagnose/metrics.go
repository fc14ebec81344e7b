package diagnose

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// mostSeries is of how many findings metrics are given: those that cost most.
const mostSeries = 500

// Metrics are the findings of the last round, for Prometheus.
type Metrics struct {
	mu   sync.Mutex
	last *Result
}

// Set makes a round the last.
func (m *Metrics) Set(r *Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = r
}

var findingLabels = []string{"container", "finding"}

// ofFindings are gauges with a value for each finding; one that is 0 is unknown, but for costs.
var ofFindings = []struct {
	desc  *prometheus.Desc
	value func(c Cost) float64
}{
	{
		prometheus.NewDesc("tare_finding_cost_seconds_per_second",
			"Time that the container's work loses in each second because of the finding.", findingLabels, nil),
		func(c Cost) float64 { return c.Rate },
	},
	{
		prometheus.NewDesc("tare_finding_each_seconds", "Time that one piece of work loses, where it is known.", findingLabels, nil),
		func(c Cost) float64 { return c.Each.Seconds() },
	},
	{
		prometheus.NewDesc("tare_finding_request_seconds",
			"Time that each request loses, where the service's requests are counted (--latency-from).", findingLabels, nil),
		func(c Cost) float64 { return c.PerRequest.Seconds() },
	},
}

// ofRounds are gauges of the last round.
var ofRounds = []struct {
	desc  *prometheus.Desc
	value func(r *Result, found int) float64
}{
	{
		prometheus.NewDesc("tare_round_end_timestamp_seconds", "When the last round ended, in seconds since 1970.", nil, nil),
		func(r *Result, _ int) float64 {
			return float64(r.Began.Add(r.Span).UnixMicro()) / float64(time.Second/time.Microsecond)
		},
	},
	{
		prometheus.NewDesc("tare_containers", "Containers that the last round diagnosed.", nil, nil),
		func(r *Result, _ int) float64 { return float64(len(r.Facts)) },
	},
	{
		prometheus.NewDesc("tare_containers_watched", "Those of them whose threads were watched.", nil, nil),
		func(r *Result, _ int) float64 { return float64(r.Watched) },
	},
	{
		prometheus.NewDesc("tare_findings", "Findings of the last round.", nil, nil),
		func(_ *Result, found int) float64 { return float64(found) },
	},
	{
		prometheus.NewDesc("tare_findings_left_out", "Those of them that have no series: the 500 that cost most have one.", nil, nil),
		func(_ *Result, found int) float64 { return float64(max(0, found-mostSeries)) },
	},
	{
		prometheus.NewDesc("tare_lost_events", "Scheduler events of the last round that found no room.", nil, nil),
		func(r *Result, _ int) float64 { return float64(r.Lost) },
	},
}

// Describe is a [prometheus.Collector]'s.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, g := range ofFindings {
		to <- g.desc
	}
	for _, g := range ofRounds {
		to <- g.desc
	}
}

// Collect is a [prometheus.Collector]'s. There is nothing before the first round has ended.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil {
		return
	}
	found := distinct(m.last.Findings)
	for _, g := range ofRounds {
		to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(m.last, len(found)))
	}
	seen := map[[2]string]bool{}
	for _, f := range found[:min(len(found), mostSeries)] {
		// Bytes that are not UTF-8 are refused.
		labels := [2]string{strings.ToValidUTF8(f.Container, "\uFFFD"), strings.ToValidUTF8(f.name(), "\uFFFD")}
		if seen[labels] {
			continue
		}
		seen[labels] = true
		for i, g := range ofFindings {
			if v := g.value(f.Cost); v > 0 || i == 0 {
				to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, v, labels[:]...)
			}
		}
	}
}
