package record_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tare/record"
	"tare/workload"
)

// A run is begun with its conditions, trials are added as they end, and the
// run is finished. What is in the store at any moment can be read.
func Example() {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store, err := record.Open(filepath.Join(dir, "runs.db"))
	if err != nil {
		panic(err)
	}
	defer store.Close()

	started := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	id := record.NewID("weigh", started, 0x7f3a)
	err = store.Begin(record.Run{
		ID: id, Study: "weigh", Started: started,
		Conditions: []record.Condition{
			{ID: "redis@bare", Workload: "redis", Platform: "bare", Baseline: true,
				Metrics: []workload.Metric{{Name: "get", Unit: "requests/s", Better: workload.Higher, Primary: true}}},
		},
	})
	if err != nil {
		panic(err)
	}
	_, err = store.AddTrial(id, record.Trial{
		Condition: "redis@bare", Block: 1, Attempt: 1, Started: started.Add(time.Minute), Elapsed: 2 * time.Second,
		Samples: []record.Sample{{Metric: "get", Value: 69000}},
	})
	if err != nil {
		panic(err)
	}
	if err := store.Finish(id, record.Complete, "1 block, as planned"); err != nil {
		panic(err)
	}

	run, err := store.Run("weigh-2026")
	if err != nil {
		panic(err)
	}
	trial := run.Trials[0]
	fmt.Println(run.ID, run.Status, trial.Condition, trial.Samples[0].Metric, trial.Samples[0].Value)

	_, err = store.Run("weigh-20260102-150405-7f3b")
	var missing *record.NotFound
	fmt.Println(errors.As(err, &missing), err)
	// Output:
	// weigh-20260102-150405-7f3a complete redis@bare get 69000
	// true no run "weigh-20260102-150405-7f3b": did you mean weigh-20260102-150405-7f3a? `tare runs` lists them all
}
