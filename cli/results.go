package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"tare/claim"
	"tare/kernel/file"
	"tare/record"
	"tare/report"
	"tare/study/reproduction"
)

// Results are the runs that pages of results are made of: those of one store.
type Results struct {
	app   *app
	hosts []record.Host // that they are of, that of the newest run first
	runs  []record.Run  // complete, newest first, without their trials
}

// ReadResults reads a state directory.
func ReadResults(home string) (*Results, error) {
	r := &Results{app: &app{home: home}}
	store, err := r.app.openStore()
	if err != nil {
		return nil, err
	}
	defer store.Close()
	runs, err := store.Runs()
	if err != nil {
		return nil, err
	}
	r.runs = slices.DeleteFunc(runs, func(run record.Run) bool { return run.Status != record.Complete })
	if len(r.runs) == 0 {
		return nil, fmt.Errorf("%s: no complete run", filepath.Join(home, storeFile))
	}
	for _, run := range r.runs {
		if !slices.ContainsFunc(r.hosts, func(h record.Host) bool { return claim.SameMachine(h, run.Host) }) {
			r.hosts = append(r.hosts, run.Host)
		}
	}
	return r, nil
}

// Sheet is the page of the newest run whose command line begins so, such as "tare latency cpu".
// That of "tare reproduce" is of all runs; claims and papers that it names are kept.
func (r *Results) Sheet(command string) (report.Sheet, error) {
	words := strings.Fields(command)
	if len(words) > 1 && words[1] == "reproduce" {
		return r.reproduced(words[2:])
	}
	i := slices.IndexFunc(r.runs, func(run record.Run) bool {
		line := plainWords(run.Command)
		return len(line) >= len(words) && slices.Equal(line[:len(words)], words)
	})
	if i < 0 {
		return report.Sheet{}, fmt.Errorf("no complete run of %s", command)
	}
	store, err := r.app.openStore()
	if err != nil {
		return report.Sheet{}, err
	}
	defer store.Close()
	run, err := store.Run(r.runs[i].ID)
	if err != nil {
		return report.Sheet{}, err
	}
	return sheetOf(run, store, nil)
}

// plainWords is a command line that begins with tare, wherever that lies, without its state
// directory.
func plainWords(line []string) []string {
	line = withoutHome(slices.Clone(line))
	if len(line) > 0 {
		line[0] = filepath.Base(line[0])
	}
	return line
}

func (r *Results) reproduced(names []string) (report.Sheet, error) {
	claims, _, err := chosenClaims(names)
	if err != nil {
		return report.Sheet{}, err
	}
	found, notes, err := r.judgements()
	if err != nil {
		return report.Sheet{}, err
	}
	rows := claim.Rows(claims, found, func(claim.Claim) bool { return true })
	// A store does not say what a host is able to: that table is left to the host itself.
	result := reproduction.Result{Rows: rows, Here: r.hosts[0], Runs: r.runs, Notes: notes}
	if result.Pages, err = r.app.pagesOf(rows); err != nil {
		return report.Sheet{}, err
	}
	return result.Sheet(), nil
}

// judgements are those of all hosts: of a claim that several judge, the first one's. The notes name
// the claims that another host than the first judges.
func (r *Results) judgements() (found map[string]claim.Judgement, notes []string, err error) {
	found = map[string]claim.Judgement{}
	for i, host := range r.hosts {
		own, more, err := r.app.bestJudgements(host)
		if err != nil {
			return nil, nil, err
		}
		notes = append(notes, more...)
		var of []string
		for _, c := range claim.All() {
			j, isJudged := own[c.ID]
			if _, isKnown := found[c.ID]; isJudged && !isKnown {
				found[c.ID], of = j, append(of, c.ID)
			}
		}
		if i > 0 && len(of) > 0 {
			notes = append(notes, fmt.Sprintf("measured on another host, %s: %s", report.HostFact(host), strings.Join(of, ", ")))
		}
	}
	return found, notes, nil
}

// Book writes the page of all claims, as `tare reproduce` writes it.
func (r *Results) Book(path string) error {
	sheet, err := r.reproduced(nil)
	if err != nil {
		return err
	}
	return file.Replace(path, func(w io.Writer) error { return report.SheetHTML(w, sheet) })
}
