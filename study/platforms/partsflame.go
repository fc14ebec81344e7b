package platforms

import (
	"encoding/json"
	"fmt"
	"slices"

	"tare/probe/causes"
	"tare/record"
	"tare/report"
	"tare/study/kit"
	"tare/study/offcpu"
)

// flameParts are the flame graphs of the time off the CPU, one a watched condition; and
// what could not be read of them.
func (r reading) flameParts(attachments kit.Attachments) (parts []report.Part, unreadable []string) {
	if attachments == nil {
		return nil, nil
	}
	for _, s := range r.of(ofCauses, "") {
		for _, c := range s.all {
			seen, err := r.seen(c, attachments)
			if err != nil {
				unreadable = append(unreadable, err.Error())
			}
			f, ok := offcpu.Flame(fmt.Sprintf("Off the CPU: %s %s, %s", s.workload, sizeOf(s), c.Label), seen.Off)
			if !ok {
				continue
			}
			f.Note += " Recorded in the warm-up, since walking the stacks slows the program."
			if len(parts) > 0 {
				f.Note = "" // the first has it
			}
			parts = append(parts, report.Long{Part: f})
		}
	}
	return parts, unreadable
}

// seen is all that was seen in a condition's warm-up, of which a resumed run has several;
// what can be read of it stands beside an error.
func (r reading) seen(c record.Condition, attachments kit.Attachments) (sum causes.Reading, err error) {
	for _, t := range r.Run.Trials {
		if t.Condition != c.ID || t.Block != 0 || t.Error != "" {
			continue
		}
		if !slices.ContainsFunc(t.Attachments, func(a record.Attachment) bool { return a.Name == AttachmentCauses }) {
			continue
		}
		var one causes.Reading
		text, failed := attachments(t.ID, AttachmentCauses)
		if failed == nil {
			failed = json.Unmarshal(text, &one)
		}
		if failed != nil {
			err = fmt.Errorf("%s of %s, trial %d, cannot be read: %w", AttachmentCauses, c.Label, t.ID, failed)
			continue
		}
		sum.Add(one)
	}
	return sum, err
}
