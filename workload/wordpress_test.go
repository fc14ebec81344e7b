package workload

import (
	"strconv"
	"testing"

	"tare/image"
)

func TestRealWordPress(t *testing.T) {
	img := realImage(t, "wordpress")
	port := needPort(t, image.WordPressPort)
	w := wordpress{}
	tr := serveAlone(t, w, resolve(t, w, "workers", "32"), img, port, func([]string) {})
	for _, pairs := range [][]string{
		{"requests", "120", "warmup", "20"},
		{"requests", "60", "warmup", "0", "rate", "20", "arrival", "poisson"},
	} {
		tr.records, tr.histograms = nil, nil
		tr.params = resolve(t, w, append(pairs, "workers", "32")...)
		if err := w.Drive(t.Context(), tr); err != nil {
			t.Fatalf("%q: %v; it printed %s", pairs, err, lastWords(tr))
		}
		checkRecorded(t, w, &tr.trial)
		t.Log(tr.records, tr.histograms["lateness"].Max(), tr.histograms["latency"].Max())
	}
}

func mustPort(t *testing.T, text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
