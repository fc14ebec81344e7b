package record

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestAttachments(t *testing.T) {
	s := open(t)
	run := example("r")
	must(t, s.Begin(run))
	profile := Attachment{Name: "cpu.pprof", MediaType: "application/octet-stream", Data: bytes.Repeat([]byte{0, 1, 0xff}, 100_000)}
	empty := Attachment{Name: "none", MediaType: "application/json", Data: []byte{}}
	id, err := s.AddTrial(run.ID, Trial{Condition: run.Conditions[0].ID, Block: 1, Started: epoch, Attachments: []Attachment{profile, empty}})
	must(t, err)

	for _, want := range []Attachment{profile, empty} {
		got, err := s.Attachment(id, want.Name)
		must(t, err)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("attachment (-want +got):\n%s", diff)
		}
	}
	read, err := s.Run(run.ID)
	must(t, err)
	listed := []Attachment{{Name: profile.Name, MediaType: profile.MediaType}, {Name: empty.Name, MediaType: empty.MediaType}}
	if diff := cmp.Diff(listed, read.Trials[0].Attachments); diff != "" {
		t.Errorf("a run lists its attachments without their bytes (-want +got):\n%s", diff)
	}

	var invalid *Invalid
	if _, err := s.Attachment(id, "other"); !errors.As(err, &invalid) {
		t.Errorf("an attachment that is not there: %v, want an *Invalid", err)
	}
	if _, err := s.AddTrial(run.ID, Trial{Condition: run.Conditions[0].ID, Block: 2, Started: epoch, Attachments: []Attachment{{Name: "x"}}}); !errors.As(err, &invalid) {
		t.Errorf("an attachment without a type: %v, want an *Invalid", err)
	}
}
