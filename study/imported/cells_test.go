package imported

import (
	"slices"
	"testing"
)

// A cell's levels are what they were, also with commas and quotes in them.
func TestInCell(t *testing.T) {
	for workload, want := range map[string][]string{
		"stream[elements=1000,processes=2]":         {"elements 1000", "processes 2"},
		`benchfmt[part1="TOML,pages=1000",procs=4]`: {"part1 TOML,pages=1000", "procs 4"},
		`csv["a,b"="x \"y\"",c=]`:                   {`a,b x "y"`, "c "},
		"csv":                                       {"csv"},
		"csv[odd]":                                  {"csv[odd]"},
	} {
		if got := inCell(workload, func(factor, level string) string { return factor + " " + level }); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", workload, got, want)
		}
	}
}
