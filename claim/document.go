package claim

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"tare/overhead"
	"tare/record"
)

// SchemaID names the form of a [Document]. It changes when a field goes or
// changes its meaning, not when one is added.
const SchemaID = "urn:tare:claims:1"

// Schema is the JSON Schema (2020-12) of a [Document].
//
//go:embed schema/claims.schema.json
var Schema []byte

// absent is null in JSON.
var absent = overhead.Number(math.NaN())

// Document is a list of claims with their verdicts on one host, as it is exported.
type Document struct {
	Schema string          `json:"schema"`
	Host   record.Host     `json:"host"` // as it is now
	Papers []Paper         `json:"papers"`
	Claims []DocumentClaim `json:"claims"`
	Notes  []string        `json:"notes"`
}

// DocumentClaim is a claim with its verdict.
type DocumentClaim struct {
	ID            string           `json:"id"`
	Paper         string           `json:"paper"` // its key
	Short         string           `json:"short"`
	Says          string           `json:"says"`
	Published     []DocumentFigure `json:"published"`
	Remark        string           `json:"remark"`
	Inconsistency string           `json:"inconsistency"`
	HowJudged     string           `json:"how_judged"`
	Limits        []DocumentFigure `json:"limits"`
	Study         string           `json:"study"`
	Command       []string         `json:"command"`
	Runnable      bool             `json:"runnable"` // this tare has the study
	Verdict       Verdict          `json:"verdict"`
	// Left says why `tare reproduce` ran nothing for it on this host; empty otherwise.
	Left string `json:"left"`
	// Judgement is null where the claim is not yet run.
	Judgement *DocumentJudgement `json:"judgement"`
}

// DocumentFigure is a figure; null stands for what it does not have.
type DocumentFigure struct {
	Name  string          `json:"name"`
	Value overhead.Number `json:"value"` // null for a range
	Low   overhead.Number `json:"low"`
	High  overhead.Number `json:"high"`
	Unit  string          `json:"unit"`
	Bound string          `json:"bound"` // exactly, at least, at most, about, between
	N     int             `json:"n"`     // 0 where it is not told
}

// DocumentJudgement is what the verdict is, but for its word.
type DocumentJudgement struct {
	Ours              string           `json:"ours"`
	Figures           []DocumentFigure `json:"figures"`
	Rests             string           `json:"rests"`
	NotRepresentative string           `json:"not_representative"`
	Run               string           `json:"run"`
	When              time.Time        `json:"when"`
	Host              string           `json:"host"`
	Since             []string         `json:"since"` // what of the host has changed
}

// Row is a claim with its verdict on a host.
type Row struct {
	Claim
	// Judgement has the verdict NotYetRun, and nothing else, where no run judges it.
	Judgement Judgement
	Runnable  bool // whether this tare has the study that decides it
	// Left says why nothing is run for it here; empty where that is not known, or something is.
	Left string
}

// Rows sets claims beside the verdicts that [Best] found.
func Rows(claims []Claim, found map[string]Judgement, runnable func(Claim) bool) []Row {
	rows := make([]Row, 0, len(claims))
	for _, c := range claims {
		j, judged := found[c.ID]
		if !judged {
			j = Judgement{Claim: c.ID, Verdict: NotYetRun}
		}
		rows = append(rows, Row{Claim: c, Judgement: j, Runnable: runnable(c)})
	}
	return rows
}

// NewDocument makes the document of some claims on a host. It names the papers
// of these claims and no other.
func NewDocument(here record.Host, rows []Row, notes []string) Document {
	d := Document{Schema: SchemaID, Host: here, Papers: []Paper{}, Claims: []DocumentClaim{}, Notes: filled(notes)}
	named := map[string]bool{}
	for _, r := range rows {
		if !named[r.Paper.Key] {
			named[r.Paper.Key] = true
			d.Papers = append(d.Papers, r.Paper)
		}
		c := DocumentClaim{
			ID:            r.ID,
			Paper:         r.Paper.Key,
			Short:         r.Short,
			Says:          r.Says,
			Published:     documentFigures(r.Published),
			Remark:        r.Remark,
			Inconsistency: r.Inconsistency,
			HowJudged:     r.HowJudged,
			Limits:        documentFigures(r.Limits),
			Study:         r.Study,
			Command:       filled(r.Command),
			Runnable:      r.Runnable,
			Verdict:       r.Judgement.Verdict,
			Left:          r.Left,
		}
		if j := r.Judgement; j.Verdict != NotYetRun {
			c.Judgement = &DocumentJudgement{
				Ours:              j.Ours,
				Figures:           documentFigures(j.Figures),
				Rests:             j.Rests,
				NotRepresentative: j.NotRepresentative,
				Run:               j.Run,
				When:              j.When,
				Host:              j.Host,
				Since:             filled(j.Since),
			}
		}
		d.Claims = append(d.Claims, c)
	}
	return d
}

func documentFigures(figures []Figure) []DocumentFigure {
	list := make([]DocumentFigure, 0, len(figures))
	for _, f := range figures {
		d := DocumentFigure{
			Name:  f.Name,
			Value: overhead.Number(f.Value),
			Low:   absent,
			High:  absent,
			Unit:  f.Unit,
			Bound: string(f.Bound),
			N:     f.N,
		}
		if f.Interval() {
			d.Low, d.High = overhead.Number(f.Low), overhead.Number(f.High)
		}
		switch f.Bound {
		case Between:
			d.Value = absent
		case Exactly:
			d.Bound = "exactly"
		}
		list = append(list, d)
	}
	return list
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
		return fmt.Errorf("write the claims as JSON: %w", err)
	}
	return nil
}
