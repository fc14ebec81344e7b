package cli

import (
	"io"

	"github.com/spf13/cobra"

	"tare/cli/command"
	"tare/kernel/file"
	"tare/overhead"
	"tare/record"
	"tare/terminal"
)

func (a *app) export() *cobra.Command {
	var format, out string
	var redact bool
	cmd := &cobra.Command{
		Use:   "export RUN",
		Short: "Give a run to other tools",
		Long: `Export writes a run: as JSON (the result with its verdicts, by the schema in
overhead/schema), as CSV (a row a sample), or in the Go benchmark format (benchstat
reads it). RUN is an id, its beginning, or latest.`,
		Example:           "  tare export latest --format csv > samples.csv\n  tare export latest --format json --redact --out run.json",
		Args:              command.ExactArgs(1),
		ValidArgsFunction: a.completeRuns,
	}
	cmd.Flags().StringVar(&format, "format", "json", "json, csv or benchfmt")
	cmd.Flags().StringVar(&out, "out", "", "file to write (default: standard output)")
	cmd.Flags().BoolVar(&redact, "redact", false, "take out host name, paths, user names and environment")
	must(
		cmd.RegisterFlagCompletionFunc(
			"format",
			cobra.FixedCompletions([]string{"json", "csv", "benchfmt"}, cobra.ShellCompDirectiveNoFileComp),
		),
	)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		write, ok := map[string]func(io.Writer, record.Run) error{
			"json": func(w io.Writer, r record.Run) error {
				return overhead.JSON(w, overhead.NewDocument(r, overhead.Analyse(r, overhead.Options{})))
			},
			"csv":      overhead.CSV,
			"benchfmt": overhead.Benchfmt,
		}[format]
		if !ok {
			return usageError("--format %s: want json, csv or benchfmt", format)
		}
		r, err := a.run(args)
		if err != nil {
			return err
		}
		if redact {
			r = overhead.Redact(r)
		}
		if out == "" || out == "-" {
			return write(terminal.Document(a.out), r)
		}
		return file.Replace(out, func(w io.Writer) error { return write(w, r) })
	}
	return cmd
}
