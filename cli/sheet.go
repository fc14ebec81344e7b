package cli

import (
	"io"
	"path/filepath"
	"time"

	"tare/claim"
	"tare/kernel/file"
	"tare/overhead"
	"tare/record"
	"tare/report"
	"tare/study/kit"
	"tare/terminal"
)

// sheetOf composes the page of a run.
func sheetOf(run record.Run, store *record.Store, next []string) (report.Sheet, error) {
	s, ok := studies()[run.Study]
	if !ok {
		sheet := report.WeighSheet(run, overhead.Analyse(run, overhead.Options{}))
		sheet.Weight, sheet.Next = weightOf(run), next
		return sheet, nil
	}
	judgements, err := claim.Settle(run, judges[run.Study](run))
	if err != nil {
		return report.Sheet{}, err
	}
	sheet := s.Sheet(run, attachedTo(store), judgements)
	sheet.Next, sheet.Version = next, run.Version
	if killed(run) {
		sheet.Banners = append([]string{"killed: tare resume " + run.ID + " finishes it"}, sheet.Banners...)
	}
	if sheet.Command != "" && run.Seed != 0 && run.Status != record.Imported {
		sheet.Command = report.Reproduce(run) // in the same order
	}
	return sheet, nil
}

func attachedTo(store *record.Store) kit.Attachments {
	return func(trialID int64, name string) ([]byte, error) {
		a, err := store.Attachment(trialID, name)
		return a.Data, err
	}
}

// presentSheet writes a run's HTML, JSON and further files, and shows its screen.
func (a *app) presentSheet(run record.Run, store *record.Store, out, jsonPath string, next []string) error {
	sheet, err := sheetOf(run, store, next)
	if err != nil {
		return err
	}
	page := filepath.Join(out, run.ID+".html")
	if err := file.Replace(page, func(w io.Writer) error { return report.SheetHTML(w, sheet) }); err != nil {
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
		if err := file.Replace(jsonPath, document); err != nil {
			return err
		}
	}
	var opens []string
	if s := studies()[run.Study]; s.files != nil {
		files, err := s.files(run, attachedTo(store))
		if err != nil {
			return err
		}
		for _, f := range files {
			path := filepath.Join(out, run.ID+f.suffix)
			if err := file.Replace(path, f.write); err != nil {
				return err
			}
			opens = append(opens, f.opens+" "+path)
		}
	}
	options := report.TerminalOptions{Width: terminalWidth(screen), Color: isTerminal(screen), Report: page}
	if err := report.SheetTerminal(screen, sheet, options); err != nil {
		return err
	}
	for _, command := range opens {
		terminal.Fprintln(screen, command)
	}
	return nil
}

// showSheet shows a stored run again, or writes its page to a file (- for standard output).
func (a *app) showSheet(run record.Run, html string, all bool) error {
	store, err := a.openStore()
	if err != nil {
		return err
	}
	defer store.Close()
	sheet, err := sheetOf(run, store, a.again(nextCommand(run)))
	if err != nil {
		return err
	}
	return a.showOrWrite(sheet, html, all)
}

// showOrWrite shows a sheet's screen, or writes its page to a file (- for standard output).
func (a *app) showOrWrite(sheet report.Sheet, html string, all bool) error {
	page := func(w io.Writer) error { return report.SheetHTML(w, sheet) }
	switch html {
	case "":
		return report.SheetTerminal(
			a.out,
			sheet,
			report.TerminalOptions{Width: terminalWidth(a.out), Color: isTerminal(a.out), All: all},
		)
	case "-":
		return page(terminal.Document(a.out))
	}
	return file.Replace(html, page)
}

// presentLive shows what was seen of the host as it is, and writes its JSON, and its page
// into a directory where one was named.
func (a *app) presentLive(name string, sheet report.Sheet, document any, dir, jsonPath string) error {
	sheet.Next = a.again(sheet.Next...)
	sheet.Command = terminal.Shell(a.args...) // to be copied
	if jsonPath != "" {
		if err := a.emitJSON(jsonPath, document); err != nil {
			return err
		}
	}
	screen, page := a.out, ""
	if jsonPath == "-" {
		screen = a.err
	}
	if dir != "" {
		page = filepath.Join(dir, name+"-"+time.Now().UTC().Format("20060102-150405")+".html")
		if err := file.Replace(page, func(w io.Writer) error { return report.SheetHTML(w, sheet) }); err != nil {
			return err
		}
	}
	return report.SheetTerminal(
		screen,
		sheet,
		report.TerminalOptions{Width: terminalWidth(screen), Color: isTerminal(screen), Report: page},
	)
}
