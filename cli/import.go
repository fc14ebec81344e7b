package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/claim"
	"tare/cli/command"
	"tare/kernel/file"
	"tare/record"
	"tare/record/foreign"
	"tare/study/imported"
	"tare/study/io/place"
)

// importFlags are the options for files of results.
type importFlags struct {
	options        foreign.Options
	format         string
	claim          string
	smallestEffect string
	out, json      string
}

func (a *app) importing() *cobra.Command {
	f := &importFlags{}
	o := &f.options
	cmd := &cobra.Command{
		Use:   "import FILE... --format FORMAT",
		Short: "Judge figures measured elsewhere by the same statistics",
		Long: `Import makes a run of figures that were measured elsewhere, and shows it by the same
statistics as tare's own runs. The run is marked as imported, and every page says
what its design lacks. Show, compare and export work on it.

Each value has factors. They come from:

  columns of a csv file, or parts of a benchmark's name
  --name     file names
  --columns  headings of a matrix
  --factor   one value for all

The levels of the factor --condition are compared with its level --baseline. The
factor --block counts repetitions. All other factors make cells; conditions are
compared within a cell. They are compared as two samples, or with --paired as pairs
of the same level of --block.

docs/import.md describes each format, with examples.`,
		Example: `  printf 'storage,copy\nbare,100\nbare,101\nbind,99\nbind,98\n' > figures.csv
  tare import figures.csv --format csv --value copy --unit MB/s --condition storage --baseline bare
  tare weigh redis --quick && tare export latest --format benchfmt > redis.txt
  tare import redis.txt --format benchfmt --metric metric --condition platform --baseline bare`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	var formats []string
	for _, format := range foreign.Formats {
		formats = append(formats, string(format))
	}
	flags.StringVar(&f.format, "format", "", "one of "+strings.Join(formats, ", "))
	flags.StringSliceVar(&o.Condition, "condition", nil, "factor whose levels are compared; of several, their combinations")
	flags.StringSliceVar(&o.Baseline, "baseline", nil, "level of --condition that the others are compared with")
	flags.StringVar(&o.Block, "block", "", "factor that counts repetitions (default: values of a cell are repetitions, in their order)")
	flags.BoolVar(&o.Paired, "paired", false, "values of the same level of --block were measured together: compare them as pairs")
	flags.BoolVar(&o.Mean, "mean", false, "values of the same level of --block are samples of one repetition: take their mean")
	flags.StringVar(&o.Name, "name", "", "read factors from file names, such as '{storage}-{block}.csv'; * is any text")
	flags.StringArrayVar(&o.Factors, "factor", nil, "factor of all the data, such as network=host")
	flags.StringSliceVar(&o.Values, "value", nil, "csv: columns with values, each a metric (default value)")
	flags.StringVar(&o.Metric, "metric", "", "csv: column that names the metric; benchfmt: factor that does (default: the unit names it)")
	flags.StringVar(&o.UnitColumn, "unit-column", "", "csv: column that names the unit")
	flags.StringVar(&o.Columns, "columns", "", "csv: read a matrix, with factors in its headings, such as '{elements}_{processes}'")
	flags.StringSliceVar(&o.Rows, "rows", nil, "csv: metrics of a matrix's rows, if its first column does not name them")
	flags.StringVar(&o.Cells, "cells", "", "haccio: order of the cells, the last factor varying fastest, such as 'particles=1e6,5e6 ranks=1,2'")
	flags.StringArrayVar(&o.Units, "unit", nil, "unit of the values, such as MB/s, or of one metric, such as copy=MB/s")
	flags.StringArrayVar(&o.Better, "better", nil, "better direction: higher or lower, or of one metric, such as copy=higher (default: by the unit)")
	flags.StringArrayVar(&o.Rename, "rename", nil, "rename a factor (io_threads=io-threads), levels (storage:local=bare,bindMount=bind) or metrics (metric:OLD=NEW)")
	flags.StringArrayVar(&o.Scale, "scale", nil, "multiply a factor's levels, such as elements=1e6")
	flags.StringArrayVar(&o.Only, "only", nil, "levels to keep, such as metric:get,set")
	flags.StringSliceVar(&o.Ignore, "ignore", nil, "columns or factors to leave out")
	flags.StringVar(&o.Workload, "workload", "", "name of the workload (default: the claim's, or the format)")
	flags.StringVar(&f.claim, "claim", "", "judge this published claim, such as S5.1")
	flags.StringVar(&o.Order, "order", "", "order of measurement of the conditions, in words, such as 'one after the other'")
	flags.StringVar(&o.Host, "host-note", "", "machine that measured, in words")
	flags.StringVar(&f.smallestEffect, "smallest-effect", "2%", "smallest effect of interest")
	flags.StringVar(&f.out, "out", "", "directory for the HTML report (default: reports/ in the state directory)")
	flags.StringVar(&f.json, "json", "", "write the result as JSON to this file (- for standard output)")
	must(cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
	must(
		cmd.RegisterFlagCompletionFunc(
			"claim",
			func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				var ids []string
				for _, c := range claim.Of(place.Study) {
					ids = append(ids, c.ID+"\t"+c.Short)
				}
				return ids, cobra.ShellCompDirectiveNoFileComp
			},
		),
	)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.runImport(cmd.Context(), f, args) }
	return cmd
}

func (a *app) runImport(ctx context.Context, f *importFlags, names []string) error {
	if len(names) == 0 {
		return usageError("import: no file is named; run tare import FILE... --format FORMAT")
	}
	if err := f.settle(); err != nil {
		return err
	}
	if err := writable(f.json); err != nil {
		return err
	}
	run, err := readFiles(ctx, names, f.options)
	if err != nil {
		return err
	}
	if why := imported.Unread(run); f.claim != "" && why != "" {
		return usageError("--claim %s: %s", f.claim, why)
	}
	run.ID, run.Study = record.NewID(imported.Name, run.Started, uint16(drawSeed())), imported.Name
	run.Command, run.Version = a.args, versionText()
	dir, err := a.stateDir()
	if err != nil {
		return err
	}
	if command.IsHostsRoot() {
		if err := trustworthy(dir); err != nil {
			return err
		}
	}
	out := f.out
	if out == "" {
		out = filepath.Join(dir, "reports")
	}
	if err := file.OutputDirectory(out); err != nil {
		return err
	}
	store, err := record.Open(filepath.Join(dir, storeFile))
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.Import(ctx, run); err != nil {
		if ctx.Err() != nil {
			return nothingKept(ctx)
		}
		return err
	}
	if run, err = store.Run(run.ID); err != nil { // as every other command will see it
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("import: %w; the run is kept: tare show %s", context.Cause(ctx), run.ID)
	}
	return a.presentSheet(run, store, out, f.json, a.again(nextCommand(run), "tare show "+run.ID))
}

// settle completes the options that do not depend on the files.
func (f *importFlags) settle() error {
	o := &f.options
	o.Format, o.When = foreign.Format(f.format), time.Now()
	var err error
	if o.SmallestEffect, err = percent("smallest-effect", f.smallestEffect); err != nil {
		return err
	}
	if f.claim == "" {
		return nil
	}
	c, err := claim.Lookup(f.claim)
	if err != nil {
		return err
	}
	if c.Study != place.Study {
		var can []string
		for _, c := range claim.Of(place.Study) {
			can = append(can, c.ID)
		}
		return usageError("--claim %s: want %s; other claims depend on how tare measures", c.ID, strings.Join(can, ", "))
	}
	of := c.Command[len(c.Command)-1]
	o.Factors, o.Unsaid = append(slices.Clone(o.Factors), place.FactorOf+"="+of), []string{place.FactorOf}
	if o.Workload == "" {
		o.Workload = of
	}
	if len(o.Condition) == 0 {
		o.Condition = []string{place.FactorStorage}
	}
	if len(o.Baseline) == 0 {
		o.Baseline = []string{place.Bare}
	}
	return nil
}

// readFiles reads files of results, one after the other.
func readFiles(ctx context.Context, names []string, opt foreign.Options) (record.Run, error) {
	var files []foreign.File
	for _, name := range names {
		if err := regular(name); err != nil {
			return record.Run{}, err
		}
		files = append(files, foreign.File{Name: name, Open: func() (io.ReadCloser, error) { return file.Open(name) }})
	}
	run, err := foreign.Read(ctx, files, opt)
	if err != nil && ctx.Err() != nil {
		return run, nothingKept(ctx)
	}
	if err != nil {
		return run, fmt.Errorf("import: %w", err)
	}
	return run, nil
}

// nothingKept is the error of an import that stored nothing.
func nothingKept(ctx context.Context) error {
	return fmt.Errorf("import: %w; nothing was kept", context.Cause(ctx))
}

// regular refuses what is no regular file. A pipe that waits for a writer could not be
// interrupted, and could not be read again to compare its hash.
func regular(name string) error {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return withCode(exitUsage, fmt.Errorf("import: %w", err))
	case info.IsDir():
		return usageError("import: %s is a directory: name its files", name)
	case !info.Mode().IsRegular():
		return usageError("import: %s is no regular file: save its data to a file, and import that", name)
	}
	return nil
}
