package foreign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// FactorCommand is the factor of hyperfine's commands.
const FactorCommand = "command"

// hyperfineExport is what of hyperfine's --export-json is read.
type hyperfineExport struct {
	Results []hyperfineResult `json:"results"`
}

type hyperfineResult struct {
	Command    string            `json:"command"`
	Times      []*float64        `json:"times"` // s; nil is not a number
	ExitCodes  []*int            `json:"exit_codes"`
	Parameters map[string]string `json:"parameters"`
}

// readHyperfine reads what hyperfine writes by --export-json: times of every
// repetition. A repetition whose program failed counts for nothing. A command that was
// measured twice is two conditions, as hyperfine's own tables have it.
func (t *told) readHyperfine(file string, data []byte) ([]observation, error) {
	at := position{file: file}
	var export hyperfineExport
	err := json.Unmarshal(data, &export)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		data, export = withNulls(data), hyperfineExport{}
		err = json.Unmarshal(data, &export)
	}
	if err != nil {
		return nil, malformed(jsonPosition(file, data, err), "not what hyperfine writes by --export-json: %v", err)
	}
	var all observations
	seen := map[string]int{} // results of a command with its parameters
	for i, r := range export.Results {
		what := fmt.Sprintf("result %d (%s)", i+1, brief(r.Command))
		switch {
		case len(r.Times) == 0:
			return nil, malformed(at, "%s has no times: export by --export-json, which keeps each repetition", what)
		case r.ExitCodes == nil:
			t.unread.add("results without exit codes, of which failed runs count as any other", at, r.Command)
		case len(r.ExitCodes) != len(r.Times):
			return nil, malformed(at,
				"%s has %d times and %d exit codes: which of them failed is unknown; measure it again", what, len(r.Times), len(r.ExitCodes))
		}
		factors, err := r.factors(at)
		if err != nil {
			return nil, err
		}
		key := fmt.Sprintf("%q", factors)
		if seen[key]++; seen[key] > 1 {
			was := factors[0].level
			factors[0].level = fmt.Sprintf("%s (%d)", was, seen[key])
			t.notes = append(t.notes, fmt.Sprintf(
				"%s was measured %d times in %s, each a condition of its own: this one is %q", brief(was), seen[key], file, factors[0].level))
		}
		for j, seconds := range r.Times {
			if seconds == nil || *seconds < 0 {
				return nil, malformed(at, "%s: time %d is not a time: measure it again", what, j+1)
			}
			o := observation{
				metric: "time", value: *seconds, unit: "s", lower: true,
				at: at, factors: slices.Clone(factors), process: j,
			}
			if r.ExitCodes != nil {
				o.failed = failed(r.ExitCodes[j])
			}
			if err := all.add(o); err != nil {
				return nil, err
			}
		}
	}
	return all.all, nil
}

// factors are a result's command, first, and its parameters.
func (r hyperfineResult) factors(at position) ([]level, error) {
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
	return factors, nil
}

// failed says how a program failed; empty where it did not.
func failed(code *int) string {
	switch {
	case code == nil:
		return "ended by a signal"
	case *code != 0:
		return fmt.Sprintf("exit code %d", *code)
	}
	return ""
}

// noNumber is a text of JSON, or what Python and others write for no number.
var noNumber = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity|inf|nan)\b`)

// withNulls gives JSON in which what is no number is null, as hyperfine itself writes it:
// JSON has no word for it, and the fault is then told by its result.
func withNulls(data []byte) []byte {
	return noNumber.ReplaceAllFunc(data, func(token []byte) []byte {
		if token[0] == '"' {
			return token
		}
		return []byte("null")
	})
}

// jsonPosition is the line of a fault in a file of JSON.
func jsonPosition(file string, data []byte, err error) position {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	offset := int64(-1)
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
	}
	if offset < 0 || offset > int64(len(data)) {
		return position{file: file}
	}
	return position{file, 1 + bytes.Count(data[:offset], []byte("\n"))}
}
