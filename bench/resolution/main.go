// Command resolution measures how finely rounds of slices resolve, for SPECIFICATION.md.
// Its parts are:
//
//   - redis2m: two minutes of redis, bare metal against Docker, ten times;
//   - weigh: what `make weigh` does, by rounds;
//   - designs: short runs by blocks and by rounds in turn, of equal length;
//   - aa-redis, aa-ffmpeg: bare metal against itself, 20 s a run;
//   - plants: redis slowed down by a preloaded library, by known amounts, and by stalls;
//   - overhead: the CPU time of the load generator, and of tare itself;
//   - recordings: strips of bare metal against itself, for the simulation of coverage. It
//     has to be named: what it writes goes into the repository.
//
// Each part is a list of jobs. A job that has ended is appended to a file, a JSON object a
// line, and does not run again: a part that was interrupted goes on where it was. The
// summary at the end is of all that the file holds.
//
// It needs root, bin/tare and an otherwise idle host; plants needs a C compiler besides.
// What misses its target is no error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare/kernel/host"
	"tare/platform/bare"
	"tare/terminal"
)

func main() {
	bare.Reexec()
	b := bench{}
	out := flag.String("out", "", "file of finished jobs (default bench/resolution/out/results.jsonl, or short.jsonl with -short)")
	parts := flag.String("part", strings.Join(defaultParts, ","), "parts to carry out, of "+strings.Join(partNames(), ","))
	report := flag.Bool("report", false, "carry out nothing: print the summary of what the file holds")
	flag.BoolVar(&b.short, "short", false, "each job once, as short as it can be: to see that it works")
	flag.StringVar(&b.binary, "tare", "bin/tare", "the tare binary")
	flag.StringVar(&b.home, "home", "/var/lib/tare", "state directory, for images and runs")
	flag.Int64Var(&b.seed, "seed", 1, "seed of everything that is drawn")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := b.run(ctx, *out, strings.Split(*parts, ","), *report, flag.Args()); err != nil {
		terminal.Fprintln(os.Stderr, "resolution:", err)
		os.Exit(1)
	}
}

type bench struct {
	short        bool
	binary, home string
	seed         int64

	results *results
	commit  string
	boot    string
	plant   *plant // made by the first job that needs it
}

// job is one step of a part.
type job struct {
	name string
	run  func(ctx context.Context, seed int64) (runs []string, found result, err error)
}

// parts are the lists of jobs, in the order in which they are carried out.
var parts = []struct {
	name string
	jobs func(*bench) []job
}{
	{"redis2m", (*bench).redisJobs},
	{"weigh", (*bench).weighJobs},
	{"designs", (*bench).designJobs},
	{"aa-redis", func(b *bench) []job { return b.aaJobs("redis", 60) }},
	{"aa-ffmpeg", func(b *bench) []job { return b.aaJobs("ffmpeg", 40) }},
	{"plants", (*bench).plantJobs},
	{"overhead", (*bench).overheadJobs},
	{"recordings", (*bench).recordingJobs},
}

var defaultParts = []string{"redis2m", "weigh", "designs", "aa-redis", "aa-ffmpeg", "plants", "overhead"}

func partNames() []string {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

func (b *bench) run(ctx context.Context, out string, wanted []string, report bool, rest []string) (err error) {
	if len(rest) > 0 {
		return fmt.Errorf("%s: parts are named by -part", rest[0])
	}
	for _, name := range wanted {
		if !slices.Contains(partNames(), name) {
			return fmt.Errorf("-part %s: there are %s", name, strings.Join(partNames(), ", "))
		}
	}
	if out == "" {
		out = filepath.Join("bench", "resolution", "out", "results.jsonl")
		if b.short {
			out = filepath.Join("bench", "resolution", "out", "short.jsonl")
		}
	}
	if b.results, err = openResults(out); err != nil {
		return err
	}
	if !report {
		err = b.carryOut(ctx, wanted)
	}
	targets := judge(b.results.lines)
	_, _ = io.WriteString(terminal.To(os.Stdout), asText(targets, b.results.lines))
	page := strings.TrimSuffix(out, filepath.Ext(out)) + ".md"
	if werr := os.WriteFile(page, []byte(asMarkdown(targets, b.results.lines)), 0o644); werr != nil {
		return errors.Join(err, werr)
	}
	terminal.Fprintf(os.Stdout, "The same as Markdown: %s\n", page)
	return err
}

// carryOut carries out what the file does not hold yet. A job that fails leaves the others
// to go on.
func (b *bench) carryOut(ctx context.Context, wanted []string) error {
	text, err := exec.Command("git", "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return fmt.Errorf("git describe: %w: results are kept by commit", err)
	}
	b.commit = strings.TrimSpace(string(text))
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	b.boot = strings.TrimSpace(string(boot))
	defer func() {
		if b.plant != nil {
			os.RemoveAll(b.plant.dir)
		}
	}()
	var failed []error
	for _, p := range parts {
		if !slices.Contains(wanted, p.name) {
			continue
		}
		jobs := p.jobs(b)
		for i, j := range jobs {
			if b.results.has(p.name, i+1) {
				continue
			}
			terminal.Fprintf(os.Stderr, "%s %s: %d of %d, %s\n", time.Now().Format(time.TimeOnly), p.name, i+1, len(jobs), j.name)
			if err := b.do(ctx, p.name, i+1, j); err != nil {
				if ctx.Err() != nil {
					return errors.Join(append(failed, context.Cause(ctx))...)
				}
				terminal.Fprintln(os.Stderr, err)
				failed = append(failed, err)
			}
		}
	}
	return errors.Join(failed...)
}

func (b *bench) do(ctx context.Context, part string, number int, j job) error {
	l := line{
		Part:    part,
		Number:  number,
		Name:    j.name,
		Short:   b.short,
		Commit:  b.commit,
		Seed:    seedOf(b.seed, part, number),
		Host:    host.Read("/").Hostname,
		Boot:    b.boot,
		Started: time.Now(),
	}
	var err error
	if l.Runs, l.result, err = j.run(ctx, l.Seed); err != nil {
		return fmt.Errorf("%s %d, %s: %w", part, number, j.name, err)
	}
	l.Seconds = time.Since(l.Started).Seconds()
	return b.results.add(l)
}

// seedOf is a job's own seed, which does not depend on what ran before.
func seedOf(seed int64, part string, number int) int64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %d", seed, part, number)
	return int64(h.Sum64() % 1e9)
}

// times gives how often a job is repeated, and lasting how long one takes.
func (b *bench) times(n int) int {
	if b.short {
		return 1
	}
	return n
}

func (b *bench) lasting(full, short time.Duration) time.Duration {
	if b.short {
		return short
	}
	return full
}
