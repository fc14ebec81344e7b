package pages

import (
	"time"

	"tare/census"
	"tare/container"
	"tare/record"
)

// Schema names the layout of what `tare pages --json` writes of running
// containers. Entries are of 4 KiB; bytes are named so.
const Schema = "tare-pages/1"

// Document is a census of running containers for other programs.
type Document struct {
	Schema     string                `json:"schema"`
	Host       record.Host           `json:"host"`
	Containers []container.Container `json:"containers"`
	Notes      []string              `json:"notes,omitempty"`
	// Censuses are one, or two where it was counted again.
	Censuses []CensusDocument `json:"censuses"`
}

// CensusDocument is one census.
type CensusDocument struct {
	Taken   time.Time `json:"taken"`
	Seconds float64   `json:"elapsed_s"`
	Backend string    `json:"backend"`
	// Changed, Gone and Refused are process ids: of those that moved meanwhile, that
	// ended before they were read, that may not be looked into.
	Changed []int         `json:"changed,omitempty"`
	Gone    []int         `json:"gone,omitempty"`
	Refused []int         `json:"refused,omitempty"`
	Count   *census.Count `json:"count"`
}

// Document is the census for other programs, and the second one where there is one.
func (l *Live) Document(host record.Host, later *Live) Document {
	d := Document{
		Schema:     Schema,
		Host:       host,
		Containers: l.Containers,
		Notes:      l.Notes,
		Censuses:   []CensusDocument{l.census()},
	}
	if later != nil {
		d.Censuses = append(d.Censuses, later.census())
	}
	return d
}

func (l *Live) census() CensusDocument {
	return CensusDocument{
		Taken: l.Taken, Seconds: l.Elapsed.Seconds(), Backend: l.Backend,
		Changed: l.Changed, Gone: l.Gone, Refused: l.Refused, Count: l.Count,
	}
}
