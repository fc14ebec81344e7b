package offcpu

import (
	"time"

	"tare/probe/causes"
	"tare/record"
)

// Schema names the layout of what `tare causes --json` writes.
const Schema = "tare-causes/1"

// Document is the result of watching a program. Fields that end in _ns are nanoseconds.
type Document struct {
	Schema  string          `json:"schema"`
	Host    record.Host     `json:"host"`
	Began   time.Time       `json:"began"`
	Target  TargetDocument  `json:"target"`
	Answer  string          `json:"answer"`
	Reading causes.Reading  `json:"reading"`
	Blocked []BlockDocument `json:"blocked_on,omitempty"` // the longest first; none without stacks
	Notes   []string        `json:"notes,omitempty"`
}

// TargetDocument is what was watched.
type TargetDocument struct {
	Name   string `json:"name"`
	Engine string `json:"engine"`
	ID     string `json:"id"`
	Image  string `json:"image,omitempty"`
	PID    int    `json:"pid"`
	Cgroup string `json:"cgroup,omitempty"`
}

// BlockDocument is something on which threads were blocked.
type BlockDocument struct {
	Cause   string        `json:"cause"`   // "IPC", "disk", "lock", ...
	Through string        `json:"through"` // a system call's name, or "a page fault"
	Time    time.Duration `json:"time_ns"` // of all threads, until they had a CPU again
	Count   uint64        `json:"count"`
}

// Document makes what `tare causes --json` writes.
func (w *Watched) Document(on record.Host) Document {
	c := w.Container
	d := Document{
		Schema: Schema, Host: on, Began: w.Began.UTC(), Answer: w.Answer(), Reading: w.Reading, Notes: w.Notes,
		Target: TargetDocument{c.Name, string(c.Engine), c.ID, c.Image, c.PID, c.Cgroup},
	}
	all, _ := obstacles(w.Reading.Off)
	for _, o := range all {
		d.Blocked = append(d.Blocked, BlockDocument{string(o.cause), o.through, o.time, o.count})
	}
	return d
}
