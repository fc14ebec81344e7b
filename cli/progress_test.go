package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tare/image"
	"tare/lab"
	"tare/report"
)

// Progress names a condition as pages do.
func TestProgressNamesConditionsByTheirLabels(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.event(lab.Event{Kind: lab.Reported, Condition: "a beside b@file,page-cluster 0", Label: "file, page-cluster 0", Text: "1 neighbour"})
	if want := "file, page-cluster 0: 1 neighbour\n"; out.String() != want {
		t.Errorf("showed %q, want %q", out.String(), want)
	}
}

// Elsewhere than on a terminal a strip has no line, and a condition one where its interval
// has narrowed noticeably.
func TestProgressOfRounds(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.event(lab.Event{Kind: lab.Stripped, Group: "redis", Block: 1, Rounds: true, Text: "strip 3: get"})
	if !p.table("redis", true) || p.table("redis", true) || !p.table("redis", false) || p.table("redis", false) {
		t.Error("the pilot and the rounds have one table each")
	}
	for i, half := range []float64{1, 0.9, 0.7} {
		p.event(lab.Event{Kind: lab.Blocked, Group: "redis", Block: i + 3, Rounds: true})
		p.know([]report.Live{{Condition: "redis@docker", Text: fmt.Sprintf("redis docker: get +2.0 %% ±%.1f", half), HalfWidth: half}})
	}
	want := "redis: round 3 done\nredis docker: get +2.0 % ±1.0\nredis: round 4 done\nredis: round 5 done\nredis docker: get +2.0 % ±0.7\n"
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}

// On a terminal the lines of conditions are written over.
func TestProgressOfRoundsIsWrittenOver(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.tty = true
	p.know([]report.Live{{Condition: "redis@docker", Text: "redis docker: get +2.0 % ±1.0", HalfWidth: 1}})
	p.event(lab.Event{Kind: lab.Stripped, Group: "redis", Block: 4, Rounds: true, Text: "strip 1: get"})
	p.know([]report.Live{{Condition: "redis@docker", Text: "redis docker: get +2.0 % ±0.9", HalfWidth: 0.9}})
	p.event(lab.Event{Kind: lab.Stripped, Group: "redis", Block: 5, Rounds: true, Text: "strip 1: get"})
	p.clear()
	const blank, up = "\r\x1b[K", "\x1b[A"
	want := blank + "redis docker: get +2.0 % ±1.0\n" + blank + "round 4: redis strip 1: get" + blank + up + blank +
		blank + "redis docker: get +2.0 % ±0.9\n" + blank + "round 5: redis strip 1: get" + blank + up + blank
	if out.String() != want {
		t.Errorf("printed\n%q, want\n%q", out.String(), want)
	}
}

// A slow step of an image shows its progress: a terminal has one line that is rewritten, a log a line twice a minute.
func TestProgressOfAnImage(t *testing.T) {
	for _, onTerminal := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			p := newProgress(&out)
			p.tty = onTerminal
			p.note("fetching 40 packages for redis")
			for n := range 65 {
				time.Sleep(time.Second)
				p.step(image.Step{What: "fetching 40 packages for redis", Done: n / 2, Of: 40, Took: time.Duration(n+1) * time.Second})
			}
			p.note("compiling")
			want := "fetching 40 packages for redis\n" +
				"fetching 40 packages for redis: 14 done, for 30 s\nfetching 40 packages for redis: 29 done, for 1 min\ncompiling\n"
			if onTerminal {
				last := "\r\x1b[Kfetching 40 packages for redis: 32 done, for 1 min 5 s\r\x1b[Kcompiling\n"
				if text := out.String(); !strings.HasSuffix(text, last) || strings.Count(text, "\n") != 2 {
					t.Errorf("on a terminal it ends in %q, want %q", text[max(0, len(text)-2*len(last)):], last)
				}
			} else if out.String() != want {
				t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
			}
		})
	}
}
