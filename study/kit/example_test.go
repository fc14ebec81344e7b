package kit_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"tare/lab"
	"tare/overhead"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/study/kit"
	"tare/workload"
)

// This file is a study but for its command: what does a memory limit cost a program?
// docs/architecture.md explains its parts.

const factorLimit = "limit"

// options are what the user asked for.
type options struct {
	Program  workload.Subject
	Platform string
	Limits   []int64 // MiB
	Plan     record.Plan
	Host     kit.Host
}

// design lists the conditions: no limit, which is the baseline, and each limit.
func design(o options) (lab.Design, error) {
	params, err := workload.Resolve(o.Program.Workload, o.Program.Params)
	if err != nil {
		return lab.Design{}, kit.Usagef("%v", err)
	}
	var notes kit.Notes
	g := lab.Group{Workload: o.Program.Workload.Name()}
	for _, limit := range append([]int64{0}, o.Limits...) {
		label, setting := "no limit", platform.Setting{Memory: limit << 20}
		if limit > 0 {
			label = fmt.Sprintf("%d MiB", limit)
		}
		if _, err := o.Host.FindFor(o.Platform, setting); err != nil {
			notes.Add("%s left out: %v", label, err)
			continue
		}
		g.Conditions = append(g.Conditions, lab.Condition{
			Condition: record.Condition{
				ID: g.Workload + "@" + label, Label: label, Workload: g.Workload, Params: params, Platform: o.Platform,
				Setting: setting, Baseline: limit == 0, Metrics: o.Program.Workload.Metrics(params),
				Factors: map[string]string{factorLimit: strconv.FormatInt(limit, 10)},
			},
			Program: o.Program.Workload, Source: o.Program.Image(), Takes: 3 * time.Second,
		})
	}
	if len(g.Conditions) < 2 {
		return lab.Design{}, kit.Usagef("nothing to compare: %v", notes)
	}
	d := lab.Design{Study: "limits", Plan: o.Plan, Groups: []lab.Group{g}}
	d.Plan.Notes = notes
	return d, d.Validate()
}

// limits is what the command and the page need of it.
var limits = kit.Family{
	Of: func(record.Run) string { return "limits" },
	Members: []kit.Member{{
		Name: "limits", Title: "tare limits", Answer: answer, Parts: parts, Next: "tare weigh",
	}},
}

// answer is the sentence that the reader came for.
func answer(run record.Run) string {
	r := overhead.Read(run)
	tightest := run.Conditions[len(run.Conditions)-1]
	e := r.Row(tightest, "elapsed").Ratio
	return fmt.Sprintf("Under a limit of %s the program takes %s times as long.", tightest.Label, report.Said(e, 1))
}

// parts are the tables of the page.
func parts(run record.Run) []report.Part {
	r := overhead.Read(run)
	t := report.Table{Title: "By limit", Columns: []report.Column{{Head: "limit"}, {Head: "elapsed, s", Number: true}, {Head: "ratio", Number: true}}}
	for _, c := range run.Conditions {
		t.Rows = append(t.Rows, []report.Cell{{Text: c.Label}, report.Estimated(r.Value(c, "elapsed"), 1), report.Estimated(r.Row(c, "elapsed").Ratio, 1)})
	}
	return []report.Part{t}
}

// The page is made from a run of the design. The lab carries out a design; here its trials are
// made up. A block holds the baseline twice: four trials of 3 s.
func ExampleFamily() {
	program, err := workload.Lookup("hashing")
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := design(options{
		Program: workload.Subject{Workload: program}, Platform: "docker", Limits: []int64{512, 256},
		Plan: record.Plan{Blocks: 6, Level: 0.95, SmallestEffect: 0.02},
		Host: kit.Host{
			Platform: func(string) (platform.Platform, error) { return willing{}, nil },
			Check:    func(platform.Platform) error { return nil },
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	run := record.Run{Study: d.Study, Plan: d.Plan, Status: record.Complete}
	for i, c := range d.Groups[0].Conditions {
		run.Conditions = append(run.Conditions, c.Condition)
		for block := range 6 {
			took := 2 + 0.1*float64(i) + 0.001*float64(block*(i+1)%5)
			run.Trials = append(run.Trials, record.Trial{Condition: c.ID, Workload: c.Workload, Block: block + 1, Attempt: 1, Samples: []record.Sample{{Metric: "elapsed", Value: took}}})
		}
	}
	fmt.Println(limits.Sheet(run, nil, nil).Answer)
	fmt.Println("One block takes about", d.Pass())
	// Output:
	// Under a limit of 256 MiB the program takes 1.0999 (1.0991 to 1.1007) times as long.
	// One block takes about 12s
}

// willing is a platform that supports everything.
type willing struct{ platform.Platform }

func (willing) Supports(platform.Setting) error { return nil }

func TestNotesAreSaidOnce(t *testing.T) {
	var n kit.Notes
	n.Add("%d CPUs", 2)
	n.Add("2 CPUs")
	if len(n) != 1 {
		t.Errorf("%q", n)
	}
}
