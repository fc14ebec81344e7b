package workload

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"tare/load"
)

// customMetric is a metric of a file, and where its values come from.
type customMetric struct {
	Metric
	at      position
	builtin string
	pattern *regexp.Regexp // with one group
	json    string         // gjson path
	output  string         // "stdout", "stderr", "load": where pattern and json look
}

// latencies is the histogram of a generator's corrected latencies.
const latencies = "latency"

// builtins are the metrics that need no output of a program.
var builtins = map[string]struct {
	Metric
	batch bool // of batch programs; else of our generators
}{
	"wall":       {wallMetric(false), true},
	"cpu":        {cpuMetric(false), true},
	"throughput": {Metric{Unit: "requests/s", Better: Higher, Doc: "requests answered rightly"}, false},
	"errors":     {Metric{Unit: "requests", Better: Lower, Count: true, Doc: "requests not answered rightly"}, false},
	"p50":        {latencyMetric(0.5), false},
	"p90":        {latencyMetric(0.9), false},
	"p95":        {latencyMetric(0.95), false},
	"p99":        {latencyMetric(0.99), false},
	"p99.9":      {latencyMetric(0.999), false},
}

func latencyMetric(quantile float64) Metric {
	return Metric{Unit: "us", Better: Lower, Quantile: quantile, Histogram: latencies, Doc: "latency from the intended moment"}
}

// builtinNames lists those that a kind of workload has.
func builtinNames(batch bool) []string {
	var names []string
	for name, b := range builtins {
		if b.batch == batch {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// readMetrics reads the key metrics; without it the built-in ones are meant.
func (c *custom) readMetrics(f fields) error {
	n, ok := f["metrics"]
	if !ok {
		return c.defaultMetrics()
	}
	all, err := n.list("metrics")
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return n.at.wrong("is empty; leave the key out for the built-in metrics")
	}
	primary := false
	for _, each := range all {
		m, err := c.readMetric(each)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(c.metrics, func(o customMetric) bool { return o.Name == m.Name }) {
			return each.at.wrong("metric %s is in the list already", m.Name)
		}
		primary = primary || m.Primary
		c.metrics = append(c.metrics, m)
	}
	if !primary {
		c.metrics[0].Primary = true
	}
	// The most important first, as Workload.Metrics promises.
	slices.SortStableFunc(c.metrics, func(a, b customMetric) int {
		switch {
		case a.Primary == b.Primary:
			return 0
		case a.Primary:
			return -1
		default:
			return 1
		}
	})
	return nil
}

func (c *custom) defaultMetrics() error {
	names := []string{"wall", "cpu"}
	switch {
	case c.service && c.load.kind == "command":
		return c.missing("metrics", "what to make of the load program's output")
	case c.service && c.load.rate.text == "closed":
		names = []string{"throughput", "p50", "p99", "errors"}
	case c.service:
		names = []string{"p99", "p50", "p99.9", "throughput", "errors"}
	}
	for i, name := range names {
		m := customMetric{Metric: builtins[name].Metric, builtin: name, at: c.at}
		m.Name, m.Primary = name, i == 0 || name == "cpu"
		c.metrics = append(c.metrics, m)
	}
	return nil
}

func (c *custom) readMetric(n node) (m customMetric, err error) {
	m.at = n.at
	f, err := n.mapping("name", "unit", "better", "primary", "doc", "from")
	if err != nil {
		return m, err
	}
	from, ok := f["from"]
	if !ok {
		return m, n.at.wrong("lacks the key from: one of pattern, json, builtin")
	}
	if err := c.readFrom(&m, from); err != nil {
		return m, err
	}
	var name, unit, better, primary, doc value
	err = readScalars(f, map[string]*value{"name": &name, "unit": &unit, "better": &better, "primary": &primary, "doc": &doc})
	if err != nil {
		return m, err
	}
	if m.Name = name.text; m.Name == "" {
		m.Name = m.builtin
	}
	if !workloadName.MatchString(m.Name) {
		return m, n.at.wrong("name %q: want up to 40 lower-case letters, digits, '.', '_' or '-'", m.Name)
	}
	if m.Primary, err = (scope{}).truth(primary); err != nil {
		return m, err
	}
	if doc.set() {
		m.Doc = doc.text
	}
	if m.builtin != "" {
		for _, v := range []value{unit, better} {
			if v.set() {
				return m, v.at.wrong("is known of the built-in %s; leave it out", m.builtin)
			}
		}
		return m, nil
	}
	if strings.TrimSpace(unit.text) == "" {
		return m, n.at.wrong("lacks the key unit, such as s, B/s, requests/s")
	}
	m.Unit = unit.text
	if !better.set() {
		return m, n.at.wrong("lacks the key better: higher or lower")
	}
	direction, err := (scope{}).oneOf(better, "", string(Higher), string(Lower))
	m.Better = Better(direction)
	return m, err
}

func (c *custom) readFrom(m *customMetric, n node) error {
	f, err := n.mapping("pattern", "json", "builtin", "output")
	if err != nil {
		return err
	}
	var pattern, path, builtin, output value
	err = readScalars(f, map[string]*value{"pattern": &pattern, "json": &path, "builtin": &builtin, "output": &output})
	if err != nil {
		return err
	}
	given := 0
	for _, v := range []value{pattern, path, builtin} {
		if v.set() {
			given++
		}
	}
	if given != 1 {
		return n.at.wrong("want exactly one of pattern, json, builtin")
	}
	if builtin.set() {
		return c.readBuiltin(m, builtin, output)
	}
	fallback, allowed := "stdout", []string{"stdout", "stderr"}
	if c.load.kind == "command" {
		fallback, allowed = "load", append(allowed, "load")
	}
	if m.output, err = (scope{}).oneOf(output, fallback, allowed...); err != nil {
		return err
	}
	if path.set() {
		if m.json = path.text; m.json == "" {
			return path.at.wrong("is empty; want a path such as result.rate")
		}
		return nil
	}
	// Not expanded: a pattern's own dollars and braces are meant.
	if m.pattern, err = regexp.Compile(pattern.text); err != nil {
		return pattern.at.wrong("not a regular expression (RE2 syntax): %v", err)
	}
	if groups := m.pattern.NumSubexp(); groups != 1 {
		return pattern.at.wrong("has %d groups, want exactly one, around the number; (?:...) groups without counting", groups)
	}
	return nil
}

func (c *custom) readBuiltin(m *customMetric, name, output value) error {
	if output.set() {
		return output.at.wrong("is for pattern and json; a built-in metric needs no output")
	}
	b, known := builtins[name.text]
	allowed := builtinNames(!c.service)
	if c.load.kind == "command" {
		allowed = nil
	}
	if !known || !slices.Contains(allowed, name.text) {
		return name.at.wrong("%q: this kind of workload has the built-in metrics %s", name.text, list(allowed))
	}
	m.builtin, m.Metric = name.text, b.Metric
	return nil
}

// record makes the metrics of a trial's outcome.
func (c *custom) record(t Trial, o outcome) error {
	if o.result != nil {
		recordLoad(t, o.result)
	}
	printed := outputs(t, o)
	for _, m := range c.metrics {
		switch m.builtin {
		case "":
			values, err := m.find(printed[m.output])
			if err != nil {
				return fmt.Errorf("metric %s: %w", m.Name, err)
			}
			for _, v := range values {
				t.Record(m.Name, v)
			}
		case "wall":
			t.Record(m.Name, o.exit.Elapsed.Seconds())
		case "cpu":
			if o.exit.CPU >= 0 { // else it could not be read, which is not zero
				t.Record(m.Name, o.exit.CPU.Seconds())
			}
		case "throughput":
			t.Record(m.Name, o.result.Rate*o.operations)
		case "errors":
			t.Record(m.Name, float64(o.result.Failed()))
		}
	}
	return nil
}

// recordLoad keeps the histograms of a load.
func recordLoad(t Trial, r *load.Result) {
	t.RecordHistogram(latencies, r.Corrected)
	// How the generator itself did, for who doubts a figure.
	t.RecordHistogram("latency-uncorrected", r.Uncorrected)
	t.RecordHistogram("lateness", r.Lateness)
	t.RecordHistogram("queued", r.Queued)
}

// find gives all values that a program printed, in order; at least one.
func (m customMetric) find(output []byte) ([]float64, error) {
	var texts []string
	if m.pattern != nil {
		for _, match := range m.pattern.FindAllSubmatch(output, -1) {
			texts = append(texts, string(match[1]))
		}
		if len(texts) == 0 {
			return nil, fmt.Errorf("%s does not match %q; its end: %s", m.output, m.pattern, ending(output))
		}
	} else {
		var err error
		if texts, err = findJSON(output, m.json); err != nil {
			return nil, fmt.Errorf("%s: %w; its end: %s", m.output, err, ending(output))
		}
	}
	var values []float64
	for _, text := range texts {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%s has %.40q where a number is wanted", m.output, text)
		}
		values = append(values, v)
	}
	return values, nil
}

// findJSON follows a path in a JSON document or, where the path begins with
// "..", in a document a line.
func findJSON(output []byte, path string) ([]string, error) {
	if strings.HasPrefix(path, "..") {
		for line := range strings.Lines(string(output)) {
			if line = strings.TrimSpace(line); line != "" && !gjson.Valid(line) {
				return nil, fmt.Errorf("a line is not JSON: %.80s", line)
			}
		}
	} else if !gjson.ValidBytes(output) {
		return nil, fmt.Errorf("not JSON (for a document a line begin the path with \"..#.\")")
	}
	found := gjson.GetBytes(output, path)
	results := []gjson.Result{found}
	if found.IsArray() {
		results = found.Array()
	}
	var texts []string
	for _, r := range results {
		if r.Type != gjson.Number {
			return nil, fmt.Errorf("path %s leads to %.40q, want a number or a list of numbers", path, r.Raw)
		}
		texts = append(texts, r.Raw)
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("path %s leads to an empty list", path)
	}
	return texts, nil
}

func ending(output []byte) string {
	if words := tail(output); words != "" {
		return words
	}
	return "(empty)"
}
