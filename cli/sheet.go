package cli

import (
	"fmt"
	"io"
	"path/filepath"

	"tare/claim"
	"tare/overhead"
	"tare/record"
	"tare/report"
	"tare/study/startup"
)

// startupSheet composes a run's page.
func startupSheet(run record.Run, store *record.Store, next []string) (report.Sheet, error) {
	judgements, err := claim.Settle(run, startup.Judge(run))
	if err != nil {
		return report.Sheet{}, err
	}
	s := startup.Sheet(run, func(trialID int64, name string) ([]byte, error) {
		a, err := store.Attachment(trialID, name)
		return a.Data, err
	}, judgements)
	s.Next = next
	return s, nil
}

// presentStartup writes a run's HTML, JSON and profiles, and shows its screen.
func (a *app) presentStartup(run record.Run, store *record.Store, out, jsonPath string, next []string) error {
	s, err := startupSheet(run, store, next)
	if err != nil {
		return err
	}
	page := filepath.Join(out, run.ID+".html")
	if err := writeFile(page, func(w io.Writer) error { return report.SheetHTML(w, s, report.HTMLOptions{}) }); err != nil {
		return err
	}
	screen := a.out
	document := func(w io.Writer) error {
		return overhead.JSON(w, overhead.NewDocument(run, overhead.Analyse(run, overhead.Options{})))
	}
	switch jsonPath {
	case "":
	case "-":
		screen = a.err
		if err := document(a.out); err != nil {
			return err
		}
	default:
		if err := writeFile(jsonPath, document); err != nil {
			return err
		}
	}
	files, err := a.writeProfiles(run, store, out)
	if err != nil {
		return err
	}
	if err := report.SheetTerminal(screen, s, report.TerminalOptions{Width: terminalWidth(screen), Color: isTerminal(screen), Report: page}); err != nil {
		return err
	}
	for _, f := range files {
		fmt.Fprintf(screen, "go tool pprof %s\n", f)
	}
	return nil
}

// writeProfiles writes a run's merged profiles beside its page, one a platform
// and kind.
func (a *app) writeProfiles(run record.Run, store *record.Store, out string) ([]string, error) {
	profiles, err := startup.Profiles(run, func(trialID int64, name string) ([]byte, error) {
		found, err := store.Attachment(trialID, name)
		return found.Data, err
	})
	if err != nil {
		return nil, err
	}
	var files []string
	for _, p := range profiles {
		path := filepath.Join(out, run.ID+"-"+p.Name+".pprof")
		if err := writeFile(path, p.Write); err != nil {
			return nil, err
		}
		files = append(files, path)
	}
	return files, nil
}

// showStartup shows a stored run again.
func (a *app) showStartup(run record.Run, html string) error {
	store, err := a.openStore()
	if err != nil {
		return err
	}
	defer store.Close()
	next := []string{nextCommand(run)}
	s, err := startupSheet(run, store, next)
	if err != nil {
		return err
	}
	page := func(w io.Writer) error { return report.SheetHTML(w, s, report.HTMLOptions{}) }
	switch html {
	case "":
		return report.SheetTerminal(a.out, s, report.TerminalOptions{Width: terminalWidth(a.out), Color: isTerminal(a.out)})
	case "-":
		return page(a.out)
	}
	return writeFile(html, page)
}
