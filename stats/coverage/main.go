// Command coverage finds by simulation how often each interval of package stats
// holds the true value, and writes the tables into docs/statistics.md between
// its markers. It is deterministic: every figure follows from the seed and the
// number of replications that the page names.
//
// It is not a test: the test beside it runs the same simulation shorter, and
// checks the published tables against it.
package main

//go:generate go run . -into ../../docs/statistics.md

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "coverage:", err)
		os.Exit(1)
	}
}

func run(args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("coverage", flag.ContinueOnError)
	flags.SetOutput(progress)
	into := flags.String("into", "", "write the tables into this page, between its markers; default: print them")
	seed := flags.Uint64("seed", publishedSeed, "seed of the simulation")
	share := flags.Float64("share", 1, "share of each table's replications to run, 0 to 1")
	only := flags.String("only", "", "make only the tables whose title matches this regular expression; with -into, the others stay as they are")
	workers := flags.Int("workers", runtime.NumCPU(), "simulations to run at once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if !(*share > 0 && *share <= 1) {
		return fmt.Errorf("-share %v: want more than 0 and at most 1", *share)
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	all, err := tables()
	if err != nil {
		return err
	}
	chosen := slices.DeleteFunc(all, func(t *table) bool { return !wanted.MatchString(t.title) })
	if len(chosen) == 0 {
		return fmt.Errorf("-only %q: no table has such a title", *only)
	}
	texts := make([][]byte, len(chosen))
	// Whatever is wrong with the page shows before the long work, not after it.
	var page []byte
	if *into != "" {
		if page, err = os.ReadFile(*into); err != nil {
			return err
		}
		if _, err := insert(page, chosen, texts, *only == ""); err != nil {
			return fmt.Errorf("%s: %w", *into, err)
		}
	}
	for i, t := range chosen {
		fmt.Fprintln(progress, t.title)
		t.replications = max(1, int(*share*float64(t.replications)))
		var text bytes.Buffer
		t.write(&text, t.simulate(*seed, max(1, *workers)), *seed)
		texts[i] = text.Bytes()
	}
	if *into == "" {
		_, err := out.Write(bytes.Join(texts, nil))
		return err
	}
	page, err = insert(page, chosen, texts, *only == "")
	if err != nil {
		return fmt.Errorf("%s: %w", *into, err)
	}
	return os.WriteFile(*into, page, 0o644)
}
