package advise_test

import (
	"fmt"
	"math"
	"testing"

	"tare/advise"
	"tare/report"
	"tare/stats"
)

func known(v float64) stats.Estimate {
	return stats.Estimate{Value: v, Interval: stats.Interval{Low: v * 0.9, High: v * 1.1, Level: 0.95}, N: 5}
}

// Advice is given with its evidence, and never without.
func ExamplePart() {
	parts := advise.Part([]advise.Advice{
		{Rule: "shares-not-quota", Set: "grant shares (--cpu-shares) and no quota", For: "interactive services", Source: "S4",
			Evidence: []advise.Evidence{{Run: "latency-cpu-1", Says: "p99 under 3ms/10ms against none", Figure: known(12), Unit: "times"}}},
		{Rule: "few-layers", Set: "flatten the image", For: "programs that walk directories", Source: "S4"},
	})
	for _, row := range parts[0].(report.Table).Rows {
		fmt.Println(row[0].Text, "|", row[2].Text)
	}
	// Output: grant shares (--cpu-shares) and no quota | p99 under 3ms/10ms against none: 12.0 (10.8 to 13.2) times
}

func TestAdviceWithoutAnIntervalIsNone(t *testing.T) {
	a := advise.Advice{Evidence: []advise.Evidence{{Figure: stats.Estimate{Value: 12, Interval: stats.Interval{Low: math.NaN(), High: math.NaN()}}}}}
	if a.Holds() || advise.Part([]advise.Advice{a}) != nil {
		t.Error("advice rests on a figure without an interval")
	}
}
