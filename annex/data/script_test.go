package data

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/annex"
	"tare/annex/predict"
)

var update = flag.Bool("update", false, "write what is asked for into the scripts")

// TestScripts plays the scripts in testdata: what is observed, line by line, and after each
// plan, behind >, what is asked for. Their language is small:
//
//	policy KEY=VALUE ...               low, high, reserve in bytes; piece, leaving in pages
//	context NAME CLASS [room=SIZE]     at 0, with one space; with room it is limited
//	scan TIME NAME PAGES STATES ...    pages A-B, inclusive; states of p s a d S h -
//	memory TIME free=SIZE swap=SIZE    swap is what is free of twice as much
//	woke TIME NAME, slept TIME NAME CPU
//	faults TIME NAME PAGES ...         swapped ones, in this order; w behind is to write
//	record NAME PAGES ...              what the predictor says; ! is certain
//	expect NAME EARLIEST LIKELY LATEST
//	precise NAME PRECISION
//	chain NAME NAME WITHIN PROBABILITY
//	pressure TIME NAME STALL           since boot
//	plan TIME
//	done TIME [moved=N] [skipped=N]    of all that is under way, or of the oldest alone
//	done TIME but=NAME                 of all but that context's
//	status NAME
//	drain on|off
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.script")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".script"), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(b))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(b) {
				t.Errorf("%s: got\n%s\nwant\n%s", file, got, b)
			}
		})
	}
}

type player struct {
	t          *testing.T
	m          *Manager
	predictors map[annex.ID]*fakePredictor
	asked      []annex.Request
	chain      chained
	policy     Policy
	line       int
	out        strings.Builder
}

// play plays a script and gives it with what was asked for.
func play(t *testing.T, script string) string {
	p := &player{t: t, predictors: map[annex.ID]*fakePredictor{}, chain: chained{}}
	lines := bufio.NewScanner(strings.NewReader(script))
	for lines.Scan() {
		p.line++
		text := lines.Text()
		if strings.HasPrefix(text, ">") {
			continue
		}
		fmt.Fprintln(&p.out, text)
		if f := strings.Fields(text); len(f) > 0 && f[0] != "#" {
			p.step(f)
		}
	}
	return p.out.String()
}

func spaceOf(id annex.ID) annex.Space {
	return annex.Space{PID: int32(id[0]), Started: uint64(len(id))}
}

func (p *player) manager() *Manager {
	if p.m == nil {
		p.policy.Chain = p.chain
		p.m = New(p.policy)
	}
	return p.m
}

func (p *player) at(s string) annex.Moment {
	d, err := time.ParseDuration(s)
	if err != nil {
		p.t.Fatalf("line %d: %v", p.line, err)
	}
	return annex.Moment(d)
}

func (p *player) number(s string) int64 {
	unit := int64(1)
	if n, ok := strings.CutSuffix(s, "MiB"); ok {
		s, unit = n, 1<<20
	}
	if n, ok := strings.CutSuffix(s, "p"); ok {
		s, unit = n, annex.PageSize
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		p.t.Fatalf("line %d: %v", p.line, err)
	}
	return n * unit
}

func (p *player) pages(id annex.ID, s string) annex.Run {
	from, to, ok := strings.Cut(s, "-")
	if !ok {
		to = from
	}
	a, b := p.number(from), p.number(to)
	return annex.Run{Space: spaceOf(id), First: annex.Page(a), Pages: int(b - a + 1)}
}

func (p *player) step(f []string) {
	switch f[0] {
	case "policy":
		for _, kv := range f[1:] {
			k, v, _ := strings.Cut(kv, "=")
			n := p.number(v)
			switch k {
			case "low":
				p.policy.Low = n
			case "high":
				p.policy.High = n
			case "reserve":
				p.policy.Reserve = n
			case "piece":
				p.policy.Piece = int(n)
			case "leaving":
				p.policy.MostLeaving = int(n)
			default:
				p.t.Fatalf("line %d: no policy %s", p.line, k)
			}
		}
	case "context":
		id := annex.ID(f[1])
		d := &fakePredictor{}
		p.predictors[id] = d
		m := p.manager()
		m.policy.Predictor = func() Predictor { return d }
		info := ContextInfo{ID: id, Name: f[1], Class: annex.Class(f[2])}
		if len(f) > 3 {
			room, ok := strings.CutPrefix(f[3], "room=")
			if !ok {
				p.t.Fatalf("line %d: what is %s?", p.line, f[3])
			}
			info.Limited, info.Room = true, p.number(room)
		}
		m.Add(info)
	case "scan":
		id := annex.ID(f[2])
		s := annex.Scan{ID: id, Space: spaceOf(id), Began: p.at(f[1]), Ended: p.at(f[1]), KnowsAccess: true}
		for i := 3; i+1 < len(f); i += 2 {
			r := p.pages(id, f[i])
			var st annex.State
			for _, c := range f[i+1] {
				st |= map[rune]annex.State{'p': annex.Present, 's': annex.Swapped, 'a': annex.Accessed, 'd': annex.Dirty, 'S': annex.Shared, 'h': annex.Huge}[c]
			}
			states := make([]annex.State, r.Pages)
			for j := range states {
				states[j] = st
			}
			if n := len(s.Stretches); n > 0 && s.Stretches[n-1].First+annex.Page(len(s.Stretches[n-1].States)) == r.First {
				s.Stretches[n-1].States = append(s.Stretches[n-1].States, states...)
			} else {
				s.Stretches = append(s.Stretches, annex.Stretch{First: r.First, States: states})
			}
		}
		p.m.Scan(s)
	case "memory":
		mem := annex.Memory{At: p.at(f[1]), Limit: 1 << 30}
		for _, kv := range f[2:] {
			k, v, _ := strings.Cut(kv, "=")
			switch k {
			case "free":
				mem.Free = p.number(v)
			case "swap":
				mem.SwapFree = p.number(v)
				mem.SwapSize = 2 * mem.SwapFree
			}
		}
		p.m.Memory(mem)
	case "woke":
		p.m.Activity(annex.Activity{ID: annex.ID(f[2]), What: annex.Woke, At: p.at(f[1])})
	case "slept":
		p.m.Activity(annex.Activity{ID: annex.ID(f[2]), What: annex.Slept, At: p.at(f[1]), CPU: time.Duration(p.at(f[3]))})
	case "faults":
		id := annex.ID(f[2])
		var faults []annex.Fault
		for _, s := range f[3:] {
			s, write := strings.CutSuffix(s, "w")
			r := p.pages(id, s)
			for page := r.First; page < r.End(); page++ {
				faults = append(faults, annex.Fault{ID: id, Space: r.Space, Page: page, At: p.at(f[1]), Swapped: true, Write: write})
			}
		}
		p.m.Faults(faults)
	case "record":
		d := p.predictors[annex.ID(f[1])]
		d.record = nil
		for _, s := range f[2:] {
			s, certain := strings.CutSuffix(s, "!")
			d.record = append(d.record, predict.Ranked{Run: p.pages(annex.ID(f[1]), s), Certain: certain})
		}
	case "expect":
		d := p.predictors[annex.ID(f[1])]
		d.forecast, d.expects = predict.Forecast{Earliest: p.at(f[2]), Likely: p.at(f[3]), Latest: p.at(f[4])}, true
	case "precise":
		precision, err := strconv.ParseFloat(f[2], 64)
		if err != nil {
			p.t.Fatal(err)
		}
		p.predictors[annex.ID(f[1])].scores = []predict.Score{{Kind: predict.Record, Precision: precision, Predictions: 1000, On: true}}
	case "chain":
		probability, err := strconv.ParseFloat(f[4], 64)
		if err != nil {
			p.t.Fatal(err)
		}
		p.chain[annex.ID(f[1])] = append(p.chain[annex.ID(f[1])], predict.Follower{ID: annex.ID(f[2]), Within: time.Duration(p.at(f[3])), Probability: probability})
	case "pressure":
		p.m.Pressure(annex.ID(f[2]), annex.Pressure{At: p.at(f[1]), Some: time.Duration(p.at(f[3]))})
	case "plan":
		requests, next := p.m.Plan(p.at(f[1]))
		for _, r := range requests {
			fmt.Fprintf(&p.out, "> %s %s %s", r.Op, r.ID, r.Why)
			for _, run := range r.Runs {
				fmt.Fprintf(&p.out, " %d-%d", run.First, run.End()-1)
			}
			if r.By != 0 {
				fmt.Fprintf(&p.out, " by %v", time.Duration(r.By))
			}
			fmt.Fprintln(&p.out)
		}
		if next != 0 {
			fmt.Fprintf(&p.out, "> next %v\n", time.Duration(next))
		}
		p.asked = append(p.asked, requests...)
	case "done":
		some := len(f) > 2
		var stuck []annex.Request
		if some {
			if name, ok := strings.CutPrefix(f[2], "but="); ok {
				some = false
				stuck = slices.DeleteFunc(slices.Clone(p.asked), func(r annex.Request) bool { return r.ID != annex.ID(name) })
				p.asked = slices.DeleteFunc(p.asked, func(r annex.Request) bool { return r.ID == annex.ID(name) })
			}
		}
		defer func() { p.asked = append(stuck, p.asked...) }()
		for len(p.asked) > 0 {
			r := p.asked[0]
			p.asked = p.asked[1:]
			pages := annex.Count(r.Runs)
			res := annex.Result{Number: r.Number, ID: r.ID, Op: r.Op, Began: p.at(f[1]) - 1, Ended: p.at(f[1]), Asked: pages, Moved: pages}
			for _, kv := range f[2:] {
				k, v, _ := strings.Cut(kv, "=")
				switch k {
				case "moved":
					res.Moved = int(p.number(v))
					res.Stopped = true
				case "skipped":
					res.Skipped = int(p.number(v))
					res.Stopped = false
				}
			}
			res.Freed = res.Moved
			p.m.Done(res)
			if some {
				return
			}
		}
	case "status":
		e, ok := p.m.Explain(annex.ID(f[1]))
		if !ok {
			p.t.Fatalf("line %d: no context %s", p.line, f[1])
		}
		fmt.Fprintf(&p.out, "> awake %v, resident %d, extended %d, share %d, record %d, activations %d, probes %d, hits %d, misses %d, wasted %d, errors %d\n", e.Awake,
			e.ResidentBytes/annex.PageSize, e.ExtendedBytes/annex.PageSize, e.ShareBytes/annex.PageSize, e.RecordBytes/annex.PageSize, e.Activations, e.Probes, e.Use.Hits, e.Use.Misses, e.Use.Wasted, e.Use.Errors)
		for _, d := range e.Decisions {
			fmt.Fprintf(&p.out, "> %v %s %s %d: %s\n", time.Duration(d.First), d.Op, d.Why, d.Pages, d.Says)
		}
		if e.Held != "" {
			fmt.Fprintf(&p.out, "> held: %s\n", e.Held)
		}
	case "drain":
		p.m.Drain(f[1] == "on")
	default:
		p.t.Fatalf("line %d: what is %s?", p.line, f[0])
	}
}
