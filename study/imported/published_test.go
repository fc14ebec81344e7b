package imported_test

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"tare/overhead"
	"tare/record"
	"tare/record/foreign"
)

// published reads files of the part of S5's data that is here.
func published(t *testing.T, pattern string, opt foreign.Options) record.Run {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", "..", "record", "foreign", "testdata", "s5", pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no test data %s: %v", pattern, err)
	}
	var files []foreign.File
	for _, name := range names {
		files = append(files, foreign.File{Name: name, Open: func() (io.ReadCloser, error) { return os.Open(name) }})
	}
	run, err := foreign.Read(t.Context(), files, opt)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func rowOf(t *testing.T, run record.Run, id, metric string) overhead.Row {
	t.Helper()
	row := overhead.Read(run).Row(record.Condition{ID: id}, metric)
	if row.Condition == "" {
		t.Fatalf("no %s of %s", metric, id)
	}
	return row
}

// What is known of S5's own figures, by our statistics: STREAM's five repetitions
// show an effect that is real and small, whether or not numbers are taken for pairs.
func TestPublishedStream(t *testing.T) {
	opt := foreign.Options{
		Format: foreign.CSV, Workload: "stream", Condition: []string{"storage"}, Baseline: []string{"local"}, Block: "block",
		Name: "stream-{storage}-{block}.csv", Columns: "{elements}_{processes}", Rows: []string{"copy", "scale", "add", "triad"}, Units: []string{"MB/s"},
	}
	apart := rowOf(t, published(t, "stream-*.csv", opt), "stream[processes=1]@bindMount", "copy")
	opt.Paired = true
	paired := rowOf(t, published(t, "stream-*.csv", opt), "stream[processes=1]@bindMount", "copy")
	for by, row := range map[string]overhead.Row{"Welch": apart, "t": paired} {
		if row.Ratio.Method != by || row.Ratio.N != 5 || math.Abs(row.Percent-0.72) > 0.02 || row.PercentLow <= 0 || row.Verdict != overhead.Equivalent {
			t.Errorf("%.2f %% [%.2f, %.2f] by %s of %d, %s; want it by %s", row.Percent, row.PercentLow, row.PercentHigh, row.Ratio.Method, row.Ratio.N, row.Verdict, by)
		}
	}
	if apart.PercentLow == paired.PercentLow {
		t.Error("pairs make no difference")
	}
}

// Redis, measured once a cell, decides nothing: not where a container answers faster
// by a sixth, and not where slower by a quarter.
func TestPublishedRedis(t *testing.T) {
	run := published(t, "redis.csv", foreign.Options{
		Format: foreign.CSV, Workload: "redis", Values: []string{"requests_per_second"}, Metric: "command", Units: []string{"requests/s"},
		Condition: []string{"storage"}, Baseline: []string{"local"}, Only: []string{"metric:GET"}, Rename: []string{"client_threads:=0"},
	})
	for id, want := range map[string]float64{
		"redis[io_threads=1,pipeline=1,client_threads=24]@volume":     -17.3,
		"redis[io_threads=8,pipeline=10,client_threads=24]@volume":    27.6,
		"redis[io_threads=8,pipeline=10,client_threads=24]@bindMount": 33.9,
	} {
		row := rowOf(t, run, id, "GET")
		if math.Abs(row.Percent-want) > 0.05 || row.Verdict != overhead.Inconclusive || row.Ratio.Known() {
			t.Errorf("%s: %.1f %%, %s, interval %v", id, row.Percent, row.Verdict, row.Ratio.Interval)
		}
	}
}
