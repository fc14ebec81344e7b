package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A metric is one name, and how its values are found in a status.
type metric struct {
	name    string
	counter bool // only grows while the daemon runs
	help    string
	labels  []string
	values  func(s Status, is func(value float64, labels ...string))
}

// Counter and gauge make metrics without labels.
func gauge(name, help string, value func(s Status) float64) metric {
	return metric{name, false, help, nil, func(s Status, is func(float64, ...string)) { is(value(s)) }}
}

func counter(name, help string, value func(s Status) float64) metric {
	m := gauge(name, help, value)
	m.counter = true
	return m
}

// maybe is of what is not always known.
func maybe(name, help string, value func(s Status) *float64) metric {
	return metric{name, false, help, nil, func(s Status, is func(float64, ...string)) {
		if v := value(s); v != nil {
			is(*v)
		}
	}}
}

var (
	tierLabels      = []string{"area", "kind"}
	containerLabels = []string{"container", "id", "class"}
)

func ofTiers(name, help string, value func(t Tier) float64) metric {
	return metric{name, false, help, tierLabels, func(s Status, is func(float64, ...string)) {
		for _, t := range s.Tiers {
			is(value(t), t.Area, t.Kind)
		}
	}}
}

func ofContainers(name, help string, value func(c Context) *float64) metric {
	return metric{name, false, help, containerLabels, func(s Status, is func(float64, ...string)) {
		for _, c := range s.Contexts {
			if v := value(c); v != nil {
				is(*v, c.Name, string(c.ID), string(c.Class))
			}
		}
	}}
}

func countOfContainers(name, help string, value func(c Context) int64) metric {
	m := ofContainers(name, help, func(c Context) *float64 { return known(value(c)) })
	m.counter = true
	return m
}

// ofActivity counts what elastic containers did, which alone are followed.
func ofActivity(name, help string, value func(a Activity) int64) metric {
	m := ofContainers(name, help, func(c Context) *float64 {
		if c.Activity == nil {
			return nil
		}
		return known(value(*c.Activity))
	})
	m.counter = true
	return m
}

func known(n int64) *float64 {
	v := float64(n)
	return &v
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// metrics are all that are served.
var metrics = []metric{
	{"annex_info", false, "Always 1: the version and the mode of the daemon.", []string{"version", "mode"}, func(s Status, is func(float64, ...string)) {
		is(1, s.Version, s.Mode)
	}},
	{"annex_state", false, "1 of the state in which the daemon is, 0 of the others.", []string{"state"}, func(s Status, is func(float64, ...string)) {
		for _, state := range States {
			is(truth(s.State == state), string(state))
		}
	}},
	gauge("annex_start_time_seconds", "When the daemon started, in seconds since 1970.", func(s Status) float64 { return float64(s.Started.UnixMilli()) / 1e3 }),
	gauge("annex_memory_limit_bytes", "How much memory is defended.", func(s Status) float64 { return float64(s.Memory.LimitBytes) }),
	gauge("annex_memory_free_bytes", "How much of it anyone may take without reclaiming.", func(s Status) float64 { return float64(s.Memory.FreeBytes) }),
	gauge("annex_memory_headroom_bytes", "How much of it is to be free.", func(s Status) float64 { return float64(s.Memory.HeadroomBytes) }),
	gauge("annex_memory_pool_bytes", "Memory that compressed swap holds.", func(s Status) float64 { return float64(s.Memory.PoolBytes) }),
	gauge("annex_swap_size_bytes", "The swap that is used.", func(s Status) float64 { return float64(s.Memory.SwapBytes) }),
	gauge("annex_swap_free_bytes", "How much of it is free.", func(s Status) float64 { return float64(s.Memory.SwapFreeBytes) }),

	ofTiers("annex_tier_size_bytes", "A swap area's size.", func(t Tier) float64 { return float64(t.SizeBytes) }),
	ofTiers("annex_tier_free_bytes", "What is free of it.", func(t Tier) float64 { return float64(t.FreeBytes) }),
	ofTiers("annex_tier_written_today_bytes", "What was written to it on this day (UTC).", func(t Tier) float64 { return float64(t.WrittenTodayBytes) }),
	ofTiers("annex_tier_daily_limit_bytes", "What may be written to it a day; 0 is no bound.", func(t Tier) float64 { return float64(t.DailyBytes) }),

	counter("annex_evicted_bytes_total", "Memory that left.", func(s Status) float64 { return float64(s.Moved.EvictedBytes) }),
	counter("annex_fetched_bytes_total", "Memory that was brought back.", func(s Status) float64 { return float64(s.Moved.FetchedBytes) }),
	counter("annex_mapped_bytes_total", "Memory that was brought back and mapped.", func(s Status) float64 { return float64(s.Moved.MappedBytes) }),
	counter("annex_wasted_bytes_total", "Memory that was brought back and left again unused.", func(s Status) float64 { return float64(s.Moved.WastedBytes) }),
	{"annex_requests_total", true, "Requests, by reason.", []string{"reason"}, func(s Status, is func(float64, ...string)) {
		for reason, n := range s.Moved.Requests {
			is(float64(n), string(reason))
		}
	}},
	counter("annex_requests_stopped_total", "Requests that were left unfinished, since demand, pressure or their time came.", func(s Status) float64 { return float64(s.Moved.Stopped) }),
	counter("annex_requests_failed_total", "Requests that failed.", func(s Status) float64 { return float64(s.Moved.Failed) }),

	gauge("annex_brake", "1 while eviction is stopped.", func(s Status) float64 { return truth(s.Brake.On) }),
	counter("annex_brake_stops_total", "How often critical pressure stopped it.", func(s Status) float64 { return float64(s.Brake.Stops) }),
	gauge("annex_brake_promised_seconds", "Within what time it is to stop.", func(s Status) float64 { return s.Brake.StopWithinSeconds }),
	maybe("annex_brake_worst_seconds", "The longest that it took.", func(s Status) *float64 { return s.Brake.WorstStopSeconds }),
	maybe("annex_critical_pressure_ratio", "The share of time that tasks of a critical container wait for memory, of the worst one.", func(s Status) *float64 { return s.Brake.CriticalShare }),
	gauge("annex_critical_pressure_limit_ratio", "Above what it stops eviction.", func(s Status) float64 { return s.Brake.CriticalLimitShare }),

	ofContainers("annex_container_resident_bytes", "A container's private memory that is in memory.", func(c Context) *float64 { return known(c.ResidentBytes) }),
	ofContainers("annex_container_extended_bytes", "A container's private memory that is in swap.", func(c Context) *float64 { return known(c.ExtendedBytes) }),
	ofContainers("annex_container_share_bytes", "How much memory it is to have at present.", func(c Context) *float64 { return known(c.ShareBytes) }),
	ofContainers("annex_container_active", "1 while it is active, 0 while it sleeps.", func(c Context) *float64 { v := truth(c.State == Active); return &v }),
	ofContainers("annex_container_frozen", "1 while its processes are frozen, or stopped by a signal.", func(c Context) *float64 { v := truth(c.State == Frozen); return &v }),
	ofContainers("annex_container_aside", "1 while nothing is moved of it, since calls for its memory hang.", func(c Context) *float64 { v := truth(c.Aside); return &v }),
	ofContainers("annex_container_fixed", "1 of one that cannot be extended.", func(c Context) *float64 { v := truth(c.State == Fixed); return &v }),
	ofContainers("annex_container_next_activation_seconds", "In how long it is expected to wake.", func(c Context) *float64 {
		if c.Next == nil {
			return nil
		}
		return &c.Next.LikelySeconds
	}),
	ofContainers("annex_container_hit_ratio", "The share of pages that it wanted back that had been brought before.", func(c Context) *float64 { return c.HitShare }),
	ofContainers("annex_container_error_ratio", "The share of what left that it wanted back at once.", func(c Context) *float64 { return c.ErrorShare }),
	ofContainers("annex_container_pressure_ratio", "The share of time that its tasks wait for memory.", func(c Context) *float64 { return c.PressureShare }),
	ofActivity("annex_container_activations_total", "How often an elastic container woke.", func(a Activity) int64 { return a.Activations }),
	ofActivity("annex_container_probes_total", "How often for less: a health probe, or brief work.", func(a Activity) int64 { return a.Probes }),
	ofActivity("annex_container_demand_pages_total", "Pages for which it had to wait.", func(a Activity) int64 { return a.DemandPages }),
	countOfContainers("annex_container_evicted_bytes_total", "Memory of it that left.", func(c Context) int64 { return c.Moved.EvictedBytes }),
	countOfContainers("annex_container_fetched_bytes_total", "Memory of it that was brought back, mapped or not.", func(c Context) int64 { return c.Moved.FetchedBytes + c.Moved.MappedBytes }),
	countOfContainers("annex_container_wasted_bytes_total", "Memory of it that was brought back and left again unused.", func(c Context) int64 { return c.Moved.WastedBytes }),
	ofPredictors("annex_predictor_precision_ratio", "The share of what a predictor said of a container that came true; absent until it has said something.", ifPredicted(func(p Score) float64 { return p.PrecisionShare })),
	ofPredictors("annex_predictor_recall_ratio", "The share of what came true that it had said; likewise.", ifPredicted(func(p Score) float64 { return p.RecallShare })),
	ofPredictors("annex_predictor_on", "1 while it is listened to.", func(p Score) *float64 { v := truth(p.On); return &v }),

	{"annex_observed_free_bytes", false, "In mode observe, what would be free.", nil, func(s Status, is func(float64, ...string)) {
		if s.Observed != nil {
			is(float64(s.Observed.FreeBytes))
		}
	}},
	ofContainers("annex_container_observed_extended_bytes", "In mode observe, its memory that would be in swap.", func(c Context) *float64 {
		if c.Observed == nil {
			return nil
		}
		return known(c.Observed.ExtendedBytes)
	}),
	{"annex_observed_evicted_bytes_total", true, "In mode observe, memory that would have left.", nil, func(s Status, is func(float64, ...string)) {
		if s.Observed != nil {
			is(float64(s.Observed.EvictedBytes))
		}
	}},
	{"annex_observed_added_faults_total", true, "In mode observe, how many faults there would have been at most.", nil, func(s Status, is func(float64, ...string)) {
		if s.Observed != nil {
			is(float64(s.Observed.AddedFaults))
		}
	}},
	maybe("annex_observed_wrong_ratio", "In mode observe, the share of what would have left that was used within a minute, at most.", func(s Status) *float64 {
		if s.Observed == nil {
			return nil
		}
		return s.Observed.WrongShare
	}),

	counter("annex_cpu_seconds_total", "CPU time of the daemon.", func(s Status) float64 { return s.Weight.CPUSeconds }),
	gauge("annex_resident_bytes", "Memory of the daemon.", func(s Status) float64 { return float64(s.Weight.ResidentBytes) }),
	gauge("annex_managed_bytes", "Memory that it manages, resident and extended.", func(s Status) float64 { return float64(s.Weight.ManagedBytes) }),
	counter("annex_gave_way_seconds_total", "For how long its threads, together, let critical containers go first that waited for the processor.", func(s Status) float64 { return s.Weight.GaveWaySeconds }),
	counter("annex_lost_events_total", "What the monitor saw and could not tell.", func(s Status) float64 { return float64(s.Weight.LostEvents) }),
	gauge("annex_warnings", "How many warnings annex status shows.", func(s Status) float64 { return float64(len(s.Warnings)) }),
}

// ifPredicted is of a figure that rests on predictions.
func ifPredicted(value func(p Score) float64) func(p Score) *float64 {
	return func(p Score) *float64 {
		if p.Predictions == 0 {
			return nil
		}
		v := value(p)
		return &v
	}
}

func ofPredictors(name, help string, value func(p Score) *float64) metric {
	labels := append(slices.Clone(containerLabels), "predictor")
	return metric{name, false, help, labels, func(s Status, is func(float64, ...string)) {
		for _, c := range s.Contexts {
			for _, p := range c.Predictors {
				if v := value(p); v != nil {
					is(*v, c.Name, string(c.ID), string(c.Class), string(p.Kind))
				}
			}
		}
	}}
}

// recent is a daemon's status as of a moment ago: whoever is on the host may read metrics, as
// often as he likes, and the daemon is to have something else to do.
type recent struct {
	daemon Daemon
	mu     sync.Mutex
	at     time.Time // zero: it was not asked yet
	status Status
}

// reuse is for how long a status is taken for the present one.
const reuse = 250 * time.Millisecond

func (r *recent) get() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || time.Since(r.at) >= reuse {
		r.status, r.at = r.daemon.Status(), time.Now()
	}
	return r.status
}

// collector asks a daemon when metrics are read.
type collector struct {
	recent *recent
	descs  []*prometheus.Desc
}

func newCollector(d Daemon) collector {
	c := collector{recent: &recent{daemon: d}}
	for _, m := range metrics {
		c.descs = append(c.descs, prometheus.NewDesc(m.name, m.help, m.labels, nil))
	}
	return c
}

func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

func (c collector) Collect(to chan<- prometheus.Metric) {
	s := c.recent.get()
	for i, m := range metrics {
		kind := prometheus.GaugeValue
		if m.counter {
			kind = prometheus.CounterValue
		}
		m.values(s, func(value float64, labels ...string) {
			for i := range labels {
				labels[i] = strings.ToValidUTF8(labels[i], "\uFFFD") // others are refused
			}
			to <- prometheus.MustNewConstMetric(c.descs[i], kind, value, labels...)
		})
	}
}

// handler answers in Prometheus' text format.
func handler(c prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// ListenMetrics listens at a loopback address, and refuses any other.
func ListenMetrics(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, unserved(address, err)
	}
	if at, ok := l.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		l.Close()
		return nil, fmt.Errorf("metrics are served on a loopback address alone, and %s is none: use 127.0.0.1 or [::1]", address)
	}
	return l, nil
}

// unserved says why metrics cannot be served at an address, which the error of listening names too.
func unserved(address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("something listens at %s already, where metrics are to be: end it, or name another port (control.metrics)", address)
	}
	if at := new(os.SyscallError); errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("metrics cannot be served at %s: %w: name another address (control.metrics)", address, err)
}

// Bounds on those who read metrics, who may be anybody.
const (
	// metricsWithin is how long a request may be read, and an answer written.
	metricsWithin = 5 * time.Second
	// metricsConnections is how many connections there may be; others are closed at once.
	metricsConnections = 32
)

// ServeMetrics serves a daemon's metrics, as ServeCollected does.
func ServeMetrics(ctx context.Context, l net.Listener, d Daemon) error {
	return ServeCollected(ctx, l, newCollector(d))
}

// ServeCollected serves metrics in Prometheus' text format at /metrics until ctx ends, which is
// no error.
func ServeCollected(ctx context.Context, l net.Listener, c prometheus.Collector) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler(c))
	s := web(mux)
	s.ReadTimeout, s.WriteTimeout = metricsWithin, metricsWithin
	var open atomic.Int64
	s.ConnState = func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			if open.Add(1) > metricsConnections {
				_ = c.Close()
			}
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
	return serve(ctx, l, s)
}

// MetricsReference is the metrics as a table of Markdown, for docs/annex/configuration.md.
func MetricsReference() string {
	var b strings.Builder
	b.WriteString("| metric | kind | labels | meaning |\n|---|---|---|---|\n")
	for _, m := range metrics {
		kind := "gauge"
		if m.counter {
			kind = "counter"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, kind, strings.Join(m.labels, ", "), m.help)
	}
	return b.String()
}
