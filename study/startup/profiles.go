package startup

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"tare/probe"
	"tare/record"
	"tare/report"
	"tare/study/kit"
)

// The attachments that hold profiles, in pprof's format.
const (
	cpuProfile     = "cpu.pprof"
	blockedProfile = "off-cpu.pprof"
	profileType    = "application/vnd.google.protobuf+gzip"
)

// Profile is the profile of a platform's starts, of all blocks together.
type Profile struct {
	Name     string // "redis-docker-cpu"
	Platform string
	merged   *profile.Profile
}

// Write writes it for `go tool pprof`.
func (p Profile) Write(w io.Writer) error { return p.merged.Write(w) }

// Profiles gives a run's profiles, one for each workload, platform and kind.
func Profiles(run record.Run, attachments kit.Attachments) ([]Profile, error) {
	r := read(run)
	var all []Profile
	for _, kind := range []struct{ of, attachment, name string }{
		{kindProfile, cpuProfile, "cpu"}, {kindBlocked, blockedProfile, "off-cpu"},
	} {
		for _, c := range r.of(kind.of) {
			merged, err := r.merged(c, kind.attachment, attachments)
			if err != nil {
				return nil, err
			}
			if merged != nil {
				all = append(all, Profile{
					Name:     workloadOf(c) + "-" + strings.ReplaceAll(c.Platform, ":", "-") + "-" + kind.name,
					Platform: c.Platform, merged: merged,
				})
			}
		}
	}
	return all, nil
}

// merged joins the profiles of a condition's trials; nil where there is none.
func (r reading) merged(c record.Condition, name string, attachments kit.Attachments) (*profile.Profile, error) {
	var parts []*profile.Profile
	for _, t := range r.Trials(c) {
		if !slices.ContainsFunc(t.Attachments, func(a record.Attachment) bool { return a.Name == name }) {
			continue
		}
		data, err := attachments(t.ID, name)
		if err != nil {
			return nil, err
		}
		p, err := profile.Parse(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("%s of trial %d: %w", name, t.ID, err)
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		return nil, nil
	}
	merged, err := profile.Merge(parts)
	if err != nil {
		return nil, fmt.Errorf("merge the profiles of %s: %w", c.ID, err)
	}
	return merged, nil
}

// flame turns a profile into a flame graph: components first, then the calls,
// outermost first. Programs that have no part in the starts are left out. value
// is the index of the profile's value.
func flame(p *profile.Profile, value int, scale float64) *report.Frame {
	root := &report.Frame{Name: "all"}
	children := map[*report.Frame]map[string]*report.Frame{}
	under := func(parent *report.Frame, name, kind string) *report.Frame {
		if children[parent] == nil {
			children[parent] = map[string]*report.Frame{}
		}
		f := children[parent][name]
		if f == nil {
			f = &report.Frame{Name: name, Kind: kind}
			children[parent][name] = f
			parent.Children = append(parent.Children, f)
		}
		return f
	}
	for _, s := range p.Sample {
		component := "?"
		if labels := s.Label["component"]; len(labels) > 0 {
			component = labels[0]
		}
		if component == string(probe.Other) {
			continue
		}
		v := float64(s.Value[value]) * scale
		at := root
		at.Value += v
		at = under(at, component, "component")
		at.Value += v
		for _, location := range slices.Backward(s.Location) {
			kind := "user"
			if m := location.Mapping; m != nil && m.File == "[kernel]" {
				kind = "kernel"
			}
			for _, line := range slices.Backward(location.Line) {
				if line.Function == nil {
					continue
				}
				at = under(at, line.Function.Name, kind)
				at.Value += v
			}
		}
	}
	return root
}
