package platforms

import (
	"testing"

	"tare/lab"
	"tare/record"
	"tare/report"
)

// The phases of a boot stand in their order, and trials that booted nothing in no row.
func TestBootsAreReported(t *testing.T) {
	run := record.Run{
		Conditions: []record.Condition{{ID: "a", Workload: "ffmpeg 1 CPU", Label: "vm:tcg/bare"}},
		Trials: []record.Trial{
			{Condition: "a", Covariates: map[string]float64{
				"boot/10/agent": 0.25, "boot/2/kernel": 2, "boot/1/engine": 0.5,
				lab.BootReady: 2.75, lab.BootClock: 0.003, "launch_s": 3,
			}},
			{Condition: "a", Covariates: map[string]float64{"launch_s": 0.3}},
		},
	}
	if text := phasesOf(run.Trials[0]); text != "engine 0.50, kernel 2.00, agent 0.25" {
		t.Errorf("the phases are %q", text)
	}
	parts := read(run).machinesPart()
	if len(parts) != 1 {
		t.Fatalf("%d parts", len(parts))
	}
	if rows := parts[0].(report.Table).Rows; len(rows) != 1 || rows[0][0].Text != "ffmpeg 1 CPU, vm:tcg/bare" {
		t.Errorf("rows %v", rows)
	}
	if parts := read(record.Run{}).machinesPart(); parts != nil {
		t.Errorf("of no boot there are %d parts", len(parts))
	}
}
