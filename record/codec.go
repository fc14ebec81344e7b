package record

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"tare/platform"
)

// nanos is a time as it is stored; the zero time is NULL.
func nanos(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixNano(), Valid: !t.IsZero()}
}

func fromNanos(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.Unix(0, n.Int64).UTC()
}

// encoder marshals many columns and keeps the first error.
type encoder struct{ err error }

func (e *encoder) json(column string, v any) string {
	data, err := json.Marshal(v)
	if err != nil && e.err == nil {
		e.err = &Invalid{What: column, Why: err.Error()}
	}
	return string(data)
}

// decoder is its counterpart for one row.
type decoder struct {
	row string // names it in an error
	err error
}

func (d *decoder) json(column, data string, v any) {
	if d.err != nil || data == "" {
		return
	}
	if err := json.Unmarshal([]byte(data), v); err != nil {
		d.err = fmt.Errorf("%s: column %s: %w", d.row, column, err)
	}
}

// A setting is stored as its knobs are written, {"cpus": "1.5"}, not as the Go
// struct lies: so that a field may be renamed, and SQL can ask for a knob.
func encodeSetting(s platform.Setting) map[string]string {
	knobs := map[string]string{}
	for _, p := range s.Pairs() {
		knobs[p.Key] = p.Value
	}
	return knobs
}

func decodeSetting(knobs map[string]string) (platform.Setting, error) {
	var s platform.Setting
	for key, value := range knobs {
		if err := s.Set(key, value); err != nil {
			return s, err
		}
	}
	return s, nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
