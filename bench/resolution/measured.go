package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"tare/overhead"
	"tare/record"
	"tare/stats"
)

// line is one finished job of a part: what the file of results holds of it.
type line struct {
	Part    string    `json:"part"`
	Number  int       `json:"number"` // within the part, from 1
	Name    string    `json:"name"`
	Short   bool      `json:"short,omitempty"` // a trial of the job itself: evidence of nothing
	Commit  string    `json:"commit"`
	Seed    int64     `json:"seed"`
	Host    string    `json:"host"`
	Boot    string    `json:"boot"` // the kernel's boot_id
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	Runs    []string  `json:"runs"` // their IDs in the store
	result
}

// result is what a job found.
type result struct {
	Figures []figure                   `json:"figures,omitempty"`
	Values  map[string]overhead.Number `json:"values,omitempty"`
	Notes   []string                   `json:"notes,omitempty"`
}

// The kinds of figures.
const (
	kindRatio   = "ratio" // by which the verdict goes
	kindTypical = "typical"
	kindTotal   = "total"
	kindStalls  = "stalls"
	kindAA      = "aa"
	kindTruth   = "truth"
)

// figure is an estimate of a ratio; 1 is no effect.
type figure struct {
	Workload  string           `json:"workload"`
	Metric    string           `json:"metric"`
	Condition string           `json:"condition,omitempty"`
	Kind      string           `json:"kind"`
	Primary   bool             `json:"primary,omitempty"`
	Verdict   overhead.Verdict `json:"verdict,omitempty"`
	Value     overhead.Number  `json:"value"`
	Low       overhead.Number  `json:"low"`
	High      overhead.Number  `json:"high"`
	N         int              `json:"n"`
}

func (f figure) of(e stats.Estimate) figure {
	f.Value, f.Low, f.High, f.N = overhead.Number(e.Value), overhead.Number(e.Interval.Low),
		overhead.Number(e.Interval.High), e.N
	return f
}

// halfWidth is that of the interval in percent of the value; +Inf where there is none.
func (f figure) halfWidth() float64 {
	half := 100 * float64(f.High-f.Low) / 2 / float64(f.Value)
	if math.IsNaN(half) {
		return math.Inf(1)
	}
	return half
}

// excludesOne tells whether the interval does.
func (f figure) excludesOne() bool { return f.Low > 1 || f.High < 1 }

// logError gives the estimate's logarithm, and its standard error by the interval, as if that
// were Student's t on the log scale over N rounds. Of a weighted estimate it is rather too
// large: its degrees of freedom are fewer, and are not kept.
func (f figure) logError() (value, se float64) {
	if f.N < 2 {
		return math.Log(float64(f.Value)), math.NaN()
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(f.N - 1)}.Quantile(0.5 + level/2)
	return math.Log(float64(f.Value)), (math.Log(float64(f.High)) - math.Log(float64(f.Low))) / 2 / t
}

// level is that of all intervals here.
const level = 0.95

// figuresOf are the estimates of a run, unadjusted.
func figuresOf(rep overhead.Report) []figure {
	var all []figure
	for _, g := range rep.Groups {
		for _, m := range g.Metrics {
			f := figure{Workload: g.Workload, Metric: m.Name, Primary: m.Primary}
			if m.AA != nil {
				aa := f.of(*m.AA)
				aa.Kind = kindAA
				all = append(all, aa)
			}
			for _, r := range m.Rows {
				if r.Baseline {
					continue
				}
				f := f
				f.Condition = r.Condition
				for _, one := range []struct {
					kind    string
					e       stats.Estimate
					verdict overhead.Verdict
				}{{kindRatio, r.Ratio, r.Verdict}, {kindTypical, r.Typical, ""}, {kindTotal, r.Total, ""},
					{kindStalls, r.Stalls, ""}} {
					if one.e.N == 0 {
						continue
					}
					f := f.of(one.e)
					f.Kind, f.Verdict = one.kind, one.verdict
					all = append(all, f)
				}
			}
		}
	}
	return all
}

// timesOf tells how the time of a run by rounds went: rounds, strips of each part in one,
// all strips and those that are tainted; and seconds: of the pilot, and, as the plan has
// them, of a round without its strips, of warming up to a part, and of a strip.
func timesOf(run record.Run, rep overhead.Report) map[string]overhead.Number {
	values := map[string]overhead.Number{}
	for _, g := range rep.Groups {
		set := func(name string, v float64) { values[g.Workload+" "+name] = overhead.Number(v) }
		set("rounds", float64(g.Blocks))
		plan, ok := run.Plan.Rounds[g.Workload]
		if !ok {
			continue
		}
		set("strips", float64(plan.Strips))
		set("strips_all", float64(g.Strips))
		set("strips_tainted", float64(g.StripsTainted))
		set("warm_s", plan.Warm.Seconds())
		set("strip_s", plan.CostOfStrip.Seconds())
		set("round_s", plan.CostOfRound.Seconds())
		var began, first time.Time
		for _, t := range run.Trials {
			if t.Workload != g.Workload {
				continue
			}
			if t.Block == 0 && (began.IsZero() || t.Started.Before(began)) {
				began = t.Started
			}
			if t.Block == 1 && (first.IsZero() || t.Started.Before(first)) {
				first = t.Started
			}
		}
		if !began.IsZero() && !first.IsZero() {
			set("pilot_s", first.Sub(began).Seconds())
		}
	}
	return values
}

// results is the file of finished jobs, one JSON object a line.
type results struct {
	path  string
	lines []line
}

// openResults reads what the file holds. A last line that was cut short is left out: its
// job runs again.
func openResults(path string) (*results, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	r := &results{path: path}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	var cut error
	for n := 1; lines.Scan(); n++ {
		if cut != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, n-1, cut)
		}
		var l line
		if cut = json.Unmarshal(lines.Bytes(), &l); cut == nil {
			r.lines = append(r.lines, l)
		}
	}
	return r, lines.Err()
}

func (r *results) has(part string, number int) bool {
	for _, l := range r.lines {
		if l.Part == part && l.Number == number {
			return true
		}
	}
	return false
}

// add appends a line durably.
func (r *results) add(l line) (err error) {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := dropCutLine(f); err != nil {
		return err
	}
	if _, err := f.Write(append(text, '\n')); err != nil {
		return err
	}
	r.lines = append(r.lines, l)
	return f.Sync()
}

// dropCutLine truncates the file after its last whole line, and goes to its end.
func dropCutLine(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	end := info.Size()
	for one := make([]byte, 1); end > 0; end-- {
		if _, err := f.ReadAt(one, end-1); err != nil {
			return err
		}
		if one[0] == '\n' {
			break
		}
	}
	if err := f.Truncate(end); err != nil {
		return err
	}
	_, err = f.Seek(end, 0)
	return err
}
