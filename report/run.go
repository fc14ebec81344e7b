package report

import (
	"fmt"
	"slices"
	"strings"

	"tare/overhead"
	"tare/record"
)

// BlocksFact says how many blocks a sheet rests on, and how many were disturbed.
func BlocksFact(r overhead.Reading) string {
	least, tainted, repeated, failures := 0, 0, 0, 0
	for i, g := range r.Report.Groups {
		if i == 0 || g.Blocks < least {
			least = g.Blocks
		}
		tainted += g.Tainted
		repeated += g.Repeated
		failures += g.Failed
	}
	more := ""
	if slices.ContainsFunc(r.Report.Groups, func(g overhead.Group) bool { return g.Blocks > least }) {
		more = " or more"
	}
	return fmt.Sprintf("blocks: %d%s, %d repeated for taint, %d still tainted, %d trials failed; seed %d", least, more, repeated, tainted, failures, r.Run.Seed)
}

// PlatformsFact names the platforms with what implements them.
func PlatformsFact(run record.Run) string {
	var versions []string
	for _, c := range run.Conditions {
		v := c.Platform
		if c.Version != "" {
			v += " " + c.Version
		}
		if !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	return "platforms: " + strings.Join(versions, "; ")
}

// TimeFact says how long a run took, when it began and which it is; empty where nothing of
// it is known.
func TimeFact(run record.Run) string {
	var parts []string
	if took := run.Took(); took > 0 {
		parts = append(parts, durationText(took))
		if run.Plan.Paused > 0 {
			parts = append(parts, "paused for "+durationText(run.Plan.Paused))
		}
	}
	if !run.Started.IsZero() {
		parts = append(parts, run.Started.UTC().Format("2006-01-02 15:04 UTC"))
	}
	if run.ID != "" {
		parts = append(parts, run.ID)
	}
	if len(parts) == 0 {
		return ""
	}
	return "time: " + strings.Join(parts, ", ")
}

// RunBanners are what must be known before any figure of a run is believed, with
// what a study adds. Warm-up trials of a study's procedures are shorter than
// the others, and so are no measure of warmth: warnings of that are left out.
func RunBanners(r overhead.Reading, more ...string) []string {
	banners := slices.Clone(more)
	if r.Run.Status == record.Interrupted {
		banners = append(banners, "interrupted: "+r.Run.Reason)
	}
	for _, n := range r.Run.Plan.Notes {
		banners = append(banners, "note: "+n)
	}
	for _, c := range r.Run.Conditions {
		if c.NotRepresentative != "" {
			banners = append(banners, c.Label+" is not representative: "+c.NotRepresentative)
		}
	}
	for _, g := range r.Report.Groups {
		for _, w := range g.Warnings {
			if !strings.HasPrefix(w, "warm-up:") {
				banners = append(banners, g.Workload+": "+w)
			}
		}
	}
	slices.Sort(banners)
	return slices.Compact(banners)
}
