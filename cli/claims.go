package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tare/claim"
	"tare/kernel/host"
	"tare/record"
	"tare/report"
)

func (a *app) claims() *cobra.Command {
	var jsonPath string
	var whole bool
	cmd := &cobra.Command{
		Use:   "claims [ID...]",
		Short: "List what papers claim of containers, and what this host shows",
		Long: `Claims lists what five papers claim of containers, and what has come of each claim
on this host: confirmed, refuted, qualified or inconclusive, or not yet run, with the command that
runs it. Of the complete runs that judge it, that of most blocks counts, by the newest
measuring code; runs of one design on this host are pooled. ID names a claim
(S1.1), which is then printed whole, or a paper (S1), whose claims are listed.`,
		Example: `  tare claims
  tare claims S1.1
  tare claims S1 --json -`,
		ValidArgsFunction: completeClaims,
	}
	cmd.Flags().BoolVar(&whole, "all", false, "print every claim whole: figures, how it is judged, and our own")
	cmd.Flags().StringVar(&jsonPath, "json", "", "write the claims as JSON to this file (- for standard output)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		claims, named, err := chosenClaims(args)
		if err != nil {
			return err
		}
		here := hostRecord(host.Read("/"))
		found, notes, err := a.bestJudgements(here)
		if err != nil {
			return err
		}
		rows := claim.Rows(claims, found, func(c claim.Claim) bool { return runnable(cmd.Root(), c) })
		if jsonPath == "-" {
			return claim.JSON(a.out, claim.NewDocument(here, rows, notes))
		}
		if jsonPath != "" {
			if err := a.emitJSON(jsonPath, claim.NewDocument(here, rows, notes)); err != nil {
				return err
			}
		}
		rows = a.proposed(rows)
		opt := report.TerminalOptions{Width: terminalWidth(a.out), Color: isTerminal(a.out)}
		if whole || named {
			return report.ClaimTexts(a.out, rows, notes, opt)
		}
		opt.Next = a.again("tare claims " + claims[0].ID)
		return report.ClaimList(a.out, here, rows, notes, opt)
	}
	return cmd
}

// proposed gives the commands of claims that this tare can run the state directory that
// this one was given. A document has them without: it is not read on this host alone.
func (a *app) proposed(rows []claim.Row) []claim.Row {
	if a.home == "" {
		return rows
	}
	rows = slices.Clone(rows)
	for i, r := range rows {
		if r.Runnable {
			rows[i].Command = a.withHome(r.Command)
		}
	}
	return rows
}

// withHome gives a command line of tare's the state directory that this one was given.
func (a *app) withHome(line []string) []string {
	if a.home == "" {
		return line
	}
	return slices.Concat(line[:1], []string{"--home", a.home}, line[1:])
}

// chosenClaims gives the claims that the arguments name, in the papers' order,
// and whether any is named itself; all where there are no arguments.
func chosenClaims(args []string) (claims []claim.Claim, named bool, err error) {
	if len(args) == 0 {
		return claim.All(), false, nil
	}
	var papers []string
	for _, p := range claim.Papers() {
		papers = append(papers, p.Key)
	}
	chosen := map[string]bool{}
	for _, arg := range args {
		key := strings.ToUpper(arg)
		if number, ok := strings.CutPrefix(key, "S"); ok && isNumber(number) && !slices.Contains(papers, key) {
			return nil, false, usageError("no claim %q, and no such paper: there are %s. `tare claims` lists their claims", arg, strings.Join(papers, ", "))
		}
		if slices.Contains(papers, key) {
			for _, c := range claim.All() {
				chosen[c.ID] = chosen[c.ID] || c.Paper.Key == key
			}
			continue
		}
		c, err := claim.Lookup(arg)
		if err != nil {
			return nil, false, err
		}
		chosen[c.ID], named = true, true
	}
	return slices.DeleteFunc(claim.All(), func(c claim.Claim) bool { return !chosen[c.ID] }), named, nil
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 64)
	return err == nil
}

// bestJudgements reads the store, if there is one: where nothing has been
// measured, nothing is judged.
func (a *app) bestJudgements(here record.Host) (map[string]claim.Judgement, []string, error) {
	dir, err := a.stateDir()
	if err != nil {
		return nil, nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, storeFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	store, err := a.openStore()
	if err != nil {
		return nil, nil, err
	}
	defer store.Close()
	return claim.Best(store, judges, here)
}

// runnable reports whether this tare has the command that judges a claim.
func runnable(root *cobra.Command, c claim.Claim) bool {
	cmd, _, err := root.Find(c.Command[1:])
	return err == nil && cmd != root
}

// completeClaims offers the claims and the papers.
func completeClaims(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, p := range claim.Papers() {
		names = append(names, p.Key+"\t"+p.Title)
	}
	for _, c := range claim.All() {
		names = append(names, c.ID+"\t"+c.Short)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
