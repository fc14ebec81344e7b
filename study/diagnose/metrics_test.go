package diagnose

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tare/record"
)

// gathered are the metrics of a result, by name: the sum of all their series, and how many.
func gathered(t *testing.T, r *Result) (sums map[string]float64, series map[string]int) {
	t.Helper()
	m := &Metrics{}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	if all, err := registry.Gather(); err != nil || len(all) > 0 {
		t.Errorf("before the first round: %v, %v", all, err)
	}
	m.Set(r)
	all, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sums, series = map[string]float64{}, map[string]int{}
	for _, f := range all {
		for _, one := range f.Metric {
			sums[f.GetName()] += one.GetGauge().GetValue()
			series[f.GetName()]++
		}
	}
	return sums, series
}

func TestMetricsAreBounded(t *testing.T) {
	costs := map[string]float64{"a\xff\n\"/throttled": 1}
	for i := range mostSeries + 10 {
		costs[fmt.Sprintf("c%d/throttled", i)] = 0.01
	}
	r := round(time.Now(), costs)
	// Two containers of one name.
	r.Findings = append(r.Findings, r.Findings[0])
	sums, series := gathered(t, r)
	if n := series["tare_finding_cost_seconds_per_second"]; n != mostSeries || sums["tare_findings_left_out"] != 11 {
		t.Errorf("%d series and %v left out", n, sums["tare_findings_left_out"])
	}
	if got, want := sums["tare_finding_cost_seconds_per_second"], 2+0.01*(mostSeries-1); got < want-1e-6 || got > want+1e-6 {
		t.Errorf("costs of %v, want %v", got, want)
	}
	if series["tare_finding_request_seconds"] > 0 {
		t.Error("requests that nobody counted have a cost")
	}
}

const watchPage = "../../docs/diagnose-watch.md"

// documented are the first cells of the page's tables that a pattern matches.
func documented(t *testing.T, pattern string) []string {
	t.Helper()
	text, err := os.ReadFile(watchPage)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range regexp.MustCompile("(?m)^\\| `("+pattern+")` \\|").FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	return all
}

func TestMetricsAreDocumented(t *testing.T) {
	to := make(chan *prometheus.Desc, len(ofFindings)+len(ofRounds))
	(&Metrics{}).Describe(to)
	close(to)
	var names []string
	for d := range to {
		names = append(names, regexp.MustCompile(`fqName: "([a-z_]+)"`).FindStringSubmatch(d.String())[1])
	}
	slices.Sort(names)
	if got := documented(t, `tare_[a-z_]+`); !slices.Equal(got, names) {
		t.Errorf("%s has the metrics\n%q, want\n%q", watchPage, got, names)
	}
}

// keysOf are the keys of a document in JSON, as the page writes them. A number has its unit in
// its key.
func keysOf(t *testing.T, of reflect.Type, above string) (all []string) {
	for i := range of.NumField() {
		tag, optional := strings.CutSuffix(of.Field(i).Tag.Get("json"), ",omitempty")
		kind, name := of.Field(i).Type, above+tag
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		if kind.Kind() == reflect.Slice {
			kind, name = kind.Elem(), name+"[]"
		}
		mark := ""
		if optional {
			mark = "?"
		}
		all = append(all, name+mark)
		switch isNumber := kind.Kind() >= reflect.Int && kind.Kind() <= reflect.Float64; {
		case isNumber && !regexp.MustCompile(`(_ns|_per_second|_bytes|_events)$`).MatchString(tag):
			t.Errorf("%s has no unit in its key", name)
		case kind.Kind() == reflect.Struct && kind != reflect.TypeFor[time.Time]() && kind != reflect.TypeFor[record.Host]():
			all = append(all, keysOf(t, kind, name+".")...)
		}
	}
	return all
}

func TestTheDocumentIsDocumented(t *testing.T) {
	want := keysOf(t, reflect.TypeFor[Document](), "")
	slices.Sort(want)
	got := documented(t, `[a-z][a-z0-9_.\[\]]*\??`)
	got = slices.DeleteFunc(got, func(k string) bool { return strings.HasPrefix(k, "tare_") })
	if !slices.Equal(got, want) {
		t.Errorf("%s has the keys\n%q, want\n%q", watchPage, got, want)
	}
}

func TestDocumentOfNothing(t *testing.T) {
	b, err := json.Marshal((&Result{}).Document(record.Host{}))
	if err != nil || !strings.Contains(string(b), `"containers":[],"findings":[],"lost_events":0`) {
		t.Errorf("%s, %v", b, err)
	}
}
