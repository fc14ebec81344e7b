package workload

import (
	"testing"

	"tare/image"
)

func TestRealCassandra(t *testing.T) {
	img := realImage(t, "cassandra")
	port := needPort(t, image.CassandraPort)
	w := cassandra{}
	tr := serveAlone(t, w, resolve(t, w), img, port, func([]string) {})
	for _, pairs := range [][]string{
		{"operations", "1000", "warmup", "0s"},
		{"operations", "1000", "warmup", "1s"},
		{"operations", "1000", "warmup", "2s"},
		{"operations", "1000", "warmup", "4s"},
		{"operations", "1000", "warmup", "4s"},
		{"operations", "1000", "warmup", "0s"},
	} {
		tr.records, tr.histograms = nil, nil
		tr.params = resolve(t, w, pairs...)
		if err := w.Drive(t.Context(), tr); err != nil {
			t.Fatalf("%q: %v; it printed %s", pairs, err, lastWords(tr))
		}
		checkRecorded(t, w, &tr.trial)
		t.Log(pairs, tr.records, tr.histograms["lateness"].Max(), tr.histograms["latency"].ValueAtQuantile(99))
	}
}
