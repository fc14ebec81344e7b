package platforms

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"tare/probe/causes"
	"tare/record"
	"tare/report"
)

// Each watched condition has its flame graph on the page, of its warm-up; a screen has
// none of them.
func TestFlamesOfWatchedConditions(t *testing.T) {
	run := measured(designed(t, options(cns, ofSizes(1), func(o *Options) { o.Causes = true })), alike)
	watched := map[string]int{}
	kept := []record.Attachment{{Name: AttachmentCauses}}
	for i := range run.Trials {
		run.Trials[i].Attachments = kept // no stacks in these
	}
	const warmUps = 2 // the run was resumed
	for _, c := range run.Conditions {
		if c.Factors[factorQuestion] != ofCauses {
			continue
		}
		for range warmUps {
			run.Trials = append(run.Trials, record.Trial{ID: int64(len(run.Trials) + 1), Condition: c.ID, Workload: c.Workload, Attempt: 1, Attachments: kept})
			watched[c.ID]++
		}
	}
	if len(watched) < 2 {
		t.Fatalf("%d conditions are watched", len(watched))
	}
	text, err := json.Marshal(causes.Reading{Off: []causes.Stack{
		{Program: "ffmpeg", Frames: []string{"futex_wait", "__x64_sys_futex", "worker"}, Time: 2 * time.Second, Count: 9},
		{Program: "ffmpeg", Frames: []string{"irqentry_exit", "worker"}, Waiting: true, Time: time.Second, Count: 5},
	}})
	if err != nil {
		t.Fatal(err)
	}
	stored := func(int64, string) ([]byte, error) { return text, nil }
	flames, unreadable := read(run).flameParts(stored)
	if len(flames) != len(watched) || len(unreadable) != 0 {
		t.Fatalf("%d graphs of %d watched conditions; %v", len(flames), len(watched), unreadable)
	}
	for _, n := range watched {
		if f := flames[0].(report.Long).Part.(report.Flame); f.Root.Value != 3000*float64(n) || !strings.Contains(f.Note, "warm-up") || !strings.HasPrefix(f.Title, "Off the CPU: ") {
			t.Errorf("%s holds %g of %d trials: %s", f.Title, f.Root.Value, n, f.Note)
		}
		break // as many trials each
	}
	sheet := Study.Sheet(run, stored, nil)
	var screen, page bytes.Buffer
	if err := errors.Join(report.SheetTerminal(&screen, sheet, report.TerminalOptions{Width: 80}), report.SheetHTML(&page, sheet)); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(page.String(), `class="flame"`); got != len(watched) || strings.Contains(screen.String(), "Off the CPU") {
		t.Errorf("%d graphs on the page; on the screen:\n%s", got, screen.String())
	}

	// What cannot be read is named, and takes nothing else with it.
	first := true
	flames, unreadable = read(run).flameParts(func(int64, string) ([]byte, error) {
		if first {
			first = false
			return []byte("{"), nil
		}
		return text, nil
	})
	if len(flames) != len(watched) || len(unreadable) != 1 || !strings.Contains(unreadable[0], AttachmentCauses) {
		t.Errorf("%d graphs; %q", len(flames), unreadable)
	}
}
