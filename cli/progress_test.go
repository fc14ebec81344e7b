package cli

import (
	"bytes"
	"testing"

	"tare/lab"
)

// Progress names a condition as pages do.
func TestProgressNamesConditionsByTheirLabels(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.event(lab.Event{Kind: lab.Told, Condition: "a beside b@file,page-cluster 0", Label: "file, page-cluster 0", Text: "1 neighbour"})
	if want := "file, page-cluster 0: 1 neighbour\n"; out.String() != want {
		t.Errorf("told %q, want %q", out.String(), want)
	}
}
