package overhead

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"tare/platform"
	"tare/record"
	"tare/stats"
	"tare/workload"
)

// SchemaID names the form of a [Document]. It changes when a field goes or
// changes its meaning, not when one is added.
const SchemaID = "urn:tare:run:2"

// Schema is the JSON Schema (2020-12) of a [Document].
//
//go:embed schema/run.schema.json
var Schema []byte

// Document is a run and its analysis as they are exported. What could not be
// told is null in JSON; NaN never appears.
type Document struct {
	Schema     string              `json:"schema"`
	Run        DocumentRun         `json:"run"`
	Host       record.Host         `json:"host"`
	Analysis   DocumentAnalysis    `json:"analysis"`
	Conditions []DocumentCondition `json:"conditions"`
	Workloads  []DocumentWorkload  `json:"workloads"`
	// NoiseFloor is the worst of the primary metrics' noise floors: the
	// smallest ratio-effect that the run as a whole could have seen.
	NoiseFloor Number   `json:"noise_floor"`
	Warnings   []string `json:"warnings"`
}

// DocumentRun says which run it is and how it went.
type DocumentRun struct {
	ID       string        `json:"id"`
	Study    string        `json:"study"`
	Command  []string      `json:"command"`
	Version  string        `json:"version"`
	Seed     int64         `json:"seed"`
	Started  time.Time     `json:"started"`
	Finished *time.Time    `json:"finished"`
	Status   record.Status `json:"status"`
	Reason   string        `json:"reason"`
	Plan     record.Plan   `json:"plan"`
}

// DocumentAnalysis says by what the verdicts were reached.
type DocumentAnalysis struct {
	SmallestEffect Number `json:"smallest_effect"`
	Level          Number `json:"level"`
	// Comparisons is how many are judged together: those of the metrics that carry
	// the verdict, over all workloads.
	Comparisons int `json:"comparisons"`
	// Threshold is null where the run has none.
	Threshold *DocumentThreshold `json:"threshold"`
}

// DocumentThreshold is the worsening that is not accepted (0.05 is 5 %), and how the
// run stands against it.
type DocumentThreshold struct {
	FailAbove Number `json:"fail_above"`
	Status    Status `json:"status"`
}

// DocumentCondition is one condition with its metrics and, but for those of no
// baseline, their overheads.
type DocumentCondition struct {
	ID              string            `json:"id"`
	Label           string            `json:"label"`
	Platform        string            `json:"platform"`
	PlatformVersion string            `json:"platform_version"`
	Setting         map[string]string `json:"setting"`
	Workload        string            `json:"workload"`
	Params          workload.Params   `json:"params"`
	// Factors are the levels of the study\'s own factors.
	Factors           map[string]string           `json:"factors"`
	Baseline          bool                        `json:"baseline"`
	Image             DocumentImage               `json:"image"`
	InForce           *platform.InForce           `json:"in_force"`
	Process           *platform.Process           `json:"process"`
	NotRepresentative string                      `json:"not_representative"`
	Metrics           map[string]DocumentMetric   `json:"metrics"`
	Overhead          map[string]DocumentOverhead `json:"overhead"`
}

// DocumentImage is what ran.
type DocumentImage struct {
	Digest    string   `json:"digest"`
	Reference string   `json:"reference"`
	Packages  []string `json:"packages"`
}

// DocumentMetric is the level of a metric.
type DocumentMetric struct {
	Unit    string          `json:"unit"`
	Better  workload.Better `json:"better"`
	Primary bool            `json:"primary"`
	// Figure and Part say which figure of slices it is, and of what; empty elsewhere.
	Figure workload.Figure `json:"figure,omitempty"`
	Part   string          `json:"part,omitempty"`
	// Load is the load generator's CPU time for an operation, in microseconds, beside a
	// metric of CPU time; null elsewhere.
	Load *DocumentEstimate `json:"load,omitempty"`
	DocumentEstimate
}

// DocumentEstimate is an estimate with its interval.
type DocumentEstimate struct {
	Estimate Number   `json:"estimate"`
	Low      Number   `json:"low"`
	High     Number   `json:"high"`
	N        int      `json:"n"`
	Method   string   `json:"method"`
	Warnings []string `json:"warnings"`
}

// DocumentOverhead is a metric against the baseline. The baseline's own is 1.
type DocumentOverhead struct {
	Ratio    Number   `json:"ratio"`
	Low      Number   `json:"low"`
	High     Number   `json:"high"`
	Verdict  Verdict  `json:"verdict"`
	N        int      `json:"n"`
	Method   string   `json:"method"`
	Warnings []string `json:"warnings"`
	// Percent is the overhead in percent, positive where it is worse.
	Percent     Number `json:"percent"`
	PercentLow  Number `json:"percent_low"`
	PercentHigh Number `json:"percent_high"`
	// Adjusted is the interval by which the verdict holds together with all others
	// of its family; null for the baseline.
	Adjusted *DocumentAdjusted `json:"adjusted"`
	// Difference is in the metric's unit.
	Difference *DocumentEstimate `json:"difference"`
	// WithTainted is the ratio with tainted blocks left in.
	WithTainted *DocumentEstimate `json:"with_tainted"`
	Needs       string            `json:"needs"`
	// Differs tells that the adjusted interval excludes no effect, also where the verdict is
	// equivalent.
	Differs bool `json:"differs"`
	// VerdictWithTainted is the verdict with all that is tainted left in; empty where nothing is.
	VerdictWithTainted Verdict `json:"verdict_with_tainted,omitempty"`
	// Typical and Total are the two effects that rounds of slices know, of which Ratio is
	// one, and Stalls is the factor from the typical to the total. Load is the ratio of the
	// load generator's CPU time for an operation. All are null elsewhere, and where a round is one strip.
	Typical *DocumentEstimate `json:"typical,omitempty"`
	Total   *DocumentEstimate `json:"total,omitempty"`
	Stalls  *DocumentStalls   `json:"stalls,omitempty"`
	Load    *DocumentEstimate `json:"load,omitempty"`
	// Threshold is its status against the run's, empty where the threshold does not judge it.
	Threshold Status `json:"threshold"`
}

// DocumentStalls is by what factor the ratio of totals exceeds the typical ratio.
type DocumentStalls struct {
	DocumentEstimate
	// NotExcluded is the largest such change that the interval leaves possible, as a
	// ratio-effect.
	NotExcluded Number `json:"not_excluded"`
}

// DocumentEffect is something within rounds that moves a metric though no condition does.
type DocumentEffect struct {
	Name   EffectName `json:"name"`
	Metric string     `json:"metric"`
	// Counts tells that its interval, adjusted for all effects of the workload, excludes 1.
	Counts bool `json:"counts"`
	DocumentEstimate
}

// DocumentAdjusted is an overhead's interval at the level of its family.
type DocumentAdjusted struct {
	// Comparisons is how many are judged together.
	Comparisons    int    `json:"comparisons"`
	Level          Number `json:"level"`
	Low            Number `json:"low"`
	High           Number `json:"high"`
	PercentLow     Number `json:"percent_low"`
	PercentHigh    Number `json:"percent_high"`
	DifferenceLow  Number `json:"difference_low"`
	DifferenceHigh Number `json:"difference_high"`
	// VerdictAlone is the verdict that the comparison would have by itself.
	VerdictAlone Verdict `json:"verdict_alone"`
}

// DocumentWorkload is what holds for a workload's conditions together.
type DocumentWorkload struct {
	Workload string `json:"workload"`
	// Design is "rounds" or "blocks"; Blocks counts either.
	Design     string                      `json:"design"`
	Blocks     int                         `json:"blocks"`
	Repeated   int                         `json:"repeated"`
	Tainted    int                         `json:"tainted"`
	Failed     int                         `json:"failed"`
	NoiseFloor map[string]Number           `json:"noise_floor"`
	AA         map[string]DocumentEstimate `json:"aa"`
	Warnings   []string                    `json:"warnings"`
	// Strips of all rounds, those of them that are left out as tainted, and what moves
	// figures within rounds. All are absent where the design is blocks.
	Strips        int              `json:"strips,omitempty"`
	StripsTainted int              `json:"strips_tainted,omitempty"`
	Effects       []DocumentEffect `json:"effects,omitempty"`
}

// Number is a float64 of which JSON has null where it is no finite number.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON implements json.Unmarshaler: null is NaN.
func (n *Number) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(data, (*float64)(n))
}

// NewDocument joins a run and its analysis. rep must be of run.
func NewDocument(run record.Run, rep Report) Document {
	d := Document{
		Schema: SchemaID,
		Run: DocumentRun{
			ID: run.ID, Study: run.Study, Command: filled(run.Command), Version: run.Version, Seed: run.Seed,
			Started: run.Started, Status: run.Status, Reason: run.Reason, Plan: run.Plan,
		},
		Host: run.Host,
		Analysis: DocumentAnalysis{
			SmallestEffect: Number(rep.SmallestEffect),
			Level:          Number(rep.Level),
			Comparisons:    rep.Comparisons(),
		},
		Conditions: []DocumentCondition{},
		Workloads:  []DocumentWorkload{},
		Warnings:   filled(rep.Warnings),
	}
	if !run.Finished.IsZero() {
		finished := run.Finished
		d.Run.Finished = &finished
	}
	at := map[string]int{}
	for _, c := range run.Conditions {
		at[c.ID] = len(d.Conditions)
		d.Conditions = append(d.Conditions, documentCondition(c))
	}
	if t := rep.Threshold; t.FailAbove > 0 {
		d.Analysis.Threshold = &DocumentThreshold{FailAbove: Number(t.FailAbove), Status: t.Status}
	}
	floor := math.NaN()
	for _, g := range rep.Groups {
		w := DocumentWorkload{
			Workload: g.Workload, Blocks: g.Blocks, Repeated: g.Repeated, Tainted: g.Tainted, Failed: g.Failed,
			NoiseFloor: map[string]Number{}, AA: map[string]DocumentEstimate{}, Warnings: filled(g.Warnings),
			Design: record.DesignBlocks, Strips: g.Strips, StripsTainted: g.StripsTainted,
		}
		if g.Rounds {
			w.Design = record.DesignRounds
		}
		for _, e := range g.Effects {
			w.Effects = append(w.Effects, DocumentEffect{e.Name, e.Metric, e.Counts, documentEstimate(e.Ratio)})
		}
		for i, m := range g.Metrics {
			w.NoiseFloor[m.Name] = Number(m.NoiseFloor)
			if g.carries(i) {
				floor = worst(floor, m.NoiseFloor)
			}
			if m.AA != nil {
				w.AA[m.Name] = documentEstimate(*m.AA)
			}
			better := workload.Lower
			if m.HigherIsBetter {
				better = workload.Higher
			}
			for _, r := range m.Rows {
				i, ok := at[r.Condition]
				if !ok {
					continue
				}
				c := &d.Conditions[i]
				c.Metrics[m.Name] = DocumentMetric{
					Unit:             m.Unit,
					Better:           better,
					Primary:          m.Primary,
					Figure:           m.Figure,
					Part:             m.Part,
					Load:             optionalEstimate(r.LoadLevel),
					DocumentEstimate: documentEstimate(r.Value),
				}
				c.Overhead[m.Name] = documentOverhead(r, m.Comparisons)
			}
		}
		d.Workloads = append(d.Workloads, w)
	}
	d.NoiseFloor = Number(floor)
	return d
}

func documentCondition(c record.Condition) DocumentCondition {
	d := DocumentCondition{
		ID: c.ID, Label: label(c), Platform: c.Platform, PlatformVersion: c.Version, Setting: map[string]string{},
		Workload: c.Workload, Params: c.Params, Baseline: c.Baseline,
		Image:   DocumentImage{Digest: c.Image, Reference: c.ImageRef, Packages: filled(c.Packages)},
		InForce: c.InForce, Process: c.Process, NotRepresentative: c.NotRepresentative,
		Metrics: map[string]DocumentMetric{}, Overhead: map[string]DocumentOverhead{},
	}
	for _, p := range c.Setting.Pairs() {
		d.Setting[p.Key] = p.Value
	}
	if d.Params == nil {
		d.Params = workload.Params{}
	}
	if d.Factors = c.Factors; d.Factors == nil {
		d.Factors = map[string]string{}
	}
	return d
}

func documentEstimate(e stats.Estimate) DocumentEstimate {
	return DocumentEstimate{
		Estimate: Number(e.Value), Low: Number(e.Interval.Low), High: Number(e.Interval.High),
		N: e.N, Method: e.Method, Warnings: filled(e.Warnings),
	}
}

// optionalEstimate is nil for what has no estimate at all.
func optionalEstimate(e stats.Estimate) *DocumentEstimate {
	if e.N == 0 {
		return nil
	}
	d := documentEstimate(e)
	return &d
}

func documentOverhead(r Row, comparisons int) DocumentOverhead {
	if r.Baseline {
		return DocumentOverhead{
			Ratio:    1,
			Low:      1,
			High:     1,
			Verdict:  Baseline,
			N:        r.Value.N,
			Method:   "by definition",
			Warnings: []string{},
		}
	}
	difference, all := documentEstimate(r.Difference), documentEstimate(r.RatioAll)
	var stalls *DocumentStalls
	if e := optionalEstimate(r.Stalls); e != nil {
		stalls = &DocumentStalls{*e, Number(r.StallsNotExcluded)}
	}
	return DocumentOverhead{
		Differs:            r.Differs,
		VerdictWithTainted: r.WithTainted,
		Typical:            optionalEstimate(r.Typical),
		Total:              optionalEstimate(r.Total),
		Stalls:             stalls,
		Load:               optionalEstimate(r.Load),
		Ratio:              Number(r.Ratio.Value),
		Low:                Number(r.Ratio.Interval.Low),
		High:               Number(r.Ratio.Interval.High),
		Verdict:            r.Verdict,
		N:                  r.Ratio.N,
		Method:             r.Ratio.Method,
		Warnings:           filled(r.Ratio.Warnings),
		Percent:            Number(r.Percent),
		PercentLow:         Number(r.PercentLow),
		PercentHigh:        Number(r.PercentHigh),
		Adjusted: &DocumentAdjusted{
			Comparisons:    comparisons,
			Level:          Number(r.Adjusted.Level),
			Low:            Number(r.Adjusted.Low),
			High:           Number(r.Adjusted.High),
			PercentLow:     Number(r.AdjustedLow),
			PercentHigh:    Number(r.AdjustedHigh),
			DifferenceLow:  Number(r.AdjustedDifference.Low),
			DifferenceHigh: Number(r.AdjustedDifference.High),
			VerdictAlone:   r.Alone,
		},
		Difference: &difference, WithTainted: &all, Needs: r.Needs, Threshold: r.Status,
	}
}

// filled makes nil an empty list: a reader of the JSON need not expect null.
func filled(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// JSON writes a document, indented for people too.
func JSON(w io.Writer, d Document) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(d); err != nil {
		return fmt.Errorf("write run %s as JSON: %w", d.Run.ID, err)
	}
	return nil
}
