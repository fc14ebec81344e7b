package foreign

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
)

// FactorCommand is the factor of hyperfine's commands.
const FactorCommand = "command"

// hyperfineExport is what of hyperfine's --export-json is read.
type hyperfineExport struct {
	Results []struct {
		Command    string            `json:"command"`
		Times      []float64         `json:"times"` // s
		ExitCodes  []*int            `json:"exit_codes"`
		Parameters map[string]string `json:"parameters"`
	} `json:"results"`
}

// readHyperfine reads what hyperfine writes by --export-json: times of every
// repetition. A repetition whose program failed counts for nothing.
func readHyperfine(file string, data []byte) ([]observation, error) {
	at := position{file: file}
	var export hyperfineExport
	if err := json.Unmarshal(data, &export); err != nil {
		return nil, malformed(at, "not what hyperfine writes by --export-json: %v", err)
	}
	var all observations
	for i, r := range export.Results {
		if len(r.Times) == 0 {
			return nil, malformed(at, "result %d (%s) has no times: export by --export-json, which keeps each repetition", i+1, r.Command)
		}
		if err := fewFactors(at, 1+len(r.Parameters)); err != nil {
			return nil, err
		}
		factors := []level{{FactorCommand, r.Command}}
		for _, name := range slices.Sorted(maps.Keys(r.Parameters)) {
			if name == FactorCommand {
				factors[0].level = r.Parameters[name]
				continue
			}
			factors = append(factors, level{name, r.Parameters[name]})
		}
		for j, seconds := range r.Times {
			if math.IsNaN(seconds) || math.IsInf(seconds, 0) || seconds < 0 {
				return nil, malformed(at, "result %d (%s): %v s is not a time", i+1, r.Command, seconds)
			}
			o := observation{metric: "time", value: seconds, unit: "s", lower: true, at: at, factors: slices.Clone(factors)}
			if j < len(r.ExitCodes) {
				switch code := r.ExitCodes[j]; {
				case code == nil:
					o.failed = "it was ended by a signal"
				case *code != 0:
					o.failed = fmt.Sprintf("it ended with %d", *code)
				}
			}
			if err := all.add(o); err != nil {
				return nil, err
			}
		}
	}
	return all.all, nil
}
